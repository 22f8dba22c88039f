"""Pushes from CTA to CTA in PTX: bulk copies of runs of bytes, or all threads store to the peer's address."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import prod

from phalanx.cuda.plan import PushPath, PushPlan
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.literals import atom, bare
from phalanx.cuda.text.prelude import instruction
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.arithmetic import cast_text
from phalanx.cuda.tiles.coordinates import owner_conditions
from phalanx.cuda.tiles.facts import facts_of
from phalanx.cuda.tiles.index import local, plus, slot_loop, times
from phalanx.cuda.tiles.shared_access import SharedAccess, scalar_place
from phalanx.errors import Error
from phalanx.ir.ops.cluster import ClusterCopy, ClusterStore
from phalanx.ir.types import TileType
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import SharedView

UNROLLED = 8
"""As many copies are written one after the other; more are shared out over the lanes of a warp."""
SMALLEST_ASYNC = 4
"""`st.async` moves 4, 8 or 16 bytes."""


@cache
def push_bulk() -> Helper:
    """Builds one bulk copy of contiguous bytes into a peer's shared memory, credited to a barrier there."""
    return instruction(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        "[{dst}], [{src}], {bytes}, [{bar}]",
        (("unsigned", "dst"), ("unsigned", "src"), ("unsigned", "bytes"), ("unsigned", "bar")),
        name="cp_async_bulk_shared_shared",
    )


def emit_push(w: Writer, op: ClusterCopy, arm: Helper) -> None:
    """Writes one push as its plan says; `arm` is the arrival on the receiver's barrier with its bytes."""
    plan = w.plan.pushes[op]
    w.comment(f"{plan.path}: {plan.reason}")
    if plan.path in (PushPath.BULK, PushPath.BULK_ROWS):
        _bulk(w, op, plan, arm)
    else:
        _stores(w, op, plan, arm)


def emit_register_push(w: Writer, op: ClusterStore) -> None:
    """Every thread sends what it holds, as many consecutive elements at a time as it has; a scalar is sent by one."""
    if not isinstance(op.value.type, TileType):
        _push_scalar(w, op)
        return
    view, layout, shared = op.view, w.plan.layouts[op.value], w.plan.buffers[op.view.buffer].layout
    name, owner = w.name(op.value), owner_conditions(w, layout)
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        bar = local(w, "there_bar")
        w.line(f"const unsigned {bar} = {_remote(w, view, w.barrier_address(op.bar))};")
        access = SharedAccess(w, view, layout, shared, facts_of(w))
        access.declare()
        width = access.vector
        if width * view.dtype.itemsize < SMALLEST_ASYNC:
            raise Error(
                f"a thread holds {width} consecutive element{'s' * (width > 1)} of {view.dtype}: st.async moves at least "
                f"{SMALLEST_ASYNC} bytes",
                location=op.loc,
                remedy="send a wider element type, or px.store(view.at(cta), tile) and bar.arrive(ctas=...)",
            )
        with slot_loop(w, layout.num_registers, width) as i:
            source = f"{name} + {i}" if i != "0" else name
            text = f"{w.use('st_async')}<{width}>({access.place(i, width)}, {source}, {bar});"
            alive = " && ".join(access.alive(i, width))
            w.line(f"if ({alive}) {text}" if alive else text)


def _push_scalar(w: Writer, op: ClusterStore) -> None:
    shared = w.plan.buffers[op.view.buffer].layout
    with w.elected():
        there = f"{scalar_place(w, op.view, shared)}, x, {_remote(w, op.view, w.barrier_address(op.bar))}"
        with w.block():
            w.line(f"const {w.ctype(op.view.dtype)} x[1] = {{{w.name(op.value)}}};")
            w.line(f"{w.use('st_async')}<1>({there});")


def _remote(w: Writer, view: SharedView, address: str) -> str:
    assert view.cta is not None
    return f"{w.use('mapa_shared_cluster')}({address}, {bare(w.name(view.cta))})"


def _arm(w: Writer, op: ClusterCopy, bar: str, arm: Helper) -> None:
    if op.arm:
        w.line(f"{w.use(arm)}({bar}, {_bytes(w, op)});")


def _bytes(w: Writer, op: ClusterCopy) -> str:
    """What arrives."""
    return str(op.dst.nbytes) if op.nbytes is None else bare(w.name(op.nbytes))


# ---------------------------------------------------------------------- bulk copies


def _moving(w: Writer, view: SharedView) -> str:
    """The bytes that offsets known only at run time add to a view's place."""
    layout = w.plan.buffers[view.buffer].layout
    return layout.linear_offset_expression(["0" if isinstance(o, Const) else w.name(o) for o in view.offsets])


def _bulk(w: Writer, op: ClusterCopy, plan: PushPlan, arm: Helper) -> None:
    assert op.bar is not None
    src = plus(w.address(op.src.buffer), _moving(w, op.src))
    dst = plus(w.address(op.dst.buffer), _moving(w, op.dst))
    copy = w.use(push_bulk())
    counts = [step.count for step in plan.steps]
    constant = [count for count in counts if not isinstance(count, Value)]
    if plan.places or (len(constant) == len(counts) and prod(constant) <= UNROLLED):
        with w.elected():
            here, there, bar = local(w, "here"), local(w, "there"), local(w, "there_bar")
            with w.block():
                w.line(f"const unsigned {bar} = {_remote(w, op.dst, w.barrier_address(op.bar))};")
                _arm(w, op, bar, arm)
                size, guard = _run_bytes(w, plan)
                if prod(constant) == 1 and not plan.places:
                    start, end = plus(src, str(plan.src)), _remote(w, op.dst, plus(dst, str(plan.dst)))
                    w.line(f"{guard}{copy}({end}, {start}, {size}, {bar});")
                    return
                w.line(f"const unsigned {here} = {src}, {there} = {_remote(w, op.dst, dst)};")
                for a, b in plan.places or _places(plan):
                    w.line(f"{guard}{copy}({plus(there, str(b))}, {plus(here, str(a))}, {size}, {bar});")
        return
    _by_lanes(w, op, plan, src, dst, arm)


def _run_bytes(w: Writer, plan: PushPlan) -> tuple[str, str]:
    """The bytes of one run, and what goes before its copy where there may be none."""
    if plan.length is None:
        return str(plan.nbytes), ""
    size = times(w.name(plan.length), str(plan.nbytes))
    return size, f"if ({bare(w.name(plan.length))} != 0) "


def _places(plan: PushPlan) -> list[tuple[int, int]]:
    """The start of every copy, outer steps first."""
    places = [(plan.src, plan.dst)]
    for step in plan.steps:
        assert isinstance(step.count, int), "as many copies as a run says are made by a loop"
        places = [(a + n * step.src, b + n * step.dst) for a, b in places for n in range(step.count)]
    return places


def _product(w: Writer, counts: Iterable[int | Value]) -> str:
    """The product of numbers, some of which only a run knows, as text that stands beside any operator."""
    known, text = 1, ""
    for count in counts:
        if isinstance(count, Value):
            text = f"{text} * {atom(w.name(count))}" if text else atom(w.name(count))
        else:
            known *= count
    return str(known) if not text else atom(text if known == 1 else f"{text} * {known}")


def _by_lanes(w: Writer, op: ClusterCopy, plan: PushPlan, src: str, dst: str, arm: Helper) -> None:
    """The lanes of the agent's first warp share the copies out; a barrier tells them what the elected thread knows."""
    assert op.bar is not None
    with w.block("" if w.agent.warps == 1 else f"if ({w.warp} == 0)"):
        w.line("__syncwarp();")
        here, there, bar, i = local(w, "here"), local(w, "there"), local(w, "there_bar"), local(w, "i")
        w.line(f"const unsigned {bar} = {_remote(w, op.dst, w.barrier_address(op.bar))};")
        if op.arm:
            with w.elected():
                _arm(w, op, bar, arm)
        w.line(f"const unsigned {here} = {plus(src, str(plan.src))};")
        w.line(f"const unsigned {there} = {_remote(w, op.dst, plus(dst, str(plan.dst)))};")
        counts = [step.count for step in plan.steps]
        with w.block(f"for (int {i} = {w.lane}; {i} < {bare(_product(w, counts))}; {i} += 32)"):
            terms_here, terms_there = [here], [there]
            for position, step in enumerate(plan.steps):
                inner = _product(w, counts[position + 1 :])
                number = i if inner == "1" else f"{i} / {inner}"
                if position:
                    number = f"{number} % {_product(w, [step.count])}"
                terms_here.append(times(f"({number})", str(step.src)) if number != i else times(i, str(step.src)))
                terms_there.append(times(f"({number})", str(step.dst)) if number != i else times(i, str(step.dst)))
            size, guard = _run_bytes(w, plan)
            w.line(f"{guard}{w.use(push_bulk())}({plus(*terms_there)}, {plus(*terms_here)}, {size}, {bar});")
        w.line("__syncwarp();")


# ---------------------------------------------------------------------- stores


def _stores(w: Writer, op: ClusterCopy, plan: PushPlan, arm: Helper) -> None:
    """All threads of the agent, each `vector` elements at a time.

    The push is one thread's to the rest of the program: the others take part when that thread has come to it.
    """
    async_path = plan.path is PushPath.ST_ASYNC
    w.sync_agent("all threads take part in the push")
    with w.block():
        bar = local(w, "there_bar")
        if op.bar is not None:
            w.line(f"const unsigned {bar} = {_remote(w, op.dst, w.barrier_address(op.bar))};")
            if op.arm:
                with w.elected():
                    _arm(w, op, bar, arm)
        there = local(w, "there")
        w.line(f"const unsigned {there} = {_remote(w, op.dst, w.address(op.dst.buffer))};")
        _store_loop(w, op, plan, there, bar if async_path else None)
        if async_path:
            return
        if plan.fenced:
            w.line(f"{w.use('fence_proxy_async_shared_cluster')}();  // engines may read what was stored")
        if op.bar is not None:
            w.sync_agent("all threads have stored")
            with w.elected():
                w.line(f"{w.use('fence_acq_rel_cluster')}();")
                w.line(f"{w.use('mbarrier_complete_tx_relaxed_cluster_shared_cluster')}({bar}, {_bytes(w, op)});")


def _store_loop(w: Writer, op: ClusterCopy, plan: PushPlan, there: str, bar: str | None) -> None:
    vector, total = plan.vector, op.dst.nbytes // op.dst.dtype.itemsize
    i = local(w, "i")
    source, target = w.ctype(op.src.dtype), w.ctype(op.dst.dtype)
    start = f"{w.thread} * {vector}" if vector > 1 else w.thread
    several = total > vector or op.nbytes is not None
    count = str(total)
    if op.nbytes is not None:
        count = local(w, "count")
        w.line(f"const int {count} = {atom(w.name(op.nbytes))} / {op.dst.dtype.itemsize};")
    head = f"for (int {i} = {start}; {i} < {count}; {i} += {w.agent.threads * vector})"
    with w.block(head if several else f"if ({w.thread} == 0)"):
        at = i if several else "0"
        a, b, piece = local(w, "from"), local(w, "to"), local(w, "piece")
        w.line(f"const unsigned {a} = {_byte(w, op.src, at)};")
        w.line(f"const unsigned {b} = {_byte(w, op.dst, at)};")
        layouts = [w.plan.buffers[view.buffer].layout for view in (op.src, op.dst)]
        begin = f"{w.smem} + {w.plan.buffers[op.src.buffer].offset} + ({layouts[0].swizzle_expression(a)})"
        end = plus(there, f"({layouts[1].swizzle_expression(b)})")
        w.line(f"{source} {piece}[{vector}];")
        pointer = f"reinterpret_cast<const {source}*>({begin})"
        if vector * op.src.dtype.itemsize > 1:
            w.line(f"{w.use('load_vector')}<{vector}>({piece}, {pointer});")
        else:
            w.line(f"{piece}[0] = *{pointer};")
        if op.src.dtype != op.dst.dtype:
            new = local(w, "converted")
            values = [cast_text(w, f"{piece}[{n}]", op.src.dtype, op.dst.dtype) for n in range(vector)]
            w.line(f"const {target} {new}[{vector}] = {{{', '.join(values)}}};")
            piece = new
        if bar is not None:
            w.line(f"{w.use('st_async')}<{vector}>({end}, {piece}, {bar});")
        else:
            w.line(f"{w.use('store_remote')}<{vector}>({end}, {piece});")


def _extents(view: SharedView) -> tuple[int | Value, ...]:
    """How long a region is along each axis of its buffer, as far as constants say it."""
    if not view.run_time_extents:
        return view.extents
    known = map(constant_of, view.run_time_extents)
    return tuple(value if number is None else int(number) for value, number in zip(view.run_time_extents, known))


def _byte(w: Writer, view: SharedView, number: str) -> str:
    """The byte offset, before the swizzle, of the element of that row-major number in a view."""
    index = [w.name(offset) for offset in view.offsets]
    extents = _extents(view)
    inside: list[int | Value] = []
    for position, axis in reversed(list(enumerate(view.kept))):
        extent = extents[axis]
        if extent != 1:
            inner = _product(w, inside)
            step = number if inner == "1" else f"{number} / {inner}"
            if any(extents[other] != 1 for other in view.kept[:position]):
                step = f"{step} % {_product(w, [extent])}"
            index[axis] = plus(index[axis], f"({step})" if step != number else step)
        inside.append(extent)
    return w.plan.buffers[view.buffer].layout.linear_offset_expression(index)
