"""How each push from CTA to CTA is carried out: one bulk copy, one per contiguous run, or stores to the peer's address.

Both regions are laid out physically, element by element, swizzles and panels included. Where the same bytes stand in
the same order on both sides they form runs; bulk copies move whole runs from and to multiples of 16 bytes. What they
can't move is stored by all threads of the agent: with `st.async`, which credits the receiver's barrier by itself, or
with ordinary stores, a fence and a credit. On every path the same bytes complete, so nothing else depends on the
choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import prod

import numpy as np

import phalanx.cuda.lower.ops  # noqa: F401  # what the families registered
from phalanx.analysis.divisibility import Divisibility, find_divisibility
from phalanx.cuda.exchanges.push import SMALLEST_ASYNC
from phalanx.cuda.lower.registry import Push, pushes
from phalanx.cuda.plan import PushPath, PushPlan, Step
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.core import Faster, Function, Note, Op, rewrite
from phalanx.ir.effects import Mode, Proxy
from phalanx.ir.memory import unit_of
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import BarrierArray, SharedBuffer, SharedView, in_shared
from phalanx.layouts import SharedLayout

WIDE_RUN = 128
"""Runs shorter than a row are bulk copies only from this size on."""
FEW = 64
"""Runs at irregular places, of which each takes an instruction of its own."""
ASKED = f"give it a barrier, and two regions of one shape, type and layout, of whole rows of multiples of {COPY_CHUNK} bytes"
"""What bulk copies ask of a push."""

Layouts = Mapping[SharedBuffer, SharedLayout]


class Unfit(Exception):
    """Why bulk copies can't do it."""


@frozen
class Pushes:
    """The plan of every push, the barriers credited after ordinary stores, and what the user may want to know."""

    function: Function
    plans: Mapping[Op, PushPlan]
    credited: frozenset[BarrierArray]
    notes: tuple[Note, ...]


def plan_pushes(function: Function, layouts: Layouts) -> Pushes:
    """Chooses the path of every push; each says in the IR which, and why.

    For `lower`, after shared memory is laid out. Example: ``plan_pushes(function, shared).plans[op].path is PushPath.BULK``.
    """
    found = {op: describe(op) for op in function.walk() if (describe := pushes.of(op)) is not None}
    if not found:
        return Pushes(function, {}, frozenset(), ())
    facts = find_divisibility(function)
    bulk: dict[Op, PushPlan] = {}
    refused: dict[Op, str] = {}
    for op, push in found.items():
        try:
            bulk[op] = _bulk(push, layouts, facts)
        except Unfit as reason:
            refused[op] = str(reason)
    used = [
        (access.mode, unit_of(access.region.buffer))
        for op in function.walk()
        if op not in refused
        for access in op.effects().accesses
        if access.proxy is Proxy.ASYNC and in_shared(access.region)
    ]
    engines = {unit for mode, unit in used if mode is Mode.READ}
    touched = {unit for _, unit in used}
    plans: dict[Op, PushPlan] = {}
    credited: set[BarrierArray] = set()
    notes: list[Note] = []

    def visit(op: Op) -> list[Op] | None:
        push = found.get(op)
        if push is None:
            return None
        plan = bulk.get(op) or _stores(
            push, layouts, facts, refused[op], unit_of(push.dst.buffer) in (touched if push.bar is None else engines)
        )
        how = f"{plan.path}: {plan.reason}"
        placed = push.explained(how)
        plans[placed] = plan
        if plan.path is PushPath.STORES and push.bar is not None:
            credited.add(push.bar.barrier)
        faster = Faster(ASKED) if op in refused else None
        said = f"{op.mnemonic} of {push.src.buffer.name} to {push.dst.buffer.name}: {how}"
        notes.append(Note(said, op.loc, faster=faster))
        return [placed]

    function = dataclasses.replace(function, body=rewrite(function.body, visit))
    return Pushes(function, plans, frozenset(credited), tuple(notes))


# ---------------------------------------------------------------------- bulk copies


def _bulk(op: Push, layouts: Layouts, facts: Divisibility) -> PushPlan:
    if op.bar is None:
        raise Unfit("bulk copies complete on a barrier, and none is given")
    if op.src.dtype != op.dst.dtype:
        raise Unfit(f"{op.src.dtype} is converted to {op.dst.dtype}")
    if op.nbytes is not None:
        return _bulk_of_run_time_extents(op, layouts, facts)
    if _squeezed(op.src) != _squeezed(op.dst):
        raise Unfit(f"a region of {_shape(op.src.shape)} is reshaped to {_shape(op.dst.shape)}")
    for view in (op.src, op.dst):
        _check_start(view, layouts[view.buffer], facts)
    item = op.src.dtype.itemsize
    src, dst = (_offsets(view, layouts[view.buffer]) for view in (op.src, op.dst))
    starts, size = _runs(src, dst, item)
    row = op.src.shape[-1] * item if op.src.shape else item
    if size < min(row, WIDE_RUN) and len(starts) > 1:
        raise Unfit(f"a row is not contiguous in both: {_difference(op, layouts)}")
    if size % COPY_CHUNK:
        raise Unfit(f"runs of {size} bytes are no multiple of {COPY_CHUNK}")
    if (starts % COPY_CHUNK).any():
        raise Unfit(f"a run does not start at a multiple of {COPY_CHUNK} bytes")
    if len(starts) == 1:
        reason = f"one contiguous run of {size} bytes"
        return PushPlan(PushPath.BULK, reason, size, src=int(starts[0, 0]), dst=int(starts[0, 1]))
    steps = _steps(starts)
    if steps is None:
        if len(starts) > FEW:
            raise Unfit(f"{len(starts)} contiguous runs lie at irregular places")
        places = tuple((int(a), int(b)) for a, b in starts)
        return PushPlan(PushPath.BULK_ROWS, f"{len(starts)} contiguous runs of {size} bytes", size, places=places)
    return PushPlan(
        PushPath.BULK_ROWS, f"{len(starts)} contiguous runs of {size} bytes", size,
        src=int(starts[0, 0]), dst=int(starts[0, 1]), steps=steps,
    )


def _bulk_of_run_time_extents(op: Push, layouts: Layouts, facts: Divisibility) -> PushPlan:
    """Runs of bytes whatever the extents are: as many inner axes as follow one another in memory, repeated over the rest.

    The outermost axis of a run may have an extent that only a run of the kernel knows, those inside it are constants.
    """
    for view in (op.src, op.dst):
        _check_start(view, layouts[view.buffer], facts)
    lengths, largest, places = _long_axes(op, layouts)
    item = op.dst.dtype.itemsize
    moving = max(position for position, length in enumerate(lengths) if constant_of(length) is None)
    cut = next((cut for cut in range(moving, len(lengths)) if _is_run(places, largest, cut, cut == moving, item)), None)
    if cut is None:
        raise Unfit(f"a row is not contiguous in both: {_difference(op, layouts)}")
    length = lengths[cut] if cut == moving else None
    unit = prod(largest[cut + 1 if length is not None else cut :]) * item
    if length is not None and not facts.proves(length, unit, COPY_CHUNK):
        raise Unfit(f"its runs of bytes, known only at run time, are not known to be multiples of {COPY_CHUNK}")
    if length is None and unit % COPY_CHUNK:
        raise Unfit(f"runs of {unit} bytes are no multiple of {COPY_CHUNK}")
    starts = places.reshape(2, *largest[:cut], -1).min(axis=-1)
    if (starts % COPY_CHUNK).any():
        raise Unfit(f"a run does not start at a multiple of {COPY_CHUNK} bytes")
    steps = []
    for axis in range(cut):
        apart = np.diff(starts, axis=axis + 1).reshape(2, -1)
        if (apart != apart[:, :1]).any():
            raise Unfit("contiguous runs lie at irregular places")
        src, dst = (int(step[0]) if step.size else 0 for step in apart)
        count = constant_of(lengths[axis])
        steps.append(Step(lengths[axis] if count is None else int(count), src, dst))
    src, dst = (int(start.reshape(-1)[0]) for start in starts)
    if not steps:
        reason = "one contiguous run, whose length the launch decides"
        return PushPlan(PushPath.BULK, reason, unit, length, src, dst)
    known = [step.count for step in steps if not isinstance(step.count, Value)]
    if length is None:
        reason = f"contiguous runs of {unit} bytes, as many as the launch says"
    elif len(known) == len(steps):
        reason = f"{prod(known)} contiguous runs, whose length the launch decides"
    else:
        reason = "contiguous runs, whose number and length the launch decides"
    return PushPlan(PushPath.BULK_ROWS, reason, unit, length, src, dst, tuple(steps))


def _long_axes(op: Push, layouts: Layouts) -> tuple[list[Value], tuple[int, ...], np.ndarray]:
    """The extents of both regions along the axes that may be longer than 1, how long each can be, and with those, where
    every element lies in both."""
    axes = [
        [axis for axis in view.kept if constant_of(view.run_time_extents[axis]) != 1] for view in (op.src, op.dst)
    ]
    lengths = [op.dst.run_time_extents[axis] for axis in axes[1]]
    largest = tuple(min(op.src.extents[a], op.dst.extents[b]) for a, b in zip(*axes, strict=True))
    places = []
    for view, kept in zip((op.src, op.dst), axes):
        extents = dict(zip(kept, largest))
        cut = view.replaced(extents=tuple(extents.get(axis, 1) for axis in range(len(view.extents))))
        places.append(_offsets(cut, layouts[view.buffer]).reshape(largest))
    return lengths, largest, np.stack(places)


def _is_run(places: np.ndarray, largest: tuple[int, ...], cut: int, any_length: bool, item: int) -> bool:
    """Whether the axes from `cut` on are the same run of bytes in both, whatever the first of them measures."""
    units = largest[cut] if any_length else 1
    parts = places.reshape(2, -1, units, prod(largest[cut:]) // units)
    order = np.argsort(parts[0], axis=-1, kind="stable")  # a swizzle turns pieces around that stay together
    src, dst = (np.take_along_axis(side, order, axis=-1).reshape(parts.shape[1], -1) for side in parts)
    return bool((np.diff(src) == item).all() and (np.diff(dst) == item).all())


def _squeezed(view: SharedView) -> tuple[int, ...]:
    return tuple(extent for extent in view.shape if extent != 1)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one element"


def _difference(op: Push, layouts: Layouts) -> str:
    a, b = layouts[op.src.buffer], layouts[op.dst.buffer]
    if (a.swizzle, a.wide) != (b.swizzle, b.wide):
        return f"{op.src.buffer.name} has a swizzle of {a.swizzle} bytes, {op.dst.buffer.name} of {b.swizzle}"
    if op.src.kept != tuple(sorted(op.src.kept)) or op.dst.kept != tuple(sorted(op.dst.kept)):
        return "one of them is transposed"
    return "they lie differently in their buffers"


def _check_start(view: SharedView, layout: SharedLayout, facts: Divisibility) -> None:
    """Offsets known only at run time must shift the whole region by a multiple of what copies and the swizzle need."""
    for axis, (offset, stride) in enumerate(zip(view.offsets, layout.byte_strides, strict=True)):
        if isinstance(offset, Const):
            continue
        where = f"its start along axis {axis} of {view.buffer.name} is not known to be a multiple of"
        if axis == layout.rank - 1 and layout.panels > 1:
            panel = layout.panel_columns
            if panel & (panel - 1) or not facts.proves(offset, 1, panel):
                raise Unfit(f"{where} the panel of {panel} columns")
        elif not facts.proves(offset, stride, max(COPY_CHUNK, layout.period)):
            raise Unfit(f"{where} {max(COPY_CHUNK, layout.period)} bytes")


def _offsets(view: SharedView, layout: SharedLayout) -> np.ndarray:
    """The byte offset of every element in the view's row-major order; what is known at run time only counts as 0."""
    index: list[object] = [int(o.value) if isinstance(o, Const) else 0 for o in view.offsets]
    for position, axis in enumerate(view.kept):
        steps = np.arange(view.extents[axis]).reshape([-1 if d == position else 1 for d in range(len(view.kept))])
        index[axis] = index[axis] + steps  # type: ignore[operator]
    return np.broadcast_to(np.asarray(layout.offset(index)), view.shape).reshape(-1)


def _runs(src: np.ndarray, dst: np.ndarray, item: int) -> tuple[np.ndarray, int]:
    """(source, destination) offset of every run of bytes that are consecutive on both sides, and their length.

    Where some runs are longer than others they are cut, so that all are equal.
    """
    order = np.argsort(src, kind="stable")
    a, b = src[order], dst[order]
    heads = np.flatnonzero(np.concatenate(([True], (np.diff(a) != item) | (np.diff(b) != item))))
    length = int(np.gcd.reduce(np.diff(np.concatenate((heads, [len(a)])))))
    pieces = slice(None, None, length)
    return np.stack([a[pieces], b[pieces]], axis=1), length * item


def _steps(starts: np.ndarray) -> tuple[Step, ...] | None:
    """Regular places as nested steps, outermost first: the recursive shape of what is left of the region."""
    steps: list[Step] = []
    rest = starts
    while len(rest) > 1:
        step = rest[1] - rest[0]
        count = 1
        while count < len(rest) and (rest[count] - rest[count - 1] == step).all():
            count += 1
        if len(rest) % count:
            return None
        groups = rest.reshape(-1, count, 2)
        if not (np.diff(groups, axis=1) == step).all():
            return None
        steps.insert(0, Step(count, int(step[0]), int(step[1])))
        rest = groups[:, 0]
    return tuple(steps)


# ---------------------------------------------------------------------- stores


def _stores(op: Push, layouts: Layouts, facts: Divisibility, why: str, read_by_engine: bool) -> PushPlan:
    """By all threads, as wide as both sides allow."""
    widths = [_vector(view, layouts[view.buffer], facts) for view in (op.src, op.dst)]
    largest = COPY_CHUNK // max(op.src.dtype.itemsize, op.dst.dtype.itemsize)
    vector = min(*widths, largest)
    credit = op.dst.nbytes if op.nbytes is None else "its"
    width = vector * op.dst.dtype.itemsize
    said = f"{why}; {width} bytes at a time"
    if op.bar is None:
        reason = f"{said}, ordered by the next cluster barrier"
        return PushPlan(PushPath.STORES, reason, vector=vector, fenced=read_by_engine)
    if width < SMALLEST_ASYNC:
        reason = f"{said}, too few for st.async: a fence and a credit of {credit} bytes follow"
        return PushPlan(PushPath.STORES, reason, vector=vector, fenced=read_by_engine)
    if read_by_engine:
        reason = (
            f"{said}; {op.dst.buffer.name} is read by an engine: a fence and a credit of {credit} bytes follow"
        )
        return PushPlan(PushPath.STORES, reason, vector=vector, fenced=True)
    return PushPlan(PushPath.ST_ASYNC, said, vector=vector)


def _vector(view: SharedView, layout: SharedLayout, facts: Divisibility) -> int:
    """How many elements, consecutive in the view, are always one aligned piece of at most 16 bytes."""
    if not view.kept or view.kept[-1] != layout.rank - 1:
        return 1
    item, last = layout.itemsize, layout.rank - 1
    width = COPY_CHUNK
    parts = [view.extents[last] * item]
    while view.run_time_extents and not facts.proves(view.run_time_extents[last], item, width):
        width //= 2
    if prod(view.extents[:last]) > 1 or layout.rank > 1:
        parts += [layout.row_pitch, layout.panel_bytes if layout.panels > 1 else 0, layout.matrix_bytes]
    if layout.panels > 1:
        parts.append(layout.panel_columns * item)
    for size in parts:
        while size % width:
            width //= 2
    for offset, stride in zip(view.offsets, layout.byte_strides, strict=True):
        while not facts.proves(offset, stride, width):
            width //= 2
    return max(1, width // item)
