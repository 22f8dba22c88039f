"""The bytes of `with bar.transaction():`, by rank; and what is said where they can't be counted."""

from __future__ import annotations

import pytest

from passes.handmade import Handmade
from phalanx.analysis.ranks import per_rank
from phalanx.errors import Error
from phalanx.ir.ops.control import For
from phalanx.ir.ops.mbarrier import MAX_COUNT, ArriveExpectTx, Transaction
from phalanx.ir.values import Const
from phalanx.passes.counts import infer_counts
from phalanx.passes.transactions import lower_transactions


def expected(made: Handmade) -> list[tuple[int | None, ...]]:
    """The bytes of each arrive in the lowered function, per rank."""
    lowered = lower_transactions(made.function())
    assert not any(isinstance(op, Transaction) for op in lowered.walk())
    return [per_rank(lowered, op.nbytes) for op in lowered.walk() if isinstance(op, ArriveExpectTx)]


def failure(made: Handmade) -> Error:
    with pytest.raises(Error) as caught:
        lower_transactions(made.function())
    return caught.value


def test_the_arrive_stands_before_the_copies_and_expects_their_sum():
    made = Handmade()
    bar = made.barrier("bar")
    with made.transaction(bar):
        made.load(bar, nbytes=4096)
        made.load(bar, nbytes=512)
    function = made.function()
    (transaction,) = function.body.ops
    arrive, first, second = lower_transactions(function).body.ops
    assert isinstance(arrive, ArriveExpectTx)
    assert isinstance(arrive.nbytes, Const)
    assert arrive.nbytes.value == 4608
    assert arrive.bar is transaction.bar
    assert arrive.loc is transaction.loc
    assert (first, second) == transaction.body.ops


def test_a_function_without_transactions_is_left_as_it_is():
    made = Handmade()
    made.arm(made.barrier("bar"), 0, 128)
    function = made.function()
    assert lower_transactions(function) is function


def test_the_lowered_transaction_is_one_arrival():
    made = Handmade()
    bar = made.barrier("bar")
    with made.transaction(bar):
        made.load(bar)
    made.wait(bar)
    assert infer_counts(lower_transactions(made.function()))[bar] == ((1,),)


def test_every_receiver_of_a_multicast_expects_all_its_bytes():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.transaction(bar):
        made.load(bar, nbytes=1000)
        made.load(bar, nbytes=100, mask=0b11)
    assert expected(made) == [(1200, 1200)]


def test_2d_multicast_brings_one_share_of_each_row_and_column_peer():
    m, n = 2, 4
    made = Handmade(cluster=(m, n, 1))
    bar = made.barrier("bar", 4)
    x, y = made.rank(0), made.rank(1)
    row = made.binary("shl", (1 << m) - 1, made.binary("mul", y, m))
    column = made.binary("shl", sum(1 << (m * j) for j in range(n)), x)
    stage = made.cell(0)
    with made.loop(made.argument()):
        with made.transaction(bar, made.read(stage)):
            made.load(bar, made.read(stage), 64, row)
            made.load(bar, made.read(stage), 1000, column)
        made.advance(stage, 4)
    assert expected(made) == [(64 * m + 1000 * n,) * 8]


def test_a_condition_on_the_rank_inside_is_enumerated():
    made = Handmade(cluster=(4, 1, 1))
    bar = made.barrier("bar")
    with made.transaction(bar):
        with made.branch(made.compare("eq", made.rank(), 0)):
            made.load(bar, nbytes=2048, mask=0b1111)
    assert expected(made) == [(2048,) * 4]


def test_totals_that_differ_by_rank_become_a_select():
    made = Handmade(cluster=(4, 1, 1))
    bar = made.barrier("bar")
    rank = made.rank()
    with made.transaction(bar):
        made.load(bar, nbytes=100)
        with made.branch(made.compare("eq", rank, 3)):
            made.load(bar, nbytes=10, mask=0b0110)
        with made.branch(made.compare("eq", rank, 2)):
            made.load(bar, nbytes=1)
    assert expected(made) == [(100, 110, 111, 100)]


def test_a_condition_on_the_rank_around_a_transaction_of_its_own_copies():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.branch(made.compare("eq", made.rank(), 0)):
        with made.transaction(bar):
            made.load(bar, nbytes=300)
    with made.orelse():
        with made.transaction(bar):
            made.load(bar, nbytes=500)
    lowered = lower_transactions(made.function())
    totals = [op.nbytes for op in lowered.walk() if isinstance(op, ArriveExpectTx)]
    assert [total.value for total in totals if isinstance(total, Const)] == [300, 500]


def test_a_rank_that_receives_but_runs_no_transaction():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.branch(made.compare("eq", made.rank(), 0)):
        with made.transaction(bar):
            made.load(bar, nbytes=2048, mask=0b11)
    assert str(failure(made)) == (
        "tx-mismatch: CTA 1 receives 2048 bytes from the copies that CTA 0 issues in this transaction, "
        "but only CTA 0 runs it\n"
        "  --> made.py:3:1\n"
        "  |\n"
        "3 | with bar.transaction():\n"
        "  | ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  = help: every CTA that receives must arm its own barrier: open the transaction in all of them and put the "
        "condition on the rank inside it, or write bar.arrive_and_expect_tx(nbytes) before the copies, "
        "with the bytes that this CTA receives"
    )


def test_constant_loops_multiply():
    made = Handmade()
    bar = made.barrier("bar")
    with made.transaction(bar):
        made.load(bar, nbytes=1)
        with made.loop(4):
            made.load(bar, nbytes=10)
            with made.loop(3):
                made.load(bar, nbytes=100)
    assert expected(made) == [(1 + 40 + 1200,)]


def test_a_constant_loop_over_the_peers_is_enumerated():
    made = Handmade(cluster=(4, 1, 1))
    bar = made.barrier("bar")
    with made.transaction(bar):
        with made.loop(4) as (peer, _):
            with made.branch(made.compare("lt", peer, made.rank())):
                made.load(bar, nbytes=16, mask=made.binary("shl", 1, peer))
    assert expected(made) == [(48, 32, 16, 0)]


def test_a_loop_of_unknown_length_is_an_error():
    made = Handmade()
    bar = made.barrier("bar")
    with made.transaction(bar):
        with made.loop(made.argument()):
            made.load(bar)
    assert str(failure(made)) == (
        "a transaction can't count the copies of a loop whose number of iterations is known only at run time\n"
        "  --> made.py:3:1\n"
        "  |\n"
        "3 | for i in range(...):\n"
        "  | ^^^^^^^^^^^^^^^^^^^^\n"
        "  = help: open the transaction inside the loop, give the loop a constant number of iterations, or write "
        "bar.arrive_and_expect_tx(nbytes) before the copies, with the bytes that this CTA receives"
    )


def test_a_loop_of_unknown_length_without_copies_is_none_of_its_business():
    made = Handmade()
    bar, other = made.barrier("bar"), made.barrier("other")
    with made.transaction(bar):
        with made.loop(made.argument()):
            made.load(other)
        made.load(bar, nbytes=8)
    assert expected(made) == [(8,)]


def test_run_time_branches_that_bring_the_same():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    with made.transaction(bar):
        with made.branch(made.compare("lt", n, 3)):
            made.load(bar, nbytes=64)
        with made.orelse():
            made.load(bar, nbytes=32)
            made.load(bar, nbytes=32)
    assert expected(made) == [(64,)]


def test_run_time_branches_that_differ():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    with made.transaction(bar):
        with made.branch(made.compare("lt", n, 3)):
            made.load(bar, nbytes=64)
        with made.orelse():
            made.load(bar, nbytes=32)
    assert str(failure(made)) == (
        "the bytes of a transaction depend on a run-time branch: 64 if the condition holds, 32 if not\n"
        "  --> made.py:3:1\n"
        "  |\n"
        "3 | if ...:\n"
        "  | ^^^^^^^\n"
        "  = help: copy the same number of bytes on every way (a region outside the array still counts its bytes), put "
        "the branch around the whole transaction, or write bar.arrive_and_expect_tx(nbytes) before the copies, "
        "with the bytes that this CTA receives"
    )


def test_a_missing_else_brings_nothing():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    with made.transaction(bar):
        with made.branch(made.compare("lt", n, 3)):
            made.load(bar, nbytes=64)
    assert "64 if the condition holds, 0 if not" in failure(made).message


def test_a_run_time_branch_around_the_whole_transaction_is_fine():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    with made.branch(made.compare("lt", n, 3)):
        with made.transaction(bar):
            made.load(bar, nbytes=64)
    assert expected(made) == [(64,)]


def test_a_return_in_the_middle_of_the_copies():
    made = Handmade()
    bar, n = made.barrier("bar"), made.argument()
    with made.scope() as kernel:
        with made.transaction(bar):
            made.load(bar, nbytes=64)
            with made.branch(made.compare("lt", n, 3)):
                made.leave(kernel)
            made.load(bar, nbytes=32)
    error = failure(made)
    assert error.message == "the bytes of a transaction depend on a run-time branch: 64 on this way out, 96 without it"
    assert error.location.text == "return"


def test_a_mask_known_only_at_run_time():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.transaction(bar):
        made.load(bar, mask=made.argument())
    assert str(failure(made)) == (
        "the mask of this copy is known only at run time, so the transaction around it can't count its bytes\n"
        "  --> made.py:3:1\n"
        "  |\n"
        "3 | px.tma.load(...)\n"
        "  | ^^^^^^^^^^^^^^^^\n"
        "  = help: write bar.arrive_and_expect_tx(nbytes) before the copies, with the bytes that this CTA receives"
    )


def test_copies_that_signal_another_barrier_are_not_counted():
    made = Handmade(cluster=(2, 1, 1))
    bar, other = made.barrier("bar", 2), made.barrier("other")
    with made.transaction(bar, 0):
        made.load(bar, 0, nbytes=8)
        made.load(bar, 1, nbytes=64)
        made.load(other, nbytes=512, mask=made.argument())
    assert expected(made) == [(8, 8)]


def test_a_copy_that_may_or_may_not_signal_the_barrier():
    made = Handmade()
    bar, n = made.barrier("bar", 4), made.argument()
    with made.transaction(bar, made.binary("mod", n, 4)):
        made.load(bar, made.binary("mod", made.binary("add", n, 4), 4))
    error = failure(made)
    assert error.message == (
        "this copy may or may not signal the barrier of its transaction: bar is indexed by another value, "
        "known only at run time"
    )
    assert error.location.text == "px.tma.load(...)"


def test_nested_transactions_of_two_barriers_each_count_their_own():
    made = Handmade()
    a, b = made.barrier("a"), made.barrier("b")
    with made.transaction(a):
        made.load(a, nbytes=1)
        with made.transaction(b):
            made.load(a, nbytes=10)
            made.load(b, nbytes=100)
    assert expected(made) == [(11,), (100,)]


def test_nested_transactions_of_one_barrier():
    made = Handmade()
    bar = made.barrier("bar")
    with made.transaction(bar):
        with made.transaction(bar):
            made.load(bar)
    error = failure(made)
    assert error.message == "a transaction inside a transaction of the same barrier"
    assert error.location.line == 3


def test_ranks_that_use_different_barriers_for_one_transaction():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar", 2)
    with made.transaction(bar, made.rank()):
        made.load(bar, made.rank(), mask=0b11)
    assert failure(made).message == (
        "can't count the bytes of this transaction: CTA 0 and CTA 1 use different barriers of the array for it"
    )


def test_transactions_inside_roles_and_loops_are_found():
    made = Handmade(warps=8)
    full, n = made.barrier("full", 2), made.argument()
    with made.role("producer", 0, 1):
        stage = made.cell(0)
        with made.loop(n):
            with made.transaction(full, made.read(stage)):
                made.load(full, made.read(stage), 256)
            made.advance(stage, 2)
    with made.role("consumer", 4, 4):
        made.wait(full)
    lowered = lower_transactions(made.function())
    (loop,) = (op for op in lowered.walk() if isinstance(op, For))
    kinds = [type(op).__name__ for op in loop.body.ops]
    assert kinds[:4] == ["ReadVar", "ArriveExpectTx", "ReadVar", "TmaLoad"]
    assert infer_counts(lowered)[full] == ((1, 1),)


def test_more_bytes_than_a_phase_can_track():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.transaction(bar):
        with made.branch(made.compare("eq", made.rank(), 1)):
            with made.loop(4):
                made.load(bar, nbytes=2**18)
    error = failure(made)
    assert error.message == (
        f"the copies of this transaction bring {2**20} bytes to CTA 1; one phase of an mbarrier tracks at "
        f"most {MAX_COUNT}"
    )
    assert error.remedy == "spread the copies over more barriers or phases"


def test_an_explicit_expectation_beyond_the_limit():
    made = Handmade()
    made.arm(made.barrier("bar"), 0, MAX_COUNT + 1)
    assert failure(made).message.startswith("a barrier is to expect 1048576 bytes")
