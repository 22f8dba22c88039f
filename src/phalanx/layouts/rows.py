"""Rows by index in shared memory: where the pieces of each row go, and whether rows go one by one or by fours.

A copy of single rows writes a box of one row, so every row must start where TMA can write: on a multiple of 128
bytes. The four-row instructions write four boxes that follow each other without a gap: only every fourth row must
start there. The swizzle is an XOR on addresses that the engine applies itself, so four rows in the middle of an
eight-row atom are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import LANES, RegisterLayout, padded
from phalanx.layouts.shared import TMA_ALIGNMENT, SharedLayout
from phalanx.layouts.tma import BoxPiece, Misplaced, _box_shape, _plain_offset, check_descriptor

FOUR = 4
UNIFORM_ROWS = 16
"""Rows by index that one warp asks for with indices in uniform registers."""


@frozen
class RowPlan:
    """The copies of one row: boxes of `columns` elements, where those of the first row go, the bytes to the next row.

    `single`: each row can be a copy of its own through a descriptor; `fours`: four rows can be one instruction.
    """

    columns: int
    pieces: tuple[BoxPiece, ...]
    pitch: int
    single: bool
    fours: bool

    def chunks(self, itemsize: int) -> tuple[BoxPiece, ...]:
        """The row in pieces that no swizzle separates."""
        step = COPY_CHUNK // itemsize
        return tuple(
            BoxPiece((0, piece.offset[1] + column), piece.shared_offset + column * itemsize)
            for piece in self.pieces
            for column in range(0, self.columns, step)
        )


def row_boxes(rows: int, columns: int, layout: SharedLayout, origin: Sequence[int] = (0, 0)) -> RowPlan:
    """How `rows` rows of `columns` elements land at `origin` of a shared matrix; ValueError with the reason if not.

    Example: `row_boxes(4, 128, SharedLayout((64, 128), 2, swizzle=128, panel=64))` has boxes of 64 columns, two a row,
    single or by fours.
    """
    return _row_boxes(rows, columns, layout, tuple(origin))


@lru_cache(maxsize=512)
def _row_boxes(rows: int, columns: int, layout: SharedLayout, origin: tuple[int, ...]) -> RowPlan:
    if layout.rank != 2:
        raise ValueError(f"rows by index go to a matrix, not to a shared tile of shape {layout.shape}")
    row, column = origin
    if row < 0 or column < 0 or row + rows > layout.rows or column + columns > layout.columns:
        raise ValueError(f"{rows} rows of {columns} at {origin} do not fit a shared tile of shape {layout.shape}")
    if columns * layout.itemsize % COPY_CHUNK:
        raise ValueError(f"rows of {columns * layout.itemsize} bytes; TMA copies multiples of {COPY_CHUNK}")
    inner = _box_shape((1, columns), origin, layout, narrow=False)[-1]
    problems = check_descriptor(itemsize=layout.itemsize, box=(1, inner), swizzle=layout.swizzle)
    if problems:
        raise ValueError("; ".join(problems))
    pieces = tuple(
        BoxPiece((0, start), _plain_offset(layout, (row, column + start))) for start in range(0, columns, inner)
    )
    pitch = layout.row_pitch
    if pitch % COPY_CHUNK:
        raise ValueError(f"rows in shared memory {pitch} bytes apart; they must start on multiples of {COPY_CHUNK}")
    if any(piece.shared_offset % COPY_CHUNK for piece in pieces):
        at = pieces[0].shared_offset
        raise Misplaced(f"a row lands at byte {at} of the shared tile; they must start on multiples of {COPY_CHUNK}")
    placed = all(piece.shared_offset % TMA_ALIGNMENT == 0 for piece in pieces)
    single = placed and pitch % TMA_ALIGNMENT == 0
    fours = placed and pitch == inner * layout.itemsize and FOUR * pitch % TMA_ALIGNMENT == 0
    return RowPlan(inner, pieces, pitch, single, fours)


@lru_cache(maxsize=128)
def index_layout(rows: int, warps: int) -> RegisterLayout:
    """The registers of a tile of `rows` indices: lane l of every warp holds those of rows 4 l to 4 l + 3, then 128 on.

    A thread has the four indices of one instruction at hand, and any warp has all of them.
    """
    size = padded((rows,))[0]
    images: list[tuple[int, ...]] = [(1 << bit,) for bit in range(size.bit_length() - 1)]
    lanes = images[2:7]
    nothing: list[tuple[int, ...]] = [(0,)]
    bases: dict[str, list[tuple[int, ...]]] = {
        "register": images[:2] + images[7:],
        "lane": lanes + nothing * (LANES.bit_length() - 1 - len(lanes)),
        "warp": nothing * (warps - 1).bit_length(),
    }
    return RegisterLayout(LinearLayout.make(bases, padded((rows,))), (rows,), warps)


def issued_by_warp(rows: int, warps: int) -> int | None:
    """How many of `rows` rows, a multiple of four, one lane of each of so many warps asks for when they share them.

    None: more than `UNIFORM_ROWS`, which would take too many registers. Then the lanes that hold the indices ask.
    """
    share = max(FOUR, padded((rows,))[0] >> (warps.bit_length() - 1))
    return share if share <= UNIFORM_ROWS else None


@lru_cache(maxsize=128)
def issue_layout(rows: int, warps: int) -> RegisterLayout:
    """The registers of a tile of `rows` indices whose rows are loaded: all lanes of a warp hold those that it asks for.

    They are the same in all lanes, so they move to uniform registers once, and the copies of a step follow each other
    without a gap; lanes with indices of their own take turns, some sixty cycles each. Where a warp would ask for too
    many, lanes hold them, as for stores.
    """
    share = issued_by_warp(rows, warps)
    if share is None:
        return index_layout(rows, warps)
    size = padded((rows,))[0]
    images: list[tuple[int, ...]] = [(1 << bit,) for bit in range(size.bit_length() - 1)]
    held = share.bit_length() - 1
    nothing: list[tuple[int, ...]] = [(0,)]
    between = images[held:]
    bases: dict[str, list[tuple[int, ...]]] = {
        "register": images[:held],
        "lane": nothing * (LANES.bit_length() - 1),
        "warp": between + nothing * ((warps - 1).bit_length() - len(between)),
    }
    return RegisterLayout(LinearLayout.make(bases, padded((rows,))), (rows,), warps)
