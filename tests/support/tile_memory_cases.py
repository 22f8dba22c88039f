"""Small kernels for what tiles have to do with memory: global, shared, atomics, roles; cases of `case_table`."""

from __future__ import annotations

import numpy as np

import phalanx as px
from support.case_table import (
    KINDS,
    aligned,
    case,
    numbers,
    zeros,
)

# ---------------------------------------------------------------------- global memory


@px.kernel(warps=4)
def copies(X, Y, i, j, *, M=32, N=64):
    px.store(Y[i : i + M, j : j + N], px.load(X[i : i + M, j : j + N], fill=3) + 1)


_WHERE = {
    "inside": (0, 0),
    "edge": (20, 40),
    "before": (-5, -7),
    "beyond": (90, 200),
    "odd": (1, 3),
    "corner": (16, 64),
}
for place, (i, j) in _WHERE.items():
    for kind in (np.float32, np.int8, np.float16, np.int64):
        case(
            f"edges-{place}-{np.dtype(kind).name}",
            copies,
            1,
            lambda rng, i=i, j=j, kind=kind: [
                aligned(numbers(rng, (40, 80), kind)),
                aligned(zeros((40, 80), kind)),
                i,
                j,
            ],
        )
for name, cut in {
    "unaligned": lambda x: x[:, 1:],
    "strided": lambda x: x[:, ::2],
    "rows": lambda x: x[::3],
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1],
}.items():
    case(
        f"array-{name}",
        copies,
        (1,),
        lambda rng, cut=cut: [cut(aligned(numbers(rng, (50, 100), np.float32))), cut(aligned(zeros((50, 100)))), 2, 4],
    )
case(
    "odd-row-length",
    copies,
    1,
    lambda rng: [aligned(numbers(rng, (40, 64), np.float32))[:, :51], aligned(zeros((40, 64)))[:, :51], 0, 0],
)


@px.kernel(warps=4)
def keeps(X, Y, n, *, N=100):
    """A tile, scalars of every width, and a number, held as they are; the factor is 4, so that no product is rounded."""
    x = px.keep(px.load(X[n : n + N]))
    m = px.keep(n)
    shift, factor = px.keep(m.to(px.i64) * 2) - 4, px.keep(px.f32(m) + 1.0)
    narrow = px.keep(m.to(px.i8)).to(px.f32)
    at = m + px.keep(0)
    px.store(Y[at : at + N], x * factor + shift.to(px.f32) + narrow)


case("keep", keeps, 1, lambda rng: [numbers(rng, 128, np.float32), zeros(128), 3])


@px.kernel(warps=2)
def gathers(X, R, Y, Z, *, M=16, N=40):
    rows = px.load(R[0:M])
    x = px.load(X[rows, 0:N])
    px.store(Y[0:M, 0:N], x)
    px.store(Z[rows, 0:N], x * 2.0)
    px.store(Z[px.arange(4) + 30, 0:N], px.full((4, N), 7.0, px.f32))


case(
    "gather",
    gathers,
    1,
    lambda rng: [
        numbers(rng, (30, 40), np.float32),
        np.array([3, 29, 0, -1, 30, 5, 7, 8, 9, 1, 2, 4, 6, 10, 11, 100], np.int32),
        zeros((16, 40)),
        zeros((40, 40)),
    ],
)


@px.kernel(warps=2)
def gathers_columns(X, R, Y, *, M=16, N=8):
    columns = px.load(R[0:N])
    px.store(Y[0:M, 0:N], px.load(X[0:M, columns]))


case(
    "gather-columns",
    gathers_columns,
    1,
    lambda rng: [numbers(rng, (16, 30), np.float32), np.array([3, 29, 0, -1, 30, 5, 7, 8], np.int32), zeros((16, 8))],
)


@px.kernel(warps=4)
def axes(X, Y, Z, k, *, M=8, N=16):
    px.store(Y[0:M, 0:N], px.load(X[0:M, k, 0:N]))
    px.store(Z[0:M], px.load(X[0:M, k, 3]))
    px.store(Z[M], X[1, 2, k])


case("dropped-axes", axes, 1, lambda rng: [numbers(rng, (8, 5, 16), np.float32), zeros((8, 16)), zeros(9), 4])
case("dropped-axes-outside", axes, 1, lambda rng: [numbers(rng, (8, 5, 16), np.float32), zeros((8, 16)), zeros(9), 5])


# ---------------------------------------------------------------------- shared memory


@px.kernel(warps=4)
def through_shared(X, Y, Z, *, M=32, N=64, DTYPE=px.f32):
    s = px.shared((M, N), DTYPE)
    px.store(s, px.load(X[0:M, 0:N]))
    px.store(Y[0:N, 0:M], px.load(s.T))
    px.store(Z[0:M, 0:N], px.load(s))


for m, n in ((32, 64), (64, 64), (24, 40), (5, 7), (128, 128)):
    for name in ("f32", "f16", "i8", "f64"):
        if m * n < 10000 or name == "f16":
            case(
                f"shared-{m}x{n}-{name}",
                through_shared,
                1,
                lambda rng, m=m, n=n, kind=KINDS[name]: [
                    numbers(rng, (m, n), kind),
                    zeros((n, m), kind),
                    zeros((m, n), kind),
                ],
                M=m,
                N=n,
                DTYPE=getattr(px, name),
            )


@px.kernel(warps=4)
def stages(X, Y, *, S=3, M=16, N=32):
    s = px.shared((S, M, N), px.f32)
    for i in range(S):
        px.store(s[i], px.load(X[i * M : i * M + M, 0:N]))
    for i in range(S):
        for k in range(0, M, 4):
            px.store(Y[i * M + k : i * M + k + 4, 0:N], px.load(s[S - 1 - i, k : k + 4, :]))
            px.store(Y[i * M + k, 0:8], px.load(s[i, k, 8:16]))


case("shared-stages", stages, 1, lambda rng: [numbers(rng, (48, 32), np.float32), zeros((48, 32))])


@px.kernel(warps=4)
def slices(X, Y, a, b, *, M=16, N=64):
    s = px.shared((M, N), px.f16)
    px.store(s, px.load(X[0:M, 0:N]))
    px.store(Y[0:8, 0:16], px.load(s[a : a + 8, b : b + 16]))
    px.store(Y[8:16, 0:16], px.load(s[4:12, 3:19]))
    px.store(Y[0:16, 16:24], px.load(s[a : a + 8, b : b + 16].T))
    px.store(s[a, b], 5.0)
    px.store(Y[0, 30], s[a, b] + s[0, 0])


for a, b in ((0, 0), (3, 5), (8, 48)):
    case(
        f"shared-slices-{a}-{b}",
        slices,
        1,
        lambda rng, a=a, b=b: [numbers(rng, (16, 64), np.float16), zeros((16, 32), np.float16), a, b],
    )


@px.kernel(warps=2)
def own_rank(X, Y, r, *, M=16, N=32):
    s = px.shared((2, M, N), px.f32)
    px.store(s[1].at(r), px.load(X[0:M, 0:N]))
    px.sync()
    px.store(Y[0:M, 0:N], px.load(s[1].at(r)) + s[1, 2, 3])
    px.store(s.at(r)[0, 0, 0], 4.0)
    px.store(Y[0, 0], s.at(r)[0, 0, 0])


case("shared-own-rank", own_rank, 1, lambda rng: [numbers(rng, (16, 32), np.float32), zeros((16, 32)), 0])


# ---------------------------------------------------------------------- atomics


@px.kernel(warps=4)
def atomics(X, Y, Z, *, M=16, N=24, DTYPE=px.f32):
    x = px.load(X[0:M, 0:N])
    px.atomic_add(Y[0:M, 0:N], x)
    px.atomic_add(Y[0:M, 0:N], x)
    px.atomic_add(Y[0, 0:N], px.sum(x, 0))
    s = px.shared((M, N), DTYPE)
    px.store(s, x)
    px.atomic_add(s, x)
    px.store(Z[0:M, 0:N], px.load(s))


for name in ("f32", "f64", "i32", "i64", "u32", "u64", "f16", "bf16"):
    kind = {**KINDS, "u64": np.uint64}[name]
    case(
        f"atomic-{name}",
        atomics,
        1,
        lambda rng, kind=kind: [numbers(rng, (16, 24), kind), zeros((16, 24), kind), zeros((16, 24), kind)],
        {"f16": 4e-3, "bf16": 3e-2}.get(name, 2e-6),
        DTYPE=getattr(px, name),
    )


@px.kernel(warps=lambda W: W)
def tickets(Y, Z, *, N=24, W=4):
    old = px.atomic_add(Y[0], 5)
    px.store(Z[0], old)
    again = px.atomic_add(Y[0:N], px.arange(N))
    px.store(Z[1 : N + 1], again)
    c = px.shared((4,), px.i32)
    px.store(c, 1)
    px.store(Z[N + 1], px.atomic_add(c[2], 3))
    px.store(Z[N + 2], c[2])


for warps in (1, 4):
    case(
        f"atomic-old-values-w{warps}",
        tickets,
        1,
        lambda rng: [np.arange(24, dtype=np.int32), zeros(30, np.int32)],
        W=warps,
    )


@px.kernel(warps=4)
def old_values_across(X, Y, Z, *, M=64, N=64):
    old = px.atomic_add(Y[0:N, 0:M], px.load(X[0:M, 0:N]).T)
    px.store(Z[0:M, 0:N], old.T)


case("atomic-old-values-across", old_values_across, 1, lambda rng: [numbers(rng, (64, 64), np.int32) for _ in range(3)])


# ---------------------------------------------------------------------- roles


@px.kernel(warps=8)
def two_roles(X, Y, *, M=32, N=64):
    with px.warps(0, 4):
        x = px.load(X[0:M, 0:N])
        y = px.sum(x, 0)
        px.store(Y[0, 0:N], y)
        px.store(Y[1, 0:N], px.cumsum(y, 0))
    with px.warps(5, 3):
        z = px.load(X[0:M, 0:N])
        w = px.max(z, 0)
        px.store(Y[2, 0:N], w - px.sum(w, 0))


case("roles", two_roles, 1, lambda rng: [numbers(rng, (32, 64), np.float32), zeros((3, 64))], 4e-6)
