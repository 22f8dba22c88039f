"""Register layouts that the tensor cores dictate."""

from __future__ import annotations

from functools import lru_cache

from phalanx.ir.archs import WARPGROUP
from phalanx.ir.ops.wgmma import ROWS
from phalanx.layouts.bits import is_power_of_two, log2, next_power_of_two
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import RegisterLayout, padded

FRAGMENT_LANES = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
"""What the lanes of a warp hold of an accumulator: two neighbours of row lane / 4."""


def is_fragment(layout: RegisterLayout) -> bool:
    """Whether a tile lies in registers as the tensor cores leave it."""
    return layout.rank == 2 and dict(layout.linear.bases)["lane"] == FRAGMENT_LANES


@lru_cache(maxsize=256)
def wgmma_accumulator(m: int, n: int, warps: int, along: str = "m") -> RegisterLayout:
    """The accumulator of `wgmma.mma_async.m64nN` (sm_90a), with M spread over the warpgroups, or N (`along` "n").

    Within a warpgroup, thread t (w = t / 32, l = t % 32) holds in register i the element
    row = 16 w + l / 4 + 8 ((i / 2) % 2), col = 8 (i / 4) + 2 (l % 4) + i % 2: n / 2 registers per 64 rows.
    Warpgroup g has rows 64 g .. 64 g + 63; further multiples of 64 rows follow in higher registers. Along N it has
    columns w g .. w g + w - 1 of all rows, where w, the columns of each, is a power of two. An f16 accumulator has two
    neighbours, i and i + 1, in each 32-bit register.

    Example: `wgmma_accumulator(128, 256, warps=8)` has 128 elements per thread.
    """
    if along == "n":
        return _wgmma_columns(m, n, warps)
    if warps % WARPGROUP:
        raise ValueError(f"wgmma runs on whole warpgroups of 4 warps, not on {warps} warps")
    if m % ROWS or m <= 0:
        raise ValueError(f"a wgmma accumulator has a multiple of 64 rows, not {m}")
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"wgmma needs N in 8..256, a multiple of 8, not {n}")
    groups, tiles = warps // WARPGROUP, m // ROWS
    if tiles % groups or (tiles != groups and not is_power_of_two(groups)):
        raise ValueError(f"{m} rows can't be spread evenly over {groups} warpgroups in steps of 64")
    shape = (m, n)
    rows, columns = padded(shape)
    group_bits = log2(next_power_of_two(groups))
    tile_bits = log2(rows // ROWS)
    linear = LinearLayout.make(
        {
            "register": [
                (0, 1),
                (8, 0),
                *((0, 8 << b) for b in range(log2(columns // 8))),
                *((ROWS << b, 0) for b in range(group_bits, tile_bits)),
            ],
            "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
            "warp": [(16, 0), (32, 0), *((ROWS << b, 0) for b in range(group_bits))],
        },
        (rows, columns),
    )
    return RegisterLayout(linear, shape, warps)


def _wgmma_columns(m: int, n: int, warps: int) -> RegisterLayout:
    """The accumulator with N spread over the warpgroups: each has all rows of its columns."""
    groups = warps // WARPGROUP
    if n % groups or not is_power_of_two(n // groups):
        raise ValueError(f"{n} columns can't be spread over {groups} warpgroups in equal powers of two")
    width = n // groups
    one = wgmma_accumulator(m, width, WARPGROUP)
    bases = dict(one.linear.bases)
    group_bits = log2(next_power_of_two(groups))
    linear = LinearLayout.make(
        {
            "register": list(bases["register"]),
            "lane": list(bases["lane"]),
            "warp": [*bases["warp"], *((0, width << b) for b in range(group_bits))],
        },
        padded((m, n)),
    )
    return RegisterLayout(linear, (m, n), warps)


MMA_ROWS, MMA_COLUMNS = 16, 8


@lru_cache(maxsize=256)
def mma_spread(m: int, n: int, warps: int) -> tuple[int, int]:
    """How many warps share the rows, and how many the columns, of the tile of an `mma.sync.m16n8`.

    Powers of two that divide the tile into equal parts: as many warps as can take part, and of those ways the one in
    which a warp reads least. What is left over of the warps repeats what others do.

    Example: `mma_spread(64, 64, warps=4) == (2, 2)`.
    """
    if m % MMA_ROWS or n % MMA_COLUMNS or m <= 0 or n <= 0:
        raise ValueError(f"mma.sync takes tiles of a multiple of 16 rows and 8 columns, not {m} x {n}")
    ways = [
        (1 << a, 1 << b)
        for a in range(6)
        for b in range(6)
        if 1 << (a + b) <= warps and m // MMA_ROWS % (1 << a) == 0 and n // MMA_COLUMNS % (1 << b) == 0
    ]
    return min(ways, key=lambda way: (-way[0] * way[1], m // way[0] + n // way[1], way))


@lru_cache(maxsize=256)
def mma_accumulator(m: int, n: int, warps: int) -> RegisterLayout:
    """The accumulator of `mma.sync.m16n8` (sm_80 and up), spread over the warps.

    Lane l holds of each 16 x 8 block row l / 4 (+ 8 in its registers 2 and 3), columns 2 (l % 4) and the next one.
    Blocks go to the warps in turn, along M first; a warp's further blocks follow in higher registers, along N first.
    """
    high, wide = mma_spread(m, n, warps)
    rows, columns = padded((m, n))
    registers = [(0, 1), (MMA_ROWS // 2, 0), *_along(1, MMA_COLUMNS * wide, columns), *_along(0, MMA_ROWS * high, rows)]
    return _mma_layout((m, n), warps, registers, FRAGMENT_LANES, _mma_warps(high, 0), _mma_warps(wide, 1))


@lru_cache(maxsize=256)
def mma_left(m: int, n: int, k: int, warps: int, itemsize: int) -> RegisterLayout:
    """The A operand (M x K) of `mma.sync.m16n8` with a tile of M x N.

    A 32-bit register holds 4 / `itemsize` neighbours along K; a lane's registers are, in order, the (row, k) blocks
    (0, 0), (8, 0), (0, 16 bytes), (8, 16 bytes), then further k, then further rows.
    """
    high, wide = mma_spread(m, n, warps)
    rows, columns = padded((m, k))
    word = _word(k, itemsize)
    registers = [*_along(1, 1, word), (MMA_ROWS // 2, 0), *_along(1, 4 * word, columns), *_along(0, MMA_ROWS * high, rows)]
    lanes = ((0, word), (0, 2 * word), (1, 0), (2, 0), (4, 0))
    return _mma_layout((m, k), warps, registers, lanes, _mma_warps(high, 0), [(0, 0)] * log2(wide))


@lru_cache(maxsize=256)
def mma_right(m: int, n: int, k: int, warps: int, itemsize: int) -> RegisterLayout:
    """The B operand (K x N) of `mma.sync.m16n8` with a tile of M x N.

    A 32-bit register holds 4 / `itemsize` neighbours along K of column lane / 4; further k follow, 16 bytes on, then
    further columns.
    """
    high, wide = mma_spread(m, n, warps)
    rows, columns = padded((k, n))
    word = _word(k, itemsize)
    registers = [*_along(0, 1, word), *_along(0, 4 * word, rows), *_along(1, MMA_COLUMNS * wide, columns)]
    lanes = ((word, 0), (2 * word, 0), (0, 1), (0, 2), (0, 4))
    return _mma_layout((k, n), warps, registers, lanes, [(0, 0)] * log2(high), _mma_warps(wide, 1))


@lru_cache(maxsize=256)
def mma_left_scales(m: int, n: int, count: int, warps: int) -> RegisterLayout:
    """The scales of A (M x scales along K) of a block-scaled `mma.sync.m16n8` (sm_120a) with a tile of M x N.

    Lane l holds those of row l / 4 + 8 (l % 2) of each 16: the two halves of four lanes hold the same, so that it does not
    matter which the instruction takes (its `thread-id`). Neighbours along K are neighbours in registers.
    """
    high, wide = mma_spread(m, n, warps)
    rows, columns = padded((m, count))
    registers = [*_along(1, 1, columns), *_along(0, MMA_ROWS * high, rows)]
    lanes = ((MMA_ROWS // 2, 0), (0, 0), (1, 0), (2, 0), (4, 0))
    return _mma_layout((m, count), warps, registers, lanes, _mma_warps(high, 0), [(0, 0)] * log2(wide))


@lru_cache(maxsize=256)
def mma_right_scales(m: int, n: int, count: int, warps: int) -> RegisterLayout:
    """The scales of B (N x scales along K) of a block-scaled `mma.sync.m16n8`: four lanes hold those of column lane / 4."""
    high, wide = mma_spread(m, n, warps)
    columns, depth = padded((n, count))
    registers = [*_along(1, 1, depth), *_along(0, MMA_COLUMNS * wide, columns)]
    lanes = ((0, 0), (0, 0), (1, 0), (2, 0), (4, 0))
    over_columns = _along(0, MMA_COLUMNS, MMA_COLUMNS * wide)
    return _mma_layout((n, count), warps, registers, lanes, [(0, 0)] * log2(high), over_columns)


Images = list[tuple[int, int]]


def _word(k: int, itemsize: int) -> int:
    """Elements of a 32-bit register."""
    if k * itemsize % 16:
        raise ValueError(f"K of an mma.sync operand is a multiple of {16 // itemsize} elements, not {k}")
    return 4 // itemsize


def _along(dim: int, first: int, end: int) -> Images:
    """Steps along one dimension, each twice the one before."""
    images: Images = []
    while first < end:
        images.append((first, 0) if dim == 0 else (0, first))
        first *= 2
    return images


def _mma_warps(count: int, dim: int) -> Images:
    block = (MMA_ROWS, MMA_COLUMNS)[dim]
    return _along(dim, block, block * count)


def _mma_layout(
    shape: tuple[int, int], warps: int, registers: Images, lanes: tuple[tuple[int, int], ...], high: Images, wide: Images
) -> RegisterLayout:
    idle = log2(next_power_of_two(warps)) - len(high) - len(wide)
    bases = {"register": registers, "lane": list(lanes), "warp": [*high, *wide, *[(0, 0)] * idle]}
    return RegisterLayout(LinearLayout.make(bases, padded(shape)), shape, warps)
