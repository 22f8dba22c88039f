"""The mbarrier against a simple model of what the hardware keeps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import Error
from phalanx.ir.ops.mbarrier import MAX_COUNT, FenceBarrierInit
from phalanx.ir.views import BarrierArray
from phalanx.sim.barriers import MBarrier

OP = FenceBarrierInit()


def make(count: int | None = 1) -> MBarrier:
    cluster = SimpleNamespace(machine=SimpleNamespace(monitor=None))
    barrier = MBarrier(BarrierArray("full", 2), 1, SimpleNamespace(rank=0, cluster=cluster))  # type: ignore[arg-type]
    if count is not None:
        barrier.init(count, OP)
    return barrier


def test_a_phase_completes_with_its_last_arrival():
    barrier = make(2)
    barrier.arrive(1, OP)
    assert (barrier.phase, barrier.pending) == (0, 1)
    barrier.arrive(1, OP)
    assert (barrier.phase, barrier.pending, barrier.expected) == (1, 2, 2)


def test_bytes_hold_a_phase_open():
    barrier = make(1)
    barrier.expect(64, OP)
    barrier.arrive(1, OP)
    assert (barrier.phase, barrier.pending, barrier.tx) == (0, 0, 64)
    barrier.complete(32, OP)
    assert barrier.phase == 0
    barrier.complete(32, OP)
    assert (barrier.phase, barrier.pending, barrier.tx) == (1, 1, 0)


def test_bytes_may_land_before_they_are_expected():
    barrier = make(1)
    barrier.complete(64, OP)
    assert (barrier.phase, barrier.tx) == (0, -64)
    barrier.expect(64, OP)
    assert barrier.phase == 0
    barrier.arrive(1, OP)
    assert barrier.phase == 1


def test_waiters_are_woken_by_the_flip_alone():
    barrier = make(1)
    queue: list[object] = []
    agent = SimpleNamespace(queue=queue)
    barrier.waiters.append((agent, OP))  # type: ignore[arg-type]
    barrier.expect(16, OP)
    barrier.arrive(1, OP)
    assert queue == []
    barrier.complete(16, OP)
    assert queue == [agent] and barrier.waiters == []


@pytest.mark.parametrize("use", ["arrive", "expect", "complete"])
def test_use_before_init_and_after_invalidate(use):
    barrier = make(None)
    with pytest.raises(Error, match=r"full\[1\] of CTA 0 is used before it was initialised") as error:
        getattr(barrier, use)(1, OP)
    assert error.value.kind == "barrier-uninitialised"
    barrier.init(1, OP)
    barrier.invalidate(OP)
    with pytest.raises(Error) as error:
        getattr(barrier, use)(1, OP)
    assert error.value.kind == "barrier-invalidated"
    barrier.init(3, OP)
    assert (barrier.pending, barrier.phase) == (3, 0)


def test_init_of_a_live_barrier():
    with pytest.raises(Error) as error:
        make(1).init(1, OP)
    assert error.value.kind == "barrier-reinitialised"


@pytest.mark.parametrize("count", [0, -1, MAX_COUNT + 1])
def test_count_out_of_range(count):
    with pytest.raises(Error, match=f"count {count}"):
        make(count)


def test_over_arrival():
    barrier = make(2)
    with pytest.raises(Error) as error:
        barrier.arrive(3, OP)
    assert error.value.kind == "over-arrival"
    assert error.value.message == "3 arrivals on full[1] of CTA 0, but its phase 0 has 2 of 2 pending"
    barrier.expect(8, OP)
    barrier.arrive(2, OP)
    with pytest.raises(Error, match="has 0 of 2 pending and waits for 8 bytes"):
        barrier.arrive(1, OP)


def test_bytes_out_of_range():
    barrier = make(1)
    barrier.expect(MAX_COUNT, OP)
    with pytest.raises(Error) as error:
        barrier.expect(1, OP)
    assert error.value.kind == "tx-mismatch"
    barrier = make(1)
    barrier.complete(MAX_COUNT, OP)
    with pytest.raises(Error, match="-1048576 bytes outstanding"):
        barrier.complete(1, OP)


class Model:
    """The history of the current phase as plain lists."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.completed = 0
        self.arrived = 0
        self.balance = 0

    def settle(self) -> None:
        if self.arrived == self.count and self.balance == 0:
            self.completed += 1
            self.arrived = 0

    def passes(self, parity: int) -> bool:
        """The last completed phase has that parity; before the first one, the odd phase counts as complete."""
        return (self.completed - 1) % 2 == parity


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(["arrive", "expect", "complete"]), st.integers(1, 4)), max_size=60),
)
def test_mbarrier_follows_the_model(count, steps):
    barrier, model = make(count), Model(count)
    for action, amount in steps:
        if action == "arrive" and amount > count - model.arrived:
            with pytest.raises(Error):
                barrier.arrive(amount, OP)
            continue
        getattr(barrier, action)(amount, OP)
        if action == "arrive":
            model.arrived += amount
        else:
            model.balance += amount if action == "expect" else -amount
        model.settle()
        assert barrier.phase == model.completed
        assert barrier.pending == count - model.arrived
        assert barrier.tx == model.balance
        for parity in (0, 1):
            assert bool((barrier.phase ^ parity) & 1) == model.passes(parity)
