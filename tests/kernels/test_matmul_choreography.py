"""The library's matmul with clusters, rings and tiles of every kind: right, and clean under the checks."""

from __future__ import annotations

import sys
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from kernels.matmul_operands import BF16, as_is, by_columns, close, numbers, product
from phalanx.kernels.products.matmul import MatmulConfig, matmul
from phalanx.kernels.products.matmul_config import Problem, choose
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm

matmul_module = sys.modules["phalanx.kernels.products.matmul"]  # the name is the function's


CLUSTERS = {
    "alone": MatmulConfig(64, 64, stages=2, cluster=(1, 1), group=1, parts=2, groups=1),
    "columns of B": MatmulConfig(128, 128, stages=3, cluster=(2, 1), group=2, parts=2),
    "rows of A": MatmulConfig(128, 64, stages=2, cluster=(1, 2), group=2, parts=1),
    "both": MatmulConfig(128, 128, stages=2, cluster=(2, 2), group=1, parts=4),
    "three parts": MatmulConfig(128, 192, stages=2, cluster=(1, 1), group=1, parts=3),
}


@pytest.mark.share(7)
@pytest.mark.parametrize("a_form, b_form", [(as_is, by_columns), (by_columns, as_is)])
@pytest.mark.parametrize("config", CLUSTERS.values(), ids=CLUSTERS)
def test_clusters(config: MatmulConfig, a_form: Callable, b_form: Callable) -> None:
    a, b = a_form(numbers(264, 136)), b_form(numbers(136, 264))
    close(matmul(a, b, config=config), product(a, b))


@pytest.mark.share(7)
@pytest.mark.parametrize("by_k", [True, False])
@pytest.mark.parametrize("config", CLUSTERS.values(), ids=CLUSTERS)
def test_rings_are_clean(config: MatmulConfig, by_k: bool) -> None:
    rows, columns, k = 2 * config.bm * config.cluster[0], config.bn * config.cluster[1], 192
    a, b = (numbers(*((size, k) if by_k else (k, size))) for size in (rows, columns))
    c, bias = np.zeros((rows, columns), BF16), numbers(columns)
    constants = {**config.constants(), "form": ProductForm(a_by_k=by_k, b_by_k=by_k, bias_kind="row", activation="relu")}
    report = px.check(matmul_tiles[config.cluster], a, b, c, bias, None, None, None, None, schedules=2, **constants)
    assert report.ok, report


NARROW_TILES = {
    "swapped": MatmulConfig(64, 40, stages=2, cluster=(1, 2), group=1, parts=2, groups=1, swapped=True),
    "swapped, one part": MatmulConfig(128, 56, stages=2, cluster=(1, 1), group=2, parts=1, swapped=True),
    "swapped, columns of B": MatmulConfig(128, 56, stages=2, cluster=(2, 1), group=1, parts=2, swapped=True),
    "swapped, three warpgroups": MatmulConfig(192, 88, stages=2, cluster=(1, 1), group=1, parts=3, groups=3, swapped=True),
    "three warpgroups": MatmulConfig(192, 64, stages=2, cluster=(1, 2), group=1, parts=2, groups=3),
    "256 rows": MatmulConfig(256, 32, stages=2, cluster=(1, 1), group=1, parts=1),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("config", NARROW_TILES.values(), ids=NARROW_TILES)
def test_tiles_of_any_height(config: MatmulConfig) -> None:
    a, b, bias = numbers(149, 136), by_columns(numbers(136, 208)), numbers(208)
    want = product(a, b) + bias.astype(np.float32)
    close(matmul(a, b, bias, "relu", config=config), np.maximum(want, 0))
    close(matmul(a, b, bias, out=np.empty((149, 208), np.float32), config=config), want)


@pytest.mark.share(4)
@pytest.mark.parametrize("config", NARROW_TILES.values(), ids=NARROW_TILES)
def test_tiles_of_any_height_are_clean(config: MatmulConfig) -> None:
    rows, columns, k = 2 * config.bm * config.cluster[0], config.bn * config.cluster[1], 192
    a, b = numbers(rows, k), numbers(columns, k)
    c = np.zeros((columns, rows) if config.swapped else (rows, columns), BF16)
    bias = numbers(rows if config.swapped else columns)
    constants = {**config.constants(), "form": ProductForm(bias_kind="row", activation="relu")}
    report = px.check(matmul_tiles[config.cluster], a, b, c, bias, None, None, None, None, schedules=2, **constants)
    assert report.ok, report


def test_swapped_tiles_of_a_batch_with_scales() -> None:
    config = MatmulConfig(64, 24, 128, stages=2, cluster=(1, 2), group=1, parts=1, groups=1, swapped=True)
    a, b = (numbers(2, size, 144).astype(ml_dtypes.float8_e4m3fn) for size in (40, 80))
    rows, columns = numbers(40, 1, dtype=np.float32), numbers(1, 80, dtype=np.float32)
    got = matmul(a, b.swapaxes(-1, -2), scale_a=rows, scale_b=columns, config=config)
    close(got, product(a, b.swapaxes(-1, -2)) * rows * columns)


@pytest.mark.share(2)
@pytest.mark.parametrize("a_form, b_form", [(as_is, as_is), (by_columns, by_columns), (by_columns, as_is)])
def test_swapped_tiles_read_operands_as_they_lie(a_form: Callable, b_form: Callable) -> None:
    config = MatmulConfig(64, 64, stages=2, cluster=(1, 1), group=1, parts=2, groups=1, swapped=True)
    a, b = a_form(numbers(104, 136)), b_form(numbers(136, 72))
    close(matmul(a, b, config=config), product(a, b))


@pytest.mark.share(2)
@pytest.mark.parametrize("groups", [1, 2])
def test_vectors_of_the_epilogue_are_clean(groups: int) -> None:
    config = MatmulConfig(64 * groups, 64, stages=2, cluster=(2, 1), group=1, parts=2, groups=groups)
    a, b, c = numbers(128 * groups, 136), numbers(128, 136), np.zeros((128 * groups, 128), BF16)
    vectors = [numbers(size, dtype=np.float32) for size in (128, 128 * groups, 128)]
    constants = {**config.constants(), "form": ProductForm(bias_kind="row", scale_rows=True, scale_columns=True)}
    report = px.check(matmul_tiles[2, 1], a, b, c, *vectors, None, None, schedules=2, **constants)
    assert report.ok, report


def test_vectors_are_read_as_the_sums_lie() -> None:
    """No tile changes its layout on the way, and all of it fits beside four stages."""
    arrays = [px.spec((4096, 4096), dtype) for dtype in (px.f8e4m3, px.f8e4m3, px.bf16)]
    vector = px.spec((4096,), px.f32)
    config = choose(Problem(4096, 4096, 4096, itemsize=1, vectors=True))
    constants = {**config.constants(), "form": ProductForm(bias_kind="row", scale_rows=True, scale_columns=True)}
    made = px.compile(matmul_tiles[66, 2], *arrays, vector, vector, vector, None, None, arch="sm_90a", **constants)
    assert config.stages == 4 and made.spills == 0
    assert not any("changes its register layout" in str(note) for note in made.notes)


def test_batches_are_clean() -> None:
    a, b, c = numbers(3, 128, 128), numbers(64, 128), np.zeros((3, 128, 64), BF16)
    bias = numbers(3, 128, 64, dtype=np.float32)
    constants = MatmulConfig(64, 64, stages=2, cluster=(2, 1), group=1, parts=1, groups=1).constants()
    more = {"form": ProductForm(bias_kind="batch")}
    report = px.check(matmul_tiles[2, 1], a, b, c, bias, None, None, None, None, schedules=2, **constants, **more)
    assert report.ok, report
