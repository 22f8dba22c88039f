"""Tensor memory (tcgen05): which lane, column and bit of it an element of a tile lies in.

Every CTA has 128 lanes x 512 columns of 32-bit cells. A tile is cut into *atoms*, inside which the place is a linear map
over bits like every other layout here; from atom to atom it goes on by whole columns. Sizes that are no powers of two (an
accumulator of 24 columns) are counts of atoms, so that they need no padding.

An address is `lane << 16 | column`; addresses add up as long as no column passes 511.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.tensor_memory import CELL_BITS, COLUMNS, LANES, LANES_PER_WARP, SCALE_ROWS
from phalanx.ir.uses import Use
from phalanx.ir.views import TensorBuffer
from phalanx.layouts.bits import log2
from phalanx.layouts.linear import LinearLayout

QUARTER = LANES_PER_WARP
"""Lanes that one warp reaches: warp w those from 32 (w % 4) on. Rows are sliced by multiples of as many."""
SCALE_COLUMNS = SCALE_ROWS // QUARTER
"""Columns of a block of scales, 128 rows x 4 scales."""
SCALE_COPIES = (0, 32, 64, 96)


def address(lane: int, column: int) -> int:
    """The word that names a cell of tensor memory, or a distance between two of them."""
    return lane << 16 | column


@frozen
class TensorLayout:
    """Where the elements of a tile lie in tensor memory.

    `shape` is the tile's, (rows, columns) with any leading axes before them: leading indices select a range of columns,
    as they select a sub-buffer of a `SharedLayout`. `atom` maps (row, column) inside an atom to (lane, column, bit); atom
    (i, j) lies `i * row_step + j * column_step` columns on. With `folded` the second half of the tile's columns lies in
    the upper 64 lanes (the layout that the hardware calls B). The same data is in the lanes `copies` further on.

    Layouts that compare equal put every element in the same place; `name` is for people and does not compare.

    Made by `accumulator`, `tensor_operand` and `scales`. Example: `accumulator((128, 256)).columns == 256`.
    """

    shape: tuple[int, ...]
    atom: LinearLayout
    row_step: int
    column_step: int
    folded: bool = False
    copies: tuple[int, ...] = (0,)
    name: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        if len(self.shape) < 2 or any(extent < 1 for extent in self.shape):
            raise ValueError(f"a tile of tensor memory has rows and columns, perhaps leading axes, not {self.shape}")
        if self.folded and self.width % (2 * self.per_cell):
            raise ValueError(f"{self.width} columns have no halves that could lie in the two halves of the lanes")
        # A step that is never taken must not tell layouts apart.
        if self.row_atoms == 1:
            object.__setattr__(self, "row_step", 0)
        if self.column_atoms == 1:
            object.__setattr__(self, "column_step", 0)

    # -- sizes -----------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The number of the tile's axes."""
        return len(self.shape)

    @property
    def rows(self) -> int:
        """The extent of the last axis but one."""
        return self.shape[-2]

    @property
    def width(self) -> int:
        """The extent of the last axis: the tile's own columns, not those of tensor memory."""
        return self.shape[-1]

    @property
    def leading(self) -> tuple[int, ...]:
        """The extents before rows and columns."""
        return self.shape[:-2]

    @property
    def bits(self) -> int:
        """The bits from an element of a row to the next one: of its container, at least those of its type."""
        return CELL_BITS // self.per_cell

    @property
    def atom_rows(self) -> int:
        """Rows of an atom."""
        return self.atom.in_size("row")

    @property
    def per_cell(self) -> int:
        """Neighbours of a row that share a 32-bit cell: the columns of an atom."""
        return self.atom.in_size("column")

    @property
    def row_atoms(self) -> int:
        """Atoms along the rows."""
        return -(-self.rows // self.atom_rows)

    @property
    def column_atoms(self) -> int:
        """Atoms along a row, those of the upper lanes not counted."""
        width = self.width // 2 if self.folded else self.width
        return -(-width // self.per_cell)

    @property
    def matrix_columns(self) -> int:
        """Columns of tensor memory from one leading index to the next."""
        last = (self.row_atoms - 1) * self.row_step + (self.column_atoms - 1) * self.column_step
        return last + self.atom.shape[1]

    @cached_property
    def columns(self) -> int:
        """Columns of tensor memory that the whole tile takes (before rounding up to what can be allocated)."""
        count = self.matrix_columns
        for extent in self.leading:
            count *= extent
        return count

    # -- places ----------------------------------------------------------------------------------------------

    def place(self, index: Sequence[Any]) -> tuple[Any, Any, Any]:
        """The (lane, column, lowest bit) of an element, or of arrays of elements (one array per axis); the first copy.

        Example: `accumulator((64, 128)).place((17, 3)) == (33, 3, 0)`.
        """
        if len(index) != self.rank:
            raise ValueError(f"{len(index)} indices for a tile of rank {self.rank}")
        parts = [np.asarray(part, dtype=np.int64) for part in index]
        row_atom, row = np.divmod(parts[-2], self.atom_rows)
        half, along = np.divmod(parts[-1], self.width // 2 if self.folded else self.width)
        column_atom, column = np.divmod(along, self.per_cell)
        lane, cell, bit = self.atom.apply(row=row, column=column)
        lane = lane + 64 * half
        cell = cell + row_atom * self.row_step + column_atom * self.column_step + self._leading_columns(parts[:-2])
        if all(part.ndim == 0 for part in parts):
            return int(lane), int(cell), int(bit)
        return tuple(np.broadcast_arrays(lane, cell, bit))  # type: ignore[return-value]

    def _leading_columns(self, index: Sequence[Any]) -> Any:
        flat: Any = 0
        for part, extent in zip(index, self.leading, strict=True):
            flat = flat * extent + part
        return flat * self.matrix_columns

    def flat_cell(self, index: Sequence[Any]) -> Any:
        """`lane * 512 + column` of elements: what a bitmap of the memory is indexed by. Vectorised as `place` is."""
        lane, column, _ = self.place(index)
        return lane * COLUMNS + column

    # -- parts -----------------------------------------------------------------------------------------------

    def address(self, origin: Sequence[int]) -> int:
        """The address, from the buffer's own, of the block that begins at `origin`; ValueError says where none can begin.

        Rows are multiples of 32 (of 128 for scales), columns begin a cell.
        Example: `accumulator((128, 256)).address((32, 8)) == 32 << 16 | 8`.
        """
        row, column = origin[-2], origin[-1]
        step = self.row_unit
        if row % step:
            raise ValueError(f"rows of tensor memory are sliced by multiples of {step}, not from {row} on")
        if column % self.per_cell:
            raise ValueError(f"a cell of 32 bits has {self.per_cell} elements: a slice can't begin at column {column}")
        lane, cell, _ = self.place(tuple(origin))
        return address(lane, cell)

    @property
    def row_unit(self) -> int:
        """Rows by whose multiples a slice may begin: as many as one warp reaches, or a whole block of scales."""
        if len(self.copies) == len(SCALE_COPIES):
            return self.atom_rows
        return QUARTER if self.atom_rows == LANES or self.folded or len(self.copies) > 1 else QUARTER // 2

    def address_expression(self, terms: Sequence[str], divide: str = "/") -> str:
        """`address` as integer arithmetic over the texts of the indices; decimal numbers are folded.

        The rows' text is a decimal number. Columns that are not are multiples of the elements of a cell. Pass
        `divide="//"` for Python.
        """
        *leading, row, column = terms
        known = [int(term) if term.isdigit() else 0 for term in terms]
        if not row.isdigit():
            raise ValueError(f"rows of tensor memory are sliced by constants, not by {row}")
        constant = self.address(known)
        parts: list[str] = []
        step = self.matrix_columns
        for term, extent in zip(reversed(leading), reversed(self.leading), strict=True):
            if not term.isdigit():
                parts.insert(0, _times(term, step))
            step *= extent
        if not column.isdigit():
            if self.folded:
                raise ValueError("a tile that is folded over the lanes is sliced along its columns by constants")
            cell = _times(column, 1) + (f" {divide} {self.per_cell}" if self.per_cell > 1 else "")
            parts.append(cell if self.column_step == 1 else f"{cell} * {self.column_step}")
        if constant or not parts:
            parts.append(str(constant))
        return " + ".join(parts)

    def sub_layout(self, n_leading: int = 1) -> TensorLayout:
        """The layout of what `n_leading` leading integer indices select; it begins at `address((i, ..., 0, 0))`."""
        if not 0 <= n_leading <= self.rank - 2:
            raise ValueError(f"{n_leading} integer indices leave no matrix of a tile of rank {self.rank}")
        return replace(self, shape=self.shape[n_leading:])

    def part(self, origin: Sequence[int], shape: Sequence[int]) -> TensorLayout:
        """The layout of the matrix of `shape` (rows, columns) that begins at `origin`; its own origin is `address(origin)`.

        ValueError says what is no layout: rows that begin in one atom and end in the next, columns of a folded tile that
        are neither all of them nor in one half of the lanes.

        Example: `accumulator((2, 128, 256)).part((1, 0, 64), (128, 32)) == accumulator((128, 32))`.
        """
        self.address(origin)
        row, column = origin[-2], origin[-1]
        rows, width = shape
        if row + rows > self.rows or column + width > self.width:
            raise ValueError(f"a block of {rows} x {width} from {tuple(origin)} on leaves the tile of shape {self.shape}")
        if row % self.atom_rows and row % self.atom_rows + rows > self.atom_rows:
            raise ValueError(f"{rows} rows from {row} on go over the {self.atom_rows} that lie side by side")
        folded, half = self.folded, self.width // 2
        if folded and width < self.width:
            if column // half != (column + width - 1) // half:
                raise ValueError(f"columns {column} to {column + width - 1} lie partly in the upper half of the lanes")
            folded = False
        return replace(self, shape=(rows, width), folded=folded)

    def __str__(self) -> str:
        where = f"{self.columns} columns"
        return f"{self.name or 'tensor memory'} {list(self.shape)}: {where}"


def _times(text: str, factor: int) -> str:
    atom = text if text.isidentifier() or text.isdigit() else f"({text})"
    return atom if factor == 1 else f"{atom} * {factor}"


# -- the layouts of the hardware -------------------------------------------------------------------------------------------

ROW_LANES = {
    "D": tuple(1 << b for b in range(7)),
    "A": tuple(1 << b for b in range(7)),
    "F": (1, 2, 4, 8, 32, 64),
    "B": tuple(1 << b for b in range(6)),
}
"""The hardware's names of layouts -> the lane that each bit of the row within one instruction stands for."""


def form_of(rows: int, two_cta: bool = False) -> str:
    """The hardware's layout of an accumulator with `rows` rows in this CTA: "D", "F" alone, "A", "B" in a pair of CTAs.

    Example: `form_of(64) == "F"`: the product has M = 64.
    """
    if rows == 64:
        return "B" if two_cta else "F"
    return "A" if two_cta else "D"


def _check_rows(rows: int, what: str) -> None:
    if rows > LANES and rows % LANES:
        raise ValueError(f"{what} of more than 128 rows has a multiple of 128, not {rows}")


def _row_atom(form: str, per_cell: int) -> LinearLayout:
    bit = CELL_BITS // per_cell
    return LinearLayout.make(
        {
            "row": [(lane, 0, 0) for lane in ROW_LANES[form]],
            "column": [(0, 0, bit << b) for b in range(log2(per_cell))],
        },
        (LANES, 1, CELL_BITS),
    )


def accumulator(shape: Sequence[int], two_cta: bool = False) -> TensorLayout:
    """The accumulator of `tcgen05.mma`, (rows of this CTA, N) with any leading axes: one element to a cell, f16 too.

    64 rows are the hardware's layout F, of a pair of CTAs (M = 128) its layout B, which puts the second half of the
    columns into the upper half of the lanes; other rows are D or A, 128 lanes at a time, further 128 rows in the next
    columns.
    """
    shape = tuple(shape)
    rows, n = shape[-2:]
    _check_rows(rows, "an accumulator")
    form = form_of(rows, two_cta)
    folded = form == "B"
    return TensorLayout(shape, _row_atom(form, 1), n // 2 if folded else n, 1, folded, name=f"accumulator {form}")


def tensor_operand(shape: Sequence[int], bits: int, two_cta: bool = False) -> TensorLayout:
    """The A operand of `tcgen05.mma` in tensor memory, (rows of this CTA, K): a cell holds 32 / `bits` neighbours along K.

    `bits` are those of the container: 32 for tf32, 16, 8 (also 6- and 4-bit types of f8f6f4 and mxf8f6f4), 4 (mxf4,
    mxf4nvf4). Rows lie on the lanes of the accumulator's; where that has each row in both halves of the lanes (64 rows in a
    pair), both halves hold the operand.
    """
    shape = tuple(shape)
    if bits not in (4, 8, 16, 32):
        raise ValueError(f"elements of an operand in tensor memory have 4, 8, 16 or 32 bits, not {bits}")
    rows, k = shape[-2:]
    _check_rows(rows, "an operand")
    form = form_of(rows, two_cta)
    per_cell = CELL_BITS // bits
    copies = (0, 64) if form == "B" else (0,)
    return TensorLayout(shape, _row_atom(form, per_cell), -(-k // per_cell), 1, False, copies, f"operand {form}")


def scales(shape: Sequence[int]) -> TensorLayout:
    """The scales of an operand of a block-scaled product, (rows of M or N, K / block), of 8 bits each.

    A cell holds four neighbours along K of row r: lane r % 32, column r / 32 of a block of 128 rows x 4 scales, and the same
    in all four quarters of the lanes. Blocks follow each other along the rows first, since an instruction of more than 128
    columns takes the next block of rows from the next 4 columns; so four scales along K are `4 * row_atoms` columns on
    (`column_step`), 128 rows are 4 columns on (`row_step`). Rows and scales are rounded up to whole blocks.

    Example: `scales((256, 8)).place((128, 4)) == (0, 12, 0)`.
    """
    shape = tuple(shape)
    atom = LinearLayout.make(
        {
            "row": [*((1 << b, 0, 0) for b in range(5)), (0, 1, 0), (0, 2, 0)],
            "column": [(0, 0, 8), (0, 0, 16)],
        },
        (LANES, SCALE_COLUMNS, CELL_BITS),
    )
    blocks = -(-shape[-2] // SCALE_ROWS)
    return TensorLayout(shape, atom, SCALE_COLUMNS, SCALE_COLUMNS * blocks, False, SCALE_COPIES, "scales")


def layout_of(buffer: TensorBuffer) -> TensorLayout:
    """The layout of a buffer whose columns are planned."""
    if buffer.purpose is Use.SCALE:
        return scales(buffer.shape)
    if buffer.purpose is Use.OPERAND:
        return tensor_operand(buffer.shape, buffer.bits, buffer.pair)
    return accumulator(buffer.shape, buffer.pair)
