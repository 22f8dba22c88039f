"""Which integers are known not to be negative."""

from __future__ import annotations

import pytest

from phalanx.analysis.signs import find_signs
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Assign, BlockId, For, ReadVar
from phalanx.ir.ops.memory import Load
from phalanx.ir.ops.tile import Binary, Cast, Keep, Select
from phalanx.ir.types import BOOL, F32, I32, ArrayType, ScalarType, i32, u32
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.views import GlobalView

N = Param(I32, "n", 0)
A = Param(ArrayType(1, i32), "A", 1)
BLOCK = Value(I32, "block")


def known(value: Value, *ops: Op) -> bool:
    function = Function("k", (N, A), (), 4, (1, 1, 1), True, (), (), Block((BlockId(0, BLOCK), *ops)))
    return find_signs(function).nonnegative(value)


@pytest.mark.parametrize(
    ("fn", "a", "b", "expected"),
    [
        ("mul", BLOCK, Const(64), True),
        ("mul", BLOCK, Const(-1), False),
        ("add", BLOCK, Const(1), True),
        ("add", BLOCK, N, False),
        ("sub", BLOCK, Const(1), False),
        ("max", N, Const(0), True),
        ("min", N, Const(0), False),
        ("min", BLOCK, Const(7), True),
        ("mod", N, Const(4), True),
        ("mod", N, Const(-4), False),
        ("floordiv", BLOCK, Const(3), True),
        ("and", N, Const(15), True),
        ("shl", BLOCK, Const(2), True),
        ("shr", N, Const(2), False),
    ],
)
def test_arithmetic(fn: str, a: Value, b: Value, expected: bool) -> None:
    result = Value(I32)
    assert known(result, Binary(fn, a, b, result)) is expected


def test_constants_parameters_and_memory() -> None:
    assert known(Const(0)) and not known(Const(-1))
    assert not known(N)
    assert known(Param(ScalarType(u32), "u", 0))
    loaded = Value(I32)
    assert not known(loaded, Load(GlobalView(A, (Const(0),), (1,), ()), Const(0), loaded))


@pytest.mark.parametrize(
    ("start", "stop", "step", "expected"), [(0, 9, 2, True), (-1, 9, 2, False), (9, -1, -1, True), (9, -2, -1, False)]
)
def test_loop_indices(start: int, stop: int, step: int, expected: bool) -> None:
    i = Value(I32, "i")
    assert known(i, For(i, Const(start), Const(stop), Const(step), Block(), Label("l"))) is expected


def test_cells_over_loops() -> None:
    cell, read, up, down = Var(I32, "k"), Value(I32), Value(I32), Value(I32)
    body = Block((ReadVar(cell, read), Binary("add", read, Const(4), up), Assign(cell, up)))
    assert known(read, Assign(cell, BLOCK), For(Value(I32), Const(0), N, Const(1), body, Label("l")))
    body = Block((ReadVar(cell, read), Binary("sub", read, Const(4), down), Assign(cell, down)))
    assert not known(read, Assign(cell, BLOCK), For(Value(I32), Const(0), N, Const(1), body, Label("l")))


def test_selects_and_casts() -> None:
    chosen, cast, cond = Value(I32), Value(I32), Value(BOOL)
    assert known(chosen, Select(cond, BLOCK, Const(3), chosen))
    assert not known(chosen, Select(cond, BLOCK, N, chosen))
    assert known(cast, Cast(cond, cast))
    assert not known(cast, Cast(Value(F32), cast))


def test_what_is_kept_stays_what_it_is() -> None:
    kept = Value(I32)
    assert known(kept, Keep(BLOCK, kept)) and not known(kept, Keep(N, kept))
