"""mbarriers and the cluster's barrier, state by state as the hardware keeps them.

An mbarrier has pending and expected arrivals, a signed count of outstanding bytes, and a phase. The phase
completes when no arrival is pending and the byte count is 0: it flips, and the pending arrivals are reloaded. A
wait for parity P passes when the current phase's parity is not P. What the hardware leaves undefined is an
error here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.ops.mbarrier import MAX_COUNT
from phalanx.ir.views import BarrierArray

if TYPE_CHECKING:
    from phalanx.sim.agents import Agent
    from phalanx.sim.machine import Cluster, Cta


class MBarrier:
    """One mbarrier of one CTA. `phase` counts completed phases; its lowest bit is the parity of the current one."""

    __slots__ = (
        "array", "cta", "expected", "index", "invalidated", "live", "pending", "phase", "tx", "waiters", "watch",
    )

    def __init__(self, array: BarrierArray, index: int, cta: Cta) -> None:
        self.array = array
        self.index = index
        self.cta = cta
        self.watch: Any = None  # what a monitor keeps of it
        self.reset()

    def reset(self) -> None:
        """Back to memory that nobody has initialised: a CTA begins."""
        self.live = False
        self.invalidated = False
        self.pending = self.expected = self.tx = self.phase = 0
        self.waiters: list[tuple[Agent, Op]] = []

    @property
    def name(self) -> str:
        """The barrier's name in messages, with its index where it has one."""
        return f"{self.array.title}[{self.index}]" if self.array.n > 1 else self.array.title

    def peer(self, rank: int) -> MBarrier:
        """This barrier in another CTA of the cluster."""
        return self.cta.cluster.ctas[rank].barriers[self.array][self.index]

    def init(self, count: int, op: Op) -> None:
        """Phase 0, `count` arrivals pending in every phase, no bytes outstanding."""
        if self.live:
            return self._refuse(Error(
                f"{self.name} is initialised while it is in use",
                location=op.loc, kind="barrier-reinitialised", remedy="invalidate it first, or initialise it once",
            ))
        if not 1 <= count <= MAX_COUNT:
            return self._refuse(Error(
                f"{self.name} is initialised with count {count}", location=op.loc,
                remedy=f"a barrier counts 1 to {MAX_COUNT} arrivals a phase",
            ))
        self.live = True
        self.invalidated = False
        self.pending = self.expected = count
        self.tx = self.phase = 0

    def invalidate(self, op: Op) -> None:
        """Ends its life; only `init` may follow."""
        if not self.live:
            return self.require(op)
        self.live = False
        self.invalidated = True

    def require(self, op: Op) -> None:
        """The error of using it while it is not initialised."""
        if self.invalidated:
            return self._refuse(Error(
                f"{self.name} of CTA {self.cta.rank} is used after it was invalidated",
                location=op.loc, kind="barrier-invalidated", remedy="initialise it again before this use",
            ))
        return self._refuse(Error(
            f"{self.name} of CTA {self.cta.rank} is used before it was initialised",
            location=op.loc, kind="barrier-uninitialised",
            remedy="initialise it, then px.fence.barrier_init() and a CTA or cluster sync, before this use",
        ))

    def arrive(self, count: int, op: Op) -> None:
        """`count` arrivals at once."""
        if not self.live:
            return self.require(op)
        if count < 1:
            return self._refuse(Error(
                f"{count} arrivals on {self.name}", location=op.loc, remedy="an arrive counts at least 1",
            ))
        if count > self.pending:
            return self._refuse(Error(
                f"{count} {'arrival' if count == 1 else 'arrivals'} on {self.name} of CTA {self.cta.rank}, but its "
                f"phase {self.phase} has {self.pending} of {self.expected} pending{self._bytes_note()}",
                location=op.loc, kind="over-arrival",
                remedy="raise the barrier's count, or wait for the phase before arriving again",
            ))
        self.pending -= count
        if not self.pending and not self.tx:
            self.flip()

    def expect(self, nbytes: int, op: Op) -> None:
        """The current phase waits for `nbytes` more."""
        if not self.live:
            return self.require(op)
        if nbytes < 0:
            return self._refuse(Error(
                f"{self.name} of CTA {self.cta.rank} is told to expect {nbytes} bytes in phase {self.phase}",
                location=op.loc, kind="tx-mismatch", remedy="expect as many bytes as the copies bring, 0 or more",
            ))
        self.tx += nbytes
        if self.tx > MAX_COUNT:
            return self._out_of_range(op)
        if not self.pending and not self.tx:
            self.flip()

    def complete(self, nbytes: int, op: Op) -> None:
        """`nbytes` of a copy have landed. They may land before they are expected: the count is signed."""
        if not self.live:
            return self.require(op)
        self.tx -= nbytes
        if self.tx < -MAX_COUNT:
            return self._out_of_range(op)
        if not self.pending and not self.tx:
            self.flip()

    def flip(self) -> None:
        """The phase is complete: everybody who waits for it goes on."""
        self.phase += 1
        self.pending = self.expected
        if self.waiters:
            waiters, self.waiters = self.waiters, []
            monitor = self.cta.cluster.machine.monitor
            for agent, op in waiters:
                if monitor is not None:
                    monitor.wait_passed(agent, op, self, self.phase - 1)
                agent.queue.append(agent)

    def _bytes_note(self) -> str:
        return f" and waits for {self.tx} bytes" if self.tx > 0 else ""

    def _out_of_range(self, op: Op) -> None:
        self._refuse(Error(
            f"{self.name} of CTA {self.cta.rank} has {self.tx} bytes outstanding in phase {self.phase}",
            location=op.loc, kind="tx-mismatch",
            remedy=f"a phase tracks -{MAX_COUNT} to {MAX_COUNT} bytes: split the copies over more barriers or phases",
        ))

    def _refuse(self, error: Error) -> None:
        """Ends the run with the error, unless a monitor takes note of it and lets the run go on without the signal."""
        monitor = self.cta.cluster.machine.monitor
        if monitor is None or not monitor.problem(error, barrier=self):
            raise error


class ClusterBarrier:
    """The barrier of all threads of a cluster, counted in warps. CTAs that have exited take no part."""

    __slots__ = ("arrived", "cluster", "phase", "waiters")

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.reset()

    def reset(self) -> None:
        """Begins with the first phase."""
        self.phase = 0
        self.arrived = 0
        self.waiters: list[tuple[Agent, Op]] = []

    def arrive(self, agent: Agent, op: Op) -> None:
        """All warps of `agent` arrive."""
        if agent.cluster_phase == self.phase:
            raise Error(
                "the cluster barrier is arrived at twice without a wait in between",
                location=op.loc, remedy="write px.cluster.wait() between two px.cluster.arrive()",
            )
        agent.cluster_phase = self.phase
        self.arrived += agent.warps
        self.check()

    def passed(self, agent: Agent, op: Op) -> bool:
        """Whether the phase that `agent` arrived in is complete."""
        if agent.cluster_phase < 0:
            raise Error(
                "px.cluster.wait() without a px.cluster.arrive() before it",
                location=op.loc, remedy="arrive first, or use px.cluster.sync()",
            )
        return agent.cluster_phase < self.phase

    def check(self) -> None:
        """Completes the phase when every warp that has not exited has arrived."""
        if self.arrived and self.arrived >= self.expected:
            self.phase += 1
            self.arrived = 0
            waiters, self.waiters = self.waiters, []
            monitor = self.cluster.machine.monitor
            for agent, op in waiters:
                if monitor is not None:
                    monitor.cluster_passed(agent, op, self.phase - 1)
                agent.queue.append(agent)

    @property
    def expected(self) -> int:
        """Warps that have to arrive in the current phase."""
        return self.cluster.live * self.cluster.machine.function.warps
