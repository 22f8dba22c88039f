"""The functions of tiles beyond arithmetic, in the simulator: against NumPy, and against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir import types as ty
from phalanx.ir.types import DType
from phalanx.sim.fused import fused

BF16 = ml_dtypes.bfloat16
FORMATS = {"f16": (11, -14), "bf16": (8, -126), "f32": (24, -126), "f64": (53, -1022)}
"""Bits of a number, and the exponent of the smallest normal one."""


def nearest(exact: Fraction, name: str) -> float:
    """A fraction in a float format: to nearest, ties to even."""
    bits, smallest = FORMATS[name]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, smallest) - bits + 1)
    rounded = round(size / unit) * unit
    beyond = Fraction(2) ** (3 - smallest) // 2
    return math.copysign(math.inf if rounded >= beyond else float(rounded), 1 if exact > 0 else -1)


def bits_of(rng: np.random.Generator, count: int, kind: Any) -> np.ndarray:
    size = np.dtype(kind).itemsize
    return rng.integers(0, 1 << 8 * size, count, dtype=np.uint64).astype(f"u{size}").view(kind)


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [ty.f16, ty.bf16, ty.f32, ty.f64], ids=str)
def test_fused_products_are_rounded_once(dtype: DType) -> None:
    """Numbers of every size, products that nearly cancel, and halves that a far smaller number decides."""
    rng, kind, bits = np.random.default_rng(5), dtype.numpy, FORMATS[dtype.name][0]
    with np.errstate(all="ignore"):
        a, b, c = (bits_of(rng, 3000, kind) for _ in range(3))
        b[:1000] = (1 + rng.integers(0, 1 << bits - 1, 1000) * 2.0 ** (1 - bits)).astype(kind)
        a[:1000] = (1 + rng.integers(0, 8, 1000) * 2.0 ** (1 - bits)).astype(kind)
        c[:500] = (rng.choice([-1, 1], 500) * 2.0 ** rng.integers(-20, 2, 500)).astype(kind)
        c[500:1000] = (-(a * b)[500:1000]).astype(kind)
        got = fused(dtype)(a, b, c).astype(np.float64)
        wide = [x.astype(np.float64).tolist() for x in (a, b, c)]
    twice = 0
    for x, y, z, result in zip(*wide, got.tolist(), strict=True):
        if not all(map(math.isfinite, (x, y, z))):
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        assert result == (nearest(exact, dtype.name) if exact else 0.0), (x, y, z)
        product = nearest(Fraction(x) * Fraction(y), dtype.name) if x * y else 0.0
        twice += math.isfinite(product) and result != nearest(Fraction(product) + Fraction(z) or Fraction(1), dtype.name)
    assert twice > 100  # numbers on which two roundings would show


@pytest.mark.parametrize("dtype", [ty.f16, ty.bf16, ty.f32, ty.f64], ids=str)
def test_fused_products_without_a_number(dtype: DType) -> None:
    inf, nan = math.inf, math.nan
    rows = [(inf, 1, 1, inf), (inf, 0, 1, nan), (inf, 1, -inf, nan), (nan, 1, 1, nan), (1, 1, nan, nan), (0, 0, 0, 0),
            (0, -1, -0.0, -0.0), (0, -1, 0.0, 0.0), (2, 3, -6, 0.0), (1, 1, -inf, -inf)]
    top = {"f16": 6e4, "bf16": 3e38, "f32": 3e38, "f64": 1e308}[dtype.name]
    rows += [(top, top, -inf, -inf), (top, top, -top, inf), (-top, top, 0, -inf)]
    a, b, c, want = (np.array(column, np.float64).astype(dtype.numpy) for column in zip(*rows, strict=True))
    with np.errstate(all="ignore"):
        got = fused(dtype)(a, b, c)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    zero = want == 0
    assert (np.signbit(got.astype(np.float64)) == np.signbit(want.astype(np.float64)))[zero].all()


@px.kernel
def elementwise(X, R, T, B, I, s, *, N):
    x = px.load(X[0:N])
    px.store(R[0:N], px.round(x))
    px.store(T[0:N], px.trunc(x))
    px.store(B[0:N], px.isnan(x))
    px.store(I[0:N], px.bitcast(x, px.i32))
    px.store(R[N], px.fma(s, s, 1.0))
    px.store(T[N], px.bitcast(px.bitcast(s, px.i32) + px.bitcast(1.0, px.i32), px.f32))
    px.store(B[N], px.isnan(s))


@px.kernel
def skips(X, F, Y, Z, *, M, N):
    x, f = px.load(X[0:M, 0:N]), px.load(F[0:M])
    px.store(Y[0:M, 0:N], px.multiply(x, f.reshape(M, 1), skip_ones=True))
    px.store(Z[0:M, 0:N], px.multiply(x, 3.0))


def test_products_that_skip_ones_are_products() -> None:
    rng = np.random.default_rng(3)
    x, f = rng.standard_normal((6, 8)).astype(np.float32), np.array([1, 1, 0.5, np.nan, np.inf, -0.0], np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    skips[1](x, f, y, z, M=6, N=8)
    np.testing.assert_array_equal(y, x * f[:, None])
    np.testing.assert_array_equal(z, x * np.float32(3))


def test_rounding_nan_and_bits() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -0.0, 1e30, np.nan, np.inf, -1.7, 2.4], np.float32)
    r, t, b, i = np.zeros(11, np.float32), np.zeros(11, np.float32), np.zeros(11, bool), np.zeros(10, np.int32)
    elementwise[1](x, r, t, b, i, 0.25, N=10)
    np.testing.assert_array_equal(r[:10], np.round(x))
    np.testing.assert_array_equal(t[:10], np.trunc(x))
    assert np.array_equal(np.signbit(r[:10]), np.signbit(np.round(x)))
    assert np.array_equal(b[:10], np.isnan(x)) and np.array_equal(i, x.view(np.int32))
    quarter, one = np.float32(0.25).view(np.int32), np.float32(1.0).view(np.int32)
    assert (r[10], b[10], t[10]) == (1.0625, False, np.int32(quarter + one).view(np.float32))


@px.kernel
def folds(X, Y, S, *, A, B, C):
    x = px.load(X[0:A, 0:B, 0:C])
    px.store(Y[0, 0:A, 0:B], px.any(x, 2))
    px.store(Y[1, 0:A, 0:B], px.all(x, axis=-1))
    if px.any(x > 5):
        px.store(S[0], 1)
    if not px.all(x < 100):
        px.store(S[1], 1)
    px.store(S[2:5], px.any(px.all(x, 2), 1, keepdims=True).reshape(A).to(px.i32))


def test_any_and_all() -> None:
    x = np.random.default_rng(1).integers(0, 4, (3, 5, 2)).astype(np.int32)
    y, s = np.zeros((2, 3, 5), bool), np.zeros(5, np.int32)
    folds[1](x, y, s, A=3, B=5, C=2)
    assert np.array_equal(y[0], x.any(2)) and np.array_equal(y[1], x.all(2))
    assert s.tolist() == [0, 0, *x.all(2).any(1)]


@px.kernel
def grids(X, Y, Z, *, M, N):
    x, y = px.load(X[0:M]), px.load(Y[0:N])
    z = x[:, None] - y[None]
    px.store(Z[0:M, 0:N], z[None, 0:M, :, None].reshape(M, N) + x[0:M, None])


def test_new_axes() -> None:
    x, y = np.arange(4, dtype=np.float32), np.arange(6, dtype=np.float32) * 10
    z = np.zeros((4, 6), np.float32)
    grids[1](x, y, z, M=4, N=6)
    assert np.array_equal(z, x[:, None] - y[None] + x[:, None])


# --- folds and scans by a function ----------------------------------------------------------------------------------


@px.func
def after(a, b):
    """First x -> a[0] x + a[1], then that of b: associative, and not commutative."""
    return a[0] * b[0], b[0] * a[1] + b[1]


@px.func
def shifted(a, b):
    return px.maximum(a, b - px.block_id(0)) + 0 * px.num_blocks(0)


@px.kernel
def affine(X, Y, R, S, *, M, N, AXIS):
    x, y = px.load(X[0:M, 0:N]), px.load(Y[0:M, 0:N])
    c, d = px.scan((x, y), AXIS, after)
    px.store(S[0, 0:M, 0:N], c)
    px.store(S[1, 0:M, 0:N], d)
    a, b = px.reduce((x, y), AXIS, after)
    if AXIS == 0:
        px.store(R[0, 0:N], a)
        px.store(R[1, 0:N], b)
    else:
        px.store(R[0, 0:M], a)
        px.store(R[1, 0:M], b)


def one_after_the_other(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = x.copy(), y.copy()
    for i in range(1, len(x)):
        a[i], b[i] = a[i - 1] * x[i], x[i] * b[i - 1] + y[i]
    return a, b


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 8), (5, 13), (33, 2)])
def test_folds_and_scans_keep_the_order(m: int, n: int, axis: int) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-4, 5, (m, n)).astype(np.int64) for _ in range(2))
    r, s = np.zeros((2, m if axis else n), np.int64), np.zeros((2, m, n), np.int64)
    affine[1](x, y, r, s, M=m, N=n, AXIS=axis)
    a, b = (np.moveaxis(v, 0, axis) for v in one_after_the_other(np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)))
    assert np.array_equal(s[0], a) and np.array_equal(s[1], b)
    assert np.array_equal(r[0], a.take(-1, axis)) and np.array_equal(r[1], b.take(-1, axis))


@px.kernel
def all_axes(X, R, Y, *, M, N):
    x = px.load(X[0:M, 0:N])
    px.store(R[0], px.reduce(x, None, px.maximum))
    px.store(R[1], px.reduce(x, -1, px.minimum, keepdims=True).shape[1])
    px.store(R[2], px.max(px.reduce(x, None, px.minimum, keepdims=True)))
    px.store(Y[0:M], px.reduce(x, 1, shifted))


@pytest.mark.parametrize(("m", "n"), [(4, 8), (3, 5)])
def test_folds_of_everything_and_values_from_around(m: int, n: int) -> None:
    x = np.random.default_rng(4).integers(-50, 50, (m, n)).astype(np.int32)
    r, y = np.zeros(3, np.int32), np.zeros(m, np.int32)
    all_axes[1](x, r, y, M=m, N=n)
    assert r.tolist() == [x.max(), 1, x.min()] and np.array_equal(y, x.max(1))


@px.func
def mixed(a, b):
    """Parts of several types; one of them is a number that does not depend on the elements."""
    return a[0] | b[0], px.where(b[0], b[1], a[1]), 7


@px.kernel
def latest(F, X, Y, Z, *, N):
    """The last element that is marked, everywhere."""
    flags = px.load(F[0:N])
    _, value, seven = px.scan((flags, px.load(X[0:N]), px.zeros((N,), px.u8)), 0, mixed)
    px.store(Y[0:N], value)
    px.store(Z[0:N], seven)


def test_elements_of_several_types() -> None:
    flags = np.array([0, 1, 0, 0, 1, 1, 0], bool)
    x, y, z = np.arange(7).astype(np.float16), np.zeros(7, np.float16), np.zeros(7, np.uint8)
    latest[1](flags, x, y, z, N=7)
    assert y.tolist() == [0, 1, 1, 1, 4, 5, 5] and z.tolist() == [0, 7, 7, 7, 7, 7, 7]


# --- the largest k --------------------------------------------------------------------------------------------------


@px.kernel
def largest(X, V, I, *, A, B, C, K, AXIS):
    x = px.load(X[0:A, 0:B, 0:C])
    values, indices = px.topk(x, K, AXIS)
    px.store(V.tile((0, 0, 0), values.shape), values)
    px.store(I.tile((0, 0, 0), values.shape), indices)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize(("k", "axis"), [(1, 0), (4, 1), (7, -1)])
def test_the_largest_in_order(k: int, axis: int, kind: Any) -> None:
    """Many equal ones, infinities and NaNs; a stable sort says which."""
    rng = np.random.default_rng(6)
    x = rng.integers(0, 4, (2, 5, 7)).astype(np.float32)
    if np.dtype(kind).kind == "f":
        x[rng.random(x.shape) < 0.2], x[rng.random(x.shape) < 0.2] = -np.inf, np.nan
    x = x.astype(kind)
    shape = list(x.shape)
    shape[axis] = k
    values, indices = np.zeros(shape, kind), np.full(shape, -1, np.int32)
    largest[1](x, values, indices, A=2, B=5, C=7, K=k, AXIS=axis)
    wide = x.astype(np.float64)
    rank = np.where(np.isnan(wide), np.inf, np.where(np.isinf(wide), -1e9, wide))
    order = np.argsort(-rank, axis=axis, kind="stable").take(range(k), axis)
    assert np.array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
