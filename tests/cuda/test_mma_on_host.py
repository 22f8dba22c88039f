"""The CUDA text of products by mma.sync, run on the CPU thread by thread: the same results as the simulator's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import generate
from phalanx.ir.archs import arch_of
from support.front import prepared
from support.host_cuda import COMPILER, MISSING, launch, run_on_host, type_of
from support.product_kernels import anywhere, narrow_results

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
F16, F32, I8, U8, I32 = np.float16, np.float32, np.int8, np.uint8, np.int32


@px.kernel(warps=lambda WARPS: WARPS)
def product(A, B, C, *, M=64, N=64, K=64, TA=False, TB=False, WARPS=2, AR=False, BR=False):
    a = px.shared((K, M) if TA else (M, K), A.dtype)
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    px.store(a, px.load(A.tile((0, 0), a.shape)))
    px.store(b, px.load(B.tile((0, 0), b.shape)))
    left = a.T if TA else a
    right = b if TB else b.T
    acc = px.load(C[0:M, 0:N])
    acc = px.dot(px.load(left) if AR else left, px.load(right) if BR else right, acc)
    px.store(C[0:M, 0:N], acc)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape, np.float32).astype(dtype)


def arguments(left: Any, right: Any, acc: Any, M: int, N: int, K: int, TA: bool, TB: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a = numbers(rng, (K, M) if TA else (M, K), left)
    b = numbers(rng, (K, N) if TB else (N, K), right)
    return [a, b, numbers(rng, (M, N), acc)]


def check(types: tuple[Any, Any, Any], shape: tuple[int, int, int], ta: bool, tb: bool, **constants: Any) -> None:
    m, n, k = shape
    constants |= {"M": m, "N": n, "K": k, "TA": ta, "TB": tb}
    want = arguments(*types, m, n, k, ta, tb)
    got = [x.copy() for x in want]
    product[1](*want, **constants)
    run_on_host(product, 1, *got, **constants)
    tolerance = {"int32": 0, "float16": 2e-2, "float32": 1e-3}[want[2].dtype.name]
    np.testing.assert_allclose(got[2].astype(np.float64), want[2].astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.share(7)
@pytest.mark.parametrize("types", [(BF16, BF16, F32), (F16, F16, F16), (F32, F32, F32), (E4M3, E5M2, F32), (I8, U8, I32)])
@pytest.mark.parametrize("ta, tb", [(False, False), (True, True)])
def test_types_and_majors(types: tuple[Any, Any, Any], ta: bool, tb: bool) -> None:
    check(types, (32, 48, 64), ta, tb, WARPS=3)


@pytest.mark.share(8)
@pytest.mark.parametrize(
    "shape, warps", [((16, 8, 8), 1), ((16, 24, 40), 1), ((48, 8, 16), 4), ((64, 64, 48), 2), ((16, 64, 32), 6)]
)
def test_shapes(shape: tuple[int, int, int], warps: int) -> None:
    check((BF16, BF16, F32), shape, False, True, WARPS=warps)


@pytest.mark.share(7)
@pytest.mark.parametrize("types", [(BF16, BF16, F32), (E5M2, E4M3, F16), (I8, I8, I32)])
@pytest.mark.parametrize("a, b", [(True, False), (True, True)])
def test_operands_in_registers(types: tuple[Any, Any, Any], a: bool, b: bool) -> None:
    check(types, (32, 16, 64), False, False, WARPS=2, AR=a, BR=b)


@px.kernel(warps=8)
def in_place(A, B, C, *, M=128, N=32, K=32):
    """Overwrites an operand right behind its product, and gives the result back through shared memory."""
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    out = px.shared((M, N), C.dtype)
    acc = px.zeros((M, N), px.f32)
    for k in range(0, A.shape[1], K):
        px.store(a, px.load(A[0:M, k : k + K]))
        px.store(b, px.load(B[0:N, k : k + K]))
        px.fence.async_proxy()
        acc = px.dot(a, b.T, acc)
    px.store(out, acc.to(C.dtype))
    px.store(C[0:M, 0:N], px.load(out))


def test_on_a_target_without_wgmma() -> None:
    """The barriers between a product's reads and the next stores are those of warps, not of wgmma's wait."""
    rng = np.random.default_rng(0)
    args = [numbers(rng, (128, 96), BF16), numbers(rng, (32, 96), BF16), np.zeros((128, 32), BF16)]
    got = [x.copy() for x in args]
    in_place[1](*args)
    function = prepared(in_place, tuple(type_of(x) for x in got))
    module = generate(lower(function, arch_of("sm_100a")))
    assert "stmatrix_x4" in module.source and "mma_m16n8k16" in module.source
    launch(module, 1, got, seed=3)
    np.testing.assert_allclose(got[2].astype(np.float32), args[2].astype(np.float32), rtol=1e-2, atol=1e-2)


@pytest.mark.share(4)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_integers_of_16_bits_go_to_shared_memory_two_to_a_word(dtype: Any, across: bool) -> None:
    """A negative one must not reach into its neighbour."""
    rng = np.random.default_rng(0)
    args = [rng.integers(-9, 9, (64, 32)).astype(np.int8), rng.integers(-9, 9, (32, 32)).astype(np.int8)]
    want, got = np.zeros((64, 32), dtype), np.zeros((64, 32), dtype)
    narrow_results[1](*args, want, ACROSS=across)
    assert np.array_equal(want, (args[0].astype(np.int32) @ args[1].astype(np.int32).T).astype(dtype))
    module = run_on_host(narrow_results, 1, *args, got, ACROSS=across)
    assert ("stmatrix_x4_trans" if across else "stmatrix_x4") in module.source
    assert np.array_equal(got, want)


@pytest.mark.parametrize("start", [0, 3, 64])
def test_a_view_that_begins_anywhere(start: int) -> None:
    rng = np.random.default_rng(0)
    args = [numbers(rng, (128, 32), BF16), numbers(rng, (32, 32), BF16), np.zeros((64, 32), F32)]
    got = [x.copy() for x in args]
    anywhere[1](*args, start, N=32, K=32)
    run_on_host(anywhere, 1, *got, start, N=32, K=32)
    np.testing.assert_allclose(got[2], args[2], rtol=1e-3, atol=1e-3)


@px.kernel(warps=2)
def steps(A, B, C, offset, *, M=64, N=64, K=64):
    b = px.shared((N, 2 * K), B.dtype)
    px.store(b, px.load(B[0:N, 0 : 2 * K]))
    px.store(C[0:M, 0:N], px.dot(px.load(A[0:M, 0:K]), b[:, offset : offset + K].T))


@pytest.mark.share(2)
@pytest.mark.parametrize("offset", [0, 5, 64])
def test_a_tile_in_registers_beside_steps_of_shared_memory(offset: int) -> None:
    """With columns that begin anywhere, which takes plain loads."""
    rng = np.random.default_rng(0)
    args = [numbers(rng, (64, 64), BF16), numbers(rng, (64, 128), BF16), np.zeros((64, 64), F32)]
    got = [x.copy() for x in args]
    steps[1](*args, offset)
    run_on_host(steps, 1, *got, offset)
    np.testing.assert_allclose(got[2], args[2], rtol=1e-3, atol=1e-3)
