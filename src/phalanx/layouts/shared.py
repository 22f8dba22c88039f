"""Shared-memory tiles: the byte offset of each element, with panels, padding and the three TMA swizzles.

The last two dimensions are a matrix of rows and columns. Its columns are cut into panels, and memory is
ordered [leading dimensions..., panel, row, column within the panel]: leading indices select a contiguous
sub-buffer with a layout of its own, and a panel is what one TMA box fills. The swizzle is an XOR on the
resulting byte offset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.layouts.bits import is_power_of_two, log2, next_power_of_two, round_up
from phalanx.layouts.linear import LinearLayout

# Swizzle span in bytes -> mask of the chunk bits that are XORed with the bits three places above them:
# 128: [6:4] ^= [9:7], 64: [5:4] ^= [8:7], 32: [4] ^= [7].
SWIZZLE_MASKS = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}
# After this many bytes the pattern repeats: tiles start on a multiple of it.
SWIZZLE_PERIODS = {0: 1, 32: 256, 64: 512, 128: 1024}
WIDE_MASK, WIDE_PERIOD = 0x60, 512
"""The swizzle of 128 bytes in atoms of 32: [6:5] ^= [8:7], the bits two places above."""
CHUNK = 16  # bytes that a swizzle never separates
TMA_ALIGNMENT = 128  # a TMA box lands on a multiple of this many bytes


@frozen(repr=False)
class SharedLayout:
    """Where the elements of a shared tile are.

    `itemsize` in bytes; `swizzle` 0, 32, 64 or 128; `panel` the columns per panel (None: one panel); `pitch`
    the bytes from row to row within a panel (None: as many as the panel needs); `align` a multiple of bytes
    on which every leading sub-buffer starts (swizzled ones always start on the swizzle's period); `start` one on which the
    tile itself does, with no gaps inside. `wide`: the swizzle, of 128 bytes, moves 32 bytes together instead of 16.

    Example: `SharedLayout((4, 128, 64), itemsize=2, swizzle=128)`: four stages of a 128 x 64 bf16 tile.
    """

    shape: tuple[int, ...]
    itemsize: int
    swizzle: int = 0
    panel: int | None = None
    pitch: int | None = None
    align: int = 1
    start: int = 1
    wide: bool = False

    def __post_init__(self) -> None:
        if not self.shape or any(extent < 1 for extent in self.shape):
            raise ValueError(
                f"a shared tile needs a rank of at least 1 and positive extents, not {self.shape}"
            )
        if not is_power_of_two(self.itemsize) or self.itemsize > CHUNK:
            raise ValueError(f"an element has 1, 2, 4, 8 or 16 bytes, not {self.itemsize}")
        if self.swizzle not in SWIZZLE_MASKS:
            raise ValueError(f"the swizzles are 0, 32, 64 and 128, not {self.swizzle}")
        if self.wide and self.swizzle != 128:
            raise ValueError(f"the swizzle of 128 bytes alone has atoms of 32, not that of {self.swizzle}")
        if self.panel is not None and self.panel < 1:
            raise ValueError(f"a panel has at least one column, not {self.panel}")
        if self.pitch is not None and (
            self.pitch < self.panel_columns * self.itemsize or self.pitch % self.itemsize
        ):
            raise ValueError(f"a row pitch of {self.pitch} bytes does not hold {self.panel_columns} elements")
        if not is_power_of_two(self.align):
            raise ValueError(f"an alignment is a power of two, not {self.align}")

    # -- sizes -----------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The number of the tile's dimensions."""
        return len(self.shape)

    @property
    def rows(self) -> int:
        """The extent of the last dimension but one; 1 where there is none."""
        return self.shape[-2] if len(self.shape) > 1 else 1

    @property
    def columns(self) -> int:
        """The extent of the last dimension."""
        return self.shape[-1]

    @property
    def leading(self) -> tuple[int, ...]:
        """The extents before rows and columns."""
        return self.shape[:-2]

    @property
    def panel_columns(self) -> int:
        """The columns of a panel."""
        return self.columns if self.panel is None else min(self.panel, self.columns)

    @property
    def panels(self) -> int:
        """The number of panels side by side."""
        return -(-self.columns // self.panel_columns)

    @property
    def row_pitch(self) -> int:
        """Bytes from a row of a panel to the next."""
        return self.panel_columns * self.itemsize if self.pitch is None else self.pitch

    @property
    def panel_bytes(self) -> int:
        """Bytes from a panel to the next: panels of a swizzled tile start on the period, others as TMA
        needs."""
        size = self.rows * self.row_pitch
        if self.panels == 1:
            return size
        # A one-row tile is contiguous whatever its panels are.
        return round_up(size, self.period if self.swizzle else TMA_ALIGNMENT) if self.rows > 1 else size

    @property
    def period(self) -> int:
        """Bytes after which the swizzle repeats (1 without one)."""
        return WIDE_PERIOD if self.wide else SWIZZLE_PERIODS[self.swizzle]

    @property
    def swizzle_bits(self) -> tuple[int, int]:
        """The bits of an address that the swizzle changes, and how many places above those lie that are XORed with them."""
        return (WIDE_MASK, 2) if self.wide else (SWIZZLE_MASKS[self.swizzle], 3)

    @property
    def matrix_bytes(self) -> int:
        """Bytes from one leading sub-buffer to the next."""
        return round_up(self.panels * self.panel_bytes, max(self.align, self.period))

    @cached_property
    def byte_strides(self) -> tuple[int, ...]:
        """Bytes per step along each axis, within a panel and before the swizzle."""
        strides = [self.itemsize]
        if self.rank > 1:
            strides.insert(0, self.row_pitch)
        step = self.matrix_bytes
        for extent in reversed(self.leading):
            strides.insert(0, step)
            step *= extent
        return tuple(strides)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of shared memory, padding included."""
        return math.prod(self.leading) * self.matrix_bytes

    @property
    def alignment(self) -> int:
        """The multiple of bytes on which the tile must start."""
        return max(self.align, self.start, self.period, self.itemsize)

    @property
    def is_row_major(self) -> bool:
        """No swizzle, panels or padding: the bytes are those of a C-ordered array."""
        return (
            not self.swizzle
            and self.nbytes == math.prod(self.shape) * self.itemsize
            and (self.panels == 1 or self.rows == 1)
        )

    # -- offsets ---------------------------------------------------------------------------------------------

    def offset(self, index: Sequence[Any]) -> Any:
        """The byte offset of an element, or of arrays of elements (one array per dimension)."""
        if len(index) != self.rank:
            raise ValueError(f"{len(index)} indices for a tile of rank {self.rank}")
        lead: Any = 0
        for i, extent in zip(index[:-2], self.leading, strict=True):
            lead = lead * extent + i
        row = index[-2] if self.rank > 1 else 0
        column = index[-1]
        address = (
            lead * self.matrix_bytes
            + column // self.panel_columns * self.panel_bytes
            + row * self.row_pitch
            + column % self.panel_columns * self.itemsize
        )
        return self.swizzled(address)

    def swizzled(self, address: Any) -> Any:
        """Apply the swizzle to a byte offset (or an array of them). It is its own inverse."""
        mask, shift = self.swizzle_bits
        return address ^ ((address >> shift) & mask) if mask else address

    def offsets(self) -> np.ndarray:
        """The byte offset of every element, as an array of the tile's shape."""
        return _all_offsets(self)

    def as_linear(self) -> LinearLayout:
        """The linear layout from `dim0, dim1, ...` to the element position (byte offset / itemsize).

        Needs powers of two everywhere: extents, panel and pitch. ValueError otherwise.
        """
        sizes = (*self.shape, self.panel_columns, self.row_pitch, self.panel_bytes, self.matrix_bytes)
        if not all(is_power_of_two(size) for size in sizes):
            raise ValueError(f"a layout of shape {self.shape} with other than powers of two is not linear")
        bases: dict[str, list[int]] = {}
        for dim, extent in enumerate(self.shape):
            zero = [0] * self.rank
            images = []
            for bit in range(log2(extent)):
                zero[dim] = 1 << bit
                images.append(int(self.offset(zero)) // self.itemsize)
            bases[f"dim{dim}"] = images
        return LinearLayout.from_flat(bases, (next_power_of_two(self.nbytes // self.itemsize),))

    # -- parts -----------------------------------------------------------------------------------------------

    def sub_layout(self, n_leading: int = 1) -> SharedLayout:
        """The layout of what `n_leading` leading integer indices select; ValueError if that is not a layout.

        The sub-buffer starts at `offset((i, ..., 0, 0))`. Down to the matrix it always is one. A single row
        is one if there is no swizzle and one panel.
        """
        if not 0 <= n_leading < self.rank:
            raise ValueError(f"{n_leading} integer indices leave nothing of a tile of rank {self.rank}")
        if n_leading <= self.rank - 2 or n_leading == 0:
            return replace(self, shape=self.shape[n_leading:])
        if self.swizzle or self.panels > 1:
            raise ValueError(
                f"a row of a tile with swizzle {self.swizzle} and {self.panels} panels is no tile itself"
            )
        row_alignment = math.gcd(self.alignment, self.row_pitch)
        return SharedLayout(self.shape[-1:], self.itemsize, align=max(1, row_alignment & -row_alignment))

    def is_contiguous(
        self, origin: Sequence[int] | None = None, extents: Sequence[int] | None = None
    ) -> bool:
        """Whether a region (default: everything) lies in row-major order in consecutive bytes."""
        start, sizes = self._region(origin, extents)
        offsets = _region_offsets(self, start, sizes)
        return bool((np.diff(offsets) == self.itemsize).all())

    def byte_range(
        self, origin: Sequence[int] | None = None, extents: Sequence[int] | None = None
    ) -> tuple[int, int] | None:
        """(first byte, number of bytes) if a region fills one range of bytes, in any order; else None.

        Two regions of the same layout that start alike in the swizzle's period can then be copied as bytes.
        """
        start, sizes = self._region(origin, extents)
        offsets = np.sort(_region_offsets(self, start, sizes))
        if not (np.diff(offsets) == self.itemsize).all():
            return None
        return int(offsets[0]), len(offsets) * self.itemsize

    def _region(
        self, origin: Sequence[int] | None, extents: Sequence[int] | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        start = (0,) * self.rank if origin is None else tuple(origin)
        sizes = (
            tuple(n - o for n, o in zip(self.shape, start, strict=True))
            if extents is None
            else tuple(extents)
        )
        if any(o < 0 or e < 1 or o + e > n for o, e, n in zip(start, sizes, self.shape, strict=True)):
            raise ValueError(
                f"the region at {start} of extents {sizes} is outside a tile of shape {self.shape}"
            )
        return start, sizes

    # -- text ------------------------------------------------------------------------------------------------

    def linear_offset_expression(self, index_terms: Sequence[str], divide: str = "/") -> str:
        """The byte offset before the swizzle, as integer arithmetic over the texts of the indices.

        Indices that are decimal numbers are folded. Pass `divide="//"` for Python. Indices are non-negative.
        """
        if len(index_terms) != self.rank:
            raise ValueError(f"{len(index_terms)} indices for a tile of rank {self.rank}")
        strides: list[int] = []
        stride = self.matrix_bytes
        for extent in reversed(self.leading):
            strides.insert(0, stride)
            stride *= extent
        if self.rank > 1:
            strides.append(self.row_pitch)
        constant, parts = 0, []
        for term, step in zip(index_terms[:-1], strides, strict=True):
            if term.isdigit():
                constant += int(term) * step
            else:
                parts.append(_times(term, step))
        column = index_terms[-1]
        if column.isdigit():
            constant += int(column) // self.panel_columns * self.panel_bytes
            constant += int(column) % self.panel_columns * self.itemsize
        elif self.panels == 1 or self.panel_bytes == self.panel_columns * self.itemsize:
            parts.append(_times(column, self.itemsize))
        else:
            text = _atom(column)
            parts.append(f"{text} {divide} {self.panel_columns} * {self.panel_bytes}")
            parts.append(_times(f"({text} % {self.panel_columns})", self.itemsize))
        if constant or not parts:
            parts.append(str(constant))
        return " + ".join(parts)

    def swizzle_expression(self, address: str) -> str:
        """The swizzle of a byte offset given as text (used twice: pass a variable)."""
        mask, shift = self.swizzle_bits
        if not mask:
            return address
        text = _atom(address)
        return f"{text} ^ (({text} >> {shift}) & {mask})"

    def offset_expression(self, index_terms: Sequence[str], divide: str = "/") -> str:
        """The byte offset of an element as integer arithmetic over the texts of its indices.

        Example: `SharedLayout((64, 32), 4).offset_expression(["r", "c"])` is `"r * 128 + c * 4"`.
        """
        return self.swizzle_expression(self.linear_offset_expression(index_terms, divide))

    def __repr__(self) -> str:
        options = [f"swizzle={self.swizzle}"] if self.swizzle else []
        options += [f"panel={self.panel}"] if self.panel is not None else []
        options += [f"pitch={self.pitch}"] if self.pitch is not None else []
        options += [f"align={self.align}"] if self.align != 1 else []
        options += [f"start={self.start}"] if self.start != 1 else []
        options += ["wide=True"] if self.wide else []
        return f"SharedLayout({', '.join([str(self.shape), f'itemsize={self.itemsize}', *options])})"

    def __str__(self) -> str:
        from phalanx.layouts.draw import draw_shared

        return draw_shared(self)


@lru_cache(maxsize=64)
def _all_offsets(layout: SharedLayout) -> np.ndarray:
    offsets = layout.offset(np.ix_(*(np.arange(extent) for extent in layout.shape)))
    offsets.flags.writeable = False
    return np.asarray(offsets)


@lru_cache(maxsize=256)
def _region_offsets(layout: SharedLayout, origin: tuple[int, ...], extents: tuple[int, ...]) -> np.ndarray:
    indices = np.ix_(
        *(np.arange(start, start + extent) for start, extent in zip(origin, extents, strict=True))
    )
    return np.asarray(layout.offset(indices)).reshape(-1)


def _atom(text: str) -> str:
    """Parenthesise what is not a name, a number or in parentheses already."""
    if text.isidentifier() or text.isdigit():
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and position < len(text) - 1:
            return f"({text})"
    return text


def _times(text: str, factor: int) -> str:
    return _atom(text) if factor == 1 else f"{_atom(text)} * {factor}"
