"""Small kernels for every tile instruction: run in the simulator, on the CPU from their CUDA text, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx as px
import support.tile_edge_cases
import support.tile_function_cases
import support.tile_memory_cases  # noqa: F401  likewise
from support.case_table import (  # noqa: F401  what tests of the cases use, too
    BF16,
    CASES,
    E4M3,
    E5M2,
    KINDS,
    Case,
    aligned,
    case,
    every_nth,
    family,
    mismatch,
    numbers,
    simulated,
    with_nans,
    zeros,
)

# ---------------------------------------------------------------------- elementwise


@px.kernel(warps=4)
def unary(X, Y, *, FN, N=256):
    x = px.load(X[0:N])
    if FN == "exp":
        y = px.exp(x)
    elif FN == "exp2":
        y = px.exp2(x)
    elif FN == "log":
        y = px.log(px.abs(x) + 0.5)
    elif FN == "log2":
        y = px.log2(px.abs(x) + 0.5)
    elif FN == "sqrt":
        y = px.sqrt(px.abs(x))
    elif FN == "rsqrt":
        y = px.rsqrt(px.abs(x) + 0.5)
    elif FN == "reciprocal":
        y = px.reciprocal(px.abs(x) + 0.5)
    elif FN == "tanh":
        y = px.tanh(x)
    elif FN == "tanh_approx":
        y = px.tanh(x, approx=True)
    elif FN == "erf":
        y = px.erf(x)
    elif FN == "sigmoid":
        y = px.sigmoid(x)
    elif FN == "sin":
        y = px.sin(x)
    elif FN == "cos":
        y = px.cos(x)
    elif FN == "floor":
        y = px.floor(x)
    elif FN == "ceil":
        y = px.ceil(x)
    elif FN == "abs":
        y = px.abs(x)
    else:
        y = -x
    px.store(Y[0:N], y)


UNARY = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "tanh",
    "tanh_approx",
    "erf",
    "sigmoid",
    "sin",
    "cos",
    "floor",
    "ceil",
    "abs",
    "neg",
)
for fn in UNARY:
    least = 2**-10.9 if fn == "tanh_approx" else 2e-6
    for kind, tolerance in ((np.float32, least), (np.float64, 1e-12), (np.float16, 2e-3), (BF16, 1.6e-2)):
        case(
            f"unary-{fn}-{np.dtype(kind).name}",
            unary,
            1,
            lambda rng, kind=kind: [numbers(rng, 256, kind), zeros(256, kind)],
            tolerance,
            FN=fn,
        )
for fn in ("abs", "neg"):
    for kind in (np.int32, np.int64, np.int8, np.int16):
        case(
            f"unary-{fn}-{np.dtype(kind).name}",
            unary,
            1,
            lambda rng, kind=kind: [numbers(rng, 256, kind), zeros(256, kind)],
            FN=fn,
        )


@px.kernel(warps=2)
def binary(X, Y, Z, *, FN, N=128):
    x = px.load(X[0:N])
    y = px.load(Y[0:N])
    if FN == "add":
        z = x + y
    elif FN == "sub":
        z = x - y
    elif FN == "mul":
        z = x * y
    elif FN == "div":
        z = x / y
    elif FN == "floordiv":
        z = x // y
    elif FN == "mod":
        z = x % y
    elif FN == "and":
        z = x & y
    elif FN == "or":
        z = x | y
    elif FN == "xor":
        z = x ^ y
    elif FN == "shl":
        z = x << y
    elif FN == "shr":
        z = x >> y
    elif FN == "max":
        z = px.maximum(x, y)
    else:
        z = px.minimum(x, y)
    px.store(Z[0:N], z)


def _operands(rng: np.random.Generator, fn: str, kind: Any) -> list[Any]:
    x, y = numbers(rng, 128, kind), numbers(rng, 128, kind)
    if fn in ("div", "floordiv", "mod"):
        y = np.where(y == 0, np.ones_like(y), y)
    if fn in ("shl", "shr"):
        y = np.abs(y) % 7
    return [x, y.astype(x.dtype), zeros(128, kind)]


for kind in (np.float32, np.float64, np.float16, BF16, np.int32, np.int64, np.uint8, np.int16, np.uint32, np.uint64):
    floating = np.dtype(kind).kind == "f" or kind is BF16
    fns = ["add", "sub", "mul", "max", "min", "floordiv", "mod"]
    fns += ["div"] if floating else ["and", "or", "xor", "shl", "shr"]
    for fn in fns:
        case(
            f"binary-{fn}-{np.dtype(kind).name}",
            binary,
            1,
            lambda rng, fn=fn, kind=kind: _operands(rng, fn, kind),
            FN=fn,
        )


@px.kernel(warps=2)
def wraps(X, Y, *, N=64):
    x = px.load(X[0:N])
    px.store(Y[0:N], x * 1103515245 + 12345)


case("wrap-i32", wraps, 1, lambda rng: [rng.integers(-(2**31), 2**31, 64).astype(np.int32), zeros(64, np.int32)])


@px.kernel(warps=2)
def by_constants(X, Y, Z, *, N=64, D=8):
    x = px.load(X[0:N])
    px.store(Y[0:N], x // D)
    px.store(Z[0:N], x % D)


for divisor in (8, 7, 1):
    case(
        f"divide-by-{divisor}",
        by_constants,
        1,
        lambda rng: [rng.integers(-100, 100, 64).astype(np.int32), zeros(64, np.int32), zeros(64, np.int32)],
        D=divisor,
    )


@px.kernel(warps=2)
def casts(X, Y, *, DTYPE, N=128):
    px.store(Y[0:N], px.load(X[0:N]).to(DTYPE))


for a, source in KINDS.items():
    for b, target in KINDS.items():
        if a != b:
            case(
                f"cast-{a}-{b}",
                casts,
                1,
                lambda rng, source=source, target=target: [numbers(rng, 128, source, 30.0), zeros(128, target)],
                DTYPE=getattr(px, b),
            )


@px.kernel(warps=2)
def extremes(X, Y, Z, W, *, N=32):
    x = px.load(X[0:N])
    px.store(Y[0:N], x.to(px.i32))
    px.store(Z[0:N], x.to(px.f8e4m3))
    px.store(W[0:N], x.to(px.f8e5m2))


def _extreme(rng: np.random.Generator) -> list[Any]:
    x = np.zeros(32, np.float32)
    x[:12] = [0.0, -0.0, np.nan, 1e30, -1e30, 448.0, 449.0, 57344.0, 60000.0, 2.0**-10, 1.5 * 2.0**-10, -(2.0**-17)]
    return [x, zeros(32, np.int32), zeros(32, E4M3), zeros(32, E5M2)]


case("cast-extremes", extremes, 1, _extreme)


@px.kernel(warps=4)
def broadcasts(X, R, C, Y, B, s, *, M=32, N=64):
    x = px.load(X[0:M, 0:N])
    r = px.load(R[0:N])
    c = px.load(C[0:M]).reshape(M, 1)
    y = x * r + c * s
    y = px.where((x > r) | (c < 0.0), y, -x)
    px.store(Y[0:M, 0:N], y)
    px.store(B[0:M, 0:N], (x >= r) & (x != c))


for m, n in ((32, 64), (1, 128), (48, 20), (5, 3), (128, 8)):
    case(
        f"broadcast-{m}x{n}",
        broadcasts,
        1,
        lambda rng, m=m, n=n: [
            numbers(rng, (m, n), np.float32),
            numbers(rng, n, np.float32),
            numbers(rng, m, np.float32),
            zeros((m, n)),
            zeros((m, n), np.bool_),
            0.5,
        ],
        1e-6,
        M=m,
        N=n,
    )


@px.kernel(warps=4)
def outer(X, Y, Z, *, M=32, N=64):
    x = px.load(X[0:M]).reshape(M, 1)
    y = px.load(Y[0:N]).reshape(1, N)
    rows = px.arange(M).reshape(M, 1)
    columns = px.arange(N)
    z = px.where(rows * 3 > columns, x * y, x - y)
    px.store(Z[0:M, 0:N], z)


for m, n in ((32, 64), (7, 33)):
    case(
        f"outer-{m}x{n}",
        outer,
        1,
        lambda rng, m=m, n=n: [numbers(rng, m, np.float32), numbers(rng, n, np.float32), zeros((m, n))],
        M=m,
        N=n,
    )


# ---------------------------------------------------------------------- reductions and scans


@px.kernel(warps=lambda W: W)
def reduction(X, Y, Z, *, M, N, AXIS, FN, W=4):
    x = px.load(X[0:M, 0:N])
    if FN == "sum":
        y = px.sum(x, AXIS)
        z = px.sum(x, AXIS, keepdims=True)
    elif FN == "max":
        y = px.max(x, AXIS)
        z = px.max(x, AXIS, keepdims=True)
    elif FN == "min":
        y = px.min(x, AXIS)
        z = px.min(x, AXIS, keepdims=True)
    else:
        y = px.argmax(x, AXIS)
        z = px.argmax(x, AXIS, keepdims=True)
    if AXIS == 0:
        px.store(Y[0:N], y)
        px.store(Z[0:1, 0:N], z)
    else:
        px.store(Y[0:M], y)
        px.store(Z[0:M, 0:1], z)


for m, n in ((64, 64), (16, 256), (256, 16), (1, 512), (24, 40), (3, 1000)):
    for axis in (0, 1):
        for warps in (1, 3, 4):
            for fn in ("sum", "argmax"):
                out = np.int32 if fn == "argmax" else np.float32
                length = n if axis == 0 else m
                case(
                    f"reduce-{fn}-{m}x{n}-axis{axis}-w{warps}",
                    reduction,
                    1,
                    lambda rng, m=m, n=n, axis=axis, out=out, length=length: [
                        numbers(rng, (m, n), np.float32),
                        zeros(length, out),
                        zeros((1, n) if axis == 0 else (m, 1), out),
                    ],
                    0.0 if fn == "argmax" else 2e-6,
                    M=m,
                    N=n,
                    AXIS=axis,
                    FN=fn,
                    W=warps,
                )
for kind in (np.float64, np.float16, BF16, np.int32, np.int64, np.uint8, np.int8):
    for fn in ("sum", "max", "min", "argmax"):
        out = np.int32 if fn == "argmax" else kind
        case(
            f"reduce-{fn}-{np.dtype(kind).name}",
            reduction,
            1,
            lambda rng, kind=kind, out=out: [numbers(rng, (32, 48), kind), zeros(32, out), zeros((32, 1), out)],
            1.6e-2 if kind in (np.float16, BF16) else 1e-12,
            M=32,
            N=48,
            AXIS=1,
            FN=fn,
            W=8,
        )


for m, n in ((64, 64), (16, 256), (256, 16), (2, 512), (24, 40)):
    for axis in (0, 1):
        for fn in ("max", "min", "argmax"):
            out = np.int32 if fn == "argmax" else np.float32
            length = n if axis == 0 else m
            case(
                f"nan-{fn}-{m}x{n}-axis{axis}",
                reduction,
                1,
                lambda rng, m=m, n=n, axis=axis, out=out, length=length: [
                    with_nans(rng, m, n) if axis else with_nans(rng, n, m).T.copy(),
                    zeros(length, out),
                    zeros((1, n) if axis == 0 else (m, 1), out),
                ],
                M=m,
                N=n,
                AXIS=axis,
                FN=fn,
            )
for kind in (np.float64, np.float16, BF16):
    for fn in ("max", "min", "argmax"):
        out = np.int32 if fn == "argmax" else kind
        case(
            f"nan-{fn}-{np.dtype(kind).name}",
            reduction,
            1,
            lambda rng, kind=kind, out=out: [with_nans(rng, 32, 48, kind), zeros(32, out), zeros((32, 1), out)],
            M=32,
            N=48,
            AXIS=1,
            FN=fn,
            W=8,
        )
for kind in (np.float32, np.float64, np.float16, BF16):
    for fn in ("max", "min"):
        case(
            f"nan-binary-{fn}-{np.dtype(kind).name}",
            binary,
            1,
            lambda rng, kind=kind: [
                with_nans(rng, 4, 32, kind).reshape(-1), with_nans(rng, 32, 4, kind).reshape(-1), zeros(128, kind)
            ],
            FN=fn,
        )


@px.kernel(warps=4)
def scalars(X, Y, *, N):
    x = px.load(X[0:N])
    s = px.sum(x, 0)
    px.store(Y[0], s)
    px.store(Y[1], px.max(x, 0))
    px.store(Y[2], px.min(x, 0))
    px.store(Y[3], px.argmax(x, 0).to(px.f32))
    px.store(Y[4], px.sum(x * 2.0) + s)


for n in (1, 5, 100, 128, 1000, 4096):
    case(f"scalars-{n}", scalars, 1, lambda rng, n=n: [numbers(rng, n, np.float32), zeros(5)], 4e-6, N=n)


@px.kernel(warps=4)
def three_axes(X, Y, Z, *, A, B, C):
    x = px.load(X[0:A, 0:B, 0:C])
    px.store(Y[0:A, 0:C], px.sum(x, 1))
    px.store(Z[0:B], px.max(px.max(x, 2), 0))


for shape in ((4, 8, 16), (3, 5, 7), (2, 64, 32)):
    case(
        f"three-axes-{'x'.join(map(str, shape))}",
        three_axes,
        1,
        lambda rng, s=shape: [numbers(rng, s, np.float32), zeros((s[0], s[2])), zeros(s[1])],
        2e-6,
        A=shape[0],
        B=shape[1],
        C=shape[2],
    )


@px.kernel(warps=lambda W: W)
def scan(X, Y, *, M, N, AXIS, W=4):
    px.store(Y[0:M, 0:N], px.cumsum(px.load(X[0:M, 0:N]), AXIS))


for m, n in ((16, 64), (1, 1024), (100, 9), (24, 40), (2, 5)):
    for axis in (0, 1):
        for warps in (1, 4, 6):
            case(
                f"cumsum-{m}x{n}-axis{axis}-w{warps}",
                scan,
                1,
                lambda rng, m=m, n=n: [numbers(rng, (m, n), np.float32), zeros((m, n))],
                4e-6,
                M=m,
                N=n,
                AXIS=axis,
                W=warps,
            )
for kind in (np.int32, np.float16, np.int64):
    case(
        f"cumsum-{np.dtype(kind).name}",
        scan,
        1,
        lambda rng, kind=kind: [numbers(rng, (8, 200), kind), zeros((8, 200), kind)],
        2e-3 if kind is np.float16 else 0.0,
        M=8,
        N=200,
        AXIS=1,
    )


@px.kernel(warps=4)
def scan_of_numbers(Y, *, N=10):
    px.store(Y[0:1, 2 : N + 2], px.cumsum(px.arange(N).reshape(1, N), 0))


case("scan-of-numbers", scan_of_numbers, 1, lambda rng: [zeros((3, 16), np.int32)])


@px.kernel(warps=4)
def softmax(X, Y, *, BM=8, N=128):
    m = px.block_id(0) * BM
    x = px.load(X[m : m + BM, 0:N], fill=-1e30)
    top = px.max(x, 1, keepdims=True)
    e = px.exp(x - top)
    px.store(Y[m : m + BM, 0:N], e / px.sum(e, 1).reshape(BM, 1))


for m, n in ((8, 128), (19, 100), (3, 1000)):
    case(
        f"softmax-{m}x{n}",
        softmax,
        (m + 7) // 8,
        lambda rng, m=m, n=n: [numbers(rng, (m, n), np.float32), zeros((m, n))],
        4e-6,
        N=n,
    )


# ---------------------------------------------------------------------- shapes


@px.kernel(warps=4)
def reshapes(X, Y, Z, *, M, N, A, B):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:A, 0:B], x.reshape(A, B))
    px.store(Z[0 : M * N], (x + 1.0).reshape(M * N))


for m, n, a, b in ((32, 64, 64, 32), (16, 24, 24, 16), (6, 10, 15, 4), (4, 96, 12, 32), (1, 60, 5, 12)):
    case(
        f"reshape-{m}x{n}-{a}x{b}",
        reshapes,
        1,
        lambda rng, m=m, n=n, a=a, b=b: [numbers(rng, (m, n), np.float32), zeros((a, b)), zeros(m * n)],
        M=m,
        N=n,
        A=a,
        B=b,
    )


@px.kernel(warps=4)
def transposes(X, Y, Z, *, M, N):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:N, 0:M], x.T)
    px.store(Z[0:N], px.sum(x.T, 1))


for m, n in ((64, 64), (16, 128), (20, 12), (128, 128)):
    for kind in (np.float32, np.float16):
        case(
            f"transpose-{m}x{n}-{np.dtype(kind).name}",
            transposes,
            1,
            lambda rng, m=m, n=n, kind=kind: [numbers(rng, (m, n), kind), zeros((n, m), kind), zeros(n, kind)],
            2e-6 if kind is np.float32 else 4e-3,
            M=m,
            N=n,
        )


@px.kernel(warps=4)
def permutes(X, Y, *, A, B, C):
    x = px.load(X[0:A, 0 : B * C]).reshape(A, B, C)
    px.store(Y[0:C, 0 : A * B], x.permute(2, 0, 1).reshape(C, A * B))


for a, b, c in ((8, 16, 4), (3, 5, 7)):
    case(
        f"permute-{a}x{b}x{c}",
        permutes,
        1,
        lambda rng, a=a, b=b, c=c: [numbers(rng, (a, b * c), np.float32), zeros((c, a * b))],
        A=a,
        B=b,
        C=c,
    )


@px.kernel(warps=4)
def accumulates(X, Y, S, n, *, BN=32, M=16):
    total = px.zeros((M, BN), px.f32)
    row = px.full((M,), 0.0, px.f32)
    for k in range(0, n, BN):
        x = px.load(X[0:M, k : k + BN])
        total = total + x
        row = row + px.sum(x, 1)
    px.store(Y[0:M, 0:BN], total)
    px.store(S[0:M], row)


for n in (0, 32, 100):
    case(
        f"loop-{n}",
        accumulates,
        1,
        lambda rng, n=n: [numbers(rng, (16, max(1, n)), np.float32), zeros((16, 32)), zeros(16), n],
        4e-6,
    )


@px.kernel(warps=4)
def branches(X, Y, flag, *, M=16, N=32):
    x = px.load(X[0:M, 0:N])
    y = px.zeros((M, N), px.f32)
    if flag > 0:
        y = x * 2.0
    else:
        y = x.T.reshape(M, N)
    px.store(Y[0:M, 0:N], y)


for flag in (0, 1):
    case(
        f"branch-{flag}",
        branches,
        1,
        lambda rng, flag=flag: [numbers(rng, (16, 32), np.float32), zeros((16, 32)), flag],
    )
