"""Tile kernels at the edges: the largest and smallest numbers, starts far outside arrays, tiles of many bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px
from support.case_table import BF16, E4M3, E5M2, aligned, case, numbers, zeros

QUICK = (
    "turned-float32-64x128-w4", "turned-bfloat16-64x256-w4", "packed-bool-16x64", "packed-int8-3x48", "masks-16x64",
    "filled-int16-21", "filled-uint8-16", "wrapping-int8", "wrapping-int32", "wrapping-uint16", "wrapping_scalars-int16",
    "wrapping_scalars-int64", "shifted-int32", "shifted-uint8", "float_divisions-float32-inf", "float_divisions-bfloat16--3",
    "narrow_constants-f16-1.0004882821813226", "narrow_constants-f16-65519.99999", "narrow_constants-f8e4m3-1.06250001",
    "truths_as_floats-f32", "truths_as_floats-f16",
    "carried-bfloat16-16x64", "carried-int8-16x64", "carried-uint16-16x64", "carried-float8_e5m2-3x48", "carried-bool-16x64",
    "limited-4x256-3-100", "limited-4x256--2147483648-2147483647", "limited-4x80--1-0",
    "anywhere-int32-32", "anywhere-int64-30", "anywhere-uint32-30", "rows_anywhere-int64",
)
"""Those that run with every test; the others take long."""
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = (np.float16, BF16, np.float32, np.float64)


def called(kind: Any) -> str:
    return np.dtype(kind).name


# ---------------------------------------------------------------------- tiles that move in several rounds


@px.kernel(warps=lambda W: W)
def turned(X, Y, *, M, N, W=4):
    px.store(Y[0:N, 0:M], px.load(X[0:M, 0:N]).T)


for kind, m, n, warps in (
    (np.float32, 64, 128, 4), (np.float32, 64, 256, 4), (np.float32, 256, 64, 4), (BF16, 64, 256, 4),
    (BF16, 128, 256, 8), (np.float64, 256, 64, 4), (np.uint8, 128, 256, 4), (np.float32, 100, 100, 3),
    (np.float32, 130, 70, 8), (BF16, 200, 100, 2), (np.float64, 48, 100, 1),
):  # fmt: skip
    case(
        f"turned-{called(kind)}-{m}x{n}-w{warps}", turned, 1,
        lambda rng, kind=kind, m=m, n=n: [numbers(rng, (m, n), kind), zeros((n, m), kind)],
        M=m, N=n, W=warps,
    )  # fmt: skip


# ---------------------------------------------------------------------- elements that share a word


@px.kernel(warps=4)
def packed(X, Y, Z, n, *, M, N):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:M, 0:N], x)
    for i in range(n):
        px.store(Z[i, 0:M, 0:N], px.keep(x))


@px.kernel(warps=4)
def masks(X, Y, Z, C, *, M, N):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:M, 0:N], px.where(x, 1.0, 0.0))
    px.store(Z[0:M, 0:N], px.keep(x) & (px.load(Z[0:M, 0:N]) | x))
    px.store(C[0:M], px.sum(x.to(px.i32), 1))


@px.kernel(warps=4)
def carried(X, Y, Z, n, *, M, N):
    """Two tiles that a loop swaps and a branch replaces: cells of elements that share words."""
    a, b = px.load(X[0:M, 0:N]), px.load(Y[0:M, 0:N])
    before = a
    for i in range(n):
        before = a
        a, b = b, a
        if i == 1:
            b = px.load(Z[0, 0:M, 0:N])
    px.store(X[0:M, 0:N], a)
    px.store(Y[0:M, 0:N], b)
    px.store(Z[1, 0:M, 0:N], before)


for kind in (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.float16, BF16, E4M3, E5M2):
    for m, n in ((16, 64), (3, 48)):
        case(
            f"carried-{called(kind)}-{m}x{n}", carried, 1,
            lambda rng, kind=kind, m=m, n=n: [
                aligned(numbers(rng, (m, n), kind)), aligned(numbers(rng, (m, n), kind)),
                aligned(numbers(rng, (2, m, n), kind)), 3,
            ],
            M=m, N=n,
        )  # fmt: skip


for kind in (np.bool_, np.int8, np.uint8, np.int16, np.uint16, BF16, E5M2):
    for m, n in ((16, 64), (3, 48)):
        case(
            f"packed-{called(kind)}-{m}x{n}", packed, 1,
            lambda rng, kind=kind, m=m, n=n: [
                aligned(numbers(rng, (m, n), kind)), aligned(zeros((m, n), kind)), aligned(zeros((2, m, n), kind)), 2,
            ],
            M=m, N=n,
        )  # fmt: skip
for m, n in ((16, 64), (8, 128), (4, 40)):
    case(
        f"masks-{m}x{n}", masks, 1,
        lambda rng, m=m, n=n: [
            aligned(numbers(rng, (m, n), np.bool_)), zeros((m, n)), aligned(numbers(rng, (m, n), np.bool_)),
            zeros(m, np.int32),
        ],
        M=m, N=n,
    )  # fmt: skip


@px.kernel(warps=1)
def filled(X, Y, Z, S, *, N, FILL):
    px.store(Y[0:N], px.load(X[0:N], fill=FILL))
    px.store(Z[0:N], px.load(X[8 : 8 + N], fill=px.load(S[1])))


for kind, fill in (
    (np.int8, -7), (np.uint8, 200), (np.int16, 7), (np.uint16, 65535), (np.bool_, 1), (np.float16, 1.5), (BF16, -2.0),
    (E4M3, 0.5), (np.int32, -1), (np.int64, -(2**40)), (np.float64, 0.1),
):  # fmt: skip
    for inside in (16, 21):
        case(
            f"filled-{called(kind)}-{inside}", filled, 1,
            lambda rng, kind=kind, inside=inside: [
                aligned(numbers(rng, inside, kind)), aligned(zeros(48, kind)), aligned(zeros(48, kind)),
                numbers(rng, 2, kind),
            ],
            N=48, FILL=fill,
        )  # fmt: skip


# ---------------------------------------------------------------------- integers


def extremes_of(kind: Any) -> np.ndarray:
    """The smallest and largest numbers of a type, and some about 0: 16 of them."""
    info = np.iinfo(kind)
    bits = info.bits
    about = [0, 1, 2, 3, 5, 7, 10, bits - 1, bits, bits + 1, 2 ** (bits - 2), info.max - 1, info.max, info.min]
    about += [info.min + 1, info.max // 3] if info.min == 0 else [-1, -7]
    return np.array(about).astype(kind)


def pairs_of(kind: Any) -> list[np.ndarray]:
    """Every pair of extremes."""
    numbers = extremes_of(kind)
    a, b = np.meshgrid(numbers, numbers)
    return [aligned(np.ascontiguousarray(a)), aligned(np.ascontiguousarray(b))]


@px.kernel(warps=1)
def wrapping(X, Y, Z, *, M=16, N=16):
    x = px.load(X[0:M, 0:N])
    y = px.load(Y[0:M, 0:N])
    px.store(Z[0, 0:M, 0:N], x + y)
    px.store(Z[1, 0:M, 0:N], x - y)
    px.store(Z[2, 0:M, 0:N], x * y)
    px.store(Z[3, 0:M, 0:N], -x)
    px.store(Z[4, 0:M, 0:N], px.abs(x))
    px.store(Z[5, 0:M, 0:N], x << y)
    px.store(Z[6, 0:M, 0:N], x >> y)
    px.store(Z[7, 0:M, 0:N], px.where(y == 0, y, x // px.where(y == 0, y + 1, y)))
    px.store(Z[8, 0:M, 0:N], px.where(y == 0, y, x % px.where(y == 0, y + 1, y)))
    px.store(Z[9, 0, 0:N], px.sum(x, 0))
    px.store(Z[10, 0:M, 0:N], px.cumsum(y, 1))


@px.kernel(warps=1)
def wrapping_scalars(X, Z, *, N=16):
    for i in range(N):
        x = px.load(X[i])
        for j in range(N):
            y = px.load(X[j])
            px.store(Z[0, i, j], x + y)
            px.store(Z[1, i, j], x - y)
            px.store(Z[2, i, j], x * y)
            px.store(Z[3, i, j], x << y)
            px.store(Z[4, i, j], x >> y)
            if y != 0:
                px.store(Z[5, i, j], x // y)
                px.store(Z[6, i, j], x % y)
            px.store(Z[7, i, j], (-x) >> 1)  # the type's own bits, although C++ computes narrow ones in int
            px.store(Z[8, i, j], px.abs(x) // 2)
            px.store(Z[9, i, j], (x + y) // 4)


@px.kernel(warps=1)
def shifted(X, Z, *, COUNTS, N=16):
    x = px.load(X[0:N])
    s = px.load(X[4])
    for k in px.static_range(len(COUNTS)):
        px.store(Z[k, 0:N], x << COUNTS[k])
        px.store(Z[k, N : 2 * N], x >> COUNTS[k])
        px.store(Z[k, 2 * N], s << COUNTS[k])
        px.store(Z[k, 2 * N + 1], (-s) >> COUNTS[k])


for kind in INTEGERS:
    bits = np.iinfo(kind).bits
    case(f"wrapping-{called(kind)}", wrapping, 1, lambda rng, kind=kind: [*pairs_of(kind), zeros((11, 16, 16), kind)])
    case(
        f"wrapping_scalars-{called(kind)}", wrapping_scalars, 1,
        lambda rng, kind=kind: [extremes_of(kind), zeros((10, 16, 16), kind)],
    )  # fmt: skip
    counts = (1, bits - 1, bits, bits + 1) if np.iinfo(kind).min == 0 else (1, bits - 1, bits, bits + 1, 100, -1)
    case(
        f"shifted-{called(kind)}", shifted, 1,
        lambda rng, kind=kind, counts=counts: [extremes_of(kind), zeros((len(counts), 34), kind)],
        COUNTS=counts,
    )  # fmt: skip


# ---------------------------------------------------------------------- floats


@px.kernel(warps=1)
def float_divisions(X, Y, Z, *, M, C, N=32):
    x = px.load(X[0:M, 0:N])
    y = px.load(Y[0:M, 0:N])
    px.store(Z[0, 0:M, 0:N], x // y)
    px.store(Z[1, 0:M, 0:N], x % y)
    px.store(Z[2, 0:M, 0:N], x // C)
    px.store(Z[3, 0:M, 0:N], x % C)


def special_floats(kind: Any) -> list[Any]:
    """Every pair of zeros, infinities, not-a-number, numbers of every size: 32 by 32."""
    info = ml_dtypes.finfo(kind)
    largest, least, normal = float(info.max), float(info.smallest_subnormal), float(info.smallest_normal)
    some = [0.0, 1.0, 0.5, 1.5, 3.0, 7.0, 0.1, 10.0, 1e4, normal, least, largest, largest / 2, 2.5, np.inf]
    some = np.array([*some, *(-x for x in some), np.nan, 1.0 / 3.0]).astype(kind)
    a, b = np.meshgrid(some, some)
    return [np.ascontiguousarray(a), np.ascontiguousarray(b), zeros((4, 32, 32), kind)]


for kind in FLOATS:
    for number in (float("inf"), -3.0):
        case(
            f"float_divisions-{called(kind)}-{number:g}", float_divisions, 1, lambda rng, kind=kind: special_floats(kind),
            M=32, C=number,
        )  # fmt: skip


@px.kernel(warps=1)
def narrow_constants(X, Y, S, *, DTYPE, C, N=32):
    x = px.load(X[0:N])
    px.store(Y[0, 0:N], px.full((N,), C, DTYPE))
    px.store(Y[1, 0:N], px.load(X[N - 4 : 2 * N - 4], fill=C))
    px.store(Y[3, 0], C)
    if px.f8e4m3 != DTYPE and px.f8e5m2 != DTYPE:
        px.store(Y[2, 0:N], px.where(px.arange(N) < 5, x, C))
        px.store(Y[4, 0:N], x * C)
        px.store(Y[5, 0:N], px.maximum(x, C))
        px.store(S[0], px.load(X[0]) + C)


for name, kind, hard in (
    ("f16", np.float16, (1.0004882821813226, 65519.99999, 65520.0, 5.960464477539063e-08, 2.9802322387695312e-08)),
    ("bf16", BF16, (1.00390625000001, 3.3961776e38, 1.0)),
    ("f8e4m3", E4M3, (1.06250001, 464.0, 0.00097656251)),
    ("f8e5m2", E5M2, (1.12500001, 61440.0)),
):
    for number in hard:
        case(
            f"narrow_constants-{name}-{number!r}", narrow_constants, 1,
            lambda rng, kind=kind: [np.ones(32, kind), zeros((6, 32), kind), zeros(1, kind)],
            DTYPE=getattr(px, name), C=number,
        )  # fmt: skip


@px.kernel(warps=1)
def truths_as_floats(X, Y, *, DTYPE, BITS, N=32):
    """Products and quotients of truths with negative constants; bits, since a zero keeps its sign."""
    t = px.load(X[0:N]) == 2.0
    px.store(Y[0, 0:N], px.bitcast((t / (-0.25)).to(DTYPE), BITS))
    px.store(Y[1, 0:N], px.bitcast(t.to(DTYPE) * (-4.0), BITS))
    px.store(Y[2, 0:N], px.bitcast(t.to(DTYPE), BITS))
    px.store(Y[3, 0:N], px.bitcast(px.minimum(t / (-0.25), 1.0).to(DTYPE), BITS))


for name, bits, kind in (
    ("f64", "i64", np.int64), ("f32", "i32", np.int32), ("f16", "i16", np.int16), ("bf16", "i16", np.int16),
):  # fmt: skip
    case(
        f"truths_as_floats-{name}", truths_as_floats, 1,
        lambda rng, kind=kind: [(np.arange(32) % 3).astype(np.float32), zeros((4, 32), kind)],
        DTYPE=getattr(px, name), BITS=getattr(px, bits),
    )  # fmt: skip


# ---------------------------------------------------------------------- starts anywhere


@px.kernel(warps=2)
def anywhere(X, S, Y, Z, W, A, *, K, M=4, N=32):
    """Loads, stores and additions that begin wherever S says."""
    v = px.load(X[0:M, 0:N])
    for i in range(K):
        s = px.load(S[i])
        px.store(Y[i, 0:M, 0:N], px.load(X.tile((s, 0), (M, N)), fill=-1.0))
        px.store(Y[i, M : 2 * M, 0:N], px.load(X.tile((0, s), (M, N)), fill=-2.0))
        px.store(Y[i, 2 * M : 3 * M, 0:N], px.load(X.tile((0, s + 8), (M, N)), fill=-3.0))
        px.store(Y[i, 3 * M, 0], px.load(X[s, 1], fill=-4.0))
        px.store(Y[i, 3 * M, 1], px.load(X[1, s], fill=-5.0))
        px.store(Z.tile((s, 0), (M, N)), v)
        px.store(Z.tile((0, s + 8), (M, N)), v * 2.0)
        px.store(W[s, 2], 7.0)
        px.atomic_add(A.tile((s, 0), (M, N)), v)


@px.kernel(warps=1)
def rows_anywhere(X, R, Y, Z, *, M, N=16):
    r = px.load(R[0:M])
    x = px.load(X[r, 0:N], fill=-1.0)
    px.store(Y[0:M, 0:N], x)
    px.store(Z[r, 0:N], x + 1.0)


def starts_of(kind: Any) -> np.ndarray:
    """Starts about an array's edges, and at the ends of the index types."""
    near = [0, 1, 4, 8, -1, -3, -8, 20, 24, 30, 31, 32, 40]
    far = [2**31 - 1, 2**31 - 8, -(2**31), -(2**31) + 4, 2**31, 2**31 + 8, 2**32 - 4, 2**32, 2**32 + 1, 2**33 + 2]
    far += [2**63 - 1, 2**63 - 16, -(2**63), -(2**62), 2**64 - 4, 2**64 - 1]
    info = np.iinfo(kind)
    return np.array([n for n in near + far if info.min <= n <= info.max], kind)


for kind in (np.int32, np.int64, np.uint32, np.uint64, np.int8):
    for columns in (32, 30):
        case(
            f"anywhere-{called(kind)}-{columns}", anywhere, 1,
            lambda rng, kind=kind, columns=columns: [
                aligned(numbers(rng, (32, columns), np.float32)), starts_of(kind),
                aligned(zeros((len(starts_of(kind)), 16, 32))), *(aligned(zeros((32, columns))) for _ in range(3)),
            ],
            K=len(starts_of(kind)),
        )  # fmt: skip
for kind in (np.int32, np.int64):
    case(
        f"rows_anywhere-{called(kind)}", rows_anywhere, 1,
        lambda rng, kind=kind: [
            aligned(numbers(rng, (32, 16), np.float32)), np.unique(starts_of(kind)), aligned(zeros((32, 16))),
            aligned(zeros((32, 16))),
        ],
        M=len(np.unique(starts_of(kind))),
    )  # fmt: skip


# ---------------------------------------------------------------------- coordinates and their limits


@px.kernel(warps=2)
def limited(L, Y, low, high, *, M, N):
    """Places of a tile against limits, one for all or one for each row: also limits far outside."""
    columns, rows = px.arange(N).reshape(1, N), px.arange(M).reshape(M, 1)
    limit = px.load(L[0:M]).reshape(M, 1)
    px.store(Y[0, 0:M, 0:N], px.where(columns < high, 1, 0) + px.zeros((M, N), px.i32))
    px.store(Y[1, 0:M, 0:N], px.where((columns >= low) & (columns <= high), 1, 0) + px.zeros((M, N), px.i32))
    px.store(Y[2, 0:M, 0:N], px.where(columns <= limit, 1, 0))
    px.store(Y[3, 0:M, 0:N], px.where(limit > columns, 1, 0) + px.where(columns > limit, 2, 0))
    px.store(Y[4, 0:M, 0:N], px.where(columns >= limit, columns, -rows))
    px.store(Y[5, 0:M, 0:N], px.where(columns < low + rows, 1, 0) + px.where(rows < high, 2, 0))


for m, n, low, high in ((4, 256, 3, 100), (4, 256, -(2**31), 2**31 - 1), (4, 80, -1, 0), (3, 200, 250, 255)):
    case(
        f"limited-{m}x{n}-{low}-{high}", limited, 1,
        lambda rng, m=m, n=n, low=low, high=high: [
            rng.choice([-(2**31), -2, -1, 0, 1, 17, n - 1, n, 2**31 - 1], m).astype(np.int32),
            zeros((6, m, n), np.int32), low, high,
        ],
        M=m, N=n,
    )  # fmt: skip
