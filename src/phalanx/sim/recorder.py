"""What an event of a run that is driven step by step touches, and who starts and ends with it."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir import effects as fx
from phalanx.ir.core import Op
from phalanx.ir.engines import Engine
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import Copy, Signal, Work
from phalanx.sim.events import Event, Touch
from phalanx.sim.machine import Cta
from phalanx.sim.monitor import Monitor
from phalanx.sim.places import BufferPlace, BufferRows, PatchPlace, RowsPlace, array_of
from phalanx.sim.scattered import cells_of, region_key

if TYPE_CHECKING:
    from phalanx.sim.steps import Steps

MODES = {fx.Mode.READ: "read", fx.Mode.WRITE: "write", fx.Mode.ATOMIC: "atomic"}
Accesses = list[tuple[fx.Access, Any, "list[int] | None"]]
Asked = tuple[Op, MBarrier, int]
"""A test, its barrier and the parity that it asked for."""


class Recorder(Monitor):
    """Writes down what the current event touches, and who starts and ends with it."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.event = Event((), 0)
        self.masks: dict[Any, int] = {}
        self.expected: dict[MBarrier, int] = {}
        """Bytes that an instruction expects with the arrival that follows."""
        self.asked: list[Asked] = []
        """Tests that said no since the agent went on."""

    def touch(self, op: Op, touch: Touch) -> None:
        """The current event touches something."""
        self.event.touches.append(touch)
        self.event.ops.append(op)

    # --- memory -----------------------------------------------------------------------------------------------------

    def access(self, agent: Agent, op: Op, access: fx.Access, place: Any, ranks: list[int] | None) -> None:
        """The bytes that an access touches, as part of the current event."""
        mode = f"fold {access.folds}" if access.folds else MODES[access.mode]
        region = access.region
        if region.space.is_each_ctas:
            mask = self.buffer_mask(place)
            cluster = place.cta.cluster
            for rank in (place.cta.rank,) if ranks is None else ranks:
                self.touch(op, Touch("memory", ("local", cluster.index, rank), mode, mask, atomic=access.atomic))
        elif region.space.is_common and (array := array_of(region)) in self.steps.written:
            index, mask = self.elements(array.index, place)
            self.touch(op, Touch("memory", ("global", index), mode, mask, atomic=access.atomic))

    def handshake(self, agent: Agent, op: Op, scope: fx.Span, place: Any) -> None:
        """What an ordered atomic hands on goes to those who come to the same element later."""
        if place.view is not None:
            self.event.hands.append(self.elements(place.window.index, place))

    def elements(self, index: int, place: Any) -> tuple[int, int]:
        """The array and its elements, a bit each; arrays that overlap count as one element of the first of them."""
        shared = self.steps.shared_arrays.get(index)
        return (index, self.global_mask(index, place)) if shared is None else (shared, -1)

    def buffer_mask(self, place: BufferPlace) -> int:
        if isinstance(place, BufferRows):
            return reduce(or_, map(self.buffer_mask, place.parts()), 0)
        key = region_key(place)
        mask = self.masks.get(key)
        if mask is None:
            machine, buffer = place.cta.cluster.machine, place.buffer
            marks = np.zeros(machine.local_bytes + machine.scattered_bytes, np.bool_)
            if buffer.space.scattered:
                marks[machine.local_bytes :][cells_of(buffer)[place.key]] = True
            else:
                start = machine.offsets[buffer]
                box = marks[start : start + buffer.host_bytes].reshape(*buffer.shape, buffer.dtype.itemsize)
                box[place.key] = True
            mask = self.masks[key] = _bits(marks)
        return mask

    def global_mask(self, index: int, place: Any) -> int:
        """The elements of a global array that a place names, a bit each."""
        window, starts = place.window, place.starts
        plain = not isinstance(place, RowsPlace)
        if isinstance(place, PatchPlace):
            return self.patch_mask(place)
        key = (index, starts, window.extents)
        mask = self.masks.get(key) if plain else None
        if mask is None:
            marks = np.zeros(window.array.shape, np.bool_)
            parts: list[Any] = [
                slice(max(start, 0), max(0, min(start + extent, size))) if isinstance(start, int)
                else start[(start >= 0) & (start < size)]
                for start, extent, size in zip(starts, window.extents, window.array.shape)
            ]
            marks[tuple(parts)] = True
            mask = _bits(marks)
            if plain:
                self.masks[key] = mask
        return mask

    @staticmethod
    def patch_mask(place: PatchPlace) -> int:
        """The elements of an array that patches have, a bit each."""
        marks = np.zeros(place.window.array.shape, np.bool_)
        if place.key is not None:
            marks[place.key] = True
        return _bits(marks)

    # --- copies and products ----------------------------------------------------------------------------------------

    def issue(self, agent: Agent, op: Op, copy: Copy, accesses: Accesses) -> None:
        """A copy keeps its accesses until it is carried out."""
        copy.watch = list(accesses)
        if op.asks_for_work and agent.cta.cluster in self.steps.refused:
            self.steps.asked_again.append((agent, op))
        if isinstance(copy, Work):
            self.steps.told.append(copy)

    def copied(self, copy: Copy, *, reads: bool) -> None:
        """A step of a copy: a store reads first and writes later, all others do both at once."""
        for access, place, ranks in copy.watch:
            if not hasattr(copy, "group") or reads is (access.mode is fx.Mode.READ):
                self.access(copy.agent, copy.op, access, place, ranks)

    def complete(self, copy: Copy, barrier: MBarrier | None) -> bool | None:
        """Bytes land on a barrier."""
        if barrier is not None:
            self.signal(copy.op, barrier, 0, -copy.nbytes)  # type: ignore[attr-defined]
        return None

    def answered(self, copy: Copy, granted: bool) -> None:
        """A request's answer, whether it gets a cluster and which, depends on those before it."""
        self.touch(copy.op, Touch("grid", (), "take"))
        if not granted:
            self.steps.refused.setdefault(copy.agent.cta.cluster, self.event.process[:-1])

    def commit(self, agent: Agent, op: Op, engine: Engine) -> None:
        """A group is closed: waits will ask for it by its number."""
        if engine.issuer is fx.Executor.ONE:
            self.steps.groups.setdefault(agent, []).append(agent.open_group)
        else:
            self.steps.products.setdefault(agent, []).append(None)

    def work_given(self, agent: Agent, op: Op, accesses: Accesses) -> None:
        """It may read its operands at once, or as late as the wait."""
        for access, place, ranks in accesses:
            self.access(agent, op, access, place, ranks)
        self.steps.products.setdefault(agent, []).append(list(accesses))

    def signal_asked(self, signal: Signal) -> None:
        """The engine's arrival will tell of all the work given so far."""
        signal.watch = []
        self.steps.told.append(signal)
        line = signal.line
        self.steps.covered[signal] = {*line.works, *(work for work, _, _ in self.steps.over.get(line, ()))}

    def signal_given(self, signal: Signal, barrier: MBarrier) -> None:
        """The engine arrives on a barrier."""
        self.signal(signal.op, barrier, signal.count, 0)

    def groups_passed(self, agent: Agent, op: Op, engine: Engine, newest: int, read: bool) -> None:
        """Work that its agent carries out reads its operands at the latest now."""
        if engine.issuer is fx.Executor.ONE:
            return  # a wait that passes when it is chosen
        products = self.steps.products.get(agent, [])
        commits = sum(item is None for item in products)
        while commits > newest and products:
            item = products.pop(0)
            if item is None:
                commits -= 1
            else:
                for access, place, ranks in item:
                    self.access(agent, op, access, place, ranks)

    # --- barriers ---------------------------------------------------------------------------------------------------

    def key(self, barrier: MBarrier) -> tuple[Any, ...]:
        """What names a barrier in events."""
        cta = barrier.cta
        return (cta.cluster.index, cta.rank, self.steps.arrays[barrier.array], barrier.index)

    def signal(self, op: Op, barrier: MBarrier, arrivals: int, nbytes: int) -> None:
        """Arrivals and bytes on a barrier, with what is pending there."""
        key, before = self.key(barrier), (barrier.pending, barrier.tx)
        alone = key in self.steps.overfull
        self.touch(op, Touch("barrier", key, "signal", barrier.phase, False, before, (arrivals, nbytes), alone))

    def arrive(self, agent: Agent, op: Op, barrier: MBarrier, count: int) -> None:
        """Arrivals, with the bytes that the same instruction expects."""
        self.signal(op, barrier, count, self.expected.pop(barrier, 0))

    def expect(self, agent: Agent, op: Op, barrier: MBarrier, nbytes: int) -> None:
        """Bytes are expected, with the arrival of the same instruction or by themselves."""
        if op.effects().arrivals:
            self.expected[barrier] = nbytes
        else:
            self.touch(op, Touch("barrier", self.key(barrier), "expect", barrier.phase))

    def wait_passed(self, agent: Agent, op: Op, barrier: MBarrier, phase: int) -> None:
        """Only a test comes here: waits pass when they are chosen. One that spins is as good as a wait."""
        if op in self.steps.spinning:
            self.touch(op, Touch("barrier", self.key(barrier), "wait", phase & 1, reached=barrier.phase))
        else:
            self.touch(op, Touch("barrier", self.key(barrier), "test", barrier.phase, reached=barrier.phase))

    def test_failed(self, agent: Agent, op: Op, barrier: MBarrier) -> None:
        """A loop that spins asks again, and nobody noticed; another program may go on with the no."""
        self.asked.append((op, barrier, barrier.phase & 1))
        if op not in self.steps.spinning:
            self.touch(op, Touch("barrier", self.key(barrier), "no", barrier.phase))

    def lifecycle(self, agent: Agent, op: Op, life: fx.Life, barrier: MBarrier) -> None:
        """A barrier begins or ends."""
        self.touch(op, Touch("barrier", self.key(barrier), "life"))

    def rendezvous(self, agent: Agent, op: Op, rendezvous: fx.Rendezvous, phase: int) -> None:
        """An arrival at the cluster's barrier."""
        cluster = agent.cta.cluster.index
        if rendezvous.span is fx.Span.CLUSTER and rendezvous.arrives:
            self.touch(op, Touch("cluster", (cluster,), "arrive", phase))

    def problem(self, error: Error, agent: Agent | None = None, barrier: MBarrier | None = None) -> bool:
        """A signal that the barrier refuses: the run is a wrong one, but goes on, to see what else could come first."""
        if barrier is None:
            return False
        self.steps.problems.append(error)
        key, touches = self.key(barrier), self.event.touches
        for i, touch in enumerate(touches):  # in another order with any other signal it might not be refused
            if touch.kind == "barrier" and touch.key == key:
                touches[i] = touch._replace(mode="life")
        return True

    # --- agents -----------------------------------------------------------------------------------------------------

    def fork(self, parent: Agent, child: Agent) -> None:
        """A role begins after its parent's last event."""
        self.steps.forked[child] = parent

    def join(self, parent: Agent, child: Agent) -> None:
        """A parent goes on after its roles' last events."""
        self.steps.joined.setdefault(parent, []).append(child)

    def cta_exited(self, cta: Cta) -> None:
        """A CTA that exits arrives at the cluster's barrier for all its threads."""
        cluster = cta.cluster
        self.touch(self.steps.exit_op, Touch("cluster", (cluster.index,), "arrive", cluster.barrier.phase))
        if not cluster.live and self.steps.machine.asks:  # the next cluster that waits starts in its place
            self.touch(self.steps.exit_op, Touch("grid", (), "take"))
            self.steps.free += 1


def _bits(marks: np.ndarray) -> int:
    return int.from_bytes(np.packbits(marks.reshape(-1)).tobytes(), "little")
