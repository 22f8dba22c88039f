"""Written counts, what nobody arrives for, the table of arrivals, and random programs against running them."""

from __future__ import annotations

import random

import pytest

from passes.counting import counts, failure, multicast_gemm
from passes.handmade import Handmade
from phalanx.ir.ops.mbarrier import MAX_COUNT
from phalanx.passes.count_table import render, spans
from phalanx.passes.counts import count_table, infer_counts

# Written counts, ranges, waits without arrivals.


def test_a_written_count_is_used_where_the_rule_can_not_decide():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar", 2, count=7)
    made.arrive(bar, ctas=made.argument())
    assert counts(made, bar) == ((7, 7), (7, 7))


def test_a_written_count_that_agrees_is_kept():
    made = Handmade(cluster=(2, 1, 1))
    done = made.barrier("done", count=2)
    made.arrive(done, ctas=1)
    assert counts(made, done) == ((2,), (2,))  # nobody arrives on the second CTA's: nothing contradicts


def test_a_written_count_that_one_rank_contradicts():
    made = Handmade(cluster=(2, 1, 1))
    done = made.barrier("done", 2, count=1)
    made.arrive(done, 1, ctas=1)
    made.arrive(done, 0)
    assert str(failure(made)) == (
        "count-mismatch: barrier done is written with count=1, but the arrivals of one phase are 2 in CTA 0 "
        "at index 1\n"
        "  --> made.py:1:1\n"
        "  |\n"
        "1 | done = px.barrier(2)\n"
        "  | ^^^^^^^^^^^^^^^^^^^^\n"
        "  site       arriver    of CTA  on CTA   index  arrivals\n"
        "  made.py:2  all warps  0-1     0        1      1\n"
        "  made.py:3  all warps  0-1     its own  0      1\n"
        "  = help: leave count= out to have the arrivals counted, or correct it; where arrivers take turns "
        "(one phase does not need all of them), write checked=False beside it"
    )
    assert failure(made).kind == "count-mismatch"


def test_a_barrier_that_the_user_initialises_is_left_alone():
    made = Handmade()
    bar = made.barrier("bar", init=False)
    made.arrive(bar)
    made.arrive(bar, count=made.argument())
    assert infer_counts(made.function()) == {}


def test_a_wait_for_which_nothing_arrives():
    made = Handmade()
    bar = made.barrier("bar")
    made.load(bar)
    made.wait(bar)
    assert str(failure(made)) == (
        "deadlock: nothing arrives on barrier bar, which is waited for at made.py:3\n"
        "  --> made.py:1:1\n"
        "  |\n"
        "1 | bar = px.barrier(1)\n"
        "  | ^^^^^^^^^^^^^^^^^^^\n"
        "  = help: copies complete bytes, they never arrive: arm the barrier with `with bar.transaction():` "
        "around them or "
        "with arrive_and_expect_tx(nbytes), or let somebody arrive()"
    )


def test_a_wait_in_a_rank_that_nobody_reaches():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar", 2)
    made.arrive(bar, 0, ctas=1)
    made.wait(bar, 0)
    error = failure(made)
    assert error.message == "nothing arrives on barrier bar[0] of CTA 1, which is waited for at made.py:3"


def test_a_written_count_with_no_arrival_is_left_to_the_run():
    made = Handmade()
    bar = made.barrier("bar", count=1)
    made.wait(bar)
    assert counts(made, bar) == ((1,),)


def test_an_unused_barrier_has_a_legal_count():
    made = Handmade()
    bar = made.barrier("bar", 2)
    assert counts(made, bar) == ((1, 1),)


@pytest.mark.parametrize("count", [0, MAX_COUNT + 1])
def test_written_counts_out_of_range(count):
    made = Handmade()
    made.barrier("bar", count=count)
    assert failure(made).message == f"barrier bar has count {count}; an mbarrier counts 1 to 1048575 arrivals"


def test_counted_arrivals_out_of_range():
    made = Handmade()
    bar = made.barrier("bar")
    with made.loop(1024):
        made.arrive(bar, count=1024)
    error = failure(made)
    assert error.message == "barrier bar has count 1048576; an mbarrier counts 1 to 1048575 arrivals"
    assert error.details == "site       arriver    arrivals\nmade.py:3  all warps  1048576"


# The table.


def test_the_table_has_one_row_per_site_arriver_and_cta():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    made.arrive(bar, ctas=0b11)
    function = made.function()
    rows = count_table(function, bar)
    assert [(row.site.line, row.source, row.rank, row.element, row.arrivals) for row in rows] == [
        (2, 0, 0, 0, 1),
        (2, 0, 1, 0, 1),
        (2, 1, 0, 0, 1),
        (2, 1, 1, 0, 1),
    ]


def test_the_table_shares_lines_where_ranks_do_the_same():
    made = multicast_gemm((2, 2), 1)
    _, empty = made.barriers
    function = made.function()
    assert render(empty, count_table(function, empty), 4) == (
        "site        arriver               of CTA  on CTA  index     arrivals\n"
        "made.py:12  consumer (warps 4-7)  0-2     0       run-time  1\n"
        "made.py:12  consumer (warps 4-7)  0-1, 3  1       run-time  1\n"
        "made.py:12  consumer (warps 4-7)  0, 2-3  2       run-time  1\n"
        "made.py:12  consumer (warps 4-7)  1-3     3       run-time  1"
    )


def test_spans():
    assert spans([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert spans([]) == ""


# Random programs of rank conditions, masks and constant loops, against running them.


def random_program(rng: random.Random, depth: int) -> list[tuple]:
    """Statements: an arrival on some CTAs, a condition on the rank, a loop whose index may choose the CTA."""
    statements: list[tuple] = []
    for _ in range(rng.randint(1, 3)):
        nested = ("if", "loop", "each") if depth else ()
        kind = rng.choice(("own", "mask", "peer", *nested))
        inner = random_program(rng, depth - 1) if kind in ("if", "loop") else []
        statements.append((kind, rng.randint(1, 3), rng.randrange(16), inner))
    return statements


def build(made: Handmade, bar, program: list[tuple], size: int) -> None:
    rank = made.rank()
    for kind, number, mask, inner in program:
        if kind == "own":
            made.arrive(bar, count=number)
        elif kind == "mask":
            made.arrive(bar, ctas=mask % (1 << size), count=number)
        elif kind == "peer":
            made.arrive(bar, ctas=made.binary("shl", 1, made.binary("mod", made.binary("add", rank, number), size)))
        elif kind == "if":
            with made.branch(made.compare("lt", rank, number)):
                build(made, bar, inner, size)
        elif kind == "loop":
            with made.loop(number):
                build(made, bar, inner, size)
        else:
            with made.loop(size) as (peer, _):
                with made.branch(made.compare("ge", peer, rank)):
                    made.arrive(bar, ctas=made.binary("shl", 1, peer), count=number)


def run(program: list[tuple], rank: int, received: list[int]) -> None:
    size = len(received)
    for kind, number, mask, inner in program:
        if kind == "own":
            received[rank] += number
        elif kind == "mask":
            for cta in range(size):
                received[cta] += number * (mask >> cta & 1)
        elif kind == "peer":
            received[(rank + number) % size] += 1
        elif kind == "if":
            if rank < number:
                run(inner, rank, received)
        elif kind == "loop":
            for _ in range(number):
                run(inner, rank, received)
        else:
            for peer in range(rank, size):
                received[peer] += number


@pytest.mark.parametrize("seed", range(40))
def test_one_round_of_a_random_program_is_what_a_run_of_it_does(seed):
    rng = random.Random(seed)
    size = rng.choice((1, 2, 3, 4))
    program = random_program(rng, depth=3)
    made = Handmade(cluster=(size, 1, 1))
    bar = made.barrier("bar")
    build(made, bar, program, size)
    received = [0] * size
    for rank in range(size):
        run(program, rank, received)
    assert counts(made, bar) == tuple((total or 1,) for total in received)
