"""How large integers can become."""

from __future__ import annotations

import pytest

from phalanx.analysis.limits import find_limits, largest
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.cluster import ClusterRank
from phalanx.ir.ops.control import For
from phalanx.ir.ops.tile import Binary, Keep
from phalanx.ir.types import I32
from phalanx.ir.values import Const, Label, Param, Value

N = Param(I32, "n", 0)
RANK, COLUMN = Value(I32, "rank"), Value(I32, "column")
BEFORE = (ClusterRank(None, RANK), ClusterRank(0, COLUMN))


def known(value: Value, *ops: Op) -> int | None:
    function = Function("k", (N,), (), 4, (2, 4, 1), True, (), (), Block((*BEFORE, *ops)))
    return largest(find_limits(function), value)


def test_ranks_and_numbers() -> None:
    assert (known(RANK), known(COLUMN), known(Const(5)), known(Const(-5)), known(N)) == (7, 1, 5, None, None)


@pytest.mark.parametrize(
    ("fn", "a", "b", "expected"),
    [
        ("add", RANK, Const(10), 17),
        ("add", RANK, Const(-1), None),
        ("add", RANK, N, None),
        ("mul", RANK, Const(1 << 20), 7 << 20),
        ("mul", RANK, Const(1 << 30), None),  # wraps around
        ("sub", RANK, Const(1), None),
        ("mod", N, Const(6), 5),
        ("mod", N, Const(-6), None),
        ("mod", N, RANK, None),
        ("and", N, Const(15), 15),
        ("and", N, Const(-16), None),
        ("min", RANK, Const(3), 3),
        ("max", RANK, Const(3), 7),
        ("floordiv", RANK, Const(2), 7),
        ("shl", RANK, Const(2), None),
    ],
)
def test_arithmetic(fn: str, a: Value, b: Value, expected: int | None) -> None:
    result = Value(I32)
    assert known(result, Binary(fn, a, b, result)) == expected


def test_what_is_kept_is_as_large() -> None:
    kept = Value(I32)
    assert known(kept, Keep(RANK, kept)) == 7


@pytest.mark.parametrize(
    "start, stop, step, expected",
    [(0, 10, 1, 9), (12, 10, 1, 12), (0, N, 1, None), (-1, 10, 1, None), (0, 10, -1, None), (0, 10, N, None)],
)
def test_loops(start: int, stop: int | Value, step: int | Value, expected: int | None) -> None:
    index = Value(I32, "i")
    ends = [x if isinstance(x, Value) else Const(x) for x in (start, stop, step)]
    assert known(index, For(index, *ends, Block(()), Label("loop"))) == expected
