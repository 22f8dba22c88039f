"""Cross entropy of rows in registers, wherever they begin: results, choices, registers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.rowwise.losses import LossConfig, choose_losses, loss_rows
from phalanx.kernels.rowwise.row_config import LIMITS

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
DTYPES = {"bf16": px.bf16, "f16": px.f16, "f32": px.f32}


def vectors_of(columns: int, name: str) -> int:
    return columns * np.dtype(TYPES[name]).itemsize // 16


def logits_of(rows: int, columns: int, name: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits and targets; the third row is ignored, of the fourth half is -inf, and the fifth has large numbers."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns)) * 4
    x[3, : columns // 2] = -np.inf
    if name != "f16":
        x[4] *= 1e30
    targets = rng.integers(columns // 2, columns, rows)
    targets[2] = -100
    return x.astype(TYPES[name]), targets


def losses(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    exact = x.astype(np.float64)
    largest = exact.max(1)
    chosen = exact[np.arange(len(x)), np.maximum(targets, 0)]
    found = largest + np.log(np.exp(exact - largest[:, None]).sum(1)) - chosen
    return np.where(targets == -100, 0.0, found)


CONFIGS = [
    ("a thread to a row", 32, 1), ("odd, a thread to a row", 39, 1), ("fewer than a vector", 5, 1),
    ("two threads", 43, 2), ("four", 100, 4), ("more edges than threads", 61, 4), ("half a warp", 250, 16),
    ("a warp", 600, 32), ("odd, a warp", 601, 32), ("two warps", 1100, 64), ("odd, four warps", 3001, 128),
]  # fmt: skip


@pytest.mark.share(8)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("columns, lanes", [row[1:] for row in CONFIGS], ids=[row[0] for row in CONFIGS])
def test_losses_of_all_ways_to_deal_rows(columns: int, lanes: int, name: str) -> None:
    parts = max(1, px.cdiv(vectors_of(columns, name), lanes))
    config = LossConfig(lanes, parts, max(2, lanes // 32))
    x, targets = logits_of(19, columns, name)
    got = px.kernels.cross_entropy(x, targets, reduction="none", config=config)
    np.testing.assert_allclose(got, losses(x, targets), rtol=2e-6, atol=3e-6)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ("bf16", "f32"))
@pytest.mark.parametrize("columns, lanes", [(4096, 32), (1001, 32), (5003, 64), (20_003, 64)])
def test_losses_of_rows_in_pieces(columns: int, lanes: int, name: str) -> None:
    """Also of more pieces than a warp has threads, of which the last may have nothing."""
    config = LossConfig(lanes, 2)
    assert config.pieces(columns, np.dtype(TYPES[name]).itemsize) > 1
    x, targets = logits_of(9, columns, name)
    got = px.kernels.cross_entropy(x, targets, reduction="none", config=config)
    np.testing.assert_allclose(got, losses(x, targets), rtol=2e-6, atol=3e-6)
    mean = px.kernels.cross_entropy(x, targets, config=config)
    np.testing.assert_allclose(mean, losses(x, targets).sum() / 8, rtol=1e-5)


@pytest.mark.share(3)
@pytest.mark.parametrize("reduction", ("mean", "sum"))
@pytest.mark.parametrize("rows, columns", [(300, 32), (77, 43), (200, 250), (19, 1088), (9, 4001)])
def test_sums_of_losses(rows: int, columns: int, reduction: str) -> None:
    """The kernel that reads the rows adds up some losses each, and counts those that are not ignored."""
    x, targets = logits_of(rows, columns, "bf16")
    x[4] = 1
    want = losses(x, targets).sum() / (rows - 1 if reduction == "mean" else 1)
    np.testing.assert_allclose(px.kernels.cross_entropy(x, targets, reduction=reduction), want, rtol=1e-5)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("columns", (7, 40, 1111))
def test_what_is_no_class_and_rows_of_nothing(columns: int, name: str) -> None:
    x, targets = logits_of(8, columns, name)
    x[5], targets[5] = -np.inf, 0
    targets[6], targets[7] = columns, -1
    got = px.kernels.cross_entropy(x, targets, reduction="none")
    assert np.isnan(got[5:]).all() and np.isfinite(got[:5]).all() and got[2] == 0
    assert np.isnan(px.kernels.cross_entropy(x, targets))


def test_neighbours_of_a_row_are_not_its_own() -> None:
    """In vectors that a row shares with its neighbours, these have numbers that would be seen."""
    for columns in (9, 35, 61, 301):
        x = np.where(np.arange(12)[:, None] % 2, np.float32(0), np.float32(1e30)).repeat(columns, 1)
        got = px.kernels.cross_entropy(x, np.zeros(12, np.int32), reduction="none")
        np.testing.assert_allclose(got, np.log(columns), rtol=1e-6)


def test_rows_with_gaps_go_another_way() -> None:
    x, targets = logits_of(6, 100, "f32")
    wide = np.full((6, 108), 1e9, np.float32)
    wide[:, :100] = x
    got = px.kernels.cross_entropy(wide[:, :100], targets, reduction="none")
    np.testing.assert_allclose(got, losses(x, targets), rtol=2e-6, atol=3e-6)


def chosen_configs(name: str) -> list[tuple[LossConfig, bool]]:
    """Of all that are chosen for rows of any length, and whether these have edges, those with the most vectors in a thread:
    with fewer, and as many warps on an SM, nothing takes more registers."""
    itemsize = np.dtype(TYPES[name]).itemsize
    vector = 16 // itemsize
    most: dict[tuple[int, int, bool], LossConfig] = {}
    for vectors in range(1, 4500):
        for edges in (False, True):
            config = choose_losses(vectors * vector + edges, itemsize)
            kept = most.setdefault((config.lanes, config.per_sm, edges), config)
            most[config.lanes, config.per_sm, edges] = max(kept, config, key=lambda each: each.parts)
    return [(config, edges) for (_, _, edges), config in most.items()]


def test_choices_hold_their_rows() -> None:
    """Few threads to a row, and as many vectors of it in each as do not spill; longer rows in pieces."""
    for itemsize in (2, 4):
        for columns in (1, 31, 100, 1000, 4097, 26_000, 100_000, 2_000_000):
            config = choose_losses(columns, itemsize)
            pieces = config.pieces(columns, itemsize)
            assert config.lanes * config.parts * pieces >= columns * itemsize // 16
            assert config.warps % max(1, config.lanes // 32) == 0
            longest = LIMITS.loss_lanes[-1]
            assert (pieces > 1) == (columns * itemsize // 16 > longest[0] * longest[1])
    assert choose_losses(1088, 2).lanes < 32 and choose_losses(1216, 2).lanes == 32


@pytest.mark.share(60)
@pytest.mark.parametrize("name, config, edges", [(name, *found) for name in TYPES for found in chosen_configs(name)])
def test_chosen_configurations_do_not_spill(name: str, config: LossConfig, edges: bool) -> None:
    made = compiled(name, config, edges)
    assert made.spills == 0 and made.registers * 32 * config.warps * config.per_sm <= 65536


def compiled(name: str, config: LossConfig, edges: bool) -> Any:
    vector = 16 // np.dtype(TYPES[name]).itemsize
    rows, columns = 64, config.lanes * config.parts * vector + edges
    x, whole = px.spec((rows * columns,), DTYPES[name]), px.spec((rows * columns // vector, vector), DTYPES[name])
    args = (x, whole, px.spec((rows,), px.i64), None, px.spec((2, rows), px.f32), -100, columns, None)
    return px.compile(loss_rows[config.grid(rows)], *args, arch="sm_90a", **config.constants(), EDGES=edges)
