"""What `cluster.reduce` and `cluster.gather` have in common in PTX: whose turn it is, its inboxes and its barrier.

`passes/reductions.py` says why two turns of inboxes are enough.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.index import local, plus
from phalanx.frozen import frozen
from phalanx.ir.ops.cluster import TURNS, Exchange


@frozen
class Signals:
    """How mbarriers are spoken to: text of this CTA's rank, who waits for a phase, the arrival that names the bytes."""

    rank: str
    wait: Callable[[str, str], None]
    arm: str


class Turn:
    """Names of one exchange being written: its counter, and in an open block its barrier and inboxes."""

    def __init__(self, w: Writer, op: Exchange) -> None:
        assert op.slots is not None
        self.w = w
        self.op = op
        self.half = op.slots.shape[1]
        self.size = w.plan.function.cluster_size
        self.count = w.counter(("turn", op.slots), "turn", "exchanges over the cluster so far")
        self.bar = local(w, "inbox_bar")
        self.inbox = local(w, "inbox")
        self.received = local(w, "received")

    def begin(self, *, by_warp: bool, expected: str, signals: Signals) -> None:
        """The inboxes of this turn are free, and its barrier knows what comes.

        `by_warp`: every warp sends something, so that each only vouches for itself.
        """
        w, op = self.w, self.op
        assert op.slots is not None
        turn = f"({self.count} & 1)" if w.agent.copies == 1 else f"({TURNS} * {w.copy} + ({self.count} & 1))"
        if op.barrier is not None:
            w.line(f"const unsigned {self.bar} = {plus(w.barrier(op.barrier), f'8 * {turn}')};")
        w.line(f"const unsigned {self.inbox} = {plus(w.address(op.slots), f'{self.half} * {turn}')};")
        if op.barrier is None:
            return  # the barrier of the turn before did it
        if by_warp:
            w.line("__syncwarp();  // this warp has read its inboxes of the turn before")
        else:
            w.sync_agent("the inboxes of the turn before have been read")
        with w.elected():
            w.line(f"{signals.arm}({self.bar}, {expected});")

    def wait(self, signals: Signals) -> None:
        """Everything is in this CTA's inboxes, at `received`."""
        w = self.w
        if self.op.barrier is None:
            w.sync_agent("all warps have written")
        else:
            signals.wait(self.bar, f"{self.count} >> 1 & 1")
        w.line(f"const unsigned char* const {self.received} = {self.place};")

    @property
    def place(self) -> str:
        """The inboxes of this turn, a pointer."""
        return f"{self.w.smem} + ({self.inbox} - {self.w.base})"

    def end(self) -> None:
        """The turn is over: the next exchange takes the other inboxes."""
        self.w.line(f"++{self.count};")
