"""px.dot where wgmma can't: the same products, at once, from shared memory or registers, for any warps."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.ops.mma import Mma
from phalanx.ir.types import bf16, f32
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.front import array, prepared
from support.product_kernels import dots

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@px.kernel(warps=2)
def two_warps(A, B, C, *, M=32, N=24, K=48, A_REGISTERS=False, B_REGISTERS=False):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    acc = px.load(C[0:M, 0:N])
    px.store(C[0:M, 0:N], px.dot(px.load(a) if A_REGISTERS else a, px.load(b.T) if B_REGISTERS else b.T, acc))


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape, np.float32).astype(dtype)


@pytest.mark.parametrize("registers", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "left, right", [(BF16, BF16), (np.float16, np.float16), (E4M3, E5M2), (np.int8, np.uint8), (np.uint8, np.int8)]
)
def test_types_and_places(left: type, right: type, registers: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (32, 48), left), numbers(rng, (24, 48), right)
    wide = np.int32 if np.dtype(left).kind in "iu" else np.float32
    c = numbers(rng, (32, 24), wide)
    want = c + a.astype(wide) @ b.astype(wide).T
    two_warps[1](a, b, c, A_REGISTERS=registers[0], B_REGISTERS=registers[1])
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-4)


def test_f16_accumulators_are_rounded_every_32_bytes() -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (32, 48), np.float16), numbers(rng, (24, 48), np.float16)
    c = numbers(rng, (32, 24), np.float16)
    want = c.copy()
    for k in range(0, 48, 16):
        part = a[:, k : k + 16].astype(np.float32) @ b[:, k : k + 16].astype(np.float32).T
        want = (want.astype(np.float32) + part).astype(np.float16)
    two_warps[1](a, b, c)
    np.testing.assert_array_equal(c, want)


@px.kernel(warps=1)
def twice(A, B, C):
    a = px.shared((16, 16), A.dtype)
    b = px.shared((16, 8), B.dtype)
    px.store(a, px.load(A[0:16, 0:16]))
    px.store(b, px.load(B[0:16, 0:8]))
    c = px.dot(a, b)
    px.store(b, px.full((16, 8), 0, B.dtype))
    px.store(C[0:16, 0:8], c + px.dot(a, b))


@pytest.mark.parametrize("schedule", ["late", "early"])
def test_it_is_over_when_it_returns(schedule: str) -> None:
    """Without px.fence.async_proxy, and with b overwritten right behind the first product."""
    a, b, c = np.ones((16, 16), BF16), np.ones((16, 8), BF16), np.zeros((16, 8), np.float32)
    types = (array(2, bf16), array(2, bf16), array(2, f32))
    function = prepared(twice, types)
    assert sum(isinstance(op, Mma) for op in function.walk()) == 2
    simulate(function, 1, [a, b, c], schedule=Schedule(schedule))
    assert (c == 16).all()
    assert px.check(twice[1], a, np.ones((16, 8), BF16), c).ok


def test_a_ring_of_stages_is_checked() -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (16, 128), BF16), numbers(rng, (32, 128), BF16)
    c = np.zeros((16, 32), np.float32)
    dots[1](a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)
    assert px.check(dots[1], a, b, c).ok
    findings = px.check(dots[1], a, b, c, WAIT=False).findings
    assert {finding.kind for finding in findings} == {"race"}
    assert any("px.dot" in finding.location.text for finding in findings)
