"""The library without products on Blackwell, by the same calls: simulated, as text on the CPU, without spills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from golden.choices import KERNELS
from support.host_cuda import COMPILER, MISSING
from support.library_launches import launches

BF16 = ml_dtypes.bfloat16
K = px.kernels


def numbers(*shape: int, dtype: Any = BF16) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, np.float32).astype(dtype)


ROWS = np.array([3, 1, 17, 3, 0, 9, 11, 2], np.int32)
CALLS: dict[str, Callable[[], Any]] = {
    "softmax": lambda: K.softmax(numbers(24, 1000)),
    "softmax of long rows": lambda: K.softmax(numbers(2, 70000, dtype=np.float32)),
    "log_softmax": lambda: K.log_softmax(numbers(24, 1000, dtype=np.float32)),
    "cross_entropy": lambda: K.cross_entropy(numbers(8, 4000), np.arange(8)),
    "rms_norm": lambda: K.rms_norm(numbers(24, 1024), numbers(1024)),
    "add_rms_norm": lambda: K.add_rms_norm(numbers(24, 1024), numbers(24, 1024), numbers(1024)),
    "layer_norm": lambda: K.layer_norm(numbers(24, 1024), numbers(1024), numbers(1024)),
    "layer_norm of long rows": lambda: K.layer_norm(numbers(2, 70000, dtype=np.float32)),
    "gather_rows": lambda: K.gather_rows(numbers(20, 512), ROWS),
    "embedding": lambda: K.embedding(numbers(20, 72), ROWS),
    "scatter_rows": lambda: K.scatter_rows(numbers(8, 512), np.arange(8, dtype=np.int32), np.zeros((20, 512), BF16)),
    "scatter_add_rows": lambda: K.scatter_add_rows(numbers(8, 512), ROWS, np.zeros((20, 512), BF16)),
    "kv_compact": lambda: K.kv_compact(numbers(2, 16, 8, 64), np.array([[0, 2, 5], [4, 5, 9]], np.int32)),
}


@pytest.mark.share(14)
@pytest.mark.parametrize("arch", ["sm_100a", pytest.param("sm_103a", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CALLS)
def test_the_same_calls(name: str, arch: str) -> None:
    want = CALLS[name]()
    with launches(*KERNELS, arch=arch) as found:
        got = CALLS[name]()
    for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        assert np.array_equal(ours.astype(np.float32), theirs.astype(np.float32))
    assert found
    for launch in found:
        made = launch.compile(arch)
        assert made.spills == 0 and made.cubin[:4] == b"\x7fELF"


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(14)
@pytest.mark.parametrize("name", CALLS)
def test_the_text_for_blackwell_on_the_cpu(name: str) -> None:
    want = CALLS[name]()
    with launches(*KERNELS, arch="sm_100a", on_host=True) as found:
        got = CALLS[name]()
    assert found
    for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(ours.astype(np.float32), theirs.astype(np.float32), rtol=1e-2, atol=1e-5)


def test_every_function_is_called() -> None:
    products = {name for name in K.__all__ if "matmul" in name}
    scales = {"pack_scales", "quantize"}  # tests/kernels/test_quantize.py
    attention = {name for name in K.__all__ if "attention" in name}  # tests/kernels/test_attention_blackwell.py; no rows
    called = {name.split(" of ")[0] for name in CALLS}
    assert called | products | scales | attention == set(K.__all__)
