"""Kernels with products of tiles that several floors' tests share: simulated, as text, on the CPU and on the GPU."""

from __future__ import annotations

import phalanx as px


@px.kernel(warps=lambda PRODUCERS, CONSUMERS: PRODUCERS + CONSUMERS)
def dots(A, B, C, *, M=16, N=32, K=32, STAGES=2, PRODUCERS=1, CONSUMERS=2, WAIT=True):
    """A ring that TMA fills, and a role of any number of warps that multiplies what is in it, by wgmma or mma.sync."""
    a = px.shared((STAGES, M, K), A.dtype)
    b = px.shared((STAGES, N, K), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    ring = px.ring(STAGES)
    steps = A.shape[1] // K
    with px.warps(0, PRODUCERS):
        for k in range(steps):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(A[0:M, k * K : k * K + K], a[ring.stage], full[ring.stage])
                px.tma.load(B[0:N, k * K : k * K + K], b[ring.stage], full[ring.stage])
            ring.advance()
    with px.warps(PRODUCERS, CONSUMERS):
        acc = px.zeros((M, N), px.f32)
        for _ in range(steps):
            if WAIT:
                full[ring.stage].wait(ring.parity)
            acc = px.dot(a[ring.stage], b[ring.stage].T, acc)
            empty[ring.stage].arrive()
            ring.advance()
        px.store(C[0:M, 0:N], acc)


@px.kernel(warps=8)
def halves(A, B, C, *, M=128, N=256, K=64, STAGES=3, ALONG="m"):
    """Accumulators of the result's type over a ring, and out again through stmatrix and TMA."""
    a = px.shared((STAGES, M, K), A.dtype)
    b = px.shared((STAGES, N, K), B.dtype)
    out = px.shared((M, N), C.dtype)
    full = px.barrier(STAGES)
    use = px.ring(STAGES)
    acc = px.empty((M, N), C.dtype)
    for k in range(A.shape[1] // K):
        with full[use.stage].transaction():
            px.tma.load(A[0:M, k * K : k * K + K], a[use.stage], full[use.stage])
            px.tma.load(B[0:N, k * K : k * K + K], b[use.stage], full[use.stage])
        full[use.stage].wait(use.parity)
        px.wgmma(a[use.stage], b[use.stage].T, acc, accumulate=k > 0, along=ALONG)
        px.wgmma_commit()
        px.wgmma_wait(0)
        use.advance()
    px.store(out, acc)
    px.fence.async_proxy()
    px.tma.store(out, C[0:M, 0:N])
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=lambda WARPS: WARPS)
def slices(A, B, C, *, K0=0, N0=0, N=64, K=64, TB=False, WIDE=128, WARPS=4, ALONG="m"):
    """A product of slices of wider buffers, across the panels that the swizzle cuts them into."""
    a = px.shared((64, 128), A.dtype)
    b = px.shared((64, WIDE) if TB else (N, 128), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A.tile((0, 0), a.shape), a, full)
        px.tma.load(B.tile((0, 0), b.shape), b, full)
    full.wait(0)
    acc = px.zeros((64, N), px.f32)
    px.wgmma(a[:, K0 : K0 + K], b[:K, N0 : N0 + N] if TB else b[:, K0 : K0 + K].T, acc, along=ALONG)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:64, 0:N], acc)


@px.kernel(warps=4)
def by_rows(A, B, C, *, M=64, N=64, K=64, TURNS=1):
    """Rows that are copied one by one lie in a plain buffer: one product by mma.sync, one by wgmma, one accumulator."""
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    full = px.barrier()
    with full.transaction():
        for row in px.static_range(M):
            px.tma.load(A[row, 0:K], a[row], full)
        px.tma.load(B[0:N, 0:K], b, full)
    full.wait(0)
    acc = px.zeros((M, N), px.f32)
    for _ in range(C.shape[0] // M * TURNS):
        acc = px.dot(a, b.T, acc)
        acc = px.dot(b, b.T, acc)
    px.store(C[0:M, 0:N], acc)


@px.kernel(warps=4)
def anywhere(A, B, C, start, *, M=64, N=64, K=64):
    """A view that begins at a row which only the launch knows."""
    a = px.shared((2 * M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0 : 2 * M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    px.store(C[0:M, 0:N], px.dot(a[start : start + M], b.T))


@px.kernel(warps=4)
def narrow_results(A, B, C, *, M=64, N=32, K=32, ACROSS=False):
    """Results of 16 bits through shared memory, as they are or transposed."""
    b = px.shared((N, K), B.dtype)
    px.store(b, px.load(B[0:N, 0:K]))
    y = px.dot(px.load(A[0:M, 0:K]), b.T).to(C.dtype)
    if ACROSS:
        out = px.shared((N, M), C.dtype)
        px.store(out.T, y)
        px.store(C[0:M, 0:N], px.load(out.T))
    else:
        out = px.shared((M, N), C.dtype)
        px.store(out, y)
        px.store(C[0:M, 0:N], px.load(out))
