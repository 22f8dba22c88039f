"""The counting rule over elements and ranks: constant and run-time indices, peers, masks, multicasts."""

from __future__ import annotations

import itertools

import pytest

from passes.counting import counts, failure, multicast_gemm
from passes.handmade import Handmade
from phalanx.passes.counts import infer_counts

# Elements.


def test_constant_indices_are_counted_one_by_one():
    made = Handmade()
    bar = made.barrier("bar", 3)
    made.arrive(bar, 0)
    made.arrive(bar, 1, count=2)
    made.arrive(bar, 1)
    assert counts(made, bar) == ((1, 3, 1),)  # nobody arrives on the last, and nobody waits for it


def test_a_run_time_index_unifies_the_array():
    made = Handmade()
    bar, n = made.barrier("bar", 2), made.argument()
    made.arrive(bar, 0)
    with made.loop(n) as (k, _):
        made.arrive(bar, made.binary("mod", k, 2), count=2)
    assert "have 1 and 2 arrivals" in failure(made).message


def test_another_arriver_that_reaches_only_some_elements_of_a_unified_array_is_undecidable():
    made = Handmade(warps=8)
    bar, n = made.barrier("bar", 4), made.argument()
    with made.role("a", 0, 1):
        with made.loop(n) as (k, _):
            made.arrive(bar, made.binary("mod", k, 4))
    with made.role("b", 1, 1):
        made.arrive(bar, 0)
    assert str(failure(made)) == (
        "can't work out how many arrivals complete a phase of barrier bar: the arrivals of b (warp 1) reach "
        "index 0 only, "
        "those of others an index known only at run time\n"
        "  --> made.py:1:1\n"
        "  |\n"
        "1 | bar = px.barrier(4)\n"
        "  | ^^^^^^^^^^^^^^^^^^^\n"
        "  site       arriver     index     arrivals\n"
        "  made.py:4  a (warp 0)  run-time  1\n"
        "  made.py:6  b (warp 1)  0         1\n"
        "  = help: write the number of arrivals of one phase: px.barrier(..., count=...)"
    )


# Ranks.


def test_reduce_to_rank_0_counts_every_cta_there_and_nobody_elsewhere():
    made = Handmade(cluster=(4, 1, 1))
    done = made.barrier("done")
    made.arrive(done, ctas=1)
    with made.branch(made.compare("eq", made.rank(), 0)):
        made.wait(done)
    assert counts(made, done) == ((4,), (1,), (1,), (1,))


def test_counts_differ_by_rank_and_by_element():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar", 2)
    made.arrive(bar, made.rank(), ctas=0b11)
    with made.branch(made.compare("eq", made.rank(), 1)):
        made.arrive(bar, 0)
    assert counts(made, bar) == ((1, 1), (2, 1))


def test_a_peer_that_leaves_early_does_not_arrive():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.scope() as kernel:
        with made.branch(made.compare("eq", made.rank(), 1)):
            made.leave(kernel)
        made.arrive(bar, ctas=0b11)
    assert counts(made, bar) == ((1,), (1,))


def test_arrivals_on_every_peer_one_by_one():
    made = Handmade(cluster=(4, 1, 1))
    bar = made.barrier("bar")
    with made.loop(4) as (peer, _):
        made.arrive(bar, ctas=made.binary("shl", 1, peer))
    made.wait(bar)
    assert counts(made, bar) == ((4,),) * 4


def test_a_mask_known_only_at_run_time_asks_for_a_count():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    made.arrive(bar, ctas=made.argument())
    assert str(failure(made)) == (
        "can't work out how many arrivals complete a phase of barrier bar: the mask at made.py:2 is known "
        "only at run time\n"
        "  --> made.py:1:1\n"
        "  |\n"
        "1 | bar = px.barrier(1)\n"
        "  | ^^^^^^^^^^^^^^^^^^^\n"
        "  site       arriver    of CTA  on CTA    arrivals\n"
        "  made.py:2  all warps  0-1     run-time  1\n"
        "  = help: write the number of arrivals of one phase: px.barrier(..., count=...)"
    )


def test_an_arrival_count_known_only_at_run_time_asks_for_a_count():
    made = Handmade()
    bar = made.barrier("bar")
    made.arrive(bar, count=made.argument())
    error = failure(made)
    assert "how often made.py:2 arrives is known only at run time" in error.message
    assert error.details == "site       arriver    arrivals\nmade.py:2  all warps  ?"


SHAPES = [(m, n) for m in range(1, 17) for n in range(1, 17) if m * n <= 16]


def brute_force(shape: tuple[int, int], consumers: int, rank: int) -> int:
    """Run one k-step: every consumer of every CTA releases its slot to the CTAs that write it, one arrival
    each.
    """
    received = 0
    here = (rank % shape[0], rank // shape[0])
    for there in itertools.product(range(shape[0]), range(shape[1])):
        for _ in range(consumers):
            writers = {(i, there[1]) for i in range(shape[0])} | {(there[0], j) for j in range(shape[1])}
            received += here in writers
    return received


@pytest.mark.share(9)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_2d_multicast_counts_every_receiver_once(shape):
    for consumers in (1, 2, 3):
        made = multicast_gemm(shape, consumers)
        full, empty = made.barriers
        found = infer_counts(made.function())
        expected = (shape[0] + shape[1] - 1) * consumers
        assert found[empty] == ((expected,) * 4,) * (shape[0] * shape[1])
        assert all(brute_force(shape, consumers, rank) == expected for rank in range(shape[0] * shape[1]))
        assert found[full] == ((1,) * 4,) * (shape[0] * shape[1])
