"""How a kernel takes its parameters: the contract between the CUDA text and the launcher.

In order: one parameter per run-time argument, then the array of counters if there is one, then the TMA descriptors,
then the debug pointer if there is one.

- An array of rank R is one struct `{ T* data; long long stride[R]; int shape[R]; }`, strides in elements,
  axes outermost first, padded to a multiple of 8 bytes; of rank 0 it is `{ T* data; }`.
- A scalar is the C type of `SCALAR_FORMATS`; a bool is an `unsigned char` of 0 or 1.
- A TMA descriptor is a `const __grid_constant__` struct of 128 bytes, `alignas(128)`.
- The debug pointer (watchdog, stamps) is a `void*`.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, field
from typing import Any

from phalanx.frozen import frozen

TENSOR_MAP_BYTES = 128

# dtype -> (struct format, C type)
SCALAR_FORMATS = {
    "bool": ("B", "unsigned char"),
    "i8": ("b", "signed char"),
    "i16": ("h", "short"),
    "i32": ("i", "int"),
    "i64": ("q", "long long"),
    "u8": ("B", "unsigned char"),
    "u16": ("H", "unsigned short"),
    "u32": ("I", "unsigned int"),
    "u64": ("Q", "unsigned long long"),
    "f32": ("f", "float"),
    "f64": ("d", "double"),
}


@frozen
class Extras:
    """What a build has beside the kernel itself.

    `watchdog`: waits end by themselves after a while, and report. `shaken`: delays before and behind what agents tell each
    other (`text.delays`). `stamps`: in so many clusters of the grid, spread over it, agents write down when they do what
    (`text.stamps`). `line_info`: the machine code says from which of the user's lines it comes.
    """

    watchdog: bool = False
    shaken: bool = False
    stamps: int = 0
    line_info: bool = False


PLAIN = Extras()
MOST_SITES = 4096
"""Places of a kernel that may have a delay: the debug buffer has a bit for each, and those behind them have none."""

STAMP_RECORDS = 8192
"""Stamps that a warp may write: what comes behind them is only counted."""
STAMP_HEAD = 16
"""Words of 64 bits at the head of the buffer of stamps, and of each of its CTAs."""


def stamp_words(ctas: int, warps: int) -> int:
    """The 64-bit words of a buffer for the stamps of so many CTAs."""
    return STAMP_HEAD + ctas * (STAMP_HEAD + warps * (2 + 2 * STAMP_RECORDS))


@frozen
class ArraySlot:
    """An array parameter. The flags are what the kernel was specialised for, and are checked at launch."""

    rank: int
    dtype: str
    contiguous_inner: bool = False
    aligned16: bool = False
    name: str = ""  # for messages
    whole_rows: bool = False

    @property
    def format(self) -> str:
        """The struct's layout for the `struct` module: pointer, strides, shape, padding."""
        return f"<Q{self.rank}q{self.rank}i" + ("4x" if self.rank % 2 else "")

    @property
    def nbytes(self) -> int:
        """The struct's size in bytes."""
        return struct.calcsize(self.format)

    @property
    def alignment(self) -> int:
        """The struct's alignment: a pointer's."""
        return 8


@frozen
class ScalarSlot:
    """A scalar parameter."""

    dtype: str
    name: str = ""  # for messages

    @property
    def format(self) -> str:
        """The scalar's layout for the `struct` module."""
        return "<" + SCALAR_FORMATS[self.dtype][0]

    @property
    def nbytes(self) -> int:
        """The scalar's size in bytes."""
        return struct.calcsize(self.format)

    @property
    def alignment(self) -> int:
        """The scalar's alignment: its size."""
        return self.nbytes


@frozen
class TensorMapSlot:
    """A TMA descriptor of one array parameter.

    `array` is the index of the parameter in `Signature.slots`. `box` has one extent per array axis, in
    elements, in the order of the array's axes (outermost first; the reversal that the hardware wants happens
    at encoding); an axis that a view drops has extent 1. `axes` is the order of the array's axes in the
    descriptor, outermost first; () means as they are. `swizzle` is 0, 32, 64 or 128 bytes, `l2_promotion` 0,
    64, 128 or 256 bytes; `fill_nan` fills elements outside the array with NaN instead of 0. `expands`: elements of 4
    or 6 bits, with no bit between them in the array, get 16 bytes for each 16 in shared memory; box and coordinates count
    elements then.
    `merged`: so many of the array's last axes are one axis of the descriptor and of `box`.
    `wide`: the swizzle, of 128 bytes, moves 32 bytes together. `walk`, of a convolution's patches: where their first pixels
    begin and end, from an image's corners, and how far they are apart, along each axis of the pixels; `box` is then
    (patches, 1, .., channels).
    """

    array: int
    box: tuple[int, ...]
    swizzle: int = 0
    axes: tuple[int, ...] = ()
    l2_promotion: int = 256
    fill_nan: bool = False
    expands: bool = False
    wide: bool = False
    merged: int = 1
    walk: tuple[tuple[int, ...], ...] = ()


@frozen
class ParameterLayout:
    """Byte offsets of a kernel's parameters in one buffer aligned to 128."""

    slots: tuple[int, ...]
    tensor_maps: tuple[int, ...]
    debug: int | None
    nbytes: int

    @property
    def all(self) -> tuple[int, ...]:
        """The offsets of all parameters in the order of the kernel's signature."""
        return self.slots + self.tensor_maps + (() if self.debug is None else (self.debug,))


@frozen
class Signature:
    """All parameters of a kernel.

    With `counters`, the last slot is an array of so many i32 that the launcher gives, behind the user's: 0 before a launch,
    and 0 again when it is over.
    """

    slots: tuple[ArraySlot | ScalarSlot, ...]
    tensor_maps: tuple[TensorMapSlot, ...] = ()
    debug: bool = False
    counters: int = 0
    layout: ParameterLayout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for number, tensor_map in enumerate(self.tensor_maps):
            target = self.slots[tensor_map.array]
            if not isinstance(target, ArraySlot) or target.rank - tensor_map.merged + 1 != len(tensor_map.box):
                raise ValueError(f"tensor map {number} does not fit parameter {tensor_map.array}: {target}")
        object.__setattr__(self, "layout", self._lay_out())

    def _lay_out(self) -> ParameterLayout:
        position = 0
        offsets: list[int] = []
        for slot in self.slots:
            position = _round_up(position, slot.alignment)
            offsets.append(position)
            position += slot.nbytes
        position = _round_up(position, TENSOR_MAP_BYTES)
        maps = tuple(position + TENSOR_MAP_BYTES * number for number in range(len(self.tensor_maps)))
        position += TENSOR_MAP_BYTES * len(maps)
        debug = position if self.debug else None
        return ParameterLayout(tuple(offsets), maps, debug, position + (8 if self.debug else 0))

    @property
    def given(self) -> tuple[ArraySlot | ScalarSlot, ...]:
        """The slots that a call's arguments fill."""
        return self.slots[:-1] if self.counters else self.slots

    def to_json(self) -> dict[str, Any]:
        """A dictionary for `json`; `from_json` is the way back."""
        return {
            "slots": [asdict(slot) for slot in self.slots],
            "tensor_maps": [asdict(tensor_map) for tensor_map in self.tensor_maps],
            "debug": self.debug,
            "counters": self.counters,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Signature:
        """The signature that `to_json` wrote."""
        slots = tuple(ArraySlot(**slot) if "rank" in slot else ScalarSlot(**slot) for slot in data["slots"])
        maps = tuple(
            TensorMapSlot(
                **{**item, "box": tuple(item["box"]), "axes": tuple(item["axes"]), "walk": tuple(map(tuple, item["walk"]))}
            )
            for item in data["tensor_maps"]
        )
        return Signature(slots, maps, data["debug"], data["counters"])


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
