"""Which tiles the library's matmul takes, that they compile, and products of few rows, which are split along K."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import phalanx as px
from kernels.matmul_operands import ACTIVATIONS, BF16, as_is, by_columns, close, numbers, product
from phalanx.kernels.products.matmul import MatmulConfig, matmul
from phalanx.kernels.products.matmul_config import Problem, candidates, choose, complete, split_choice, split_side
from phalanx.kernels.products.matmul_cuts import possible
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm
from phalanx.kernels.products.split_k import choose_split, launch_split

matmul_module = sys.modules["phalanx.kernels.products.matmul"]  # the name is the function's


# What the heuristic chooses, and that it compiles.


def test_large_products_take_the_largest_tiles() -> None:
    for m, n, k in ((4096, 4096, 4096), (4096, 4096, 14336), (2048, 2048, 16384)):
        found = choose(Problem(m, n, k))
        assert (found.bm, found.bn, found.cluster, found.stages, found.parts) == (128, 256, (1, 2), 4, 2)
    for m, n, k in ((8192, 8192, 8192), (16384, 4096, 4096), (5120, 11008, 4096)):
        found = choose(Problem(m, n, k))
        assert found.bm == 256 and found.bn >= 160  # 1.030 of cuBLAS's speed at 8192^3 instead of 1.005


def test_pairs_of_large_tiles_share_columns_in_multiples_of_four() -> None:
    """184 columns, of which each fetches 92: 1.042 of cuBLAS's speed at 8192^3 instead of 1.032, steady."""
    found = choose(Problem(8192, 8192, 8192))
    assert (found.bm, found.bn, found.cluster, found.swapped) == (256, 184, (2, 1), True)
    odd = [config for config in possible(Problem(0, 0, 0)) if config.bn % (8 * config.cluster[0])]
    assert {config.cluster for config in odd} == {(2, 1)} and min(config.bm * config.bn for config in odd) > 128 * 256
    assert not [config for config in possible(Problem(0, 0, 0, itemsize=1)) if config.bn % (8 * config.cluster[0])]
    # What lies across K is not shared by columns: a tile has any multiple of 8.
    across = [config for config in possible(Problem(0, 0, 0, by_k=(False, False))) if config.bn % (8 * config.cluster[0])]
    assert {config.cluster for config in across} == {(2, 1), (2, 2), (4, 1)}


def test_large_products_take_the_pairs_that_fill_fewer_waves() -> None:
    """43 columns of tiles make 22 pairs and waves of them, but as many rows of pairs as it has make 21."""
    problem = Problem(8192, 11008, 4096)
    found = choose(problem)
    assert (found.bm, found.bn, found.cluster) == (128, 256, (2, 1))
    beside = replace(found, cluster=(1, 2))
    assert math.ceil(found.tiles(problem) / 66) < math.ceil(beside.tiles(problem) / 66)


def test_small_products_use_more_sms() -> None:
    problem = Problem(512, 512, 4096)
    found = choose(problem)
    assert found.tiles(problem) * found.cluster[0] * found.cluster[1] >= 32


@pytest.mark.parametrize(
    "m, n, k", [(880, 5120, 13824), (1064, 4096, 14336), (2640, 5264, 4800), (3008, 3008, 3008), (1000, 5000, 2048)]
)
def test_tiles_fill_their_waves(m: int, n: int, k: int) -> None:
    """Ragged heights have tiles of their own: at least 0.87 of what is multiplied is part of the result."""
    problem = Problem(m, n, k)
    found = choose(problem)
    waves = math.ceil(found.tiles(problem) / found.clusters(px.device()))
    multiplied = waves * 132 * found.bm * found.bn
    assert m * n / multiplied > 0.87
    default = choose(Problem(4096, 4096, 4096))
    assert m * n / (math.ceil(default.tiles(problem) / 66) * 132 * default.bm * default.bn) < 0.88


def test_more_ctas_share_what_takes_two_lines_of_l2() -> None:
    config = choose(Problem(4352, 1824, 9280))
    assert (config.bm, config.bn, config.cluster[0] * config.cluster[1]) != (192, 192, 4)
    config = choose(Problem(4352, 1824, 9272))  # rows of 18,544 bytes: 212.6 us, and 227.4 in pairs
    assert (config.bm, config.bn, config.cluster) == (192, 192, (2, 2))


def test_results_of_a_short_k_are_stored_row_after_row() -> None:
    """8 x 3584 x 7080 x 64 takes 233 us in squares of tiles, and 214 in rows of them."""
    plain, swapped = choose(Problem(3584, 7080, 64, batch=8)), choose(Problem(848, 5440, 128, batch=16))
    assert (plain.swapped, plain.group) == (False, 1)
    assert swapped.swapped and swapped.group * swapped.bm >= 5440
    assert choose(Problem(3584, 7080, 512, batch=8)).group > 1


def test_results_that_l2_does_not_hold_are_stored_row_after_row() -> None:
    """10176 x 11784 x 144 takes 116 us in squares of tiles, and 105 in rows of them; 3392 x 2944 x 360 fits L2."""
    assert choose(Problem(10176, 11784, 144, by_k=(False, True))).group == 1
    batch = choose(Problem(3584, 7080, 256, batch=8))
    assert batch.group * batch.bm >= 7080 if batch.swapped else batch.group == 1
    assert choose(Problem(3392, 2944, 360, by_k=(False, True))).group > 1


def test_batches_of_a_short_k_are_not_cut_in_squares() -> None:
    """64 x 2984 x 200 x 256 takes 70 us in squares of 192 x 112, and 63 so; 8 x 3752 x 584 x 1832 129, and 143."""
    short, long = (Problem(m, n, k, b, by_k=(True, False)) for b, m, n, k in ((64, 2984, 200, 256), (8, 3752, 584, 1832)))
    assert choose(short).cluster != (2, 2) and choose(long).cluster == (2, 2)


def test_tiles_of_160_columns_are_clean() -> None:
    config = MatmulConfig(64, 160, stages=2, cluster=(2, 1), group=1, parts=5, groups=1)
    a, b, c = numbers(128, 136), numbers(320, 136), np.zeros((128, 320), BF16)
    report = px.check(matmul_tiles[2, 1], a, b, c, None, None, None, None, None, schedules=2, **config.constants())
    assert report.ok, report
    close(matmul(a, b.T, config=config), product(a, b.T))


def test_all_candidates_fit() -> None:
    for out_itemsize in (2, 4):
        for matrix in (0, 2, 4):
            for staged in (True, False):
                problem = Problem(4096, 4096, 4096, out_itemsize=out_itemsize, matrix=matrix, staged=staged)
                assert min(config.stages for config in candidates(problem)) >= 3


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "constants, dtypes, bias",
    [
        ({}, (px.bf16, px.bf16, px.bf16), None),
        ({"form": ProductForm(a_by_k=False, b_by_k=False)}, (px.f16, px.f16, px.f16), None),
        (
            {"config": MatmulConfig(bk=128), "form": ProductForm(bias_kind="row", activation="gelu")},
            (px.f8e4m3, px.f8e5m2, px.bf16), px.spec((4096,), px.bf16),
        ),
        ({"form": ProductForm(bias_kind="row", activation="gelu_tanh")}, (px.f16, px.f16, px.f16), px.spec((4096,), px.f16)),
        (
            {"config": MatmulConfig(parts=4), "form": ProductForm(bias_kind="matrix")},
            (px.bf16, px.bf16, px.bf16), px.spec((4096, 4096), px.bf16),
        ),
    ],
    ids=["plain", "transposed", "8 bit, bias, gelu", "bias, gelu_tanh", "matrix"],
)
def test_compiles_without_spills(constants: dict[str, Any], dtypes: tuple[Any, ...], bias: Any) -> None:
    arrays = [px.spec((4096, 4096), dtype) for dtype in dtypes]
    made = px.compile(matmul_tiles[66, 2], *arrays, bias, None, None, None, None, arch="sm_90a", **constants)
    assert made.spills == 0
    assert not any("serial" in str(note) for note in made.notes)


@pytest.mark.long
@pytest.mark.share(9)
@pytest.mark.parametrize("bias, activation", [(None, None), ("row", "gelu")])
@pytest.mark.parametrize(
    "bm, bn, groups, cluster, swapped",
    [
        (256, 192, 2, (1, 2), False), (256, 192, 2, (1, 2), True), (256, 184, 2, (2, 1), True), (192, 192, 3, (2, 2), True),
        (128, 248, 2, (1, 2), True), (192, 88, 3, (1, 2), False), (64, 256, 1, (1, 1), True),
    ],
)  # fmt: skip
def test_the_largest_tiles_compile_without_spills(
    bm: int, bn: int, groups: int, cluster: tuple[int, int], swapped: bool, bias: Any, activation: Any
) -> None:
    config = complete(Problem(4096, 4096, 4096, fused=bias is not None), bm, bn, groups, cluster, swapped)
    matrix, vector = px.spec((4096, 4096), px.bf16), px.spec((4096,), px.bf16) if bias else None
    constants = {**config.constants(), "form": ProductForm(bias_kind=bias, activation=activation)}
    made = px.compile(matmul_tiles[cluster], *[matrix] * 3, vector, None, None, None, None, arch="sm_90a", **constants)
    assert made.spills == 0 and not any("serial" in str(note) for note in made.notes)


# Few rows.


def test_few_rows_and_large_weights_split_k() -> None:
    for few, many, k in ((1, 4096, 4096), (48, 8192, 8192), (128, 2048, 7168), (208, 4336, 10720)):
        assert split_side(Problem(few, many, k)) == "rows"
    for few, many, k in ((1, 4096, 4096), (96, 4096, 4096), (128, 2048, 7168)):
        assert split_side(Problem(many, few, k)) == "columns"
    for by_k in ((True, False), (False, True), (False, False)):  # both operands lie either way
        assert split_side(Problem(48, 4096, 14336, by_k=by_k)) == "rows"
    # Measured cold: 7.8 us in tiles and 6.5 split. Half a megabyte is the least.
    assert split_side(Problem(2, 1536, 512)) == "rows" and split_side(Problem(2, 504, 512)) is None
    # Measured: 39.0 us in tiles and 47.0 split; 14.9 in tiles and 10.4 split.
    assert split_side(Problem(280, 11008, 4096)) is None
    assert split_side(Problem(166, 1536, 7168)) == "rows"


def test_few_rows_that_lie_across_k_have_room_in_whole_panels() -> None:
    for m in (1, 70, 129, 300, 512):
        side, config = split_choice(Problem(m, 8192, 8192, by_k=(False, True))) or ("rows", None)
        assert side == "rows" and (config is None or config.held % 64 == 0 <= config.held - config.bm < 64)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(4096, 4096, 4096), Problem(513, 4096, 14336), Problem(128, 512, 512), Problem(128, 4096, 14336, batch=2),
        Problem(128, 4096, 14336, itemsize=1),
    ],
    ids=["large", "too many rows", "small weights", "a batch", "8 bit"],
)  # fmt: skip
def test_others_take_tiles(problem: Problem) -> None:
    assert split_side(problem) is None


@pytest.fixture
def always_split(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every product that may goes to the kernel that splits K; gives what it was called with."""
    calls = []

    def split(a: Any, b: Any, *rest: Any, **options: Any) -> None:
        calls.append((a.shape, b.shape))
        launch_split(a, b, *rest, **options)

    def choice(problem: Problem, device: Any) -> Any:
        if problem.itemsize != 2 or problem.batch != 1:
            return None
        if problem.m <= problem.n:
            return "rows", choose_split(problem.m, problem.n, problem.k, problem.by_k[0])
        return "columns", choose_split(problem.n, problem.m, problem.k, problem.by_k[1])

    monkeypatch.setattr(matmul_module, "launch_split", split)
    monkeypatch.setattr(matmul_module, "split_choice", choice)
    matmul_module._PLANS.clear()
    yield calls
    matmul_module._PLANS.clear()


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
@pytest.mark.parametrize("b_form", [as_is, by_columns])
def test_split_products(always_split: Any, dtype: Any, b_form: Callable) -> None:
    a, b, bias = numbers(24, 136, dtype=dtype), b_form(numbers(136, 72, dtype=dtype)), numbers(72)
    close(matmul(a, b, bias, "relu"), ACTIVATIONS["relu"](product(a, b) + bias.astype(np.float32)))
    close(matmul(a, b, activation="silu", out_dtype=px.f32), ACTIVATIONS["silu"](product(a, b)))
    assert always_split == [((24, 136), (136, 72))] * 2


def test_a_folded_batch_is_split(always_split: Any) -> None:
    a, b = numbers(3, 2, 5, 136), numbers(136, 72)
    got = matmul(a, b, activation="gelu")
    assert got.shape == (3, 2, 5, 72)
    close(got, ACTIVATIONS["gelu"](product(a, b)))
    assert always_split == [((30, 136), (136, 72))]


def test_few_columns_are_split_as_rows_of_the_transposed_product(always_split: Any) -> None:
    a, b = by_columns(numbers(72, 136)), by_columns(numbers(136, 24))
    out = np.zeros((72, 24), BF16)
    assert matmul(a, b, out=out) is out
    close(out, product(a, b))
    assert always_split == [((24, 136), (136, 72))]
    bias = numbers(24)
    close(matmul(a, b, bias, "relu"), np.maximum(product(a, b) + bias.astype(np.float32), 0))
    close(matmul(by_columns(a), numbers(136, 24)), product(a, numbers(136, 24)))
    assert len(always_split) == 3


@pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")
def test_what_the_split_does_not_take_goes_to_tiles(always_split: Any) -> None:
    a, b = numbers(24, 40), numbers(40, 72)
    other = np.float16
    for got, want in (
        (matmul(a, b, scale_a=0.5), 0.5 * product(a, b)),
        (matmul(a, b, out_dtype=other), product(a, b)),
        (matmul(a, b, numbers(24, 72)), product(a, b) + numbers(24, 72).astype(np.float32)),
        (matmul(numbers(24, 39), b[:39]), product(numbers(24, 39), b[:39])),  # copied first
        (matmul(a, b, config=MatmulConfig(64, 64, cluster=(1, 1), groups=1, parts=1)), product(a, b)),
    ):
        close(got, want)
    assert not always_split


def test_little_comes_between_the_launch_before_and_the_first_copy() -> None:
    """Where the first tile lies is known before; of the role that fetches it nothing else comes first."""
    operand = px.spec((512, 512), px.bf16)
    text = px.compile(
        matmul_tiles[8, 2], *[operand] * 3, None, None, None, None, None, arch="sm_90a",
        config=MatmulConfig(bn=64, stages=8, parts=1),
    ).source
    before, _, after = text[text.index("__global__") :].partition("ptx::griddepcontrol_wait();")
    assert "floor_div" in before.partition("ptx::barrier_cluster_arrive")[2].partition("ptx::barrier_cluster_wait")[0]
    fetching = after[after.index("// warps 0 to 3") :]  # the last role
    first = fetching[: fetching.index("ptx::cp_async_bulk_tensor")]
    assert "// warps 4 to 7" not in fetching and "floor_div" not in first and "griddepcontrol" not in first
    assert re.search(r"if \(k >= unused\w*\) {\s+//.*\s+ptx::mbarrier_wait", first), first  # not of the first stages
    assert "cp_async_bulk_wait_group_0" not in after  # stores are over when the launch is
