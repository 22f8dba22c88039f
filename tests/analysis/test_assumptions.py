"""What `px.assume` says counts where it always runs after the value is made, and nowhere else."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.analysis.divisibility import find_divisibility
from phalanx.analysis.signs import find_signs
from phalanx.ir.core import Function
from phalanx.ir.ops.memory import Store
from phalanx.ir.types import I32
from phalanx.ir.values import Value
from support.front import array, prepared

TYPES = (array(1), I32)


def first_start(function: Function) -> Value:
    """Where the first store begins."""
    store = next(op for op in function.walk() if isinstance(op, Store))
    return store.view.offsets[0]


@px.kernel
def compared(Y, n, *, HOW):
    m = n - px.block_id(0)
    if HOW == "ge":
        px.assume(m >= 0)
    elif HOW == "gt":
        px.assume(m > -1)
    elif HOW == "turned":
        px.assume(-1 < m < m + 1)
    elif HOW == "between":
        px.assume(0 <= m < 100)
    elif HOW == "and":
        px.assume(n < 7 and m >= 3)
    elif HOW == "known":
        px.assume(m >= px.num_blocks(0))
    elif HOW == "too low":
        px.assume(m >= -1)
    elif HOW == "above":
        px.assume(m <= 0)
    elif HOW == "another":
        px.assume(n >= 0)
    elif HOW == "or":
        px.assume((m >= 0) | (n == 2))
    px.store(Y[m : m + 4], 1.0)


@pytest.mark.parametrize("how", ["ge", "gt", "turned", "between", "and", "known"])
def test_a_comparison_makes_a_start_known(how: str) -> None:
    function = prepared(compared, TYPES, HOW=how)
    assert find_signs(function).nonnegative(first_start(function))


@pytest.mark.parametrize("how", ["none", "too low", "above", "another", "or"])
def test_a_comparison_that_says_something_else(how: str) -> None:
    function = prepared(compared, TYPES, HOW=how)
    assert not find_signs(function).nonnegative(first_start(function))


@px.kernel
def multiple(Y, n, *, BY):
    m = n + px.block_id(0)
    px.assume(m % BY == 0)
    px.store(Y[m * 2 : m * 2 + 4], 1.0)


@pytest.mark.parametrize(("by", "divisor"), [(8, 16), (12, 8), (3, 2)])
def test_a_remainder_of_0_makes_a_multiple(by: int, divisor: int) -> None:
    function = prepared(multiple, TYPES, BY=by)
    assert find_divisibility(function).divisor(first_start(function)) == divisor


@px.kernel(warps=2)
def placed(Y, n, *, WHERE):
    if WHERE == "branch":
        px.store(Y[n : n + 4], 1.0)
        if px.block_id(0) == 0:
            px.assume(n >= 0)
    elif WHERE == "after a return":
        if n < 0:
            px.store(Y[n : n + 4], 1.0)
            return
        px.assume(n >= 0)
    elif WHERE == "loop":
        for i in range(3):
            m = n - i
            px.assume(m >= 0)
            px.store(Y[m : m + 4], 1.0)
    elif WHERE == "left loop":
        for i in range(3):
            m = n - i
            px.store(Y[m : m + 4], 1.0)
            if i == 1:
                break
            px.assume(m >= 0)
    elif WHERE == "loop variable":
        for i in range(n, 3):
            px.assume(i >= 0)
            px.store(Y[i : i + 4], 1.0)
    elif WHERE == "role":
        with px.warps(0, 1):
            px.assume(n >= 0)
            px.store(Y[n : n + 4], 1.0)


@pytest.mark.parametrize(
    ("where", "known"),
    [("branch", False), ("after a return", False), ("loop", True), ("left loop", False), ("loop variable", True),
     ("role", True)],
)  # fmt: skip
def test_it_counts_where_it_always_runs(where: str, known: bool) -> None:
    function = prepared(placed, TYPES, WHERE=where)
    assert find_signs(function).nonnegative(first_start(function)) == known
