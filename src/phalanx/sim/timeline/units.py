"""The shared parts of an SM: who comes first is served first."""

from __future__ import annotations

from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Unit


class Server:
    """A unit of one SM, busy until `free`; `last` is the number of the event that it worked for last."""

    __slots__ = ("busy", "free", "last")

    def __init__(self) -> None:
        self.free = 0.0
        self.busy = 0.0
        self.last = -1

    def take(self, earliest: float, cycles: float, event: int = -1) -> tuple[float, float, int]:
        """Begins work as soon as the unit is free: its start, its end, and the event that it waited for, -1 for none."""
        start = self.free if self.free > earliest else earliest
        before = self.last if self.free > earliest else -1
        self.free = start + cycles
        self.busy += cycles
        self.last = event
        return start, self.free, before

    def owe(self, now: float, cycles: float) -> None:
        """Work that comes later than now: the line gets as much longer."""
        self.busy += cycles
        self.free = max(self.free, now) + cycles


class Sm:
    """The units of one SM."""

    def __init__(self, rates: Rates, crowd: float) -> None:
        self.rates = rates
        self.servers = {unit: Server() for unit in Unit}
        busy = min(1.0, max(1.0, crowd) / rates.sms)
        self.hbm_rate = between(rates.hbm_rate / rates.clock / rates.sms, rates.hbm_sm_rate, busy)
        """Bytes of HBM for this SM in a cycle, where so many SMs ask."""
        self.l2_rate = between(rates.l2_rate, rates.l2_sm_rate, busy)
        """Bytes of L2 for this SM in a cycle, where so many SMs ask."""

    def tensor(self, start: float, cycles: float, operands: float, event: int) -> tuple[float, float, int]:
        """A product: the tensor cores are busy for as long as they multiply, or read operands from shared memory."""
        shared = operands / self.rates.shared_rate
        return self.servers[Unit.TENSOR].take(start, max(cycles, shared), event)

    def shared(self, start: float, nbytes: float) -> float:
        """Bytes into or out of shared memory: when they are through."""
        return self.servers[Unit.SHARED].take(start, nbytes / self.rates.shared_rate)[1]

    def landing(self, now: float, nbytes: float) -> None:
        """Bytes that a copy will put into shared memory some time later."""
        self.servers[Unit.SHARED].owe(now, nbytes / self.rates.shared_rate)

    def l2(self, start: float, nbytes: float, missed: float, lines: float | None = None) -> tuple[float, float]:
        """Bytes between L2 and the SM, a share `missed` of them from HBM: their begin and their end.

        `lines`: bytes of whole lines that take L2 as long, where rows begin anywhere.
        """
        begin, end, _ = self.servers[Unit.L2].take(start, (nbytes if lines is None else lines) / self.l2_rate)
        if missed:
            _, other, _ = self.servers[Unit.HBM].take(start, nbytes * missed / self.hbm_rate)
            end = max(end, other)
        return begin, end

    def written(self, start: float, nbytes: float) -> tuple[float, float]:
        """Bytes from the SM into L2, which HBM gets some time later: their begin, and when L2 has them."""
        begin, end = self.l2(start, nbytes, 0.0)
        self.servers[Unit.HBM].owe(start, nbytes / self.hbm_rate)
        return begin, end

    def zeros(self, now: float, nbytes: float) -> float:
        """Zeros that the copy engine writes into this SM for what an array does not have: when the last are there."""
        way = self.servers[Unit.L2]
        way.owe(now, nbytes / self.rates.zero_rate)
        return way.free

    def peer(self, start: float, nbytes: float) -> float:
        """Bytes to another SM: when the last one has left."""
        return self.servers[Unit.PEERS].take(start, nbytes / self.rates.peer_rate)[1]

    def issue(self, start: float, instructions: float, warps: float) -> float:
        """Instructions of an agent's warps: when the last one is issued.

        Each warp issues one a cycle at most; short runs slip in between those of others.
        """
        rates = self.rates
        amount = instructions * warps / rates.schedulers / rates.issue_share
        end = start + max(amount, instructions / rates.issue_share)
        server = self.servers[Unit.ISSUE]
        if amount < SHORT:
            server.busy += amount
            return end
        return max(end, server.take(start, amount)[1])

    def special(self, start: float, instructions: float, warps: float) -> float:
        """Instructions for the special function unit, of which every scheduler has a part: when all are through."""
        rates = self.rates
        amount = instructions * warps * WARP / rates.special_lanes
        alone = instructions * WARP * rates.schedulers / rates.special_lanes
        return max(start + alone, self.servers[Unit.SPECIAL].take(start, amount)[1])


def between(together: float, alone: float, busy: float) -> float:
    """What an SM gets where a part of all is busy: of its time for a byte that part is what all share, the rest its own."""
    return 1 / (busy / together + (1 - busy) / alone) if alone > together else alone


SHORT = 32.0
"""Cycles of issue that go unnoticed by others."""
WARP = 32
