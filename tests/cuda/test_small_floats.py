"""Conversions of floats of 8 bits and less as text: by `cvt` where a target has it, computed elsewhere, always equal."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import DTYPES, rounded
from support.host_cuda import COMPILER, MISSING, run_on_host

SMALL = ("f4e2m1", "f6e2m3", "f6e3m2", "f8e8m0")
TARGETS = ("sm_90a", "sm_100a")
HALVES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)


@px.kernel(warps=4)
def narrow(X, Y, *, T, N=8192):
    start = px.block_id(0) * N
    px.store(Y[start:start+N], px.load(X[start:start+N]).to(T).to(px.f32))


@px.kernel(warps=1)
def widen(X, Y, *, T, N=256):
    px.store(Y[0:N], px.load(X[0:N]).to(T))


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


def every_kind() -> np.ndarray:
    """Halves, floats next to them, and any others: smaller than the smallest number, larger than the largest."""
    halves = HALVES.astype(np.float32)
    rng = np.random.default_rng(5)
    anything = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    up, down = (np.nextafter(halves, np.float32(end)) for end in (np.inf, -np.inf))
    return np.concatenate([halves, up, down, anything])


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.share(7)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_every_half_and_its_neighbours(name: str, arch: str) -> None:
    x = every_kind()
    y = np.zeros(x.size, np.float32)
    run_on_host(narrow, x.size // 8192, x, y, T=DTYPES[name], arch=arch)
    want = rounded(x, DTYPES[name]).astype(np.float32)
    assert x[~same(y, want)].tolist() == []


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.share(7)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("target", ("f32", "f16", "bf16"))
@pytest.mark.parametrize("name", ("f6e2m3", "f6e3m2", "f8e8m0", "f8e4m3", "f8e5m2"))
def test_every_code(name: str, target: str, arch: str) -> None:
    dtype = DTYPES[name]
    x = np.resize(np.arange(1 << dtype.bits, dtype=np.uint8), 256).view(dtype.numpy)
    y = np.zeros(256, DTYPES[target].numpy)
    run_on_host(widen, 1, x, y, T=DTYPES[target], arch=arch)
    assert same(y, x.astype(np.float32).astype(y.dtype)).all()


CVT = {
    "f4e2m1": ("cvt.rn.satfinite.e2m1x2.f32", "cvt.rn.f16x2.e2m1x2"),
    "f6e2m3": ("cvt.rn.satfinite.e2m3x2.f32", "cvt.rn.f16x2.e2m3x2"),
    "f6e3m2": ("cvt.rn.satfinite.e3m2x2.f32", "cvt.rn.f16x2.e3m2x2"),
    "f8e8m0": ("cvt.rp.satfinite.ue8m0x2.f32", "cvt.rn.bf16x2.ue8m0x2"),
}


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_100a", "sm_120a"))
@pytest.mark.parametrize("name", SMALL)
def test_what_assembles(name: str, arch: str) -> None:
    arrays = [px.spec(8192, px.f32), px.spec(8192, px.f32)]
    made = px.compile(narrow[1], *arrays, arch=arch, T=DTYPES[name], N=1024)
    assert made.cubin and made.spills == 0
    assert all((text in made.ptx) == (arch != "sm_90a") for text in CVT[name])


@pytest.mark.parametrize("target, others", [("f16", 0), ("bf16", 2)])
def test_8_bits_become_16_in_pairs(target: str, others: int) -> None:
    """One conversion for two elements; bf16 by way of f32."""
    made = px.compile(widen[1], px.spec(256, px.f8e4m3), px.spec(256, DTYPES[target]), T=DTYPES[target])
    pairs = 256 // 32 // 2
    assert made.ptx.count("cvt.rn.f16x2.e4m3x2") == pairs
    assert made.ptx.count("cvt.f32.f16") == others * pairs
