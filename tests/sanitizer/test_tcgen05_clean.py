"""Kernels on Blackwell's tensor cores that are right, of every shape the compiler has to put fences and waits into."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.printer import text
from support.front import array, prepared

A = (np.arange(128 * 64) % 7 - 3).reshape(128, 64).astype(ml_dtypes.bfloat16)
B = (np.arange(64 * 64) % 5 - 2).reshape(64, 64).astype(ml_dtypes.bfloat16)
PRODUCT = A.astype(np.float32) @ B.astype(np.float32).T


@px.kernel(warps=6)
def two_accumulators(A, B, C, *, TILES):
    """The epilogue of one tile overlaps the products of the next: a ring of accumulators goes to and fro."""
    a, b, acc = px.shared((2, 64, 16), A.dtype), px.shared((2, 16, 16), B.dtype), px.tmem((2, 64, 16), px.f32)
    full, empty, ready, drained = px.barrier(2), px.barrier(2), px.barrier(2), px.barrier(2)
    with px.warps(4, 1):
        r = px.ring(2)
        for t in range(TILES):
            m, n = t % 2 * 64, t // 2 * 16
            for k in range(A.shape[1] // 16):
                empty[r.stage].wait(r.parity ^ 1)
                with full[r.stage].transaction():
                    px.tma.load(A[m : m + 64, k * 16 : k * 16 + 16], a[r.stage], full[r.stage])
                    px.tma.load(B[n : n + 16, k * 16 : k * 16 + 16], b[r.stage], full[r.stage])
                r.advance()
    with px.warps(5, 1):
        r, s = px.ring(2), px.ring(2)
        for _ in range(TILES):
            drained[s.stage].wait(s.parity ^ 1)
            for k in range(A.shape[1] // 16):
                full[r.stage].wait(r.parity)
                px.tcgen05.mma(a[r.stage], b[r.stage].T, acc[s.stage], accumulate=k > 0)
                px.tcgen05.commit(empty[r.stage])
                r.advance()
            px.tcgen05.commit(ready[s.stage])
            s.advance()
    with px.warps(0, 4):
        s = px.ring(2)
        for t in range(TILES):
            ready[s.stage].wait(s.parity)
            x = px.tcgen05.load(acc[s.stage])
            drained[s.stage].arrive()
            m, n = t % 2 * 64, t // 2 * 16
            px.store(C[m : m + 64, n : n + 16], x)
            s.advance()


@px.kernel(warps=4)
def leaves_early(A, B, C):
    """CTAs that have nothing to do return, and free their tensor memory all the same."""
    acc = px.tmem((64, 48), px.f32)
    m = px.block_id(0) * 64
    if m >= C.shape[0]:
        return
    a, b, full, done = px.shared((64, 64), A.dtype), px.shared((48, 64), B.dtype), px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[m : m + 64, 0:64], a, full)
        px.tma.load(B[0:48, 0:64], b, full)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc, accumulate=False)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[m : m + 64, 0:48], px.tcgen05.load(acc))


@px.kernel(warps=4)
def back_and_forth(A, B, C, *, TIMES):
    """Threads scale the accumulator between products, some steps more than others."""
    a, b = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype)
    acc = px.tmem((64, 16), px.f32)
    full, done = px.barrier(), px.barrier()
    px.tcgen05.store(acc, px.zeros((64, 16), px.f32))
    for k in range(TIMES):
        with full.transaction():
            px.tma.load(A[0:64, k * 16 : k * 16 + 16], a, full)
            px.tma.load(B[0:16, k * 16 : k * 16 + 16], b, full)
        full.wait(k & 1)
        px.tcgen05.mma(a, b.T, acc)
        px.tcgen05.commit(done)
        done.wait(k & 1)
        if k % 2 == 1:
            px.tcgen05.store(acc, px.tcgen05.load(acc) * 2)
    px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@px.kernel(warps=5)
def operand_for_the_next_product(A, B, C):
    """The result of one product becomes the left operand of the next, by another role, in the columns of the first."""
    a, b = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype)
    first = px.tmem((64, 64), px.f32)
    left = px.tmem((64, 64), A.dtype, reuse=first)
    second = px.tmem((64, 64), px.f32)
    full, done, ready, end = px.barrier(), px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[0:64, 0:64], a, full)
            px.tma.load(B[0:64, 0:64], b, full)
        full.wait(0)
        px.tcgen05.mma(a, b.T, first, accumulate=False)
        px.tcgen05.commit(done)
        ready.wait(0)
        px.tcgen05.mma(left, b.T, second, accumulate=False)
        px.tcgen05.commit(end)
    with px.warps(0, 4):
        done.wait(0)
        scores = px.tcgen05.load(first)
        px.tcgen05.store(left, px.maximum(scores, 0).to(A.dtype))
        ready.arrive()
        end.wait(0)
        px.store(C[0:64, 0:64], px.tcgen05.load(second))


@px.kernel(warps=4)
def roles_one_after_the_other(A, B, C):
    """The code outside roles multiplies; the roles behind it load; the code behind them loads again."""
    a, b, acc = px.shared((128, 64), A.dtype), px.shared((64, 64), B.dtype), px.tmem((128, 64), px.f32)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc, accumulate=False)
    px.tcgen05.commit(done)
    done.wait(0)
    with px.warps(0, 2):
        px.tcgen05.store(acc[0:64], px.tcgen05.load(acc[0:64]) + 1)
    with px.warps(2, 2):
        px.tcgen05.store(acc[64:128], px.tcgen05.load(acc[64:128]) + 1)
    px.store(C[0:128, 0:64], px.tcgen05.load(acc))


@px.kernel(warps=5)
def asks_again(A, B, C):
    """The epilogue spins on the barrier of the commit."""
    a, b, acc = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.tmem((64, 64), px.f32)
    full, done = px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[0:64, 0:64], a, full)
            px.tma.load(B[0:64, 0:64], b, full)
        full.wait(0)
        px.tcgen05.mma(a, b.T, acc, accumulate=False)
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        while not done.test_wait(0):
            pass
        px.store(C[0:64, 0:64], px.tcgen05.load(acc))


def scaled(steps: int) -> np.ndarray:
    a, b = A[:64].astype(np.float32), B[:16].astype(np.float32)
    acc = np.zeros((64, 16), np.float32)
    for k in range(steps):
        acc += a[:, k * 16 : k * 16 + 16] @ b[:, k * 16 : k * 16 + 16].T
        acc *= 2 if k % 2 else 1
    return acc


def again() -> np.ndarray:
    left = np.maximum(PRODUCT[:64], 0).astype(ml_dtypes.bfloat16).astype(np.float32)
    return left @ B.astype(np.float32).T


CLEAN = [
    (two_accumulators, 1, (128, 64), {"TILES": 8}, PRODUCT),
    (two_accumulators, 1, (128, 64), {"TILES": 1}, np.pad(PRODUCT[:64, :16], ((0, 64), (0, 48)))),
    (leaves_early, 3, (128, 48), {}, PRODUCT[:, :48]),
    (back_and_forth, 1, (64, 16), {"TIMES": 4}, scaled(4)),
    (back_and_forth, 1, (64, 16), {"TIMES": 1}, scaled(1)),
    (operand_for_the_next_product, 1, (64, 64), {}, again()),
    (roles_one_after_the_other, 1, (128, 64), {}, PRODUCT + 1),
    (asks_again, 1, (64, 64), {}, PRODUCT[:64]),
]


@pytest.mark.share(7)
@pytest.mark.parametrize(("kernel", "grid", "shape", "constants", "want"), CLEAN, ids=lambda part: getattr(part, "name", ""))
def test_clean(kernel, grid, shape, constants, want):
    c = np.zeros(shape, np.float32)
    kernel[grid](A, B, c, **constants)
    np.testing.assert_array_equal(c, want)
    report = px.check(kernel[grid], A, B, c, strict=True, schedules=5, **constants)
    assert report.ok, report


def test_48_columns_are_allocated_as_64():
    types = array(2, px.bf16), array(2, px.bf16), array(2, px.f32)
    listing = text(prepared(leaves_early, types))
    assert "accumulator, columns 0 to 47" in listing and "tmem.alloc columns=64" in listing
    assert listing.count("tmem.alloc") == listing.count("tmem.free") == 1
