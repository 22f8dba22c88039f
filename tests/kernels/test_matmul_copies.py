"""What the copies of a product bring: panels and the first columns of one, nothing from outside, streams that pass L2 by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products.fetching import within
from phalanx.kernels.products.matmul import MatmulConfig, matmul
from phalanx.kernels.products.matmul_config import Problem, candidates, choose, complete
from phalanx.kernels.products.matmul_cuts import PANEL, held_columns
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device

BF16 = ml_dtypes.bfloat16
H200_CARD = Device(H200.name, "sm_90a", H200.sms, H200.l2_bytes, H200.shared_bytes(), None)


def numbers(*shape: int, dtype: Any = BF16) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, np.float32).astype(dtype)


def across(x: np.ndarray) -> np.ndarray:
    """The same matrix, stored column after column."""
    return np.ascontiguousarray(x.T).T


def as_is(x: np.ndarray) -> np.ndarray:
    return x


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32)


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert np.abs(got.astype(np.float32) - want).max() <= 2**-7 * np.abs(want).max()


# Operands that lie across K.

WIDTHS = {
    "alone": MatmulConfig(64, 40, stages=2, cluster=(1, 1), group=1, parts=1, groups=1),
    "columns shared": MatmulConfig(64, 80, stages=2, cluster=(2, 1), group=1, parts=5, groups=1),
    "rows shared": MatmulConfig(128, 88, stages=2, cluster=(1, 2), group=1, parts=1),
    "swapped": MatmulConfig(64, 72, stages=2, cluster=(1, 1), group=1, parts=2, groups=1, swapped=True),
    "swapped, columns shared": MatmulConfig(128, 144, stages=2, cluster=(2, 1), group=1, parts=2, swapped=True),
    "swapped, three warpgroups": MatmulConfig(192, 24, stages=2, cluster=(1, 1), group=1, parts=1, groups=3, swapped=True),
    "half a panel each": MatmulConfig(64, 48, stages=2, cluster=(2, 2), group=1, parts=1, groups=1),
    "four in a row": MatmulConfig(64, 80, stages=2, cluster=(4, 1), group=1, parts=1, groups=1, swapped=True),
    "four in a column": MatmulConfig(128, 40, stages=2, cluster=(1, 4), group=1, parts=1),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("form", [as_is, across])
@pytest.mark.parametrize("config", WIDTHS.values(), ids=WIDTHS)
def test_tiles_of_operands_across_k_have_any_width(config: MatmulConfig, form: Callable) -> None:
    a, b = across(numbers(168, 136)), form(numbers(136, 208))
    close(matmul(a, b, config=config), product(a, b))


@pytest.mark.share(4)
@pytest.mark.parametrize("config", list(WIDTHS.values())[1:5:3], ids=list(WIDTHS)[1:5:3])
def test_shares_of_panels_disturb_nobody(config: MatmulConfig) -> None:
    rows, columns, k = config.bm * config.cluster[0], 2 * config.bn * config.cluster[1], 192
    a, b = numbers(rows, k), numbers(k, columns)
    c = np.zeros((columns, rows) if config.swapped else (rows, columns), BF16)
    constants = {**config.constants(), "form": ProductForm(b_by_k=False)}
    report = px.check(matmul_tiles[config.cluster], a, b, c, None, None, None, None, None, schedules=2, **constants)
    assert report.ok, report
    matmul_tiles[config.cluster](a, b, c, None, None, None, None, None, **constants)
    close(c.T if config.swapped else c, product(a, b))


def test_what_is_not_multiplied_does_not_come() -> None:
    """80 columns are a panel and a box of 16 columns, of the rows of K that are a CTA's."""
    config = MatmulConfig(64, 80, stages=4, cluster=(4, 1), group=1, parts=1, groups=1)
    arrays = px.spec((2048, 4096), px.bf16), px.spec((4096, 80), px.bf16), px.spec((2048, 80), px.bf16)
    made = px.compile(
        matmul_tiles[32, 1], *arrays, None, None, None, None, None, arch="sm_90a", **config.constants(),
        form=ProductForm(b_by_k=False),
    )
    assert {slot.box for slot in made.signature.tensor_maps if slot.array == 1} == {(16, 64), (16, 16)}


def test_there_is_room_for_whole_panels() -> None:
    problem = Problem(312, 8192, 28672, by_k=(False, True))
    assert held_columns(problem, 160, True) == 192
    assert held_columns(problem, 160, False) == 160  # of B, whose rows lie along K
    config = complete(problem, 128, 160, 2, (1, 2), True)
    narrow = complete(problem.turned(), 128, 160, 2, (1, 2), True)
    assert config.stages == 4 and narrow.stages == 5
    assert {config.bn % PANEL for config in candidates(problem) if config.swapped} == set(range(0, PANEL, 8))


# What is on its way before a cluster has met.


def written(config: MatmulConfig) -> str:
    """The body of the kernel that multiplies 128 rows by 4,096 columns."""
    left, right, out = (px.spec(size, px.bf16) for size in ((128, 2048), (4096, 2048), (128, 4096)))
    arrays = (right, left, out) if config.swapped else (left, right, out)
    made = px.compile(matmul_tiles[config.cluster], *arrays, *(None,) * 5, arch="sm_90a", **config.constants())
    return made.source[made.source.index("__global__") :]


def descriptors(text: str, instruction: str) -> set[str]:
    return {line[line.index("&") :].split(",")[0] for line in text.splitlines() if instruction in line}


@pytest.mark.parametrize(
    ("config", "stages"),
    [
        (MatmulConfig(64, 24, stages=10, cluster=(1, 4), group=32, parts=1, groups=1), 3),
        (MatmulConfig(64, 40, stages=10, cluster=(1, 4), group=32, parts=1, groups=1), 2),
        (MatmulConfig(64, 80, stages=10, cluster=(2, 2), group=16, parts=1, groups=1, swapped=True), 1),
        (MatmulConfig(64, 64, stages=10, cluster=(1, 4), group=32, parts=1, groups=1, swapped=True), 0),  # 10 KiB each
        (MatmulConfig(64, 40, stages=10, cluster=(1, 1), group=32, parts=1, groups=1), 0),  # meets nobody
    ],
)
def test_first_stages_are_asked_for_before_the_cluster_meets(config: MatmulConfig, stages: int) -> None:
    text = written(config)
    assert text.count("cp_async_bulk_prefetch_tensor") == 2 * stages
    if stages:
        places = [text.index(name) for name in ("cluster_arrive", "prefetch_tensor_2d", "cluster_wait", "griddep")]
        assert places == sorted(places)
        assert descriptors(text, "prefetch_tensor_2d") == descriptors(text, "tensor_2d_shared_global")


def test_operands_across_k_are_not_asked_for() -> None:
    config = MatmulConfig(64, 32, stages=8, cluster=(4, 1), group=1, parts=1, groups=1)
    for by_k, shape in ((True, (32, 4096)), (False, (4096, 32))):
        arrays = px.spec((2048, 4096), px.bf16), px.spec(shape, px.bf16), px.spec((2048, 32), px.bf16)
        constants = {**config.constants(), "form": ProductForm(b_by_k=by_k)}
        made = px.compile(matmul_tiles[32, 1], *arrays, *(None,) * 5, arch="sm_90a", **constants)
        assert ("prefetch_tensor_2d" in made.source) == by_k


@pytest.mark.parametrize("k", [40, 200])
@pytest.mark.parametrize(
    "config",
    [
        MatmulConfig(64, 24, stages=4, cluster=(1, 4), group=32, parts=1, groups=1),
        MatmulConfig(64, 40, stages=4, cluster=(1, 2), group=32, parts=1, groups=1, swapped=True),
    ],
)
def test_what_is_asked_for_changes_no_result(config: MatmulConfig, k: int) -> None:
    """Also where K has fewer steps than stages that are asked for, and tiles lie beyond the edge."""
    a, b = numbers(100, k), across(numbers(k, 136))
    close(matmul(a, b, config=config), product(a, b))


# Nothing from outside.

TRIMMED = {
    "alone": MatmulConfig(192, 160, stages=2, cluster=(1, 1), group=1, parts=5, groups=3),
    "columns shared": MatmulConfig(128, 144, stages=2, cluster=(2, 1), group=1, parts=1),
    "rows shared": MatmulConfig(256, 40, stages=2, cluster=(1, 2), group=1, parts=1),
    "swapped": MatmulConfig(128, 136, stages=2, cluster=(1, 2), group=1, parts=2, swapped=True),
    "four in a row": MatmulConfig(128, 64, stages=2, cluster=(4, 1), group=1, parts=1),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("a_form, b_form", [(as_is, across), (across, as_is)])
@pytest.mark.parametrize("config", TRIMMED.values(), ids=TRIMMED)
def test_trimmed_tiles(config: MatmulConfig, a_form: Callable, b_form: Callable) -> None:
    """Most of the pieces are outside, in one direction or the other."""
    for (m, n), trimmed in (((72, 264), (True, True)), ((264, 40), (True, False)), ((40, 72), (False, True))):
        a, b = a_form(numbers(m, 72)), b_form(numbers(72, n))
        close(matmul(a, b, config=replace(config, trimmed=trimmed)), product(a, b))


@pytest.mark.share(4)
@pytest.mark.parametrize("by_k", [True, False])
@pytest.mark.parametrize("name", ["columns shared", "swapped"])
def test_trimmed_rings_are_clean(name: str, by_k: bool) -> None:
    config, rows, columns, k = TRIMMED[name], 72, 200, 136
    a, b = (numbers(*((size, k) if by_k else (k, size))) for size in (rows, columns))
    c = np.zeros((columns, rows) if config.swapped else (rows, columns), BF16)
    constants = {**replace(config, trimmed=(True, True)).constants(), "form": ProductForm(a_by_k=by_k, b_by_k=by_k)}
    report = px.check(matmul_tiles[config.cluster], a, b, c, None, None, None, None, None, schedules=2, **constants)
    assert report.ok, report


def test_a_copy_from_outside_is_one_of_the_last_whole_panel() -> None:
    for extent in (8, 64, 72, 200, 256):
        for start in range(0, 512, PANEL):
            here = within(start, extent)
            assert here == start if start < extent else here < extent
            assert start < extent or extent < PANEL or here + PANEL <= extent


# Operands that pass L2 by.


# What is chosen.


def chosen(m: int, n: int, k: int, **more: Any) -> MatmulConfig:
    return choose(Problem(m, n, k, **more), H200_CARD)


def test_few_readers_of_large_operands_stream_them() -> None:
    assert chosen(272, 13824, 5120).streamed == ("rows" if chosen(272, 13824, 5120).swapped else "columns")
    assert chosen(13824, 272, 5120).streamed == ("columns" if chosen(13824, 272, 5120).swapped else "rows")
    assert chosen(288, 1024, 1024).streamed is None  # all of it stays in L2 for the next
    assert chosen(96, 7168, 2048).streamed is not None  # though it fits: with nothing in L2 it takes less time
    assert chosen(600, 7168, 2048).streamed is None  # more rows
    assert chosen(8192, 8192, 8192).streamed is None  # many tiles read it, long after each other


def test_last_tiles_are_trimmed_where_whole_pieces_are_outside() -> None:
    cases = (224, 11008, 4096, (True, True)), (312, 8192, 4096, (False, True)), (976, 1280, 2352, (True, False))
    for m, n, k, by_k in cases:
        config = chosen(m, n, k, by_k=by_k)
        (cm, cn), seen = config.cluster, (n, m) if config.swapped else (m, n)
        assert config.trimmed[0] == (-seen[0] % (config.bm * cm) >= PANEL)
        if by_k[0 if config.swapped else 1]:
            assert config.trimmed[1] == (-seen[1] % (config.bn * cn) >= PANEL)
    assert any(chosen(224, 11008, 4096).trimmed)
    assert chosen(8200, 8200, 8192).trimmed == (False, False)  # one tile in a hundred


def test_rows_that_lie_across_k_have_tiles_of_their_height() -> None:
    """312 rows are two tiles of some 160, not three of 128 or two of 192."""
    config = chosen(312, 8192, 28672, by_k=(False, False))
    assert config.swapped and config.bn % PANEL and 312 <= 2 * config.bn <= 376


def test_large_products_keep_to_pairs() -> None:
    """Four CTAs in a row, and narrow panels that nobody shares, are for smaller products."""
    cases = (4096, 4096, 4096, (True, True)), (4624, 28672, 8192, (False, False)), (1936, 8192, 8192, (False, True))
    for m, n, k, by_k in cases:
        config = chosen(m, n, k, by_k=by_k)
        assert max(config.cluster) == 2
        if config.cluster[0] == 1 and not by_k[0 if config.swapped else 1]:
            assert config.bn % PANEL == 0


def test_few_rows_across_k_have_tiles_as_high_and_are_shared_by_four() -> None:
    """Measured in pairs of 48 rows: 37.1 and 10.5 us; so 28.5 and 7.7."""
    for m, n, k, b_by_k in ((96, 7568, 7856, True), (96, 4928, 2224, False)):
        config = chosen(m, n, k, by_k=(False, b_by_k), fused=True)
        assert config.swapped and config.bn == m and config.cluster == (4, 1)


def test_two_steps_along_k_keep_to_whole_panels() -> None:
    """Measured: 10.7 us so, and 14.8 in tiles of 112 columns."""
    config = chosen(192, 2080, 96, batch=32, by_k=(True, False))
    assert config.swapped or config.bn % PANEL == 0


def test_a_ring_of_three_stages_is_for_long_steps() -> None:
    """With three stages one is on its way: what is multiplied meanwhile has to last as long as a load."""
    for m in range(200, 600, 24):
        config = chosen(m, 7168, 4096)
        assert config.stages > 3 or config.bm * config.bn >= 256 * 144


def test_sizes_with_as_many_tiles_have_one_choice() -> None:
    """A model in service sees every number of rows: those that fill the same eights are looked at once."""
    assert len({chosen(m, 4096, 4096) for m in range(297, 305)}) == 1
    assert Problem(297, 4090, 4096).in_eights() == Problem(304, 4096, 4096)
    across = Problem(297, 4090, 4096, by_k=(False, False))
    assert across.in_eights() == across  # the lengths of rows in memory, on which their lines of L2 depend


# Results whose rows begin anywhere.


@pytest.mark.share(4)
@pytest.mark.parametrize(("m", "n", "k"), [(8192, 50257, 768), (10335, 545, 5521), (1000, 50257, 768), (300, 1001, 4096)])
@pytest.mark.parametrize("kind", (None, "row", "matrix"))
def test_results_that_threads_store_themselves_spill_nothing(kind: str | None, m: int, n: int, k: int) -> None:
    """A row of 50,257 columns is no multiple of 16 bytes."""
    problem = Problem(m, n, k, staged=False, fused=kind is not None, matrix=2 if kind == "matrix" else 0)
    config = replace(choose(problem, H200_CARD), split=1)
    bias = {None: None, "row": px.spec((n,), px.bf16), "matrix": px.spec((m, n), px.bf16)}[kind]
    padded = -(-k // 8) * 8
    arrays = px.spec((m, padded), px.bf16), px.spec((n, padded), px.bf16), px.spec((m, n), px.bf16), bias
    grid, constants = config.cluster, config.constants()
    made = px.compile(
        matmul_tiles[grid], *arrays, *(None,) * 4, arch="sm_90a", **constants,
        form=ProductForm(tma_store=False, bias_kind=kind),
    )
    assert made.spills == 0
