"""How each TMA instruction is carried out: through a tensor descriptor in boxes, or as one plain bulk copy.

A region that is one contiguous run of memory needs no descriptor: it becomes a bulk copy, of any length, if its start
is known to be a multiple of 16 bytes at both ends. All else goes through a descriptor, whose rules the tile must obey; so
does a run for several CTAs that is a single box. Where neither works the error says why, for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import phalanx.cuda.lower.ops  # noqa: F401  # what the families registered
from phalanx.analysis.alignment import breaks_alignment
from phalanx.cuda.abi import TensorMapSlot
from phalanx.cuda.lower.copy_planner import CopyPlanner, Impossible, Obstacle
from phalanx.cuda.lower.registry import Transfer, transfers
from phalanx.cuda.lower.row_copies import plan_row_copy
from phalanx.cuda.plan import Box, CopyPath, CopyPlan
from phalanx.cuda.text.bulk import BULK_ADDITIONS
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK, EXPANDED_BOX, MAX_BOX, Arch
from phalanx.ir.core import Function, Note, Op
from phalanx.ir.engines import COPY_ENGINE
from phalanx.ir.values import constant_of
from phalanx.ir.views import GlobalView, SharedBuffer, SharedView, in_global
from phalanx.layouts import SharedLayout, boxes, choose_panel
from phalanx.layouts.shared import TMA_ALIGNMENT
from phalanx.layouts.tma import Misplaced as MisplacedBox
from phalanx.layouts.tma import merge_axes

MISSED_BYTES = 128
"""What a miss brings into L2: what is asked for. With its neighbour, 256 bytes, it costs bandwidth even where that is asked
for next: reading 2 GB in boxes of 128 bytes a row, an H200 reaches 4,170 GB/s so, and 4,650 with 128, 64 or 0 bytes, with a
hint and without. Of 47 drawn products (`missed_bytes.json`) those that do not fit L2 are up to 18% faster with 128, none
slower by more than 2%."""


@frozen
class Copies:
    """The plan of every TMA instruction, the descriptors they use, and what the user may want to know."""

    plans: Mapping[Op, CopyPlan]
    tensor_maps: tuple[TensorMapSlot, ...]
    notes: tuple[Note, ...]


def plan_copies(
    function: Function, layouts: Mapping[SharedBuffer, SharedLayout], arch: Arch | None = None
) -> Copies:
    """Chooses the path of every TMA instruction of a kernel; `px.Error` at its line if there is none."""
    planner = _Planner(function, layouts)
    going_nowhere = []
    for op in function.walk():
        described = transfers.of(op)
        if described is not None:
            transfer = described(op)
            if transfer.rows:
                planner.plans[op] = plan_row_copy(planner, op, transfer, arch)
            elif transfer.shared is None:
                going_nowhere.append((op, transfer))
            else:
                planner.plan(op, transfer)
        elif any(access.engine is COPY_ENGINE and in_global(access.region) for access in op.effects().accesses):
            raise Error(
                f"nothing says between which regions {op.call} copies", location=op.loc,
                remedy=f"this is a mistake in Phalanx, not in the kernel: register its regions with @transfers in "
                f"cuda/lower/ops/{op.family}.py",
            )
    for op, transfer in going_nowhere:  # at the end: they take the descriptors of the copies that they announce
        planner.plan(op, transfer)
    return Copies(planner.plans, tuple(planner.tensor_maps), tuple(planner.notes))


class _Planner(CopyPlanner):
    """Plans the copies of boxes and of contiguous runs."""

    def plan(self, op: Op, copy: Transfer) -> None:
        (view,) = copy.views
        one_box = copy.multicast and prod(view.extents[-1:]) <= MAX_BOX
        ways = [self._tensor, self._bulk] if one_box else [self._bulk, self._tensor]
        refused = {}
        for way in ways:
            try:
                plan = way(copy, view)
                break
            except Impossible as reason:
                refused[way] = reason
        else:
            raise _no_path(op, view, refused[self._tensor], refused[self._bulk])
        self.plans[op] = plan
        self.notes.append(Note(f"{op.mnemonic} of {view.array.name}: {plan.path} copy, {plan.reason}", op.loc))
        if plan.guarded:
            self.notes.append(Note(_guard(op, view, plan.guarded), op.loc))

    def _check_global(self, view: GlobalView) -> None:
        """What both paths ask of the array, and of the region's start."""
        if view.index_axis is not None:
            raise Impossible("its rows are named by an index tile")
        self.check_array(view)

    # -- a plain bulk copy --------------------------------------------------------------------------------------

    def _bulk(self, copy: Transfer, view: GlobalView) -> CopyPlan:
        if not view.is_box:
            raise Impossible("patches of a convolution are no run of elements")
        if copy.folds and (copy.folds != "add" or view.dtype.name not in BULK_ADDITIONS):
            raise Impossible(f"only additions of {', '.join(BULK_ADDITIONS)} need no descriptor")
        if copy.pair:
            raise Impossible("only copies through a descriptor complete bytes in the other CTA of a pair")
        self._check_global(view)
        if prod(view.extents[:-1]) != 1:
            raise Impossible(f"a region of {_shape(view.shape)} is not one contiguous run along the last axis")
        if copy.expands:
            raise Impossible("room between elements is made by a descriptor")
        if copy.shared is not None:
            self._check_bulk_shared(copy.shared)
        size = view.nbytes
        rest = f", the last {size % COPY_CHUNK} by ordinary accesses" if size % COPY_CHUNK else ""
        return CopyPlan(CopyPath.BULK, f"one contiguous run of {size} bytes from a multiple of {COPY_CHUNK} bytes{rest}")

    def _check_bulk_shared(self, shared: SharedView) -> None:
        layout = self.layouts[shared.buffer]
        if prod(shared.extents[:-1]) != 1:
            raise Impossible("the shared region is not one row")
        if layout.swizzle or (layout.panels > 1 and layout.rows > 1):
            raise Impossible(f"{shared.buffer.name} is swizzled or cut into panels, so a row is not contiguous there")
        for offset, stride in zip(shared.offsets, layout.byte_strides, strict=True):
            if not self.divisibility.proves(offset, stride, COPY_CHUNK):
                raise Impossible(f"its start in {shared.buffer.name} is not known to be a multiple of {COPY_CHUNK} bytes")

    # -- boxes of a descriptor ----------------------------------------------------------------------------------

    def _tensor(self, copy: Transfer, view: GlobalView) -> CopyPlan:
        self._check_global(view)
        guarded = self._guarded(copy, view)
        if copy.shared is None:
            box, pieces, swizzle = self._free_boxes(view)
        else:
            box, pieces, swizzle = self._shared_boxes(view, copy.shared)
        if copy.expands:
            self._check_expansion(copy, view, box)
        walk: tuple[tuple[int, ...], ...] = ()
        if view.patches is not None:
            walk = (view.patches.lower, view.patches.upper, view.patches.stride)
            if box[0] != view.extents[0]:
                raise Impossible(f"boxes have {box[0]} of {view.extents[0]} patches there, a copy has all of them")
        wide = copy.shared is not None and self.layouts[copy.shared.buffer].wide
        slot = TensorMapSlot(
            view.array.index, box, swizzle, l2_promotion=MISSED_BYTES, expands=copy.expands, merged=view.merged, wide=wide,
            walk=walk,
        )
        if copy.shared is None:
            slot = self._described_already(slot)
        index = self.tensor_maps.setdefault(slot, len(self.tensor_maps))
        count = f"{len(pieces)} boxes" if len(pieces) > 1 else "a box"
        swizzled = f", {swizzle}-byte swizzle" + " in atoms of 32" * wide if swizzle else ""
        what = _shape(box) if not walk else f"{box[0]} patches of {box[-1]} channels"
        return CopyPlan(CopyPath.TENSOR, f"{count} of {what}{swizzled}", index, pieces, guarded)

    def _described_already(self, slot: TensorMapSlot) -> TensorMapSlot:
        """A copy's descriptor of the same boxes, in whatever order shared memory has them: a prefetch has none."""
        for other in self.tensor_maps:
            if replace(slot, swizzle=other.swizzle, wide=other.wide) == other:
                return other
        return slot

    def _check_expansion(self, copy: Transfer, view: GlobalView, box: tuple[int, ...]) -> None:
        """What a descriptor asks that puts room between elements."""
        if copy.stores:
            raise Impossible("only loads put room between elements")
        if box[-1] != EXPANDED_BOX:
            raise Impossible(f"a box has {box[-1]} elements along the last axis; with room between them {EXPANDED_BOX}")
        if not self.divisibility.proves(view.offsets[-1], 1, EXPANDED_BOX):
            raise Impossible(f"its start along the last axis is not known to be a multiple of {EXPANDED_BOX} elements")

    def _guarded(self, copy: Transfer, view: GlobalView) -> tuple[int, ...]:
        """Axes along which the region may begin before the array: loads may, stores fault on an H200."""
        if not copy.stores:
            return ()
        axes = tuple(axis for axis, offset in enumerate(view.offsets) if not self.signs.nonnegative(offset))
        if axes and copy.folds:
            reason = f"its start along axis {axes[0]} may be negative, which reductions can't clip"
            raise Impossible(reason, Obstacle.NEGATIVE_START)
        return axes

    def _free_boxes(self, view: GlobalView) -> tuple[tuple[int, ...], tuple[Box, ...], int]:
        """Boxes of a region that goes nowhere (a prefetch): only the descriptor's own rules hold."""
        try:
            extents = _merged(view.extents, view.merged)
            inner = choose_panel(extents[-1], view.dtype.itemsize) or extents[-1]
        except ValueError as problem:
            raise Impossible(str(problem)) from None
        box = (*(_largest_part(extent) for extent in extents[:-1]), inner)
        pieces = []
        counts = [extent // part for extent, part in zip(extents, box, strict=True)]
        for flat in range(prod(counts)):
            offset: list[int] = []
            for part, count in zip(reversed(box), reversed(counts), strict=True):
                offset.insert(0, flat % count * part)
                flat //= count
            pieces.append(Box(tuple(offset), 0))
        return box, tuple(pieces), 0

    def _shared_boxes(self, view: GlobalView, shared: SharedView) -> tuple[tuple[int, ...], tuple[Box, ...], int]:
        layout = self.layouts[shared.buffer]
        lead = _leading_integers(shared)
        try:
            inner = layout.sub_layout(lead)
            extents, axes, real = _with_dropped(view, shared, lead)
            origin = [int(constant_of(offset) or 0) for offset in shared.offsets[lead:]]
            self.check_box_start(shared, layout, lead)
            if (count := view.merged) > 1:
                if inner.shape[-count:] != view.extents[-count:]:
                    raise ValueError(f"the last {count} axes of {shared.buffer.name} have gaps, the array's have none")
                inner, extents, origin = merge_axes(inner, count), _merged(extents, count), origin[: 1 - count]
                axes, real = axes[: 1 - count], real[: 1 - count]
            plan = boxes(extents, inner, axes, origin)
        except MisplacedBox as problem:
            raise Impossible(str(problem), Obstacle.MISPLACED) from None
        except ValueError as problem:
            raise Impossible(str(problem)) from None
        box = tuple(plan.box[axis] for axis in real)
        pieces = tuple(Box(tuple(p.offset[axis] for axis in real), p.shared_offset) for p in plan.pieces)
        return box, pieces, layout.swizzle


def _leading_integers(shared: SharedView) -> int:
    """How many leading axes of the buffer the view drops, as far as what is left is a tile of its own."""
    lead = 0
    while lead < len(shared.extents) - 1 and lead not in shared.kept:
        lead += 1
    return lead


def _with_dropped(
    view: GlobalView, shared: SharedView, lead: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Extents per axis, the axis of each shared dimension, and which of the axes are the array's.

    A shared dimension that the view drops further in gets an axis of its own, of extent 1, next to its neighbour.
    """
    extents = list(view.extents)
    real = list(range(len(extents)))
    axes: list[int] = []
    kept = iter(view.kept)
    inserted = 0
    for dim in range(lead, len(shared.extents)):
        if dim in shared.kept:
            axes.append(next(kept) + inserted)
            continue
        place = axes[-1] + 1 if axes else 0
        extents.insert(place, 1)
        real = [axis + (axis >= place) for axis in real]
        axes.append(place)
        inserted += 1
    return tuple(extents), tuple(axes), tuple(real)


def _merged(extents: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Extents with the last `count` axes taken for one."""
    return (*extents[:-count], prod(extents[-count:]))


def _largest_part(extent: int) -> int:
    return next(part for part in range(min(extent, MAX_BOX), 0, -1) if extent % part == 0)


def _shape(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, extents)) if extents else "one element"


def _guard(op: Op, view: GlobalView, axes: tuple[int, ...]) -> str:
    """What a store costs whose start may lie before the array, and how to say that it does not."""
    where = " and ".join(f"axis {axis}" for axis in axes)
    start = next((view.offsets[axis].name for axis in axes if view.offsets[axis].name), "i")
    return (
        f"{op.mnemonic} of {view.array.name}: its start along {where} is not known to be 0 or more, so there is a second "
        f"way for where it is not, element by element; px.assume({start} >= 0) or px.maximum({start}, 0) saves it"
    )


def _no_path(op: Op, view: GlobalView, no_tensor: Impossible, no_bulk: Impossible) -> Error:
    kind, obstacle = view.array_type, no_tensor.obstacle
    if view.index_axis is not None:
        remedy = "use px.tma.gather4 or px.tma.scatter4 for rows by index, or px.load and px.store"
    elif kind.chunk and view.merged == 1:
        whole = ", ".join(f"0:{size}" for size in kind.chunk)
        remedy = f"copy its last axes whole, [..., {whole}]: together they are {COPY_CHUNK} bytes, which a copy takes for "
        remedy += "one axis"
    elif not kind.unit_inner or not (kind.aligned or kind.chunk):
        remedy = (
            "pass an array whose last axis has stride 1, and whose start and other strides are multiples of 16 bytes, "
            "or use px.load and px.store"
        )
    elif obstacle is Obstacle.UNKNOWN_START:
        step = COPY_CHUNK // view.dtype.itemsize
        remedy = f"write the start as a multiple, such as i * {max(step, view.extents[-1] // step * step)} or "
        remedy += f"i // {step} * {step}, or say so: px.assume(i % {step} == 0), or use px.load and px.store"
    elif obstacle is Obstacle.NEGATIVE_START:
        remedy = "write the start so that it can't be negative, such as px.maximum(i, 0), or say so: px.assume(i >= 0)"
    elif breaks_alignment(view):
        step = COPY_CHUNK // view.dtype.itemsize
        remedy = f"make the inner extent a multiple of {step} elements ({COPY_CHUNK} bytes), or use px.load and px.store"
    elif obstacle is Obstacle.UNKNOWN_PLACE:
        remedy = f"let the shared region begin at a multiple of {TMA_ALIGNMENT} bytes, and write its start as a multiple "
        remedy += "or say so, such as px.assume(i % 8 == 0)"
    elif obstacle is Obstacle.MISPLACED:
        remedy = f"let the shared region begin at a multiple of {TMA_ALIGNMENT} bytes, of {COPY_CHUNK} where it is one row"
    else:
        remedy = "choose a tile that one of the two paths can copy, or use px.load and px.store"
    reasons = f"through a descriptor: {no_tensor}\nas a plain bulk copy: {no_bulk}"
    return Error(
        f"px.{op.written} can't copy this region of {view.array.name}",
        location=op.loc,
        kind="misaligned" if breaks_alignment(view) or obstacle is Obstacle.MISPLACED else "error",
        details=str(no_tensor) if str(no_tensor) == str(no_bulk) else reasons,
        remedy=remedy,
    )
