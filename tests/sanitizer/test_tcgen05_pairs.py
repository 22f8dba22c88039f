"""Pairs of CTAs on Blackwell: bugs planted in kernels as users write them, each with its clean twin."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import cases, line_of, planted
from sanitizer.tensor_launches import ONE, PAIR, A, B, C, M, N, fetch


@planted("pair", **PAIR)
@px.kernel(warps=6, cluster=2)
def the_odd_cta_of_a_pair_issues(A, B, C, *, BUG):
    rank = px.cluster.rank()
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((8, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier(checked=False, count=1)
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[rank * 64 : rank * 64 + 64, 0:16], a, full, two_cta=True)
            px.tma.load(B[rank * 8 : rank * 8 + 8, 0:16], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
        if rank == (1 if BUG else 0):
            px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=True)  # bug
        if rank == 0:
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[rank * 64 : rank * 64 + 64, 0:16], px.tcgen05.load(acc))


@planted("race", **PAIR)
@px.kernel(warps=6, cluster=2)
def the_peer_reads_its_half_before_the_commit(A, B, C, *, BUG):
    rank = px.cluster.rank()
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((8, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[rank * 64 : rank * 64 + 64, 0:16], a, full, two_cta=True)
            px.tma.load(B[rank * 8 : rank * 8 + 8, 0:16], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
            px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=True)  # other
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        if rank == 0 or not BUG:
            done.wait(0)
        px.store(C[rank * 64 : rank * 64 + 64, 0:16], px.tcgen05.load(acc))  # bug
        if rank == 1 and BUG:
            done.wait(0)


@planted("exit-hazard", **PAIR)
@px.kernel(warps=6, cluster=2)
def a_commit_that_its_receiver_may_not_live_to_see(A, B, C, *, BUG):
    rank = px.cluster.rank()
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((8, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, used, done = px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[rank * 64 : rank * 64 + 64, 0:16], a, full, two_cta=True)
            px.tma.load(B[rank * 8 : rank * 8 + 8, 0:16], b, full, two_cta=True)
        if not BUG:
            used.wait(0)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
            px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
            px.tcgen05.commit(used, multicast=0b11, two_cta=True)  # bug
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[rank * 64 : rank * 64 + 64, 0:16], px.tcgen05.load(acc))


@planted("exit-hazard", **ONE)
@px.kernel(warps=5)
def a_commit_that_arrives_after_the_end(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, used, done = px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        fetch(A, B, a, b, full, 0)
        full.wait(0)
        px.tcgen05.mma(a, b.T, acc, accumulate=False)
        px.tcgen05.commit(done)
        px.tcgen05.commit(used)  # bug
        if not BUG:
            used.wait(0)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@planted("race", **PAIR)
@px.kernel(warps=6, cluster=2)
def the_peer_drains_its_half_and_tells_nobody(A, B, C, *, BUG):
    rank = px.cluster.rank()
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((8, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, used, ready = px.barrier(), px.barrier(), px.barrier()
    drained = px.barrier(checked=False, count=1 if BUG else 2)
    with px.warps(4, 1):
        for k in range(3):
            used.wait((k & 1) ^ 1)
            with full.transaction():
                px.tma.load(A[rank * 64 : rank * 64 + 64, k * 16 : k * 16 + 16], a, full, two_cta=True)
                px.tma.load(B[rank * 8 : rank * 8 + 8, k * 16 : k * 16 + 16], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            for k in range(3):
                full.wait(k & 1)
                drained.wait((k & 1) ^ 1)
                px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=True)  # bug
                px.tcgen05.commit(used, multicast=0b11, two_cta=True)
                px.tcgen05.commit(ready, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        for k in range(3):
            ready.wait(k & 1)
            x = px.tcgen05.load(acc)  # other
            if rank == 0 or not BUG:
                drained.arrive(ctas=1)
            px.store(C[rank * 64 : rank * 64 + 64, 0:16], x)


@planted("race", **PAIR)
@px.kernel(warps=6, cluster=2)
def the_mask_of_a_commit_is_too_small(A, B, C, *, BUG):
    rank = px.cluster.rank()
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, empty, done = px.barrier(), px.barrier(checked=False, count=1 if BUG else 2), px.barrier()
    with px.warps(4, 1):
        for k in range(3):
            empty.wait((k & 1) ^ 1)
            with full.transaction():
                px.tma.load(A[rank * 64 : rank * 64 + 64, k * 16 : k * 16 + 16], a, full)
                px.tma.load(  # bug, other
                    B[rank * 8 : rank * 8 + 8, k * 16 : k * 16 + 16], b[rank * 8 : rank * 8 + 8], full, multicast=0b11
                )
    with px.warps(5, 1):
        for k in range(3):
            full.wait(k & 1)
            px.tcgen05.mma(a, b.T, acc, accumulate=k > 0)
            px.tcgen05.commit(empty, multicast=(1 << rank) if BUG else 0b11)
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[rank * 64 : rank * 64 + 64, 0:16], px.tcgen05.load(acc))


@planted("race", **PAIR)
@px.kernel(warps=6, cluster=2)
def the_mask_of_a_commit_is_too_large(A, B, C, *, BUG):
    rank = px.cluster.rank()
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    first, full, empty, done = px.barrier(), px.barrier(), px.barrier(checked=False, count=1), px.barrier()
    with px.warps(4, 1):
        with first.transaction():
            px.tma.load(B[0:16, 0:16], b, first)
        for k in range(3):
            empty.wait((k & 1) ^ 1)
            with full.transaction():
                px.tma.load(A[rank * 64 : rank * 64 + 64, k * 16 : k * 16 + 16], a, full)  # bug, other
    with px.warps(5, 1):
        first.wait(0)
        for k in range(3):
            full.wait(k & 1)
            px.tcgen05.mma(a, b.T, acc, accumulate=k > 0)
            px.tcgen05.commit(empty, multicast=0b11 if BUG else 1 << rank)
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[rank * 64 : rank * 64 + 64, 0:16], px.tcgen05.load(acc))


@pytest.mark.share(2)
@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


# --- before any run ----------------------------------------------------------------------------------------------------


def before_any_run(report):
    finding, = report.findings
    assert report.schedules == () and "before any run" in str(report)
    return finding


@px.kernel(warps=4, cluster=2)
def commits_outside_the_cluster(A, B, C, *, MASK):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier(checked=False, count=2)
    fetch(A, B, a, b, full, 0)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc, accumulate=False)
    px.tcgen05.commit(done, multicast=MASK)  # bug
    done.wait(0)
    if px.cluster.rank() == 0:
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))


def test_a_mask_with_a_cta_outside_the_cluster():
    finding = before_any_run(px.check(commits_outside_the_cluster[2], A, B, C, MASK=0b101))
    assert (finding.kind, finding.location.line) == ("out-of-bounds", line_of(commits_outside_the_cluster, "bug"))
    assert px.check(commits_outside_the_cluster[2], A, B, C, MASK=0b11).ok


@px.kernel(warps=4, cluster=2)
def pairs_and_singles(A, B, C, *, PAIRED):
    rank = px.cluster.rank()
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((8, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier(checked=False, count=1)
    with full.transaction():
        px.tma.load(A[0:64, 0:16], a, full, two_cta=True)
        px.tma.load(B[rank * 8 : rank * 8 + 8, 0:16], b, full, two_cta=True)
    if rank == 0:
        full.wait(0)
        px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=True)  # other
        px.tcgen05.commit(done, multicast=0b11, two_cta=PAIRED)  # bug
    done.wait(0)
    px.store(C[0:64, 0:16], px.tcgen05.load(acc))


def test_pairs_and_singles_in_one_kernel():
    args = A, B, np.zeros((2 * M, N), np.float32)
    finding = before_any_run(px.check(pairs_and_singles[2], *args, PAIRED=False))
    lines = finding.location.line, finding.other.line
    assert finding.kind == "pair" and lines == (line_of(pairs_and_singles, "bug"), line_of(pairs_and_singles, "other"))


@pytest.mark.parametrize("paired", [True, False], ids=["pair", "multicast"])
@pytest.mark.parametrize("ends", ["sync", "early", "not"])
def test_the_peer_may_have_exited(paired, ends):
    """Without the sync at the end the kernel has to end with one itself."""

    @px.kernel(warps=4, cluster=2, exit_sync=False)
    def kernel(A, B, C, *, PAIRED, ENDS):
        rank = px.cluster.rank()
        a, b = px.shared((64, 16), A.dtype), px.shared((8 if PAIRED else 16, 16), B.dtype)
        acc = px.tmem((64, 16), px.f32)
        full, done = px.barrier(), px.barrier(checked=False, count=1 if PAIRED else 2)
        with full.transaction():
            px.tma.load(A[rank * 64 : rank * 64 + 64, 0:16], a, full, two_cta=PAIRED)
            if PAIRED:
                px.tma.load(B[rank * 8 : rank * 8 + 8, 0:16], b, full, two_cta=True)
            else:
                px.tma.load(B[0:16, 0:16], b, full)
        if rank == 0 or not PAIRED:
            full.wait(0)
            px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=PAIRED)  # pair
            px.tcgen05.commit(done, multicast=0b11, two_cta=PAIRED)  # multicast
        done.wait(0)
        px.store(C[rank * 64 : rank * 64 + 64, 0:16], px.tcgen05.load(acc))
        if ENDS == "early" and A.shape[0] > 1000:
            return
        if ENDS != "not":
            px.cluster.sync()

    report = px.check(kernel[2], *PAIR["args"], PAIRED=paired, ENDS=ends)
    if ends == "sync":
        assert report.ok, report
    else:
        finding = before_any_run(report)
        kind, mark = ("pair", "pair") if paired else ("exit-hazard", "multicast")
        assert (finding.kind, finding.location.line) == (kind, line_of(kernel, mark))
