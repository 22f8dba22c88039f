"""The CUDA text of Blackwell's products on the CPU: every type, major and place of the operands, loads, stores and pairs.

The harness reads descriptors, instruction words, addresses of tensor memory and shapes of loads by code of its own
(`tests/host`); what it computes is compared with the simulator, bit for bit where sums are exact.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from fuzz.host import HostCase, run_batch
from support.host_cuda import COMPILER, MISSING, module_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
BF16, F16, F32, E4M3, E5M2 = ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
I8, U8, I32 = np.int8, np.uint8, np.int32


@px.kernel(warps=lambda W: W)
def multiplies(A, B, C, *, M, N, K, D, W=4, TA=False, TB=False, TENSOR=False, NEGATE=False, TWICE=False):
    """C += A B^T or -= it; A is (M, K), or (K, M) with TA, B (N, K), or (K, N) with TB; with TENSOR, A goes there first."""
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    px.store(b, px.load(B[0 : K if TB else N, 0 : N if TB else K]))
    acc = px.tmem((M, N), D)
    done = px.barrier()
    px.tcgen05.store(acc, px.load(C[0:M, 0:N]))
    if TENSOR:
        t = px.tmem((M, K), A.dtype)
        px.tcgen05.store(t, px.load(A[0:M, 0:K]))
        px.fence.async_proxy()
        px.tcgen05.mma(t, b if TB else b.T, acc, negate=NEGATE)
    else:
        a = px.shared((K, M) if TA else (M, K), A.dtype)
        px.store(a, px.load(A[0 : K if TA else M, 0 : M if TA else K]))
        px.fence.async_proxy()
        px.tcgen05.mma(a.T if TA else a, b if TB else b.T, acc, negate=NEGATE)
        if TWICE:
            px.tcgen05.mma(a.T if TA else a, b if TB else b.T, acc, negate=NEGATE)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:M, 0:N], px.tcgen05.load(acc))


@px.kernel(warps=6, cluster=2)
def pairs(A, B, C, *, M, N, K, D, TA=False, TB=False):
    """C = A B^T by a pair: each CTA has M rows of A and half of the columns of B."""
    rank = px.cluster.rank()
    m, n = rank * M, rank * (N // 2)
    a, b = px.shared((K, M) if TA else (M, K), A.dtype), px.shared((K, N // 2) if TB else (N // 2, K), B.dtype)
    acc = px.tmem((M, N), D)
    full, done = px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            if TA:
                px.tma.load(A[0:K, m : m + M], a, full, two_cta=True)
            else:
                px.tma.load(A[m : m + M, 0:K], a, full, two_cta=True)
            if TB:
                px.tma.load(B[0:K, n : n + N // 2], b, full, two_cta=True)
            else:
                px.tma.load(B[n : n + N // 2, 0:K], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
            px.tcgen05.mma(a.T if TA else a, b if TB else b.T, acc, accumulate=False, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[m : m + M, 0:N], px.tcgen05.load(acc))


@px.kernel(warps=8)
def slices(X, Y, *, N):
    """Rows and columns of a buffer by single warps, by two and by eight, at run-time columns and stages."""
    t = px.tmem((2, 128, N), px.f32)
    px.tcgen05.store(t[0], px.load(X[0:128, 0:N]))
    px.tcgen05.store(t[1], px.load(X[128:256, 0:N]))
    px.sync()
    with px.warps(0, 1):
        for i in range(N // 16):
            px.store(Y[0:32, i * 16 : i * 16 + 16], px.tcgen05.load(t[1, 0:32, i * 16 : i * 16 + 16]))
    with px.warps(1, 1):
        px.store(Y[32:64, 0:N], px.tcgen05.load(t[0, 32:64, 0:N]) + px.tcgen05.load(t[1, 32:64, 0:N]))
    with px.warps(2, 2):
        for s in range(2):
            px.store(Y[64 + 64 * s : 128 + 64 * s, 0:N], px.tcgen05.load(t[s, 64:128, 0:N]))


@px.kernel(warps=8)
def through(X, Y, *, W):
    """Elements of every width from registers to tensor memory and back."""
    t = px.tmem((128, W), X.dtype)
    px.tcgen05.store(t, px.load(X[0:128, 0:W]))
    px.store(Y[0:128, 0:W], px.tcgen05.load(t))


@px.kernel(warps=4)
def copied_parts(X, Y, *, COLUMN, W):
    """Rows and columns of a stage of shared memory to tensor memory, as they are."""
    s, t = px.shared((2, 256, 2 * W), X.dtype), px.tmem((128, W), X.dtype)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(X[0:256, 0 : 2 * W], s[1], full)
    full.wait(0)
    px.tcgen05.copy(s[1, 128:256, COLUMN : COLUMN + W], t)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(Y[0:128, 0:W], px.tcgen05.load(t))


@px.kernel(warps=6, cluster=2)
def folded(A, B, C, *, N, K, W):
    """A pair of 64 rows in each CTA: two warps take out parts of the first half of the columns, two of the second."""
    rank = px.cluster.rank()
    m, n = rank * 64, rank * (N // 2)
    a, b, acc = px.shared((64, K), A.dtype), px.shared((N // 2, K), B.dtype), px.tmem((64, N), px.f32)
    full, done = px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[m : m + 64, 0:K], a, full, two_cta=True)
            px.tma.load(B[n : n + N // 2, 0:K], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
            px.tcgen05.mma(a, b.T, acc, accumulate=False, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    for half in px.static_range(2):
        with px.warps(2 * half, 2):
            done.wait(0)
            for part in px.static_range(N // 2 // W):
                at = half * (N // 2) + part * W
                px.store(C[m : m + 64, at : at + W], px.tcgen05.load(acc[:, at : at + W]))


SHAPES: list[tuple[tuple[Any, Any, Any], dict[str, Any]]] = [
    *(((BF16, BF16, F32), {"TA": ta, "TB": tb}) for ta, tb in product((False, True), repeat=2)),
    ((BF16, BF16, F32), {"M": 64, "N": 128}),
    ((BF16, BF16, F32), {"M": 256, "N": 32, "TWICE": True}),
    ((BF16, BF16, F32), {"N": 384, "K": 16, "W": 8}),
    ((BF16, BF16, F32), {"N": 320, "K": 16, "W": 8, "TB": True}),  # halves would begin inside a panel of 64 columns
    ((I8, U8, I32), {"N": 384, "K": 32, "W": 8, "TB": True}),
    ((F16, F16, F32), {"K": 32, "N": 24}),
    ((F16, F16, F16), {"N": 64, "TB": True}),
    ((F16, F16, F16), {"M": 64, "N": 16}),
    ((F32, F32, F32), {"K": 16}),
    *(((F32, F32, F32), {"K": 32, "TA": ta, "TB": tb}) for ta, tb in ((False, True), (True, False), (True, True))),
    ((F32, F32, F32), {"K": 16, "M": 64, "N": 96, "TA": True, "TB": True, "TWICE": True}),
    ((E4M3, E5M2, F32), {"NEGATE": True, "K": 128}),
    ((E4M3, E4M3, F16), {"TA": True, "TB": True, "N": 128}),
    ((I8, U8, I32), {"N": 32}),
    ((I8, I8, I32), {"N": 24, "M": 64}),
    ((BF16, BF16, F32), {"M": 128, "W": 8, "N": 128, "TA": True, "TB": True}),
    ((BF16, BF16, F32), {"TENSOR": True}),
    ((BF16, BF16, F32), {"TENSOR": True, "M": 64, "TB": True}),
    ((E5M2, E4M3, F32), {"TENSOR": True, "K": 128, "W": 8}),
    ((F32, F32, F32), {"TENSOR": True, "K": 32}),
]
PAIRS: list[tuple[tuple[Any, Any, Any], dict[str, Any]]] = [
    *(((BF16, BF16, F32), {"TA": ta, "TB": tb}) for ta, tb in product((False, True), repeat=2)),
    ((BF16, BF16, F32), {"M": 64, "N": 64}),
    ((F16, F16, F16), {"M": 64, "N": 128}),
    ((F32, F32, F32), {"TA": True, "TB": True, "K": 32}),
    ((E4M3, E4M3, F32), {"N": 256, "K": 64}),
    ((I8, I8, I32), {"N": 64, "K": 64}),
]
TYPES = {BF16: px.bf16, F16: px.f16, F32: px.f32, I32: px.i32}


def arrays(types: tuple[Any, Any, Any], shape: dict[str, Any], rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    m, n, k = rows, shape["N"], shape["K"]
    sizes = ((k, m) if shape.get("TA") else (m, k), (k, n) if shape.get("TB") else (n, k), (m, n))
    return [rng.integers(0 if t == U8 else -3, 4, size).astype(t) for t, size in zip(types, sizes, strict=True)]


@pytest.mark.share(7)
@pytest.mark.parametrize("third", range(3))
def test_text_multiplies_as_the_simulator_does(third: int) -> None:
    """Small integers, whose sums are exact in every order."""
    cases: list[tuple[Any, int, list[np.ndarray], dict[str, Any]]] = []
    for types, shape in SHAPES:
        full = {"M": 128, "N": 64, "K": 64, "D": TYPES[types[2]], **shape}
        cases.append((multiplies, 1, arrays(types, full, full["M"]), full))
    for types, shape in PAIRS:
        full = {"M": 128, "N": 128, "K": 64, "D": TYPES[types[2]], **shape}
        cases.append((pairs, 2, arrays(types, full, 2 * full["M"]), full))
    x = np.random.default_rng(1).standard_normal((256, 64)).astype(F32)
    cases.append((slices, 1, [x, np.zeros_like(x)], {"N": 64}))
    for dtype in (U8, E4M3, np.uint32, np.int16):
        y = np.random.default_rng(2).integers(0, 100, (256, 128)).astype(dtype)
        cases.append((through, 1, [y, np.zeros_like(y)], {"W": 64}))
        width = 64 // y.itemsize
        part = y[:, : 2 * width].copy()
        cases.append((copied_parts, 1, [part, np.zeros((128, width), dtype)], {"COLUMN": width // 2, "W": width}))
    full = {"M": 64, "N": 128, "K": 64}
    cases.append((folded, 2, arrays((BF16, BF16, F32), full, 128), {"N": 128, "K": 64, "W": 32}))
    cases, expected, hosts = cases[third::3], [], []
    for number, (kernel, grid, args, constants) in enumerate(cases):
        expected.append([array.copy() for array in args])
        kernel[grid](*expected[-1], **constants)
        module = module_for(kernel, tuple(args), arch="sm_100a", **constants)
        hosts.append(HostCase(module, grid, [array.copy() for array in args], 1 + number % 2))
    for (kernel, _, _, constants), result, want in zip(cases, run_batch(hosts), expected, strict=True):
        what = f"{kernel.fn.__name__} {constants}"
        assert result.failure is None, f"{what}\n{result.failure}"
        for found, wanted in zip(result.args, want, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=what)
