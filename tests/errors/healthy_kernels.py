"""Kernels that use much of the language and are right: the ground for random mistakes."""

# ruff: noqa: B007, F841
import math

import phalanx as px

N = 4


@px.struct
class Cursor:
    m: int
    n: int = 3

    def step(self, by=1):
        self.m += by
        return self.m


@px.func
def helper(a, b=2, *, c=1):
    if a > b:
        return a * c
    return b + c


@px.kernel(warps=4, cluster=2)
def ring(X, Y, n, f, *, BM=16, BN=16, ST=2):
    m = px.block_id(0) * BM
    s = px.shared((ST, BM, BN), px.f32)
    full = px.barrier(ST)
    empty = px.barrier(ST, count=2, checked=False)
    t = Cursor(n)
    r = px.ring(ST)
    acc = px.zeros((BM, BN), px.f32)
    rank = px.cluster.rank()
    with px.warps(0, 1):
        for k in range(0, n, 2):
            empty[r.stage].wait(r.parity ^ 1)
            with full[r.stage].transaction():
                src = X[m : m + BM, k : k + BN]
                px.tma.load(src, s[r.stage], full[r.stage], multicast=1 << rank, cache="evict_first")
            r.advance()
    with px.warps(1, 2):
        x = px.load(s[0])
        for k in range(n):
            full[r.stage].wait(r.parity)
            x = x + px.load(s[r.stage]) * f
            empty[r.stage].arrive(ctas=0b11)
            r.advance()
        px.store(Y[m : m + BM, 0:BN], x)
    px.sync()
    px.cluster.sync()


@px.kernel(warps=2)
def tiles(X, Y, n, f, *, BM=16, BN=16, ST=2):
    t = Cursor(n, 2)
    x = px.load(X[0:BM, n : n + BN], fill=-1.0)
    y = px.where(x > 0, px.exp(x), x.to(px.f32))
    i = 0
    tot = 0.0
    while i < n and X[i, 0] > f:
        i += 1
        if i == 7:
            continue
        elif not i % 3:
            break
        tot = tot + px.sum(y) / 2 if i > 2 else tot - helper(i, c=2)
        t.step(i)
    for a, b in ((1, 2), (3, 4)):
        y = y * a + px.max(x, axis=1, keepdims=True) - b
    for j in px.static_range(3):
        if t.m == j:
            break
        y = px.maximum(y, float(j)) + math.sqrt(j + 1)
    rows = px.arange(BM) + n
    z = px.load(Y[rows, 0:BN])
    px.atomic_add(Y[0:BM, 0:BN], z + y.T.reshape(BM, BN))
    q, *rest = X.shape
    px.device_assert(q > 0, "q")
    px.print("n", n, tot)
    assert BM % 2 == 0, f"BM {BM}"
    px.store(Y[0, 0], tot + len(rest) + px.cdiv(q, BN) + min(n, t.m) + (~n & 3))
    if n > 3:
        return
    px.store(Y.tile((n, 0), (BM, BN)), px.cumsum(x, 1) - abs(x))
    px.fence.async_proxy("cta")
    px.tma.wait(0, read=True)


@px.func
def joined(a, b):
    larger = b[0] > a[0]
    top = px.maximum(a[0], b[0])
    return top, px.where(larger, b[1], a[1]), a[2] * px.exp(a[0] - top) + b[2] * px.exp(b[0] - top)


@px.kernel(warps=2)
def folds(X, Y, n, f, *, BM=16, BN=16, ST=2):
    x = px.load(X[0:BM, 0:BN])
    places = px.arange(BN)[None, :] + px.zeros((BM, BN), px.i32)
    top, at, total = px.reduce((x, places, px.full((BM, BN), 1.0, px.f32)), 1, joined, keepdims=True)
    y = px.fma(x - top, f, px.scan(x, 0, px.minimum)) / total
    values, best = px.topk(y, 4, axis=1)
    px.store(Y[0:BM, 0:4], px.where(px.isnan(values), f, px.round(values)))
    px.store(Y[0:BM, 4:8], best.to(px.f32) + px.argmin(y, 1)[:, None].to(px.f32))
    bits = px.bitcast(y, px.i32) ^ px.bitcast(f, px.i32)
    if px.any(bits > n) and not px.all(at == 0):
        px.store(Y[BM, 0], px.reduce(px.bitcast(bits, px.f32), None, px.maximum) + px.trunc(f))
