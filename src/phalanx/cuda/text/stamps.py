"""Stamps of a build for timelines: agents of sampled CTAs write down when they wait, signal, copy and multiply.

What is stamped follows from effects, as delays do (`text/delays.py`). One thread of an agent writes 16 bytes, without a
branch, of another warp each time: the clock before and behind, the place, the barrier's index, and a parity or the CTAs
that are meant. Only waits and products have two times. A build without stamps has no line of it.
"""

from __future__ import annotations

from dataclasses import replace

from phalanx.cuda.abi import STAMP_RECORDS
from phalanx.cuda.text.delays import MOVED
from phalanx.cuda.text.literals import atom
from phalanx.cuda.text.registry import follows, precedes
from phalanx.cuda.text.sites import Stamp
from phalanx.cuda.text.writer import Writer
from phalanx.ir.core import Block, Op
from phalanx.ir.effects import Effects, GroupAction, Mode, Span, Use, When
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierRef
from phalanx.location import NOWHERE, Location

STAMP = "stamp"
"""The kind of a site that writes stamps."""
MOST_PLACES = 1 << 16
"""A stamp has 16 bits for its place."""
TWO_TIMES = "wait", "sync", "product"
"""Kinds of stamps whose instruction takes as long as others let it take; a product is taken when tensor cores have room."""


def stamp_of(effects: Effects) -> Stamp | None:
    """What a stamp of an instruction says; None for one that nobody learns of and that waits for nobody."""
    for wait in effects.waits:
        if wait.blocking:
            return Stamp("wait", wait.barrier.barrier.title, wait.barrier.barrier.n)
    for meeting in effects.rendezvous:
        if meeting.span is Span.CLUSTER:
            return Stamp("wait" if meeting.waits else "signal")
        return Stamp("sync")
    for group in effects.groups:
        if group.action in (GroupAction.WAIT, GroupAction.WAIT_READ):
            reads = group.action is GroupAction.WAIT_READ
            return Stamp("wait", engine=group.engine.name, pending=group.pending, reads=reads)
        if group.action is GroupAction.COMMIT:
            return Stamp("close", engine=group.engine.name)
    return _work_of(effects) or _signal_of(effects)


def _work_of(effects: Effects) -> Stamp | None:
    """The stamp of work for an engine: a copy that is over later, or a product."""
    given = [access for access in effects.accesses if access.engine is not None and access.when is not When.NOW]
    if not given:
        return Stamp("product", engine=effects.accumulations[0].engine.name) if effects.accumulations else None
    engine = given[0].engine
    assert engine is not None
    if engine.waits_late:  # between registers and a memory of the SM's own
        return None
    if not any(access.use in MOVED for access in given):
        uses = {access.use for access in given}
        return Stamp("product", engine=engine.name) if uses & {Use.OPERAND, Use.ACCUMULATOR} else None
    writes = [access for access in given if access.mode is not Mode.READ]
    away = bool(writes) and all(access.region.space.shared_by.covers(Span.GPU) for access in writes)
    nbytes = max(access.region.nbytes for access in given)
    for complete in effects.completes:
        array = complete.barrier.barrier
        masked = complete.mask is not None
        return Stamp(
            "copy", array.title, array.n, masked=masked, leaders=complete.leaders, engine=engine.name, nbytes=nbytes
        )
    return Stamp("store" if away else "copy", engine=engine.name, nbytes=nbytes)


def _signal_of(effects: Effects) -> Stamp | None:
    """The stamp of an arrival: of the agent, or of an engine when it is done."""
    for arrival in effects.arrivals:
        array = arrival.barrier.barrier
        engine = "" if arrival.after is None else arrival.after.name
        return Stamp("signal", array.title, array.n, masked=arrival.mask is not None, engine=engine)
    return None


def _numbers(effects: Effects, stamp: Stamp) -> tuple[BarrierRef | None, Value | None]:
    """The barrier whose index a stamp has, and the number beside it."""
    if not stamp.barriers:
        return None, None
    if stamp.kind == "wait":
        wait = next(wait for wait in effects.waits if wait.blocking)
        return wait.barrier, wait.parity
    told = effects.completes[0] if stamp.kind == "copy" else effects.arrivals[0]
    return told.barrier, told.mask


@precedes
def stamp_before(w: Writer, op: Op) -> None:
    """The time before a wait."""
    if not w.plan.extras.stamps:
        return
    stamp = stamp_of(op.effects())
    if stamp is not None and stamp.kind in TWO_TIMES and _is_stamped(w, stamp):
        w.line(f"{_begun(w)} = {w.use('px_clock')}();")


@follows
def stamp_after(w: Writer, op: Op) -> None:
    """The stamp of an instruction; where it has none, its line may be the work before the next one."""
    if not w.plan.extras.stamps:
        return
    effects = op.effects()
    stamp = stamp_of(effects)
    if stamp is None:
        _note_work(w, op)
        return
    if not _is_stamped(w, stamp) or op in w.stamping.folded:
        return
    follower = w.next_op(op)
    if stamp.kind in ("product", "copy", "store") and follower is not None:
        next_stamp = stamp_of(follower.effects())
        if next_stamp is not None and next_stamp.kind == "close" and next_stamp.engine == stamp.engine:
            w.stamping.folded.add(follower)
            stamp = replace(stamp, closes=True)
    barrier, number = _numbers(effects, stamp)
    _write(w, stamp, op.mnemonic, op.loc, barrier, number)


def _is_stamped(w: Writer, stamp: Stamp) -> bool:
    """Whether there is anything to see: a warp alone has nobody to wait for in a barrier of its threads."""
    return stamp.kind != "sync" or w.agent.warps > 1


def _note_work(w: Writer, op: Op) -> None:
    """Keeps the line of the largest tile that is computed between two stamps."""
    sizes = [value.type.size for value in op.defined_values() if isinstance(value.type, TileType)]
    weight = max(sizes, default=1 if op.effects().accesses else 0)
    if weight > w.stamping.weight and op.loc is not NOWHERE:
        w.stamping.work, w.stamping.weight = op.loc, weight


def _ring(w: Writer) -> tuple[str, str]:
    """The names of the warp's ring, and of the number of stamps that are in it."""
    warps, (x, y, z) = w.plan.function.warps, w.plan.function.cluster
    made = f"{w.use('px_enter')}<{w.plan.extras.stamps}, {STAMP_RECORDS}, {warps}, {x}, {y}, {z}>({w.debug})"
    ring = w.once("stamp ring", "stamps", lambda name: f"unsigned long long* const {name} = {made};")
    count = w.once("stamp count", "stamped", lambda name: f"unsigned {name} = {ring} ? 0 : {STAMP_RECORDS};")
    return ring, count


def _begun(w: Writer) -> str:
    """The variable with the time before a wait."""
    return w.once("stamp begun", "begun", lambda name: f"unsigned {name} = 0;")


def _write(
    w: Writer, stamp: Stamp, name: str, loc: Location, barrier: BarrierRef | None = None, number: Value | None = None
) -> None:
    """One stamp by the agent's elected thread."""
    if len(w.sites) >= MOST_PLACES:
        return
    _, count = _ring(w)
    place = str(w.site(STAMP, name, loc, stamp, w.stamping.take()))
    if barrier is not None:
        place += f" | (unsigned){atom(w.name(barrier.index))} << 16"
    more = "0" if number is None else f"(unsigned){atom(w.name(number))}"
    now = f"{w.use('px_clock')}()"
    head = f"{w.use('px_stamp')}<{STAMP_RECORDS}>({w.stamping.rings[w.agent]}, {count}, {_mine(w)}"
    if stamp.kind in TWO_TIMES:
        w.line(f"{head}, {_begun(w)}, {now}, {place}, {more});")
    else:
        w.line(f"{_begun(w)} = {now};")
        w.line(f"{head}, {_begun(w)}, {_begun(w)}, {place}, {more});")


def _takes_turns(w: Writer) -> bool:
    return w.agent.warps > 1 and w.agent.name != ""


def _mine(w: Writer) -> str:
    """A condition that holds in one thread of the agent; of a role another warp's with each stamp of the text.

    Around roles it is always the first warp's: behind them the others have counted other numbers of stamps.
    """
    if not _takes_turns(w):
        return w.one
    w.stamping.turn = (w.stamping.turn + 1) % w.agent.warps
    return f"{w.warp_one} & ({w.warp} == {w.stamping.turn})"


def stamp_step(w: Writer, body: Block, loc: Location) -> None:
    """A stamp at the begin of a loop's turn, where the loop has stamps and does not begin with one."""
    if not w.plan.extras.stamps or not any(stamp_of(op.effects()) for op in body.walk()):
        return
    first = next(op for op in body.ops if any(op.blocks()) or stamp_of(op.effects()))
    if any(first.blocks()):
        _write(w, Stamp("step"), "for", loc)


def begin_agent(w: Writer, loc: Location) -> None:
    """A stamp where an agent begins."""
    if w.plan.extras.stamps:
        w.stamping.take()
        own, _ = _ring(w)
        if _takes_turns(w):
            made = f"{w.use('px_ring_of')}<{STAMP_RECORDS}>({own}, {w.warp})"
            own = w.unique("ring")
            w.line(f"unsigned long long* const {own} = {made};")
        w.stamping.rings[w.agent] = own
        _write(w, Stamp("begin"), "begin", loc)


def end_agent(w: Writer, loc: Location) -> None:
    """A stamp where an agent ends."""
    if w.plan.extras.stamps:
        _write(w, Stamp("end"), "end", loc)


def enter_kernel(w: Writer) -> None:
    """What stands first in a kernel with stamps."""
    begin_agent(w, w.plan.function.loc)


def leave_kernel(w: Writer) -> None:
    """What stands last in a kernel with stamps: every warp comes here."""
    if not w.plan.extras.stamps:
        return
    end_agent(w, w.plan.function.loc)
    ring, count = _ring(w)
    w.line(f"{w.use('px_leave')}({w.debug}, {ring}, {count});")
