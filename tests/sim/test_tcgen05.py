"""Blackwell's tensor cores in the simulator: types, shapes, majors, places of the operands, loads and stores by warps.

Pairs and scales too; each against NumPy, under every kind of schedule.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import FROM_NUMPY
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.front import array, prepared

BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32
E4M3, E5M2, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu
I8, U8, I32 = np.int8, np.uint8, np.int32
SCHEDULES = [Schedule("late"), Schedule("early"), *(Schedule("random", seed) for seed in range(3))]


def whole(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Small whole numbers: all sums are exact, so that results are compared bit for bit."""
    low = 0 if np.dtype(dtype).kind == "u" else -4
    return rng.integers(low, 5, shape).astype(dtype)


def run_all(kernel: Any, grid: int, args: list[np.ndarray], **constants: Any) -> list[np.ndarray]:
    """The last argument after a run under each schedule; all must be the same."""
    function = prepared(kernel, tuple(array(arg.ndim, FROM_NUMPY[arg.dtype]) for arg in args), **constants)
    results = []
    for schedule in SCHEDULES:
        mine = [arg.copy() for arg in args]
        simulate(function, (grid, 1, 1), mine, schedule=schedule)
        results.append(mine[-1])
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    return results[0]


@px.kernel(warps=5)
def multiplies(A, B, C, *, M, N, K, D, TA=False, TB=False, TENSOR=False, NEGATE=False, KEEP=True, TIMES=1):
    """C += A B (-= with NEGATE, = without KEEP); A is (M, K), or (K, M) with TA, B (N, K), or (K, N) with TB."""
    a, b = px.shared((K, M) if TA else (M, K), A.dtype), px.shared((K, N) if TB else (N, K), B.dtype)
    acc, left = px.tmem((M, N), D), px.tmem((M, K), A.dtype)
    full, ready, done = px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[0 : K if TA else M, 0 : M if TA else K], a, full)
            px.tma.load(B[0 : K if TB else N, 0 : N if TB else K], b, full)
        full.wait(0)
        ready.wait(0)
        for i in px.static_range(TIMES):
            if TENSOR:
                px.tcgen05.mma(left, b if TB else b.T, acc, accumulate=KEEP or i > 0, negate=NEGATE)
            else:
                px.tcgen05.mma(a.T if TA else a, b if TB else b.T, acc, accumulate=KEEP or i > 0, negate=NEGATE)
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        px.tcgen05.store(acc, px.load(C[0:M, 0:N]))
        if TENSOR:
            px.tcgen05.store(left, px.load(A[0:M, 0:K]))
        ready.arrive()
        done.wait(0)
        px.store(C[0:M, 0:N], px.tcgen05.load(acc))


def one(left: Any, right: Any, wide: Any, *, M=128, N=32, K=64, TA=False, TB=False, **constants: Any) -> None:
    rng = np.random.default_rng(M + N + K)
    a, b = whole(rng, (K, M) if TA else (M, K), left), whole(rng, (K, N) if TB else (N, K), right)
    c = whole(rng, (M, N), wide)
    exact = I32 if wide is I32 else F32
    factor = (a.T if TA else a).astype(exact) @ (b if TB else b.T).astype(exact)
    times = constants.get("TIMES", 1) * (-1 if constants.get("NEGATE") else 1)
    want = (times * factor + (c if constants.get("KEEP", True) else 0)).astype(wide)
    got = run_all(multiplies, 1, [a, b, c], M=M, N=N, K=K, D=FROM_NUMPY[np.dtype(wide)], TA=TA, TB=TB, **constants)
    np.testing.assert_array_equal(got, want)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("left", "right", "wide"),
    [
        (BF16, BF16, F32), (F16, F16, F32), (F16, F16, F16), (F32, F32, F32), *((x, y, F32) for x in (E4M3, E5M2) for y in
        (E4M3, E5M2)), (E4M3, E4M3, F16), (I8, I8, I32), (I8, U8, I32), (U8, U8, I32),
    ],
    ids=lambda dtype: np.dtype(dtype).name,
)
def test_types(left: Any, right: Any, wide: Any) -> None:
    one(left, right, wide)


SHAPES = [(64, 8, 16), (64, 24, 48), (64, 256, 32), (128, 16, 16), (128, 256, 128), (256, 64, 32), (128, 384, 16)]


@pytest.mark.share(7)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_shapes(m: int, n: int, k: int) -> None:
    one(BF16, BF16, F32, M=m, N=n, K=k)


@pytest.mark.share(7)
@pytest.mark.parametrize(("ta", "tb"), list(product((False, True), repeat=2)))
@pytest.mark.parametrize(("left", "wide"), [(BF16, F32), (E4M3, F32), (I8, I32), (F32, F32)], ids=["bf", "f8", "i8", "f32"])
def test_majors(left: Any, wide: Any, ta: bool, tb: bool) -> None:
    one(left, left, wide, TA=ta, TB=tb)


@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize(
    ("left", "wide"), [(BF16, F32), (E5M2, F16), (F32, F32), (I8, I32)], ids=["bf16", "f8", "tf32", "i8"]
)
def test_the_left_operand_in_tensor_memory(left: Any, wide: Any, m: int) -> None:
    one(left, left, wide, M=m, TENSOR=True)


def test_negated_and_started_anew() -> None:
    one(BF16, BF16, F32, NEGATE=True, TIMES=2)
    one(BF16, BF16, F32, NEGATE=True, KEEP=False, TIMES=2)
    one(F16, F16, F16, NEGATE=True)


def test_f32_operands_are_cut_to_tf32() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, F32) for shape in ((128, 64), (32, 64)))
    short = [(x.view(np.uint32) & 0xFFFFE000).view(F32) for x in (a, b)]
    got = run_all(multiplies, 1, [a, b, np.zeros((128, 32), F32)], M=128, N=32, K=64, D=px.f32)
    np.testing.assert_allclose(got, short[0] @ short[1].T, rtol=1e-5, atol=1e-4)
    assert np.abs(got - a @ b.T).max() > 1e-3


def test_sums_in_f16_are_rounded_after_each_instruction() -> None:
    """2048 + 1 is 2048 in f16: ones that come one instruction at a time are lost, those of one instruction are not."""
    a, b = np.zeros((64, 32), F16), np.ones((8, 32), F16)
    a[:, 0] = a[:, 16] = 1
    c = np.full((64, 8), 2048, F16)
    assert (run_all(multiplies, 1, [a, b, c], M=64, N=8, K=32, D=px.f16) == 2048).all()
    a[:, 1], a[:, 16] = 1, 0
    assert (run_all(multiplies, 1, [a, b, c], M=64, N=8, K=32, D=px.f16) == 2050).all()


# --- a condition at run time -------------------------------------------------------------------------------------------


@px.kernel(warps=4)
def adds_up_from(A, B, C, first, *, D=px.f32):
    """The sum of the steps from `first` on."""
    a, b, acc = px.shared((64, 16), A.dtype), px.shared((16, 16), B.dtype), px.tmem((64, 16), D)
    full, done = px.barrier(), px.barrier()
    for k in range(A.shape[1] // 16):
        with full.transaction():
            px.tma.load(A[0:64, k * 16 : k * 16 + 16], a, full)
            px.tma.load(B[0:16, k * 16 : k * 16 + 16], b, full)
        full.wait(k & 1)
        px.tcgen05.mma(a, b.T, acc, accumulate=k != 0 and k != first)
        px.tcgen05.commit(done)
        done.wait(k & 1)
    px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@pytest.mark.parametrize("first", [0, 2, 3])
def test_a_condition_at_run_time(first: int) -> None:
    rng = np.random.default_rng(first)
    a, b, c = whole(rng, (64, 64), BF16), whole(rng, (16, 64), BF16), np.zeros((64, 16), F32)
    adds_up_from[1](a, b, c, first)
    np.testing.assert_array_equal(c, a[:, first * 16 :].astype(F32) @ b[:, first * 16 :].astype(F32).T)
    assert px.check(adds_up_from[1], a, b, c, first).ok


# --- loads and stores --------------------------------------------------------------------------------------------------


@px.kernel(warps=8)
def through_tensor_memory(X, Y, *, WARPS, N):
    """Every row goes in and out, with one added, by four warps, by eight or by single ones."""
    t = px.tmem((2, 128, N), X.dtype)
    if WARPS == 1:
        with px.warps(0, 1):
            px.tcgen05.store(t[1, 0:32], px.load(X[0:32, 0:N]))
            px.store(Y[0:32, 0:N], px.tcgen05.load(t[1, 0:32]) + 1)
        with px.warps(1, 1):
            px.tcgen05.store(t[1, 32:64], px.load(X[32:64, 0:N]))
            px.store(Y[32:64, 0:N], px.tcgen05.load(t[1, 32:64]) + 1)
        with px.warps(6, 2):
            for i in range(2):
                px.tcgen05.store(t[i, 64:128], px.load(X[64:128, 0:N]))
                px.store(Y[64:128, 0:N], px.tcgen05.load(t[i, 64:128]) + 1)
    else:
        with px.warps(0, WARPS):
            px.tcgen05.store(t[0], px.load(X[0:128, 0:N]))
            for i in range(N // 16):
                y = px.tcgen05.load(t[0, :, i * 16 : i * 16 + 16]) + 1
                px.store(Y[0:128, i * 16 : i * 16 + 16], y)


@pytest.mark.share(7)
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("dtype", [F32, BF16, I32], ids=lambda dtype: np.dtype(dtype).name)
def test_loads_and_stores(warps: int, dtype: Any) -> None:
    x = (np.arange(128 * 64).reshape(128, 64) % 100).astype(dtype)
    got = run_all(through_tensor_memory, 1, [x, np.zeros((128, 64), dtype)], WARPS=warps, N=64)
    np.testing.assert_array_equal(got, (x + 1).astype(dtype))
    assert px.check(through_tensor_memory[1], x, x.copy(), WARPS=warps, N=64).ok


# --- pairs -------------------------------------------------------------------------------------------------------------


@px.kernel(warps=6, cluster=2)
def pairs(A, B, C, *, M, N, K, D, STEPS=1, TENSOR=False):
    """C = A B^T of a pair: each CTA has its M rows of A and half of the columns of B."""
    rank = px.cluster.rank()
    m, n = rank * M, rank * (N // 2)
    a, b, acc = px.shared((M, K), A.dtype), px.shared((N // 2, K), B.dtype), px.tmem((M, N), D)
    left = px.tmem((M, K), A.dtype)
    full, used, ready, done = px.barrier(), px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        for k in range(STEPS):
            used.wait((k & 1) ^ 1)
            with full.transaction():
                px.tma.load(A[m : m + M, k * K : k * K + K], a, full, two_cta=True)
                px.tma.load(B[n : n + N // 2, k * K : k * K + K], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            ready.wait(0)
            for k in range(STEPS):
                full.wait(k & 1)
                if TENSOR:
                    px.tcgen05.mma(left, b.T, acc, accumulate=k > 0, two_cta=True)
                else:
                    px.tcgen05.mma(a, b.T, acc, accumulate=k > 0, two_cta=True)
                px.tcgen05.commit(used, multicast=0b11, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        if TENSOR:
            px.tcgen05.store(left, px.load(A[m : m + M, 0:K]))
        ready.arrive(ctas=1)
        done.wait(0)
        px.store(C[m : m + M, 0:N], px.tcgen05.load(acc))


@pytest.mark.share(7)
@pytest.mark.parametrize(
    ("m", "n", "dtype", "wide", "steps", "tensor"),
    [
        (128, 64, BF16, F32, 3, False), (64, 32, BF16, F32, 2, False), (128, 256, F16, F16, 1, False),
        (64, 128, E4M3, F32, 2, False), (128, 32, I8, I32, 1, False), (128, 64, BF16, F32, 1, True),
    ],
)
def test_pairs(m: int, n: int, dtype: Any, wide: Any, steps: int, tensor: bool) -> None:
    rng = np.random.default_rng(0)
    depth = 64 * steps
    a, b, c = whole(rng, (2 * m, depth), dtype), whole(rng, (n, depth), dtype), np.zeros((2 * m, n), wide)
    constants = dict(M=m, N=n, K=64, D=FROM_NUMPY[np.dtype(wide)], STEPS=steps, TENSOR=tensor)
    got = run_all(pairs, 2, [a, b, c], **constants)
    exact = I32 if wide is I32 else F32
    np.testing.assert_array_equal(got, (a.astype(exact) @ b.astype(exact).T).astype(wide))
    assert px.check(pairs[2], a, b, c, **constants).ok


# --- scales ------------------------------------------------------------------------------------------------------------


def in_blocks(scales: np.ndarray) -> np.ndarray:
    """Scales (rows, K / block) in blocks of 128 rows by 4: row r of a block is group r % 32, number r / 32 in it."""
    rows, columns = scales.shape
    padded = np.zeros((-(-rows // 128) * 128, -(-columns // 4) * 4), scales.dtype)
    padded[:rows, :columns] = scales
    out = np.zeros((padded.shape[0] // 128, padded.shape[1] // 4, 32, 4, 4), scales.dtype)
    for r, c in np.ndindex(*padded.shape):
        out[r // 128, c // 4, r % 32, r % 128 // 32, c % 4] = padded[r, c]
    return out


@px.kernel(warps=4)
def scaled(A, B, SA, SB, C, *, N, K, BLOCK):
    """C = (A scaled by SA) (B scaled by SB)^T, scales in the order of blocks."""
    a, b, acc = px.shared((128, K), A.dtype), px.shared((N, K), B.dtype), px.tmem((128, N), px.f32)
    count, blocks = K // BLOCK, px.cdiv(K // BLOCK, 4)
    sa = px.shared((1, blocks, 32, 4, 4), SA.dtype)
    sb = px.shared((px.cdiv(N, 128), blocks, 32, 4, 4), SB.dtype)
    scale_a, scale_b = px.tmem((128, count), SA.dtype), px.tmem((N, count), SB.dtype)
    done = px.barrier()
    px.store(a, px.load(A[0:128, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.store(sa, px.load(SA[0:1, 0:blocks, 0:32, 0:4, 0:4]))
    px.store(sb, px.load(SB[0 : px.cdiv(N, 128), 0:blocks, 0:32, 0:4, 0:4]))
    px.fence.async_proxy()
    px.tcgen05.copy(sa, scale_a)
    px.tcgen05.copy(sb, scale_b)
    px.tcgen05.mma(a, b.T, acc, accumulate=False, scale_a=scale_a, scale_b=scale_b)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:128, 0:N], px.tcgen05.load(acc))


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("left", "right", "scale", "block", "n", "k"),
    [
        (E4M3, E4M3, E8M0, 32, 32, 128), (E4M3, E5M2, E8M0, 32, 256, 256),
        (ml_dtypes.float4_e2m1fn, ml_dtypes.float4_e2m1fn, E8M0, 32, 64, 256),
        (ml_dtypes.float4_e2m1fn, ml_dtypes.float4_e2m1fn, E4M3, 16, 128, 128),
    ],
)
def test_scales(left: Any, right: Any, scale: Any, block: int, n: int, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = whole(rng, (128, k), left), whole(rng, (n, k), right)
    factors = [(2.0 ** rng.integers(-2, 3, (rows, k // block))).astype(scale) for rows in (128, n)]
    args = [a, b, *map(in_blocks, factors), np.zeros((128, n), F32)]
    wide = [x.astype(F32) * np.repeat(s.astype(F32), block, axis=1) for x, s in zip((a, b), factors, strict=True)]
    constants = dict(N=n, K=k, BLOCK=block)
    np.testing.assert_array_equal(run_all(scaled, 1, args, **constants), wide[0] @ wide[1].T)
    assert px.check(scaled[1], *args, **constants).ok


@pytest.mark.parametrize("right", [2.0, 0.0])
@pytest.mark.parametrize("exponents", [(127, -127), (-127, 127), (127, 127)])
def test_scales_that_cancel(exponents: tuple[int, int], right: float) -> None:
    """A block counts with the product of its two scales: neither alone leaves the range of f32 beside an element."""
    a, b = np.full((128, 128), 2.0).astype(E4M3), np.full((32, 128), right).astype(E4M3)
    factors = [np.full((rows, 4), 2.0**exponent).astype(E8M0) for rows, exponent in zip((128, 32), exponents)]
    args = [a, b, *map(in_blocks, factors), np.zeros((128, 32), F32)]
    found = run_all(scaled, 1, args, N=32, K=128, BLOCK=32)
    wanted = 0.0 if not right else 512.0 if sum(exponents) == 0 else np.inf
    assert (found == wanted).all()


@px.kernel(warps=6, cluster=2)
def scaled_pairs(A, B, SA, SB, C, *, N, K, STEPS):
    """A block-scaled product of a pair: scales of A are each CTA's own, of B whole in both; the even CTA copies for both."""
    rank = px.cluster.rank()
    m, n, count = rank * 128, rank * (N // 2), K // 32
    a, b, acc = px.shared((128, K), A.dtype), px.shared((N // 2, K), B.dtype), px.tmem((128, N), px.f32)
    sa, sb = px.shared((1, count // 4, 32, 4, 4), SA.dtype), px.shared((px.cdiv(N, 128), count // 4, 32, 4, 4), SB.dtype)
    scale_a, scale_b = px.tmem((128, count), SA.dtype), px.tmem((N, count), SB.dtype)
    full, filled, used, done = px.barrier(), px.barrier(), px.barrier(), px.barrier()
    with px.warps(4, 1):
        for k in range(STEPS):
            used.wait((k & 1) ^ 1)
            with full.transaction():
                px.tma.load(A[m : m + 128, k * K : k * K + K], a, full, two_cta=True)
                px.tma.load(B[n : n + N // 2, k * K : k * K + K], b, full, two_cta=True)
            j = k * (count // 4)
            px.store(sa, px.load(SA[rank : rank + 1, j : j + count // 4, 0:32, 0:4, 0:4]))
            px.store(sb, px.load(SB[0 : px.cdiv(N, 128), j : j + count // 4, 0:32, 0:4, 0:4]))
            px.fence.async_proxy()
            filled.arrive(ctas=1)
    with px.warps(5, 1):
        if rank == 0:
            for k in range(STEPS):
                full.wait(k & 1)
                filled.wait(k & 1)
                px.tcgen05.copy(sa, scale_a, two_cta=True)
                px.tcgen05.copy(sb, scale_b, two_cta=True)
                px.tcgen05.mma(a, b.T, acc, accumulate=k > 0, scale_a=scale_a, scale_b=scale_b, two_cta=True)
                px.tcgen05.commit(used, multicast=0b11, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[m : m + 128, 0:N], px.tcgen05.load(acc))


def test_scales_of_pairs() -> None:
    rng = np.random.default_rng(0)
    a, b = whole(rng, (256, 256), E4M3), whole(rng, (160, 256), E4M3)
    factors = [(2.0 ** rng.integers(-2, 3, (rows, 8))).astype(E8M0) for rows in (256, 160)]
    args = [a, b, *map(in_blocks, factors), np.zeros((256, 160), F32)]
    wide = [x.astype(F32) * np.repeat(s.astype(F32), 32, axis=1) for x, s in zip((a, b), factors, strict=True)]
    constants = dict(N=160, K=128, STEPS=2)
    np.testing.assert_array_equal(run_all(scaled_pairs, 2, args, **constants), wide[0] @ wide[1].T)
    report = px.check(scaled_pairs[2], *args, **constants)
    assert report.ok, report


@px.kernel(warps=4)
def copies(X, Y):
    """A matrix of shared memory to tensor memory as it is."""
    s, t, done = px.shared((128, 32), X.dtype), px.tmem((128, 32), X.dtype), px.barrier()
    px.store(s, px.load(X[0:128, 0:32]))
    px.fence.async_proxy()
    px.tcgen05.copy(s, t)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(Y[0:128, 0:32], px.tcgen05.load(t))


@pytest.mark.parametrize("dtype", [BF16, F32, U8], ids=lambda dtype: np.dtype(dtype).name)
def test_copies(dtype: Any) -> None:
    x = (np.arange(128 * 32) % 200).reshape(128, 32).astype(dtype)
    np.testing.assert_array_equal(run_all(copies, 1, [x, np.zeros_like(x)]), x)
