"""Tensor cores on the GPU: every type, major, accumulator and spread of warps gives the simulator's result."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.product_kernels import by_rows, dots, halves, narrow_results, slices

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
F16, F32, I8, U8, I32 = np.float16, np.float32, np.int8, np.uint8, np.int32
_CARRIER = {1: np.int8, 2: np.int16, 4: np.int32}


def to_gpu(x: np.ndarray) -> Any:
    carried = torch.from_numpy(np.ascontiguousarray(x).view(_CARRIER[x.dtype.itemsize]).copy()).cuda()
    return carried.view(getattr(torch, x.dtype.name))


def to_host(x: Any, like: np.ndarray) -> np.ndarray:
    carrier = torch.from_numpy(np.zeros(1, _CARRIER[like.dtype.itemsize])).dtype
    return x.view(carrier).cpu().numpy().view(like.dtype)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-50 if np.dtype(dtype).kind == "i" else 0, 50, shape).astype(dtype)
    return rng.standard_normal(shape, np.float32).astype(dtype)


def compare(launch: Any, args: list[np.ndarray], tolerance: float | None = None, **constants: Any) -> None:
    """The same launch in the simulator and on the GPU; the last argument is the result."""
    want = [x.copy() for x in args]
    launch(*want, **constants)
    tensors = [to_gpu(x) for x in args]
    launch(*tensors, **constants)
    torch.cuda.synchronize()
    got = to_host(tensors[-1], args[-1])
    if tolerance is None:
        tolerance = {"int32": 0.0, "float16": 5e-2, "bfloat16": 5e-2}.get(args[-1].dtype.name, 2e-3)
        if tolerance and args[0].dtype.itemsize == 1:  # the hardware keeps about 13 bits of a sum of fp8 products
            tolerance = 5e-2
    np.testing.assert_allclose(got.astype(np.float64), want[-1].astype(np.float64), rtol=tolerance, atol=tolerance)


@px.kernel(warps=lambda WARPS: WARPS)
def product(
    A, B, C, *, M=64, N=64, K=64, TA=False, TB=False, WARPS=4, NEGATE=False, ALONG="m", DOT=False, AR=False, BR=False
):
    a = px.shared((K, M) if TA else (M, K), A.dtype)
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A.tile((0, 0), a.shape), a, full)
        px.tma.load(B.tile((0, 0), b.shape), b, full)
    full.wait(0)
    acc = px.load(C[0:M, 0:N])
    left = a.T if TA else a
    right = b if TB else b.T
    if DOT:
        acc = px.dot(px.load(left) if AR else left, px.load(right) if BR else right, acc, along=ALONG)
    else:
        px.wgmma(px.load(left) if AR else left, right, acc, negate=NEGATE, along=ALONG)
        px.wgmma_commit()
        px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


def run(types: tuple[Any, Any, Any], shape: tuple[int, int, int] = (64, 64, 64), **constants: Any) -> None:
    rng = np.random.default_rng(0)
    m, n, k = shape
    a = numbers(rng, (k, m) if constants.get("TA") else (m, k), types[0])
    b = numbers(rng, (k, n) if constants.get("TB") else (n, k), types[1])
    compare(product[1], [a, b, numbers(rng, (m, n), types[2])], M=m, N=n, K=k, **constants)


TYPES = [
    (BF16, BF16, F32), (F16, F16, F32), (F16, F16, F16), (F32, F32, F32), (E4M3, E4M3, F32), (E4M3, E5M2, F32),
    (E5M2, E4M3, F16), (I8, I8, I32), (I8, U8, I32), (U8, U8, I32),
]  # fmt: skip


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("registers", [False, True])
def test_wgmma_types(types: tuple[Any, Any, Any], registers: bool) -> None:
    run(types, (128, 96, 128), AR=registers)


@pytest.mark.parametrize("acc", [F32, F16])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_wgmma_majors(ta: bool, tb: bool, acc: Any) -> None:
    run((F16, F16, acc), (64, 128, 64), TA=ta, TB=tb, NEGATE=True)


@pytest.mark.parametrize("acc", [F32, F16])
@pytest.mark.parametrize("shape", [(64, 128, 64), (128, 64, 64), (64, 512, 64)])
@pytest.mark.parametrize("registers", [False, True])
def test_warpgroups_along_n(shape: tuple[int, int, int], acc: Any, registers: bool) -> None:
    run((F16, F16, acc), shape, WARPS=8, ALONG="n", AR=registers)


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("ta, tb", [(False, False), (True, True), (True, False)])
def test_mma_sync_types_and_majors(types: tuple[Any, Any, Any], ta: bool, tb: bool) -> None:
    run(types, (32, 48, 64), WARPS=3, DOT=True, TA=ta, TB=tb)


@pytest.mark.parametrize(
    "shape, warps",
    [((16, 8, 8), 1), ((16, 24, 40), 2), ((48, 16, 32), 4), ((64, 64, 64), 2), ((32, 272, 32), 4), ((128, 128, 64), 6)],
)
def test_mma_sync_shapes(shape: tuple[int, int, int], warps: int) -> None:
    run((BF16, BF16, F32), shape, WARPS=warps, DOT=True)


@pytest.mark.parametrize("types", [(BF16, BF16, F32), (E4M3, E4M3, F32), (F32, F32, F32), (I8, I8, I32)], ids=str)
def test_mma_sync_operands_in_registers(types: tuple[Any, Any, Any]) -> None:
    run(types, (64, 32, 64), WARPS=4, DOT=True, AR=True, BR=True)


def test_f16_accumulators_through_a_ring_and_stmatrix() -> None:
    rng = np.random.default_rng(0)
    args = [numbers(rng, (128, 256), F16), numbers(rng, (256, 256), F16), np.zeros((128, 256), F16)]
    compare(halves[1], args, tolerance=0.1)


def test_mma_sync_from_a_ring() -> None:
    rng = np.random.default_rng(0)
    args = [numbers(rng, (16, 1024), BF16), numbers(rng, (64, 1024), BF16), np.zeros((16, 64), F32)]
    compare(dots[1], args, N=64, K=64, STAGES=3)


def test_both_instructions_on_one_accumulator() -> None:
    rng = np.random.default_rng(0)
    args = [numbers(rng, (64, 64), BF16), numbers(rng, (64, 64), BF16), np.zeros((64, 64), F32)]
    compare(by_rows[1], args, TURNS=3)


@pytest.mark.parametrize("start, depth", [(16, 64), (48, 64), (32, 96), (96, 32)])
def test_slices_along_k(start: int, depth: int) -> None:
    rng = np.random.default_rng(0)
    args = [numbers(rng, (64, 128), BF16), numbers(rng, (64, 128), BF16), np.zeros((64, 64), F32)]
    compare(slices[1], args, K0=start, K=depth)


@pytest.mark.parametrize("start, columns", [(64, 64), (64, 192), (16, 16), (8, 8), (40, 24), (96, 32)])
def test_slices_across_k(start: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    args = [numbers(rng, (64, 128), BF16), numbers(rng, (64, 256), BF16), np.zeros((64, columns), F32)]
    compare(slices[1], args, N0=start, N=columns, TB=True, WIDE=256)


@pytest.mark.parametrize("warps, columns", [(8, 64), (16, 64), (16, 128), (8, 16), (16, 256)])
def test_warpgroups_that_share_a_panel_of_columns(warps: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    args = [numbers(rng, (64, 128), BF16), numbers(rng, (64, 256), BF16), np.zeros((64, columns), F32)]
    compare(slices[1], args, N=columns, TB=True, WIDE=256, WARPS=warps, ALONG="n")


@pytest.mark.parametrize("across", [False, True])
def test_integers_of_16_bits_go_to_shared_memory_two_to_a_word(across: bool) -> None:
    a, b = (torch.randint(-9, 9, (rows, 32), device="cuda").to(torch.int8) for rows in (64, 32))
    c = torch.zeros(64, 32, device="cuda", dtype=torch.int16)
    narrow_results[1](a, b, c, ACROSS=across)
    assert torch.equal(c.cpu(), (a.cpu().int() @ b.cpu().int().T).to(torch.int16))
