"""The words of every finding: one sentence that says what happened and what would fix it, and the facts below it.

And those of the notes: what is legal but may surprise.
"""

from __future__ import annotations

import numpy as np

from phalanx.errors import Error
from phalanx.ir.core import Function, Op
from phalanx.ir.effects import Life, Mode
from phalanx.ir.engines import Engine
from phalanx.location import Location
from phalanx.sanitizer.accesses import is_known, is_seen, is_told
from phalanx.sanitizer.barriers import BarrierClock, Event, PhaseLog
from phalanx.sanitizer.clocks import AgentClock
from phalanx.sanitizer.findings import Finding
from phalanx.sanitizer.records import VERBS, Actor, CopyWork, Record, actor_of, does
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.places import RowsPlace
from phalanx.sim.report import barrier_state


def call(op: Op) -> str:
    """`px.tma.load`, as the user wrote it."""
    return op.call


def named(barrier: MBarrier) -> str:
    """`full[2]`, with its CTA where there are several."""
    return f"{barrier.name} of CTA {barrier.cta.rank}" if len(barrier.cta.cluster.ctas) > 1 else barrier.name


def engine_for(work: CopyWork) -> Actor:
    """The engine that does a piece of work, for whom."""
    engines = [access.engine for access in work.op.effects().accesses if access.engine is not None]
    return actor_of(work.clock.agent, engine=engines[0].name if engines else "store in flight")


def label(record: Record) -> str:
    """What stands beside the line of an access."""
    return f"{record.verb} {record.region()} ({record.actor()})"


def place(op: Op) -> str:
    """The file and line of an instruction."""
    return op.loc.short


# --- races -----------------------------------------------------------------------------------------------------------


def race(before: Record, after: Record) -> Finding:
    """Two accesses of the same bytes, one of which writes, in no order."""
    if before.work is not None and before.work is after.work and before.mode is after.mode is Mode.WRITE:
        twice = repeated_row(after)
        row = after.region() if twice is None else f"row {twice} of {after.region()}"
        what = f"{call(after.op)} stores twice to {row}, and which of the two stays is not known"
        remedy = "name each row once; rows that are to add up take px.tma.reduce"
        return Finding("race", f"{what}; {remedy}", after.op.loc, None, (after.actor(),), label=label(after))
    if is_known(before, after.clock) and not is_seen(before, after.clock):
        what = (
            f"{call(after.op)} {after.verb} {after.region()}, but the signals between it and {call(before.op)} "
            f"({place(before.op)}), which {before.verb} it, order memory within a CTA only"
        )
        remedy = f"an arrive and a wait of cluster scope bring what CTA {before.clock.rank} stores to CTA {after.clock.rank}"
        return Finding(
            "race", f"{what}; {remedy}", after.op.loc, before.op.loc, (after.actor(), before.actor()),
            label=label(after), other_label=label(before),
        )
    if before.strong and after.strong and before.element_size != after.element_size:
        what = (
            f"{call(after.op)} {after.verb} {after.region()} by elements of {after.element_size} bytes, and "
            f"{call(before.op)} ({place(before.op)}) {before.verb} {before.region()}, the same memory, by elements of "
            f"{before.element_size}: atomics go one after the other only where they take the same elements"
        )
        return Finding(
            "race", f"{what}; take elements of one size in both, or order the two", after.op.loc, before.op.loc,
            (after.actor(), before.actor()), label=label(after), other_label=label(before),
        )
    what = (
        f"{call(after.op)} {after.verb} {after.region()} and nothing orders it after {call(before.op)} "
        f"({place(before.op)}), which {before.verb} {'it' if same_bytes(before, after) else before.region()}"
    )
    return Finding(
        "race", f"{what}; {race_remedy(before, after)}", after.op.loc, before.op.loc, (after.actor(), before.actor()),
        notes=(*common_row(before, after), *phase_notes(before, after)), label=label(after), other_label=label(before),
    )


def repeated_row(record: Record) -> int | None:
    """The first row that an index tile names twice; None where each row is an access of its own."""
    if not isinstance(record.place, RowsPlace):
        return None
    rows, counts = np.unique(record.place.rows, return_counts=True)
    return int(rows[counts > 1][0])


def common_row(before: Record, after: Record) -> tuple[str, ...]:
    """A row that two index tiles have in common, as a note."""
    if not isinstance(before.place, RowsPlace) or not isinstance(after.place, RowsPlace):
        return ()
    rows = np.intersect1d(before.place.rows, after.place.rows)
    return (f"both name row {rows[0]}",) if len(rows) else ()


def hazard(before: Record, after: Record, engine: Engine) -> Finding:
    """The agent that gave an engine work touches what the work is about, without waiting for it."""
    first = engine.first_reads if before.mode is Mode.READ else engine.first
    return Finding(
        engine.hazard,
        f"{call(after.op)} {after.verb} {after.region()} while the {engine.work} of {place(before.op)}, of the same role, "
        f"still {before.verb} it; {first.format(role=before.actor().role)}",
        after.op.loc, before.op.loc, (after.actor(), before.actor()), label=label(after), other_label=label(before),
    )


def released(user: Record, end: Record) -> Finding:
    """Memory is given back while somebody may still use it."""
    engine = user.worker
    if engine is not None and engine.waits_late:
        remedy = f"the compiler has to put {engine.wait} behind it, before that"
    elif engine is not None:
        there = f", the wait in CTA {end.rank}" if user.clock.rank != end.rank else ""
        remedy = engine.first.format(role=user.actor().role) + there
    else:
        remedy = "let it be over before the kernel ends"
    return Finding(
        "tmem-lifetime",
        f"{call(user.op)} {user.verb} {user.region()}, and CTA {end.rank} may give its columns back, at the end of the "
        f"kernel, before that is over; {remedy}",
        user.op.loc, end.op.loc, (user.actor(), end.actor()), label=label(user), other_label="allocated here for the kernel",
    )


def forgot_to_wait(read: Record, copy: Record) -> bool:
    """Whether a read of what a copy of somebody else brings comes from one who never waited for that copy's barrier."""
    work = copy.work
    if work is None or read.work is not None or read.mode is not Mode.READ or read.clock is copy.clock:
        return False
    reader = read.clock
    return any(
        barrier.cta is reader.agent.cta and reader.now[barrier.watch.dim] <= barrier.watch.base for barrier in work.barriers
    )


def same_bytes(a: Record, b: Record) -> bool:
    """Whether two accesses read the same to a user."""
    return a.region() == b.region()


def race_remedy(before: Record, after: Record) -> str:
    """What would order the two."""
    if before.cluster != after.cluster:
        return (
            "clusters run in any order: give each its own part, use px.atomic_add or px.tma.reduce on both sides, or let "
            'the one hand it to the other by px.atomic_add(..., order="acq_rel")'
        )
    work = before.work
    if work is not None and work.barriers and after.work is not None and after.work.barriers:
        return (
            "before a place is filled again its issuer must wait until everybody who uses it has let go: wait for a "
            "barrier on which all of them arrive, with a count that covers them all"
        )
    doer = f"{after.actor().role} of CTA {after.actor().cta}" if before.clock is not after.clock else "it"
    if work is not None and work.barriers:
        barrier = next((b for b in work.barriers if b.cta.rank == before.rank), work.barriers[0])
        phase = work.phases[work.barriers.index(barrier)]
        state: BarrierClock = barrier.watch
        log = state.log(phase)
        if phase > state.base and log.expects and not log.arrivals:
            return (
                f"the copy was issued to phase {phase} of {named(barrier)}, in which nobody arrives: its bytes have to be "
                f"expected before phase {phase - 1} can complete"
            )
        if before.clock is after.clock or barrier.cta is after.clock.agent.cta:
            wait = f"wait for {named(barrier)} (parity {phase & 1}, phase {phase}) before it"
            meant = ", or, if what was there before is meant, let the copy wait until it was read"
            return wait + meant * forgot_to_wait(after, before)
        return f"let {doer} come after a wait for {named(barrier)} (phase {phase})"
    engine = before.worker
    if work is not None and engine is not None and not engine.waits_late:
        first = engine.first_reads if before.mode is Mode.READ else engine.first
        return first.format(role=before.actor().role) + handed_over(before, after)
    if engine is not None and before.clock is after.clock:
        return f"the compiler has to put {engine.wait} between the two"
    crosses = before.clock.rank != after.clock.rank
    hand = "px.cluster.sync() or an arrive with ctas=" if crosses else "an arrive"
    return (
        f"let {before.actor().role} hand it over: {hand} after {place(before.op)}, "
        f"and a wait for it before {place(after.op)}"
    ) + (f" (the compiler puts {engine.wait} before the arrive)" if engine is not None and engine.waits_late else "")


def handed_over(before: Record, after: Record) -> str:
    """What has to follow where the other access is another agent's."""
    return "" if before.clock is after.clock else ", then arrive on a barrier that the other side waits for"


def phase_notes(*records: Record) -> list[str]:
    """The barriers of the copies among the records."""
    notes = []
    for record in records:
        work = record.work
        if work is None:
            continue
        for barrier, phase in zip(work.barriers, work.phases):
            if barrier.cta.rank != record.rank and len(work.barriers) > 1:
                continue
            note = f"the copy of {place(record.op)} completes in phase {phase} of {named(barrier)}, "
            state: BarrierClock = barrier.watch
            if record.cluster == barrier.cta.cluster.index:
                note += f"which is now in phase {state.phase}"
                others = [r for r in records if r is not record]
                for other in others:
                    known = other.clock.now[state.dim] - 1
                    if other.cluster == record.cluster and 0 <= known < phase:
                        note += f"; {does(other.actor().role, 'know')} phase {known} to be complete, no later one"
                notes.append(note)
    return list(dict.fromkeys(notes))


def proxy(before: Record, after: Record) -> Finding:
    """An engine's access after an ordinary one, without the fence between them."""
    if after.access.region.space.is_common:  # type: ignore[union-attr]
        fence = 'px.fence.async_proxy("global")'
    elif before.clock.rank != after.rank:
        fence = 'px.fence.async_proxy("cluster")'
    else:
        fence = "px.fence.async_proxy()"
    verb = {Mode.READ: "read", Mode.WRITE: "wrote", Mode.ATOMIC: "updated"}[before.mode]
    if before.work is not None:  # it lands later than its instruction: a fence of who issued it comes too soon
        waited = "its commit"
        if before.work.barriers:
            waited = f"{named(before.work.barriers[0])} (phase {before.work.phases[0]})"
        return Finding(
            "proxy",
            f"{call(after.op)} {after.verb} {after.region()} through the async proxy, and {call(before.op)} "
            f"({place(before.op)}) {verb} it through the generic proxy, when it landed; put px.fence.async_proxy() after "
            f"the wait for {waited}, before {place(after.op)}, in a role that has waited: a fence of "
            "the sender comes before the data",
            after.op.loc, before.op.loc, (after.actor(), before.actor()), label=label(after), other_label=label(before),
        )
    return Finding(
        "proxy",
        f"{call(after.op)} {after.verb} {after.region()} through the async proxy, but {call(before.op)} "
        f"({place(before.op)}) {verb} it through the generic proxy and no proxy fence lies between; put {fence} after "
        f"{place(before.op)}, before it is handed over",
        after.op.loc, before.op.loc, (after.actor(), before.actor()), label=label(after), other_label=label(before),
    )


def not_handed_over(before: Record, after: Record) -> Finding:
    """An access after another's, told by a signal, without the fence on one side of the signal."""
    fences = after.access.region.space.handover  # type: ignore[union-attr]
    assert fences is not None
    verb = {Mode.READ: "read", Mode.WRITE: "wrote", Mode.ATOMIC: "updated"}[before.mode]
    told = is_told(before, after.clock)
    fence = fences[1 if told else 0].value
    where = (
        f"between the wait and {place(after.op)}, in {after.actor().role}" if told
        else f"between {place(before.op)} and the signal, in {before.actor().role}"
    )
    return Finding(
        "proxy",
        f"{call(after.op)} {after.verb} {after.region()}, which {call(before.op)} ({place(before.op)}) {verb}; the signal "
        f"orders the two only with {fence} {where}, and there is none: the compiler has to put it there",
        after.op.loc, before.op.loc, (after.actor(), before.actor()), label=label(after), other_label=label(before),
    )


def uninitialised_read(record: Record, other: Record | None) -> Finding:
    """A read of memory that nothing has written, or where a buffer lay last that shares it."""
    if other is not None and record.access is not None and record.access.region.space.scattered:
        return Finding(
            "uninitialised-read",
            f"{call(record.op)} reads {record.region()}, but {other.region()}, which shares its columns, was written there "
            f"last ({place(other.op)}) and lies otherwise; read it before that, or give the two columns of their own",
            record.op.loc, other.op.loc, (record.actor(), other.actor()), label=label(record), other_label=label(other),
        )
    return Finding(
        "uninitialised-read",
        f"{call(record.op)} reads {record.region()}, which nothing has written; write it first, or wait for the copy "
        "that does",
        record.op.loc, None, (record.actor(),), label=label(record),
    )


# --- barriers --------------------------------------------------------------------------------------------------------


def uninitialised_barrier(barrier: BarrierClock, clock: AgentClock, op: Op, init: Event, ordered: bool) -> Finding:
    """A use of a barrier that is in no order with its initialisation."""
    name = named(barrier.barrier)
    remote = barrier.barrier.cta is not clock.agent.cta
    if ordered:
        message = (
            f"{call(op)} lets a copy complete on {name}, whose init ({place(init.op)}) no fence has made visible to "
            "the engines; call px.fence.barrier_init() after the init, before the sync"
        )
    else:
        sync = "px.cluster.sync()" if remote else "px.sync() or a role's start"
        message = (
            f"{call(op)} uses {name} and nothing orders it after the init ({place(init.op)}); "
            f"initialise, px.fence.barrier_init(), then {sync} before the first use"
        )
    return Finding(
        "barrier-uninitialised", message, op.loc, init.op.loc, (actor_of(clock.agent), actor_of(init.clock.agent)),
        label=f"uses {name} ({actor_of(clock.agent)})", other_label=f"initialises it ({actor_of(init.clock.agent)})",
    )


def invalidated_early(barrier: BarrierClock, clock: AgentClock, op: Op, use: Event) -> Finding:
    """A barrier ends while somebody may still use it."""
    name = named(barrier.barrier)
    return Finding(
        "barrier-invalidated",
        f"{call(use.op)} uses {name} and nothing orders it before the invalidate ({place(op)}); "
        "let everybody who uses it be done, and join or sync, before it is invalidated",
        use.op.loc, op.loc, (actor_of(use.clock.agent), actor_of(clock.agent)),
        label=f"uses {name} ({actor_of(use.clock.agent)})", other_label=f"invalidates it ({actor_of(clock.agent)})",
    )


def over_barrier(record: Record, barrier: BarrierClock) -> Finding:
    """An access overwrites a barrier."""
    name = named(barrier.barrier)
    init = barrier.init
    return Finding(
        "barrier-memory",
        f"{call(record.op)} writes {record.region()}, which holds the live barrier {name}; invalidate the barrier "
        "first, or do not reuse its memory",
        record.op.loc, init.op.loc if init else None, (record.actor(),),
        notes=(f"{name}: {barrier_state(barrier.barrier)}",), label=label(record), other_label=f"initialises {name}",
    )


def over_arrival(error: Error, agent: Agent, barrier: BarrierClock) -> Finding:
    """More arrivals than the barrier's count."""
    log = barrier.log(barrier.phase)
    earlier = log.arrivals[-2] if len(log.arrivals) > 1 else None
    init = barrier.init
    other = earlier.op if earlier else (init.op if init else None)
    notes = [f"{named(barrier.barrier)}: {barrier_state(barrier.barrier)}"]
    notes += [
        f"{event.number} by {actor_of(event.clock.agent)} at {place(event.op)}" for event in log.arrivals[:-1][-4:]
    ]
    return Finding(
        "over-arrival", f"{error.message}; {error.remedy}", error.location, other.loc if other else None,
        (actor_of(agent),), notes=tuple(notes), label=f"arrives ({actor_of(agent)})",
        other_label=f"arrived before ({actor_of(earlier.clock.agent)})" if earlier else "sets the count",
    )


def rival(error: Error, barrier: MBarrier | None, function: Function) -> Location | None:
    """The place that made a refused instruction wrong."""
    if barrier is None:
        return None
    state: BarrierClock = barrier.watch
    event = state.ended if error.kind == "barrier-invalidated" else state.init
    if event is not None:
        return event.op.loc
    inits = (
        op.loc for op in function.walk() for life in op.effects().lifecycle
        if life.life is Life.INIT and life.barrier is barrier.array
    )
    return next(inits, None)


def refused(error: Error, agent: Agent, other: Location | None) -> Finding:
    """An instruction that the simulator could not carry out."""
    message = f"{error.message}; {error.remedy}" if error.remedy else error.message
    words = {
        "barrier-invalidated": "invalidated here", "barrier-reinitialised": "initialised here first",
        "barrier-uninitialised": "initialised here",
    }
    return Finding(
        error.kind, message, error.location, other, (actor_of(agent),), label=str(actor_of(agent)),
        other_label=words.get(error.kind, ""), notes=tuple((error.details or "").splitlines()),
    )


def unbalanced(
    barrier: BarrierClock, phase: int, log: PhaseLog, location: Location, other: Location | None, blocked: list[str],
    late: CopyWork | None,
) -> Finding:
    """A phase whose bytes do not add up."""
    name = named(barrier.barrier)
    expected, issued = log.expected, log.issued
    if late is not None:
        what = (
            f"phase {phase} of {name} completed while the copy of {place(late.op)}, issued to it, was in flight: "
            f"it expects {expected} bytes, its copies bring {issued}"
        )
    else:
        what = f"phase {phase} of {name} has all arrivals, but expects {expected} bytes and its copies bring {issued}"
    fix = "expect what the copies bring to this CTA" + (
        ", from all CTAs that multicast to it" if len(barrier.barrier.cta.cluster.ctas) > 1 else ""
    ) + ": `with bar.transaction():` adds it up"
    notes = [
        f"expects {event.number} bytes at {place(event.op)} ({actor_of(event.clock.agent)})"
        for event in log.expects[:4]
    ]
    notes += [
        f"a copy brings {nbytes} bytes, issued at {place(work.op)} ({actor_of(work.clock.agent)})"
        for work, nbytes in log.copies[:4]
    ]
    agents = [event.clock.agent for event in (log.expects or log.arrivals)[-1:]]
    if late is not None:
        agents.append(late.clock.agent)
    return Finding(
        "tx-mismatch", f"{what}; {fix}", location, other, tuple(actor_of(agent) for agent in agents),
        notes=(*notes, *blocked), label=f"arms phase {phase} of {name}", other_label="the copy",
    )


def too_early(barrier: BarrierClock, work: CopyWork, phase: int, arrival: Event | None) -> Finding:
    """Bytes that may land in an earlier phase."""
    name, actor = named(barrier.barrier), actor_of(work.clock.agent)
    what = (
        f"the bytes of this {call(work.op)} may land in phase {phase} of {name}: nothing tells its issuer ({actor}) that it "
        "is complete, and while it is not, neither that phase nor the next adds up"
    )
    return Finding(
        "tx-mismatch", f"{what}; wait for phase {phase}, or for a signal of one who did, before the copy", work.op.loc,
        arrival.op.loc if arrival else None, (engine_for(work),),
        label=f"completes on {name}",
        other_label=f"arrives in phase {phase} ({actor_of(arrival.clock.agent)})" if arrival else "",
    )


def asked_again(clock: AgentClock, op: Op, refused: CopyWork) -> Finding:
    """A request for another cluster after one that was refused."""
    barrier, phase = refused.barriers[0], refused.phases[0]
    where = "" if refused.op is op else f" ({place(refused.op)})"
    return Finding(
        "clc",
        f"{call(op)} asks for another cluster although the request before it{where} was refused, and what the hardware does "
        "then is not defined; leave the loop once px.clc.query says that nothing was granted",
        op.loc, refused.op.loc, (actor_of(clock.agent),),
        notes=(f"the request that was refused completed phase {phase} of {named(barrier)}",),
        label=f"asks again ({actor_of(clock.agent)})", other_label="was refused",
    )


# --- the end ---------------------------------------------------------------------------------------------------------


def exit_hazard(visit: Record) -> Finding:
    """An access of a CTA's memory that its exit does not wait for."""
    what = f"{call(visit.op)} {visit.verb} {visit.region()}"
    remedy = "let it wait for it, end with px.cluster.sync(), or leave exit_sync on"
    if visit.access is None and any(visit.dim in groups for groups in visit.clock.groups.values()):
        remedy = "wait for that phase there, or for what is committed after it, before the kernel ends"
    return Finding(
        "exit-hazard",
        f"{what}, and CTA {visit.rank} may exit before that is over; {remedy}",
        visit.op.loc, None, (visit.actor(),), label=label(visit),
    )


def too_soon(visit: Record) -> Finding:
    """An access of a CTA's memory that may not have started."""
    return Finding(
        "race",
        f"{call(visit.op)} {visit.verb} {visit.region()}, and CTA {visit.rank} may not have started; px.cluster.sync() "
        "before the first access to a peer's memory",
        visit.op.loc, None, (visit.actor(),), label=label(visit),
    )


def exit_in_flight(barrier: BarrierClock, work: CopyWork) -> Finding:
    """A copy lands in a CTA that does not wait for it before it exits."""
    cta = barrier.barrier.cta.rank
    return Finding(
        "exit-hazard",
        f"{call(work.op)} multicasts into CTA {cta}, which never waits for {named(barrier.barrier)} and may exit while "
        "the copy lands; wait for the phase in every CTA of the mask",
        work.op.loc, None, (engine_for(work),), label=f"lands in CTA {cta}",
        notes=(f"{named(barrier.barrier)}: {barrier_state(barrier.barrier)}",),
    )


def unfinished_load(barrier: BarrierClock, work: CopyWork) -> Finding:
    """A load that nobody waited for."""
    name = named(barrier.barrier)
    return Finding(
        "unfinished",
        f"nobody waited for this {call(work.op)}, which completes on {name}; wait for its phase before the kernel ends",
        work.op.loc, None, (engine_for(work),), label=f"completes on {name}",
        notes=(f"{name}: {barrier_state(barrier.barrier)}",),
    )


def unfinished_group(read: Record) -> Finding:
    """A store or a product whose reads of shared memory nobody waited for."""
    engine = read.worker
    assert engine is not None, "only an engine's work is in groups"
    wait = engine.wait_reads.format(n=0)
    if read.epoch > read.clock.commits[engine]:
        what, fix = "was never committed", f"{engine.commit} and {wait} in the same role"
    else:
        what, fix = "was committed, but nobody waited for it", f"call {wait} in the same role"
    return Finding(
        "unfinished", f"this {call(read.op)} {what} before the kernel ends; {fix}", read.op.loc, None,
        (read.actor(),), label=label(read),
    )


# --- notes -----------------------------------------------------------------------------------------------------------


def outside_note(op: Op, rows: int, array: str) -> str:
    """Rows by index that are none: legal, and often a mistake."""
    several = rows != 1
    stores = any(access.mode is Mode.WRITE and access.region.space.is_common for access in op.effects().accesses)
    fate = ("are" if several else "is") + " not stored" if stores else f"load{'' if several else 's'} as zeros"
    what = f"{rows} row{'s' * several} outside {array}: {'they' if several else 'it'} {fate}"
    return f"{op.loc.short}: {call(op)} named {what}"


def early_note(op: Op, array: str, mode: Mode) -> str:
    """An access while the launch before may still run: what `pdl=True` is for, and wrong if that launch works on it."""
    if mode is Mode.READ:
        why = "right only if no launch before this one on the stream writes it"
    else:
        why = "the launch before this one on the stream may still read or write it"
    return f"{op.loc.short}: {call(op)} {VERBS[mode]} {array} before px.wait_prior(): {why}"


def unawaited_note(function: Function) -> str:
    """The wait is there, and nobody came to it: nothing keeps the launch from ending before the one before it does."""
    why = "launches after this one would not wait for those before it"
    return f"{function.loc.short}: no CTA of {function.name} came to a px.wait_prior() in this launch: {why}"
