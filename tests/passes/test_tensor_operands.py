"""Left operands of `px.dot` that come from registers, where there is tensor memory: they go there, and are right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from mutation.launches import Case
from support.host_build import COMPILER, MISSING
from support.host_cuda import run_on_host

MOVED = "px.dot runs as tcgen05: its accumulator goes to tensor memory and back; a goes there from registers"


@px.kernel(warps=lambda WARPS: WARPS)
def weighed(Q, K, V, O, *, ROWS=128, KEYS=32, D=32, WARPS=4):
    """Two products a step; what the second one multiplies was computed from the first."""
    q, o = px.load(Q[0:ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
    for j in px.pipelined(range(0, K.shape[0], KEYS), stages=2):
        s = px.dot(q, px.load(K[j : j + KEYS, 0:D]).T)
        p = px.where(j + px.arange(KEYS)[None, :] < K.shape[0], px.minimum(s, 3.0), 0.0)
        o = px.dot(p.to(V.dtype), px.load(V[j : j + KEYS, 0:D]), o * 0.5)
    px.store(O[0:ROWS, 0:D], o)


@px.kernel(warps=4)
def added(A, B, C, *, ROWS=128, K=32, N=32):
    """A sum that stays in tensor memory over a loop, whose steps write another left operand there."""
    acc = px.zeros((ROWS, N), px.f32)
    for k in px.pipelined(range(0, A.shape[1], K), stages=2):
        a = px.load(A[0:ROWS, k : k + K]).to(px.f32) * 2.0
        acc = px.dot(a.to(px.bf16), px.load(B[0:N, k : k + K]).T, acc)
    px.store(C[0:ROWS, 0:N], acc)


def whole(*shape: int, seed: int = 0, dtype: Any = ml_dtypes.bfloat16) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [x.astype(np.float64) for x in arrays]


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, keys: int = 32) -> np.ndarray:
    q, k, v = wide(q, k, v)
    o = np.zeros((q.shape[0], v.shape[1]))
    for j in range(0, len(k), keys):
        p = np.minimum(q @ k[j : j + keys].T, 3).astype(ml_dtypes.bfloat16).astype(np.float64)
        o = o * 0.5 + p @ v[j : j + keys]
    return o


def attention(length: int, dtype: Any = ml_dtypes.bfloat16) -> list[np.ndarray]:
    q, k, v = (whole(rows, 32, seed=n, dtype=dtype) for n, rows in enumerate((128, length, length)))
    return [q, k, v, np.zeros((128, 32), np.float32)]


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("warps", [4, 8])
def test_powers_go_to_tensor_memory(warps: int, dtype: Any) -> None:
    args = attention(72, dtype)
    made = px.compile(weighed[1], *args, arch="sm_100a", WARPS=warps)
    assert made.spills == 0 and any(MOVED in note for note in made.notes)
    assert "mma.sync" not in made.source
    report = px.check(weighed[1], *args, arch="sm_100a", WARPS=warps)
    assert report.ok, report
    weighed[1](*args, arch="sm_100a", WARPS=warps)
    np.testing.assert_allclose(args[3], expected(*args[:3]), rtol=1e-5)


def test_a_sum_that_stays_waits_before_its_operand_is_written_again() -> None:
    a, b, c = whole(128, 96), whole(32, 96, seed=1), np.zeros((128, 32), np.float32)
    made = px.compile(added[1], a, b, c, arch="sm_100a")
    assert any("stays in tensor memory over the loop" in note and "a goes there from" in note for note in made.notes)
    report = px.check(added[1], a, b, c, arch="sm_100a")
    assert report.ok, report
    added[1](a, b, c, arch="sm_100a")
    left, right = wide(a, b)
    np.testing.assert_array_equal(c, 2 * left @ right.T)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_the_text_runs_on_the_host() -> None:
    args = attention(40)
    run_on_host(weighed, 1, *args, arch="sm_100a")
    np.testing.assert_allclose(args[3], expected(*args[:3]), rtol=1e-5)


@pytest.mark.long
def test_mutants() -> None:
    """What orders the stores of an operand, its product and the next one's stores is needed."""
    case = Case("weighed", weighed[1], attention(96), {}, arch="sm_100a")
    verdicts = [case.judge(mutant) for mutant in case.mutants]
    assert not [f"{v.mutant}: {v.detail}" for v in verdicts if not v.is_explained]
