"""Tensor cores in the simulator: types, majors, late reads, accumulators that can't be read early."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import FROM_NUMPY, bf16, f32
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.front import array, prepared

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@px.kernel(warps=4)
def one_product(A, B, C, *, M=64, N=32, K=64, NEGATE=False):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    acc = px.load(C[0:M, 0:N])
    px.wgmma(a, b.T, acc, negate=NEGATE)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape, np.float32).astype(dtype)


@pytest.mark.parametrize(
    "left, right",
    [(BF16, BF16), (np.float16, np.float16), (E4M3, E4M3), (E5M2, E4M3), (np.int8, np.uint8), (np.uint8, np.uint8)],
)
def test_types(left: type, right: type) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (64, 64), left), numbers(rng, (32, 64), right)
    wide = np.int32 if np.dtype(left).kind in "iu" else np.float32
    c = numbers(rng, (64, 32), wide)
    want = c + a.astype(wide) @ b.astype(wide).T
    one_product[1](a, b, c)
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-4)


def test_f32_operands_are_cut_to_tf32() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (numbers(rng, shape, np.float32) for shape in ((64, 64), (32, 64), (64, 32)))
    short = [(x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b)]
    want = c + short[0] @ short[1].T
    exact = c + a @ b.T
    one_product[1](a, b, c)
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-4)
    assert np.abs(c - exact).max() > 1e-3


def test_negate_subtracts() -> None:
    rng = np.random.default_rng(0)
    a, b, c = numbers(rng, (64, 64), BF16), numbers(rng, (32, 64), BF16), numbers(rng, (64, 32), np.float32)
    want = c - a.astype(np.float32) @ b.astype(np.float32).T
    one_product[1](a, b, c, NEGATE=True)
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-4)


@px.kernel(warps=4)
def any_major(A, B, C, *, M=64, N=64, K=32, TA=False, TB=False):
    """A is (M, K), or (K, M) with TA; B is (N, K), or (K, N) with TB."""
    a = px.shared((K, M) if TA else (M, K), A.dtype)
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A.tile((0, 0), a.shape), a, full)
        px.tma.load(B.tile((0, 0), b.shape), b, full)
    full.wait(0)
    px.store(C[0:M, 0:N], px.dot(a.T if TA else a, b if TB else b.T))


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_majors(ta: bool, tb: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (64, 32), np.float16), numbers(rng, (64, 32), np.float16)
    c = np.zeros((64, 64), np.float32)
    flip = np.ascontiguousarray
    any_major[1](flip(a.T) if ta else a, flip(b.T) if tb else b, c, TA=ta, TB=tb)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)


@px.kernel(warps=4)
def from_registers(A, B, C, *, M=64, N=64, K=32):
    b = px.shared((N, K), B.dtype)
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    a = px.load(A[0:M, 0:K]).to(px.bf16)
    px.store(C[0:M, 0:N], px.dot(a, b.T))


def test_a_from_registers() -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (64, 32), BF16).astype(np.float32), numbers(rng, (64, 32), BF16)
    c = np.zeros((64, 64), np.float32)
    from_registers[1](a, b, c)
    np.testing.assert_allclose(c, a @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)


@px.kernel(warps=4)
def overwritten(A, B, C, *, M=64, N=64, K=32):
    """A mistake: b is written again while the product reads it."""
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    acc = px.empty((M, N), px.f32)
    px.wgmma(a, b.T, acc, accumulate=False)
    px.wgmma_commit()
    px.store(b, px.full((N, K), 0, B.dtype))
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


@pytest.mark.parametrize("schedule, read_late", [("late", True), ("early", False)])
def test_operands_are_read_when_the_group_retires(schedule: str, read_late: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (64, 32), BF16), numbers(rng, (64, 32), BF16)
    c = np.ones((64, 64), np.float32)
    types = (array(2, bf16), array(2, bf16), array(2, f32))
    simulate(prepared(overwritten, types), 1, [a, b, c], schedule=Schedule(schedule))
    assert np.any(c) != read_late


@px.kernel(warps=4)
def read_early(A, B, C, *, M=64, N=64, K=32, WAIT=True):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    acc = px.zeros((M, N), px.f32)
    px.wgmma(a, b.T, acc)
    px.wgmma_commit()
    if WAIT:
        px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc + 1.0)


@pytest.mark.parametrize("schedule", ["late", "early"])
def test_an_accumulator_in_flight_can_not_be_read(schedule: str) -> None:
    types = (array(2, bf16), array(2, bf16), array(2, f32))
    args = [np.ones((64, 32), BF16), np.ones((64, 32), BF16), np.zeros((64, 64), np.float32)]
    simulate(prepared(read_early, types), 1, args, schedule=Schedule(schedule))
    assert (args[2] == 33).all()
    with pytest.raises(px.Error) as caught:
        simulate(prepared(read_early, types, WAIT=False), 1, args, schedule=Schedule(schedule))
    assert caught.value.kind == "wgmma-hazard"
    assert "acc + 1.0" in caught.value.location.text
    assert "px.wgmma_wait" in caught.value.remedy


@px.kernel(warps=4)
def two_accumulators(A, B, C, D, *, M=64, N=64, K=32):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    first = px.zeros((M, N), px.f32)
    second = px.zeros((M, N), px.f32)
    px.wgmma(a, b.T, first)
    px.wgmma_commit()
    px.wgmma(a, b.T, second, negate=True)
    px.wgmma_commit()
    px.wgmma_wait(1)
    px.store(C[0:M, 0:N], first)
    px.wgmma_wait(0)
    px.store(D[0:M, 0:N], second)


def test_groups_retire_in_order() -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (64, 32), BF16), numbers(rng, (64, 32), BF16)
    c, d = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    two_accumulators[1](a, b, c, d)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(d, -c)


def test_every_type_has_a_dtype() -> None:
    assert {FROM_NUMPY[np.dtype(t)].name for t in (BF16, E4M3, E5M2)} == {"bf16", "f8e4m3", "f8e5m2"}


@px.struct
class Tile:
    """An accumulator as a field."""

    acc: int


@px.func
def accumulate(tile, a, b):
    px.wgmma(a, b, tile.acc)
    px.wgmma_commit()
    px.wgmma_wait(0)


@px.kernel(warps=4)
def field(A, B, C, *, M=64, N=64, K=32):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    tile = Tile(px.zeros((M, N), px.f32))
    for _ in range(3):
        accumulate(tile, a, b.T)
    px.store(C[0:M, 0:N], tile.acc)


def test_a_field_is_updated_in_a_function() -> None:
    a, b, c = np.ones((64, 32), BF16), np.ones((64, 32), BF16), np.zeros((64, 64), np.float32)
    field[1](a, b, c)
    assert (c == 96).all()


@pytest.mark.parametrize("dtype", [np.float16, E4M3])
def test_f16_accumulators_are_rounded_by_every_instruction(dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (64, 64), dtype), numbers(rng, (32, 64), dtype)
    c = numbers(rng, (64, 32), np.float16)
    step = 32 // np.dtype(dtype).itemsize
    want = c.copy()
    for k in range(0, 64, step):
        part = a[:, k : k + step].astype(np.float32) @ b[:, k : k + step].astype(np.float32).T
        want = (want.astype(np.float32) - part).astype(np.float16)
    exact = c - a.astype(np.float32) @ b.astype(np.float32).T
    one_product[1](a, b, c, NEGATE=True)
    np.testing.assert_array_equal(c, want)
    assert np.abs(c - exact).max() > 1e-3, "f32 would be closer"


@px.kernel(warps=8)
def side_by_side(A, B, C, *, M=64, N=64, K=32, ALONG="n", REGISTERS=False):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    px.store(C[0:M, 0:N], px.dot(px.load(A[0:M, 0:K]) if REGISTERS else a, b.T, along=ALONG))


@pytest.mark.parametrize("registers", [False, True])
def test_along_n(registers: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (64, 32), BF16), numbers(rng, (64, 32), BF16)
    c = np.zeros((64, 64), np.float32)
    side_by_side[1](a, b, c, REGISTERS=registers)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)
