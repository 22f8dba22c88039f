"""mbarrier instructions: parity, counts, remote arrivals, life."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.errors import Error
from phalanx.ir import types as ty
from phalanx.ir.ops import mbarrier
from phalanx.sim.run import simulate
from sim.build import Build, at, const, ref


def run_tests(prepare) -> list[list[bool]]:
    """test_wait(0) and test_wait(1) after each step of `prepare`."""
    b = Build()
    out = b.array(2, ty.bool_)
    bar = b.barrier(1, 2)
    rows = 0

    def look() -> None:
        nonlocal rows
        for parity in (0, 1):
            b.store(at(out, rows, parity), b.test_wait(ref(bar), parity))
        rows += 1

    look()
    for _ in prepare(b, bar):
        look()
    got = np.zeros((rows, 2), bool)
    simulate(b.done(), 1, [got])
    return got.tolist()


def test_on_a_fresh_barrier_parity_1_passes_and_0_does_not():
    def steps(b, bar):
        b.arrive(ref(bar))
        yield
        b.arrive(ref(bar))
        yield
        b.arrive(ref(bar), 2)
        yield

    assert run_tests(steps) == [[False, True], [False, True], [True, False], [False, True]]


def test_expected_bytes_and_arrivals():
    def steps(b, bar):
        b.expect(ref(bar), 0)
        b.arrive_expect(ref(bar), 0)
        yield
        b.arrive_expect(ref(bar), 0)
        yield

    assert run_tests(steps) == [[False, True], [False, True], [True, False]]


def test_counts_per_rank_and_remote_arrivals():
    """Rank 0's barrier takes one arrival of every CTA, the others' none but their own."""
    b = Build(cluster=(3, 1, 1))
    out = b.array(1, ty.i32)
    bar = b.barrier(1, (5, 1, 1))
    b.cluster_sync()
    b.arrive(ref(bar), 1, ctas=1)
    b.arrive(ref(bar), 1, ctas=b.binary("shl", 1, b.rank()))
    with b.if_(b.compare("eq", b.rank(), 0)):
        b.wait(ref(bar), 0)
        b.store(at(out, 0), 1)
    got = np.zeros(1, np.int32)
    # 3 to rank 0, and one more from rank 0 to itself: one short of 5
    with pytest.raises(Error, match="1 agent waits") as error:
        simulate(b.done(), 3, [got])
    assert error.value.kind == "deadlock" and "short of 1 arrival" in error.value.details


def test_arrive_expect_in_other_ctas():
    b = Build(cluster=(2, 1, 1))
    out = b.array(1, ty.i32)
    bar = b.barrier(1, 2)
    b.cluster_sync()
    b.arrive_expect(ref(bar), 0, ctas=3)
    b.wait(ref(bar), 0)
    b.store(at(out, b.rank()), 1)
    got = np.zeros(2, np.int32)
    simulate(b.done(), 2, [got])
    assert got.tolist() == [1, 1]


def test_an_empty_mask_arrives_nowhere():
    b = Build()
    bar = b.barrier()
    b.arrive(ref(bar), 1, ctas=0)
    b.wait(ref(bar), 1)
    simulate(b.done(), 1, [])


def test_mask_outside_the_cluster():
    b = Build(cluster=(2, 1, 1))
    bar = b.barrier()
    b.cluster_sync()
    b.arrive(ref(bar), 1, ctas=4)
    with pytest.raises(Error) as error:
        simulate(b.done(), 2, [])
    assert error.value.kind == "out-of-bounds" and error.value.location.line == b.line
    assert error.value.message == "the mask 0x4 names CTAs outside the cluster of 2"


def test_written_init_and_invalidate():
    b = Build()
    out = b.array(1, ty.i32)
    bar = b.barrier(2, None)
    i = b.scalar(ty.i32)
    for count in (1, 3):
        b.add(mbarrier.BarrierInit(bar, index=i, count=const(count), loc=b.here()))
        b.add(mbarrier.FenceBarrierInit(loc=b.here()))
        b.arrive(ref(bar, i), count)
        b.wait(ref(bar, i), 0)
        b.add(mbarrier.BarrierInvalidate(ref(bar, i), loc=b.here()))
    b.store(at(out, 0), 1)
    got = np.zeros(1, np.int32)
    simulate(b.done(), 1, [got, 1])
    assert got[0] == 1


def test_init_outside_the_array():
    b = Build()
    bar = b.barrier(2, None)
    b.add(mbarrier.BarrierInit(bar, index=b.scalar(ty.i32), count=const(1), loc=b.here()))
    with pytest.raises(Error, match="index -1 is outside bar, which has 2 barriers"):
        simulate(b.done(), 1, [-1])


@pytest.mark.parametrize("use", ["wait", "test_wait", "arrive", "expect"])
def test_uninitialised_use_is_at_its_line(use):
    b = Build()
    bar = b.barrier(1, None)
    getattr(b, use)(ref(bar), *([] if use == "arrive" else [0]))
    with pytest.raises(Error) as error:
        simulate(b.done(), 1, [])
    assert error.value.kind == "barrier-uninitialised" and error.value.location.line == b.line


def test_index_outside_the_array():
    b = Build()
    bar = b.barrier(4, 1, "empty")
    b.wait(ref(bar, b.scalar(ty.i32)), 1)
    simulate(b.done(), 1, [3])
    for index in (-1, 4):
        with pytest.raises(Error, match=f"index {index} is outside empty, which has 4 barriers") as error:
            simulate(b.done(), 1, [index])
        assert error.value.kind == "out-of-bounds"


def test_over_arrival_is_at_its_line():
    b = Build()
    bar = b.barrier(1, 1)
    b.arrive(ref(bar), 2)
    with pytest.raises(Error) as error:
        simulate(b.done(), 1, [])
    assert error.value.kind == "over-arrival" and error.value.location.line == b.line
