"""Barriers of an agent's threads where its instructions must keep program order, found from effects alone.

Tile instructions are done by all threads of an agent, each its share; others by one elected thread for all. Where a
later instruction relies on what other threads did before, a `Sync` goes right before it:

- two threads may touch the same bytes, and one of the two accesses writes;
- the elected thread arrives on a barrier, which publishes what all threads did and observed; an ordered atomic does, too;
- the elected thread arrives or starts a copy that completes bytes, while another thread may still be inside an earlier
  barrier wait: it must not fall two phases behind;
- the elected thread waited for its copies, and all threads then touch what those copies touched;
- one thread updates or looks at a flag, and all threads fence on their side of it (`px.fence.cluster`): the fence before
  speaks for what all of them did, and what they do behind the other one comes after it.

The tensor cores are an exception. A product needs all four warps of its warpgroup, so that when it is over in one of
them, all four have passed whatever stood before it. A thread that arrives after `wgmma.wait` therefore speaks for its
warpgroup, and an arrive of several warpgroups takes no barrier but one thread of each: its `form` says so.

Nor does one that gives back a stage which warps of several warpgroups have read themselves: each warp arrives when it is
done, and whoever waits for the phase waits for all of them. So nobody waits for the slowest warp but who fills the stage.

What the elected thread does twice is in order by itself, and so is a wait of all threads before an access of all
threads. Any other fence needs no barrier of its own: either the accesses it covers are still pending, then they cause
one, or a barrier already lies between them and the fence, and the elected thread has passed the fence itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from phalanx.analysis.flow import Cycle, OpWalk, Outcome
from phalanx.analysis.offsets import Loop, Offsets
from phalanx.analysis.regions import Region, may_overlap, region_name
from phalanx.frozen import frozen
from phalanx.ir.archs import WARPGROUP
from phalanx.ir.core import Block, Function, Op, map_blocks
from phalanx.ir.effects import Access, Effects, Executor, FenceKind, Group, GroupAction, Mode, When
from phalanx.ir.ops.control import For, Roles, Sync, While
from phalanx.ir.ops.mbarrier import Form
from phalanx.location import NOWHERE
from phalanx.passes.arrival_forms import choose_forms
from phalanx.passes.role_rules import trip_count


def insert_role_syncs(function: Function) -> Function:
    """The kernel with a `Sync` wherever program order inside an agent needs one; each says why.

    Arrives that several warps or warpgroups make without one get their form and their barriers the factor.
    """
    outcome = _Agent(ThreadOrder(function), function.body, function.warps).run(function.body, frozenset())
    syncs = syncs_of(outcome)

    def insert(block: Block) -> Block:
        out: list[Op] = []
        for op in block.ops:
            if op in syncs:
                out.append(Sync(syncs[op], loc=op.loc))
            out.append(map_blocks(op, insert))
        same = len(out) == len(block.ops) and all(a is b for a, b in zip(out, block.ops, strict=True))
        return block if same else Block(tuple(out))

    if syncs:
        function = dataclasses.replace(function, body=insert(function.body))
    needs: dict[Op, Need] = outcome.notes
    shared = {op: need.shares for op, need in needs.items() if need.shares is not None}
    elected = {op for op, need in needs.items() if need.elected}
    return choose_forms(function, shared, elected)


class Done(Enum):
    """What threads did since the agent's last barrier."""

    ALL_ACCESSED = "all threads touched memory, each its share"
    ALL_WAITED = "all threads waited for a barrier phase, or asked about it"
    ONE_ACCESSED = "the elected thread touched memory, or waited until its copies had"
    ONE_EXPECTED = "the elected thread announced bytes without arriving"
    ALL_FENCED = "all threads fenced, and one of them what it had seen of a flag"
    IN_FLIGHT = "an engine touches memory for all threads, and may still do"
    GROUP_DONE = "each warpgroup is past it as a whole, but not all of them"


@frozen(eq=False)
class Pending:
    """One thing done since the agent's last barrier. Made once per instruction and variant, so identity is equality.

    `arrived`: before the arriving half of a split cluster barrier. `crossed`: the loops that have gone to another
    iteration since. `commits`: how often groups of its engine were committed since.
    """

    done: Done
    op: Op
    region: Region | None = None
    mode: Mode = Mode.READ
    access: Access | None = None
    arrived: bool = False
    crossed: frozenset[Loop] = frozenset()
    commits: int = 0
    variants: dict[tuple[object, ...], Pending] = field(default_factory=dict)
    """What becomes of it later; all variants share the table."""

    def after_arrival(self) -> Pending:
        """The arriving half of a split cluster barrier follows."""
        return self._variant(arrived=True)

    def in_next_iteration(self, loop: Loop) -> Pending:
        """The loop goes on to another iteration."""
        return self._variant(crossed=self.crossed | {loop})

    def after_product(self) -> Pending:
        """A product follows: it begins when all warps of a warpgroup have come to it."""
        return self._variant(done=Done.GROUP_DONE) if self.done is Done.ALL_WAITED else self

    def after_group(self, group: Group) -> Pending:
        """Groups of an engine are committed or waited for."""
        if self.done is not Done.IN_FLIGHT or self.access is None or self.access.engine is not group.engine:
            return self
        if group.action is GroupAction.COMMIT:
            return self._variant(commits=min(self.commits + 1, MOST_GROUPS))
        if group.action is GroupAction.WAIT and self.commits > group.pending:
            done = Done.GROUP_DONE if group.engine.by_warpgroup else Done.ALL_ACCESSED
            return self._variant(done=done, commits=0)
        return self

    def _variant(self, **changes: Any) -> Pending:
        self.variants.setdefault(self._key, self)
        new = dataclasses.replace(self, **changes)
        return self.variants.setdefault(new._key, new)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.done, self.arrived, self.crossed, self.commits


MOST_GROUPS = 8
"""Groups of an engine that are told apart: a wait leaves fewer than this unfinished."""

State = frozenset[Pending]


@frozen
class Need:
    """What an instruction needs of the threads before it."""

    sync: str = ""
    """Why a barrier of threads goes right before it; empty where none does."""
    shares: tuple[Form, int] | None = None
    """An arrive takes no barrier, since one thread of each of so many warps, or warpgroups, speaks for it."""
    saved: str = ""
    """Why a barrier would go before an arrive that each warp makes."""

    @property
    def cost(self) -> str:
        """Why threads have something to do here that a barrier before it, in a better place, would save."""
        return self.sync or self.saved
    elected: bool = False
    """It follows what the elected thread alone did."""


class _Agent(OpWalk[State]):
    """The walk over the code of one agent, which notes the `Need` of each instruction; roles inside get their own."""

    def __init__(self, order: ThreadOrder, body: Block, warps: int) -> None:
        self.order = order
        self.warps = warps
        self.warpgroups = -(-warps // WARPGROUP)
        self.grouped = [
            access for op in own_code(body) for access in order.effects(op).accesses
            if access.when is When.GROUP and order.effects(op).executor is Executor.ONE
        ]
        self._left: dict[Op, State] = {}
        self._loops: dict[tuple[Op, State], Outcome[State]] = {}
        self._roles_inside: dict[Op, Outcome[State]] = {}
        self._inside: dict[Op, frozenset[Op]] = {}

    def join(self, states: Sequence[State]) -> State:
        """What may be pending where ways meet: whatever is on one of them."""
        return frozenset().union(*states)

    def step(self, node: Op, state: State) -> Outcome[State]:
        """What is pending after an instruction, a barrier before it included where it needs one."""
        effects = self.order.effects(node)
        if effects.is_pure:
            return Outcome(state)
        causes = [pending for pending in state if self.order.must_follow(pending, node)]
        sync, shares = "", self._shares(node, state, causes)
        saved = self.order.why(min(causes, key=_place), node) if shares is not None and causes else ""
        if shares is not None:
            causes = []
        elif self.warpgroups > 1:
            causes += [pending for pending in state if self.order.must_follow(pending, node, apart=True)]
        if causes:
            sync = self.order.why(min(causes, key=_place), node)
            state = _in_flight(state)
        elected = any(pending.done in _ONE_THREAD for pending in state)
        if any(item.engine.by_warpgroup for item in effects.accumulations):
            state = frozenset(pending.after_product() for pending in state)
        for group in effects.groups:
            state = frozenset(pending.after_group(group) for pending in state)
        for meeting in effects.rendezvous:
            if meeting.arrives and meeting.waits and meeting.releases:
                state = _in_flight(state)
            elif meeting.waits and not meeting.arrives:
                state = frozenset(pending for pending in state if not pending.arrived) | _in_flight(state)
            elif meeting.arrives and meeting.releases:
                state = frozenset(pending.after_arrival() for pending in state)
        if node not in self._left:
            self._left[node] = frozenset(self._left_by(node, effects))
        outcome = Outcome(state | self._left[node])
        if sync or shares or elected:
            outcome.notes[node] = Need(sync, shares, saved=saved, elected=elected)
        return outcome

    def _shares(self, node: Op, state: State, causes: list[Pending]) -> tuple[Form, int] | None:
        """Who makes an arrive together, so that it takes no barrier of threads; None where one thread makes it."""
        if self.warpgroups == 1 or not self.order.may_be_shared(node):
            return None  # a barrier of one warpgroup is cheap, and its products bring its warps together anyway
        if causes:
            return (Form.PER_WARP, self.warps) if self.order.each_warp_is_done(node, causes) else None
        apart = any(self.order.must_follow(pending, node, apart=True) for pending in state)
        return (Form.PER_WARPGROUP, self.warpgroups) if apart else None

    def _left_by(self, op: Op, effects: Effects) -> Iterator[Pending]:
        """What `op` adds to the state."""
        if effects.executor is Executor.ALL:
            for access in effects.accesses:
                if access.when is When.GROUP:
                    yield Pending(Done.IN_FLIGHT, op, access.region, access.mode, access)
                elif access.when is not When.NOW:
                    continue  # the engine's, not the threads': its end is a barrier's
                elif not self.order.reads_only_input(access):
                    yield Pending(Done.ALL_ACCESSED, op, access.region, access.mode, access)
            if effects.waits:
                yield Pending(Done.ALL_WAITED, op)
            if self.order.fences_a_flag(effects):
                yield Pending(Done.ALL_FENCED, op)
            return
        for access in effects.accesses:
            if access.when is When.NOW:
                yield Pending(Done.ONE_ACCESSED, op, access.region, access.mode, access)
        for life in effects.lifecycle:
            yield Pending(Done.ONE_ACCESSED, op, life.barrier, Mode.WRITE)
        for group in effects.groups:
            yield from self._covered(op, group)
        if not effects.arrivals:
            for expect in effects.expects:
                yield Pending(Done.ONE_EXPECTED, op, expect.barrier.barrier, Mode.WRITE)

    def _covered(self, op: Op, group: Group) -> Iterator[Pending]:
        """What a group wait is the end of: the reads of the agent's work in groups; writes too if it waits for all."""
        for access in self.grouped:
            waited = group.action is GroupAction.WAIT or (group.action is GroupAction.WAIT_READ and access.mode is Mode.READ)
            if waited and access.engine is group.engine:
                yield Pending(Done.ONE_ACCESSED, op, access.region, access.mode, access)

    def fork(self, roles: Roles, state: State) -> Outcome[State]:
        """Each role is an agent of its own. What was before the fork is ordered before what they do, by one barrier."""
        outcome: Outcome[State] = Outcome(frozenset())
        for op in (op for role in roles.regions for op in role.body.walk()) if state else ():
            causes = [pending for pending in state if self.order.must_follow(pending, op, forked=True)]
            if causes:
                outcome.notes[roles] = Need(self.order.why(min(causes, key=_place), op))
                break
        if roles not in self._roles_inside:
            inside: Outcome[State] = Outcome(None)
            for role in roles.regions:
                inside.absorb(_Agent(self.order, role.body, role.running).run(role.body, frozenset()))
            self._roles_inside[roles] = inside
        outcome.absorb(self._roles_inside[roles])
        return outcome

    def loop(self, cycle: Cycle[Op], entry: State) -> Outcome[State]:
        """The loop from a fixpoint at its head. A barrier that only the first iteration needs goes before the loop.

        So it does where it lets fewer threads arrive in all iterations.
        """
        key = (cycle.node, entry)
        if key not in self._loops:
            outcome = super().loop(cycle, entry)
            if entry:
                settled = self.loop(cycle, frozenset())
                costs, repeated = _costs(outcome), _costs(settled)
                if len(costs) > len(repeated):
                    reason = next(why for op, why in costs.items() if op not in repeated)
                    outcome = Outcome(settled.out, settled.exits, {cycle.node: Need(reason), **settled.notes})
            self._loops[key] = outcome
        return self._loops[key]

    def runs_surely(self, cycle: Cycle[Op]) -> bool:
        """A loop with constant bounds and at least one iteration."""
        return isinstance(cycle.node, For) and bool(trip_count(cycle.node))

    def next_iteration(self, cycle: Cycle[Op], state: State) -> State:
        """Only what was done inside the loop depends on its iteration; telling the rest apart would double the states."""
        loop = cycle.node
        assert isinstance(loop, For | While)
        if loop not in self._inside:
            self._inside[loop] = frozenset(op for block in loop.blocks() for op in block.walk())
        inside = self._inside[loop]
        return frozenset(pending.in_next_iteration(loop) if pending.op in inside else pending for pending in state)


def _in_flight(state: State) -> State:
    """What a barrier of threads is no end of: an engine may still be at it when all of them have met."""
    return frozenset(pending for pending in state if pending.done is Done.IN_FLIGHT)


def syncs_of(outcome: Outcome[State]) -> dict[Op, str]:
    """The instructions that need a barrier of threads before them, each with the reason."""
    return {op: need.sync for op, need in outcome.notes.items() if need.sync}


def _costs(outcome: Outcome[State]) -> dict[Op, str]:
    """The instructions before which a barrier goes, or would, each with the reason."""
    return {op: need.cost for op, need in outcome.notes.items() if need.cost}


class ThreadOrder:
    """The order between instructions that rely on what other threads did before them."""

    def __init__(self, function: Function) -> None:
        self.offsets = Offsets.of(function)
        self._effects: dict[Op, Effects] = {}
        self._known: dict[tuple[Pending, Op, bool, bool], bool] = {}
        self._armed = {
            arrival.barrier.barrier
            for op in function.walk()
            for arrival in self.effects(op).arrivals
            if not arrival.divisible
        }
        every = [self.effects(op) for op in function.walk()]
        atomics = any(access.atomic for effects in every for access in effects.accesses)
        self._has_flags = atomics and any(FenceKind.ACQ_REL_CLUSTER in effects.fences for effects in every)
        self.written = {
            access.region.memory
            for op in function.walk()
            for access in self.effects(op).accesses
            if access.region.space.is_common and access.mode is not Mode.READ
        }

    def effects(self, op: Op) -> Effects:
        """The effects of an instruction, worked out once."""
        found = self._effects.get(op)
        if found is None:
            found = self._effects[op] = op.effects()
        return found

    def reads_only_input(self, access: Access) -> bool:
        """A read of an array that the kernel never writes: nothing can come too early for it."""
        return access.region.space.is_common and access.region.memory not in self.written

    def fences_a_flag(self, effects: Effects) -> bool:
        """A fence at cluster scope, in a kernel with atomics: one before an update and one behind a look synchronise."""
        return self._has_flags and FenceKind.ACQ_REL_CLUSTER in effects.fences

    def must_follow(self, pending: Pending, op: Op, *, forked: bool = False, apart: bool = False) -> bool:
        """Whether `op` relies on `pending` having been done by other threads.

        `forked`: it is in a role and `pending` was before the fork, so that the two elected threads may differ.
        `apart`: asks about the threads of other warpgroups alone, where each warpgroup is in order by itself.
        """
        key = (pending, op, forked, apart)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._must_follow(pending, self.effects(op), forked, apart)
        return known

    def each_warp_is_done(self, op: Op, causes: list[Pending]) -> bool:
        """Whether an arrive that gives back a stage follows nothing but what warps have done, each for itself."""
        given = all(arrival.gives_back is not None for arrival in self.effects(op).arrivals)
        return given and all(pending.done in _EACH_THREAD for pending in causes)

    def may_be_shared(self, op: Op) -> bool:
        """Whether several threads may make an arrive: the compiler sets the count, and nobody arrives with bytes."""
        return any(
            arrival.divisible and arrival.barrier.barrier.init and arrival.barrier.barrier not in self._armed
            for arrival in self.effects(op).arrivals
        )

    def _must_follow(self, pending: Pending, effects: Effects, forked: bool, apart: bool) -> bool:
        one = effects.executor is Executor.ONE
        if pending.done is Done.IN_FLIGHT:
            return False  # still in flight: no barrier of threads can help
        if pending.done is Done.GROUP_DONE:
            conflicts = pending.region is not None and self._conflict(pending, effects) is not None
            if not (apart or forked):
                return conflicts and not one
            tells = bool(effects.handshakes) or (one and bool(effects.arrivals or effects.completes or effects.lifecycle))
            return conflicts or tells
        if apart:
            return False
        match pending.done:
            case Done.ALL_ACCESSED:
                tells = (one and bool(effects.arrivals)) or self._tells_others(effects)
                return tells or self._conflict(pending, effects) is not None
            case Done.ALL_WAITED:
                return one and bool(effects.arrivals or effects.completes or effects.lifecycle)
            case Done.ONE_ACCESSED:
                tells = self._tells_others(effects) and pending.access is not None  # by another thread than the elected one
                return (forked or not one) and (tells or self._conflict(pending, effects) is not None)
            case Done.ALL_FENCED:
                touches = any(not self.reads_only_input(access) for access in effects.accesses)
                return touches or (one and bool(effects.arrivals))
            case _:
                return forked and any(arrival.barrier.barrier is pending.region for arrival in effects.arrivals)

    def _tells_others(self, effects: Effects) -> bool:
        """One thread tells other CTAs what all of the agent did, by an ordered atomic or by a fence before any."""
        return bool(effects.handshakes) or self.fences_a_flag(effects)

    def why(self, pending: Pending, op: Op) -> str:
        """The reason shown in listings."""
        effects = self.effects(op)
        at = "" if pending.op.loc is NOWHERE else f" at line {pending.op.loc.line}"
        if pending.done is Done.ALL_FENCED:
            return f"all threads come after the fence{at} of the one that has looked at a flag"
        if pending.done is Done.ALL_WAITED or pending.region is None:
            return f"all threads have passed the wait{at} before the elected thread goes on"
        if pending.done is Done.ONE_EXPECTED:
            return f"the bytes{at} are expected before a role arrives"
        assert pending.region is not None
        name = region_name(pending.region)
        conflict = self._conflict(pending, effects)
        if conflict is None and self._tells_others(effects):
            return f"all threads are done with {name}{at} before one of them tells other CTAs"
        if conflict is None:
            return f"all threads are done with {name}{at} before the elected thread arrives"
        mode, region = conflict
        later = name if region_name(region) == name else f"{region_name(region)}, in its memory,"
        then = f"{later} is {_PAST[mode]}" + (" by a copy" if effects.executor is Executor.ONE else "")
        if pending.done is Done.ONE_ACCESSED:
            return f"the elected thread is done with {name}{at} before {then}"
        return f"{name} was {_PAST[pending.mode]}{at} before {then}"

    def _conflict(self, pending: Pending, effects: Effects) -> tuple[Mode, Region] | None:
        """How and as what the instruction touches bytes of `pending`, where the order matters; None where not."""
        assert pending.region is not None
        for mode, region, access in _touched(effects):
            harmless = access is not None and pending.access is not None and access.commutes(pending.access)
            if not harmless and may_overlap(pending.region, region, self.offsets, pending.crossed):
                return mode, region
        return None


_EACH_THREAD = (Done.ALL_ACCESSED, Done.ALL_WAITED)
_ONE_THREAD = (Done.ONE_ACCESSED, Done.ONE_EXPECTED)
_PAST = {Mode.READ: "read", Mode.WRITE: "written", Mode.ATOMIC: "updated"}


def _touched(effects: Effects) -> Iterator[tuple[Mode, Region, Access | None]]:
    for access in effects.accesses:
        yield access.mode, access.region, access
    for life in effects.lifecycle:
        yield Mode.WRITE, life.barrier, None


def _place(pending: Pending) -> tuple[object, ...]:
    loc = pending.op.loc
    name = "" if pending.region is None else region_name(pending.region)
    return (loc.file, loc.line, loc.column, pending.done.value, name, pending.mode.value)


def own_code(block: Block) -> Iterable[Op]:
    """The instructions that the agent of `block` runs itself: not those of roles inside."""
    for op in block:
        yield op
        if not isinstance(op, Roles):
            for nested in op.blocks():
                yield from own_code(nested)
