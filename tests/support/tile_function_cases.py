"""Kernels for the functions of tiles beyond arithmetic: places, truth, fused products, bits, folds, scans, the largest k."""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx as px
from phalanx.ir.types import DTYPES
from support.case_table import BF16, E4M3, E5M2, case, numbers, with_nans, zeros

# ---------------------------------------------------------------------- places and truth


@px.kernel(warps=lambda W: W)
def places(X, Y, Z, *, M, N, AXIS, W=4):
    x = px.load(X[0:M, 0:N])
    if AXIS == 0:
        px.store(Y[0:N], px.argmin(x, 0))
        px.store(Z[0:1, 0:N], px.argmin(x, 0, keepdims=True))
    else:
        px.store(Y[0:M], px.argmin(x, 1))
        px.store(Z[0:M, 0:1], px.argmin(x, 1, keepdims=True))


def _places(rng: np.random.Generator, m: int, n: int, axis: int, x: np.ndarray) -> list[Any]:
    return [x, zeros(m if axis else n, np.int32), zeros((m, 1) if axis else (1, n), np.int32)]


for m, n, warps in ((64, 64, 4), (24, 40, 3), (1, 1000, 4), (300, 5, 8)):
    for axis in (0, 1):
        case(
            f"argmin-{m}x{n}-axis{axis}",
            places,
            1,
            lambda rng, m=m, n=n, axis=axis: _places(rng, m, n, axis, numbers(rng, (m, n), np.float32)),
            M=m, N=n, AXIS=axis, W=warps,
        )
for kind in (np.float64, np.float32, np.float16, BF16):
    case(
        f"argmin-nan-{np.dtype(kind).name}",
        places,
        1,
        lambda rng, kind=kind: _places(rng, 32, 48, 1, with_nans(rng, 32, 48, kind)),
        M=32, N=48, AXIS=1,
    )
for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_):
    case(
        f"argmin-{np.dtype(kind).name}",
        places,
        1,
        lambda rng, kind=kind: _places(rng, 20, 70, 0, numbers(rng, (20, 70), kind)),
        M=20, N=70, AXIS=0,
    )


@px.kernel(warps=lambda W: W)
def truth(X, Y, Z, S, *, A, B, C, W=4):
    x = px.load(X[0:A, 0:B, 0:C])
    px.store(Y[0, 0:A, 0:B], px.any(x, 2))
    px.store(Y[1, 0:A, 0:B], px.all(x, 2))
    px.store(Z[0, 0:B, 0:C], px.any(x, 0))
    px.store(Z[1, 0:B, 0:C], px.all(x, -3, keepdims=True).reshape(B, C))
    px.store(S[0], px.any(x))
    px.store(S[1], px.all(x))


def _truth(rng: np.random.Generator, shape: tuple[int, int, int], kind: Any) -> list[Any]:
    x = numbers(rng, shape, kind)
    keep = rng.random(shape) < rng.choice([0.02, 0.98, 0.5], (shape[0], shape[1], 1))
    x = np.where(keep, x, np.zeros_like(x))
    if np.dtype(kind).kind not in "iub":
        x = np.where(rng.random(shape) < 0.05, np.asarray(np.nan).astype(kind), x)
    a, b, c = shape
    return [x.astype(kind), zeros((2, a, b), bool), zeros((2, b, c), bool), zeros(2, bool)]


for shape, kind, warps in (
    ((4, 8, 16), np.bool_, 4), ((3, 5, 7), np.bool_, 1), ((2, 64, 32), np.int32, 8), ((5, 3, 40), np.float32, 4),
    ((4, 4, 4), np.float16, 2), ((4, 4, 4), BF16, 2), ((4, 4, 4), E4M3, 2), ((2, 9, 4), np.uint8, 3),
    ((2, 9, 4), np.int64, 4), ((2, 9, 4), np.float64, 4),
):
    case(
        f"truth-{'x'.join(map(str, shape))}-{np.dtype(kind).name}",
        truth,
        1,
        lambda rng, shape=shape, kind=kind: _truth(rng, shape, kind),
        A=shape[0], B=shape[1], C=shape[2], W=warps,
    )


# ---------------------------------------------------------------------- fused products, rounding, NaN, bits


@px.kernel(warps=2)
def fused(A, B, C, Y, s, *, N=256):
    a, b, c = px.load(A[0:N]), px.load(B[0:N]), px.load(C[0:N])
    px.store(Y[0, 0:N], px.fma(a, b, c))
    px.store(Y[1, 0:N], px.fma(a, 1.5, -c))
    px.store(Y[2, 0:N], px.fma(a, b, 0.1))
    px.store(Y[3, 0], px.fma(A[0], B[0], C[0]))
    px.store(Y[3, 1:N], px.zeros((N - 1,), Y.dtype))


@px.kernel(warps=lambda W: W)
def skipped(X, F, G, Y, *, M, N, W=4):
    """Products that warps leave out where all their factors are 1: of rows, of all elements, of one number."""
    x = px.load(X[0:M, 0:N])
    y = px.multiply(x, px.load(F[0:M]).reshape(M, 1), skip_ones=True)
    px.store(Y[0, 0:M, 0:N], y)
    px.store(Y[1, 0:M, 0:N], px.multiply(x, px.load(G[0:M, 0:N]), skip_ones=True))
    px.store(Y[2, 0:M, 0:N], px.multiply(px.multiply(y, 1.0, skip_ones=True), G[0, 0], skip_ones=True))
    px.store(Y[3, 0:M, 0:N], px.multiply(x, 0.5))


def _factors(rng: np.random.Generator, shape: Any, kind: Any) -> np.ndarray:
    """Few that are not 1, among them infinities and NaNs."""
    some = numbers(rng, shape, np.float32)
    some = np.where(rng.random(shape) < 0.2, rng.choice([np.nan, np.inf, -0.0], shape), some)
    return np.where(rng.random(shape) < 0.02, some, 1.0).astype(kind)


for shape, kind, warps in (
    ((64, 64), np.float32, 4), ((5, 70), np.float32, 1), ((100, 24), np.float16, 8), ((33, 17), BF16, 4),
    ((48, 20), np.float64, 3),
):
    case(
        f"skipped-{'x'.join(map(str, shape))}-{np.dtype(kind).name}", skipped, 1,
        lambda rng, shape=shape, kind=kind: [
            numbers(rng, shape, kind), _factors(rng, shape[:1], kind), _factors(rng, shape, kind), zeros((4, *shape), kind),
        ],
        M=shape[0], N=shape[1], W=warps,
    )  # fmt: skip


def any_bits(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    """Elements of a float type with random bits: all exponents, infinities, NaNs."""
    kind = np.dtype(dtype)
    bits = rng.integers(0, 1 << 8 * kind.itemsize, shape, dtype=np.uint64)
    return bits.astype(f"u{kind.itemsize}").view(kind)


def _fused(rng: np.random.Generator, kind: Any) -> list[Any]:
    """Products that nearly cancel, halves that a tiny third number decides, numbers of every size."""
    with np.errstate(all="ignore"):
        a, b, c = (any_bits(rng, 256, kind) for _ in range(3))
        few = 2.0 ** -(7 if kind is BF16 else np.finfo(kind).nmant)
        a[:160] = (1 + rng.integers(0, 4, 160) * few).astype(kind)
        b[:160] = (1 + rng.integers(0, 256, 160) * few).astype(kind)
        c[:80] = (-(a[:80] * b[:80])).astype(kind)
        c[80:160] = (rng.choice([-1.0, 1.0], 80) * 2.0 ** rng.integers(-14, 0, 80)).astype(kind)
    a[160:168] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 0.0, -0.0]
    return [a, b, c, zeros((4, 256), kind), 0.5]


for kind in (np.float32, np.float64, np.float16, BF16):
    case(f"fma-{np.dtype(kind).name}", fused, 1, lambda rng, kind=kind: _fused(rng, kind))


@px.kernel(warps=lambda W: W)
def arithmetic(A, B, ROW, Y, s, *, M, N, W=2):
    """`+ - *` and what else works on two elements of 16 bits at once: of tiles, rows, columns, numbers and constants."""
    a, b, row = px.load(A[0:M, 0:N]), px.load(B[0:M, 0:N]), px.load(ROW[0:N])
    column, number = px.load(ROW[0:M])[:, None], px.load(ROW[1])
    px.store(Y[0, 0:M, 0:N], a + b)
    px.store(Y[1, 0:M, 0:N], a - row[None, :])
    px.store(Y[2, 0:M, 0:N], column * b)
    px.store(Y[3, 0:M, 0:N], px.maximum(a, 1.5) - px.minimum(column, b))
    px.store(Y[4, 0:M, 0:N], px.fma(a, row[None, :], -b))
    px.store(Y[5, 0:M, 0:N], (px.abs(b) - 136.1) * a + number)
    px.store(Y[6, 0, 0:N], -row + row * row)
    total = a
    for _ in range(3):
        total = total * b + a.T.T
    px.store(Y[7, 0:M, 0:N], total)


def _operands(rng: np.random.Generator, m: int, n: int, kind: Any) -> list[Any]:
    """Numbers of every size, those whose sums and products are rounded closely, and what is no number."""
    a, b = any_bits(rng, (m, n), kind), any_bits(rng, (m, n), kind)
    near = rng.random((m, n)) < 0.6
    a, b = (np.where(near, numbers(rng, (m, n), kind), x) for x in (a, b))
    small = np.float32(2.0**-130 if kind is BF16 else 2.0**-18)
    with np.errstate(all="ignore"):
        a[::3] = (a[::3].astype(np.float32) * small).astype(kind)
    row = np.concatenate([numbers(rng, max(m, n) - 8, kind), any_bits(rng, 8, kind)])
    return [a, b, row, zeros((8, m, n), kind), 0.5]


for kind in (np.float16, BF16, np.float32):
    for m, n, warps in ((16, 64, 2), (33, 17, 4), (24, 12, 1)):
        case(
            f"arithmetic-{m}x{n}-{np.dtype(kind).name}", arithmetic, 1,
            lambda rng, m=m, n=n, kind=kind: _operands(rng, m, n, kind),
            1e-6 if kind is np.float32 else 0,  # sums of products may be rounded once, as px.fma is
            M=m, N=n, W=warps,
        )  # fmt: skip


@px.kernel(warps=4)
def whole_numbers(X, Y, B, *, N=256):
    x = px.load(X[0:N])
    px.store(Y[0, 0:N], px.round(x))
    px.store(Y[1, 0:N], px.trunc(x))
    px.store(B[0:N], px.isnan(x))


def _halves(rng: np.random.Generator, kind: Any) -> list[Any]:
    x = (rng.integers(-40, 40, 256) / 4.0).astype(kind)
    x[:16] = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.nan, np.inf, -np.inf, 0.25, -0.25, 100.5, 101.5, -0.75, -1.0]
    x[16:64] = any_bits(rng, 48, kind)
    return [x, zeros((2, 256), kind), zeros(256, bool)]


for kind in (np.float32, np.float64, np.float16, BF16):
    case(f"round-{np.dtype(kind).name}", whole_numbers, 1, lambda rng, kind=kind: _halves(rng, kind))


@px.kernel(warps=2)
def nan_of_fp8(X, B, *, N=256):
    px.store(B[0:N], px.isnan(px.load(X[0:N])))


for kind in (E4M3, E5M2):
    case(
        f"isnan-{np.dtype(kind).name}",
        nan_of_fp8,
        1,
        lambda rng, kind=kind: [np.arange(256, dtype=np.uint8).view(kind), zeros(256, bool)],
    )


@px.kernel(warps=2)
def same_bits(X, Y, *, DTYPE, N=96):
    px.store(Y[0:N], px.bitcast(px.load(X[0:N]), DTYPE))
    px.store(Y[N], px.bitcast(X[3], DTYPE))
    px.store(Y[N + 1], px.bitcast(px.bitcast(X[4], DTYPE), X.dtype).to(DTYPE))


_BITS = {
    "f64": "i64", "i64": "u64", "u64": "f64", "f32": "i32", "i32": "u32", "u32": "f32", "f16": "u16", "u16": "bf16",
    "bf16": "i16", "i16": "f16", "f8e4m3": "u8", "u8": "f8e5m2", "f8e5m2": "i8", "i8": "f8e4m3",
}
for source, target in _BITS.items():
    case(
        f"bitcast-{source}-{target}",
        same_bits,
        1,
        lambda rng, a=DTYPES[source], b=DTYPES[target]: [
            numbers(rng, 96, a.numpy, 30.0), zeros(98, b.numpy)
        ],
        DTYPE=DTYPES[target],
    )


# ---------------------------------------------------------------------- new axes


@px.kernel(warps=4)
def new_axes(X, Y, Z, W, *, M, N):
    x, y = px.load(X[0:M]), px.load(Y[0:N])
    z = x[:, None] * y[None, :] + x[:, None][:, 0:1]
    px.store(Z[0:M, 0:N], z)
    px.store(W[0:M, 0, 0:N], (z[:, None, :] - y[None, None]).reshape(M, N))


for m, n in ((32, 64), (7, 33), (1, 100)):
    case(
        f"axes-{m}x{n}",
        new_axes,
        1,
        lambda rng, m=m, n=n: [
            numbers(rng, m, np.float32), numbers(rng, n, np.float32), zeros((m, n)), zeros((m, 1, n))
        ],
        1e-6,
        M=m, N=n,
    )


# ---------------------------------------------------------------------- folds and scans by a function


@px.func
def after(a, b):
    """First x -> a[0] x + a[1], then that of b: associative, and not commutative."""
    return a[0] * b[0], b[0] * a[1] + b[1]


@px.func
def either(a, b):
    return a ^ b


@px.func
def better(a, b):
    """The larger number and its place, the first of equals."""
    takes = b[0] > a[0]
    return px.where(takes, b[0], a[0]), px.where(takes, b[1], a[1])


@px.func
def together(a, b):
    """Count, mean and sum of squared differences of two samples."""
    n = a[0] + b[0]
    d = b[1] - a[1]
    return n, a[1] + d * (b[0] / n), a[2] + b[2] + d * d * (a[0] * b[0] / n)


@px.func
def heavier(a, b):
    """The maximum of exponents, and the sum of exponentials relative to it."""
    top = px.maximum(a[0], b[0])
    return top, a[1] * px.exp(a[0] - top) + b[1] * px.exp(b[0] - top)


@px.func
def first(a, b):
    """Whatever comes first."""
    return a


@px.func
def last(a, b):
    return b


@px.kernel(warps=lambda W: W)
def affine(X, Y, R, S, T, *, M, N, AXIS, W=4):
    x, y = px.load(X[0:M, 0:N]), px.load(Y[0:M, 0:N])
    a, b = px.reduce((x, y), AXIS, after)
    c, d = px.scan((x, y), AXIS, after)
    px.store(S[0:M, 0:N], c)
    px.store(T[0:M, 0:N], d)
    if AXIS == 0:
        px.store(R[0, 0:N], a)
        px.store(R[1, 0:N], b)
        px.store(R[2, 0:N], px.reduce(y, 0, first) - px.reduce(y, 0, last))
    else:
        px.store(R[0, 0:M], a)
        px.store(R[1, 0:M], b)
        px.store(R[2, 0:M], px.reduce(y, 1, first, keepdims=True).reshape(M) - px.reduce(y, 1, last))


for m, n, warps in (
    (16, 64, 4), (1, 1024, 4), (100, 9, 4), (24, 40, 6), (2, 5, 1), (1, 4096, 8), (7, 130, 3), (65, 33, 2), (3, 1000, 16),
    (1, 1, 1), (64, 64, 1),
):
    for axis in (0, 1):
        case(
            f"affine-{m}x{n}-axis{axis}-w{warps}",
            affine,
            1,
            lambda rng, m=m, n=n, axis=axis: [
                numbers(rng, (m, n), np.int32), numbers(rng, (m, n), np.int32),
                zeros((3, m if axis else n), np.int32), zeros((m, n), np.int32), zeros((m, n), np.int32),
            ],
            M=m, N=n, AXIS=axis, W=warps,
        )


@px.kernel(warps=lambda W: W)
def statistics(X, Y, S, *, M, N, W=4):
    x = px.load(X[0:M, 0:N])
    n, mean, squares = px.reduce((px.full((M, N), 1.0, px.f32), x, px.zeros((M, N), px.f32)), 1, together)
    px.store(Y[0, 0:M], mean)
    px.store(Y[1, 0:M], squares / n)
    top, total = px.reduce((x, px.full((M, N), 1.0, px.f32)), 1, heavier)
    px.store(Y[2, 0:M], top + px.log(total))
    value, place = px.reduce((x, px.arange(N)[None, :] + px.zeros((M, N), px.i32)), 1, better)
    px.store(Y[3, 0:M], value + place.to(px.f32))
    px.store(S[0], px.reduce(x, None, px.minimum))
    px.store(S[1], px.reduce(px.bitcast(x, px.i32), None, either).to(px.f32))


for m, n, warps in ((4, 256, 4), (1, 1000, 8), (33, 20, 3), (128, 8, 4), (1, 31, 2)):
    case(
        f"fold-{m}x{n}-w{warps}",
        statistics,
        1,
        lambda rng, m=m, n=n: [numbers(rng, (m, n), np.float32), zeros((4, m)), zeros(2)],
        4e-6,
        M=m, N=n, W=warps,
    )


@px.kernel(warps=lambda W: W)
def three_axes(X, Y, Z, S, *, A, B, C, AXIS, W=4):
    x = px.load(X[0:A, 0:B, 0:C])
    px.store(Y[0:A, 0:B, 0:C], px.scan(x, AXIS, either))
    y = px.reduce(x, AXIS, either, keepdims=True)
    px.store(Z[0:A, 0:B, 0:C], x ^ y)
    px.store(S[0], px.reduce(x, None, last))


for shape in ((4, 8, 16), (3, 5, 7), (2, 64, 32)):
    for axis in range(3):
        case(
            f"fold-{'x'.join(map(str, shape))}-axis{axis}",
            three_axes,
            1,
            lambda rng, s=shape: [numbers(rng, s, np.int32), zeros(s, np.int32), zeros(s, np.int32), zeros(1, np.int32)],
            A=shape[0], B=shape[1], C=shape[2], AXIS=axis,
        )


@px.kernel(warps=4)
def extremes(X, Y, Z, *, M=6, N=200):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:M, 0:N], px.scan(x, 1, px.maximum))
    px.store(Z[0:M], px.reduce(x, 1, px.minimum))


for kind in (np.float64, np.float32, np.float16, BF16):
    case(
        f"scan-max-{np.dtype(kind).name}",
        extremes,
        1,
        lambda rng, kind=kind: [with_nans(rng, 6, 200, kind), zeros((6, 200), kind), zeros(6, kind)],
    )
for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_):
    case(
        f"scan-max-{np.dtype(kind).name}",
        extremes,
        1,
        lambda rng, kind=kind: [numbers(rng, (6, 200), kind), zeros((6, 200), kind), zeros(6, kind)],
    )


# ---------------------------------------------------------------------- the largest k


@px.kernel(warps=lambda W: W)
def largest(X, V, I, *, M, N, K, AXIS, W=4):
    values, indices = px.topk(px.load(X[0:M, 0:N]), K, AXIS)
    if AXIS == 0:
        px.store(V[0:K, 0:N], values)
        px.store(I[0:K, 0:N], indices)
    else:
        px.store(V[0:M, 0:K], values)
        px.store(I[0:M, 0:K], indices)


def _largest(x: np.ndarray, k: int, axis: int) -> list[Any]:
    shape = (x.shape[0], k) if axis else (k, x.shape[1])
    return [x, zeros(shape, x.dtype), zeros(shape, np.int32)]


for m, n, k, axis, warps in (
    (64, 64, 8, 1, 4), (16, 40, 5, 0, 4), (1, 1000, 16, 1, 8), (33, 7, 7, 1, 2), (128, 16, 2, 0, 1), (3, 300, 1, 1, 6),
    (5, 5, 5, 0, 4), (1, 2048, 3, 1, 4),
):
    case(
        f"topk-{k}-of-{m}x{n}-axis{axis}-w{warps}",
        largest,
        1,
        lambda rng, m=m, n=n, k=k, axis=axis: _largest(numbers(rng, (m, n), np.float32), k, axis),
        M=m, N=n, K=k, AXIS=axis, W=warps,
    )
for kind in (np.float64, np.float32, np.float16, BF16):
    case(
        f"topk-nan-{np.dtype(kind).name}",
        largest,
        1,
        lambda rng, kind=kind: _largest(with_nans(rng, 8, 24, kind), 20, 1),
        M=8, N=24, K=20, AXIS=1,
    )
for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_):
    case(
        f"topk-{np.dtype(kind).name}",
        largest,
        1,
        lambda rng, kind=kind: _largest(numbers(rng, (6, 50), kind), 9, 1),
        M=6, N=50, K=9, AXIS=1,
    )


# ---------------------------------------------------------------------- beside other instructions


@px.func
def plus_block(a, b):
    return px.maximum(a, b) + 0 * (px.block_id(0) + px.num_blocks(0))


@px.kernel(warps=lambda W: W)
def normalised(X, Y, Z, R, *, M, N, W=4):
    """Results go back to the rows that they came from, and to arrays that lie otherwise; loops and barriers around."""
    for turn in range(2):
        x = px.load(X[0:M, 0:N]) + turn
        n, mean, squares = px.reduce(
            (px.full((M, N), 1.0, px.f32), x, px.zeros((M, N), px.f32)), 1, together, keepdims=True
        )
        px.store(Y[0:M, 0:N], (x - mean) * px.rsqrt(squares / n + 1e-5))
        value, place = px.reduce((x.T, px.arange(N)[:, None] + px.zeros((N, M), px.i32)), 0, better)
        px.store(R[turn, 0:M], px.cumsum(value, 0) + place.to(px.f32))
        px.store(Z[0:N, 0:M], px.scan(px.cumsum(x, 1), 0, px.maximum).T)


for m, n, warps in ((16, 64, 4), (24, 40, 3), (5, 300, 8)):
    case(
        f"beside-{m}x{n}-w{warps}",
        normalised,
        1,
        lambda rng, m=m, n=n: [numbers(rng, (m, n), np.float32), zeros((m, n)), zeros((n, m)), zeros((2, m))],
        2e-5,
        M=m, N=n, W=warps,
    )


@px.kernel(warps=4)
def from_nothing(Y, Z, S, *, N):
    """Tiles that are computed again wherever they are needed, of several sizes."""
    r = px.arange(N)
    a, b = px.scan((r.to(px.i64), r + 1), 0, either_pair)
    px.store(Y[0:N], a)
    px.store(Z[0:N], b)
    c, d = px.reduce((r.to(px.u8), r * r), 0, either_pair)
    px.store(S[0], c.to(px.i32) + d)
    px.store(S[1], px.reduce(r, 0, plus_block))
    px.store(Z[N : 2 * N], px.cumsum(r, 0))


@px.func
def either_pair(a, b):
    return a[0] ^ b[0], a[1] ^ b[1]


for n in (7, 64, 1000, 4096):
    case(
        f"beside-nothing-{n}",
        from_nothing,
        2,
        lambda rng, n=n: [zeros(n, np.int64), zeros(2 * n, np.int32), zeros(2, np.int32)],
        N=n,
    )


@px.kernel(warps=8)
def in_roles(X, V, I, Y, *, N=96):
    with px.warps(0, 4):
        for row in range(3):
            values, indices = px.topk(px.load(X[row, 0:N]), 4, 0)
            px.store(V[row, 0:4], values)
            px.store(I[row, 0:4], indices)
    with px.warps(5, 3):
        for row in range(3):
            y = px.scan(px.load(X[row, 0:N]), 0, px.maximum)
            px.store(Y[row, 0:N], px.where(px.any(y > 1.0), px.cumsum(y, 0), y))


case(
    "beside-roles",
    in_roles,
    1,
    lambda rng: [numbers(rng, (3, 96), np.float32), zeros((3, 4)), zeros((3, 4), np.int32), zeros((3, 96))],
    4e-6,
)


@px.kernel(warps=4)
def of_products(A, B, Y, Z, V, *, M=64, N=32, K=32):
    """What tensor cores leave lies in a layout of their own."""
    a, b = px.shared((M, K), px.bf16), px.shared((N, K), px.bf16)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    acc = px.dot(px.load(a), px.load(b).T, px.zeros((M, N), px.f32))
    px.store(Y[0:M, 0:N], px.scan(acc, 1, px.maximum))
    px.store(Z[0:N], px.reduce(acc, 0, px.minimum))
    values, _ = px.topk(acc, 3, 1)
    px.store(V[0:M, 0:3], values)


case(
    "beside-products",
    of_products,
    1,
    lambda rng: [numbers(rng, (64, 32), BF16), numbers(rng, (32, 32), BF16), zeros((64, 32)), zeros(32), zeros((64, 3))],
    1e-5,
)


@px.kernel(warps=4)
def narrow_first(X, Y, *, M=12, N=70):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:M], px.reduce(x, 1, last))
    px.store(Y[M : M + N], px.reduce(x, 0, first))


for kind in (E4M3, E5M2, np.bool_):
    case(
        f"beside-{np.dtype(kind).name}",
        narrow_first,
        1,
        lambda rng, kind=kind: [numbers(rng, (12, 70), kind), zeros(82, kind)],
    )
