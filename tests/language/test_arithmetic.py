"""Promotion, broadcasting, bare numbers, conversions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import DTYPES, DType
from phalanx.language.operators import adapted, folded, promote

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
TABLE = PAGE.read_text().split("## Element types")[1].split("```")[1]
"""The table of promotions: row + column; "-" is an error."""
_HEADER, *_ROWS = (line.split() for line in TABLE.strip().splitlines())
ENTRIES = [(row[0], column, result) for row in _ROWS for column, result in zip(_HEADER, row[1:])]


def test_the_table_is_complete_and_symmetric() -> None:
    computing = [name for name, dtype in DTYPES.items() if not dtype.is_storage]
    assert {(a, b) for a, b, _ in ENTRIES} == set(itertools.product(computing, computing))
    answers = {(a, b): result for a, b, result in ENTRIES}
    assert all(answers[a, b] == answers[b, a] for a, b in answers)


@pytest.mark.parametrize(("a", "b", "result"), ENTRIES)
def test_promotion(a: str, b: str, result: str) -> None:
    assert promote(DTYPES[a], DTYPES[b]) == (None if result == "-" else DTYPES[result])


@pytest.mark.parametrize("small", [name for name, dtype in DTYPES.items() if dtype.is_storage])
def test_small_floats_are_not_computed_with(small: str) -> None:
    assert all(promote(DTYPES[small], other) is None and promote(other, DTYPES[small]) is None for other in DTYPES.values())


@pytest.mark.parametrize(
    ("number", "strong", "result"),
    [
        (1, "f16", "f16"), (1.5, "f16", "f16"), (1.5, "i32", "f32"), (1.5, "bool", "f32"), (2, "bool", "i32"),
        (1, "u8", "u8"), (300, "u8", "i32"), (-1, "u8", "i32"), (-1, "u32", "i64"), (2**40, "i32", "i64"),
        (True, "i16", "i16"), (True, "bool", "bool"), (7, "i64", "i64"), (1, "f8e4m3", None), (2**40, "bf16", "bf16"),
    ],
)  # fmt: skip
def test_bare_numbers_adapt(number: Any, strong: str, result: str | None) -> None:
    weak = px.bool if isinstance(number, bool) else px.f32 if isinstance(number, float) else px.i32
    if isinstance(number, int) and abs(number) >= 2**31:
        weak = px.i64
    assert adapted(number, weak, DTYPES[strong]) == (None if result is None else DTYPES[result])


@pytest.mark.parametrize(
    ("value", "dtype", "result"),
    [
        (3.9, px.i32, 3), (-3.9, px.i32, -3), (1e20, px.i32, 2**31 - 1), (float("nan"), px.i32, 0),
        (float("-inf"), px.u8, 0), (300, px.u8, 44), (-1, px.u8, 255), (2**31, px.i32, -(2**31)), (0.0, px.bool, False),
        (0.5, px.bool, True), (1000.0, px.f8e4m3, 448.0), (-1e9, px.f8e5m2, -57344.0),
        (5.1, px.f4e2m1, 6.0), (float("nan"), px.f6e3m2, 28.0), (-3, px.f8e8m0, 4.0), (0, px.f8e8m0, 2.0**-127),
        (3, px.f32, 3.0),
    ],
)  # fmt: skip
def test_constants_convert_as_the_hardware_does(value: Any, dtype: DType, result: Any) -> None:
    assert folded(value, dtype) == result and type(folded(value, dtype)) is type(result)


NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i32": np.int32, "u8": np.uint8, "i8": np.int8,
}  # fmt: skip


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(NUMPY, 2)))
def test_tiles_of_mixed_types_compute_in_the_promoted_type(a: str, b: str) -> None:
    out = promote(DTYPES[a], DTYPES[b])
    assert out is not None

    @px.kernel(warps=1)
    def add(X, Y, Z):
        px.store(Z[0:8], px.load(X[0:8]) + px.load(Y[0:8]))

    rng = np.random.default_rng(1)
    x, y = rng.integers(-50, 50, 8).astype(NUMPY[a]), rng.integers(0, 50, 8).astype(NUMPY[b])
    z = np.zeros(8, out.numpy)
    add[1](x, y, z)
    wide = np.float32 if out.is_float else out.numpy
    want = x.astype(out.numpy).astype(wide) + y.astype(out.numpy).astype(wide)
    np.testing.assert_array_equal(z, want.astype(out.numpy))


SHAPES = [((4,), (4,)), ((4, 1), (8,)), ((2, 1, 4), (8, 1)), ((1,), (4, 4)), ((2, 4), (1, 4)), ((4, 8), ())]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_broadcasting_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    shape = np.broadcast_shapes(left, right)

    @px.kernel(warps=1)
    def combine(Z, *, L, R, SHAPE):
        size = 1
        for n in L:
            size = size * n
        a = px.arange(size).reshape(L)
        other = 1
        for n in R:
            other = other * n
        b = 3
        if len(R) > 0:
            b = px.arange(other).reshape(R) * 10
        offsets = (0,) * len(SHAPE)
        c = a - b
        px.store(Z.tile(offsets, SHAPE), px.where(c > 0, c, a * 2))

    z = np.zeros(shape, np.int32)
    combine[1](z, L=left, R=right, SHAPE=shape)
    a = np.arange(np.prod(left)).reshape(left)
    b = np.arange(np.prod(right)).reshape(right) * 10 if right else np.array(3)
    np.testing.assert_array_equal(z, np.where(a - b > 0, a - b, a * 2))


def test_conversions() -> None:
    @px.kernel(warps=1)
    def convert(X, H, I, F8, n):
        x = px.load(X[0:4])
        px.store(H[0:4], x.to(px.f16))
        px.store(I[0:4], x.to(px.i32) + px.i32(2.9) + px.i32(n))
        px.store(F8[0:4], x.to(px.f8e4m3))

    x = np.array([1.0009766, -2.7, 1e6, 70000], np.float32)
    h, i, f8 = np.zeros(4, np.float16), np.zeros(4, np.int32), np.zeros(4, ml_dtypes.float8_e4m3fn)
    convert[1](x, h, i, f8, 3.99)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(h, x.astype(np.float16))
    assert i.tolist() == [1 + 5, -2 + 5, 10**6 + 5, 70005]
    assert f8.astype(np.float32).tolist() == [1, -2.75, 448, 448]


def test_typed_constants_keep_their_type() -> None:
    @px.kernel
    def wide(OUT, n):
        x = px.i64(1)
        for _ in range(n):
            x = x * 3
        px.store(OUT[0], x)
        px.store(OUT[1], n.to(px.i64) * 2**33)

    out = np.zeros(2, np.int64)
    wide[1](out, 30)
    assert out.tolist() == [3**30, 30 * 2**33]


def test_integers_wrap() -> None:
    @px.kernel
    def wrap(OUT, n):
        px.store(OUT[0], n * n)
        px.store(OUT[1], n + 2147483647)

    out = np.zeros(2, np.int32)
    wrap[1](out, 70000)
    assert out.tolist() == [70000 * 70000 - 2**32, 70000 + 2**31 - 1 - 2**32]


def test_a_nan_among_constants_is_the_larger_and_the_smaller() -> None:
    @px.kernel(warps=1)
    def extremes(OUT, x):
        nan = float("nan")
        px.store(OUT[0], px.maximum(nan, 1.0))
        px.store(OUT[1], px.maximum(1.0, nan))
        px.store(OUT[2], px.minimum(1.0, nan))
        px.store(OUT[3], px.maximum(x, nan))
        px.store(OUT[4], px.minimum(nan, x))
        px.store(OUT[5], px.maximum(2, 3.5))

    out = np.zeros(6, np.float32)
    extremes[1](out, 1.5)
    assert np.isnan(out[:5]).all() and out[5] == 3.5


def test_bool_arithmetic_counts() -> None:
    @px.kernel(warps=1)
    def count(X, OUT):
        x = px.load(X[0:8])
        positive = x > 0
        px.store(OUT[0], px.sum(positive, 0))
        px.store(OUT[1], px.sum(positive + (x > 3), 0))
        px.store(OUT[2], px.sum(px.maximum(positive, x < -2), 0))
        px.store(OUT[3], px.sum(positive & (x > 3) | (x == 0), 0))

    x = np.array([-4, -1, 0, 1, 2, 3, 4, 5], np.int32)
    out = np.zeros(4, np.int32)
    count[1](x, out)
    assert out.tolist() == [5, 7, 6, 3]


def test_reductions_and_their_shapes() -> None:
    @px.kernel(warps=1)
    def reduce(X, A, B, C, *, M, N):
        x = px.load(X[0:M, 0:N])
        px.store(A[0:M], px.max(x, axis=1))
        px.store(B[0:1, 0:N], px.sum(x, axis=0, keepdims=True))
        px.store(C[0], px.sum(x))
        px.store(C[1], px.min(x))
        px.store(C[2], px.max(x, keepdims=True).reshape(1).T.shape[0])
        px.store(C[3], px.max(px.cumsum(x, 1)[0:M, 0:N]))

    x = np.arange(32, dtype=np.int32).reshape(4, 8) - 5
    a, b, c = np.zeros(4, np.int32), np.zeros((1, 8), np.int32), np.zeros(4, np.int32)
    reduce[1](x, a, b, c, M=4, N=8)
    np.testing.assert_array_equal(a, x.max(1))
    np.testing.assert_array_equal(b, x.sum(0, keepdims=True))
    assert c.tolist() == [x.sum(), x.min(), 1, np.cumsum(x, 1).max()]
