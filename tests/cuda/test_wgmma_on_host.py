"""The CUDA text of Hopper's products on the CPU: every type, major and place of the operands, and reads that come late."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from fuzz.host import HostCase, run_batch
from host_cuda import COMPILER, MISSING, module_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
BF16, F16, F32, E4M3, E5M2 = ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
I8, U8, I32 = np.int8, np.uint8, np.int32


@px.kernel(warps=lambda W: W)
def multiplies(A, B, C, *, M, N, K, W=4, TA=False, TB=False, REGISTERS=False, NEGATE=False):
    """C += A B^T or -= it; A is (M, K), or (K, M) with TA; B is (N, K), or (K, N) with TB."""
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    px.store(b, px.load(B[0 : K if TB else N, 0 : N if TB else K]))
    acc = px.load(C[0:M, 0:N])
    if REGISTERS:
        a = px.load(A[0:M, 0:K])
        px.fence.async_proxy()
        px.wgmma(a, b if TB else b.T, acc, negate=NEGATE)
    else:
        a = px.shared((K, M) if TA else (M, K), A.dtype)
        px.store(a, px.load(A[0 : K if TA else M, 0 : M if TA else K]))
        px.fence.async_proxy()
        px.wgmma(a.T if TA else a, b if TB else b.T, acc, negate=NEGATE)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


SHAPES: list[tuple[tuple[Any, Any, Any], dict[str, Any]]] = [
    *(((BF16, BF16, F32), {"TA": ta, "TB": tb}) for ta, tb in product((False, True), repeat=2)),
    ((F16, F16, F32), {"K": 32, "N": 24}),
    ((F16, F16, F16), {"N": 64, "TB": True}),
    ((F32, F32, F32), {"K": 16}),
    ((E4M3, E5M2, F32), {"NEGATE": True}),
    ((I8, U8, I32), {"N": 32}),
    ((BF16, BF16, F32), {"M": 128, "W": 8, "N": 128, "TA": True, "TB": True}),
    ((BF16, BF16, F32), {"REGISTERS": True, "TB": True}),
    ((E5M2, E4M3, F32), {"REGISTERS": True, "N": 8}),
    ((BF16, BF16, F32), {"K": 192, "N": 96}),
    ((F16, F16, F32), {"K": 96, "N": 192, "REGISTERS": True, "NEGATE": True}),
]


def arrays(types: tuple[Any, Any, Any], shape: dict[str, Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    m, n, k = shape["M"], shape["N"], shape["K"]
    sizes = ((k, m) if shape.get("TA") else (m, k), (k, n) if shape.get("TB") else (n, k), (m, n))
    return [rng.integers(0 if t == U8 else -3, 4, size).astype(t) for t, size in zip(types, sizes, strict=True)]


def test_every_type_and_major() -> None:
    """Small integers, whose sums are exact in every order."""
    cases, wanted = [], []
    for types, settings in SHAPES:
        shape = {"M": 64, "N": 16, "K": 64, **settings}
        for seed in (1, 2):  # reads at once, and when the group is waited for
            args = arrays(types, shape)
            cases.append(HostCase(module_for(multiplies, tuple(args), **shape), 1, args, seed))
            assert "wgmma_m64" in cases[-1].module.source
            steps = shape["K"] * args[1].itemsize // 32
            one_block = shape["M"] <= 16 * shape.get("W", 4)  # else blocks of rows take turns
            assert (f"_x{steps}<" in cases[-1].module.source) == (one_block and steps > 1)
            a, b, c = (x.astype(np.int64) for x in args)
            sums = (a.T if shape.get("TA") else a) @ (b if shape.get("TB") else b.T)
            wanted.append((c + (-sums if shape.get("NEGATE") else sums)).astype(types[2]))
    for case, result, want in zip(cases, run_batch(cases), wanted, strict=True):
        assert result.failure is None, f"{case.module.source.splitlines()[0]}\n{result.failure}"
        assert np.array_equal(result.args[2], want), case.module.source.splitlines()[0]


@px.kernel(warps=4)
def overwrites(A, B, C, *, WAIT, M=64, N=64, K=32):
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    acc = px.zeros((M, N), px.f32)
    px.wgmma(a, b.T, acc)
    px.wgmma_commit()
    if WAIT:
        px.wgmma_wait(0)
    px.store(b, px.full((N, K), 0, B.dtype))
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


def test_a_buffer_that_is_reused_too_early_shows() -> None:
    rights = {}
    for wait in (True, False):
        cases = []
        for seed in range(6):
            args = [np.ones((64, 32), BF16), np.ones((64, 32), BF16), np.zeros((64, 64), F32)]
            cases.append(HostCase(module_for(overwrites, tuple(args), WAIT=wait), 1, args, seed))
        rights[wait] = [result.failure is None and bool((result.args[2] == 32).all()) for result in run_batch(cases)]
    assert all(rights[True])
    assert not all(rights[False])


@px.kernel(warps=4)
def computes_meanwhile(A, B, C, n):
    """Arithmetic while products are at work, and narrow tiles that a loop hands from one product to the next."""
    a, b = px.shared((64, 32), A.dtype), px.shared((32, 32), B.dtype)
    px.store(a, px.load(A[0:64, 0:32]))
    px.store(b, px.load(B[0:32, 0:32]))
    px.fence.async_proxy()
    p = px.dot(a, b).to(A.dtype)
    acc = px.zeros((64, 32), px.f32)
    sums = px.zeros((64,), px.f32)
    for _ in range(n):
        px.wgmma(p, b, acc)
        px.wgmma_commit()
        wide = p.to(px.f32) * 0.5
        sums = sums * 0.5 + px.sum(wide, axis=1)
        px.wgmma_wait(0)
        p = (wide + 1.0).to(A.dtype)
    px.store(C[0:64, 0:32], acc + sums.reshape(64, 1))


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", [BF16, F16])
def test_arithmetic_under_products(kind: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (rows, 32)).astype(kind) for rows in (64, 32))
    args = [a, b, np.zeros((64, 32), F32), 3]
    want = args[2].copy()
    computes_meanwhile[1](*args[:2], want, 3)
    module = module_for(computes_meanwhile, tuple(args))
    assert "ptx::finish(" in module.source
    (result,) = run_batch([HostCase(module, 1, args, 1)])
    assert result.failure is None
    np.testing.assert_array_equal(result.args[2], want)
