"""Arithmetic: scalars inline and tiles, in the precision of the hardware."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.ir import types as ty
from phalanx.ir.ops import tile
from phalanx.ir.types import DType, ScalarType, TileType
from phalanx.ir.values import Value
from phalanx.sim.numerics import wrap
from phalanx.sim.run import simulate
from sim.build import Build, at, const

INTEGER = ["add", "sub", "mul", "and", "or", "xor", "max", "min", "floordiv", "mod"]
I32_NUMBERS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-5, 5))


def apply(make, dtypes: list[DType], inputs: list[np.ndarray], result: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Loads whole arrays, applies `make(build, *tiles)`, stores the result."""
    b = Build()
    arrays = [b.array(x.ndim, dtype) for x, dtype in zip(inputs, dtypes)]
    out = b.array(len(shape), result)
    values = [b.load(at(a, *((0, n) for n in x.shape))) for a, x in zip(arrays, inputs)]
    b.store(at(out, *((0, n) for n in shape)), make(b, *values))
    target = np.zeros(shape, result.numpy)
    simulate(b.done(), 1, [*inputs, target])
    return target


# --- scalars --------------------------------------------------------------------------------------------------------


def expressions():
    leaf = st.one_of(st.integers(0, 1).map(lambda i: ("arg", i)), I32_NUMBERS.map(lambda n: ("const", n)))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(INTEGER), inner, inner),
            st.tuples(st.sampled_from(["shl", "shr"]), inner, st.integers(-3, 40).map(lambda n: ("const", n))),
            st.tuples(st.just("neg"), inner),
            st.tuples(st.just("select"), st.sampled_from(["lt", "eq", "ge"]), inner, inner, inner, inner),
        ),
        max_leaves=12,
    )


def evaluate(e, args) -> int:
    """Plain Python with 32-bit wrap-around."""
    kind = e[0]
    if kind == "arg":
        return args[e[1]]
    if kind == "const":
        return e[1]
    if kind == "neg":
        return wrap(-evaluate(e[1], args), ty.i32)
    if kind == "select":
        a, b = evaluate(e[2], args), evaluate(e[3], args)
        holds = {"lt": a < b, "eq": a == b, "ge": a >= b}[e[1]]
        return evaluate(e[4] if holds else e[5], args)
    a, b = evaluate(e[1], args), evaluate(e[2], args)
    if kind in ("floordiv", "mod"):
        b = b | 1
        return wrap(a // b if kind == "floordiv" else a % b, ty.i32)
    if kind == "shl":
        return wrap(a << b, ty.i32) if 0 <= b < 32 else 0
    if kind == "shr":
        return a >> (b if 0 <= b < 32 else 31)
    return wrap({"add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b,
                 "max": max(a, b), "min": min(a, b)}[kind], ty.i32)


def emit(e, b: Build, args) -> Value:
    kind = e[0]
    if kind == "arg":
        return args[e[1]]
    if kind == "const":
        return const(e[1], ty.i32)
    if kind == "neg":
        return b.unary("neg", emit(e[1], b, args))
    if kind == "select":
        cond = b.compare(e[1], emit(e[2], b, args), emit(e[3], b, args))
        return b.add(tile.Select(cond, emit(e[4], b, args), emit(e[5], b, args), Value(ty.I32)))
    left, right = emit(e[1], b, args), emit(e[2], b, args)
    if kind in ("floordiv", "mod"):
        right = b.binary("or", right, 1)
    return b.binary(kind, left, right)


@settings(max_examples=200, deadline=None)
@given(expressions(), I32_NUMBERS, I32_NUMBERS)
def test_scalar_expressions_wrap_like_the_hardware(expression, x, y):
    b = Build()
    args = [b.scalar(ty.i32), b.scalar(ty.i32)]
    out = b.array(1, ty.i32)
    b.store(at(out, 0), emit(expression, b, args))
    result = np.zeros(1, np.int32)
    simulate(b.done(), 1, [x, y, result])
    assert result[0] == evaluate(expression, [x, y])


@settings(max_examples=100, deadline=None)
@given(st.lists(I32_NUMBERS, min_size=4, max_size=4), st.lists(I32_NUMBERS, min_size=4, max_size=4),
       st.sampled_from(INTEGER))
def test_integer_tiles_agree_with_scalars(xs, ys, fn):
    ys = [y | 1 for y in ys]
    got = apply(lambda b, x, y: b.binary(fn, x, y), [ty.i32, ty.i32],
                [np.array(xs, np.int32), np.array(ys, np.int32)], ty.i32, (4,))
    assert got.tolist() == [evaluate((fn, ("const", x), ("const", y)), []) for x, y in zip(xs, ys)]


@given(st.lists(st.integers(-4, 40), min_size=3, max_size=3))
@settings(deadline=None, max_examples=40)
def test_shifts_of_tiles(counts):
    xs = np.array([-7, 2**30 + 3, 12], np.int32)
    for fn in ("shl", "shr"):
        shifts = np.array(counts, np.int32)
        got = apply(lambda b, x, y, fn=fn: b.binary(fn, x, y), [ty.i32, ty.i32], [xs, shifts], ty.i32, (3,))
        assert got.tolist() == [evaluate((fn, ("const", int(x)), ("const", n)), []) for x, n in zip(xs, counts)]


def test_a_scalar_shifted_by_a_tile():
    counts = np.array([0, 4, 31, 32], np.int32)
    got = apply(lambda b, n: b.binary("shl", 3, n), [ty.i32], [counts], ty.i32, (4,))
    assert got.tolist() == [3, 48, -(2**31), 0]


def test_float_scalars_round_to_f32():
    b = Build()
    x, out = b.scalar(ty.f32), b.array(1)
    third = b.binary("div", x, 3.0, ty.f32)
    b.store(at(out, 0), b.binary("sub", b.binary("mul", third, 3.0, ty.f32), x, ty.f32))
    b.store(at(out, 1), b.binary("div", x, 0.0, ty.f32))
    b.store(at(out, 2), b.unary("sqrt", b.unary("neg", x)))
    b.store(at(out, 3), b.binary("max", b.unary("sqrt", b.unary("neg", x)), x, ty.f32))
    result = np.zeros(4, np.float32)
    simulate(b.done(), 1, [0.1, result])
    x = np.float32(0.1)
    assert result[0] == x / np.float32(3) * np.float32(3) - x
    assert result[1] == np.inf and np.isnan(result[2])
    assert np.isnan(result[3])


def test_unsigned_and_64_bit_scalars():
    b = Build()
    u, w = b.scalar(ty.u32), b.scalar(ty.i64)
    out_u, out_w = b.array(1, ty.u32), b.array(1, ty.i64)
    b.store(at(out_u, 0), b.binary("sub", u, 1, ty.u32))
    b.store(at(out_u, 1), b.binary("shr", u, 1, ty.u32))
    b.store(at(out_w, 0), b.binary("mul", w, w, ty.i64))
    b.store(at(out_w, 1), b.binary("add", w, 1, ty.i64))
    a, c = np.zeros(2, np.uint32), np.zeros(2, np.int64)
    simulate(b.done(), 1, [0, 2**62, a, c])
    assert a.tolist() == [2**32 - 1, 0]
    assert c.tolist() == [0, 2**62 + 1]


# --- tiles ----------------------------------------------------------------------------------------------------------

NARROW = [(ty.f16, np.float16), (ty.bf16, ml_dtypes.bfloat16)]


@pytest.mark.parametrize(("dtype", "to"), NARROW)
@pytest.mark.parametrize("fn", ["add", "sub", "mul", "div"])
def test_narrow_floats_compute_in_f32_and_round(dtype, to, fn):
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((8, 16)).astype(to) for _ in range(2))
    got = apply(lambda b, p, q: b.binary(fn, p, q, dtype), [dtype, dtype], [x, y], dtype, (8, 16))
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[fn]
    assert np.array_equal(got, ufunc(x.astype(np.float32), y.astype(np.float32)).astype(to))


@pytest.mark.parametrize("fn", tile.UNARY)
def test_unary_functions(fn):
    if fn == "not":
        return
    x = np.linspace(0.25, 4, 16, dtype=np.float32)
    got = apply(lambda b, v: b.unary(fn, v), [ty.f32], [x], ty.f32, (16,))
    reference = {
        "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
        "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v), "reciprocal": lambda v: 1 / v, "tanh": np.tanh,
        "tanh_approx": np.tanh, "erf": np.vectorize(math.erf),
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil,
        "round": np.round, "trunc": np.trunc,
    }[fn]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, reference(x.astype(np.float64)), rtol=1e-6)


def test_not_of_bools_and_integers():
    flags, bits = np.array([True, False]), np.array([5, -1], np.int32)
    assert apply(lambda b, v: b.unary("not", v), [ty.bool_], [flags], ty.bool_, (2,)).tolist() == [False, True]
    assert apply(lambda b, v: b.unary("not", v), [ty.i32], [bits], ty.i32, (2,)).tolist() == [-6, 0]


def test_broadcasting_and_compare():
    rows, columns = np.arange(3, dtype=np.float32).reshape(3, 1), np.arange(4, dtype=np.float32).reshape(1, 4)
    got = apply(lambda b, p, q: b.compare("lt", p, q), [ty.f32] * 2, [rows, columns], ty.bool_, (3, 4))
    assert np.array_equal(got, rows < columns)


@pytest.mark.parametrize("dtype", [ty.f32, ty.bf16, ty.i32])
def test_select(dtype):
    x = np.arange(6).astype(dtype.numpy)

    def make(b, v):
        cond = b.compare("gt", v, 2, dtype)
        return b.add(tile.Select(cond, v, const(1, dtype), Value(TileType((6,), dtype))))

    assert apply(make, [dtype], [x], dtype, (6,)).astype(np.float32).tolist() == [1, 1, 1, 3, 4, 5]


def test_casts_to_fp8_saturate():
    x = np.array([1e9, -1e9, 0.3, np.inf, 448, 1000], np.float32)
    e4 = apply(lambda b, v: b.cast(v, ty.f8e4m3), [ty.f32], [x], ty.f8e4m3, (6,)).astype(np.float32)
    assert e4.tolist() == [448, -448, np.float32(0.3125), 448, 448, 448]
    e5 = apply(lambda b, v: b.cast(v, ty.f8e5m2), [ty.f32], [x], ty.f8e5m2, (6,)).astype(np.float32)
    assert e5.tolist() == [57344, -57344, np.float32(0.3125), 57344, 448, 1024]
    nan = apply(lambda b, v: b.cast(v, ty.f8e4m3), [ty.f32], [np.full(1, np.nan, np.float32)], ty.f8e4m3, (1,))
    assert np.isnan(nan.astype(np.float32)).all()


def test_casts_to_integers_truncate_and_saturate():
    x = np.array([1.9, -1.9, 3e9, -3e9, np.nan, 2147483520.0], np.float32)
    got = apply(lambda b, v: b.cast(v, ty.i32), [ty.f32], [x], ty.i32, (6,))
    assert got.tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 2147483520]
    got = apply(lambda b, v: b.cast(v, ty.u8), [ty.f32], [x], ty.u8, (6,))
    assert got.tolist() == [1, 0, 255, 0, 0, 255]


def test_scalar_casts():
    b = Build()
    x, n = b.scalar(ty.f32), b.scalar(ty.i32)
    out = b.array(1, ty.i32)
    b.store(at(out, 0), b.cast(x, ty.i32))
    b.store(at(out, 1), b.cast(b.cast(n, ty.i8), ty.i32))
    b.store(at(out, 2), b.cast(b.compare("lt", n, 5), ty.i32))
    b.store(at(out, 3), b.cast(b.cast(n, ty.f32), ty.i32))
    result = np.zeros(4, np.int32)
    simulate(b.done(), 1, [-3.7, 200, result])
    assert result.tolist() == [-3, -56, 0, 200]


@pytest.mark.parametrize("fn", tile.REDUCE)
@pytest.mark.parametrize("dtype", [ty.f32, ty.bf16, ty.i32])
def test_reductions(fn, dtype):
    rng = np.random.default_rng(2)
    x = rng.permuted(np.arange(64)).reshape(4, 16).astype(dtype.numpy)
    result = ty.i32 if fn in tile.POSITIONS else dtype

    def make(b, v):
        return b.add(tile.Reduce(fn, v, 1, False, Value(TileType((4,), result))))

    got = apply(make, [dtype], [x], result, (4,))
    wide = x.astype(np.float64)
    expected = getattr(wide, fn)(1)
    assert np.array_equal(got, expected.astype(result.numpy))


@pytest.mark.parametrize("fn", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [ty.f16, ty.bf16, ty.f32, ty.f64])
def test_reductions_find_a_nan(fn, dtype):
    """Rows without one, with one, with some, with nothing else; as NumPy does."""
    x = np.random.default_rng(3).standard_normal((4, 16)).astype(np.float32)
    x[0, 3], x[1, 9], x[2, 4::3], x[3] = -np.inf, np.nan, -np.nan, np.nan
    result = ty.i32 if fn in tile.POSITIONS else dtype

    def make(b, v):
        return b.add(tile.Reduce(fn, v, 1, False, Value(TileType((4,), result))))

    got = apply(make, [dtype], [x.astype(dtype.numpy)], result, (4,)).astype(np.float64)
    wide = x.astype(dtype.numpy).astype(np.float64)
    np.testing.assert_array_equal(got, getattr(wide, fn)(1))
    assert got[1:].tolist() == [9, 4, 0] if fn in tile.POSITIONS else np.isnan(got).tolist() == [False, True, True, True]


@pytest.mark.parametrize("dtype", [ty.f16, ty.bf16, ty.f32, ty.f64])
def test_the_larger_of_a_number_and_a_nan_is_none(dtype):
    x, y = (np.array(row, dtype.numpy) for row in ([1, np.nan, 2, -np.nan, -np.inf], [0, 1, np.nan, np.nan, np.inf]))
    for fn, numbers in (("max", (1, np.inf)), ("min", (0, -np.inf))):
        got = apply(lambda b, x, y, fn=fn: b.binary(fn, x, y), [dtype, dtype], [x, y], dtype, (5,)).astype(np.float64)
        assert np.isnan(got[1:4]).all() and (got[0], got[4]) == numbers


def test_bf16_sums_accumulate_in_f32():
    x = np.full((1, 512), 1, ml_dtypes.bfloat16)
    got = apply(lambda b, v: b.add(tile.Reduce("sum", v, 1, True, Value(TileType((1, 1), ty.bf16)))),
                [ty.bf16], [x], ty.bf16, (1, 1))
    assert float(got[0, 0]) == 512  # adding up in bf16 would stop at 256


def test_reduction_to_a_scalar_is_a_number():
    b = Build()
    x, out = b.array(1, ty.i32), b.array(1, ty.i32)
    total = b.add(tile.Reduce("sum", b.load(at(x, (0, 5))), 0, False, Value(ty.I32)))
    b.store(at(out, total), b.binary("mul", total, 2))
    result = np.zeros(12, np.int32)
    simulate(b.done(), 1, [np.arange(5, dtype=np.int32), result])
    assert result[10] == 20


def test_cumsum_reshape_transpose_full_arange():
    b = Build()
    out = b.array(2, ty.i32)
    ramp = b.add(tile.Arange(Value(TileType((6,), ty.i32))))
    grid = b.add(tile.Reshape(ramp, Value(TileType((2, 3), ty.i32))))
    turned = b.add(tile.Transpose(grid, (1, 0), Value(TileType((3, 2), ty.i32))))
    sums = b.add(tile.CumSum(turned, 0, Value(TileType((3, 2), ty.i32))))
    ones = b.add(tile.Full(const(1), Value(TileType((3, 2), ty.i32))))
    same = b.add(tile.ConvertLayout(b.binary("add", sums, ones), "shuffle", Value(TileType((3, 2), ty.i32))))
    b.store(at(out, (0, 3), (0, 2)), same)
    result = np.zeros((3, 2), np.int32)
    simulate(b.done(), 1, [result])
    assert np.array_equal(result, np.cumsum(np.arange(6).reshape(2, 3).T, 0) + 1)


def test_narrow_scalars():
    b = Build()
    x = b.scalar(ty.bf16)
    out = b.array(1, ty.bf16)
    total = b.add(tile.Binary("add", x, const(0.001, ty.bf16), Value(ScalarType(ty.bf16))))
    b.store(at(out, 0), total)
    b.store(at(out, 1), b.cast(b.compare("lt", x, total, ty.bf16), ty.bf16))
    result = np.zeros(2, ml_dtypes.bfloat16)
    simulate(b.done(), 1, [1.0, result])
    assert result.astype(np.float32).tolist() == [1.0, 0.0]  # 0.001 is below the precision of bf16 at 1
