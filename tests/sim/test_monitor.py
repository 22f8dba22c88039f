"""What a monitor is told, and that telling it changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.ir.effects import Life, Mode, Neighbour, Proxy, Span
from phalanx.ir.ops import cluster, control, mbarrier, memory
from phalanx.sim.monitor import Monitor
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from sim.build import Build, at, const, ref, ring_copy, sh


class Recorder(Monitor):
    """Writes every call down as a short tuple."""

    def __init__(self) -> None:
        self.events: list[tuple] = []

    def cta_started(self, cta):
        self.events.append(("start", cta.rank))

    def cta_exited(self, cta):
        self.events.append(("exit", cta.rank))

    def fork(self, parent, child):
        self.events.append(("fork", child.name))

    def join(self, parent, child):
        self.events.append(("join", child.name))

    def access(self, agent, op, access, place, ranks):
        self.events.append(("access", access.mode, access.proxy, ranks))

    def issue(self, agent, op, copy, accesses):
        self.events.append(("issue", agent.name, tuple((a.mode, a.proxy, ranks) for a, _, ranks in accesses)))

    def source_read(self, copy):
        self.events.append(("source_read", copy.op.mnemonic))

    def complete(self, copy, barrier):
        self.events.append(("complete", copy.op.mnemonic, barrier and (barrier.name, barrier.cta.rank, barrier.phase)))

    def arrive(self, agent, op, barrier, count):
        self.events.append(("arrive", barrier.name, barrier.cta.rank, barrier.phase, count))

    def expect(self, agent, op, barrier, nbytes):
        self.events.append(("expect", barrier.name, barrier.cta.rank, nbytes))

    def wait_passed(self, agent, op, barrier, phase):
        self.events.append(("wait_passed", barrier.name, phase))

    def lifecycle(self, agent, op, life, barrier):
        self.events.append((life, barrier.name))

    def fence(self, agent, op, kind):
        self.events.append(("fence", kind.value))

    def commit(self, agent, op, engine):
        self.events.append(("commit",))

    def groups_passed(self, agent, op, engine, newest, read):
        self.events.append(("groups_passed", newest, read))

    def rendezvous(self, agent, op, rendezvous, phase):
        self.events.append(("rendezvous", rendezvous.span, rendezvous.arrives, rendezvous.waits, phase))

    def launch(self, agent, op, neighbour):
        self.events.append(("launch", agent.name, neighbour))

    def cluster_passed(self, agent, op, phase):
        self.events.append(("cluster_passed", agent.cta.rank, phase))


def record(function, grid, args, schedule=None) -> list[tuple]:
    recorder = Recorder()
    simulate(function, grid, args, monitor=recorder, schedule=schedule)
    return recorder.events


def test_a_ring_copy_of_one_tile():
    x = np.ones((16, 16), np.float32)
    load = ("issue", "producer", ((Mode.READ, Proxy.ASYNC, None), (Mode.WRITE, Proxy.ASYNC, None)))
    store = ("issue", "consumer", ((Mode.READ, Proxy.ASYNC, None), (Mode.WRITE, Proxy.ASYNC, None)))
    assert record(ring_copy(1, 16), 1, [x, x.copy()]) == [
        ("start", 0), (Life.INIT, "full"), (Life.INIT, "empty"), ("fork", "producer"), ("fork", "consumer"),
        ("wait_passed", "empty", -1), ("expect", "full", 0, 1024), ("arrive", "full", 0, 0, 1), load,
        ("join", "producer"),
        ("complete", "tma.load", ("full", 0, 0)), ("wait_passed", "full", 0),
        store, ("commit",), ("source_read", "tma.store"), ("groups_passed", 0, True), ("arrive", "empty", 0, 0, 1),
        ("complete", "tma.store", None), ("groups_passed", 0, False), ("join", "consumer"), ("exit", 0),
    ]


def test_effects_across_the_cluster():
    b = Build(cluster=(2, 1, 1))
    x = b.array(1)
    s, bar = b.shared((4,)), b.barrier(2, 2)
    b.add(memory.FenceAsyncProxy("cta", loc=b.here()))
    b.add(cluster.ClusterArrive(loc=b.here()))
    b.add(cluster.ClusterWait(loc=b.here()))
    b.arrive_expect(ref(bar, b.rank()), 16, ctas=3)
    b.store(sh(s, cta=b.binary("xor", b.rank(), 1)), const(1.0))
    with b.if_(b.compare("eq", b.rank(), 0)):
        b.tma_load(at(x, (0, 4)), sh(s), ref(bar, 0), multicast=3)
        b.add(mbarrier.BarrierInvalidate(ref(bar, b.binary("add", b.rank(), 1)), loc=b.here()))
    events = record(b.done(), 2, [np.ones(4, np.float32)])
    assert ("fence", "proxy.async.shared::cta") in events
    assert ("rendezvous", Span.CLUSTER, True, False, 0) in events
    assert ("rendezvous", Span.CLUSTER, False, True, 0) in events
    assert ("cluster_passed", 0, 0) in events and ("cluster_passed", 1, 0) in events
    for rank in range(2):
        assert ("expect", "bar[0]", rank, 16) in events and ("arrive", "bar[1]", rank, 0, 1) in events
        assert ("complete", "tma.load", ("bar[0]", rank, 0)) in events
    assert ("access", Mode.WRITE, Proxy.GENERIC, None) in events
    assert ("issue", "kernel", ((Mode.READ, Proxy.ASYNC, None), (Mode.WRITE, Proxy.ASYNC, [0, 1]))) in events
    assert (Life.INVALIDATE, "bar[1]") in events


def test_the_launches_before_and_after():
    b = Build()
    b.add(control.WaitPrior(loc=b.here()))
    b.add(control.LaunchDependents(loc=b.here()))
    assert record(b.done(), 1, []) == [
        ("start", 0), ("launch", "kernel", Neighbour.PRIOR), ("launch", "kernel", Neighbour.NEXT), ("exit", 0),
    ]


@pytest.mark.parametrize("kind", ["late", "early", "random"])
def test_a_monitor_that_does_nothing_changes_nothing(kind):
    x = np.arange(48 * 48, dtype=np.float32).reshape(48, 48)
    y = np.zeros_like(x)
    simulate(ring_copy(2, 16), 3, [x, y], monitor=Monitor(), schedule=Schedule(kind, 3))
    assert np.array_equal(x, y)
