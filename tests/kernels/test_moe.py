"""The grouped products of a mixture of experts in the simulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products import moe
from phalanx.kernels.products.group_tiles import planned
from phalanx.kernels.products.moe import moe_gather_matmul, moe_matmul, moe_matmul_scatter

SMALL = {"BM": 128, "BN": 64, "STAGES": 3}


def make(sizes: list[int], k: int = 128, n: int = 128, tokens: int = 200) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (tokens, k)).astype(ml_dtypes.bfloat16)
    w = rng.integers(-3, 4, (len(sizes), n, k)).astype(ml_dtypes.bfloat16)
    idx = rng.integers(0, tokens, sum(sizes)).astype(np.int32)
    return x, w, idx, np.array(sizes, np.int32)


def products(rows: np.ndarray, w: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    expert = np.repeat(np.arange(len(sizes)), sizes)
    return np.stack([w[e].astype(np.float32) @ row.astype(np.float32) for e, row in zip(expert, rows)])


@pytest.mark.share(4)
@pytest.mark.parametrize("sizes", [[150, 0, 70], [128], [1, 1, 1], [0, 129]], ids=str)
def test_gather_matmul(sizes: list[int]) -> None:
    x, w, idx, counts = make(sizes)
    expected = products(x[idx], w, counts).astype(ml_dtypes.bfloat16)
    assert np.array_equal(moe_gather_matmul(x, idx, w, counts, **SMALL), expected)
    assert np.array_equal(moe_matmul(x[idx], w, counts, **SMALL), expected)


def test_matmul_scatter_adds_what_the_gates_weigh() -> None:
    x, w, idx, counts = make([70, 30])
    gate = np.random.default_rng(1).integers(1, 4, 100).astype(np.float32)
    out = np.ones((200, 128), np.float32)
    expected = out.copy()
    np.add.at(expected, idx, gate[:, None] * products(x[:100], w, counts))
    assert moe_matmul_scatter(x[:100], w, counts, idx, gate, out, **SMALL) is out
    assert np.array_equal(out, expected)


@pytest.mark.long
def test_indices_of_64_bits_name_no_row_that_32_would() -> None:
    _, w, _, counts = make([6, 4])
    idx = np.array([3, 2**32, 2**32 + 1, -(2**32), 2**31, 2**63 - 1, -(2**63), -1, 2**32 - 1, 5])
    x = np.random.default_rng(2).integers(-3, 4, (20, 128)).astype(ml_dtypes.bfloat16)
    there = (idx >= 0) & (idx < 20)
    rows = np.where(there[:, None], x[np.where(there, idx, 0)], 0)
    assert np.array_equal(moe_gather_matmul(x, idx, w, counts, **SMALL), products(rows, w, counts).astype(x.dtype))
    out, expected = np.zeros((20, 128), np.float32), np.zeros((20, 128), np.float32)
    expected[idx[there]] = products(x[:10], w, counts)[there]
    moe_matmul_scatter(x[:10], w, counts, idx, np.ones(10, np.float32), out, **SMALL)
    assert np.array_equal(out, expected)


@pytest.mark.share(2)
@pytest.mark.parametrize("gather, scatter", [(True, False), (False, False), (False, True)])
def test_rings_are_clean(gather: bool, scatter: bool) -> None:
    x, w, idx, counts = make([100, 50])
    rows = x if gather else x[:150]
    table = planned(counts, x, 150, 2, 128)
    y = np.zeros((200, 128), np.float32 if scatter else rows.dtype)
    gate = np.ones(150, np.float32)
    args = (rows, idx, w, y, table, gate)
    report = px.check(moe.expert_ring[4], *args, GATHER=gather, SCATTER=scatter, schedules=2, **SMALL)
    assert report.ok, report


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize("index", [px.i32, px.i64])
@pytest.mark.parametrize("gather, scatter", [(True, False), (False, True)])
def test_compiles(gather: bool, scatter: bool, index: px.DType) -> None:
    s = px.spec
    table, y = s((4, 512), px.i32), s((32768, 2048), px.f32 if scatter else px.bf16)
    made = px.compile(
        moe.expert_ring[132], s((16384, 4096), px.bf16), s((32768,), index), s((8, 2048, 4096), px.bf16), y, table,
        s((32768,), px.f32), arch="sm_90a", GATHER=gather, SCATTER=scatter,
    )
    assert made.spills == 0
    if gather:
        notes = "\n".join(map(str, made.notes))
        assert "tma.gather of 64 rows of A: rows, single rows of a box of 1 x 64, 128-byte swizzle" in notes


def test_sizes_may_be_a_list() -> None:
    x, w, idx, counts = make([70, 30])
    assert np.array_equal(
        moe_gather_matmul(x, idx, w, [70, 30], **SMALL), moe_gather_matmul(x, idx, w, counts, **SMALL)
    )
