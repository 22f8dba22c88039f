"""Block-scaled `px.dot` (mma.sync on sm_120a): against NumPy in the simulator, as text on the CPU and for targets."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
import support.host_mma  # noqa: F401
from phalanx.layouts.fragments import mma_left_scales, mma_right_scales
from support.host_cuda import COMPILER, MISSING, run_on_host

E4M3, E5M2, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn
E8M0 = ml_dtypes.float8_e8m0fnu


@px.kernel(warps=lambda WARPS: WARPS)
def scaled(A, B, SA, SB, C, *, M=64, N=48, K=128, BLOCK=32, WARPS=4, TILES=False):
    """Two steps of K, operands and scales by TMA and plain loads; with TILES all is in registers."""
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    sa, sb = px.shared((M, K // BLOCK), SA.dtype), px.shared((N, K // BLOCK), SB.dtype)
    full = px.barrier()
    acc = px.zeros((M, N), px.f32)
    for k in range(2):
        with full.transaction():
            px.tma.load(A[0:M, k * K : k * K + K], a, full)
            px.tma.load(B[0:N, k * K : k * K + K], b, full)
        left = px.load(SA[0:M, k * (K // BLOCK) : (k + 1) * (K // BLOCK)])
        right = px.load(SB[0:N, k * (K // BLOCK) : (k + 1) * (K // BLOCK)])
        px.store(sa, left)
        px.store(sb, right)
        full.wait(k % 2)
        if TILES:
            acc = px.dot(px.load(a), px.load(b.T), acc, scale_a=left, scale_b=right)
        else:
            acc = px.dot(a, b.T, acc, scale_a=sa, scale_b=sb)
        px.sync()
    px.store(C[0:M, 0:N], acc)


def operands(
    a: Any, b: Any, scale: Any, m: int = 64, n: int = 48, k: int = 128, block: int = 32
) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(shape, np.float32).astype(kind) for shape, kind in (((m, 2 * k), a), ((n, 2 * k), b)))
    if scale is E8M0:
        scales = [rng.integers(120, 135, (rows, 2 * k // block), np.uint8).view(E8M0) for rows in (m, n)]
    else:
        scales = [rng.uniform(0.25, 4, (rows, 2 * k // block)).astype(scale) for rows in (m, n)]
    wide = [
        x.astype(np.float64) * np.repeat(s.astype(np.float64), block, axis=1)
        for x, s in zip((left, right), scales, strict=True)
    ]
    return [left, right, *scales, np.zeros((m, n), np.float32)], wide[0] @ wide[1].T


KINDS = {
    "mxfp8": (E4M3, E4M3, E8M0, 32),
    "mxfp8 mixed": (E5M2, E4M3, E8M0, 32),
    "mxfp4": (E2M1, E2M1, E8M0, 32),
    "mxfp4 in 16": (E2M1, E2M1, E8M0, 16),
    "nvfp4": (E2M1, E2M1, E4M3, 16),
}


def close(found: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.share(4)
@pytest.mark.parametrize("name", KINDS)
def test_the_simulator_multiplies_blocks_by_their_scales(name: str) -> None:
    a, b, scale, block = KINDS[name]
    args, want = operands(a, b, scale, block=block)
    scaled[1](*args, BLOCK=block)
    close(args[-1], want)
    assert px.check(scaled[1], *args, BLOCK=block, schedules=2).ok


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(8)
@pytest.mark.parametrize(
    "name, constants",
    [
        ("mxfp8", {}), ("mxfp8 mixed", {"WARPS": 3, "TILES": True}), ("mxfp4", {"WARPS": 2}), ("mxfp4 in 16", {}),
        ("nvfp4", {"M": 32, "N": 8, "K": 192, "WARPS": 1}),
    ],
)
def test_the_text_gives_the_same(name: str, constants: dict[str, Any]) -> None:
    a, b, scale, block = KINDS[name]
    m, n, k = constants.get("M", 64), constants.get("N", 48), constants.get("K", 128)
    args, want = operands(a, b, scale, m, n, k, block)
    run_on_host(scaled, 1, *args, arch="sm_120a", BLOCK=block, **constants)
    close(args[-1], want)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("right", [2.0, 0.0])
@pytest.mark.parametrize("exponents", [(127, -127), (-127, 127)])
def test_scales_that_cancel(exponents: tuple[int, int], right: float) -> None:
    """A block counts with the product of its two scales: neither alone leaves the range of f32 beside an element."""
    factors = [np.full((rows, 8), 2.0**exponent).astype(E8M0) for rows, exponent in zip((64, 48), exponents)]
    args = [np.full((64, 256), 2.0).astype(E4M3), np.full((48, 256), right).astype(E4M3), *factors]
    for run in (lambda *given: scaled[1](*given), lambda *given: run_on_host(scaled, 1, *given, arch="sm_120a")):
        found = np.full((64, 48), -1, np.float32)
        run(*args, found)
        assert (found == 512 * right).all()


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ["sm_120a", "sm_121a"])
@pytest.mark.parametrize(
    "name, instruction",
    [
        ("mxfp8 mixed", "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e5m2.e4m3.f32.ue8m0"),
        ("mxfp4", "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"),
        ("mxfp4 in 16", "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0"),
        ("nvfp4", "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"),
    ],
)
def test_it_compiles_for_the_targets_that_have_it(name: str, instruction: str, arch: str) -> None:
    a, b, scale, block = KINDS[name]
    args, _ = operands(a, b, scale, block=block)
    made = px.compile(scaled[1], *args, arch=arch, BLOCK=block)
    assert set(re.findall(r"mma\.sync\.aligned\.(\S+)", made.ptx)) == {instruction}
    assert made.spills == 0 and made.cubin[:4] == b"\x7fELF"
    assert any(f"px.dot runs as mma.sync: {instruction.split('::')[1].split('.')[0]}" in str(note) for note in made.notes)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_other_targets_refuse_it_and_name_what_they_have(arch: str) -> None:
    args, _ = operands(E4M3, E4M3, E8M0)
    with pytest.raises(px.Error, match=f"{arch} has no mma.sync with block scales") as caught:
        px.compile(scaled[1], *args, arch=arch)
    assert "px.tcgen05.mma(a, b, acc, scale_a=, scale_b=)" in str(caught.value.remedy)


def test_where_the_scales_lie() -> None:
    """As PTX's manual has it for thread-id 0 and 1: lanes 2 t and 2 t + 1 of four have rows g and g + 8."""
    layout = mma_left_scales(32, 16, 4, 1)
    rows, columns = layout.coordinates
    for lane in range(32):
        for register in range(8):
            place = lane // 4 + 8 * (lane % 2) + 16 * (register // 4), register % 4
            assert (rows[register, lane, 0], columns[register, lane, 0]) == place
    rows, columns = mma_right_scales(32, 16, 2, 1).coordinates
    for lane in range(32):
        for register in range(4):
            assert (rows[register, lane, 0], columns[register, lane, 0]) == (lane // 4 + 8 * (register // 2), register % 2)
