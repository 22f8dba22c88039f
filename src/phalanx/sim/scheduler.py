"""Who runs next: agents until they block, then the copies in flight, as the schedule says.

Barriers belong to a cluster, so a cluster runs as long as it can make progress, alone. Only loops that poll
global memory can depend on other clusters: while one of them polls in vain, others run, and new ones start
while there is room.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator, Iterable, Iterator

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.location import NOWHERE, Location
from phalanx.sim.agents import ASK, BLOCKED, LINE, STEP, TRY, Agent
from phalanx.sim.codegen import FILENAME
from phalanx.sim.engines import Copy
from phalanx.sim.machine import Cluster, Machine
from phalanx.sim.report import deadlock, division_by_zero, unmet
from phalanx.sim.spins import LONGEST_CIRCLE, asks_memory

IN_VAIN = 2 * LONGEST_CIRCLE
"""Rounds in circles, of each agent that is left, after which nobody can be expected to change anything: one whole circle."""
MOST_TRIES = 1 << 14
"""So often a loop that may also end by itself asks in vain before others go on, in a run that holds something back."""
STEPS_IN_A_ROW = 4096
"""After so many steps of one busy loop, copies in flight and other clusters get a turn."""
NEWEST_FIRST = 32
"""Up to so many copies in flight the newest completes first: the older ones as late as can be."""
REFUSED = 8
"""One in so many requests for another cluster a random schedule refuses, although there are some left."""
RANDOM_WIDTH = 3
"""Clusters that a random schedule interleaves."""


@frozen
class Hold:
    """What a run holds back, in every cluster or in one alone, while anything else can happen.

    An agent (`target`: its CTA's rank, and its number, where 0 is the code outside roles) from its signal number
    `signal` on, as a monitor counts them; or, with `copies`, what lands on a barrier (rank, number of its array, index).
    `first`: the first cluster of the grid as a whole, until the others are over: that is what an "early" run does.
    `cluster`: in that one alone, while other clusters can go on, too.
    """

    target: tuple[int, ...]
    signal: int = 0
    copies: bool = False
    first: bool = False
    cluster: int | None = None

    def holds(self, cluster: Cluster) -> bool:
        """Whether it holds something back in that cluster."""
        return self.cluster is None or self.cluster == cluster.index


@frozen
class Schedule:
    """How a run resolves what the hardware leaves open.

    "late" completes asynchronous work only when no agent can go on, "early" at its issue, and the first cluster of the
    grid goes on only when no other can; "random" makes a seeded
    choice among agents and completions, at every instruction with an effect; "starve" holds back what `held` names while
    anything else can happen, the last of it while the others can. A loop that asks a barrier a limited number of times comes
    to its end before what is held back. Example: ``Schedule("random", seed=3)``.
    """

    kind: str = "late"
    seed: int = 0
    held: tuple[Hold, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ("late", "early", "random", "starve"):
            raise Error(f"unknown schedule {self.kind!r}", remedy='use "late", "early", "random" or "starve"')


class Scheduler:
    """Runs all clusters of a machine, of which as many are resident at a time as `sms` CTAs make; None: all of them."""

    def __init__(self, machine: Machine, schedule: Schedule, sms: int | None = None) -> None:
        self.machine = machine
        self.schedule = schedule
        room = machine.held if sms is None else max(1, machine.gpus * sms // machine.function.cluster_size)
        self.room = min(machine.held, room)
        self.free: list[Cluster] = []
        self.active: deque[Cluster] = deque()
        self.last: Cluster | None = None
        """The cluster that goes on only when no other can."""
        self.vain = machine.vain
        self.stepped = machine.code.stepped
        self.asked: dict[Agent, int] = {}

    def run(self) -> None:
        """Until the grid is done."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[Agent | Copy]:
        """Runs until the grid is done. Where the code is stepped through, it stops before each instruction, with the agent
        that is about to run it, and behind each step of a copy in flight, with that copy."""
        try:
            if self.schedule.kind == "random":
                yield from self._run_random(random.Random(self.schedule.seed))
            elif self.schedule.kind == "starve":
                yield from self._run_starving()
            else:
                yield from self._run()
        finally:
            self.machine.budget.progress.end()

    # --- late and early ---------------------------------------------------------------------------------------------

    def _run(self) -> Iterator[Agent | Copy]:
        active = self.active
        while active or self._start():
            if active[0] is self.last and self._goes_last():
                continue
            if (yield from self._turn(active[0])):
                self._finish(active[0])
                continue
            if self._start():
                continue
            active.rotate(-1)
            if self._in_vain(active):
                raise self._stuck(list(active))

    def _in_vain(self, clusters: Iterable[Cluster]) -> bool:
        """Whether all that is left of these clusters goes in circles, and has done so since anything else happened."""
        vain = self.vain
        return all(
            not cluster.ready and not cluster.pending and all(vain.get(agent, 0) > IN_VAIN for agent in cluster.spinning)
            for cluster in clusters
        )

    def _start(self) -> bool:
        """Begins the next cluster of the grid if there is one, and room for it."""
        index = self.machine.next_cluster() if len(self.active) < self.room else None
        if index is None:
            return False
        cluster = self.free.pop() if self.free else Cluster(self.machine)
        cluster.start(index)
        if not index and self.schedule.kind == "early":
            self.last = cluster
        self.active.appendleft(cluster)
        return True

    def _goes_last(self) -> bool:
        """Lets another cluster have the turn of the one that goes last, while there is one that does not ask in vain."""
        active = self.active
        if self._start():
            return True
        others = [cluster for cluster in active if cluster is not self.last]
        if others and not self._in_vain(others):
            active.rotate(-1)
            return True
        self.last = None
        return False

    def _turn(self, cluster: Cluster) -> Generator[Agent | Copy, None, bool]:
        """Runs a cluster until it does nothing but ask, or has ended: then true."""
        ready, pending, spinning = cluster.ready, cluster.pending, cluster.spinning
        ready.extend(spinning)
        spinning.clear()
        steps = 0
        while True:
            while ready:
                agent = ready.popleft()
                try:
                    code = agent.resume()
                except StopIteration:
                    agent.finish()
                    code = BLOCKED
                except Error as error:
                    raise self._placed(error, agent) from None
                except Exception as problem:
                    raise (explained := self._explain(problem)) from explained.__cause__
                if not code:
                    self.vain.clear()
                elif code == STEP:
                    steps += 1
                    (ready if steps % STEPS_IN_A_ROW else spinning).append(agent)
                elif code == LINE:
                    ready.appendleft(agent)
                    yield agent
                else:
                    spinning.append(agent)
            if pending:
                copy = pending.pop() if len(pending) <= NEWEST_FIRST else pending.popleft()
                if copy.step():
                    pending.appendleft(copy)
                self.vain.clear()
                ready.extend(spinning)
                spinning.clear()
                if self.stepped:
                    yield copy
            elif not cluster.live:
                return True
            elif spinning:
                return False
            else:
                raise self._stuck([cluster])

    # --- random -----------------------------------------------------------------------------------------------------

    def _run_random(self, rng: random.Random) -> Iterator[Agent | Copy]:
        """One choice after another among everything that could happen next."""
        self.machine.willing = lambda: rng.randrange(REFUSED) > 0
        active = self.active
        while len(active) < RANDOM_WIDTH and self._start():
            pass
        while active:
            cluster = active[rng.randrange(len(active))]
            ready, pending, spinning = cluster.ready, cluster.pending, cluster.spinning
            choices = len(ready) + len(pending) + len(spinning)
            if not choices:
                if cluster.live:
                    raise self._stuck([cluster])
                self._finish(cluster)
                self._start()
                continue
            choice = rng.randrange(choices)
            if choice < len(pending):
                copy = pending[choice]
                del pending[choice]
                if copy.step():
                    pending.append(copy)
                self.vain.clear()
                if self.stepped:
                    yield copy
                continue
            choice -= len(pending)
            if choice < len(ready):
                agent = ready[choice]
                del ready[choice]
            else:
                agent = spinning.pop(choice - len(ready))
            while (code := self._resume(agent)) == LINE:
                yield agent
            if code in (STEP, ASK):
                ready.append(agent)
            elif code:
                spinning.append(agent)
                if self.vain.get(agent, 0) > IN_VAIN and self._in_vain(active) and not self._start():
                    raise self._stuck(list(active))

    def _run_starving(self) -> Iterator[Agent | Copy]:
        """One step after the other; what is held back comes when there is nothing else."""
        active = self.active
        across = asks_memory(self.machine.function)  # which other clusters may change
        stale = False  # something happened since those that spin have asked
        idle = 0  # clusters that have asked in vain since then
        while active or self._start():
            cluster = active[0]
            ready, spinning = cluster.ready, cluster.spinning
            held = self._held(cluster)
            agent = next((a for a in ready if a not in held), None)
            if agent is None and stale and spinning:
                stale = False
                ready.extend(spinning)
                spinning.clear()
                continue
            if agent is None and (copy := self._land(cluster)) is not None:
                idle = 0
                if self.stepped:
                    yield copy
                continue
            others = (spinning and across) or any(hold.cluster == cluster.index for hold in self.schedule.held)
            if agent is None and others and (self._start() or idle < len(active) - 1):
                if active[0] is cluster:
                    active.rotate(-1)
                    idle += 1
                stale = True
                continue
            if agent is None and (hold := self._next_hold(cluster)) is not None:
                if hold.copies:
                    copy = self._land(cluster, hold)
                    if self.stepped and copy is not None:
                        yield copy
                    continue
                agent = _held_agent(cluster, hold)
            if agent is None and spinning and not self._in_vain([cluster]):
                agent = spinning.pop(0)
                ready.append(agent)
            if agent is None:
                if not cluster.live:
                    self._finish(cluster)
                elif not self._start():
                    if len(active) == 1 or self._in_vain(active):
                        raise self._stuck([cluster])
                    active.rotate(-1)
                    stale = True  # for the next cluster: one that spins may have told others before it spun again
                continue
            ready.remove(agent)
            while (code := self._resume(agent)) == LINE:
                yield agent
            if code in (STEP, ASK) or (code == TRY and self._tries(agent)):
                ready.append(agent)
            elif code:
                spinning.append(agent)
            if code in (BLOCKED, STEP):
                stale = True
                idle = 0

    def _held(self, cluster: Cluster) -> list[Agent]:
        """The agents that are held back now."""
        monitor = self.machine.monitor
        several = len(cluster.ctas)  # one instruction may give a signal in each CTA
        holds = [hold for hold in self.schedule.held if hold.holds(cluster) and not hold.copies]
        agents = [(_held_agent(cluster, hold), hold) for hold in holds]
        return [a for a, hold in agents if monitor is None or monitor.given(a) + several >= hold.signal]

    def _next_hold(self, cluster: Cluster) -> Hold | None:
        """The first of what is held back that can go on."""
        for hold in self.schedule.held:
            if hold.copies:
                able = any(self._lands_on(copy, hold) for copy in cluster.pending)
            else:
                able = hold.holds(cluster) and _held_agent(cluster, hold) in cluster.ready
            if able:
                return hold
        return None

    def _land(self, cluster: Cluster, hold: Hold | None = None) -> Copy | None:
        """The next step of the oldest copy in flight that is not held back, or of those that `hold` holds; that copy."""
        pending = cluster.pending
        for position, copy in enumerate(pending):
            if self._lands_on(copy, hold) if hold is not None else not self._is_held(copy):
                del pending[position]
                if copy.step():
                    pending.appendleft(copy)
                self.vain.clear()
                cluster.ready.extend(cluster.spinning)
                cluster.spinning.clear()
                return copy
        return None

    def _is_held(self, copy: Copy) -> bool:
        return any(hold.copies and self._lands_on(copy, hold) for hold in self.schedule.held)

    def _lands_on(self, copy: Copy, hold: Hold) -> bool:
        """Whether a copy lands on the barrier whose copies are held back."""
        rank, array, index = hold.target
        wanted = self.machine.function.barriers[array]
        return any(b.cta.rank == rank and b.array is wanted and b.index == index for b in copy.barriers)

    def _tries(self, agent: Agent) -> bool:
        """Whether a loop that asks, and may also end by itself, asks once more before others go on."""
        tries = self.asked[agent] = self.asked.get(agent, 0) + 1
        return tries <= MOST_TRIES

    def _resume(self, agent: Agent) -> int:
        try:
            code = agent.resume()
        except StopIteration:
            agent.finish()
            code = BLOCKED
        except Error as error:
            raise self._placed(error, agent) from None
        except Exception as problem:
            raise (explained := self._explain(problem)) from explained.__cause__
        if code == BLOCKED:
            self.vain.clear()
        return code

    def _finish(self, cluster: Cluster) -> None:
        """Its slot is free again."""
        if (error := unmet([cluster])) is not None:
            raise error
        if self.machine.monitor is not None:
            self.machine.monitor.cluster_finished(cluster)
        self.active.remove(cluster)
        self.free.append(cluster)
        self.machine.budget.cluster_finished()

    # --- errors -----------------------------------------------------------------------------------------------------

    def _stuck(self, clusters: list[Cluster]) -> Error:
        """Nobody can go on."""
        if (error := unmet(clusters)) is not None:
            return error
        if self.machine.monitor is not None:
            self.machine.monitor.stuck(clusters)
        return deadlock(self.machine, clusters)

    def _placed(self, error: Error, agent: Agent) -> Error:
        """An error of an instruction of `agent`, at that instruction if it names no place itself."""
        if self.machine.monitor is not None:
            self.machine.monitor.current = agent
        return error if error.location is not NOWHERE else error.at(self._place_of(error))

    def _place_of(self, problem: Exception) -> Location:
        """The instruction that the generated code was running."""
        trace, line = problem.__traceback__, 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == FILENAME:
                line = trace.tb_lineno
            trace = trace.tb_next
        op = self.machine.code.op_at(line)
        return op.loc if op is not None else NOWHERE

    def _explain(self, problem: Exception) -> Error:
        """An error of the arithmetic, at the instruction that the generated code was running."""
        location = self._place_of(problem)
        if isinstance(problem, ZeroDivisionError):
            found = division_by_zero(location)
            found.__suppress_context__ = True
            return found
        failure = Error(
            f"the simulator failed at this instruction: {type(problem).__name__}: {problem}", location=location,
            remedy="this is a mistake in Phalanx, not in the kernel: please report it",
        )
        failure.__cause__ = problem
        return failure


def _held_agent(cluster: Cluster, hold: Hold) -> Agent:
    """The agent that a schedule names."""
    rank, number = hold.target
    main = cluster.ctas[rank].main
    return main.children[number - 1] if number else main
