"""Products of every two of the floats of 8 bits and less on Blackwell's tensor cores, as kernels and arguments for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px

TYPES = {
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f6e2m3": ml_dtypes.float6_e2m3fn,
    "f6e3m2": ml_dtypes.float6_e3m2fn, "f4e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
E8M0 = ml_dtypes.float8_e8m0fnu
PAIRS_OF_TYPES = [(a, b) for a in TYPES for b in TYPES]
NARROW = [name for name in TYPES if name[1] != "8"]


@px.kernel(warps=4)
def products(A, B, C, *, M=128, N=32, K=128, D=px.f32, TA=False, TB=False, TENSOR=False, FIRST=0, DEPTH=None):
    """C = A B^T; A is (M, K), or (K, M) with TA, B (N, K), or (K, N) with TB; with TENSOR, A is copied there first. Of K
    the part of DEPTH from FIRST on is multiplied."""
    PA, PB, COUNT = A.dtype.bits < 8, B.dtype.bits < 8, K if DEPTH is None else DEPTH
    a = px.shared((K, M) if TA else (M, K), A.dtype, padded=PA)
    b = px.shared((K, N) if TB else (N, K), B.dtype, padded=PB)
    acc, full, done = px.tmem((M, N), D), px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0 : K if TA else M, 0 : M if TA else K], a, full)
        px.tma.load(B[0 : K if TB else N, 0 : N if TB else K], b, full)
    full.wait(0)
    right = b[FIRST : FIRST + COUNT] if TB else b[:, FIRST : FIRST + COUNT].T
    if TENSOR:
        t = px.tmem((M, K), A.dtype, padded=PA)
        px.tcgen05.copy(a, t)
        px.tcgen05.mma(t[:, FIRST : FIRST + COUNT], right, acc, accumulate=False)
    else:
        px.tcgen05.mma(a[FIRST : FIRST + COUNT].T if TA else a[:, FIRST : FIRST + COUNT], right, acc, accumulate=False)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:M, 0:N], px.tcgen05.load(acc))


@px.kernel(warps=4)
def scaled_products(A, B, SA, SB, C, *, N=128, K=128, BLOCK=32, PADDED=True, TENSOR=False):
    """C = (A SA) (B SB)^T with a scale for each BLOCK elements of K; with TENSOR, A is copied to tensor memory first."""
    M, COUNT = 128, K // BLOCK
    a = px.shared((M, K), A.dtype, padded=A.dtype.bits < 8 and PADDED)
    b = px.shared((N, K), B.dtype, padded=B.dtype.bits < 8 and PADDED)
    sa = px.shared((1, COUNT // 4, 32, 16), SA.dtype)
    sb = px.shared((N // 128, COUNT // 4, 32, 16), SB.dtype)
    acc = px.tmem((M, N), px.f32)
    scale_a, scale_b = px.tmem((M, COUNT), SA.dtype), px.tmem((N, COUNT), SB.dtype)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:M, 0:K], a, full)
        px.tma.load(B[0:N, 0:K], b, full)
        px.tma.load(SA[0:1, 0 : COUNT // 4, 0:32, 0:16], sa, full)
        px.tma.load(SB[0 : N // 128, 0 : COUNT // 4, 0:32, 0:16], sb, full)
    full.wait(0)
    px.tcgen05.copy(sa, scale_a)
    px.tcgen05.copy(sb, scale_b)
    if TENSOR:
        t = px.tmem((M, K), A.dtype, padded=A.dtype.bits < 8 and PADDED)
        px.tcgen05.copy(a, t)
        px.tcgen05.mma(t, b.T, acc, accumulate=False, scale_a=scale_a, scale_b=scale_b)
    else:
        px.tcgen05.mma(a, b.T, acc, accumulate=False, scale_a=scale_a, scale_b=scale_b)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:M, 0:N], px.tcgen05.load(acc))


@px.kernel(warps=6, cluster=2)
def pair_products(A, B, C, *, M=128, N=64, K=128, TB=False):
    """C = A B^T by a pair: each CTA has M rows of A and half of the columns of B."""
    rank = px.cluster.rank()
    m, n = rank * M, rank * (N // 2)
    a = px.shared((M, K), A.dtype, padded=A.dtype.bits < 8)
    b = px.shared((K, N // 2) if TB else (N // 2, K), B.dtype, padded=B.dtype.bits < 8)
    acc = px.tmem((M, N), px.f32)
    full, done = px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[m : m + M, 0:K], a, full, two_cta=True)
            if TB:
                px.tma.load(B[0:K, n : n + N // 2], b, full, two_cta=True)
            else:
                px.tma.load(B[n : n + N // 2, 0:K], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
            px.tcgen05.mma(a, b if TB else b.T, acc, accumulate=False, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[m : m + M, 0:N], px.tcgen05.load(acc))


def numbers(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Numbers that all of these types have, so that every code of theirs is met: those of f4e2m1, or of f6e2m3 alone."""
    if name == "f6e2m3":
        return (rng.integers(-60, 61, shape) / 8).astype(np.float32).astype(TYPES[name])
    return rng.choice(np.float32([-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6]), shape).astype(TYPES[name])


def given(array: np.ndarray) -> Any:
    """An array as a kernel takes it that reads it from a padded buffer: 6-bit elements are a dense one's."""
    name = next((name for name, dtype in TYPES.items() if array.dtype == dtype), "")
    return px.packed(array, getattr(px, name), dense=True) if name.startswith("f6") else array


def operands(a: str, b: str, *, M: int = 128, N: int = 32, K: int = 128, TA: bool = False, TB: bool = False) -> list[Any]:
    """A and B of these types."""
    rng = np.random.default_rng(3)
    return [numbers(rng, (K, M) if TA else (M, K), a), numbers(rng, (K, N) if TB else (N, K), b)]


def product_of(a: np.ndarray, b: np.ndarray, TA: bool = False, TB: bool = False) -> np.ndarray:
    """What comes out: exact, since these numbers are few."""
    left, right = a.astype(np.float32), b.astype(np.float32)
    return (left.T if TA else left) @ (right if TB else right.T)


def scales(rows: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two near 1 in the order of blocks, (rows / 128, count / 4, 32, 16), and as a plain matrix."""
    codes = np.random.default_rng(4).integers(126, 129, (rows, count)).astype(np.uint8)
    blocks = codes.reshape(rows // 128, 4, 32, count // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(rows // 128, count // 4, 32, 16).view(E8M0), codes.view(E8M0)
