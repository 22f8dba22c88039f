"""mbarriers in PTX: init, arrive, expect, wait; here by shared address, in other CTAs through `mapa`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from phalanx.cuda.text.by_rank import number_by_rank
from phalanx.cuda.text.helper import Helper, helper
from phalanx.cuda.text.literals import atom, bare
from phalanx.cuda.text.masks import for_each_cta
from phalanx.cuda.text.prelude import device_function, function_name, instruction, predicate
from phalanx.cuda.text.registry import emits, never_emits
from phalanx.cuda.text.writer import Writer
from phalanx.ir.archs import WARPGROUP
from phalanx.ir.core import Op
from phalanx.ir.effects import Span
from phalanx.ir.ops import mbarrier as ir
from phalanx.ir.values import constant_of
from phalanx.ir.views import BarrierRef

WATCHDOG_NS = 2_000_000_000
_BAR = ("unsigned", "bar")
_BYTES = ("unsigned", "bytes")
_COUNT = ("unsigned", "count")


def release(op: ir.Arrive | ir.ArriveExpectTx | ir.ExpectTx) -> str:
    """The qualifiers of an arrive: "" is a release at CTA scope. Bytes that are expected alone order nothing."""
    if isinstance(op, ir.ExpectTx):
        return ".relaxed.cta" if op.ctas is None else ".relaxed.cluster"
    if op.relaxed:
        return f".relaxed.{op.scope.value}"
    return "" if op.scope is Span.CTA else f".release.{op.scope.value}"


def acquire(w: Writer, op: ir.Wait | ir.TestWait) -> str:
    """The qualifiers of a wait: "" is an acquire at CTA scope. What a peer credits after ordinary stores needs more."""
    return ".acquire.cluster" if op.scope is Span.CLUSTER or op.bar.barrier in w.plan.credited else ""


def init() -> Helper:
    """Builds `mbarrier.init`."""
    return instruction("mbarrier.init.shared::cta.b64", "[{bar}], {count}", (_BAR, _COUNT))


def arrive(space: str, scope: str = "", *, counted: bool = False) -> Helper:
    """`space` is "cta" or "cluster" (a mapped address); `scope` e.g. ".release.cluster"."""
    mnemonic = f"mbarrier.arrive{scope}.shared::{space}.b64"
    if counted:
        return instruction(mnemonic, "_, [{bar}], {count}", (_BAR, _COUNT), name=f"{function_name(mnemonic)}_count")
    return instruction(mnemonic, "_, [{bar}]", (_BAR,))


def arrive_expect_tx(space: str, scope: str = "") -> Helper:
    """Builds `mbarrier.arrive.expect_tx`; `space` and `scope` as of `arrive`."""
    return instruction(f"mbarrier.arrive.expect_tx{scope}.shared::{space}.b64", "_, [{bar}], {bytes}", (_BAR, _BYTES))


def expect_tx(space: str, scope: str = "") -> Helper:
    """Builds `mbarrier.expect_tx`; `space` and `scope` as of `arrive`."""
    return instruction(f"mbarrier.expect_tx{scope}.shared::{space}.b64", "[{bar}], {bytes}", (_BAR, _BYTES))


def poll(kind: str, scope: str = "") -> Helper:
    """`kind` "try_wait" may suspend the thread for a while, "test_wait" does not."""
    mnemonic = f"mbarrier.{kind}.parity{scope}.shared::cta.b64"
    return predicate(mnemonic, "{p}, [{bar}], {parity}", (_BAR, ("unsigned", "parity")))


@cache
def wait(scope: str = "") -> Helper:
    """Returns when the phase of that parity is complete."""
    try_wait = poll("try_wait", scope)
    name = function_name(f"mbarrier.wait.parity{scope}")
    return device_function(
        name, "void", (_BAR, ("unsigned", "parity")), f"while (!{try_wait.name}(bar, parity)) {{}}", try_wait
    )


@cache
def bounded_wait(scope: str = "") -> Helper:
    """A wait that ends the grid, with a record in the debug buffer, when the phase takes too long."""
    try_wait = poll("try_wait", scope)
    body = (
        f"if ({try_wait.name}(bar, parity)) return;\n"
        "const unsigned long long start = globaltimer();\n"
        f"while (!{try_wait.name}(bar, parity)) {{\n"
        f"  if (globaltimer() - start > {WATCHDOG_NS}ull) px_stop(debug, site, parity, index);\n"
        "}"
    )
    parameters = (
        _BAR, ("unsigned", "parity"), ("unsigned long long*", "debug"), ("int", "site"), ("int", "index"),
    )
    name = function_name(f"mbarrier.wait.parity{scope}.bounded")
    return device_function(name, "void", parameters, body, try_wait, helper("globaltimer"), helper("px_stop"))


@emits(ir.BarrierInit)
def emit_init(w: Writer, op: ir.BarrierInit) -> None:
    """Writes inits by the elected thread; a count that differs by rank is an expression of the rank."""
    with w.elected():
        if op.count is not None:
            count = w.name(op.count)
            if op.index is not None:
                w.line(f"{w.use(init())}({w.barrier_address(BarrierRef(op.barrier, op.index))}, {count});")
            else:
                _init_run(w, op, 0, op.barrier.n, count)
            return
        # Neighbours with the same counts in every rank share a loop.
        first = 0
        for stop in range(1, op.barrier.n + 1):
            column = [row[first] for row in op.counts]
            if stop == op.barrier.n or [row[stop] for row in op.counts] != column:
                _init_run(w, op, first, stop, number_by_rank(w, [op.factor * count for count in column]))
                first = stop


def _init_run(w: Writer, op: ir.BarrierInit, first: int, stop: int, count: str) -> None:
    name = w.barrier(op.barrier)
    if stop - first == 1:
        w.line(f"{w.use(init())}({name}{f' + {8 * first}' if first else ''}, {count});")
    else:
        w.line(f"for (int px_i = {first}; px_i < {stop}; ++px_i) {w.use(init())}({name} + 8 * px_i, {count});")


@emits(ir.BarrierInvalidate)
def emit_invalidate(w: Writer, op: ir.BarrierInvalidate) -> None:
    """Writes `mbarrier.inval`, by the elected thread."""
    with w.elected():
        helper = instruction("mbarrier.inval.shared::cta.b64", "[{bar}]", (_BAR,))
        w.line(f"{w.use(helper)}({w.barrier_address(op.bar)});")


@emits(ir.FenceBarrierInit)
def emit_fence(w: Writer, op: ir.FenceBarrierInit) -> None:
    """Writes `fence.mbarrier_init`, by the elected thread."""
    with w.elected():
        w.line(f"{w.use(instruction('fence.mbarrier_init.release.cluster'))}();")


@emits(ir.Arrive)
def emit_arrive(w: Writer, op: ir.Arrive) -> None:
    """By the elected thread, or by one of each warpgroup, or of each warp; they share the barrier's factor."""
    warps = w.agent.warps
    sharers = {ir.Form.ELECTED: 1, ir.Form.PER_WARPGROUP: warps // WARPGROUP, ir.Form.PER_WARP: warps}[op.form]
    share = op.factor // sharers
    constant = constant_of(op.count)
    text = bare(w.name(op.count)) if share == 1 else f"{share} * {w.name(op.count)}"
    if constant is not None:
        text = str(int(constant) * share)
    counted = text != "1"
    if op.form is ir.Form.PER_WARP:
        w.line("__syncwarp();  // all lanes of this warp are done with the stage")
    if op.spread:
        _spread(w, op, counted, f", {text}" if counted else "")
        return
    by_warp = op.form is ir.Form.PER_WARP
    with w.elected() if op.form is ir.Form.ELECTED else w.elected_of("warp" if by_warp else "group"):
        _signal(w, op, lambda space, scope: arrive(space, scope, counted=counted), f", {text}" if counted else "")


def _spread(w: Writer, op: ir.Arrive, counted: bool, operands: str) -> None:
    """Lane r of one warp (of each warpgroup, of each warp) arrives in CTA r."""
    assert op.ctas is not None
    conditions = []
    if op.form is ir.Form.PER_WARPGROUP:
        conditions.append(f"{w.warp_id} % {WARPGROUP} == {w.agent.first % WARPGROUP}")
    elif op.form is ir.Form.ELECTED and w.agent.warps > 1:
        conditions.append(w.is_first_warp)
    mask = constant_of(op.ctas)
    if mask is not None and int(mask) & (int(mask) + 1) == 0:
        conditions.append(f"{w.lane} < {int(mask).bit_length()}")
    else:
        text = f"{int(mask):#x}u" if mask is not None else f"(unsigned){atom(w.name(op.ctas))}"
        conditions.append(f"({text} >> {w.lane} & 1)")
    name = w.use(arrive("cluster", release(op), counted=counted))
    place = f"{w.use('mapa_shared_cluster')}({w.barrier_address(op.bar)}, {w.lane})"
    w.line(f"if ({' && '.join(conditions)}) {name}({place}{operands});")


@emits(ir.ArriveExpectTx)
def emit_arrive_expect_tx(w: Writer, op: ir.ArriveExpectTx) -> None:
    """Writes one arrive with bytes by the elected thread, here or in each CTA of the mask."""
    with w.elected():
        _signal(w, op, arrive_expect_tx, f", {bare(w.name(op.nbytes))}")


def _signal(
    w: Writer, op: ir.Arrive | ir.ArriveExpectTx | ir.ExpectTx, made: Callable[[str, str], Helper], operands: str
) -> None:
    """A signal here (`ctas` None), or in each CTA of the mask."""
    address = w.barrier_address(op.bar)
    scope = release(op)
    if op.ctas is None:
        w.line(f"{w.use(made('cta', scope))}({address}{operands});")
    else:
        name = w.use(made("cluster", scope))
        for_each_cta(w, op.ctas, lambda mapped: w.line(f"{name}({mapped(address)}{operands});"))


@emits(ir.ExpectTx)
def emit_expect_tx(w: Writer, op: ir.ExpectTx) -> None:
    """Writes bytes announced by the elected thread, here or in each CTA of the mask."""
    with w.elected():
        _signal(w, op, expect_tx, f", {bare(w.name(op.nbytes))}")


@emits(ir.Wait)
def emit_wait(w: Writer, op: ir.Wait) -> None:
    """Writes a wait of all threads; in a watched kernel it ends by itself after a while."""
    barrier = op.bar.barrier
    address, parity, index = w.barrier_address(op.bar), bare(w.name(op.parity)), w.name(op.bar.index)
    emit_wait_for(w, op, barrier.name, address, parity, index=index, scope=acquire(w, op))


def emit_wait_for(
    w: Writer, op: Op, name: str, address: str, parity: str, *, index: str = "0", scope: str = ""
) -> None:
    """All threads wait for a phase of the barrier at an address; `name` and `index` are what a report calls it."""
    if w.plan.extras.watchdog:
        site = w.site("wait", name, op.loc)
        w.line(f"{w.use(bounded_wait(scope))}({address}, {parity}, {w.debug}, {site}, {index});")
    else:
        w.line(f"{w.use(wait(scope))}({address}, {parity});")


@emits(ir.TestWait)
def emit_test_wait(w: Writer, op: ir.TestWait) -> None:
    """Threads may see different answers, so they vote: true if all of them have seen the phase complete."""
    helper = w.use(poll("test_wait", acquire(w, op)))
    seen = f"{helper}({w.barrier_address(op.bar)}, {bare(w.name(op.parity))})"
    agent = w.agent
    if agent.warps == 1:
        vote = f"__all_sync(0xffffffffu, {seen})"
    elif agent.barrier_id == 0:
        vote = f"__syncthreads_and({seen})"
    elif agent.copies > 1:
        vote = f"{w.use('bar_red_and_of')}<{agent.threads}>({agent.barrier_id} + {w.copy}, {seen})"
    else:
        vote = f"{w.use('bar_red_and')}<{agent.barrier_id}, {agent.threads}>({seen})"
    w.define(op.result, f"{vote} != 0")


never_emits(ir.Transaction, "a pass turns it into mbarrier.arrive_expect_tx before text is written")
