"""`cp.async`: 4, 8 or 16 bytes by each instruction, with zeros for what is not in the array; `cp.async.mbarrier.arrive`.

A commit takes three steps. Every thread lets the barrier wait for its own copies, by an arrival that it announces first
and that comes when they are over: together that changes no count. When all threads have done so one of them arrives,
which is the arrival that the language counts.
"""

from __future__ import annotations

from functools import cache

from phalanx.cuda.ops.mbarrier import arrive
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import device_function, instruction
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.coordinates import owner_conditions
from phalanx.cuda.tiles.facts import facts_of
from phalanx.cuda.tiles.global_access import GlobalAccess
from phalanx.cuda.tiles.index import atom, local, plus, slot_loop, times
from phalanx.cuda.tiles.shared_access import shared_vector, slot_offsets
from phalanx.ir.ops.cp_async import CpAsyncCommit, CpAsyncLoad
from phalanx.ir.views import GlobalView
from phalanx.layouts.registers import RegisterLayout

SIZES = (16, 8, 4)
"""Bytes that one instruction moves."""
BYPASSING = 16
"""Bytes of those that may pass L1 by: what is read once need not be kept there."""


@cache
def copy(nbytes: int) -> Helper:
    """`nbytes` to shared memory, of which `found` come from the array and the others are zeros."""
    cache_ = "cg" if nbytes == BYPASSING else "ca"
    return instruction(
        f"cp.async.{cache_}.shared.global", f"[{{to}}], [{{from}}], {nbytes}, {{found}}",
        (("unsigned", "to"), ("const void*", "from"), ("unsigned", "found")), name=f"cp_async_{nbytes}",
    )


@cache
def bytes_inside(width: int, itemsize: int) -> Helper:
    """How many bytes of `width` elements from `x` on lie in a row of `n`."""
    return device_function(
        f"bytes_inside_{width}x{itemsize}", "unsigned", (("unsigned", "x"), ("int", "n")),
        "const unsigned left = x < (unsigned)n ? (unsigned)n - x : 0;\n"
        f"return (left < {width} ? left : {width}) * {itemsize};",
    )


WHEN_DONE = instruction(
    "cp.async.mbarrier.arrive.shared::cta.b64", "[{bar}]", (("unsigned", "bar"),), name="cp_async_mbarrier_arrive"
)


@emits(CpAsyncLoad)
def emit_load(w: Writer, op: CpAsyncLoad) -> None:
    """Writes the copies of each thread; elements that no instruction moves go through registers."""
    layout, view = w.plan.layouts[op.result], op.src
    width = moved_at_once(w, op, layout)
    owner = owner_conditions(w, layout)
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        if not width:
            _by_elements(w, op, layout)
            return
        condition = _on_multiples(w, view, width)
        if not condition:
            _by_vectors(w, op, layout, width)
            return
        with w.block(f"if ({condition})", footer="} else {"):
            _by_vectors(w, op, layout, width)
        with w.indent():
            _by_elements(w, op, layout)
        w.line("}")


def moved_at_once(w: Writer, op: CpAsyncLoad, layout: RegisterLayout) -> int:
    """Elements that one instruction moves; 0 where none moves so few bytes."""
    view, shared = op.src, w.plan.buffers[op.dst.buffer].layout
    item, last = view.dtype.itemsize, view.array_type.rank - 1
    along = view.array_type.unit_inner and view.kept[-1] == last and view.index_axis != last
    widest = layout.vector_width(layout.rank - 1, SIZES[0] // item) if along and op.dst.kept[-1] == shared.rank - 1 else 1
    width = min(widest, shared_vector(op.dst, layout, shared, facts_of(w)))
    while width and width * item not in SIZES:
        width //= 2
    return width


def _on_multiples(w: Writer, view: GlobalView, width: int) -> str:
    """A condition, the same in all threads, under which every vector begins on a multiple of its bytes; "" if always."""
    if width == 1:
        return ""
    conditions, offset, name = [], view.offsets[-1], w.name(view.array)
    if not view.array_type.aligned:
        rows = [f"{name}.stride[{axis}] * {view.dtype.itemsize}" for axis in range(view.array_type.rank - 1)]
        bits = " | ".join([f"(long long){name}.data", *rows])
        conditions.append(f"(({bits}) & {width * view.dtype.itemsize - 1}) == 0")
    if not facts_of(w).proves(offset, 1, width):
        conditions.append(f"{atom(w.name(offset))} % {width} == 0")
    return " && ".join(conditions)


def _by_vectors(w: Writer, op: CpAsyncLoad, layout: RegisterLayout, width: int) -> None:
    view, shared = op.src, w.plan.buffers[op.dst.buffer].layout
    item, last = view.dtype.itemsize, view.array_type.rank - 1
    helper = w.use(copy(width * item))
    with w.block():
        source = GlobalAccess(w, view, layout)
        source.declare()
        offsets = slot_offsets(w, op.dst, layout, shared, facts_of(w), source.coordinates)
        start = plus(w.address(op.dst.buffer), times(str(item), offsets.declare()))
        address = local(w, "to")
        w.line(f"const unsigned {address} = {start};")
        with slot_loop(w, layout.num_registers, width) as i:
            inside = source.inside(i, width)
            along = source.index(last, i, width)
            found = f"{w.use(bytes_inside(width, item))}({along}, {w.name(view.array)}.shape[{last}])"
            if view.array_type.whole or width == 1:
                found = f"{inside[last]} ? {width * item}u : 0u"
            others = [text for axis, text in enumerate(inside) if axis != last]
            if others:
                found = f"{' && '.join(others)} ? {atom(found)} : 0u"
            place = plus(address, times(str(item), offsets.at(i, width)))
            alive = " && ".join(offsets.alive(i, width))
            w.line((f"if ({alive}) " if alive else "") + f"{helper}({place}, {source.pointer(i, width)}, {found});")


def _by_elements(w: Writer, op: CpAsyncLoad, layout: RegisterLayout) -> None:
    view, shared = op.src, w.plan.buffers[op.dst.buffer].layout
    ctype = w.ctype(view.dtype)
    with w.block():
        source = GlobalAccess(w, view, layout)
        source.declare()
        offsets = slot_offsets(w, op.dst, layout, shared, facts_of(w), source.coordinates)
        start = plus(w.pointer(op.dst.buffer), offsets.declare())
        target = local(w, "to")
        w.line(f"{ctype}* const {target} = {start};")
        with slot_loop(w, layout.num_registers) as i:
            inside = " && ".join(source.inside(i))
            zero = f"{w.use('bits')}<{ctype}>::from(0)"
            alive = " && ".join(offsets.alive(i))
            text = f"*({plus(target, offsets.at(i))}) = {inside} ? *({source.pointer(i)}) : {zero};"
            w.line(f"if ({alive}) {text}" if alive else text)


@emits(CpAsyncCommit)
def emit_commit(w: Writer, op: CpAsyncCommit) -> None:
    """Writes the arrival of every thread's copies, and that of the agent when all threads have announced theirs."""
    address = w.barrier_address(op.bar)
    w.line(f"{w.use(WHEN_DONE)}({address});")
    w.sync_agent("the barrier waits for the copies of all threads")
    with w.elected():
        w.line(f"{w.use(arrive('cta', ''))}({address});")
