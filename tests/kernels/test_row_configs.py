"""Which configuration a row gets, and that every kernel compiles for each of them without spilling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.cross_entropy import cross_entropy_rows
from phalanx.kernels.norms import choose_centered, layer_norm_rows, rms_norm_rows
from phalanx.kernels.rows import FEWER_HELD, HELD, choose
from phalanx.kernels.softmax import softmax_rows

NUMPY = {px.bf16: ml_dtypes.bfloat16, px.f16: np.float16, px.f32: np.float32}
CLUSTERS = {4096: 1, 16384: 1, 65536: 2, 131072: 8, 262144: 8, 1 << 20: 16}


@pytest.mark.parametrize("columns, cluster", CLUSTERS.items())
def test_the_cluster_that_holds_a_row(columns: int, cluster: int) -> None:
    assert choose(columns, 2).cluster == cluster


def test_every_row_is_held_whole() -> None:
    for itemsize in (2, 4):
        for columns in [*range(1, 3000), *range(3000, 1 << 20, 9973), 1 << 20]:
            config = choose(columns, itemsize, weighted=columns % 2 == 0, centered=columns % 3 == 0)
            assert config.columns >= columns
            assert config.columns - columns < config.cluster * config.width, "a whole tile of every CTA is empty"
            assert config.width * itemsize <= 16 * 32 * config.warps


def test_large_clusters_stream_and_short_rows_have_their_weights_ahead() -> None:
    assert [choose(columns, 2).once for columns in CLUSTERS] == [False, False, False, False, True, True]
    assert choose(4096, 2).ahead and not choose(65536, 2).ahead
    halved = choose(65536, 2, weighted=True)
    assert (halved.cluster, halved.warps, halved.per_sm, halved.ahead) == (4, 8, 3, True)
    centered = choose(65536, 2, centered=True)
    assert (centered.cluster, centered.warps, centered.per_sm, centered.ahead) == (4, 8, 4, False)
    aligned, anywhere = np.zeros((2, 65536), np.float16), np.zeros((2, 65001), np.float16)
    assert choose_centered(aligned) == centered and choose_centered(anywhere).parts < centered.parts


def test_a_mean_takes_no_larger_clusters() -> None:
    for columns in range(1000, 1 << 20, 9973):
        weighted, centered = choose(columns, 2, weighted=True), choose(columns, 2, centered=True)
        assert (weighted.cluster, weighted.warps, weighted.columns) == (centered.cluster, centered.warps, centered.columns)
        assert centered.parts <= weighted.parts


def test_once_and_ahead_reach_the_kernel() -> None:
    plain, chosen = choose(4096, 2), []
    x, w = px.spec((64, 4096), px.bf16), px.spec((4096,), px.bf16)
    for once in (False, True):
        config = replace(plain, once=once)
        for made in (
            px.compile(softmax_rows[64], x, x, **config.constants()),
            px.compile(rms_norm_rows[64], x, w, x, 1e-6, **config.constants(), AHEAD=config.ahead),
        ):
            chosen.append("st.global.L1::no_allocate" in made.ptx)
    assert chosen == [False, False, True, True]


def test_a_row_that_no_cluster_holds() -> None:
    with pytest.raises(px.Error, match="does not fit a cluster"):
        choose(1 << 23, 4)


REPRESENTATIVE = (
    (px.bf16, 100), (px.bf16, 4096), (px.bf16, 5001), (px.bf16, 16384), (px.bf16, 65536), (px.f16, 131072),
    (px.bf16, 262144), (px.bf16, 1 << 20), (px.f32, 16384), (px.f32, 1 << 20),
)  # fmt: skip
"""One of each number of threads, tiles and CTAs on an SM that `choose` gives, and a row that vectors do not fill."""


@pytest.mark.parametrize("kind", ("softmax", "log_softmax", "rms_norm", "cross_entropy"))
@pytest.mark.parametrize("dtype, columns", REPRESENTATIVE)
def test_compiles_without_spills(dtype: Any, columns: int, kind: str) -> None:
    held = FEWER_HELD if kind == "log_softmax" else HELD
    config = choose(columns, dtype.itemsize, held, weighted=kind == "rms_norm")
    x, vector, rows = px.spec((64, columns), dtype), px.spec((columns,), dtype), px.spec((64,), px.f32)
    grid, constants = config.grid(64), dict(config.constants())
    if kind in ("softmax", "log_softmax"):
        made = px.compile(softmax_rows[grid], x, x, **constants, LOG=kind == "log_softmax")
    elif kind == "rms_norm":
        made = px.compile(rms_norm_rows[grid], x, vector, x, 1e-6, **constants, AHEAD=config.ahead)
    else:
        made = px.compile(cross_entropy_rows[grid], x, px.spec((64,), px.i64), rows, -100, **constants)
    assert made.spills == 0
    assert made.registers * 32 * config.warps * config.per_sm <= 65536
    assert ("st.async" in made.ptx) == (config.cluster > 1)


@pytest.mark.parametrize("dtype, columns", [*REPRESENTATIVE, (px.bf16, 65001), (px.bf16, 131001), (px.f16, 300000)])
def test_layer_norm_compiles_without_spills(dtype: Any, columns: int) -> None:
    """Also long rows that begin anywhere, and those that leave warps of the largest cluster without a column."""
    config = choose_centered(np.zeros((2, columns), NUMPY[dtype]))
    x, vector = px.spec((64, columns), dtype), px.spec((columns,), dtype)
    constants = {**config.constants(), "AHEAD": config.ahead, "MASKED": config.columns != columns}
    made = px.compile(layer_norm_rows[config.grid(64)], x, vector, vector, x, 1e-6, **constants)
    assert made.spills == 0
    assert made.registers * 32 * config.warps * config.per_sm <= 65536
    assert made.ptx.count("st.async") == (config.cluster > 1), "one exchange"
