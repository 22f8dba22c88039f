"""What copies that threads begin mean: zeros outside the array, rows by index, over when a commit has arrived."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.printer import text
from phalanx.ir.types import bf16, f32
from support import thread_copies as kernels
from support.front import array, prepared

BF16 = ml_dtypes.bfloat16


def box(x: np.ndarray, at: int, m: int = 16, n: int = 32) -> np.ndarray:
    out = np.zeros((m, n), x.dtype)
    for i in range(min(m, x.shape[0])):
        for j in range(n):
            if 0 <= at + j < x.shape[1]:
                out[i, j] = x[i, at + j]
    return out


@pytest.mark.parametrize("dtype", (np.float32, BF16, np.int8, np.int64))
@pytest.mark.parametrize("at", (0, 3, 24, -4, 100))
def test_a_box_with_zeros_around_the_array(dtype: Any, at: int) -> None:
    x = np.arange(12 * 50).reshape(12, 50).astype(dtype)
    y = np.full((16, 32), 7, dtype)
    report = px.check(kernels.copied[1], x, y, at)
    assert report.ok, report
    kernels.copied[1](x, y, at)
    np.testing.assert_array_equal(y, box(x, at))


def test_rows_by_index() -> None:
    x = np.arange(10 * 40).reshape(10, 40).astype(np.float32)
    rows = np.array([3, 1, -1, 7, 100, *[2] * 11], np.int32)
    y = np.full((16, 32), 7, np.float32)
    assert px.check(kernels.copied_rows[1], x, rows, y).ok
    kernels.copied_rows[1](x, rows, y)
    there = (rows >= 0) & (rows < 10)
    np.testing.assert_array_equal(y, np.where(there[:, None], x[np.where(there, rows, 0), :32], 0))


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_100a", "sm_120a"))
@pytest.mark.parametrize("tma", (False, True))
@pytest.mark.parametrize("producers", (1, 4))
def test_a_ring_that_threads_fill(arch: str, tma: bool, producers: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (100, 80)).astype(BF16), rng.integers(-3, 4, (32, 80)).astype(BF16)
    c = np.full((100, 32), 7, np.float32)
    constants = {"TMA": tma, "PRODUCERS": producers, "arch": arch}
    report = px.check(kernels.ring_product[2], a, b, c, **constants)
    assert report.ok, report
    kernels.ring_product[2](a, b, c, **constants)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def test_every_order_of_a_pipe() -> None:
    x, y = np.arange(200).astype(np.float32), np.zeros(200, np.float32)
    assert px.check(kernels.piped[1], x, y).ok
    kernels.piped[1](x, y)
    np.testing.assert_array_equal(y, x + 1)
    assert px.explore(kernels.piped[1], x[:24], y[:24], N=8, STAGES=2).ok


def test_the_compiler_counts_one_arrival_for_a_commit() -> None:
    types = (array(2, bf16), array(2, bf16), array(2, f32))
    for tma, count in ((False, 1), (True, 2)):  # the transaction of a copy of the engine's is another
        listing = text(prepared(kernels.ring_product, types, TMA=tma))
        assert f"mbarrier.init full, counts=({count}, {count}, {count})" in listing
