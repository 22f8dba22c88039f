"""The counting rule: rounds, arrivers, ranks; and what is said where it can't decide or contradicts a written
count.
"""

from __future__ import annotations

import itertools
import random

import pytest

from passes.handmade import Handmade
from phalanx.errors import Error
from phalanx.ir.ops.mbarrier import MAX_COUNT
from phalanx.passes.count_table import render, spans
from phalanx.passes.counts import count_table, infer_counts


def counts(made: Handmade, barrier) -> tuple[tuple[int, ...], ...]:
    return infer_counts(made.function())[barrier]


def failure(made: Handmade) -> Error:
    with pytest.raises(Error) as caught:
        infer_counts(made.function())
    return caught.value


# Rounds.


def test_one_arrival_of_all_warps():
    made = Handmade()
    bar = made.barrier("bar")
    made.arrive(bar)
    made.wait(bar)
    assert counts(made, bar) == ((1,),)


def test_arrivals_with_a_count_and_several_sites_add_up():
    made = Handmade()
    bar = made.barrier("bar")
    made.arrive(bar, count=3)
    made.arrive(bar)
    made.wait(bar)
    assert counts(made, bar) == ((4,),)


def test_a_blocking_wait_ends_the_round():
    made = Handmade()
    bar, other = made.barrier("bar"), made.barrier("other")
    made.arrive(bar)
    made.arrive(other)
    made.wait(other)
    made.arrive(bar)
    assert counts(made, bar) == ((1,),)


def test_a_spin_on_test_wait_ends_the_round_as_a_wait_does():
    made = Handmade()
    bar, other = made.barrier("bar"), made.barrier("other")
    made.arrive(bar)
    made.arrive(other)
    made.spin(other)
    made.arrive(bar)
    assert counts(made, bar) == ((1,),)


def test_a_constant_loop_with_a_spin_does_not_multiply():
    made = Handmade()
    bar, other = made.barrier("bar"), made.barrier("other")
    with made.loop(3):
        made.spin(other)
        made.arrive(bar)
    made.arrive(other)
    assert counts(made, bar) == ((1,),)


def test_a_test_that_is_not_repeated_does_not_end_the_round():
    made = Handmade()
    bar, other = made.barrier("bar"), made.barrier("other")
    made.arrive(bar)
    made.arrive(other)
    made.test_wait(other)
    made.arrive(bar)
    assert counts(made, bar) == ((2,),)


def test_a_prologue_arrival_a_loop_and_an_epilogue_are_rounds_of_their_own():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    made.arrive(bar)
    with made.loop(n):
        made.arrive(bar)
    made.arrive(bar)
    assert counts(made, bar) == ((1,),)


def test_a_loop_with_waits_stands_between_prologue_and_epilogue():
    made = Handmade()
    bar, other, n = made.barrier("bar"), made.barrier("other"), made.argument()
    made.arrive(bar)
    with made.loop(n):
        made.arrive(other)
        made.wait(other)
    made.arrive(bar)
    assert counts(made, bar) == ((1,),)


def test_a_loop_that_has_nothing_to_do_with_barriers_does_not_end_a_round():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    made.arrive(bar)
    with made.loop(n):
        made.binary("add", n, 1)
    made.arrive(bar)
    assert counts(made, bar) == ((2,),)


def test_two_sites_of_one_loop_body_add_up_only_at_the_same_index():
    made = Handmade()
    same, different, n = made.barrier("same", 4), made.barrier("different", 4), made.argument()
    stage, previous = made.cell(0), made.cell(0)
    with made.loop(n):
        made.arrive(same, made.read(stage))
        made.arrive(same, made.read(stage))
        made.arrive(different, made.read(stage))
        made.arrive(different, made.read(previous))
        made.assign(previous, made.read(stage))
        made.advance(stage, 4)
    assert counts(made, same) == ((2,) * 4,)
    assert counts(made, different) == ((1,) * 4,)


def test_a_changed_index_between_two_sites_makes_two_rounds():
    made = Handmade()
    bar, n = made.barrier("bar", 4), made.argument()
    stage = made.cell(0)
    with made.loop(n):
        made.arrive(bar, made.read(stage))
        made.advance(stage, 4)
        made.arrive(bar, made.read(stage))
        made.advance(stage, 4)
    assert counts(made, bar) == ((1,) * 4,)


def test_rounds_of_an_arriver_that_disagree_ask_for_a_count():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    made.arrive(bar, count=2)
    with made.loop(n):
        made.arrive(bar)
        made.wait(bar)
    assert str(failure(made)) == (
        "can't work out how many arrivals complete a phase of barrier bar: "
        "the rounds of all warps have 1 and 2 arrivals\n"
        "  --> made.py:1:1\n"
        "  |\n"
        "1 | bar = px.barrier(1)\n"
        "  | ^^^^^^^^^^^^^^^^^^^\n"
        "  site       arriver    arrivals\n"
        "  made.py:2  all warps  2\n"
        "  made.py:4  all warps  1\n"
        "  = help: write the number of arrivals of one phase: px.barrier(..., count=...)"
    )


# Loops that multiply.


def test_a_constant_loop_without_a_wait_multiplies_an_unchanged_barrier():
    made = Handmade()
    bar = made.barrier("bar")
    made.arrive(bar)
    with made.loop(4):
        made.arrive(bar, count=2)
    made.wait(bar)
    assert counts(made, bar) == ((9,),)


def test_nested_constant_loops_multiply():
    made = Handmade()
    bar = made.barrier("bar")
    with made.loop(3):
        with made.loop(5):
            made.arrive(bar)
    assert counts(made, bar) == ((15,),)


def test_a_constant_loop_inside_a_run_time_loop_multiplies_within_its_round():
    made = Handmade()
    bar, stage, n = made.barrier("bar", 2), made.cell(0), made.argument()
    with made.loop(n):
        with made.loop(3):
            made.arrive(bar, made.read(stage))
        made.advance(stage, 2)
    assert counts(made, bar) == ((3, 3),)


def test_a_constant_loop_with_a_wait_does_not_multiply():
    made = Handmade()
    bar = made.barrier("bar")
    with made.loop(4):
        made.arrive(bar)
        made.wait(bar)
    assert counts(made, bar) == ((1,),)


def test_a_constant_loop_over_the_stages_is_a_round_per_stage():
    made = Handmade()
    bar = made.barrier("bar", 4)
    with made.loop(4) as (stage, _):
        made.arrive(bar, stage)
    assert counts(made, bar) == ((1,) * 4,)


def test_a_loop_that_never_runs_in_a_rank_does_not_arrive():
    made = Handmade(cluster=(3, 1, 1))
    bar = made.barrier("bar")
    with made.loop(made.rank()):
        made.arrive(bar, ctas=1)
    made.arrive(bar)
    assert counts(made, bar) == ((1 + 0 + 1 + 2,), (1,), (1,))


def test_a_constant_loop_that_may_break_is_a_run_time_loop():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    with made.loop(4) as (_, label):
        made.arrive(bar)
        with made.branch(made.compare("lt", n, 3)):
            made.leave_loop(label)
    assert counts(made, bar) == ((1,),)


# Branches.


def test_a_run_time_branch_without_else_may_not_happen():
    made = Handmade()
    bar, stage, n = made.barrier("bar", 3), made.cell(0), made.argument()
    previous = made.cell(0)
    with made.loop(n) as (k, _):
        with made.branch(made.compare("gt", k, 0)):
            made.arrive(bar, made.read(previous))
        made.assign(previous, made.read(stage))
        made.advance(stage, 3)
    with made.branch(made.compare("gt", n, 0)):  # the conditional drain
        made.arrive(bar, made.read(previous))
    assert counts(made, bar) == ((1, 1, 1),)


def test_arms_that_both_arrive_must_be_equal():
    made = Handmade()
    equal, unequal, n = made.barrier("equal"), made.barrier("unequal"), made.argument()
    with made.branch(made.compare("lt", n, 3)):
        made.arrive(equal, count=2)
    with made.orelse():
        made.arrive(equal)
        made.arrive(equal)
    assert counts(made, equal) == ((2,),)
    with made.branch(made.compare("lt", n, 4)):
        made.arrive(unequal)
    with made.orelse():
        made.arrive(unequal, count=3)
    error = failure(made)
    assert error.location is unequal.loc
    assert "the rounds of all warps have 1 and 3 arrivals" in error.message
    assert "made.py:8  all warps  1, if its branch is taken" in (error.details or "")


def test_a_conditional_arrival_beside_a_certain_one_is_undecidable():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    made.arrive(bar)
    with made.branch(made.compare("lt", n, 3)):
        made.arrive(bar)
    assert "have 1 and 2 arrivals" in failure(made).message


def test_a_conditional_wait_between_two_sites_is_undecidable():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    made.arrive(bar)
    with made.branch(made.compare("lt", n, 3)):
        made.wait(bar)
    made.arrive(bar)
    assert "have 1 and 2 arrivals" in failure(made).message


def test_an_early_return_leaves_what_arrived_before_it():
    made = Handmade()
    agrees, bar, n = made.barrier("agrees"), made.barrier("bar"), made.argument()
    with made.scope() as kernel:
        with made.branch(made.compare("lt", n, 3)):
            made.leave(kernel)
        made.arrive(agrees)
        made.arrive(bar)
        with made.branch(made.compare("lt", n, 6)):
            made.leave(kernel)
        made.arrive(bar)
    error = failure(made)
    assert error.location is bar.loc  # `agrees` was counted first, and is decided
    assert "have 1 and 2 arrivals" in error.message


def test_a_return_out_of_a_loop_keeps_the_rounds_around_it_apart():
    made = Handmade()
    bar, inner, n = made.barrier("bar"), made.barrier("inner"), made.argument()
    with made.scope() as kernel:
        made.arrive(bar)
        with made.loop(n) as (k, _):
            made.arrive(inner)
            with made.branch(made.compare("eq", k, 7)):
                made.leave(kernel)
        made.wait(inner)
        made.arrive(bar)
    assert counts(made, bar) == ((1,),)
    assert counts(made, inner) == ((1,),)


def test_a_conditional_arrival_repeated_a_constant_number_of_times_is_undecidable():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    with made.loop(2):
        with made.branch(made.compare("lt", n, 3)):
            made.arrive(bar)
    assert "have 1 and 2 arrivals" in failure(made).message


# Arrivers.


def test_every_role_is_an_arriver():
    made = Handmade(warps=12)
    full, empty, n = made.barrier("full", 4), made.barrier("empty", 4), made.argument()
    with made.role("producer", 0, 1):
        stage = made.cell(0)
        with made.loop(n):
            made.wait(empty, made.read(stage))
            made.arm(full, made.read(stage), 1024)
            made.advance(stage, 4)
    for first in (4, 8):
        with made.role("consumer", first, 4):
            stage = made.cell(0)
            with made.loop(n):
                made.wait(full, made.read(stage))
                made.arrive(empty, made.read(stage))
                made.advance(stage, 4)
    assert counts(made, full) == ((1,) * 4,)
    assert counts(made, empty) == ((2,) * 4,)


def test_prologue_arrivals_of_a_role_agree_with_its_loop():
    made = Handmade(warps=8)
    empty, full, n = made.barrier("empty", 2), made.barrier("full", 2), made.argument()
    with made.role("consumer", 4, 4):
        for stage in range(2):
            made.arrive(empty, stage)
        moving = made.cell(0)
        with made.loop(n):
            made.wait(full, made.read(moving))
            made.arrive(empty, made.read(moving))
            made.advance(moving, 2)
    with made.role("producer", 0, 1):
        moving = made.cell(0)
        with made.loop(n):
            made.wait(empty, made.read(moving))
            made.arrive(full, made.read(moving))
            made.advance(moving, 2)
    assert counts(made, empty) == ((1, 1),)


def test_roles_that_wait_stand_between_two_arrivals_of_all_warps():
    made = Handmade()
    bar, inner = made.barrier("bar"), made.barrier("inner")
    made.arrive(bar)
    with made.role("a", 0, 1):
        made.arrive(inner)
    with made.role("b", 1, 1):
        made.wait(inner)
    made.arrive(bar)
    assert counts(made, bar) == ((1,),)


def test_roles_that_spin_stand_between_two_arrivals_of_all_warps():
    made = Handmade()
    bar, other = made.barrier("bar"), made.barrier("other")
    made.arrive(bar)
    with made.role("spinner", 0, 1):
        made.arrive(other)
        made.spin(other)
    made.arrive(bar)
    assert counts(made, bar) == ((1,),)


def test_a_wait_of_one_role_does_not_end_the_round_of_another():
    made = Handmade()
    bar, other = made.barrier("bar"), made.barrier("other")
    with made.role("a", 0, 1):
        made.arrive(bar)
        made.arrive(bar)
    with made.role("b", 1, 1):
        made.wait(bar)
        made.arrive(other)
    assert counts(made, bar) == ((2,),)


def test_ping_pong_needs_an_unchecked_count():
    def kernel(checked: bool) -> Handmade:
        made = Handmade(warps=8)
        turn, n = made.barrier("turn", count=1, checked=checked), made.argument()
        for first in (0, 4):
            with made.role("consumer", first, 4):
                with made.loop(n):
                    made.wait(turn)
                    made.arrive(turn)
        return made

    made = kernel(checked=False)
    assert counts(made, made.barriers[0]) == ((1,),)
    assert str(failure(kernel(checked=True))) == (
        "count-mismatch: barrier turn is written with count=1, but the arrivals of one phase are 2\n"
        "  --> made.py:1:1\n"
        "  |\n"
        "1 | turn = px.barrier(1)\n"
        "  | ^^^^^^^^^^^^^^^^^^^^\n"
        "  site       arriver               arrivals\n"
        "  made.py:5  consumer (warps 0-3)  1\n"
        "  made.py:9  consumer (warps 4-7)  1\n"
        "  = help: leave count= out to have the arrivals counted, or correct it; where arrivers take turns "
        "(one phase does not need all of them), write checked=False beside it"
    )


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


def multicast_gemm(shape: tuple[int, int], consumers: int) -> Handmade:
    """A tile's rows are shared along y, its columns along x, so a slot is free when both groups have released
    it.
    """
    m, n = shape
    made = Handmade(cluster=(m, n, 1), warps=4 * (consumers + 1))
    full, empty, steps = made.barrier("full", 4), made.barrier("empty", 4), made.argument()
    x, y = made.rank(0), made.rank(1)
    row = made.binary("shl", (1 << m) - 1, made.binary("mul", y, m))
    column = made.binary("shl", sum(1 << (m * j) for j in range(n)), x)
    both = made.binary("or", row, column)
    with made.role("producer", 0, 1):
        stage = made.cell(0)
        with made.loop(steps):
            made.wait(empty, made.read(stage))
            made.arm(full, made.read(stage), 4096)
            made.load(full, made.read(stage), 2048 // m, row)
            made.load(full, made.read(stage), 2048 // n, column)
            made.advance(stage, 4)
    for consumer in range(consumers):
        with made.role("consumer", 4 * (consumer + 1), 4):
            stage = made.cell(0)
            with made.loop(steps):
                made.wait(full, made.read(stage))
                made.arrive(empty, made.read(stage), ctas=both)
                made.advance(stage, 4)
    return made


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
