"""Kernels on packed arrays in the simulator: elements are elements, whoever packs them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.ops.tile import Pack, Unpack
from phalanx.ir.types import TileType, f4e2m1, u8
from phalanx.ir.values import Value
from phalanx.sim.ops.tile import pack, unpack

FP4 = ml_dtypes.float4_e2m1fn


@px.kernel(warps=4)
def negated(X, Y, *, N=64):
    px.store(Y[0:4, 0:N], (-px.load(X[0:4, 0:N]).to(px.f32)).to(px.f4e2m1))


def test_bytes_in_and_out() -> None:
    """The same kernel on elements and on bytes; the caller's own array has the result."""
    codes = np.random.default_rng(1).integers(0, 256, (4, 32), dtype=np.uint8)
    out = np.zeros_like(codes)
    negated[1](px.packed(codes, px.f4e2m1), px.packed(out, px.f4e2m1))
    assert np.array_equal(out, codes ^ 0x88)
    x = np.stack([codes & 15, codes >> 4], -1).reshape(4, 64).view(FP4)
    y = np.zeros((4, 64), FP4)
    negated[1](x, y)
    assert np.array_equal(y.view(np.uint8)[:, 0::2] | y.view(np.uint8)[:, 1::2] << 4, out)


def test_checked_and_explored_on_bytes() -> None:
    codes, out = np.zeros((4, 32), np.uint8), np.zeros((4, 32), np.uint8)
    launch = negated[1], px.packed(codes, px.f4e2m1), px.packed(out, px.f4e2m1)
    assert px.check(*launch).ok and px.explore(*launch).ok
    assert not out.any()  # the arguments are copied


def test_bytes_that_can_not_be_written() -> None:
    codes = np.zeros((4, 32), np.uint8)
    frozen = codes.copy()
    frozen.flags.writeable = False
    negated[1](px.packed(frozen, px.f4e2m1), px.packed(codes, px.f4e2m1))
    assert (codes == 0x88).all()
    with pytest.raises(px.Error, match="Y is written by the kernel, but is a read-only array"):
        negated[1](px.packed(codes, px.f4e2m1), px.packed(frozen, px.f4e2m1))


@px.kernel(warps=4)
def moved(X, Y, *, BM=16, BN=64, BYTES=None):
    s, full = px.shared((BM, BN), px.f4e2m1), px.barrier(count=1)
    full.arrive_and_expect_tx(s.nbytes if BYTES is None else BYTES)
    px.tma.load(X[0:BM, 0:BN], s, full)
    full.wait(0)
    px.store(Y[0:BM, 0:BN], px.load(s))


def test_a_copy_completes_packed_bytes() -> None:
    x = np.random.default_rng(2).integers(0, 16, (16, 64), dtype=np.uint8).view(FP4)
    y = np.zeros((16, 64), FP4)
    moved[1](x, y)
    assert np.array_equal(x.view(np.uint8), y.view(np.uint8))
    moved[1](x, y, BYTES=512)  # 16 rows of 32 bytes
    with pytest.raises(px.Error):
        moved[1](x, y, BYTES=1024)


@pytest.mark.parametrize("axis", range(3))
def test_packing_a_tile(axis: int) -> None:
    """Along any axis: the transposed view of a buffer has its bytes along the first."""
    rng = np.random.default_rng(axis)
    shape = (4, 6, 8)
    codes = rng.integers(0, 16, shape, dtype=np.uint8)
    half = tuple(size // 2 if n == axis else size for n, size in enumerate(shape))
    elements, whole = Value(TileType(shape, f4e2m1)), Value(TileType(half, u8))
    joined = pack(Pack(elements, axis, whole), None)(codes.view(FP4))  # type: ignore[arg-type]
    low, high = (codes.take(range(part, shape[axis], 2), axis) for part in range(2))
    assert joined.shape == half and np.array_equal(joined, low | high << 4)
    back = unpack(Unpack(whole, axis, elements), None)(joined)  # type: ignore[arg-type]
    assert back.dtype == FP4 and np.array_equal(back.view(np.uint8), codes)


@pytest.mark.parametrize("dtype", [px.f8e8m0, px.f6e2m3, px.f6e3m2])
def test_types_with_a_byte_of_their_own(dtype: px.DType) -> None:
    """Loaded, stored, copied and gathered as they are."""

    @px.kernel(warps=4)
    def copy(X, Y, Z, *, BM=16, BN=64):
        s, full = px.shared((BM, BN), X.dtype), px.barrier()
        with full.transaction():
            px.tma.load(X[0:BM, 0:BN], s, full)
        full.wait(0)
        px.store(Y[0:BM, 0:BN], px.load(s))
        px.store(Z[0:BM, 0:BN], px.load(s).to(px.f32))

    x = np.random.default_rng(3).integers(0, 1 << dtype.bits, (16, 64), dtype=np.uint8).view(dtype.numpy)
    y, z = np.zeros_like(x), np.zeros((16, 64), np.float32)
    copy[1](x, y, z)
    assert np.array_equal(x.view(np.uint8), y.view(np.uint8)) and np.array_equal(z, x.astype(np.float32), equal_nan=True)
    assert "nbytes=1024" in px.compile(copy[1], *(px.spec((16, 64), t) for t in (dtype, dtype, px.f32))).ir


def test_copies_fill_with_bits_that_are_zero() -> None:
    """f8e8m0 has no 0: what a copy puts beyond an array is its smallest number."""

    @px.kernel(warps=1)
    def copy(X, Y, *, N=64):
        s, full = px.shared((2, N), X.dtype), px.barrier()
        with full.transaction():
            px.tma.load(X[0:2, 0:N], s, full)
        full.wait(0)
        px.store(Y[0:2, 0:N], px.load(s))

    y = np.ones((2, 64), ml_dtypes.float8_e8m0fnu)
    copy[1](np.ones((1, 64), ml_dtypes.float8_e8m0fnu), y)
    assert (y.view(np.uint8)[0] == 127).all() and (y.view(np.uint8)[1] == 0).all()


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    @px.kernel(warps=1)
    def show(X):
        px.print("half", px.f4e2m1(0.6), px.full((2,), 3, px.f8e8m0))

    show[1](np.zeros(2, np.float32))
    assert capsys.readouterr().out == "block (0, 0, 0), all warps: half 0.5 [4 4]\n"
    assert px.compile(show[1], px.spec(2, px.f32)).cubin and px.compile(show[1], px.spec(2, px.f32), arch="sm_100a").cubin
