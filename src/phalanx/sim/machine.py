"""The machine: clusters of CTAs, each with its shared memory, its barriers and its agents.

A `Cluster` object is a slot: when the cluster in it has ended, the next one of the grid starts in it with
poisoned memory, so the functions that the code generator bound to it are made once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from phalanx.errors import Error
from phalanx.ir.core import Function, Op
from phalanx.ir.memory import Piece, pieces
from phalanx.ir.views import BarrierArray, Buffer
from phalanx.location import Location
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import ClusterBarrier, MBarrier
from phalanx.sim.budget import Budget
from phalanx.sim.exchange import Visits
from phalanx.sim.scattered import Overlays, scattered_bytes

if TYPE_CHECKING:
    from phalanx.sim.codegen import Code
    from phalanx.sim.engines import Copy
    from phalanx.sim.monitor import Monitor

HELD = 2
"""Clusters that run at the same time where running ones may take over those that wait: few, so that some do wait.

As many are the grid of `kernel[px.auto]`: few, so that each takes several tiles.
"""
POISON = 0xFF
"""Every byte of a CTA's memory at its start: NaN in all float types, -1 in the integers."""


def clusters_held() -> int:
    """As many clusters as `PHALANX_CLUSTERS` says, or `HELD`."""
    text = os.environ.get("PHALANX_CLUSTERS", "")
    if not text:
        return HELD
    if not text.isdecimal() or not int(text):
        raise Error(
            f"PHALANX_CLUSTERS={text!r} is no number of clusters",
            remedy="give the number of clusters that run at the same time in kernels with px.clc, or with px.auto as their "
            "grid, 1 or more",
        )
    return int(text)


class Machine:
    """One launch: the grid, the arguments, and how to make the clusters that run it."""

    def __init__(
        self, function: Function, grid: tuple[int, int, int], args: tuple[Any, ...], code: Code, *,
        early: bool, monitor: Monitor | None, out: TextIO, held: int | None = None, gpus: int = 1, values: bool = True,
    ) -> None:
        self.function = function
        self.grid = grid
        self.gpus = gpus
        """The grid's clusters in equal shares, the first ones on the first GPU."""
        self.args = args
        self.code = code
        self.early = early
        self.monitor = monitor
        self.out = out
        self.values = values
        """Whether tiles of floats are computed; without, they are zeros, for a run that asks how long it takes."""
        self.patient = False
        """Waits only say what they wait for; whoever drives the run lets them pass (`sim/steps.py`)."""
        self.offsets, self.local_bytes = layout(function)
        self.scattered_bytes = scattered_bytes(function)
        """Bytes of memory whose elements are scattered, as buffers share it."""
        self.overlays = Overlays(function)
        x, y, z = (blocks // size for blocks, size in zip(grid, function.cluster))
        self.cluster_grid = (x, y, z)
        self.cluster_count = x * y * z
        self.budget = Budget(function, self.cluster_count)
        self.asks = any(op.asks_for_work for op in function.walk())
        """Whether clusters of the grid may be taken over by running ones: then not all of them start."""
        self.held = min(self.cluster_count, held or clusters_held()) if self.asks else self.cluster_count
        self.willing: Callable[[], bool] = lambda: True
        """Whether a request is granted while there are clusters left; the machine may say no at any time."""
        self.vain: dict[Agent, int] = {}
        """For each agent in a loop that goes in circles, its rounds there since anything else happened (`sim/spins.py`)."""
        self.begin()

    def begin(self) -> None:
        """The launch begins: as many clusters as the device holds start, the others wait."""
        self.vain.clear()
        self.resident = deque(range(self.held))
        self.waiting = deque(range(self.held, self.cluster_count))

    def next_cluster(self) -> int | None:
        """The cluster that starts where there is room for one; None if all have started or were taken over."""
        if self.resident:
            return self.resident.popleft()
        return self.waiting.popleft() if self.waiting else None

    def take_over(self) -> int | None:
        """The cluster that a running one gets: it never starts by itself. None where it is refused."""
        if not self.waiting or not self.willing():
            return None
        self.budget.cluster_finished()
        return self.waiting.popleft()

    def first_block(self, index: int) -> tuple[int, ...]:
        """The place in the grid of the first CTA of cluster number `index`."""
        return tuple(place * size for place, size in zip(self.place(index), self.function.cluster))

    def gpu_of(self, index: int) -> int:
        """The number of the GPU that cluster number `index` runs on."""
        return index * self.gpus // self.cluster_count

    def place(self, index: int) -> tuple[int, int, int]:
        """The place of cluster number `index` in the grid of clusters."""
        width, height, _ = self.cluster_grid
        return index % width, index // width % height, index // (width * height)


class Cluster:
    """The CTAs of one cluster, the agents that can run, the copies in flight."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.ready: deque[Agent] = deque()
        self.spinning: list[Agent] = []
        self.pending: deque[Copy] = deque()
        self.barrier = ClusterBarrier(self)
        self.visits = Visits()
        self.requests: Any = None  # for clusters that have not started, made at the first use
        self.index = 0
        self.gpu = 0
        self.live = 0
        self.coordinates = (0, 0, 0)
        self.ctas = [Cta(self, rank) for rank in range(machine.function.cluster_size)]
        for cta in self.ctas:
            machine.code.bind(cta.main)

    def start(self, index: int) -> None:
        """Begins cluster number `index` of the grid in this slot."""
        self.index = index
        self.gpu = self.machine.gpu_of(index)
        self.coordinates = self.machine.place(index)
        self.clear()
        self.live = len(self.ctas)
        for cta in self.ctas:
            cta.start()

    def clear(self) -> None:
        """Nothing runs in this slot."""
        self.ready.clear()
        self.spinning.clear()
        self.pending.clear()
        self.barrier.reset()
        self.visits = Visits()
        self.requests = None
        self.live = 0
        for cta in self.ctas:
            cta.main.reset()

    @property
    def finished(self) -> bool:
        """Whether nothing of the cluster runs or is in flight any more."""
        return not self.live and not self.pending

    def cta_of(self, rank: int, location: Location) -> Cta:
        """The CTA of that rank; an error if the cluster has none."""
        if not 0 <= rank < len(self.ctas):
            raise Error(
                f"CTA {rank} is outside the cluster of {len(self.ctas)}", location=location, kind="out-of-bounds",
                remedy=f"ranks go from 0 to {len(self.ctas) - 1}",
            )
        return self.ctas[rank]

    def agents(self) -> list[Agent]:
        """Every agent that has started and not ended, in the order of CTAs and roles."""
        found: list[Agent] = []

        def collect(agent: Agent) -> None:
            if agent.alive:
                found.append(agent)
            for child in agent.children:
                collect(child)

        for cta in self.ctas:
            collect(cta.main)
        return found


class Cta:
    """A thread block: its place in the grid, its memory of all spaces as bytes, typed views of each buffer, its barriers."""

    def __init__(self, cluster: Cluster, rank: int) -> None:
        self.cluster = cluster
        self.rank = rank
        machine = cluster.machine
        function = machine.function
        width, height, _ = function.cluster
        self.coordinates = (rank % width, rank // width % height, rank // (width * height))
        self.block = (0, 0, 0)
        self.memory = aligned_bytes(machine.local_bytes)
        self.buffers: dict[Buffer, np.ndarray] = {}
        for buffer in function.buffers:
            start = machine.offsets[buffer]
            flat = self.memory[start : start + buffer.host_bytes].view(buffer.dtype.numpy)
            self.buffers[buffer] = flat.reshape(buffer.shape)
        self.barriers: dict[BarrierArray, list[MBarrier]] = {
            array: [MBarrier(array, index, self) for index in range(array.n)] for array in function.barriers
        }
        self.allocated: dict[Buffer, Op] = {}
        """Buffers in memory that has to be allocated, while it is, with the instruction that did."""
        self.watch: Any = None  # what a monitor keeps of it
        self.main = Agent(self, function.name, 0, function.warps, None)

    def start(self) -> None:
        """Begins with poisoned memory and uninitialised barriers."""
        x, y, z = (c * size + r for c, size, r in
                   zip(self.cluster.coordinates, self.cluster.machine.function.cluster, self.coordinates))
        self.block = (x, y, z)
        self.memory.fill(POISON)
        self.allocated.clear()
        for array in self.barriers.values():
            for barrier in array:
                barrier.reset()
        self.main.reset()
        monitor = self.cluster.machine.monitor
        if monitor is not None:
            monitor.cta_started(self)
        self.main.start()

    def exit(self) -> None:
        """All its warps have ended; the cluster's barrier no longer waits for them."""
        cluster = self.cluster
        cluster.live -= 1
        if self.main.cluster_phase == cluster.barrier.phase:
            cluster.barrier.arrived -= self.main.warps
        monitor = cluster.machine.monitor
        if monitor is not None:
            monitor.cta_exited(self)
        cluster.barrier.check()
        if self.allocated:
            self._never_freed(monitor)

    def _never_freed(self, monitor: Monitor | None) -> None:
        """Memory that was allocated outlives its CTA: the next one on the SM would wait for it forever."""
        buffer, op = next(iter(self.allocated.items()))
        error = Error(
            f"CTA {self.rank} ends while '{buffer.name}' is still allocated in {buffer.space.name} memory",
            location=op.loc, kind="tmem-lifetime", remedy="every way out of the kernel has to free it",
        )
        if monitor is None or not monitor.problem(error, self.main):
            raise error


def layout(function: Function) -> tuple[dict[Buffer | BarrierArray, int], int]:
    """Byte offsets in the memory of a CTA: in declaration order, 1024-byte aligned, shared where the function says so.

    Buffers of all spaces lie in one range of bytes here, each space's apart from the others': none reuses another's. Those
    whose elements are scattered over their memory have each its own bytes; `sim/scattered.py` knows what they share.
    """
    declared: list[Buffer | BarrierArray] = [*function.buffers, *function.barriers]
    offsets: dict[Buffer | BarrierArray, int] = {}
    end = 0
    sizes = {item: item.host_bytes for item in declared}
    together = [item for item in declared if not item.space.scattered]
    alone = [Piece({item: 0}, sizes[item], 1024) for item in declared if item.space.scattered]
    for piece in (*pieces(together, sizes, dict.fromkeys(together, 1024)), *alone):
        start = -(-end // 1024) * 1024
        end = start + piece.nbytes
        offsets |= {item: start + offset for item, offset in piece.offsets.items()}
    return offsets, end


def aligned_bytes(size: int) -> np.ndarray:
    """Bytes whose address is a multiple of 1024, so that views of every type are aligned."""
    raw = np.empty(size + 1024, np.uint8)
    start = -raw.__array_interface__["data"][0] % 1024
    return raw[start : start + size]
