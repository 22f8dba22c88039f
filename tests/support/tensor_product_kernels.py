"""Kernels with `px.dot` for targets with tensor memory, each of another shape of control flow around its products."""

from __future__ import annotations

import phalanx as px


@px.kernel(warps=lambda W: W)
def loop(A, B, C, *, M=128, N=128, K=64, D=px.f32, W=4, TA=False, TB=False):
    """One agent loads and multiplies; A is (M, K), or (K, M) with TA, B (N, K), or (K, N) with TB."""
    a, b = px.shared((K, M) if TA else (M, K), A.dtype), px.shared((K, N) if TB else (N, K), B.dtype)
    full = px.barrier()
    acc = px.zeros((M, N), D)
    for k in range(A.shape[0 if TA else 1] // K):
        with full.transaction():
            if TA:
                px.tma.load(A[k * K : k * K + K, 0:M], a, full)
            else:
                px.tma.load(A[0:M, k * K : k * K + K], a, full)
            if TB:
                px.tma.load(B[k * K : k * K + K, 0:N], b, full)
            else:
                px.tma.load(B[0:N, k * K : k * K + K], b, full)
        full.wait(k % 2)
        acc = px.dot(a.T if TA else a, b if TB else b.T, acc)
    px.store(C[0:M, 0:N], acc)


@px.kernel(warps=4)
def begun(A, B, C, *, M=64, N=32, K=32):
    """The accumulator begins as what is in memory, and operands are stored by threads, without a fence."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    acc = px.load(C[0:M, 0:N])
    for k in range(A.shape[1] // K):
        px.store(a, px.load(A[0:M, k * K : k * K + K]))
        px.store(b, px.load(B[0:N, k * K : k * K + K]))
        acc = px.dot(a, b.T, acc)
    px.store(C[0:M, 0:N], acc)


@px.kernel(warps=4)
def halved(A, B, C, *, M=64, N=32, K=32):
    """Something else touches the accumulator in every turn: there and back."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    acc = px.zeros((M, N), px.f32)
    for k in range(A.shape[1] // K):
        px.store(a, px.load(A[0:M, k * K : k * K + K]))
        px.store(b, px.load(B[0:N, k * K : k * K + K]))
        acc = px.dot(a, b.T, acc)
        acc = acc * 0.5
    px.store(C[0:M, 0:N], acc)


@px.kernel(warps=4)
def twice(A, B, C, *, M=64, N=32, K=32):
    """Two accumulators over one loop, one of them with two products in a row."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    acc, other = px.zeros((M, N), px.f32), px.load(C[0:M, 0:N])
    for k in range(A.shape[1] // K):
        px.store(a, px.load(A[0:M, k * K : k * K + K]))
        px.store(b, px.load(B[0:N, k * K : k * K + K]))
        acc = px.dot(a, b.T, acc)
        acc = px.dot(a, b.T, acc)
        other = px.dot(a, b.T, other)
    px.store(C[0:M, 0:N], acc + other)


@px.kernel(warps=4)
def sometimes(A, B, C, LIMIT, *, M=64, N=32, K=32):
    """A product under a condition, one that is followed by another's turn, and a way out of the loop."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    acc = px.zeros((M, N), px.f32)
    for k in range(A.shape[1] // K):
        if k == LIMIT:
            break
        px.store(a, px.load(A[0:M, k * K : k * K + K]))
        px.store(b, px.load(B[0:N, k * K : k * K + K]))
        if k % 2 == 1:
            continue
        if k % 4 == 0:
            acc = px.dot(a, b.T, acc)
        else:
            acc = px.dot(a, b.T, acc)
            acc = px.dot(a, b.T, acc)
            if k > 5:
                break
    px.store(C[0:M, 0:N], acc)


@px.kernel(warps=4)
def nested(A, B, C, *, M=64, N=32, K=32):
    """Tiles of C one after the other, an accumulator for each; K goes in two loops."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    for n in range(C.shape[1] // N):
        acc = px.zeros((M, N), px.f32)
        for half in range(2):
            steps = A.shape[1] // K // 2
            for k in range(half * steps, half * steps + steps):
                px.store(a, px.load(A[0:M, k * K : k * K + K]))
                px.store(b, px.load(B[n * N : n * N + N, k * K : k * K + K]))
                acc = px.dot(a, b.T, acc)
        px.store(C[0:M, n * N : n * N + N], acc)


@px.kernel(warps=4)
def straight(A, B, C, *, M=64, N=32, K=32):
    """Products without a loop: one alone, two in a row, one that goes on with a tile."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    x = px.dot(a, b.T)
    y = px.dot(a, b.T, px.dot(a, b.T, px.zeros((M, N), px.f32)))
    px.store(C[0:M, 0:N], px.dot(a, b.T, x + y))


@px.kernel(warps=lambda CONSUMERS: CONSUMERS + 1)
def piped(A, B, C, *, M=128, N=64, K=32, STAGES=3, CONSUMERS=4):
    """A ring: tiles of C one after the other; the consumers give stages back when their products are over."""
    a, b = px.shared((STAGES, M, K), A.dtype), px.shared((STAGES, N, K), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps, tiles = A.shape[1] // K, C.shape[1] // N
    with px.warps(CONSUMERS, 1):
        ring = px.ring(STAGES)
        for n in range(tiles):
            for k in range(steps):
                empty[ring.stage].wait(ring.parity ^ 1)
                with full[ring.stage].transaction():
                    px.tma.load(A[0:M, k * K : k * K + K], a[ring.stage], full[ring.stage])
                    px.tma.load(B[n * N : n * N + N, k * K : k * K + K], b[ring.stage], full[ring.stage])
                ring.advance()
    with px.warps(0, CONSUMERS):
        ring = px.ring(STAGES)
        for n in range(tiles):
            acc = px.zeros((M, N), px.f32)
            for _ in range(steps):
                full[ring.stage].wait(ring.parity)
                acc = px.dot(a[ring.stage], b[ring.stage].T, acc)
                empty[ring.stage].arrive()
                ring.advance()
            px.store(C[0:M, n * N : n * N + N], acc)


@px.kernel(warps=5)
def published(A, B, C, *, M=64, N=32, K=32):
    """The consumers' arrivals tell of more than their products: another role reads what they stored before the loop."""
    a, b, note = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype), px.shared((32,), px.f32)
    full, empty = px.barrier(), px.barrier()
    steps = A.shape[1] // K
    with px.warps(4, 1):
        for k in range(steps):
            if k > 0:
                empty.wait((k - 1) % 2)
            with full.transaction():
                px.tma.load(A[0:M, k * K : k * K + K], a, full)
                px.tma.load(B[0:N, k * K : k * K + K], b, full)
        empty.wait((steps - 1) % 2)
        px.store(C[M, 0:32], px.load(note))
    with px.warps(0, 4):
        px.store(note, px.full((32,), 7.0, px.f32))
        acc = px.zeros((M, N), px.f32)
        for k in range(steps):
            full.wait(k % 2)
            acc = px.dot(a, b.T, acc)
            empty.arrive()
        px.store(C[0:M, 0:N], acc)


@px.kernel(warps=6)
def by_turns(A, B, C, *, M=64, N=32, K=32, STAGES=3, STORED=False):
    """Two producers fill the stages of a ring by turns, so that each overwrites what the other brought."""
    a, b = px.shared((STAGES, M, K), A.dtype), px.shared((STAGES, N, K), B.dtype)
    full, empty = px.barrier(STAGES, count=1, checked=False), px.barrier(STAGES)
    steps = A.shape[1] // K
    for who in px.static_range(2):
        with px.warps(4 + who, 1):
            for k in range(who, steps, 2):
                stage = k % STAGES
                empty[stage].wait((k // STAGES) % 2 ^ 1)
                if STORED:
                    px.store(a[stage], px.load(A[0:M, k * K : k * K + K]))
                    px.store(b[stage], px.load(B[0:N, k * K : k * K + K]))
                    px.fence.async_proxy()
                    full[stage].arrive()
                else:
                    with full[stage].transaction():
                        px.tma.load(A[0:M, k * K : k * K + K], a[stage], full[stage])
                        px.tma.load(B[0:N, k * K : k * K + K], b[stage], full[stage])
    with px.warps(0, 4):
        acc = px.zeros((M, N), px.f32)
        for k in range(steps):
            full[k % STAGES].wait((k // STAGES) % 2)
            acc = px.dot(a[k % STAGES], b[k % STAGES].T, acc)
            empty[k % STAGES].arrive()
        px.store(C[0:M, 0:N], acc)


@px.kernel(warps=4)
def leaves(A, B, C, LIMIT, *, M=64, N=32, K=32):
    """The kernel may end inside the loop, and before it."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    if LIMIT == 0:
        return
    acc = px.zeros((M, N), px.f32)
    for k in range(A.shape[1] // K):
        px.store(a, px.load(A[0:M, k * K : k * K + K]))
        px.store(b, px.load(B[0:N, k * K : k * K + K]))
        acc = px.dot(a, b.T, acc)
        if k == LIMIT:
            return
    px.store(C[0:M, 0:N], acc)


@px.func
def summed(A, B, a, b, acc, LIMIT, M, N, K):
    """A sum that ends early."""
    for k in range(A.shape[1] // K):
        if k == LIMIT:
            return acc
        px.store(a, px.load(A[0:M, k * K : k * K + K]))
        px.store(b, px.load(B[0:N, k * K : k * K + K]))
        acc = px.dot(a, b.T, acc)
    return acc


@px.kernel(warps=4)
def inlined(A, B, C, LIMIT, *, M=64, N=32, K=32):
    """A function returns its accumulator from inside of the loop."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    px.store(C[0:M, 0:N], summed(A, B, a, b, px.zeros((M, N), px.f32), LIMIT, M, N, K))


@px.kernel(warps=4)
def skipped(A, B, C, LIMIT, *, M=64, N=32, K=32):
    """The zeros before the loop are what is stored if the loop is jumped over."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    acc = px.full((M, N), 9.0, px.f32)
    for turn in range(2):
        acc = px.zeros((M, N), px.f32)
        if turn == LIMIT:
            break
        for k in range(A.shape[1] // K):
            px.store(a, px.load(A[0:M, k * K : k * K + K]))
            px.store(b, px.load(B[0:N, k * K : k * K + K]))
            acc = px.dot(a, b.T, acc)
    px.store(C[0:M, 0:N], acc)


@px.kernel(warps=5, cluster=2, exit_sync=False)
def both_rows(A, B, C, *, M=64, N=32, K=32, STAGES=2):
    """Two CTAs share B by multicast and meet at the end themselves; stages are given back to both."""
    rank = px.cluster.rank()
    a, b = px.shared((STAGES, M, K), A.dtype), px.shared((STAGES, N, K), B.dtype)
    pipe = px.pipe(STAGES)
    steps = A.shape[1] // K
    with px.warps(4, 1):
        for k in range(steps):
            with pipe.produce() as i:
                px.tma.load(A[rank * M : rank * M + M, k * K : k * K + K], a[i], pipe.full[i])
                px.cluster.load(B[0:N, k * K : k * K + K], b[i], pipe.full[i], ctas=3)
    with px.warps(0, 4):
        acc = px.zeros((M, N), px.f32)
        for _ in range(steps):
            with pipe.consume() as i:
                acc = px.dot(a[i], b[i].T, acc)
        px.store(C[rank * M : rank * M + M, 0:N], acc)
    px.cluster.sync()


@px.kernel(warps=5, cluster=2)
def exchanged(A, B, C, *, M=64, N=32, K=32, STAGES=2, TURNS=2):
    """Behind the load of the accumulator its threads meet in an exchange over the cluster, and nowhere else."""
    rank = px.cluster.rank()
    a, b = px.shared((STAGES, M, K), A.dtype), px.shared((STAGES, N, K), B.dtype)
    pipe = px.pipe(STAGES)
    steps = A.shape[1] // K
    with px.warps(4, 1):
        for _ in range(TURNS):
            for k in range(steps):
                with pipe.produce() as i:
                    px.tma.load(A[rank * M : rank * M + M, k * K : k * K + K], a[i], pipe.full[i])
                    px.tma.load(B[0:N, k * K : k * K + K], b[i], pipe.full[i])
    with px.warps(0, 4):
        for _ in range(TURNS):
            acc = px.zeros((M, N), px.f32)
            for _ in range(steps):
                with pipe.consume() as i:
                    acc = px.dot(a[i], b[i].T, acc)
            most = px.cluster.reduce(px.max(acc, axis=1), "max")
            px.store(C[rank * M : rank * M + M, 0:N], acc + most.reshape(M, 1))
