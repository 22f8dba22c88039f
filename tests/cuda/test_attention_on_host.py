"""The CUDA text of attention on the CPU: packed powers, masks, waits that hold, rescaling that is left out."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.host_cuda import COMPILER, MISSING
from support.library_launches import launches

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)


@pytest.mark.long
@pytest.mark.parametrize("queries, keys, dim, causal", [
    (70, 150, 64, True),
    pytest.param(200, 170, 128, False, marks=pytest.mark.long),
    pytest.param(250, 90, 128, True, marks=pytest.mark.long),
])  # fmt: skip
def test_attention_is_the_simulators(queries: int, keys: int, dim: int, causal: bool) -> None:
    """But for the last place of bf16: the exponentials of the two differ in the last place of f32."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, rows, dim)).astype(ml_dtypes.bfloat16) for rows in (queries, keys, keys))
    attention = px.kernels.attention
    with launches((sys.modules[attention.__module__], "attention_tiles")) as found:
        out, logs = attention(q, k, v, causal=causal, lse=True)
    want, want_logs = out.astype(np.float32), logs.copy()
    out[...], logs[...] = 7, 7
    (launch,) = found
    launch.on_host("sm_90a")
    np.testing.assert_allclose(out.astype(np.float32), want, rtol=2**-7, atol=2**-10)
    np.testing.assert_allclose(logs, want_logs, rtol=1e-5, atol=1e-5)
