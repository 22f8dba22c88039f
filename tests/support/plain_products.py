"""Kernels that load tiles and multiply them, with no word of shared memory: what several floors' tests make of them."""

from __future__ import annotations

import phalanx as px


@px.kernel(warps=lambda WARPS: WARPS)
def plain_matmul(A, B, C, *, BM=64, BN=64, BK=32, TA=False, TB=True, ACC=px.f32, WARPS=4):
    """C = A @ B; with TA and TB the operands lie in memory along the other axis."""
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    acc = px.zeros((BM, BN), ACC)
    for k in range(0, A.shape[0] if TA else A.shape[1], BK):
        a = px.load(A[k : k + BK, m : m + BM]).T if TA else px.load(A[m : m + BM, k : k + BK])
        b = px.load(B[n : n + BN, k : k + BK]).T if TB else px.load(B[k : k + BK, n : n + BN])
        acc = px.dot(a, b, acc)
    px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


@px.kernel(warps=lambda WARPS: WARPS)
def plain_attention(Q, K, V, O, *, BM=64, BN=32, D=32, WARPS=4):
    """Softmax of Q @ K.T, times V: an operand from before the loop, one computed from a product, one used twice."""
    m = px.block_id(0) * BM
    q = px.load(Q[m : m + BM, 0:D])
    acc = px.zeros((BM, D), px.f32)
    top = px.full((BM,), -1.0e30, px.f32)
    total = px.zeros((BM,), px.f32)
    for n in range(0, K.shape[0], BN):
        k = px.load(K[n : n + BN, 0:D])
        v = px.load(V[n : n + BN, 0:D])
        s = px.dot(q, k.T)
        s = px.where((n + px.arange(BN) < K.shape[0])[None, :], s, -1.0e30)
        new = px.maximum(top, px.max(s, 1))
        p = px.exp(s - new[:, None])
        shrink = px.exp(top - new)
        total = total * shrink + px.sum(p, 1)
        acc = px.dot(p.to(V.dtype), v, acc * shrink[:, None])
        top = new
    px.store(O[m : m + BM, 0:D], (acc / total[:, None]).to(O.dtype))


@px.kernel(warps=9)
def plain_copies(A, B, C, *, BM=64, BN=32, BK=32):
    """Two copies of a role multiply side by side, each through memory of its own."""
    with px.warps(0, 4, copies=2) as c:
        m = c * BM
        acc = px.zeros((BM, BN), px.f32)
        for k in range(0, A.shape[1], BK):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
        px.store(C[m : m + BM, 0:BN], acc)


@px.kernel(warps=4)
def sometimes(A, B, C, *, N=64):
    """One tile is an operand twice, once under a condition, and is stored besides."""
    x = px.load(A[0:N, 0:N])
    y = px.load(B[0:N, 0:N]).to(A.dtype) * 2
    acc = px.dot(x, y)
    if A.shape[0] > N:
        acc = px.dot(x, x.T, acc)
    px.store(C[0:N, 0:N], acc)
    px.store(A[0:N, 0:N], x + x)


@px.kernel(warps=4)
def loaded_again(A, B, C, *, N=64, SYNC=False, STORE=False):
    """Operands that are loaded from shared memory; with SYNC or STORE something stands between the load and the product."""
    a = px.shared((N, N), A.dtype)
    b = px.shared((N, N), B.dtype)
    px.store(a, px.load(A[0:N, 0:N]))
    px.store(b, px.load(B[0:N, 0:N]))
    x, y = px.load(a), px.load(b)
    if SYNC:
        px.sync()
    if STORE:
        px.store(a, y)
    px.store(C[0:N, 0:N], px.dot(x, y.T))


@px.kernel(warps=4)
def scaled_first(A, B, C, *, N=64, FILL=0, STORE=False):
    """Something keeps threads from copying each tile as it is: arithmetic, another fill, a store in between."""
    acc = px.zeros((N, N), px.f32)
    for k in range(0, A.shape[1], N):
        a = px.load(A[0:N, k : k + N], fill=FILL)
        if STORE:
            px.store(A[0:N, k : k + N], a + a)
        b = px.load(B[0:N, k : k + N]) * 2
        acc = px.dot(a, b.T, acc)
    px.store(C[0:N, 0:N], acc)
