"""The CUDA text of copies that threads begin, run on the CPU: alignments, edges, rows by index, rings."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support import thread_copies as kernels
from support.host_cuda import COMPILER, MISSING, run_on_host

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

BF16 = ml_dtypes.bfloat16


def array(rows: int, columns: int, pitch: int, first: int, dtype: Any) -> np.ndarray:
    """Rows `pitch` elements apart that begin `first` elements behind 128 bytes."""
    size = np.dtype(dtype).itemsize
    room = np.zeros(rows * pitch * size + 256, np.uint8)
    start = -room.ctypes.data % 128 + first * size
    flat = room[start : start + rows * pitch * size].view(dtype)
    flat[:] = (np.arange(rows * pitch) % 97 + 1).astype(dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (pitch * size, size))


@pytest.mark.share(12)
@pytest.mark.parametrize("dtype", (BF16, np.float32, np.int8, np.int64))
@pytest.mark.parametrize(
    "columns, pitch, first", [(48, 48, 0), (50, 64, 0), (50, 50, 0), (51, 51, 0), (50, 50, 1), (24, 24, 2)]
)
@pytest.mark.parametrize("at", (0, 8, 3, -16))
def test_boxes(dtype: Any, columns: int, pitch: int, first: int, at: int) -> None:
    x = array(12, columns, pitch, first, dtype)
    want, got = np.full((16, 32), 7, dtype), np.full((16, 32), 7, dtype)
    kernels.copied[1](x, want, at)
    run_on_host(kernels.copied, 1, x, got, at, seed=columns + at)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("pitch, helper", [(48, "cp_async_16("), (50, "cp_async_4("), (51, "cp_async_4(")])
def test_widths(pitch: int, helper: str) -> None:
    x, y = array(16, pitch, pitch, 0, BF16), np.zeros((16, 32), BF16)
    module = run_on_host(kernels.copied, 1, x, y, 0)
    assert f"ptx::{helper}" in module.source
    assert ("& 3) == 0" in module.source) == (pitch != 48), "rows of an unaligned array are looked at when it runs"
    np.testing.assert_array_equal(y, x[:, :32])


def test_rows_by_index() -> None:
    x = np.arange(10 * 40).reshape(10, 40).astype(np.float32)
    rows = np.array([3, 1, -1, 7, 100, *[2] * 11], np.int32)
    want, got = np.full((16, 32), 7, np.float32), np.full((16, 32), 7, np.float32)
    kernels.copied_rows[1](x, rows, want)
    run_on_host(kernels.copied_rows, 1, x, rows, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_120a"))
@pytest.mark.parametrize("tma, producers, pitch", [(False, 4, 80), (True, 1, 80), (False, 1, 82)])
def test_rings(arch: str, tma: bool, producers: int, pitch: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (100, pitch)).astype(BF16)[:, :78], rng.integers(-3, 4, (32, 80)).astype(BF16)[:, :78]
    c = np.full((100, 32), 7, np.float32)
    run_on_host(kernels.ring_product, 2, a, b, c, arch=arch, TMA=tma, PRODUCERS=producers)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def test_a_pipe() -> None:
    x, y = np.arange(200).astype(np.float32), np.zeros(200, np.float32)
    run_on_host(kernels.piped, 1, x, y)
    np.testing.assert_array_equal(y, x + 1)


@pytest.mark.share(4)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_120a"))
@pytest.mark.parametrize("k", (250, 251))
def test_pipelined_loops(arch: str, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-3, 4, (64, k)).astype(BF16), rng.integers(-3, 4, (32, k)).astype(BF16)
    c = np.full((64, 32), 7, np.float32)
    run_on_host(kernels.odd_rows, 1, a, b, c, arch=arch, seed=k)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
