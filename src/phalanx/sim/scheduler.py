"""Who runs next: agents until they block, then the copies in flight, as the schedule says.

Barriers belong to a cluster, so a cluster runs as long as it can make progress, alone. Only loops that poll
global memory can depend on other clusters: while one of them polls in vain, others run, and new ones start
while there is room.
"""

from __future__ import annotations

import random
from collections import deque
from enum import Enum

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.location import NOWHERE, Location
from phalanx.machines.h200 import H200
from phalanx.sim.agents import POLL, STEP, TRY, Agent
from phalanx.sim.codegen import FILENAME
from phalanx.sim.engines import Copy
from phalanx.sim.machine import Cluster, Machine
from phalanx.sim.report import deadlock, division_by_zero, unmet

SMS = H200.sms
"""CTAs that are resident at the same time: one per SM of the GPU that the simulator stands for."""
QUIET_POLLS = 64
"""Rounds of nothing but polling after which nobody can be expected to change anything."""
QUIET_TRIES = 1 << 22
"""The same for polling loops that may also end by themselves."""
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
    """What a run holds back, in every cluster, while anything else can happen.

    An agent (`target`: its CTA's rank, and its number, where 0 is the code outside roles) from its signal number
    `signal` on, as a monitor counts them; or, with `copies`, what lands on a barrier (rank, number of its array, index).
    `first`: the first cluster of the grid as a whole, until the others are over: that is what an "early" run does.
    """

    target: tuple[int, ...]
    signal: int = 0
    copies: bool = False
    first: bool = False


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


class Outcome(Enum):
    """How a turn of a cluster ended."""

    FINISHED = "finished"
    STALLED = "stalled"
    """It only polls, and so did before: others may have to act first."""
    BUSY = "busy"
    """It polls, or is in a long loop, but something happened."""


class Scheduler:
    """Runs all clusters of a machine."""

    def __init__(self, machine: Machine, schedule: Schedule, sms: int = SMS) -> None:
        self.machine = machine
        self.schedule = schedule
        self.room = min(machine.held, max(1, sms // machine.function.cluster_size))
        self.free: list[Cluster] = []
        self.active: deque[Cluster] = deque()
        self.last: Cluster | None = None
        """The cluster that goes on only when no other can."""
        self.tries = 0
        self.asked: dict[Agent, int] = {}

    def run(self) -> None:
        """Until the grid is done."""
        try:
            if self.schedule.kind == "random":
                self._run_random(random.Random(self.schedule.seed))
            elif self.schedule.kind == "starve":
                self._run_starving()
            else:
                self._run()
        finally:
            self.machine.budget.progress.end()

    # --- late and early ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        quiet = 0
        active = self.active
        while active or self._start():
            if active[0] is self.last and self._goes_last(quiet):
                continue
            outcome = self._turn(active[0])
            if outcome is Outcome.FINISHED:
                self._finish(active[0])
                quiet = self.tries = 0
                continue
            quiet = quiet + 1 if outcome is Outcome.STALLED else 0
            if self._start():
                continue
            active.rotate(-1)
            if quiet > QUIET_POLLS * len(active) or self.tries > QUIET_TRIES:
                raise self._stuck(list(active))

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

    def _goes_last(self, quiet: int) -> bool:
        """Lets another cluster have the turn of the one that goes last, while there is one that does not ask in vain."""
        active = self.active
        if self._start():
            return True
        if len(active) > 1 and quiet < len(active) and self.tries < MOST_TRIES:
            active.rotate(-1)
            return True
        self.last = None
        return False

    def _turn(self, cluster: Cluster) -> Outcome:
        """Runs a cluster until it has ended or does nothing but poll."""
        ready, pending, spinning = cluster.ready, cluster.pending, cluster.spinning
        ready.extend(spinning)
        spinning.clear()
        happened = tried = False
        steps = 0
        while True:
            while ready:
                agent = ready.popleft()
                try:
                    code = agent.resume()
                except StopIteration:
                    agent.finish()
                    happened = True
                    continue
                except Error as error:
                    raise self._placed(error, agent) from None
                except Exception as problem:
                    raise (explained := self._explain(problem)) from explained.__cause__
                if not code:
                    happened = True
                elif code == STEP:
                    steps += 1
                    (ready if steps % STEPS_IN_A_ROW else spinning).append(agent)
                    tried = True
                else:
                    spinning.append(agent)
                    tried = tried or code != POLL
            if pending:
                copy = pending.pop() if len(pending) <= NEWEST_FIRST else pending.popleft()
                if copy.step():
                    pending.appendleft(copy)
                happened = True
                ready.extend(spinning)
                spinning.clear()
            elif not cluster.live:
                return Outcome.FINISHED
            elif spinning:
                if happened:
                    self.tries = 0
                elif tried:
                    self.tries += max(steps, 1)
                return Outcome.BUSY if happened or tried else Outcome.STALLED
            else:
                raise self._stuck([cluster])

    # --- random -----------------------------------------------------------------------------------------------------

    def _run_random(self, rng: random.Random) -> None:
        """One choice after another among everything that could happen next."""
        self.machine.willing = lambda: rng.randrange(REFUSED) > 0
        active = self.active
        while len(active) < RANDOM_WIDTH and self._start():
            pass
        quiet = 0
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
                quiet = 0
                continue
            choice -= len(pending)
            if choice < len(ready):
                agent = ready[choice]
                del ready[choice]
            else:
                agent = spinning.pop(choice - len(ready))
            code = self._resume(agent)
            if code == STEP:
                ready.append(agent)
            elif code:
                spinning.append(agent)
            if code and code != STEP:
                quiet += 1 if code != POLL else QUIET_TRIES // (QUIET_POLLS * 4 * (1 + sum(map(_spinners, active))))
            elif not code:
                quiet = 0
            if quiet > QUIET_TRIES and not any(c.ready or c.pending for c in active):
                if not self._start():
                    raise self._stuck(list(active))
                quiet = 0

    def _run_starving(self) -> None:
        """One step after the other; what is held back comes when there is nothing else."""
        active = self.active
        quiet = 0
        stale = False  # something happened since those that spin have asked
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
            if agent is None and self._land(cluster):
                quiet = 0
                continue
            if agent is None and (hold := self._next_hold(cluster)) is not None:
                if hold.copies:
                    self._land(cluster, hold)
                    quiet = 0
                    continue
                agent = _held_agent(cluster, hold)
            if agent is None and spinning and quiet <= QUIET_POLLS * len(spinning):
                agent = spinning.pop(0)
                ready.append(agent)
            if agent is None:
                if cluster.live:
                    if not self._start():
                        if len(active) > 1 and quiet <= QUIET_POLLS * len(active) * 4:
                            quiet += 1
                            active.rotate(-1)
                            continue
                        raise self._stuck([cluster])
                    continue
                self._finish(cluster)
                quiet = 0
                continue
            ready.remove(agent)
            code = self._resume(agent)
            if code == STEP or (code == TRY and self._tries(agent)):
                ready.append(agent)
            elif code:
                spinning.append(agent)
                quiet += 1
            if code in (0, STEP):
                stale = True
                if agent not in held:
                    quiet = 0

    def _held(self, cluster: Cluster) -> list[Agent]:
        """The agents that are held back now."""
        monitor = self.machine.monitor
        several = len(cluster.ctas)  # one instruction may give a signal in each CTA
        agents = [(_held_agent(cluster, hold), hold) for hold in self.schedule.held if not hold.copies]
        return [a for a, hold in agents if monitor is None or monitor.given(a) + several >= hold.signal]

    def _next_hold(self, cluster: Cluster) -> Hold | None:
        """The first of what is held back that can go on."""
        for hold in self.schedule.held:
            if hold.copies:
                able = any(self._lands_on(copy, hold) for copy in cluster.pending)
            else:
                able = _held_agent(cluster, hold) in cluster.ready
            if able:
                return hold
        return None

    def _land(self, cluster: Cluster, hold: Hold | None = None) -> bool:
        """The next step of the oldest copy in flight that is not held back, or of those that `hold` holds."""
        pending = cluster.pending
        for position, copy in enumerate(pending):
            if self._lands_on(copy, hold) if hold is not None else not self._is_held(copy):
                del pending[position]
                if copy.step():
                    pending.appendleft(copy)
                cluster.ready.extend(cluster.spinning)
                cluster.spinning.clear()
                return True
        return False

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
            return agent.resume()
        except StopIteration:
            agent.finish()
            return 0
        except Error as error:
            raise self._placed(error, agent) from None
        except Exception as problem:
            raise (explained := self._explain(problem)) from explained.__cause__

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


def _spinners(cluster: Cluster) -> int:
    return len(cluster.spinning)
