"""The CUDA text of products whose operands go through shared memory, run on the CPU thread by thread, for each target."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support import plain_products as kernels
from support.host_cuda import COMPILER, MISSING, launch, module_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def same_as_simulated(
    kernel: Any, grid: Any, args: list[np.ndarray], arch: str, out: int, tolerance: float = 0, **constants: Any
) -> str:
    want, got = [x.copy() for x in args], [x.copy() for x in args]
    kernel[grid](*want, arch=arch, **constants)
    module = module_for(kernel, tuple(got), arch=arch, **constants)
    launch(module, grid, got, seed=2)
    np.testing.assert_allclose(got[out].astype(np.float64), want[out].astype(np.float64), rtol=tolerance, atol=tolerance)
    return module.source


@pytest.mark.share(9)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_100a", "sm_120a"))
@pytest.mark.parametrize("dtype", [BF16, np.float32, E4M3, np.int8])
@pytest.mark.parametrize("ta, tb", [(False, True), (True, False)])
def test_plain_products(arch: str, dtype: Any, ta: bool, tb: bool) -> None:
    rng = np.random.default_rng(1)
    shapes = (80, 100) if ta else (100, 80), (72, 80) if tb else (80, 72)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in shapes)
    whole = np.dtype(dtype) == np.int8
    args = [a, b, np.zeros((100, 72), np.int32 if whole else np.float32)]
    acc = px.i32 if whole else px.f32
    text = same_as_simulated(kernels.plain_matmul, (2, 2), args, arch, 2, TA=ta, TB=tb, ACC=acc)
    if arch == "sm_120a":
        transposed = np.dtype(dtype).itemsize == 2 and (ta or not tb)
        assert "ptx::ldmatrix_x4(" in text or "ptx::ldmatrix_x2(" in text or transposed
        assert ("_trans(" in text) == transposed


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_100a", "sm_120a"))
def test_a_plain_attention_loop(arch: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((rows, 32)).astype(BF16) for rows in (128, 40, 40))
    rows = 128 if arch == "sm_100a" else 64
    args = [q, k, v, np.zeros((128, 32), np.float32)]
    same_as_simulated(kernels.plain_attention, 128 // rows, args, arch, 3, 1e-2, BM=rows)


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_120a"))
def test_copies_of_a_role(arch: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(BF16) for shape in ((128, 80), (32, 80)))
    same_as_simulated(kernels.plain_copies, 1, [a, b, np.zeros((128, 32), np.float32)], arch, 2)


def test_more_threads_than_vectors_of_rows_that_are_no_power_of_two() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e5m2) for shape in ((48, 64), (16, 64)))
    args = [a, b, np.zeros((48, 16), np.float32)]
    same_as_simulated(kernels.plain_matmul, 1, args, "sm_90a", 2, BM=48, BN=16, BK=64, WARPS=16)
