"""A ring GEMM with cluster multicast, in the shape of hand-written Hopper kernels, and what can go wrong with it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import cases, line_of, only, planted

A = np.ones((256, 256), ml_dtypes.bfloat16)
B = np.ones((128, 256), ml_dtypes.bfloat16)
C = np.zeros((256, 128), ml_dtypes.bfloat16)


@px.kernel(warps=12, cluster=2, exit_sync=False)
def gemm(A, B, C, *, DRAIN=True, EARLY=False, COUNT=None, MASK=3, BM=128, BN=128, BK=64, STAGES=2):
    """One producer, two consumer warpgroups; the CTAs of a cluster share B, each fetching half of it for both."""
    rank = px.cluster.rank()
    half = BN // 2
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES, count=COUNT, checked=False)
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    steps = A.shape[1] // BK
    ring = px.ring(STAGES)
    with px.warps(0, 4):
        for k in range(steps):
            s = ring.stage
            empty[s].wait(ring.parity ^ 1)
            full[s].arrive_and_expect_tx((BM + BN) * BK * 2)  # armed
            px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a[s], full[s])  # load a
            px.tma.load(
                B[n + rank * half : n + rank * half + half, k * BK : k * BK + BK],
                b[s][rank * half : rank * half + half], full[s], multicast=MASK,
            )
            ring.advance()
        if DRAIN:
            for _ in range(STAGES):
                empty[ring.stage].wait(ring.parity ^ 1)
                ring.advance()
    for g in px.static_range(2):
        with px.warps(4 + 4 * g, 4):
            acc = px.empty((64, BN), px.f32)
            last = 0
            for k in range(steps):
                full[ring.stage].wait(ring.parity)
                px.wgmma(a[ring.stage][64 * g : 64 * g + 64], b[ring.stage].T, acc, accumulate=k > 0)  # product
                px.wgmma_commit()
                if EARLY:
                    empty[ring.stage].arrive(ctas=3)
                px.wgmma_wait(1)
                if not EARLY:
                    if k > 0:
                        empty[last].arrive(ctas=3)  # release
                last = ring.stage
                ring.advance()
            px.wgmma_wait(0)
            if not EARLY:
                empty[last].arrive(ctas=3)  # final
            px.store(C[m + 64 * g : m + 64 * g + 64, n : n + BN], acc.to(C.dtype))


def check(**constants):
    return px.check(gemm[2], A, B, C, schedules=3, **constants)


def test_it_is_clean_as_it_stands():
    report = px.check(gemm[2], A, B, C, schedules=8)
    assert report.ok, report


def test_without_its_drain():
    report = check(DRAIN=False)
    assert {finding.kind for finding in report.findings} == {"exit-hazard"}, report
    assert {f.location.line for f in report.findings} <= {line_of(gemm, "release"), line_of(gemm, "final")}


def test_arrive_before_the_wait():
    finding, = check(EARLY=True, COUNT=4).findings
    assert finding.kind == "race"
    assert {finding.location.line, finding.other.line} >= {line_of(gemm, "product")}


def test_count_two_instead_of_four():
    """Stages are refilled when two of four consumers have released them: A and B each show it."""
    report = check(COUNT=2)
    assert {finding.kind for finding in report.findings} == {"race"}, report
    assert line_of(gemm, "load a") in {finding.location.line for finding in report.findings}


def test_mask_one_instead_of_three():
    finding, = check(MASK=1).findings
    assert finding.kind == "tx-mismatch"
    assert finding.location.line == line_of(gemm, "armed")


@px.func
def operands(A, B):
    """A tile of each in shared memory, where the tensor cores may read it."""
    a = px.shared((64, 64), A.dtype)
    b = px.shared((64, 64), B.dtype)
    px.store(a, px.load(A[0:64, 0:64]))
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    return a, b


@planted("wgmma-hazard", args=(A, B, C))
@px.kernel(warps=4)
def operand_is_overwritten_by_its_own_role(A, B, C, *, BUG):
    a, b = operands(A, B)
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, b.T, acc)  # other
    px.wgmma_commit()
    if not BUG:
        px.wgmma_wait(0)
    px.store(a, px.load(A[64:128, 0:64]))  # bug
    if BUG:
        px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc.to(C.dtype))


@planted("unfinished", args=(A, B, C))
@px.kernel(warps=4)
def product_that_nobody_waits_for(A, B, C, *, BUG):
    a, b = operands(A, B)
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, b.T, acc)  # bug
    px.wgmma_commit()
    if not BUG:
        px.wgmma_wait(0)


@planted("unfinished", args=(A, B, C))
@px.kernel(warps=4)
def product_that_is_not_committed(A, B, C, *, BUG):
    a, b = operands(A, B)
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, b.T, acc)  # bug
    if not BUG:
        px.wgmma_commit()
    px.wgmma_wait(0)


@planted("race", args=(A, B, C))
@px.kernel(warps=4)
def operand_is_overwritten_by_its_own_copy(A, B, C, *, BUG):
    a, b = operands(A, B)
    bar = px.barrier()
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, b.T, acc)  # other
    px.wgmma_commit()
    if not BUG:
        px.wgmma_wait(0)
    with bar.transaction():
        px.tma.load(A[64:128, 0:64], a, bar)  # bug
    bar.wait(0)
    if BUG:
        px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc.to(C.dtype))


@planted("proxy", args=(A, B, C))
@px.kernel(warps=4)
def operand_is_not_fenced(A, B, C, *, BUG):
    a = px.shared((64, 64), A.dtype)
    b = px.shared((64, 64), B.dtype)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.store(a, px.load(A[0:64, 0:64]))  # other
    if not BUG:
        px.fence.async_proxy()
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, b.T, acc)  # bug
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc.to(C.dtype))


@planted("uninitialised-read", args=(A, B, C))
@px.kernel(warps=4)
def empty_accumulator_is_added_to(A, B, C, *, BUG):
    a, b = operands(A, B)
    acc = px.empty((64, 64), px.f32)  # other
    px.wgmma(a, b.T, acc, accumulate=bool(BUG))  # bug
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc.to(C.dtype))


@planted("uninitialised-read", args=(A, B, C))
@px.kernel(warps=4)
def empty_tile_is_stored(A, B, C, *, BUG):
    x = px.empty((64, 64), C.dtype)  # other
    if not BUG:
        x = px.load(A[0:64, 0:64])
    px.store(C[0:64, 0:64], x)  # bug


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_an_accumulator_is_read_in_flight():
    @px.kernel(warps=4)
    def peek(A, B, C, *, BUG):
        a, b = operands(A, B)
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(a, b.T, acc)  # other
        px.wgmma_commit()
        if not BUG:
            px.wgmma_wait(0)
        px.store(C[0:64, 0:64], acc.to(C.dtype))  # bug

    assert px.check(peek[1], A, B, C, BUG=False).ok
    report = px.check(peek[1], A, B, C, BUG=True)
    only(report, "wgmma-hazard", line_of(peek, "bug"), line_of(peek, "other"))
