"""Norms of rows that begin anywhere by teams: against NumPy in f64, checked, compiled without spills; the choice."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from kernels.test_rowwise import (
    EPS,
    exact_layer_norm,
    exact_rms_norm,
    near,
    near_with_large_mean,
    sample,
    with_large_mean,
)
from phalanx.kernels.rowwise import teams
from phalanx.kernels.rowwise.row_config import LIMITS
from phalanx.kernels.rowwise.teams import TeamConfig, choose_teams, edge_parts, norm_teams, parts_of, teams_for

CONFIGS = {
    "a warp to a row": TeamConfig(1, 2, 0),
    "two warps": TeamConfig(2, 2, 0),
    "two rows ahead": TeamConfig(1, 2, 0, slots=3),
    "wide weights": TeamConfig(1, 3, 0, wide=True, slots=2),
    "two CTAs": TeamConfig(1, 2, 0, cluster=2),
    "four CTAs": TeamConfig(2, 1, 0, cluster=4, slots=2),
}


def fitted(config: TeamConfig, x: np.ndarray) -> TeamConfig:
    return replace(config, parts=parts_of(x.shape[1], x.itemsize, config.warps, config.cluster))


@pytest.mark.share(18)
@pytest.mark.parametrize("columns", (17, 129, 512, 1003, 1535, 2803))
@pytest.mark.parametrize("dtype", (np.float32, ml_dtypes.bfloat16))
@pytest.mark.parametrize("name", CONFIGS)
def test_both_norms(name: str, dtype: Any, columns: int) -> None:
    """Also of rows without weights, and of rows that end in another part where they begin elsewhere."""
    x, w, b = sample(19, columns, dtype)
    config = fitted(CONFIGS[name], x)
    near(px.kernels.rms_norm(x, w, EPS, config=config), exact_rms_norm(x, w))
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    near(px.kernels.layer_norm(x, None, b, EPS, config=config), exact_layer_norm(x, np.ones_like(w), b))


@pytest.mark.share(6)
@pytest.mark.parametrize("name", CONFIGS)
def test_checked_clean(name: str) -> None:
    x, w, b = sample(11, 303, np.float32)
    config, y = fitted(CONFIGS[name], x), np.zeros(x.size, np.float32)
    begins, ends = edge_parts(303, 4, config)
    more = {"CENTERED": True, "PERIOD": 4, "BEGINS": begins, "ENDS": ends}
    args, more = (x.reshape(-1), w, b, y, EPS, 303, 11), {"config": config, **more}
    px.check(norm_teams[2 * config.cluster], *args, **more).raise_if_found()


@pytest.mark.parametrize("rows", (9, 37))
@pytest.mark.parametrize("clusters, cluster", ((8, 1), (7, 1), (5, 2)))
def test_side_by_side(clusters: int, cluster: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many clusters for each place of a vector at which rows begin, or some that help out."""
    monkeypatch.setattr(teams, "clusters_at_once", lambda *_: clusters)
    x, w, b = sample(rows, 301, np.float32)
    config = fitted(TeamConfig(1, 2, 0, cluster, slots=2), x)
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    begins, ends = edge_parts(301, 4, config)
    y, more = np.zeros(x.size, np.float32), {"CENTERED": True, "PERIOD": 4, "BEGINS": begins, "ENDS": ends, "SIDES": True}
    args = (x.reshape(-1), w, b, y, EPS, 301, rows)
    px.check(norm_teams[clusters * cluster], *args, config=config, **more).raise_if_found()


CHOSEN = [
    (columns, itemsize, vectors, aligned)
    for (vectors, itemsize, aligned), entries in LIMITS.teams.items()
    for (shorter, _), (upto, team) in itertools.pairwise(entries)
    if team is not None
    for columns in (shorter // itemsize + 1 + 15 * aligned, upto // itemsize - 1 + aligned)
]


@pytest.mark.share(80)
@pytest.mark.parametrize("columns, itemsize, vectors, aligned", CHOSEN)
def test_chosen_teams_compile_without_spills(columns: int, itemsize: int, vectors: int, aligned: bool) -> None:
    """The shortest and the longest rows of each entry of the table."""
    config = choose_teams(columns, itemsize, vectors, aligned)
    assert config is not None and config.teams * config.per_sm >= 2
    dtype, vector = (px.bf16, 8) if itemsize == 2 else (px.f32, 4)
    x, w = px.spec((64 * columns,), dtype), px.spec((columns,), dtype)
    begins, ends = edge_parts(columns, itemsize, config)
    more: dict[str, Any] = {"PERIOD": vector // math.gcd(columns, vector), "BEGINS": begins, "ENDS": ends, "SIDES": True}
    args = (x, w, w if vectors == 2 else None, x, EPS, columns, 64)
    made = px.compile(norm_teams[config.cluster], *args, arch="sm_90a", config=config, **more, CENTERED=vectors == 2)
    assert made.spills == 0 and (made.shared_bytes + 1024) * config.per_sm <= 228 * 1024


def test_which_rows_have_teams() -> None:
    assert choose_teams(4507, 2, 2).warps == 1 and choose_teams(50257, 2, 2).cluster == 4  # type: ignore[union-attr]
    assert choose_teams(601, 2, 2) is None and choose_teams(5003, 4, 1) is None and choose_teams(5003, 2, 0) is None
    x, w = np.zeros((4, 4507), np.float16), np.zeros(4507, np.float16)
    assert teams_for(x, w, w) == choose_teams(4507, 2, 2) and teams_for(x, None) is None
    assert teams_for(x, w.astype(np.float32)) is None and teams_for(np.zeros((4, 4509), np.float16)[:, :4507], w) is None
    assert teams_for(np.zeros((4, 4504), np.float16), w[:4504], w[:4504]) is None


def test_teams_of_other_rows_are_refused() -> None:
    x, w, _ = sample(3, 1003, np.float32)
    with pytest.raises(px.Error, match="teams take rows of 16 elements or more"):
        px.kernels.rms_norm(x[:, :9].copy(), w[:9], config=TeamConfig(1, 2, 1))
    with pytest.raises(px.Error, match="let parts be 9, or leave config out") as caught:
        px.kernels.rms_norm(x, w, config=TeamConfig(1, 2, 7))
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("cluster", (1, 2))
def test_a_large_mean_costs_no_digits(cluster: int) -> None:
    x, w, b = with_large_mean(5, 3001)
    config = fitted(TeamConfig(2, 2, 0, cluster), x)
    near_with_large_mean(px.kernels.layer_norm(x, w, b, EPS, config=config), x, w, b)


@pytest.mark.parametrize("outliers, apart", ((1, 2e-5), (8, 2e-4)))
def test_first_elements_far_from_all_others_cost_few_digits(outliers: int, apart: float) -> None:
    x, w, b = sample(2, 25_001, np.float32)
    x[:, :outliers] += 1e4
    made = px.kernels.layer_norm(x, w, b, EPS, config=choose_teams(25_001, 4, 2))
    want = exact_layer_norm(x, w, b)
    assert np.abs(made - want).max() <= apart * np.abs(want).max()
