"""What integers are known to be multiples of."""

from __future__ import annotations

from phalanx.analysis.divisibility import ANY, find_divisibility
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Assign, BlockId, For, ReadVar
from phalanx.ir.ops.tile import Binary, Cast, Keep, Select
from phalanx.ir.types import BOOL, F32, I32, I64
from phalanx.ir.values import Const, Label, Param, Value, Var


def divisor(value: Value, *ops: Op) -> int:
    function = Function("k", (), (), 4, (1, 1, 1), True, (), (), Block(ops))
    return find_divisibility(function).divisor(value)


def binary(fn: str, a: Value, b: Value) -> tuple[Value, Op]:
    result = Value(I32)
    return result, Binary(fn, a, b, result)


N = Param(I32, "n", 0)


def test_constants_and_unknowns() -> None:
    assert divisor(Const(48)) == 16
    assert divisor(Const(0)) == ANY
    assert divisor(N) == 1


def test_products_add_up_their_twos() -> None:
    block = Value(I32)
    x, mul = binary("mul", block, Const(64))
    assert divisor(x, BlockId(0, block), mul) == 64
    y, mul_again = binary("mul", x, Const(6))
    assert divisor(y, BlockId(0, block), mul, mul_again) == 128


def test_sums_keep_what_both_have() -> None:
    x, mul = binary("mul", N, Const(64))
    y, add = binary("add", x, Const(16))
    assert divisor(y, mul, add) == 16
    z, subtract = binary("sub", Const(0), x)
    assert divisor(z, mul, subtract) == 64


def test_what_is_kept_stays_what_it_is() -> None:
    x, mul = binary("mul", N, Const(64))
    kept = Value(I32)
    y, add = binary("add", kept, Const(16))
    assert divisor(kept, mul, Keep(x, kept)) == 64 and divisor(y, mul, Keep(x, kept), add) == 16


def test_shifts_masks_and_divisions() -> None:
    x, shl = binary("shl", N, Const(5))
    assert divisor(x, shl) == 32
    y, shr = binary("shr", x, Const(2))
    assert divisor(y, shl, shr) == 8
    z, div = binary("floordiv", x, Const(4))
    assert divisor(z, shl, div) == 8
    w, div3 = binary("floordiv", x, Const(3))
    assert divisor(w, shl, div3) == 1
    m, masked = binary("and", N, Const(~15))
    assert divisor(m, masked) == 16
    r, mod = binary("mod", x, Const(24))
    assert divisor(r, shl, mod) == 8


def test_a_loop_index_has_what_start_and_step_have() -> None:
    i = Value(I32, "i")
    loop = For(i, Const(64), N, Const(48), Block(), Label("l"))
    assert divisor(i, loop) == 16


def test_a_cell_has_what_all_its_assignments_have() -> None:
    cell, read = Var(I32, "k"), Value(I32)
    after, add = binary("add", read, Const(32))
    loop = For(Value(I32), Const(0), N, Const(1), Block((ReadVar(cell, read), add, Assign(cell, after))), Label("l"))
    assert divisor(read, Assign(cell, Const(128)), loop) == 32
    assert divisor(read, Assign(cell, Const(4)), loop) == 4
    assert divisor(read, Assign(cell, N), loop) == 1


def test_selects_and_casts() -> None:
    chosen, wide, cond = Value(I32), Value(I64), Value(BOOL)
    select = Select(cond, Const(32), Const(8), chosen)
    assert divisor(chosen, select) == 8
    assert divisor(wide, select, Cast(chosen, wide)) == 8
    from_float = Value(I32)
    assert divisor(from_float, Cast(Value(F32), from_float)) == 1


def test_proves_scales_by_a_factor() -> None:
    x, mul = binary("mul", N, Const(4))
    function = Function("k", (), (), 4, (1, 1, 1), True, (), (), Block((mul,)))
    facts = find_divisibility(function)
    assert facts.proves(x, 4, 16)
    assert not facts.proves(x, 2, 16)
    assert facts.proves(Const(0), 1, 1024)
