"""Blackwell's tensor cores and their memory: bugs planted in kernels as users write them, each with its clean twin."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import cases, planted
from sanitizer.tensor_launches import ONE, B, fetch, numbers

# --- commits -----------------------------------------------------------------------------------------------------------


@planted("race", **ONE)
@px.kernel(warps=5)
def the_accumulator_is_read_before_the_phase_of_the_commit(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier(checked=False, count=1)
    with px.warps(4, 1):
        fetch(A, B, a, b, full, 0)
        full.wait(0)
        px.tcgen05.mma(a, b.T, acc, accumulate=False)  # other
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        if not BUG:
            done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))  # bug
        if BUG:
            done.wait(0)


@planted("race", **ONE)
@px.kernel(warps=5)
def the_commit_comes_before_the_product(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done, end = px.barrier(), px.barrier(checked=False, count=1), px.barrier()
    with px.warps(4, 1):
        fetch(A, B, a, b, full, 0)
        full.wait(0)
        if BUG:
            px.tcgen05.commit(done)
        px.tcgen05.mma(a, b.T, acc, accumulate=False)  # other
        if not BUG:
            px.tcgen05.commit(done)
        px.tcgen05.commit(end)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))  # bug
        end.wait(0)


@planted("race", **ONE)
@px.kernel(warps=6)
def a_commit_of_another_role_covers_nothing(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done, end = px.barrier(), px.barrier(checked=False, count=1), px.barrier()
    with px.warps(4, 1):
        fetch(A, B, a, b, full, 0)
        full.wait(0)
        px.tcgen05.mma(a, b.T, acc, accumulate=False)  # other
        if not BUG:
            px.tcgen05.commit(done)
        px.tcgen05.commit(end)
    with px.warps(5, 1):
        if BUG:
            px.tcgen05.commit(done)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))  # bug
        end.wait(0)


@planted("tmem-lifetime", **ONE)
@px.kernel(warps=4)
def a_product_that_nobody_commits(A, B, C, *, BUG):
    a, b = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype)
    acc = px.tmem((64, 16), px.f32)  # other
    full, done = px.barrier(), px.barrier(checked=False, count=1)
    fetch(A, B, a, b, full, 0)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc, accumulate=False)  # bug
    if not BUG:
        px.tcgen05.commit(done)
        done.wait(0)


# --- accumulators and stages -------------------------------------------------------------------------------------------


@planted("race", **ONE)
@px.kernel(warps=6)
def the_accumulator_is_overwritten_before_its_epilogue_has_read_it(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, used, ready, drained = px.barrier(), px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        for k in range(3):
            used.wait((k & 1) ^ 1)
            fetch(A, B, a, b, full, k)
    with px.warps(5, 1):
        for k in range(3):
            full.wait(k & 1)
            if not BUG:
                drained.wait((k & 1) ^ 1)
            px.tcgen05.mma(a, b.T, acc, accumulate=False)  # bug
            px.tcgen05.commit(used)
            px.tcgen05.commit(ready)
    with px.warps(0, 4):
        for k in range(3):
            ready.wait(k & 1)
            x = px.tcgen05.load(acc)  # other
            drained.arrive()
            px.store(C[0:64, 0:16], x)


@planted("race", **ONE)
@px.kernel(warps=6)
def the_epilogue_arrives_before_its_load(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, used, ready, drained = px.barrier(), px.barrier(), px.barrier(), px.barrier(checked=False, count=1)
    with px.warps(4, 1):
        for k in range(3):
            used.wait((k & 1) ^ 1)
            fetch(A, B, a, b, full, k)
    with px.warps(5, 1):
        for k in range(3):
            full.wait(k & 1)
            drained.wait((k & 1) ^ 1)
            px.tcgen05.mma(a, b.T, acc, accumulate=False)  # bug
            px.tcgen05.commit(used)
            px.tcgen05.commit(ready)
    with px.warps(0, 4):
        for k in range(3):
            ready.wait(k & 1)
            if BUG:
                drained.arrive()
            x = px.tcgen05.load(acc)  # other
            if not BUG:
                drained.arrive()
            px.store(C[0:64, 0:16], x)


@planted("race", **ONE)
@px.kernel(warps=6)
def a_stage_is_refilled_before_the_commit(A, B, C, *, BUG):
    a, b, acc = px.shared((2, 64, 16), A.dtype), px.shared((2, 16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, empty, done = px.barrier(2), px.barrier(2, checked=False, count=1), px.barrier()
    with px.warps(4, 1):
        r = px.ring(2)
        for k in range(3):
            empty[r.stage].wait(r.parity ^ 1)
            with full[r.stage].transaction():
                px.tma.load(A[0:64, k * 16 : k * 16 + 16], a[r.stage], full[r.stage])  # bug
                px.tma.load(B[0:16, k * 16 : k * 16 + 16], b[r.stage], full[r.stage])
            r.advance()
    with px.warps(5, 1):
        r = px.ring(2)
        for k in range(3):
            full[r.stage].wait(r.parity)
            px.tcgen05.mma(a[r.stage], b[r.stage].T, acc, accumulate=k > 0)  # other
            if BUG:
                empty[r.stage].arrive()
            else:
                px.tcgen05.commit(empty[r.stage])
            r.advance()
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@planted("race", **ONE)
@px.kernel(warps=4)
def a_product_follows_another_of_a_different_shape(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier()
    fetch(A, B, a, b, full, 0)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc, accumulate=False)  # other
    if not BUG:
        px.tcgen05.mma(a, b.T, acc)
    else:
        px.tcgen05.mma(a, b[0:8].T, acc[:, 0:8])  # bug
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@planted("proxy", **ONE)
@px.kernel(warps=4)
def an_operand_is_stored_without_a_proxy_fence(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(B[0:16, 0:16], b, full)
    px.store(a, px.load(A[0:64, 0:16]))  # other
    if not BUG:
        px.fence.async_proxy()
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc, accumulate=False)  # bug
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@planted("uninitialised-read", **ONE)
@px.kernel(warps=4)
def the_first_product_adds_to_nothing(A, B, C, *, BUG):
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier()
    for k in range(2):
        fetch(A, B, a, b, full, k)
        full.wait(k)
        px.tcgen05.mma(a, b.T, acc, accumulate=(k >= 0) if BUG else (k > 0))  # bug
        px.tcgen05.commit(done)
        done.wait(k)
    px.store(C[0:64, 0:16], px.tcgen05.load(acc))


# --- tensor memory as an operand ---------------------------------------------------------------------------------------


@planted("race", **ONE)
@px.kernel(warps=5)
def an_operand_in_tensor_memory_is_not_handed_over(A, B, C, *, BUG):
    b, acc, left = px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32), px.tmem((64, 16), A.dtype)
    full, ready, done = px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(B[0:16, 0:16], b, full)
        full.wait(0)
        if not BUG:
            ready.wait(0)
        px.tcgen05.mma(left, b.T, acc, accumulate=False)  # bug
        px.tcgen05.commit(done)
        if BUG:
            ready.wait(0)
    with px.warps(0, 4):
        px.tcgen05.store(left, px.load(A[0:64, 0:16]))  # other
        ready.arrive()
        done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@planted("race", **ONE)
@px.kernel(warps=5)
def an_operand_in_tensor_memory_is_replaced_too_early(A, B, C, *, BUG):
    b, acc, left = px.shared((16, 16), B.dtype), px.tmem((64, 16), px.f32), px.tmem((64, 16), A.dtype)
    full, ready, done = px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(B[0:16, 0:16], b, full)
        full.wait(0)
        ready.wait(0)
        px.tcgen05.mma(left, b.T, acc, accumulate=False)  # bug
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        px.tcgen05.store(left, px.load(A[0:64, 0:16]))
        ready.arrive()
        if not BUG:
            done.wait(0)
        px.tcgen05.store(left, px.load(A[0:64, 16:32]))  # other
        done.wait(0)
        px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@planted("race", grid=1, args=(numbers(128, 16), B, np.zeros((128, 16), np.float32)))
@px.kernel(warps=4)
def a_copy_into_tensor_memory_is_read_before_its_commit(A, B, C, *, BUG):
    a, left = px.shared((128, 16), A.dtype), px.tmem((128, 16), A.dtype)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:16], a, full)
    full.wait(0)
    px.tcgen05.copy(a, left)  # other
    px.tcgen05.commit(done)
    if not BUG:
        done.wait(0)
    px.store(C[0:128, 0:16], px.tcgen05.load(left).to(px.f32))  # bug
    if BUG:
        done.wait(0)


# --- scales ------------------------------------------------------------------------------------------------------------

E4M3, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
BLOCKS = np.full((1, 2, 32, 4, 4), 2, E8M0)
SCALED = dict(
    grid=1,
    args=(numbers(128, 256).astype(E4M3), numbers(16, 256).astype(E4M3), BLOCKS, BLOCKS, np.zeros((128, 16), np.float32)),
)


@planted("race", **SCALED, strict=True)
@px.kernel(warps=4)
def scales_are_replaced_too_early(A, B, SA, SB, C, *, BUG):
    """No document says that a copy waits for the product before it that reads the same scales; all rely on it."""
    a, b, acc = px.shared((2, 128, 128), A.dtype), px.shared((2, 16, 128), B.dtype), px.tmem((128, 16), px.f32)
    sa, sb = px.shared((2, 1, 1, 32, 4, 4), SA.dtype), px.shared((2, 1, 1, 32, 4, 4), SB.dtype)
    scale_a, scale_b = px.tmem((128, 4), SA.dtype), px.tmem((2, 16, 4), SB.dtype)
    full, used, done = px.barrier(), px.barrier(), px.barrier()
    with full.transaction():
        for k in px.static_range(2):
            px.tma.load(A[0:128, k * 128 : k * 128 + 128], a[k], full)
            px.tma.load(B[0:16, k * 128 : k * 128 + 128], b[k], full)
    px.store(sa, px.load(SA[0:1, 0:2, 0:32, 0:4, 0:4]).reshape((2, 1, 1, 32, 4, 4)))
    px.store(sb, px.load(SB[0:1, 0:2, 0:32, 0:4, 0:4]).reshape((2, 1, 1, 32, 4, 4)))
    px.fence.async_proxy()
    full.wait(0)
    px.tcgen05.copy(sa[0], scale_a)
    px.tcgen05.copy(sb[0], scale_b[0])
    px.tcgen05.mma(a[0], b[0].T, acc, accumulate=False, scale_a=scale_a, scale_b=scale_b[0])  # other
    px.tcgen05.commit(used)
    if not BUG:
        used.wait(0)
    px.tcgen05.copy(sa[1], scale_a)  # bug
    px.tcgen05.copy(sb[1], scale_b[1])
    px.tcgen05.mma(a[1], b[1].T, acc, scale_a=scale_a, scale_b=scale_b[1])
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:128, 0:16], px.tcgen05.load(acc))


def test_what_all_rely_on_is_reported_only_if_asked_for():
    kernel, args = scales_are_replaced_too_early, SCALED["args"]
    assert px.check(kernel[1], *args, BUG=True).ok
    a, b, _, _, c = args
    kernel[1](a, b, BLOCKS, BLOCKS, c, BUG=True)
    assert (c == 4 * (a.astype(np.float32) @ b.astype(np.float32).T)).all()


@planted("race", **SCALED)
@px.kernel(warps=4)
def two_copies_into_the_same_columns(A, B, SA, SB, C, *, BUG):
    """Copies keep no order among themselves."""
    sa, scales = px.shared((2, 1, 1, 32, 4, 4), SA.dtype), px.tmem((2, 128, 4), SA.dtype)
    a, b, acc = px.shared((128, 128), A.dtype), px.shared((16, 128), B.dtype), px.tmem((128, 16), px.f32)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:128], a, full)
        px.tma.load(B[0:16, 0:128], b, full)
    px.store(sa, px.load(SA[0:1, 0:2, 0:32, 0:4, 0:4]).reshape((2, 1, 1, 32, 4, 4)))
    px.fence.async_proxy()
    full.wait(0)
    px.tcgen05.copy(sa[0], scales[0])  # other
    px.tcgen05.copy(sa[1], scales[0 if BUG else 1])  # bug
    px.tcgen05.mma(a, b.T, acc, accumulate=False, scale_a=scales[0], scale_b=scales[0 if BUG else 1, 0:16])
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:128, 0:16], px.tcgen05.load(acc))


@pytest.mark.share(2)
@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
