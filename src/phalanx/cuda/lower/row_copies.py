"""How copies of rows by index are carried out: four rows per instruction, one row per copy, or plain bulk copies.

The shared image is the same on every path and every target: the layout does not depend on the path.
"""

from __future__ import annotations

from phalanx.analysis.alignment import breaks_alignment
from phalanx.cuda.abi import TensorMapSlot
from phalanx.cuda.lower.copy_planner import CopyPlanner, Impossible, Obstacle
from phalanx.cuda.lower.registry import Transfer
from phalanx.cuda.plan import Box, CopyPath, CopyPlan
from phalanx.errors import Error
from phalanx.ir.archs import COPY_CHUNK, Arch, Feature
from phalanx.ir.core import Note, Op
from phalanx.ir.values import Const, constant_of
from phalanx.ir.views import GlobalView, SharedView
from phalanx.layouts import SharedLayout
from phalanx.layouts.rows import FOUR, RowPlan, row_boxes
from phalanx.layouts.tma import Misplaced as MisplacedBox


def plan_row_copy(planner: CopyPlanner, op: Op, copy: Transfer, arch: Arch | None) -> CopyPlan:
    """The plan of one instruction, as every target has it where none is named; `px.Error` at its line if there is none."""
    view, shared = copy.views[0], copy.shared
    assert shared is not None
    try:
        planner.check_array(view)
        if copy.stores and not planner.signs.nonnegative(view.offsets[1]):
            raise Impossible("its first column may be negative, which stores can't clip", Obstacle.NEGATIVE_START)
        rows = _boxes(planner.layouts[shared.buffer], shared)
        plan = _choose(planner, copy, view, shared, rows, arch)
    except Impossible as reason:
        raise _no_way(op, view, reason) from None
    count = shared.shape[0]
    text = f"{op.mnemonic} of {count} rows of {view.array.name}: {plan.path}, {plan.reason}"
    planner.notes.append(Note(text, op.loc))
    return plan


def has_four_rows(copy: Transfer, arch: Arch | None) -> bool:
    """Whether the target has the four-row form of a copy; others copy row by row."""
    wide = copy.stores or copy.spreads
    return arch is not None and arch.has({Feature.GATHER4_CLUSTER if wide else Feature.GATHER4})


def is_fast(layout: SharedLayout, shared: SharedView) -> bool:
    """Whether single rows of this region can be copied through a descriptor."""
    return _boxes_or_none(layout, shared, lambda rows: rows.single)


def copies_of(layout: SharedLayout, shared: SharedView) -> int | None:
    """How many copies of single rows the region takes in this layout; None if it can't be copied so at all."""
    try:
        rows = _row_plan(layout, shared)
    except ValueError:
        return None
    return shared.shape[0] * len(rows.pieces if rows.single else rows.chunks(layout.itemsize))


def _boxes_or_none(layout: SharedLayout, shared: SharedView, ask: object) -> bool:
    try:
        return bool(ask(_row_plan(layout, shared)))  # type: ignore[operator]
    except ValueError:
        return False


def _row_plan(layout: SharedLayout, shared: SharedView) -> RowPlan:
    matrix = layout.sub_layout(layout.rank - 2)
    row, column = (int(constant_of(offset) or 0) for offset in shared.offsets[-2:])
    rows, columns = shared.extents[-2:]
    return row_boxes(rows, columns, matrix, (row, column))


def _boxes(layout: SharedLayout, shared: SharedView) -> RowPlan:
    try:
        return _row_plan(layout, shared)
    except MisplacedBox as problem:
        raise Impossible(str(problem), Obstacle.MISPLACED) from None
    except ValueError as problem:
        raise Impossible(str(problem)) from None


def _choose(
    planner: CopyPlanner, copy: Transfer, view: GlobalView, shared: SharedView, rows: RowPlan, arch: Arch | None
) -> CopyPlan:
    """Four rows at once where target and layout allow it, then single rows, then bulk copies."""
    layout = planner.layouts[shared.buffer]
    lead = layout.rank - 2
    pieces = tuple(Box(piece.offset, piece.shared_offset) for piece in rows.pieces)
    box = f"{len(pieces)} boxes" if len(pieces) > 1 else "a box"
    swizzled = f", {layout.swizzle}-byte swizzle" if layout.swizzle else ""
    shape = f"{box} of 1 x {rows.columns}{swizzled}"
    why_not = ""
    fours = rows.fours and has_four_rows(copy, arch)
    for path, possible in ((CopyPath.FOUR_ROWS, fours), (CopyPath.ROWS, rows.single)):
        if not possible:
            continue
        try:
            planner.check_box_start(shared, layout, lead)
        except Impossible as reason:
            why_not = str(reason)
            continue
        slot = TensorMapSlot(view.array.index, (1, rows.columns), layout.swizzle)
        index = planner.tensor_maps.setdefault(slot, len(planner.tensor_maps))
        name = "scatter4" if copy.stores else "gather4"
        reason_text = f"{name} of {shape}" if path is CopyPath.FOUR_ROWS else f"single rows of {shape}"
        return CopyPlan(path, reason_text, index, pieces, pitch=rows.pitch, columns=rows.columns)
    if copy.spreads and why_not:
        raise Impossible(why_not)
    if copy.spreads:
        narrow = f"rows of {rows.pitch} bytes in shared memory: multicast and pairs need rows of a multiple of 128 bytes"
        raise Impossible(narrow, Obstacle.NARROW_ROWS)
    column = shared.offsets[-1]
    if not isinstance(column, Const) and not planner.divisibility.proves(column, 1, layout.panel_columns):
        where = f"its first column in {shared.buffer.name}"
        raise Impossible(f"{where} is not known to be a multiple of {layout.panel_columns}")
    columns, runs = rows.columns, pieces
    if layout.swizzle:
        columns = COPY_CHUNK // layout.itemsize
        runs = tuple(Box(piece.offset, piece.shared_offset) for piece in rows.chunks(layout.itemsize))
    why = why_not or f"rows of {rows.pitch} bytes do not start on multiples of 128"
    return CopyPlan(CopyPath.BULK_ROWS, f"{len(runs)} a row, {why}", None, runs, pitch=rows.pitch, columns=columns)


def _no_way(op: Op, view: GlobalView, reason: Impossible) -> Error:
    kind, obstacle = view.array_type, reason.obstacle
    step = COPY_CHUNK // view.dtype.itemsize
    if not kind.unit_inner or not kind.aligned:
        remedy = (
            "pass an array whose last axis has stride 1, and whose start and row stride are multiples of 16 bytes, "
            "or use px.load and px.store with an index tile"
        )
    elif obstacle is Obstacle.NEGATIVE_START:
        remedy = "write the column so that it can't be negative, such as px.maximum(col, 0), or px.assume(col >= 0)"
    elif obstacle is Obstacle.UNKNOWN_START:
        remedy = f"write the column as a multiple, such as i * {view.extents[1]} or i // {step} * {step}"
    elif obstacle is Obstacle.NARROW_ROWS:
        remedy = f"make the destination {128 // view.dtype.itemsize} columns wide, or a multiple"
    else:
        remedy = (
            f"make the destination whole rows of a shared buffer, a multiple of {step} columns wide "
            f"({FOUR} rows of {128 // view.dtype.itemsize} columns always work)"
        )
    return Error(
        f"px.{op.written} can't copy rows of {view.array.name}",
        location=op.loc,
        kind="misaligned" if breaks_alignment(view) or obstacle is Obstacle.MISPLACED else "error",
        details=str(reason),
        remedy=remedy,
    )
