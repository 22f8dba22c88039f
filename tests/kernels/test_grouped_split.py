"""Grouped products of few rows in the simulator: tiles of as many pieces of rows as a group needs, K split in clusters."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products.group_model import PIECES, SPLITS, expected_tiles, few_rows_config, with_tiles
from phalanx.kernels.products.group_tiles import most_tiles, planned
from phalanx.kernels.products.grouped import NARROW, GroupedConfig, choose_grouped, grouped_matmul
from phalanx.kernels.products.grouped_split import grouped_split_ring
from phalanx.kernels.products.moe import gathers_first, moe_gather_matmul, moe_matmul
from phalanx.kernels.products.split_config import SplitConfig

CONFIGS = {
    "alone": SplitConfig(64, 64, 1, 3, groups=1, pieces=4),
    "split": SplitConfig(64, 128, 2, 3, pieces=4),
    "reused": SplitConfig(32, 64, 2, 4, groups=1, pieces=2, reuse=True),
    "in fours": SplitConfig(64, 64, 4, 3, groups=1, pieces=4, ahead=1),
    "shared rows": SplitConfig(64, 64, 2, 3, cn=2, groups=1, pieces=4),
}
SIZES = [40, 0, 70, 3, 17, 64]
"""One, none, several tiles of a group, and every number of pieces."""


def make(sizes: list[int], k: int = 320, n: int = 136, behind: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (sum(sizes) + behind, k)).astype(ml_dtypes.bfloat16)
    w = rng.integers(-3, 4, (len(sizes), n, k)).astype(ml_dtypes.bfloat16)
    want = np.full((len(x), n), 7, np.float32)
    for i, g in enumerate(np.repeat(np.arange(len(sizes)), sizes)):
        want[i] = w[g].astype(np.float32) @ x[i].astype(np.float32)
    return x, w, want


@pytest.mark.share(6)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_uneven_groups(config: SplitConfig) -> None:
    """Each row by its own weights; rows behind the last group are left as they are."""
    x, w, want = make(SIZES)
    out = np.full(want.shape, 7, x.dtype)
    assert grouped_matmul(x, w, SIZES, out=out, config=config) is out
    assert np.array_equal(out, want.astype(x.dtype))


def test_bias_and_activation() -> None:
    x, w, want = make([50, 30], behind=0)
    bias = np.random.default_rng(1).integers(-9, 9, (2, 136)).astype(np.float32)
    got = grouped_matmul(x, w, [50, 30], bias=bias, activation="relu", config=CONFIGS["split"])
    expected = np.maximum(want + np.repeat(bias, [50, 30], axis=0), 0)
    assert np.array_equal(got, expected.astype(x.dtype))


@pytest.mark.share(5)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_is_clean(config: SplitConfig) -> None:
    sizes = [40, 0, 70]
    x, w, _ = make(sizes, behind=0)
    table = planned(np.array(sizes, np.int32), x, 110, 3, config.bm)
    split, columns, _ = config.grid(1, 136)
    ring = grouped_split_ring[split, columns, most_tiles(110, 3, config.bm)]
    y = np.zeros((110, 136), x.dtype)
    report = px.check(ring, x, w, y, table, table, schedules=2, **config.constants())
    assert report.ok, report


@pytest.mark.share(2)
@pytest.mark.parametrize("chosen", [CONFIGS["split"], NARROW], ids=["few rows", "narrow tiles"])
def test_experts_take_the_same_way(chosen: SplitConfig | GroupedConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions for experts ask the same chooser; rows by index are gathered first, one outside is zeros."""
    monkeypatch.setattr(sys.modules[moe_matmul.__module__], "choose_grouped", lambda *_: chosen)
    monkeypatch.setattr(sys.modules[moe_matmul.__module__], "gathers_first", lambda *_: True)
    x, w, want = make([50, 30], behind=0)
    idx = np.random.default_rng(3).permutation(80).astype(np.int32)
    mixed = np.empty_like(x)
    mixed[idx] = x
    assert np.array_equal(moe_matmul(x, w, [50, 30]), want.astype(x.dtype))
    assert np.array_equal(moe_gather_matmul(mixed, idx, w, [50, 30]), want.astype(x.dtype))
    idx[3] = 80
    want[3] = 0
    assert np.array_equal(moe_gather_matmul(mixed, idx, w, [50, 30]), want.astype(x.dtype))


@pytest.mark.share(18)
@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("bm", PIECES)
def test_compiles_without_spills(bm: int, split: int, ctas: int, fused: bool) -> None:
    """All that can be chosen; with `ctas` of them on an SM registers are half as many."""
    s, config = px.spec, with_tiles(bm, split, ctas)
    made = px.compile(
        grouped_split_ring[split, 32, 8], s((272, 7168), px.bf16), s((4, 2048, 7168), px.bf16),
        s((272, 2048), px.bf16), s((4, 32), px.i32), s((4, 2048), px.bf16), arch="sm_90a", BIASED=fused,
        ACTIVATION="gelu" if fused else None, **config.constants(),
    )
    assert made.spills == 0
    assert made.registers * 32 * (4 * config.groups + 2) * ctas <= 65536


def test_choosing() -> None:
    """Few groups of few rows are split among all SMs; what has tiles enough, or many rows, is not."""
    few = choose_grouped(320, 4, 2048, 8192)
    assert isinstance(few, SplitConfig) and few.bm == 128
    assert isinstance(choose_grouped(40, 8, 2048, 4096), SplitConfig) and choose_grouped(40, 8, 2048, 4096).bm == 32
    assert choose_grouped(320, 64, 2048, 8192) == GroupedConfig()
    assert choose_grouped(2048, 4, 2048, 8192) == GroupedConfig()
    assert few_rows_config(100, 2, 1024, 8192).split == 4
    assert few_rows_config(100, 2, 1024, 128).split == 2  # no more parts than steps along K
    assert choose_grouped(320, 4, 2048, 8192) == choose_grouped(310, 4, 2048, 8192)  # new numbers of rows are no new choice


def test_exports_do_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be called with a K that has fewer steps than there are parts."""
    monkeypatch.setattr(sys.modules[grouped_matmul.__module__], "is_exported", lambda: True)
    assert choose_grouped(320, 4, 2048, 8192) == GroupedConfig()


def test_few_rows_are_gathered_first() -> None:
    assert gathers_first(280, 4, 2048, 7168)
    assert not gathers_first(280, 4, 256, 512)
    assert not gathers_first(4096, 4, 2048, 7168)


def test_expected_tiles_are_those_of_uneven_groups() -> None:
    sizes = np.random.default_rng(0).exponential(70, 100_000)
    assert expected_tiles(int(sizes.sum()), len(sizes), 128) == pytest.approx(np.ceil(sizes / 128).sum(), rel=0.01)
