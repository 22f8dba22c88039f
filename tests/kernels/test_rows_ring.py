"""Rows through a ring: every variant against NumPy in f64, checked under several schedules, compiled; the rule."""

from __future__ import annotations

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
    exact_softmax,
    near,
    near_with_large_mean,
    sample,
    with_large_mean,
)
from phalanx.kernels.rowwise.norms import ring_for
from phalanx.kernels.rowwise.norms_ring import norm_ring
from phalanx.kernels.rowwise.rows_ring import LOADED, REGISTERS, SHARED, RingConfig, choose_ring
from phalanx.kernels.rowwise.softmax_ring import softmax_ring

SCHEDULES = 4
VARIANTS: dict[str, dict[str, Any]] = {
    "producer": {"stages": 3},
    "producer, a stage a row": {"stages": 2, "step": 2},
    "producer, early": {"stages": 5, "early": True},
    "no producer": {"stages": 4, "producer": False},
    "no producer, a stage a row": {"stages": 3, "step": 2, "producer": False},
    "in the ring": {"stages": 2, "step": 2, "held": False},
    "in the ring, no producer": {"stages": 2, "step": 2, "held": False, "producer": False, "once": False},
    "weights in shared memory": {"stages": 4, "weights": SHARED},
    "weights loaded": {"stages": 4, "weights": LOADED, "streamed": True},
}
EVERY = [
    *((variant, 2) for variant in VARIANTS),
    *((variant, cluster) for variant in ("producer", "no producer", "in the ring") for cluster in (1, 4)),
]
"""All variants on a cluster of two, those that synchronise differently on others."""


def ring(cluster: int, dtype: Any, **variant: Any) -> RingConfig:
    """Two warps with two tiles each."""
    return RingConfig(cluster, 2, 64 * 16 // np.dtype(dtype).itemsize, 2, **variant)


def verify(x: np.ndarray, w: np.ndarray, b: np.ndarray, config: RingConfig) -> None:
    near(px.kernels.rms_norm(x, w, EPS, config=config), exact_rms_norm(x, w))
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    near(px.kernels.softmax(x, config=config), exact_softmax(x))
    near(px.kernels.log_softmax(x, config=config), np.log(exact_softmax(x)))


@pytest.mark.share(14)
@pytest.mark.parametrize("variant, cluster", EVERY)
def test_every_variant(variant: str, cluster: int) -> None:
    config = ring(cluster, ml_dtypes.bfloat16, **VARIANTS[variant])
    verify(*sample(9, config.columns, ml_dtypes.bfloat16), config)


@pytest.mark.share(7)
@pytest.mark.parametrize("dtype", (np.float32, np.float16))
@pytest.mark.parametrize("rows", (1, 2, 6))
def test_element_types_and_few_rows(rows: int, dtype: Any) -> None:
    config = ring(2, dtype, stages=5)
    verify(*sample(rows, config.columns, dtype), config)


@pytest.mark.share(2)
@pytest.mark.parametrize("missing", (8, 696, 2048 - 8))
def test_rows_that_do_not_fill_the_cluster(missing: int) -> None:
    config = ring(2, ml_dtypes.bfloat16, stages=5)
    verify(*sample(5, config.columns - missing, ml_dtypes.bfloat16), config)


@pytest.mark.share(7)
@pytest.mark.parametrize("missing", (0, 8, 696, 2048 - 8))
@pytest.mark.parametrize("variant", ("producer", "no producer, a stage a row", "in the ring"))
def test_a_large_mean_costs_no_digits(variant: str, missing: int) -> None:
    config = ring(2, np.float32, **VARIANTS[variant])
    columns = config.columns - missing // 2
    x, w, b = with_large_mean(5, columns)
    near_with_large_mean(px.kernels.layer_norm(x, w, b, EPS, config=config), x, w, b)


@pytest.mark.share(4)
@pytest.mark.parametrize("weights", (REGISTERS, SHARED, LOADED))
def test_weights_of_another_type_and_none(weights: str) -> None:
    config = ring(2, ml_dtypes.bfloat16, stages=4, weights=weights)
    x, w, b = sample(5, config.columns, ml_dtypes.bfloat16)
    verify(x, w.astype(np.float32), b.astype(np.float32), config)
    ones, zeros = np.ones(config.columns), np.zeros(config.columns)
    near(px.kernels.rms_norm(x, None, EPS, config=config), exact_rms_norm(x, ones))
    near(px.kernels.layer_norm(x, None, None, EPS, config=config), exact_layer_norm(x, ones, zeros))


@pytest.mark.share(18)
@pytest.mark.parametrize("kind", ("rms_norm", "layer_norm", "softmax"))
@pytest.mark.parametrize("variant, cluster", EVERY)
def test_checked_clean(variant: str, cluster: int, kind: str) -> None:
    config = ring(cluster, ml_dtypes.bfloat16, **VARIANTS[variant])
    x, w, b = sample(7, config.columns, ml_dtypes.bfloat16)
    constants = dict(config.constants())
    if kind == "softmax":
        kernel, args = softmax_ring, [x, np.zeros_like(x)]
    else:
        constants["CENTERED"] = kind == "layer_norm"
        kernel, args = norm_ring, [x, w, b if kind == "layer_norm" else None, np.zeros_like(x), EPS]
    px.check(kernel[2 * cluster], *args, **constants, schedules=SCHEDULES).raise_if_found()


CLUSTERS = {131072: 8, 262144: 8, 1 << 19: 16}


@pytest.mark.parametrize("columns, cluster", CLUSTERS.items())
def test_the_smallest_cluster_that_holds_row_and_weights(columns: int, cluster: int) -> None:
    config = choose_ring(columns, 2)
    assert config is not None and config.cluster == cluster and config.columns == columns
    assert config.stages * config.step >= 2 * config.parts, "a row in use, and the next one on its way"


def test_two_vectors_and_the_row_in_registers() -> None:
    assert choose_ring(131072, 2, 2) == choose_ring(131072, 2)
    assert choose_ring(262144, 2, 1) is not None and choose_ring(262144, 2, 2) is None


def test_rows_that_are_not_for_a_ring() -> None:
    assert choose_ring(16384, 2) is None, "short"
    assert choose_ring(65544, 2) is None and choose_ring(5 * 4096 * 8, 2) is not None
    assert choose_ring(1 << 20, 2) is None, "more than the registers of 16 CTAs hold"
    x = np.zeros((80, 131072), ml_dtypes.bfloat16)
    assert ring_for(x, x[0]) == choose_ring(131072, 2) == ring_for(x, None)
    assert ring_for(x, x[0], x[1]) == choose_ring(131072, 2, 2)
    assert ring_for(x, x[0], np.zeros(131072, np.float32)) is None, "biases of another type"
    assert ring_for(x[:60], x[0]) is None, "too few of them"
    assert ring_for(x, np.zeros(131072, np.float32)) is None, "weights of another type"
    odd = np.zeros((80, 131073), ml_dtypes.bfloat16)[:, :131072]
    assert ring_for(odd, x[0]) is None, "rows that begin anywhere"


COMPILED: dict[str, RingConfig] = {
    **{f"chosen for {columns}": choose_ring(columns, 2) for columns in CLUSTERS},  # type: ignore[dict-item]
    "no producer": RingConfig(4, 16, 4096, 8, 3, 8, producer=False),
    "in the ring": RingConfig(8, 16, 4096, 8, 3, 8, held=False, producer=False, weights=LOADED),
    "two on an SM": RingConfig(4, 8, 2048, 8, 12, per_sm=2, weights=SHARED, early=True),
}


@pytest.mark.long
@pytest.mark.share(7)
@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_spills(name: str) -> None:
    config = COMPILED[name]
    x, vector = px.spec((64, config.columns), px.bf16), px.spec((config.columns,), px.bf16)
    made = px.compile(norm_ring[config.cluster], x, vector, None, x, 1e-6, **config.constants(), MASKED=False)
    assert made.spills == 0
    assert made.registers * 32 * (config.warps + config.producer) * config.per_sm <= 65536
    assert made.shared_bytes * config.per_sm <= 227 * 1024
    assert px.compile(softmax_ring[config.cluster], x, x, **config.constants(), MASKED=False).spills == 0


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", (px.bf16, px.f16, px.f32))
@pytest.mark.parametrize(
    "row_bytes, vectors",
    [(1 << 18, 1), *(pytest.param(*case, marks=pytest.mark.long) for case in ((1 << 18, 2), (1 << 19, 1), (1 << 20, 1)))],
)
def test_layer_norm_compiles_without_spills(row_bytes: int, vectors: int, dtype: Any) -> None:
    columns = row_bytes // dtype.itemsize
    config = choose_ring(columns, dtype.itemsize, vectors)
    assert config is not None and config.weights == REGISTERS
    x, vector = px.spec((64, columns), dtype), px.spec((columns,), dtype)
    args = (x, vector, vector if vectors == 2 else None, x, 1e-6)
    made = px.compile(norm_ring[config.cluster], *args, **config.constants(), CENTERED=True, MASKED=False)
    assert made.spills == 0 and made.shared_bytes <= 227 * 1024
    assert made.ptx.count("st.async") == 1, "sums and squares travel together"
    assert "bar_sync<" not in made.source.split("__global__")[1]


def test_no_barrier_of_the_cta_between_the_rows() -> None:
    """The exchange says that all warps have read a stage: neither giving it back nor refilling it needs another one."""
    config = COMPILED["chosen for 131072"]
    x, vector = px.spec((64, config.columns), px.bf16), px.spec((config.columns,), px.bf16)
    for tried in (config, replace(config, producer=False)):
        made = px.compile(norm_ring[config.cluster], x, vector, None, x, 1e-6, **tried.constants(), MASKED=False)
        assert "bar_sync<" not in made.source.split("__global__")[1]
        assert "cp.async.bulk.shared::cluster.global" in made.ptx


@pytest.mark.parametrize(
    "change, message",
    [
        ({"step": 3}, "a row is a whole number of stages"),
        ({"stages": 1}, "the ring holds one"),
        ({"held": False}, "a row that stays in the ring is one stage"),
        ({"producer": False}, "fill the ring with whole rows"),
        ({"early": True, "producer": False, "stages": 8}, "given back early to a producer"),
    ],
)
def test_configurations_that_can_not_be(change: dict[str, Any], message: str) -> None:
    config = replace(ring(1, ml_dtypes.bfloat16, stages=5), **change)
    x, w, _ = sample(3, config.columns, ml_dtypes.bfloat16)
    with pytest.raises(px.Error, match=message):
        px.kernels.rms_norm(x, w, config=config)


def test_matrices_that_a_ring_can_not_take() -> None:
    config = ring(1, np.float32, stages=5)
    with pytest.raises(px.Error, match="do not begin at multiples of 16 bytes"):
        px.kernels.rms_norm(np.zeros((3, 513), np.float32)[:, :512], config=config)
    with pytest.raises(px.Error, match="rows of 516 columns are longer than the 512"):
        px.kernels.rms_norm(np.zeros((3, 516), np.float32), config=config)
