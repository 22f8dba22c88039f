"""Where descriptors have their address, sizes and strides: the driver is asked for some that differ in one of them.

A descriptor is opaque, but its fields are independent of each other: `tensormap.replace` of PTX writes single ones. To have
one encoded takes a call of the driver; to write an address and some words where they belong takes a fraction of that. So for
each kind of descriptor (type, rank, box, swizzle) the driver is asked once for several, which say where the words are; then
for many more with sizes, strides and addresses of all magnitudes, each of which must come out byte for byte. If one does
not, or the driver refuses one, there is no layout, and every descriptor is the driver's own.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

from phalanx.cuda.abi import TENSOR_MAP_BYTES
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.runtime.device.tensormap import Geometry, encode

UNIT = 16
"""Bytes that strides are counted in."""
WORD = 1 << 32
"""Sizes less one, and strides in units, are words of 32 bits: larger ones are left to the driver."""
SAMPLES = 24
"""Descriptors that are compared with the driver's before a layout is relied on."""
_ADDRESS = 0
_ADDRESSES = 0x7F3A5C7E9010, 0x10, 0x2FFFFFFFFFF0


@frozen
class MapLayout:
    """The fields of a descriptor in their order: `format` is the `struct` module's, `parts` say what each is.

    A part is bytes that are always the same, or the number of what a descriptor is made of: 0 is its address, then come its
    sizes, innermost first, of each of which 1 is taken off, then its strides, in units of 16 bytes.
    """

    format: str
    parts: tuple[bytes | int, ...]

    def fields(self, numbers: Sequence[int]) -> list[bytes | int]:
        """What is packed of a descriptor with an address, words of sizes and words of strides."""
        return [numbers[part] if isinstance(part, int) else part for part in self.parts]

    def packed(self, pointer: int, dims: Sequence[int], byte_strides: Sequence[int]) -> bytes:
        """The 128 bytes of a descriptor."""
        words = [size - 1 for size in dims], [step // UNIT for step in byte_strides]
        return struct.pack(self.format, *self.fields((pointer, *words[0], *words[1])))


def map_layout(driver: Any, fixed: Geometry) -> MapLayout | None:
    """The layout of descriptors that are as `fixed` says but for sizes and strides; None where nobody knows it."""
    key = "map layout", fixed
    if key not in driver.kept:
        try:
            driver.kept[key] = _verified(driver, fixed, _found(driver, fixed))
        except Error:  # the driver refuses a sample
            driver.kept[key] = None
    found: MapLayout | None = driver.kept[key]
    return found


def _sample(fixed: Geometry) -> list[int]:
    """An address, sizes and strides that have nothing in common."""
    rank = len(fixed.dims)
    sizes, strides = [1009 + 310 * axis for axis in range(rank)], [UNIT * (4099 + 97 * axis) for axis in range(rank - 1)]
    return [_ADDRESSES[0], *sizes, *strides]


def _encoded(driver: Any, fixed: Geometry, numbers: Sequence[int]) -> bytes:
    rank = len(fixed.dims)
    shape = fixed._replace(dims=tuple(numbers[1 : 1 + rank]), byte_strides=tuple(numbers[1 + rank :]))
    return encode(driver, numbers[_ADDRESS], shape)


def _found(driver: Any, fixed: Geometry) -> MapLayout | None:
    """What descriptors say that differ from one in a single number each."""
    if fixed.expands:
        return None
    rank, sample = len(fixed.dims), _sample(fixed)
    image = _encoded(driver, fixed, sample)
    places: dict[int, tuple[int, int]] = {}  # by offset: the number, and its bytes
    for number in range(len(sample)):
        other = list(sample)  # but for one number, of which every byte differs
        if number == _ADDRESS:
            other[number] ^= 0x0F0F0F0F0FF0
        else:
            other[number] += 0x01010101 if number <= rank else UNIT * 0x01010101
        changed = _encoded(driver, fixed, other)
        differ = [place for place in range(TENSOR_MAP_BYTES) if image[place] != changed[place]]
        size = 8 if number == _ADDRESS else 4
        if not differ:
            return None
        offset = differ[0] // size * size
        if differ[-1] >= offset + size or offset in places:
            return None
        places[offset] = number, size
    text, parts, end = "<", list[bytes | int](), 0
    for offset, (number, size) in sorted(places.items()):
        if offset < end:
            return None
        if offset > end:
            text += f"{offset - end}s"
            parts.append(image[end:offset])
        text += "Q" if size == 8 else "I"
        parts.append(number)
        end = offset + size
    if end < TENSOR_MAP_BYTES:
        text += f"{TENSOR_MAP_BYTES - end}s"
        parts.append(image[end:])
    return MapLayout(text, tuple(parts))


def _verified(driver: Any, fixed: Geometry, layout: MapLayout | None) -> MapLayout | None:
    """The layout, if it gives what the driver does, for numbers of all magnitudes; what the driver refuses is left out."""
    if layout is None:
        return None
    rank, rng, compared = len(fixed.dims), random.Random(0), 0
    for turn in range(SAMPLES):
        pointer = _ADDRESSES[turn] if turn < len(_ADDRESSES) else rng.getrandbits(rng.randint(5, 47)) // UNIT * UNIT or UNIT
        dims = [1 + rng.getrandbits(rng.randint(0, 31)) for _ in range(rank)]
        strides = [UNIT * (1 + rng.getrandbits(rng.randint(0, 31))) for _ in range(rank - 1)]
        if turn < 2:  # the largest and the least
            dims, strides = [(WORD, 1)[turn]] * rank, [(UNIT * (WORD - 1), 0)[turn]] * (rank - 1)
        try:
            wanted = _encoded(driver, fixed, (pointer, *dims, *strides))
        except Error:
            continue
        compared += 1
        if layout.packed(pointer, dims, strides) != wanted:
            return None
    return layout if compared >= SAMPLES // 2 else None
