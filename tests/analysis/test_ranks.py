"""What scalars are in each rank, and when two of them are the same."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from passes.handmade import Handmade
from phalanx.analysis.folding import fold_binary, wrap
from phalanx.analysis.ranks import Evaluator, per_rank
from phalanx.analysis.trace import Branch, Loop, Region, Step, steps, trace
from phalanx.errors import Error
from phalanx.ir.ops.control import BlockId
from phalanx.ir.ops.tile import Cast, Unary
from phalanx.ir.types import BOOL, F32, I32, ScalarType, u8
from phalanx.ir.values import Const, Value, Var


def test_rank_and_coordinates_run_x_fastest():
    made = Handmade(cluster=(2, 3, 2))
    linear, x, y, z = made.rank(), made.rank(0), made.rank(1), made.rank(2)
    function = made.function()
    assert per_rank(function, linear) == tuple(range(12))
    assert per_rank(function, x) == (0, 1) * 6
    assert per_rank(function, y) == (0, 0, 1, 1, 2, 2) * 2
    assert per_rank(function, z) == (0,) * 6 + (1,) * 6


def test_masks_computed_from_the_rank():
    made = Handmade(cluster=(4, 1, 1))
    rank = made.rank()
    peer = made.binary("shl", 1, made.binary("xor", rank, 1))
    pair = made.binary("shl", 3, made.binary("mul", made.binary("floordiv", rank, 2), 2))
    leader = made.compare("eq", made.binary("mod", rank, 2), 0)
    mask = made.select(leader, pair, 0)
    function = made.function()
    assert per_rank(function, peer) == (0b10, 0b01, 0b1000, 0b0100)
    assert per_rank(function, mask) == (0b0011, 0, 0b1100, 0)


def test_conditions_are_true_false_or_unknown():
    made = Handmade(cluster=(2, 1, 1))
    n = made.argument()
    first = made.compare("eq", made.rank(), 0)
    unknown = made.compare("lt", n, 4)
    certain = made.compare("le", n, n)
    function = made.function()
    assert per_rank(function, first) == (True, False)
    assert per_rank(function, unknown) == (None, None)
    assert per_rank(function, certain) == (True, True)


def test_not_and_casts():
    made = Handmade(cluster=(2, 1, 1))
    first = made.compare("eq", made.rank(), 0)
    other, as_int, as_float = Value(BOOL), Value(I32), Value(F32)
    made.emit(Unary("not", first, other))
    made.emit(Cast(other, as_int))
    made.emit(Cast(as_int, as_float))
    function = made.function()
    assert per_rank(function, other) == (False, True)
    assert per_rank(function, as_int) == (0, 1)
    assert per_rank(function, as_float) == (None, None)


@pytest.mark.parametrize(
    ("fn", "a", "b", "expected"),
    [
        ("add", 2**31 - 1, 1, -(2**31)),
        ("mul", 2**16, 2**16, 0),
        ("floordiv", -7, 2, -4),
        ("mod", -7, 4, 1),
        ("shl", 1, 31, -(2**31)),
        ("shl", 1, 32, None),
        ("mod", 5, 0, None),
        ("max", 3, 9, 9),
        ("div", 6, 3, None),
    ],
)
def test_integers_fold_as_the_hardware_computes(fn, a, b, expected):
    assert fold_binary(fn, a, b, I32.dtype) == expected


def test_unsigned_numbers_wrap_to_their_bits():
    assert wrap(-1, u8) == 255
    assert wrap(256, u8) == 0


def test_a_cell_assigned_once_is_known_and_one_that_feeds_itself_is_not():
    made = Handmade(cluster=(2, 1, 1))
    once = made.cell(made.rank())
    read = made.read(once)
    counter = Var(I32, "counter")
    again = made.read(counter)
    made.assign(counter, made.binary("add", again, 1))
    function = made.function()
    assert per_rank(function, read) == (0, 1)
    assert per_rank(function, again) == (None, None)


def test_equal_expressions_over_the_same_reads_are_the_same():
    made = Handmade()
    n, m = made.argument("n"), made.argument("m")
    a = made.binary("mod", made.binary("add", n, 1), 4)
    b = made.binary("mod", made.binary("add", n, 1), 4)
    c = made.binary("mod", made.binary("add", m, 1), 4)
    left, right = Value(I32), Value(I32)
    made.emit(BlockId(0, left))
    made.emit(BlockId(0, right))
    evaluator = Evaluator(made.function(), 0)
    assert evaluator.same(a, b)
    assert not evaluator.same(a, c)
    assert evaluator.same(left, right)


def test_deep_shared_expressions_take_linear_time():
    made = Handmade()
    x: Value = made.argument()
    y: Value = x
    for _ in range(200):
        x, y = made.binary("add", x, x), made.binary("add", y, y)
    assert Evaluator(made.function(), 0).same(x, y)


def arrivals(function, rank=0):
    return [step.arrivals[0] for step in steps(trace(function, rank)) if step.arrivals]


def test_a_cell_is_followed_through_the_code():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar", 4)
    cell = made.cell(1)
    with made.branch(made.compare("eq", made.rank(), 0)):
        made.assign(cell, 2)
    made.arrive(bar, made.read(cell))
    made.assign(cell, 3)
    made.arrive(bar, made.read(cell))
    function = made.function()
    assert [a.index for a in arrivals(function, 0)] == [2, 3]
    assert [a.index for a in arrivals(function, 1)] == [1, 3]


def test_an_assignment_between_two_reads_makes_them_different():
    made = Handmade()
    bar = made.barrier("bar", 4)
    n = made.argument()
    cell = made.cell(n)
    made.arrive(bar, made.read(cell))
    made.arrive(bar, made.read(cell))
    made.assign(cell, made.binary("add", made.read(cell), 1))
    made.arrive(bar, made.read(cell))
    first, second, third = (a.index for a in arrivals(made.function()))
    assert first is second
    assert first is not third


def test_paths_that_meet_choose_by_their_condition():
    made = Handmade()
    bar = made.barrier("bar", 4)
    n = made.argument()
    for cell in (made.cell(0), made.cell(0)):
        with made.branch(made.compare("lt", n, 4)):
            made.assign(cell, 1)
        made.arrive(bar, made.read(cell))
    first, second = (a.index for a in arrivals(made.function()))
    assert not isinstance(first, int)
    assert first is second


def test_a_loop_carried_cell_is_unknown_and_varies_inside():
    made = Handmade()
    bar = made.barrier("bar", 4)
    stage = made.cell(0)
    with made.loop(made.argument()):
        made.arrive(bar, made.read(stage))
        made.arrive(bar, made.read(stage))
        made.advance(stage, 4)
    made.arrive(bar, made.read(stage))
    loop, last = trace(made.function(), 0)
    assert isinstance(loop, Loop)
    assert isinstance(last, Step)
    assert loop.trips is None
    first, second = (step.arrivals[0].index for step in steps(loop.body))
    assert first is second
    assert loop.token in first.varies
    assert not last.arrivals[0].index.varies


def test_an_early_return_of_a_rank_ends_its_trace():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.scope() as kernel:
        with made.branch(made.compare("ne", made.rank(), 0)):
            made.leave(kernel)
        made.arrive(bar)
    function = made.function()
    assert len(arrivals(function, 0)) == 1
    assert len(arrivals(function, 1)) == 0


def test_code_after_a_scope_runs_whichever_way_it_was_left():
    made = Handmade()
    bar = made.barrier("bar", 2)
    cell = made.cell(0)
    with made.scope() as helper:
        with made.branch(made.compare("lt", made.argument(), 4)):
            made.assign(cell, 1)
            made.leave(helper)
        made.assign(cell, 1)
    made.arrive(bar, made.read(cell))
    assert [a.index for a in arrivals(made.function())] == [1]


def test_a_constant_loop_is_enumerated_where_its_index_makes_the_mask():
    made = Handmade(cluster=(4, 1, 1))
    bar = made.barrier("bar")
    with made.loop(4) as (peer, _):
        with made.branch(made.compare("ne", peer, made.rank())):
            made.arrive(bar, ctas=made.binary("shl", 1, peer))
    for rank in range(4):
        reached = [a.ranks for a in arrivals(made.function(), rank)]
        assert reached == [(peer,) for peer in range(4) if peer != rank]


def test_a_loop_whose_barrier_moves_with_it_is_not_enumerated():
    made = Handmade()
    bar = made.barrier("bar", 4)
    with made.loop(4) as (stage, _):
        made.arrive(bar, stage)
    (loop,) = trace(made.function(), 0)
    assert isinstance(loop, Loop)
    assert loop.trips == 4


def test_a_loop_that_may_break_has_no_constant_trip_count():
    made = Handmade()
    bar = made.barrier("bar")
    n = made.argument()
    with made.loop(4) as (_, label):
        made.arrive(bar)
        with made.branch(made.compare("lt", n, 3)):
            made.leave_loop(label)
    (loop,) = trace(made.function(), 0)
    assert isinstance(loop, Loop)
    assert loop.trips is None


def test_rank_conditions_disappear_and_run_time_ones_stay():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    with made.branch(made.compare("eq", made.rank(), 1)):
        with made.branch(made.compare("lt", made.argument(), 3)):
            made.arrive(bar)
    function = made.function()
    assert trace(function, 0) == ()
    (branch,) = trace(function, 1)
    assert isinstance(branch, Branch)
    assert [type(node) for node in branch.then] == [Step]


def test_scopes_become_regions():
    made = Handmade()
    bar = made.barrier("bar")
    with made.scope():
        made.arrive(bar)
    (region,) = trace(made.function(), 0)
    assert isinstance(region, Region)


def test_a_mask_that_leaves_the_cluster_is_an_error_in_the_rank_that_has_it():
    made = Handmade(cluster=(2, 1, 1))
    bar = made.barrier("bar")
    made.arrive(bar, ctas=made.binary("shl", 1, made.binary("add", made.rank(), 1)))
    function = made.function()
    trace(function, 0)
    with pytest.raises(Error) as caught:
        trace(function, 1)
    assert str(caught.value) == (
        "out-of-bounds: the mask 0b100 names CTA 2, but the cluster has 2 CTAs\n"
        "  --> made.py:2:1\n"
        "  |\n"
        "2 | bar.arrive()\n"
        "  | ^^^^^^^^^^^^\n"
        "  = help: bit i of a mask stands for CTA i, so it is at most 0b11 (seen in CTA 1 of the cluster)"
    )


def test_an_index_outside_the_array_is_an_error():
    made = Handmade(cluster=(4, 1, 1))
    bar = made.barrier("bar", 2)
    made.arrive(bar, made.rank())
    with pytest.raises(Error, match=r"barrier bar\[2\] does not exist: the array has 2"):
        trace(made.function(), 2)


def test_a_new_pure_instruction_is_numbered_without_being_known_here():
    made = Handmade()
    shape = ScalarType(u8)
    first, second = Value(shape), Value(shape)
    made.emit(Unary("popcount", Const(3, shape), first))
    made.emit(Unary("popcount", Const(3, shape), second))
    evaluator = Evaluator(made.function(), 0)
    assert evaluator.same(first, second)
    assert evaluator.number(first) is None


@px.kernel(warps=2)
def chain(X, *, N):
    with px.warps(0, 1):
        x = px.load(X[0])
        for _ in range(X.shape[0]):
            for _ in px.static_range(N):
                x = x * 0.5 + 1.0
        px.store(X[1], x)


def test_a_chain_of_any_length_is_followed() -> None:
    x = np.zeros(2, np.float32)
    chain[1](x, N=1000)
    assert x[1] == 2.0
