"""Plain products compile for every target to what reads their operands fastest, without spills."""

from __future__ import annotations

import pytest

import phalanx as px
from support import plain_products as kernels

INSTRUCTIONS = {
    "sm_90a": ("cp.async.cg.shared.global", "wgmma.mma_async"),
    "sm_100a": ("cp.async.cg.shared.global", "tcgen05.mma"),
    "sm_120a": ("cp.async.cg.shared.global", "ldmatrix.sync.aligned.m8n8.x4", "mma.sync.aligned.m16n8k16"),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", INSTRUCTIONS)
def test_a_plain_matmul(arch: str) -> None:
    x = px.spec((1024, 1024), px.bf16)
    made = px.compile(
        kernels.plain_matmul[8, 8], x, x, px.spec((1024, 1024), px.f32), arch=arch, BM=128, BN=128, BK=64, WARPS=8
    )
    assert made.spills == 0
    for instruction in INSTRUCTIONS[arch]:
        assert instruction in made.ptx
    swizzles = [note for note in map(str, made.notes) if "swizzle" in note]
    assert len(swizzles) == 2 and all("128-byte swizzle, 0 bank conflicts" in note for note in swizzles)
    if arch == "sm_90a":
        assert made.registers <= 128, "two CTAs of 256 threads have room on an SM"


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", INSTRUCTIONS)
def test_a_plain_attention_loop(arch: str) -> None:
    x = px.spec((1024, 64), px.bf16)
    made = px.compile(kernels.plain_attention[8], x, x, x, x, arch=arch, BM=128, BN=64, D=64, WARPS=8)
    assert made.spills == 0
