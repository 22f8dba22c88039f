"""Keeps the time of a run: listens to the simulator, and says when each agent can go on and each copy is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np

from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op, operand_fields, values_in
from phalanx.ir.engines import COPY_ENGINE, Engine
from phalanx.ir.types import TileType
from phalanx.ir.values import Const, Value
from phalanx.machines.rates import Rates
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.monitor import Monitor
from phalanx.sim.places import BufferPlace
from phalanx.sim.timeline.costs import CELLS, NOTHING, Cost, cost_of
from phalanx.sim.timeline.events import CLUSTER_BARRIER, Event, Lane, Run, Use
from phalanx.sim.timeline.lines import in_lines
from phalanx.sim.timeline.rounds import RoundKeeper
from phalanx.sim.timeline.units import Sm

Accesses = list[tuple[fx.Access, Any, list[int] | None]]
Due = tuple[float, int]
"""A time, and the number of the event that ends then."""
START: Due = (0.0, -1)
VECTOR = 16 * 32
"""Bytes that a warp moves with one instruction."""


class Timer(Monitor):
    """The clock of each agent. A wait takes over the time of what it waited for, and remembers which event that was."""

    def __init__(
        self, function: Function, rates: Rates, sms: list[Sm], missed: dict[int, float], keeper: RoundKeeper | None = None
    ) -> None:
        self.keeper = keeper
        """Keeps how long rounds of loops took, in a run of a few of each; None in any other."""
        self.function = function
        self.rates = rates
        self.sms = sms
        self.missed = missed
        """The share of the bytes of an array that come from HBM, by its number among the arguments; 1 of others."""
        self.run = Run()
        self.places: dict[Any, int] = {}
        """The number of a cluster among those that an SM holds at a time, by the slot of the machine."""
        self.now: dict[Agent, float] = {} if keeper is None else keeper.now
        self.last: dict[Agent, int] = {}
        self.released: dict[tuple[MBarrier, int], Due] = {}
        self.landing: dict[Any, list[Due]] = {}
        self.groups: dict[tuple[Agent, Engine], list[list[tuple[Due, Due]]]] = {}
        self.meetings: dict[tuple[Any, int], Due] = {}
        self.ready: dict[Agent, dict[Value, tuple[float, int, bool]]] = {}
        """When values can be used, what brings them, and whether arithmetic can follow it element by element."""
        self.lanes: dict[tuple[Agent, str], Lane] = {}
        self.same = same_values(function)
        self.seen: set[Any] = set()
        """Boxes of arrays that a cluster has read."""
        self.others = 0
        """Clusters that run at the same time and are not run here: they count and draw as this one does."""
        self.counters = len(function.params) - 1 if function.counters else -1
        """The number of the runtime's counters among the arguments."""
        self.drawn: tuple[Any, Any] | None = None
        """A word of the runtime's counters that the current instruction updates, and what was there before."""
        self.cost: Cost = NOTHING
        self.result: Due = START
        """When what the current instruction defines can be used."""

    # --- agents -----------------------------------------------------------------------------------------------------

    def lane(self, agent: Agent, engine: str) -> Lane:
        """The row of an agent, or of an engine that works for it."""
        found = self.lanes.get((agent, engine))
        if found is None:
            first = agent.first if agent.parent is not None else -1
            title = engine or (agent.name if agent.name.startswith("warp") else agent.title)
            place = self.places.get(agent.cta.cluster, 0)
            found = self.lanes[agent, engine] = Lane(place, agent.cta.rank, first, engine, title)
        return found

    def sm(self, agent: Agent) -> Sm:
        """The SM that an agent runs on."""
        return self.sms[agent.cta.rank]

    def event(self, agent: Agent, engine: str, kind: str, start: float, end: float, op: Op, **more: Any) -> Event:
        """Writes an event down."""
        events = self.run.events
        made = Event(
            len(events),
            self.lane(agent, engine),
            kind,
            start,
            end,
            op.mnemonic,
            op.loc,
            cluster=agent.cta.cluster.index,
            **more,
        )
        events.append(made)
        return made

    def works(self, agent: Agent, op: Op, end: float, kind: str = "work", nbytes: int = 0) -> Event | None:
        """The agent is busy until then; what it does at one line is one event."""
        start = self.now[agent]
        if end <= start:
            return None
        self.now[agent] = end
        number = self.last.get(agent, -1)
        if kind == "work" and number >= 0:
            before = self.run.events[number]
            if before.kind == kind and before.end == start and before.location == op.loc:
                before.end = end
                before.nbytes += nbytes
                return before
        made = self.event(agent, "", kind, start, end, op, after=number, nbytes=nbytes)
        self.last[agent] = made.number
        return made

    def waits(self, agent: Agent, op: Op, until: Due, **more: Any) -> None:
        """The agent stands still until then, if that is not past."""
        start = self.now[agent]
        time, cause = until
        if time <= start:
            return
        made = self.event(agent, "", "wait", start, time, op, after=self.last.get(agent, -1), released_by=cause, **more)
        self.now[agent] = time
        self.last[agent] = made.number

    def begin(self, agent: Agent, time: float) -> None:
        """An agent begins, with nothing before it."""
        self.now[agent] = time
        if self.keeper is not None:
            self.keeper.begin(agent)
        self.last.pop(agent, None)
        self.ready[agent] = {}
        for engine in [key for key in self.groups if key[0] is agent]:
            del self.groups[engine]

    def rounds(self, op: Op, agent: Agent) -> Callable[[range], Iterable[int]]:
        found = None if self.keeper is None else self.keeper.rounds(op, agent)
        return super().rounds(op, agent) if found is None else found

    def fork(self, parent: Agent, child: Agent) -> None:
        self.begin(child, self.now[parent] + self.rates.fork)
        if (before := self.last.get(parent)) is not None:
            self.last[child] = before

    def join(self, parent: Agent, child: Agent) -> None:
        if self.now[child] > self.now[parent]:
            self.now[parent] = self.now[child]
            self.last[parent] = self.last.get(child, self.last.get(parent, -1))

    # --- every instruction ------------------------------------------------------------------------------------------

    def around(self, run: Callable[..., Any], op: Op, agent: Agent) -> Callable[..., Any]:
        """`run`, with the time that the instruction takes."""
        warps = float(agent.warps)
        cost = cost_of(op, warps, self.rates)
        effects = op.effects()
        if cost is NOTHING and effects.is_pure:
            return run
        taken = [value for name in operand_fields(type(op)) for value in values_in(getattr(op, name))]
        operands = tuple({self.same.get(value, value) for value in taken if not isinstance(value, Const)})
        results = tuple({self.same.get(value, value) for value in op.defined_values()})
        if cost.hands_on:
            return self.handing_on(run, agent, operands, results)
        if effects.is_pure and (blank := without_values(op)) is not None:
            run = blank
        stands = cost.stands + self.standing(effects)
        fixed = self.rates.step if not effects.is_pure else 0.0
        issued_by = 1.0 if effects.executor is fx.Executor.ONE else warps

        pure = effects.is_pure

        def timed(*given: Any) -> Any:
            ready = self.ready[agent]
            carried = self.until_ready(agent, op, operands, pure) if ready else START
            self.cost = cost
            self.result = START
            if fixed:
                self.now[agent] += fixed
            if cost.special:
                over = self.sm(agent).special(self.now[agent], cost.special, issued_by)
                carried = max(carried, (over, self.last.get(agent, -1)))
            if cost.issue:
                self.works(agent, op, self.sm(agent).issue(self.now[agent], cost.issue, issued_by))
            if cost.at_once:
                self.multiply(agent, op)
            answer = run(*given)
            if self.drawn is not None:
                self.draw_for_others()
            if stands:
                self.works(agent, op, self.now[agent] + stands)
            if self.result is not START:
                for value in results:
                    ready[value] = (*self.result, False)
            elif carried[0] > self.now[agent]:
                for value in results:
                    ready[value] = (*carried, True)
            elif ready:
                for value in results:
                    ready.pop(value, None)
            return answer

        return timed

    def draw_for_others(self) -> None:
        """All clusters that run at the time add to a counter what this one has added."""
        view, before = self.drawn  # type: ignore[misc]
        self.drawn = None
        added = view - before
        if added.min(initial=0) >= 0:
            view += added * self.others

    def standing(self, effects: fx.Effects) -> float:
        """Cycles in which threads stand still for fences, signals and barriers of threads."""
        rates, total = self.rates, 0.0
        for kind in effects.fences:
            total += getattr(rates, FENCES[kind]) if kind in FENCES else 0.0
        total += rates.arrive_issue * (bool(effects.arrivals) or bool(effects.expects))
        for meeting in effects.rendezvous:
            if meeting.span is not fx.Span.CLUSTER:
                total += rates.sync
        if any(access.engine is COPY_ENGINE for access in effects.accesses):
            total += rates.copy_issue
        return total

    def handing_on(
        self, run: Callable[..., Any], agent: Agent, operands: tuple[Value, ...], results: tuple[Value, ...]
    ) -> Callable[..., Any]:
        """What is another name of a tile is there when the tile is."""

        def renamed(*given: Any) -> Any:
            ready = self.ready[agent]
            if ready:
                found = [ready[value] for value in operands if value in ready]
                for value in results:
                    if found:
                        ready[value] = max(found)
            return run(*given)

        return renamed

    def until_ready(self, agent: Agent, op: Op, operands: tuple[Value, ...], pure: bool) -> Due:
        """Waits for loads whose results the instruction takes; gives when special functions that it goes on with are over.

        Arithmetic follows them element by element; what has an effect waits for all.
        """
        ready = self.ready[agent]
        carried = START
        for value in operands:
            due = ready.get(value)
            if due is None:
                continue
            time, cause, follows = due
            if pure and follows:
                carried = max(carried, (time, cause))
                continue
            del ready[value]
            if time > self.now[agent]:
                self.waits(agent, op, (time, cause))
        return carried

    def multiply(self, agent: Agent, op: Op) -> None:
        """A product that the agent waits for."""
        cost, number = self.cost, len(self.run.events)
        start, end, before = self.sm(agent).tensor(self.now[agent], cost.product, cost.operands, number)
        self.event(agent, "tensor cores", "product", start, end, op, after=max(before, self.last.get(agent, -1)))
        self.result = (end + cost.drain, number)

    # --- memory -----------------------------------------------------------------------------------------------------

    def fetched(self, agent: Agent, place: Any, nbytes: int) -> float:
        """Bytes of an array are read: the share of them that HBM brings.

        What the same cluster has read before is still in L2, and is not counted among what is asked for.
        """
        window = getattr(place, "window", None)
        if window is None:
            return 1.0
        starts = place.starts
        if all(isinstance(start, int) for start in starts):
            key = (agent.cta.cluster.index, window.index, starts, window.extents)
            if key in self.seen:
                return 0.0
            self.seen.add(key)
        self.run.requested[window.index] = self.run.requested.get(window.index, 0) + nbytes
        if self.keeper is not None:
            self.keeper.read(agent, window.index, nbytes)
        return self.missed.get(window.index, 1.0)

    def access(self, agent: Agent, op: Op, access: fx.Access, place: Any, ranks: list[int] | None) -> None:
        """Threads load, store or update: they issue it, and have what they asked for later."""
        nbytes = bytes_of(place)
        warps = float(agent.warps)
        rates, sm = self.rates, self.sm(agent)
        end = sm.issue(self.now[agent], max(1.0, nbytes / VECTOR / warps), warps)
        self.works(agent, op, end, nbytes=nbytes)
        now = self.now[agent]
        reads = access.mode is not fx.Mode.WRITE
        if place_is_common(place):
            if (
                access.mode is fx.Mode.ATOMIC
                and self.function.counters
                and place.window.index == len(self.function.params) - 1
            ):
                self.drawn = (place.view, place.view.copy())
            missed = self.fetched(agent, place, nbytes) if access.mode is fx.Mode.READ else 0.0
            begin, end = sm.written(now, nbytes) if access.mode is fx.Mode.WRITE else sm.l2(now, nbytes, missed)
            latency = (
                rates.atomic_latency
                if access.mode is fx.Mode.ATOMIC
                else self.latency(missed, rates.load_latency, rates.load_latency_hbm)
            )
            kind = "load" if reads else "store"
            made = self.event(
                agent,
                "loads and stores",
                kind,
                begin,
                end + (latency if reads else 0),
                op,
                nbytes=nbytes,
                after=self.last.get(agent, -1),
            )
            if reads:
                self.result = max(self.result, (made.end, made.number))
            return
        end = sm.shared(now, nbytes)
        self.use(place, ranks, now, end, not reads)
        if reads:
            self.result = max(self.result, (end + rates.shared_latency, self.last.get(agent, -1)))
        elif ranks is not None or place.cta is not agent.cta:
            sm.peer(now, nbytes)
            self.works(agent, op, end)
        else:
            self.works(agent, op, end)

    @staticmethod
    def latency(missed: float, near: float, far: float) -> float:
        """The latency of bytes of which a share comes from HBM, between that of L2 and that of HBM."""
        return near + (far - near) * min(1.0, missed * SHARING)

    def use(self, place: Any, ranks: list[int] | None, start: float, end: float, writes: bool) -> None:
        """A use of a stage, where the place is one."""
        if not isinstance(place, BufferPlace) or self.places.get(place.cta.cluster, 0) or len(place.buffer.shape) < 3:
            return
        stage = place.key[0] if isinstance(place.key, tuple) and place.key else None
        if isinstance(stage, int):
            stages = int(place.buffer.shape[0])
            for rank in ranks if ranks is not None else [place.cta.rank]:
                self.run.uses.append(Use(rank, place.buffer.name, stage, stages, start, end, writes))

    # --- engines ----------------------------------------------------------------------------------------------------

    def issue(self, agent: Agent, op: Op, copy: Any, accesses: Accesses) -> None:
        read, over = self.engine_works(agent, op, accesses)
        self.landing[copy] = [read, over]

    def work_given(self, agent: Agent, op: Op, accesses: Accesses) -> None:
        self.engine_works(agent, op, accesses)

    def engine_works(self, agent: Agent, op: Op, accesses: Accesses) -> tuple[Due, Due]:
        """A piece of work of an engine: when it has read its sources, and when it is over."""
        engine = next((access.engine for access, _, _ in accesses if access.engine is not None), COPY_ENGINE)
        if self.cost.product:
            made = self.product(agent, op)
            read = over = (made.end + self.cost.drain, made.number)
            for access, place, ranks in accesses:
                self.use(place, ranks, made.start, made.end, access.mode is not fx.Mode.READ)
        elif engine.waits_late:  # between registers and a memory of the SM's own: the cost says how long
            read = over = (self.now[agent], self.last.get(agent, -1))
        else:
            read, over = self.copy(agent, op, engine, accesses)
        self.groups.setdefault((agent, engine), [[]])[-1].append((read, over))
        return read, over

    def product(self, agent: Agent, op: Op) -> Event:
        """The tensor cores multiply, after what they have to do before."""
        cost, number = self.cost, len(self.run.events)
        start, end, before = self.sm(agent).tensor(self.now[agent], cost.product, cost.operands, number)
        cause = before if before >= 0 else self.last.get(agent, -1)
        return self.event(agent, "tensor cores", "product", start, end, op, after=cause)

    def copy(self, agent: Agent, op: Op, engine: Engine, accesses: Accesses) -> tuple[Due, Due]:
        """Bytes move: from global memory, to it, or to another CTA."""
        rates, sm, now = self.rates, self.sm(agent), self.now[agent] + self.rates.copy_issue
        sources = [place for access, place, _ in accesses if access.mode is fx.Mode.READ]
        targets = [(place, ranks) for access, place, ranks in accesses if access.mode is not fx.Mode.READ]
        nbytes = max([bytes_of(place) for _, place, _ in accesses], default=0)
        start = now
        if targets and all(place_is_common(place) for place, _ in targets):
            kind = "store"
            read_end = sm.shared(now, nbytes) + rates.store_read
            over_at = sm.written(now, nbytes)[1] + rates.store_latency
        elif any(place_is_common(place) for place in sources) or not sources:
            kind = "copy"
            missed = max((self.fetched(agent, place, bytes_of(place)) for place in sources), default=0.0)
            outside = sum(bytes_outside(place) for place in sources if place_is_common(place))
            lines = sum(self.asked(place) for place in sources) if sources else nbytes
            _, end = sm.l2(now, nbytes - outside, missed, lines)
            end = max(end, self.zeros(agent, targets, outside))
            over_at = end + self.latency(missed, rates.copy_latency, rates.copy_latency_hbm)
            over_at = self.arrives(agent, targets, over_at, nbytes)
            read_end = over_at
        else:
            kind = "copy"
            away = any(ranks not in (None, [agent.cta.rank]) or place.cta is not agent.cta for place, ranks in targets)
            end = sm.peer(now, nbytes) if away else sm.shared(now, nbytes)
            read_end = end
            over_at = self.arrives(agent, targets, end + rates.peer_latency * away, nbytes)
        made = self.event(agent, engine.name, kind, start, over_at, op, after=self.last.get(agent, -1), nbytes=nbytes)
        for access, place, ranks in accesses:
            writes = access.mode is not fx.Mode.READ
            self.use(place, ranks, start, over_at if writes else read_end, writes)
        return (read_end, made.number), (over_at, made.number)

    def asked(self, place: Any) -> float:
        """Bytes of whole lines that take L2 as long as a box of an array.

        Less where many CTAs ask for the same: HBM brings a byte once, so its share says how many do.
        """
        if not place_is_common(place):
            return bytes_of(place)
        share = self.missed.get(place.window.index, 1.0)
        return (in_lines(place) or bytes_of(place)) * share**self.rates.l2_together

    def zeros(self, agent: Agent, targets: list[tuple[Any, list[int] | None]], nbytes: int) -> float:
        """Zeros get into each CTA that a copy is for: when the last are there."""
        if not nbytes:
            return 0.0
        ranks = [rank for place, ranks in targets for rank in (ranks if ranks is not None else [place.cta.rank])]
        return max(self.sms[rank].zeros(self.now[agent], nbytes) for rank in ranks)

    def arrives(self, agent: Agent, targets: list[tuple[Any, list[int] | None]], time: float, nbytes: int) -> float:
        """Bytes get into the shared memory of each CTA that they are for: when the last are there."""
        over = time
        for place, ranks in targets:
            if place_is_common(place):
                continue
            for rank in ranks if ranks is not None else [place.cta.rank]:
                self.sms[rank].landing(self.now[agent], nbytes)
            if ranks is not None and len(ranks) > 1:
                over += self.rates.copy_multicast
        return over

    def due(self, copy: Any, now: float) -> float:
        """When the next step of a copy is done."""
        left = self.landing.get(copy)
        return max(now, left[0][0]) if left else now

    def source_read(self, copy: Any) -> None:
        left = self.landing[copy]
        del left[0]

    def complete(self, copy: Any, barrier: MBarrier | None) -> None:
        if barrier is not None:
            self.signalled(barrier, self.landing[copy][-1] if copy in self.landing else START)

    # --- signals and waits -------------------------------------------------------------------------------------------

    def arrive(self, agent: Agent, op: Op, barrier: MBarrier, count: int) -> None:
        away = barrier.cta is not agent.cta
        made = self.works(agent, op, self.now[agent] + 1, "signal")
        latency = self.rates.remote_arrive_latency if away else self.rates.arrive_latency
        assert made is not None
        made.barrier = barrier.name
        made.phase = barrier.phase
        self.signalled(barrier, (made.end + latency, made.number))

    def signalled(self, barrier: MBarrier, due: Due) -> None:
        key = (barrier, barrier.phase)
        self.released[key] = max(self.released.get(key, START), due)

    def wait_passed(self, agent: Agent, op: Op, barrier: MBarrier, phase: int) -> None:
        until = self.released.get((barrier, phase), START)
        passed = self.now[agent] + self.rates.wait
        if until[0] > passed:
            self.waits(agent, op, until, barrier=barrier.name, phase=phase)
        else:
            self.works(agent, op, passed)

    def signal_asked(self, signal: Any) -> None:
        agent = signal.agent
        given = [over for (who, _), groups in self.groups.items() if who is agent for group in groups for _, over in group]
        time, cause = max(given, default=START)
        now = (self.now[agent], self.last.get(agent, -1))
        self.landing[signal] = [max((time + self.rates.arrive_latency, cause), now)]
        for key in [key for key in self.groups if key[0] is agent]:
            self.groups[key] = [[]]

    def signal_given(self, signal: Any, barrier: MBarrier) -> None:
        self.signalled(barrier, self.landing[signal][-1])

    def commit(self, agent: Agent, op: Op, engine: Engine) -> None:
        self.groups.setdefault((agent, engine), [[]]).append([])

    def groups_passed(self, agent: Agent, op: Op, engine: Engine, newest: int, read: bool) -> None:
        groups = self.groups.get((agent, engine), [[]])
        closed = groups[:-1]
        over = closed[: max(0, len(closed) - newest)]
        dues = [due[0 if read else 1] for group in over for due in group]
        if not read:
            del groups[: len(over)]
        self.waits(agent, op, max(dues, default=START))

    def rendezvous(self, agent: Agent, op: Op, rendezvous: fx.Rendezvous, phase: int) -> None:
        if rendezvous.span is fx.Span.CLUSTER and rendezvous.arrives:
            key = (agent.cta.cluster, phase)
            self.meetings[key] = max(self.meetings.get(key, START), (self.now[agent], self.last.get(agent, -1)))

    def cluster_passed(self, agent: Agent, op: Op, phase: int) -> None:
        time, cause = self.meetings.get((agent.cta.cluster, phase), START)
        self.waits(agent, op, (time + self.rates.cluster_sync, cause), barrier=CLUSTER_BARRIER, phase=phase)


SHARING = 8.0
"""CTAs that ask for the same bytes at about the same time: where one of them waits for HBM, all do."""
FENCES = {
    fx.FenceKind.PROXY_CTA: "fence_proxy",
    fx.FenceKind.PROXY_CLUSTER: "fence_proxy",
    fx.FenceKind.PROXY_GLOBAL: "fence_cluster",
    fx.FenceKind.ACQ_REL_CLUSTER: "fence_cluster",
}


def without_values(op: Op) -> Callable[..., Any] | None:
    """What stands for arithmetic that defines tiles of floats alone: nobody asks a modelled run for their elements."""
    types = [value.type for value in op.defined_values()]
    if not types or not all(isinstance(type_, TileType) and type_.dtype.is_float for type_ in types):
        return None
    zeros = tuple(np.zeros(type_.shape, type_.dtype.numpy) for type_ in types if isinstance(type_, TileType))
    for tile in zeros:
        tile.flags.writeable = False
    return (lambda *operands: zeros[0]) if op.defines is not None else (lambda *operands: zeros)


def place_is_common(place: Any) -> bool:
    """Whether a place is in global memory."""
    return bool(place.is_common)


def bytes_of(place: Any) -> int:
    """The bytes of a place that are there; of rows by index, those of the rows that the array has."""
    if not place.is_common:
        return int(place.array.nbytes)
    if hasattr(place, "view"):
        return 0 if place.view is None else int(place.view.nbytes)
    window, rows = place.window, getattr(place, "valid", None)
    nbytes = prod(window.shape) * window.dtype.itemsize
    return nbytes if rows is None else nbytes * len(rows) // max(1, window.extents[window.row_axis])


def bytes_outside(place: Any) -> int:
    """The bytes of a box of an array that the array does not have."""
    return prod(place.window.shape) * int(place.window.dtype.itemsize) - bytes_of(place)


def same_values(function: Function) -> dict[Value, Value]:
    """Maps values that are reads or assignments of one variable to one value that stands for them all."""
    found: dict[Value, Value] = {}

    def name_of(value: Value) -> Value:
        while value in found and found[value] is not value:
            value = found[value]
        return value

    for op in function.walk():
        names = CELLS.get(type(op))
        if names is not None:
            first, second = names(op)
            found[name_of(first)] = name_of(second)
    return {value: name_of(value) for value in found}
