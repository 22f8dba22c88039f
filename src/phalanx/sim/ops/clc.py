"""Cluster launch control: who gets a cluster that waits is decided when the response lands."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from phalanx.ir.core import Op
from phalanx.ir.ops.clc import ClcQuery, ClcTryCancel
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import Copy, issue
from phalanx.sim.machine import Cluster, Machine
from phalanx.sim.places import BufferPlace, ranks_of
from phalanx.sim.registry import meaning


class Response:
    """The words of a response, the same in every CTA: the first block of the granted cluster, and 1; or 0 as the last."""

    __slots__ = ("request", "words")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.words: np.ndarray | None = None

    def decide(self, index: int | None) -> None:
        """It grants that cluster, or none."""
        machine = self.request.agent.cta.cluster.machine
        self.words = np.array((-1, -1, -1, 0) if index is None else (*machine.first_block(index), 1), np.int32)
        if machine.monitor is not None:
            machine.monitor.answered(self.request, index is not None)


class Requests:
    """The requests of one cluster that are not decided. They are in turn, and after one that is refused all others are."""

    __slots__ = ("machine", "open", "refused")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.open: deque[Response] = deque()
        self.refused = False

    def decide(self, wanted: Response) -> np.ndarray:
        """The words of a response; it, and those asked for before it, are decided when the first CTA gets it."""
        while wanted.words is None:
            index = None if self.refused else self.machine.take_over()
            self.refused = index is None
            self.open.popleft().decide(index)
        return wanted.words


def requests_of(cluster: Cluster) -> Requests:
    """The requests of the cluster that runs in a slot of the machine."""
    if cluster.requests is None:
        cluster.requests = Requests(cluster.machine)
    found: Requests = cluster.requests
    return found


class Request(Copy):
    """A request in flight: its response goes to each destination, its bytes to each one's barrier."""

    __slots__ = ("barriers", "destinations", "nbytes", "response")

    def __init__(
        self, agent: Agent, op: Op, destinations: tuple[np.ndarray, ...], barriers: tuple[MBarrier, ...], nbytes: int
    ) -> None:
        self.agent = agent
        self.op = op
        self.destinations = destinations
        self.barriers = barriers
        self.nbytes = nbytes
        self.response = Response(self)
        requests_of(agent.cta.cluster).open.append(self.response)

    def step(self) -> bool:
        """Writes the response and credits the barriers."""
        monitor = self.agent.cta.cluster.machine.monitor
        words = requests_of(self.agent.cta.cluster).decide(self.response)
        for destination, barrier in zip(self.destinations, self.barriers):
            destination[...] = words
            if monitor is None or monitor.complete(self, barrier) is not False:
                barrier.complete(self.nbytes, self.op)
        return False


@meaning(ClcTryCancel)
def try_cancel(op: ClcTryCancel, agent: Agent) -> Callable[..., None]:
    """Starts a request; the response lands at the same place in every CTA of the mask."""
    nbytes, cta = op.response.nbytes, agent.cta

    def run(response: BufferPlace, bar: MBarrier, ctas: int | None) -> None:
        ranks = [cta.rank] if ctas is None else ranks_of(ctas, cta, op.loc)
        destinations = tuple(response.peer(rank) for rank in ranks)
        issue(Request(agent, op, destinations, tuple(bar.peer(rank) for rank in ranks), nbytes))

    return run


@meaning(ClcQuery)
def query(op: ClcQuery, agent: Agent) -> Callable[..., tuple[bool, int]]:
    """Whether a cluster was granted, and the block of this CTA's position in it."""
    cta = agent.cta
    width, height, _ = cta.cluster.machine.grid

    def run(response: BufferPlace) -> tuple[bool, int]:
        *first, granted = response.array.tolist()
        if granted != 1:
            return False, -1
        x, y, z = (start + own for start, own in zip(first, cta.coordinates))
        return True, x + width * (y + height * z)

    return run
