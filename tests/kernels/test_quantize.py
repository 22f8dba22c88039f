"""Block scales: quantised matrices against NumPy and ml_dtypes, and the order of scales byte by byte."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import DTYPES, LARGEST, rounded
from phalanx.kernels.quantize import FORMATS, blocked_shape, pack_scale_tiles, quantize_tiles
from support.host_cuda import COMPILER, MISSING, run_on_host

E8M0, E4M3 = ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3fn


def in_blocks(scales: np.ndarray) -> np.ndarray:
    """The order of the facts, byte by byte: block after block, row r and scale k at (r % 32) * 16 + (r / 32) * 4 + k."""
    rows, count = scales.shape
    tall, wide = -(-rows // 128), -(-count // 4)
    out = np.zeros((tall, wide, 512), np.uint8)
    for r in range(rows):
        for k in range(count):
            out[r // 128, k // 4, (r % 128 % 32) * 16 + (r % 128 // 32) * 4 + k % 4] = scales.view(np.uint8)[r, k]
    return out


@pytest.mark.parametrize("dtype", [E8M0, E4M3])
@pytest.mark.parametrize("shape", [(128, 4), (256, 64), (1, 1), (130, 7), (300, 66), (97, 12)])
def test_the_order_of_scales(shape: tuple[int, int], dtype: Any) -> None:
    scales = np.random.default_rng(1).integers(1, 255, shape, dtype=np.uint8).view(dtype)
    got = px.kernels.pack_scales(scales)
    assert got.dtype == scales.dtype and got.shape == (-(-shape[0] // 128), -(-shape[1] // 4), 32, 4, 4)
    assert np.array_equal(got.view(np.uint8).reshape(*got.shape[:2], 512), in_blocks(scales))
    out = np.zeros_like(got)
    assert px.kernels.pack_scales(scales, out=out) is out and np.array_equal(out.view(np.uint8), got.view(np.uint8))


def reference(x: np.ndarray, name: str, tensor_scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Codes, and plain scales."""
    made = FORMATS[name]
    wide = x.astype(np.float32).reshape(x.shape[0], -1, made.block)
    whole = np.float32(tensor_scale) * np.float32(LARGEST[made.codes])
    scales = rounded(np.abs(wide).max(2) / whole, DTYPES[made.scales])
    factor = (scales.astype(np.float32) * np.float32(tensor_scale))[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(factor == 0, np.float32(0), wide / factor)
    return rounded(codes.reshape(x.shape), DTYPES[made.codes]), scales


def sample(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Rows of very different sizes, a block of zeros, one of tiny numbers."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, (shape[0], 1)))
    x[0, :32], x[-1, -16:] = 0, 1e-7
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
@pytest.mark.parametrize("shape", [(128, 128), (130, 96), (3, 32), (257, 320)])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_codes_and_scales(name: str, shape: tuple[int, int], dtype: Any) -> None:
    x = sample(shape, dtype)
    codes, scales = px.kernels.quantize(x, name)
    want, plain = reference(x, name)
    assert codes.dtype == want.dtype and codes.shape == x.shape
    assert np.array_equal(codes.view(np.uint8), want.view(np.uint8))
    assert np.array_equal(scales.view(np.uint8).reshape(*scales.shape[:2], 512), in_blocks(plain))


@pytest.mark.parametrize("name, worst", [("mxfp8", 1 / 16), ("mxfp4", 1 / 3), ("nvfp4", 1 / 5)])
def test_what_comes_back_is_close(name: str, worst: float) -> None:
    """Relative to the largest element of the block: half a step of the codes at most, and what the scale was rounded by."""
    x = np.random.default_rng(3).standard_normal((64, 256)).astype(np.float32)
    amax = np.abs(x).max()
    tensor_scale = float(amax / 2688) if name == "nvfp4" else 1.0
    codes, scales = px.kernels.quantize(x, name, tensor_scale=tensor_scale)
    made = FORMATS[name]
    plain = reference(x, name, tensor_scale)[1]
    assert np.array_equal(scales.view(np.uint8).reshape(*scales.shape[:2], 512), in_blocks(plain))
    back = codes.astype(np.float32).reshape(64, -1, made.block) * plain.astype(np.float32)[:, :, None] * tensor_scale
    blocks = x.reshape(64, -1, made.block)
    assert (np.abs(back - blocks) <= worst * np.abs(blocks).max(2, keepdims=True)).all()


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_text_on_the_cpu(name: str, arch: str) -> None:
    made = FORMATS[name]
    x = sample((130, 160), ml_dtypes.bfloat16)
    codes, scales = (np.zeros(shape, DTYPES[dtype].numpy) for shape, dtype in
                     ((x.shape, made.codes), (blocked_shape(130, 160 // made.block), made.scales)))
    run_on_host(quantize_tiles, (2, 2), x, codes, scales, 1.0, arch=arch, BLOCK=made.block, LARGEST=LARGEST[made.codes])
    want = px.kernels.quantize(x, name)
    assert np.array_equal(codes.view(np.uint8), want[0].view(np.uint8))
    assert np.array_equal(scales.view(np.uint8), want[1].view(np.uint8))


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_the_order_of_scales_on_the_cpu() -> None:
    scales = np.random.default_rng(4).integers(1, 255, (200, 70), dtype=np.uint8).view(E8M0)
    out = np.zeros(blocked_shape(200, 70), E8M0)
    run_on_host(pack_scale_tiles, (2, 2), scales, out)
    assert np.array_equal(out.view(np.uint8).reshape(*out.shape[:2], 512), in_blocks(scales))


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", FORMATS)
def test_what_assembles(name: str, arch: str) -> None:
    made = FORMATS[name]
    arrays = [px.spec((4096, 4096), px.bf16), px.spec((4096, 4096), DTYPES[made.codes])]
    arrays.append(px.spec(blocked_shape(4096, 4096 // made.block), DTYPES[made.scales]))
    constants = {"BLOCK": made.block, "LARGEST": LARGEST[made.codes]}
    found = px.compile(quantize_tiles[32, 32], *arrays, 1.0, arch=arch, **constants)
    assert found.cubin and found.spills == 0


def test_kernels_are_checked_clean() -> None:
    x = sample((128, 128), np.float32)
    codes, scales = np.zeros(x.shape, E4M3), np.zeros(blocked_shape(128, 4), E8M0)
    assert px.check(quantize_tiles[1, 1], x, codes, scales, 1.0, BLOCK=32, LARGEST=448.0).ok
    assert px.check(pack_scale_tiles[1, 1], np.zeros((128, 4), E8M0), scales).ok


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: px.kernels.pack_scales(np.zeros((4, 4), np.float32)), "scales has the element type f32"),
        (lambda: px.kernels.pack_scales(np.zeros(4, E8M0)), r"scales has shape \(4,\)"),
        (lambda: px.kernels.pack_scales(np.zeros((4, 4), E8M0), out=np.zeros((4, 4), E8M0)), r"out has shape \(4, 4\)"),
        (lambda: px.kernels.quantize(np.zeros((4, 40), np.float32), "mxfp8"), "has a scale for each 32 elements"),
        (lambda: px.kernels.quantize(np.zeros((4, 24), np.float32), "nvfp4"), "has a scale for each 16 elements"),
        (lambda: px.kernels.quantize(np.zeros((4, 32), np.float32), "mxfp6"), "unknown format 'mxfp6'"),
        (lambda: px.kernels.quantize(np.zeros((4, 32), np.float32), "nvfp4", tensor_scale=0), "tensor_scale is 0"),
        (lambda: px.kernels.quantize(np.zeros((4, 32), np.int32), "mxfp8"), "x has the element type i32"),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(px.Error, match=message) as error:
        call()
    assert error.value.location is not None and error.value.location.file == __file__


def test_nothing_to_do() -> None:
    codes, scales = px.kernels.quantize(np.zeros((0, 64), np.float32), "mxfp8")
    assert codes.shape == (0, 64) and scales.size == 0
    assert px.kernels.pack_scales(np.zeros((0, 4), E8M0)).size == 0
