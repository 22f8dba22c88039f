"""Tiles that `ldmatrix` brings: 8 x 8 matrices of 16-bit elements, or any rows of eight times 16 bytes.

Lane l gets word l % 4 of row l / 4 of each matrix; the address of a row comes from one lane each. Transposed, it gets
elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4. So a load by `ldmatrix` reads chunks of 16 bytes in another layout:
the one in which lane l has row l % 8 of matrix l / 8. Chunks are not separated by any swizzle.
"""

from __future__ import annotations

from functools import lru_cache

from phalanx.frozen import frozen
from phalanx.layouts.bits import log2
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import RegisterLayout, padded

CHUNK_BYTES = 16


@frozen
class Matrices:
    """`layout`: which lane gives the address of which chunk, one slot per instruction, which brings `count` matrices."""

    layout: RegisterLayout
    count: int
    transposed: bool


@lru_cache(maxsize=256)
def matrices(layout: RegisterLayout, dim: int, itemsize: int) -> Matrices | None:
    """How `ldmatrix` brings a tile whose elements are neighbours in memory along `dim`; None if it can't.

    For layout inference and the emitter of loads. Only fragments of the tensor cores' operands qualify.
    """
    if layout.rank != 2 or itemsize > 4 or not layout.alive.all():
        return None
    bases = dict(layout.linear.bases)
    registers, lanes, warps = bases["register"], bases["lane"], bases["warp"]
    chunk, word = CHUNK_BYTES // itemsize, max(1, 4 // itemsize)

    def step(number: int, along: int) -> tuple[int, int]:
        return (number, 0) if along == 0 else (0, number)

    inner = log2(word)
    if len(registers) < inner:
        return None
    if tuple(lanes) == (*(step(word << b, dim) for b in range(2)), *(step(1 << b, 1 - dim) for b in range(3))):
        rows, transposed = list(lanes[2:]), False
        if registers[:inner] != tuple(step(1 << b, dim) for b in range(inner)):
            return None
    elif itemsize == 2 and tuple(lanes) == (step(2, 1 - dim), step(4, 1 - dim), *(step(1 << b, dim) for b in range(3))):
        rows, transposed = [registers[0], *lanes[:2]], True
        if registers[0] != step(1, 1 - dim):
            return None
    else:
        return None
    others = registers[inner:]
    if any(image[dim] % chunk for image in (*others, *warps)):
        return None

    def chunked(image: tuple[int, ...]) -> tuple[int, int]:
        pair = list(image)
        pair[dim] //= chunk
        return pair[0], pair[1]

    shape = list(layout.shape)
    if shape[dim] % chunk:
        return None
    shape[dim] //= chunk
    for bits in (2, 1, 0):
        if len(others) < bits:
            continue
        which = [chunked(image) for image in others[:bits]] + [(0, 0)] * (2 - bits)
        try:
            linear = LinearLayout.make(
                {
                    "register": [chunked(image) for image in others[bits:]],
                    "lane": [*map(chunked, rows), *which],
                    "warp": [chunked(image) for image in warps],
                },
                padded(shape),
            )
            found = RegisterLayout(linear, (shape[0], shape[1]), layout.warps)
        except ValueError:
            continue
        if found.alive.all() and found.num_registers * word << bits == layout.num_registers:
            return Matrices(found, 1 << bits, transposed)
    return None
