"""The counting rule: rounds, loops, branches and arrivers; and what is said where it can't decide."""

from __future__ import annotations

from passes.counting import counts, failure
from passes.handmade import Handmade

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
