"""Products of groups of rows in the simulator."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products import grouped
from phalanx.kernels.products.group_tiles import planned
from phalanx.kernels.products.grouped import GroupedConfig, choose_grouped, grouped_matmul

SMALL = GroupedConfig(bn=64, stages=3, band=2)
CLUSTERS = {(1, 1): 1, (1, 2): 2, (2, 1): 2, (2, 2): 4}


def make(sizes: list[int], k: int = 128, n: int = 192, behind: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (sum(sizes) + behind, k)).astype(ml_dtypes.bfloat16)
    w = rng.integers(-3, 4, (len(sizes), n, k)).astype(ml_dtypes.bfloat16)
    want = np.full((len(x), n), 7, np.float32)
    for i, g in enumerate(np.repeat(np.arange(len(sizes)), sizes)):
        want[i] = w[g].astype(np.float32) @ x[i].astype(np.float32)
    return x, w, want


@pytest.mark.share(9)
@pytest.mark.parametrize("sizes", [[150, 0, 70], [128], [1, 1, 1], [0, 300], [256, 128, 0], [0, 0]], ids=str)
@pytest.mark.parametrize("shape", CLUSTERS, ids=str)
def test_uneven_groups(sizes: list[int], shape: tuple[int, int]) -> None:
    """Each row by its own weights; rows behind the last group are left as they are."""
    x, w, want = make(sizes)
    out = np.full(want.shape, 7, x.dtype)
    config = replace(SMALL, cm=shape[0], cn=shape[1])
    assert grouped_matmul(x, w, sizes, out=out, config=config) is out
    assert np.array_equal(out, want.astype(x.dtype))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sizes_in_an_array(dtype: type) -> None:
    x, w, want = make([100, 30], behind=0)
    got = grouped_matmul(x, w, np.array([100, 30], dtype), config=SMALL)
    assert np.array_equal(got, want.astype(x.dtype))


def test_bias_and_activation() -> None:
    x, w, want = make([100, 30], behind=0)
    bias = np.random.default_rng(1).integers(-9, 9, (2, 192)).astype(np.float32)
    got = grouped_matmul(x, w, [100, 30], bias=bias, activation="relu", config=SMALL)
    expected = np.maximum(want + np.repeat(bias, [100, 30], axis=0), 0)
    assert np.array_equal(got, expected.astype(x.dtype))


@pytest.mark.share(4)
@pytest.mark.parametrize("shape", CLUSTERS, ids=str)
def test_is_clean(shape: tuple[int, int]) -> None:
    x, w, _ = make([150, 0, 70], behind=0)
    table = planned(np.array([150, 0, 70], np.int32), x, 220, 3, 128 * shape[0])
    config = replace(SMALL, cm=shape[0], cn=shape[1])
    y = np.zeros((220, 192), x.dtype)
    ring = grouped.grouped_ring[2 * shape[0], shape[1]]
    report = px.check(ring, x, w, y, table, table, schedules=2, **config.constants())
    assert report.ok, report


@pytest.mark.long
@pytest.mark.share(7)
@pytest.mark.parametrize("shape, activation", [((1, 2), None), ((2, 1), None), ((1, 2), "silu")], ids=str)
def test_compiles_without_spills(shape: tuple[int, int], activation: str | None) -> None:
    s = px.spec
    made = px.compile(
        grouped.grouped_ring[66 * shape[0], shape[1]], s((16384, 4096), px.bf16), s((32, 14336, 4096), px.bf16),
        s((16384, 14336), px.bf16), s((4, 160), px.i32), s((32, 14336), px.bf16), arch="sm_90a", CM=shape[0],
        CN=shape[1], BIASED=activation is not None, ACTIVATION=activation,
    )
    assert made.spills == 0
    notes = "\n".join(map(str, made.notes))
    assert "tma.store of Y: tensor copy, 2 boxes of 64 x 64" in notes


def test_choosing() -> None:
    assert choose_grouped(2048, 32, 14336, 4096) == GroupedConfig()  # few rows: the end of a group weighs more
    assert choose_grouped(16384, 32, 4096, 4096) == GroupedConfig()  # L2 keeps a group's weights
    assert choose_grouped(16384, 32, 14336, 4096) == GroupedConfig(cm=2, cn=1)
    assert choose_grouped(100, 8, 256, 512) == GroupedConfig(cm=2, cn=1)


def test_nothing_to_do() -> None:
    w = np.zeros((2, 8, 64), ml_dtypes.bfloat16)
    assert grouped_matmul(np.zeros((0, 64), w.dtype), w, [0, 0]).shape == (0, 8)
