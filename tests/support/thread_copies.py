"""Kernels with copies that threads begin, for the tests of several floors."""

from __future__ import annotations

import phalanx as px


@px.kernel(warps=lambda WARPS: WARPS)
def copied(X, Y, at, *, M=16, N=32, WARPS=2, WAIT=True, COMMIT=True):
    """A box of X, from column `at` on, through shared memory to Y."""
    s = px.shared((M, N), X.dtype)
    full = px.barrier()
    px.cp_async.load(X[0:M, at : at + N], s)
    if COMMIT:
        px.cp_async.commit(full)
    if WAIT:
        full.wait(0)
    px.store(Y[0:M, 0:N], px.load(s))


@px.kernel(warps=2)
def copied_rows(X, rows, Y, *, M=16, N=32):
    """Rows of X by index through shared memory to Y."""
    s = px.shared((M, N), X.dtype)
    full = px.barrier()
    px.cp_async.load(X[px.load(rows[0:M]), 0:N], s)
    px.cp_async.commit(full)
    full.wait(0)
    px.store(Y[0:M, 0:N], px.load(s))


@px.kernel(warps=lambda PRODUCERS, CONSUMERS: PRODUCERS + CONSUMERS)
def ring_product(A, B, C, *, M=64, N=32, K=32, STAGES=3, PRODUCERS=4, CONSUMERS=4, FENCE=True, TMA=False):
    """C = A @ B.T: threads of one role fill a ring, those of another multiply; with TMA the engine brings B."""
    m = px.block_id(0) * M
    a, b = px.shared((STAGES, M, K), A.dtype), px.shared((STAGES, N, K), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    ring = px.ring(STAGES)
    steps = px.cdiv(A.shape[1], K)
    with px.warps(CONSUMERS, PRODUCERS):
        for k in range(steps):
            s = ring.stage
            empty[s].wait(ring.parity ^ 1)
            px.cp_async.load(A[m : m + M, k * K : k * K + K], a[s])
            if TMA:
                with full[s].transaction():
                    px.tma.load(B[0:N, k * K : k * K + K], b[s], full[s])
            else:
                px.cp_async.load(B[0:N, k * K : k * K + K], b[s])
            px.cp_async.commit(full[s])
            ring.advance()
    with px.warps(0, CONSUMERS):
        acc = px.zeros((M, N), px.f32)
        for _ in range(steps):
            full[ring.stage].wait(ring.parity)
            if FENCE:
                px.fence.async_proxy()
            acc = px.dot(a[ring.stage], b[ring.stage].T, acc)
            empty[ring.stage].arrive()
            ring.advance()
        px.store(C[m : m + M, 0:N], acc)


@px.kernel(warps=2)
def piped(X, Y, *, N=64, STAGES=2):
    """Stages of a pipe are filled by one warp and read by another."""
    s = px.shared((STAGES, N), X.dtype)
    pipe = px.pipe(STAGES)
    steps = px.cdiv(X.shape[0], N)
    with px.warps(1, 1):
        for i in range(steps):
            at = pipe.acquire()
            px.cp_async.load(X[i * N : i * N + N], s[at])
            px.cp_async.commit(pipe)
    with px.warps(0, 1):
        for i in range(steps):
            at = pipe.wait()
            px.store(Y[i * N : i * N + N], px.load(s[at]) + 1)
            pipe.release()


@px.kernel(warps=4)
def odd_rows(A, B, C, *, BM=64, BN=32, BK=32, FILL=0):
    """Rows that begin anywhere."""
    m = px.block_id(0) * BM
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=3):
        acc = px.dot(px.load(A[m : m + BM, k : k + BK], fill=FILL), px.load(B[0:BN, k : k + BK]).T, acc)
    px.store(C[m : m + BM, 0:BN], acc)


@px.kernel(warps=4)
def chosen_rows(A, X, I, C, *, BM=64, BN=32, BK=32):
    """Rows by index, which a load of the same loop says."""
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
        rows = px.load(I[k : k + BK])
        acc = px.dot(px.load(A[0:BM, k : k + BK]), px.load(X[rows, 0:BN]), acc)
    px.store(C[0:BM, 0:BN], acc)
