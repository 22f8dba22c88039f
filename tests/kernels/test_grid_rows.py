"""Rows that all CTAs share: every length and team against NumPy in f64, checked, compiled without spills; the choice."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from kernels.test_rowwise import exact_softmax, near, sample
from phalanx.kernels.rowwise import grid_rows
from phalanx.kernels.rowwise.grid_rows import GridConfig, choose_grid, grid_for
from phalanx.kernels.rowwise.grid_softmax import softmax_grid
from phalanx.kernels.rowwise.stream_config import LOG_SOFTMAX, SOFTMAX
from phalanx.machines.h200 import H200

CONFIGS = {
    "two teams": GridConfig(2, 2, 1, 9),
    "one team": GridConfig(1, 3, 1, 9, once=False),
    "single warps": GridConfig(3, 1, 2, 10),
    "seven teams": GridConfig(7, 1, 2, 10),
}


@pytest.fixture(params=(1, 2, 5))
def ctas(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(grid_rows, "SIMULATED_CTAS", request.param)
    return int(request.param)


@pytest.mark.share(29)
@pytest.mark.parametrize("columns", (1, 17, 512, 1001, 2803))
@pytest.mark.parametrize("dtype", (np.float32, ml_dtypes.bfloat16))
@pytest.mark.parametrize("name", CONFIGS)
def test_all_functions(name: str, dtype: Any, columns: int, ctas: int) -> None:
    x = sample(5, columns, dtype)[0]
    exact, config = exact_softmax(x), CONFIGS[name]
    if config.chunks(columns, x.dtype.itemsize, ctas) > config.stages:
        config = replace(config, step=4)
    for got, want in (
        (px.kernels.softmax(x, config=config), exact),
        (px.kernels.log_softmax(x, config=config), np.log(exact)),
    ):
        assert got.dtype == x.dtype
        near(got, want)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name != "two teams")) for name in CONFIGS])
def test_checked_clean(name: str) -> None:
    config, columns, rows = CONFIGS[name], 1203, 3
    x = sample(rows, columns, np.float32)[0]
    flat, y, words = x.reshape(-1), np.zeros(x.size, np.float32), np.full(32 * rows, -1)
    constants = {**config.constants(), "SLOTS": 32, "PERIOD": 4}
    px.check(softmax_grid[3], flat, y, columns, rows, words, **constants).raise_if_found()


def test_rows_of_which_nothing_takes_part(ctas: int) -> None:
    x, config = np.zeros((3, 700), np.float32), CONFIGS["two teams"]
    x[1, :10], x[2] = 1.0, -np.inf
    near(px.kernels.softmax(x[:2], config=config), exact_softmax(x[:2]))
    assert np.isnan(px.kernels.softmax(x, config=config)[2]).all()


def test_a_ring_keeps_a_part_of_a_row() -> None:
    with pytest.raises(px.Error) as caught:
        px.kernels.softmax(np.zeros((2, 4003), np.float32), config=GridConfig(2, 2, 1, 2))
    assert caught.value.message == "rings of 2 chunks for rows of 4003 elements, of which each of 3 CTAs has 6"
    assert caught.value.remedy == "let stages be 6 at least, or chunks be longer: a ring keeps a CTA's part of a row"


CHOSEN = [
    (SOFTMAX, 1_755_136, 4),
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            (SOFTMAX, 1_999_999, 4), (SOFTMAX, 1_612_345, 2), (LOG_SOFTMAX, 1_999_999, 4), (LOG_SOFTMAX, 1_980_001, 2),
            (LOG_SOFTMAX, 1_612_345, 2), (SOFTMAX, 1_684_776, 2), (SOFTMAX, 2_000_000, 2),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("kind, columns, itemsize", CHOSEN)
def test_chosen_ones_compile_without_spills(kind: str, columns: int, itemsize: int) -> None:
    config = choose_grid(columns, itemsize, kind, H200.sms)
    assert config is not None and config.chunks(columns, itemsize, H200.sms) <= config.stages
    dtype = px.bf16 if itemsize == 2 else px.f32
    x, words = px.spec((64 * columns,), dtype), px.spec((64 * 160,), px.i64)
    vector = 16 // itemsize
    constants = {**config.constants(), "SLOTS": 160, "PERIOD": vector // math.gcd(columns, vector)}
    args = x, x, columns, 64, words
    made = px.compile(softmax_grid[H200.sms], *args, arch="sm_90a", **constants, LOG=kind == LOG_SOFTMAX)
    assert made.spills == 0 and made.cooperative and made.shared_bytes <= H200.shared_bytes()


def test_which_rows_all_sms_share() -> None:
    for kind, limits in H200.rows.grid_bytes.items():
        for itemsize, limit in zip((2, 4), limits, strict=True):
            assert choose_grid(limit // itemsize - 1, itemsize, kind, H200.sms) is None
            assert choose_grid(limit // itemsize, itemsize, kind, H200.sms) is not None
    assert [choose_grid(columns, 2, SOFTMAX, H200.sms).teams for columns in (1_500_001, 1_892_000, 1_901_519)] == [7, 7, 6]  # type: ignore[union-attr]
    assert choose_grid(1_030_000, 4, SOFTMAX, H200.sms) == GridConfig(6, 2, 4, 9), "of f32 teams of two warps"
    assert choose_grid(100_000_000, 4, SOFTMAX, H200.sms) is None, "no room for two slices"


def test_the_simulator_has_other_ctas() -> None:
    assert grid_for(np.zeros((1, 2_000_000), np.float32), SOFTMAX) is None
