"""TMA descriptors (CUtensorMap, 128 bytes): the hardware's rules in Python, then cuTensorMapEncodeTiled or ...Im2col.

The driver answers a broken rule with CUDA_ERROR_INVALID_VALUE and no more, so each rule is checked here
first.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from phalanx.cuda.abi import TENSOR_MAP_BYTES, TensorMapSlot
from phalanx.errors import Error
from phalanx.ir.archs import COPY_CHUNK, EXPANDED_ALIGNMENT, EXPANDED_BOX, MAX_BOX, MAX_DIM, MAX_STRIDE
from phalanx.runtime.device.arrays import ITEM_BYTES

# Enumerators of cuda.h. Types of the same width that need no arithmetic share a code. Packed elements are copied as bytes,
# but for copies that put room between them (16U4_ALIGN16B, 16U6_ALIGN16B).
DATA_TYPES = {
    "u8": 0, "i8": 0, "bool": 0, "f8e4m3": 0, "f8e5m2": 0, "f8e8m0": 0, "f6e2m3": 0, "f6e3m2": 0, "u16": 1,
    "i16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
}  # fmt: skip
EXPANDED_TYPES = {"f4e2m1": 14, "f6e2m3": 15, "f6e3m2": 15}
PACKED_SHARES = {"f4e2m1": (2, 1), "f6e2m3": (4, 3), "f6e3m2": (4, 3)}
"""How many elements share how many bytes of an array that such a copy reads."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
WIDE_SWIZZLE = 4  # CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B
L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_ADDRESSES = 512  # descriptors kept per geometry
_GEOMETRIES = 256  # geometries kept per kernel


class Geometry(NamedTuple):
    """All of a descriptor but its address, as the driver wants it: innermost axis first, strides in bytes.

    `byte_strides` has one entry less than `dims`: the innermost axis is contiguous. `walk` is that of a convolution's
    patches: corners and steps along each axis of the pixels.
    """

    dtype: str
    dims: tuple[int, ...]
    byte_strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    l2_promotion: int
    fill_nan: bool
    expands: bool = False
    wide: bool = False
    walk: tuple[tuple[int, ...], ...] = ()


def geometry(
    slot: TensorMapSlot, dtype: str, shape: Sequence[int], strides: Sequence[int], name: str = ""
) -> Geometry:
    """The geometry of an array's descriptor; a px.Error names the rule that the array or the box breaks.

    `strides` count elements; axes are outermost first. Needs no GPU.
    """
    what = f"array {name}" if name else f"an array of shape {tuple(shape)}"
    if slot.merged > 1:
        shape, strides = _merged(what, slot.merged, shape, strides)
    rank = len(shape)
    if not 1 <= rank <= 5:
        raise _broken(
            what, f"has rank {rank}, a TMA descriptor has 1 to 5 axes", "reshape it to at most 5 axes"
        )
    order, box = _innermost_first(slot, rank)
    item = ITEM_BYTES[dtype]
    dims = tuple([shape[axis] for axis in order])
    if strides[order[0]] != 1 and dims[0] > 1:
        raise _broken(
            what,
            f"has stride {strides[order[0]]} along its innermost axis, TMA needs 1",
            "pass a contiguous array (.contiguous(), np.ascontiguousarray) or use px.load",
        )
    if 0 in dims:
        raise _broken(
            what, "is empty, which a TMA descriptor can't express", "do not launch for an empty array"
        )
    if any([dim > MAX_DIM for dim in dims]):
        raise _broken(what, "has more than 2**32 elements along an axis", "split the array")
    count, nbytes = PACKED_SHARES[dtype] if slot.expands else (1, item)
    chunk = EXPANDED_ALIGNMENT if slot.expands else COPY_CHUNK
    byte_strides = tuple(
        [_byte_stride(what, shape[axis], strides[axis] * nbytes // count, item, chunk) for axis in order[1:]]
    )
    if slot.expands:
        _check_expansion(what, dims, byte_strides, box)
    if not _is_legal_box(box, item, slot.swizzle):
        _check_box(what, box, item, slot.swizzle)  # in shared memory an element has a byte, room included
    return Geometry(
        dtype, dims, byte_strides, box, slot.swizzle, slot.l2_promotion, slot.fill_nan, slot.expands, slot.wide,
        tuple(part[::-1] for part in slot.walk),
    )


@functools.cache
def _innermost_first(slot: TensorMapSlot, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of an array in the order of its descriptor, and the box along them."""
    order = tuple(reversed(slot.axes or range(rank)))
    return order, tuple(slot.box[axis] for axis in order)


@functools.cache
def _is_legal_box(box: tuple[int, ...], item: int, swizzle: int) -> bool:
    """Whether `_check_box` has nothing to say."""
    try:
        _check_box("", box, item, swizzle)
    except Error:
        return False
    return True


def _merged(what: str, count: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """Shape and strides with the last `count` axes taken for one, which they have to be in memory."""
    step = 1
    for size, stride in zip(reversed(shape[-count:]), reversed(strides[-count:]), strict=True):
        if size > 1 and stride != step:
            remedy = "pass a contiguous array (.contiguous(), np.ascontiguousarray)"
            raise _broken(what, f"is copied with its last {count} axes as one, which are not contiguous", remedy)
        step *= size
    return [*shape[:-count], step], [*strides[:-count], 1]


def _check_expansion(what: str, dims: tuple[int, ...], byte_strides: tuple[int, ...], box: tuple[int, ...]) -> None:
    """The further rules of a descriptor that puts room between packed elements."""
    if dims[0] % EXPANDED_BOX or box[0] != EXPANDED_BOX:
        raise _broken(
            what, f"has {dims[0]} elements along its last axis, a copy that puts room between them needs multiples of 128",
            "pad its rows, or load it into a buffer without padded=True",
        )
    wrong = [stride for stride in byte_strides if stride % EXPANDED_ALIGNMENT]
    if wrong:
        raise _broken(
            what, f"has a stride of {wrong[0]} bytes, a copy that puts room between elements needs multiples of 32",
            "pad its rows to a multiple of 128 elements, or load it into a buffer without padded=True",
        )


def _byte_stride(what: str, size: int, nbytes: int, item: int, chunk: int) -> int:
    if size == 1:  # never stepped along: any legal stride will do
        return nbytes if nbytes % chunk == 0 and 0 < nbytes < MAX_STRIDE else chunk
    if nbytes % COPY_CHUNK:
        raise _broken(
            what,
            f"has a stride of {nbytes} bytes, TMA needs multiples of {COPY_CHUNK}",
            f"pad its rows to a multiple of {COPY_CHUNK // item} elements or use px.load",
        )
    if not 0 <= nbytes < MAX_STRIDE:
        raise _broken(what, f"has a stride of {nbytes} bytes, TMA needs 0 to 2**40 - 1", "pass a copy of it")
    return nbytes


def _check_box(what: str, box: tuple[int, ...], item: int, swizzle: int) -> None:
    if not all(1 <= extent <= MAX_BOX for extent in box):
        raise _broken(
            what, f"is read in boxes of {box[::-1]}, TMA needs 1 to 256 per axis", "use smaller tiles"
        )
    inner = box[0] * item
    if inner % COPY_CHUNK:
        remedy = f"make the inner extent a multiple of {COPY_CHUNK // item}"
        raise _broken(what, f"is read in rows of {inner} bytes, TMA needs multiples of {COPY_CHUNK}", remedy)
    if swizzle and inner > swizzle:
        raise _broken(
            what,
            f"is read in rows of {inner} bytes, a {swizzle}-byte swizzle takes at most {swizzle}",
            "use a narrower tile, or several",
        )


def _broken(what: str, rule: str, remedy: str) -> Error:
    return Error(f"{what} {rule}", remedy=remedy)


class Scratch:
    """Where the driver writes descriptors, one at a time: launches of several threads may want some."""

    __slots__ = ("_memory", "address", "lock")

    def __init__(self) -> None:
        self._memory = (ctypes.c_char * (TENSOR_MAP_BYTES * 2))()  # the driver wants the result aligned
        address = ctypes.addressof(self._memory)
        self.address = address + -address % TENSOR_MAP_BYTES
        self.lock = threading.Lock()


class Encoder:
    """Makes the descriptors of one geometry; all but the address is put into C's layout once.

    Needs a driver, no context; the memory at the address is not looked at.
    """

    __slots__ = ("_after", "_alignment", "_before", "_driver", "_function", "_scratch")

    def __init__(self, driver: Any, shape: Geometry, scratch: Scratch | None = None) -> None:
        self._driver = driver
        self._scratch = scratch = Scratch() if scratch is None else scratch
        self._alignment = EXPANDED_ALIGNMENT if shape.expands else COPY_CHUNK
        types = EXPANDED_TYPES if shape.expands else DATA_TYPES
        rank = len(shape.dims)
        words, numbers = _IN_C[rank]
        self._before = (scratch.address, types[shape.dtype], rank)
        self._function = "cuTensorMapEncodeIm2col" if shape.walk else "cuTensorMapEncodeTiled"
        parts: tuple[Any, ...] = (numbers.pack(*shape.box), numbers.pack(*_EVERY[rank]))
        if shape.walk:
            lower, upper, steps = shape.walk
            corners = struct.Struct(f"={rank - 2}i")
            channels, *_, pixels = shape.box
            parts = corners.pack(*lower), corners.pack(*upper), channels, pixels, numbers.pack(1, *steps, 1)
        self._after = (
            words.pack(*shape.dims),
            words.pack(*shape.byte_strides, 0),  # one entry less than `rank` is read
            *parts,
            *_how(shape),
        )

    def __call__(self, pointer: int) -> bytes:
        """The 128 bytes of the descriptor of an array that begins at `pointer`."""
        if pointer % self._alignment or not pointer:
            raise Error(
                f"the address {pointer:#x} is not a multiple of {self._alignment} bytes, which a TMA descriptor needs",
                remedy=f"pass an array that starts on a {self._alignment}-byte boundary (a copy of a slice does)",
            )
        scratch = self._scratch
        with scratch.lock:
            self._driver.call(self._function, *self._before, pointer, *self._after)
            return ctypes.string_at(scratch.address, TENSOR_MAP_BYTES)


_IN_C = {rank: (struct.Struct(f"={rank}Q"), struct.Struct(f"={rank}I")) for rank in range(1, 6)}
"""By rank: sizes and strides, and the sides of boxes, as the driver reads them."""
_EVERY = {rank: (1,) * rank for rank in range(1, 6)}


def _how(shape: Geometry) -> tuple[int, int, int, int]:
    """The last arguments of the driver's call: no interleave, the swizzle, what L2 loads, and what is outside."""
    swizzle = WIDE_SWIZZLE if shape.wide else SWIZZLES[shape.swizzle]
    return 0, swizzle, L2_PROMOTIONS[shape.l2_promotion], int(shape.fill_nan)


def encode(driver: Any, pointer: int, shape: Geometry) -> bytes:
    """The 128 bytes of one descriptor; see `Encoder`."""
    return Encoder(driver, shape)(pointer)


class AddressedMaps(dict[int, bytes]):
    """The descriptors of one geometry by address, encoded when they are first asked for."""

    __slots__ = ("_encode",)

    def __init__(self, driver: Any, shape: Geometry, scratch: Scratch) -> None:
        self._encode = Encoder(driver, shape, scratch)

    def __missing__(self, pointer: int) -> bytes:
        if len(self) >= _ADDRESSES:
            self.clear()  # simple, and rare: hundreds of distinct arrays of one shape
        self[pointer] = found = self._encode(pointer)
        return found


class TensorMapCache:
    """Encoded descriptors of a kernel by slot and geometry, then by address: a launch encodes those alone that are new.

    So a layer whose input has another height encodes the maps of input and result, and finds that of its weights.
    """

    def __init__(self, driver: Any, slots: Sequence[TensorMapSlot]) -> None:
        self._driver = driver
        self._slots = tuple(slots)
        self._scratch = Scratch()
        self._geometries: dict[tuple[Any, ...], AddressedMaps] = {}

    def of(self, number: int, dtype: str, shape: Sequence[int], strides: Sequence[int], name: str = "") -> AddressedMaps:
        """The descriptors of slot `number` for arrays of this geometry: index by address. Errors are those of `geometry`."""
        key = (number, dtype, shape, strides)
        found = self._geometries.get(key)
        if found is None:
            made = geometry(self._slots[number], dtype, shape, strides, name)
            if len(self._geometries) >= _GEOMETRIES:
                self._geometries.clear()
            found = self._geometries[key] = AddressedMaps(self._driver, made, self._scratch)
        return found
