"""The words in the text of two kernels, field by field: descriptors of shared memory, instruction words, distances.

The numbers are those that two kernels written by hand for the same tiles compute; fields are taken apart here once more,
from the tables of the PTX documentation.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

import phalanx as px
from support.host_cuda import module_for

BF16, E4M3, E8M0 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu


@px.kernel(warps=6)
def one_cta(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4):
    a, b = px.shared((STAGES, BM, BK), A.dtype), px.shared((STAGES, BN, BK), B.dtype)
    acc = px.tmem((BM, BN), px.f32)
    pipe, done = px.pipe(STAGES), px.barrier()
    steps = px.cdiv(A.shape[1], BK)
    with px.warps(4, 1):
        for k in range(steps):
            with pipe.produce() as s:
                px.tma.load(A[0:BM, k * BK : k * BK + BK], a[s], pipe.full[s])
                px.tma.load(B[0:BN, k * BK : k * BK + BK], b[s], pipe.full[s])
    with px.warps(5, 1):
        for k in range(steps):
            s = pipe.wait()
            px.tcgen05.mma(a[s], b[s].T, acc, accumulate=k > 0)
            px.tcgen05.commit(pipe)
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        done.wait(0)
        for part in px.static_range(BN // 64):
            px.store(C[0:BM, part * 64 : part * 64 + 64], px.tcgen05.load(acc[:, part * 64 : part * 64 + 64]))


@px.kernel(warps=6, cluster=2)
def scaled_pair(A, B, SFA, SFB, C, *, BN=128, BK=128):
    rank = px.cluster.rank()
    a, b = px.shared((128, BK), A.dtype), px.shared((BN // 2, BK), B.dtype)
    sfa, sfb = px.shared((1, 1, 32, 16), SFA.dtype), px.shared((1, 1, 32, 16), SFB.dtype)
    acc = px.tmem((2, 128, BN), px.f32)
    scale_a, scale_b = px.tmem((128, 4), SFA.dtype), px.tmem((BN, 4), SFB.dtype)
    full, done = px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[rank * 128 : rank * 128 + 128, 0:BK], a, full, two_cta=True)
            px.tma.load(B[rank * (BN // 2) : rank * (BN // 2) + BN // 2, 0:BK], b, full, two_cta=True)
            px.tma.load(SFA[rank : rank + 1, 0:1, 0:32, 0:16], sfa, full, two_cta=True)
            px.tma.load(SFB[0:1, 0:1, 0:32, 0:16], sfb, full, two_cta=True)
    with px.warps(5, 1):
        if rank == 0:
            full.wait(0)
            px.tcgen05.copy(sfa, scale_a, two_cta=True)
            px.tcgen05.copy(sfb, scale_b, two_cta=True)
            px.tcgen05.mma(a, b.T, acc[1], accumulate=False, scale_a=scale_a, scale_b=scale_b, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[rank * 128 : rank * 128 + 128, 0:BN], px.tcgen05.load(acc[1]))


def shared_fields(word: int) -> dict[str, int]:
    places = {"leading": (16, 14), "stride": (32, 14), "version": (46, 3), "base": (49, 3), "mode": (52, 1)}
    places["swizzle"] = (61, 3)
    return {name: word >> low & (1 << size) - 1 for name, (low, size) in places.items()}


def calls(text: str, function: str) -> list[list[str]]:
    """The arguments of every call of a device function, outside its definition."""
    return [[part.strip() for part in found.split(", ")] for found in re.findall(rf"ptx::{function}\((.*)\);", text)]


def descriptors(text: str) -> list[dict[str, int]]:
    words = re.findall(r"ptx::tcgen05_descriptor\(.*, (0x[0-9a-f]+)ull\)", text)
    return [shared_fields(int(word, 16)) for word in words]


def test_words_of_one_cta() -> None:
    args = (np.zeros((128, 256), BF16), np.zeros((256, 256), BF16), np.zeros((128, 256), np.float32))
    text = module_for(one_cta, args, arch="sm_100a").source
    operand = {"leading": 1, "stride": 1024 >> 4, "version": 1, "base": 0, "mode": 0, "swizzle": 2}
    assert descriptors(text) == [operand, operand]
    word = 1 << 4 | 1 << 7 | 1 << 10 | (256 >> 3) << 17 | (128 >> 4) << 24  # f32, bf16, bf16, N, M
    found = calls(text, "tcgen05_mma_cta_group_1_f16")
    assert [call[:4] for call in found] == [
        ["px_d", f"px_a{step}", f"px_b{step}", f"{word:#x}u"] for step in ("", " + 2", " + 4", " + 6")
    ]
    assert [call[4] for call in found] == ["k > 0", "true", "true", "true"]


def test_words_of_a_block_scaled_pair() -> None:
    blocks = np.zeros((2, 1, 32, 16), E8M0)
    args = (np.zeros((256, 128), E4M3), np.zeros((128, 128), E4M3), blocks, blocks[:1], np.zeros((256, 128), np.float32))
    text = module_for(scaled_pair, args, arch="sm_100a").source
    operand = {"leading": 1, "stride": 1024 >> 4, "version": 1, "base": 0, "mode": 0, "swizzle": 2}
    scale_a, scale_b, left, right = descriptors(text)
    assert left == right == operand
    for scale in (scale_a, scale_b):  # the other offset is not looked at: one copy is 16 bytes wide
        assert {**scale, "leading": 0} == {**operand, "leading": 0, "stride": 128 >> 4, "swizzle": 0}
    assert re.findall(r"const unsigned px_(?:d|sa|sb) = (.*);", text) == [
        "px_tmem + 256", "px_tmem + 260", "px_tmem + 128", "px_tmem + 256", "px_tmem + 260"
    ]  # fmt: skip
    base = (128 >> 3) << 17 | 1 << 23 | (256 >> 7) << 27  # e4m3 twice, N, ue8m0, M
    found = calls(text, "tcgen05_mma_cta_group_2_mxf8f6f4_block32")
    assert [call[3] for call in found] == [f"{base | j << 29 | j << 4:#x}u" for j in range(4)]
    assert [call[1:3] for call in found] == [[f"px_a{s}", f"px_b{s}"] for s in ("", " + 2", " + 4", " + 6")]
    assert [call[6] for call in found] == ["false", "true", "true", "true"]
    assert calls(text, "tcgen05_cp_cta_group_2_32x128b_warpx4") == [["px_d", "px_s"]] * 2
