"""Products with few rows, split along K, in the simulator."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products import matmul_config, split_config
from phalanx.kernels.products.matmul_config import Problem, is_deep, split_choice, split_side
from phalanx.kernels.products.operand_recipes import CopyWarning
from phalanx.kernels.products.split_config import table_for
from phalanx.kernels.products.split_k import SplitConfig, choose_split, launch_split, split_k_matmul, split_ring
from phalanx.machines.h200 import H200

BASE = SplitConfig(16, 128, 2, 3, pieces=2)
CONFIGS = {
    "split 2": BASE,
    "split 1": replace(BASE, split=1, pieces=1),
    "split 4, two of which sum": replace(BASE, split=4),
    "split 3, eight pieces": replace(BASE, bm=64, split=3, pieces=8),
    "split 2 x 2 that share A": replace(BASE, cn=2),
    "split 2 x 2 that share B": replace(BASE, cm=2),
    "split 2 x 2 x 2": replace(BASE, cn=2, cm=2, reuse=True, stages=4),
    "into the ring": replace(BASE, split=3, reuse=True),
    "weights ahead": replace(BASE, stages=5, ahead=3),
    "weights ahead, sharing": replace(BASE, stages=4, ahead=1, cn=2, cm=2, reuse=True),
    "rows ahead": replace(BASE, stages=2, ahead=-1, bk=128),
    "one warpgroup": replace(BASE, bn=64, groups=1),
    "wide": replace(BASE, bn=256, bk=128, stages=2),
    "24 rows in three pieces": replace(BASE, bm=24, pieces=3),
    "48 rows in six pieces": replace(BASE, bm=48, split=4, pieces=6, reuse=True, stages=4),
    "40 rows, sharing": replace(BASE, bm=40, split=1, pieces=1, cm=2, bn=64, groups=1),
    "three warpgroups, split 5": replace(BASE, bm=48, bn=192, split=5, groups=3, pieces=6, stages=4),
    "split 7": replace(BASE, bm=48, bn=64, split=7, groups=1, pieces=6, stages=4, reuse=True),
}


def make(m: int, n: int, k: int, dtype: Any = ml_dtypes.bfloat16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small integers: every product and sum is exact, in any order."""
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(-3, 4, (m, k)).astype(dtype), rng.integers(-3, 4, (n, k)).astype(dtype)
    return a, b, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.share(14)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_way_to_spread_it(name: str) -> None:
    a, b, want = make(20, 200, 9 * 64)
    bias = np.arange(200, dtype=np.float32)
    got = split_k_matmul(a, b.T, bias, "relu", config=CONFIGS[name])
    assert np.array_equal(got, np.maximum(want + bias, 0).astype(a.dtype))


@pytest.mark.share(14)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [20, 24])
def test_a_result_that_lies_along_its_columns(name: str, rows: int) -> None:
    """As the product with few columns asks for it; 20 rows of bf16 are no multiple of 16 bytes."""
    a, b, want = make(rows, 200, 9 * 64)
    bias = np.arange(200, dtype=np.float32)
    out = np.full((200, rows), np.nan, a.dtype).T
    assert split_k_matmul(a, b.T, bias, "relu", out, config=CONFIGS[name]) is out
    assert np.array_equal(out, np.maximum(want + bias, 0).astype(a.dtype))


@pytest.mark.parametrize("name", ["split 2", "split 2 x 2 x 2"])
def test_weights_in_rows_of_k(name: str) -> None:
    a, b, want = make(20, 200, 9 * 64 + 8)
    got = split_k_matmul(a, np.ascontiguousarray(b.T), config=CONFIGS[name])
    assert np.array_equal(got, want.astype(a.dtype))


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "m, n, k", [(1, 72, 573), (3, 67, 128), (20, 64, 640), (100, 128, 320), (130, 64, 64), (257, 64, 192)]
)
@pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")
def test_any_shape(m: int, n: int, k: int) -> None:
    a, b, want = make(m, n, k, np.float16)
    out = np.full((m, n), np.nan, np.float32)
    assert split_k_matmul(a, b.T, out=out) is out
    assert np.array_equal(out, want)
    assert np.array_equal(split_k_matmul(a, np.ascontiguousarray(b.T)), want.astype(np.float16))


ROWS_AT_ODD_PLACES = "its rows do not begin at multiples of 16 bytes"


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "a_form, b_form, notes",
    [
        (lambda a: a, lambda b: b.T, []),
        (lambda a: a, lambda b: np.ascontiguousarray(b.T), []),
        (lambda a: a[:, :76], lambda b: b[:, :76].T, []),
        (lambda a: a[:1, :77], lambda b: np.ascontiguousarray(b[:, :77].T), []),  # one row begins at one place
        (lambda a: np.asfortranarray(a), lambda b: b.T, []),
        (
            lambda a: np.ascontiguousarray(a[:, :77]), lambda b: b[:, :77].T,
            [f"a, of shape (16, 77) and strides (77, 1): {ROWS_AT_ODD_PLACES}"],
        ),
        (
            lambda a: a[:, 1:78], lambda b: np.ascontiguousarray(b[:, 1:78]).T,
            [
                f"a, of shape (16, 77) and strides (80, 1): {ROWS_AT_ODD_PLACES}",
                f"b, of shape (77, 72) and strides (1, 77): {ROWS_AT_ODD_PLACES}",
            ],
        ),
        (
            lambda a: a, lambda b: b.T[:, :67].copy(),
            [f"b, of shape (80, 67) and strides (67, 1): {ROWS_AT_ODD_PLACES}"],
        ),
        (lambda a: a, lambda b: b.T[::-1], [f"b, of shape (80, 72) and strides (-1, 80): {ROWS_AT_ODD_PLACES}"]),
    ],
    ids=["along K", "along N", "cut", "one row", "a along M", "rows of a", "rows of both", "rows of b", "backwards"],
)  # fmt: skip
def test_what_is_copied_is_told(a_form: Any, b_form: Any, notes: list[str]) -> None:
    a, b, _ = make(16, 72, 80)
    a, b = a_form(a), b_form(b)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CopyWarning)
        got = split_k_matmul(a, b, out=np.zeros((a.shape[0], b.shape[1]), np.float32), config=BASE)
    assert np.array_equal(got, a.astype(np.float32) @ b.astype(np.float32))
    assert [str(warning.message) for warning in caught] == [f"split_k_matmul copies {note}" for note in notes]
    assert all(warning.filename == __file__ for warning in caught)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
def test_activations(activation: str) -> None:
    from math import erf

    a, b, want = make(8, 64, 64)
    x = want.astype(np.float64) / 16
    exact = {
        "relu": np.maximum(x, 0), "silu": x / (1 + np.exp(-x)), "gelu": x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2
    }[activation]
    got = split_k_matmul((a / 16).astype(a.dtype), b.T, activation=activation, out=np.zeros((8, 64), np.float32))
    np.testing.assert_allclose(got, exact, rtol=2e-3, atol=2e-3)


@pytest.mark.share(14)
@pytest.mark.parametrize("name", CONFIGS)
def test_is_clean(name: str) -> None:
    config = CONFIGS[name]
    a, b, _ = make(20, 256, 9 * 64)
    c = np.zeros((20, 256), a.dtype)
    report = px.check(split_ring[config.grid(20, 256)], a, b, c, c, schedules=2, **config.constants())
    assert report.ok, report


ACROSS = SplitConfig(64, 64, 2, 3, groups=1, pieces=2, across=True)
"""For rows that lie across K, which come in panels of 64."""
ROWS_OF_K = replace(ACROSS, bm=80, cn=2, pieces=5, reuse=True)
"""The same for 80 rows, a panel and a part of one, of which two CTAs fetch half of the rows of K each."""


@pytest.mark.share(2)
@pytest.mark.parametrize("config", [ACROSS, ROWS_OF_K])
def test_rows_that_lie_across_k_are_clean(config: SplitConfig) -> None:
    a, b, _ = make(48, 128, 5 * 64)
    c, bias = np.zeros((48, 128), a.dtype), np.ones(48, a.dtype)
    options = {"A_ROWS": False, "BIASED": True, "BIAS_OF_ROWS": True}
    across = np.ascontiguousarray(a.T)
    report = px.check(split_ring[config.grid(48, 128)], across, b, c, bias, schedules=2, **options, **config.constants())
    assert report.ok, report


@pytest.mark.share(4)
@pytest.mark.parametrize("rows", [40, 136])
@pytest.mark.parametrize("turned", [False, True], ids=["as it lies", "by columns"])
def test_rows_that_lie_across_k(rows: int, turned: bool) -> None:
    a, b, _ = make(rows, 200, 264)
    want = a.astype(np.float32) @ b.astype(np.float32).T
    out = np.zeros((200, rows), np.float32).T if turned else np.zeros((rows, 200), np.float32)
    for right in (b.T, np.ascontiguousarray(b.T)):
        for config in (ACROSS, ROWS_OF_K, None):
            assert np.array_equal(split_k_matmul(np.asfortranarray(a), right, out=out, config=config), want)
    bias = np.arange(rows).astype(a.dtype)
    launch_split(np.asfortranarray(a), b.T, bias, "relu", out, ACROSS, bias_of_rows=True)
    assert np.array_equal(out, np.maximum(want + bias.astype(np.float32)[:, None], 0))


def test_a_missing_signal_of_the_ring_is_found() -> None:
    """Without `drained` the sums would land on stages in use: the check sees what the signal is for."""
    config = replace(CONFIGS["into the ring"], split=2)
    a, b, _ = make(16, 128, 9 * 64)
    c = np.zeros((16, 128), a.dtype)
    from mutation.launches import Case

    case = Case("split_ring", split_ring[config.grid(16, 128)], [a, b, c, c], config.constants())
    removed = [m for m in case.mutants if "mbarrier.wait removed" in m.what]
    kinds = {case.judge(mutant).how for mutant in removed}
    assert "race" in kinds and "survived" not in kinds


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "shape, rows",
    [((64, 8192, 8192), False), ((128, 4096, 14336), True), ((256, 4096, 4096), True), ((1, 4096, 4096), True)],
)
def test_compiles_without_spills(shape: tuple[int, int, int], rows: bool) -> None:
    m, n, k = shape
    config = choose_split(m, n, k)
    spec = px.spec
    made = px.compile(
        split_ring[config.grid(m, n)], spec((m, k), px.bf16), spec((n, k) if rows else (k, n), px.bf16),
        spec((m, n), px.bf16), spec((n,), px.bf16), arch="sm_90a", ROWS=rows, **config.constants(),
    )
    assert made.spills == 0
    assert made.shared_bytes <= config.shared_bytes


def test_partial_sums_travel_16_bytes_at_a_time() -> None:
    m, n, k = 64, 8192, 8192
    config = SplitConfig(64, 128, 2, 8, pieces=2)
    spec = px.spec
    made = px.compile(
        split_ring[config.grid(m, n)], spec((m, k), px.bf16), spec((n, k), px.bf16), spec((m, n), px.bf16),
        spec((n,), px.bf16), arch="sm_90a", **config.constants(),
    )
    assert "st_async<4>" in made.source and "convert_layout" not in made.ir
    assert "arrive.release.cluster" not in made.ptx and "try_wait.parity.acquire" not in made.ptx
    assert "stmatrix.sync.aligned.m8n8.x4.trans" in made.ptx


def test_columns_leave_as_they_lie() -> None:
    m, n, k = 64, 4096, 14336
    config = choose_split(m, n, k)
    spec = px.spec
    made = px.compile(
        split_ring[config.grid(m, n)], spec((m, k), px.bf16), spec((n, k), px.bf16), spec((n, m), px.bf16),
        spec((n,), px.bf16), arch="sm_90a", FLIPPED=True, **config.constants(),
    )
    assert "st.global.v4" in made.ptx and "st.global.u16" not in made.ptx and "convert_layout" not in made.ir
    assert "stmatrix.sync.aligned.m8n8.x4.shared" in made.ptx and made.spills == 0


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize(
    "bm, bn, split, flipped",
    [(160, 192, 3, False), (144, 192, 7, True), (256, 128, 8, True), (240, 64, 7, False), (256, 64, 5, True)],
)
def test_the_largest_tiles_along_a_long_k_compile_without_spills(bm: int, bn: int, split: int, flipped: bool) -> None:
    m, n, k = 2 * bm, 2 * bn, 8192
    of_size = [c for c in table_for(m, deep=True).configs if (c.bm, c.bn, c.split) == (bm, bn, split)]
    spec = px.spec
    made = px.compile(
        split_ring[of_size[0].grid(m, n)], spec((m, k), px.bf16), spec((n, k), px.bf16),
        spec((n, m) if flipped else (m, n), px.bf16), spec((m if flipped else n,), px.bf16), arch="sm_90a",
        FLIPPED=flipped, BIASED=True, BIAS_OF_ROWS=flipped, ACTIVATION="gelu", **of_size[0].constants(),
    )
    assert made.spills == 0 and made.shared_bytes <= of_size[0].shared_bytes


@pytest.mark.parametrize("by_k", list(product((True, False), repeat=2)))
@pytest.mark.parametrize(
    "m, n, k", [(312, 640, 9000), (1184, 232, 12008), (528, 536, 8616), (104, 1400, 4096), (840, 176, 15000)]
)
def test_along_a_long_k_one_wave_of_clusters_has_most_sms(m: int, n: int, k: int, by_k: tuple[bool, bool]) -> None:
    found = split_choice(Problem(m, n, k, by_k=by_k))
    assert found is not None
    side, config = found
    ctas = int(np.prod(config.grid(m, n) if side == "rows" else config.grid(n, m)))
    assert 80 <= ctas <= config.cluster * px.device().clusters(config.cluster)
    assert config.across == (not by_k[0 if side == "rows" else 1])


def test_two_ctas_share_a_panel_of_weights_that_lie_across_k() -> None:
    """Each fetches half of its columns, which a wider swizzle would not let it do."""
    config = SplitConfig(128, 64, 4, 12, cm=2, groups=1, pieces=4, ahead=6)
    a, b, c = px.spec((256, 8192), px.bf16), px.spec((8192, 640), px.bf16), px.spec((256, 640), px.bf16)
    made = px.compile(split_ring[config.grid(256, 640)], a, b, c, c, arch="sm_90a", ROWS=False, **config.constants())
    assert "a box of 64 x 32, 64-byte swizzle" in made.source


def test_either_side_of_a_product_along_a_long_k_may_be_the_weights() -> None:
    assert split_side(Problem(1200, 224, 12456)) == "rows"  # 24.2 us; 27.7 with 224 rows
    assert split_side(Problem(296, 528, 11856, by_k=(False, True))) == "columns"  # 14.7 us; 16.0 with 296 rows
    assert split_side(Problem(1200, 224, 512)) is None
    assert split_side(Problem(256, 1504, 8544)) == "rows"  # 18.8 us with nothing in L2; 24.2 with the smaller one as weights


def test_whether_k_is_split_as_for_a_long_one_is_decided_by_the_models() -> None:
    """Times are microseconds behind a launch like it, and with nothing in L2."""
    for problem, side in (
        (Problem(205, 2824, 6368), "rows"),  # 16.2 and 21.6; in tiles 17.4 and 22.7
        (Problem(1700, 200, 5208, by_k=(True, False)), "columns"),  # 13.3; in tiles 16.8
        (Problem(480, 2328, 6720), None),  # 28.1 and 33.8; in tiles 24.0 and 28.6
        (Problem(776, 1056, 12152, by_k=(False, True)), "rows"),  # neither side is short: 38.0; in tiles 47.1
        (Problem(1264, 928, 10600, by_k=(False, True)), "columns"),  # 37.5; in tiles 44.9
        (Problem(1088, 1024, 6144), None),  # 24.8; in tiles 20.4
        (Problem(1528, 776, 8160), None),  # 30.1; in tiles 29.5
    ):
        assert not is_deep(problem) and split_side(problem) == side
    tall = Problem(205, 2824, 6368)
    assert split_choice(tall) is not None and split_choice(tall)[1].bn == 192  # no usual configuration has that


def test_a_table_along_a_long_k_has_the_heights_that_rows_ask_for() -> None:
    assert {config.bm for config in table_for(208, deep=True).configs} == {208, 112, 80, 64, 48}
    assert {config.bm for config in table_for(72, deep=True).configs} == {80, 48}
    for m in (96, 200, 1100):
        table = table_for(m, deep=True)
        assert [tuple(each) for each in table.fields.T] == [
            (c.bm, c.bn, c.split, c.stages, c.bk, c.cn, c.cm) for c in table.configs
        ]
        whole = split_config._deep_table(True, split_config._step(m))
        all_of_it, some = (split_config.predicted_all(each, m, 1000, 8192) for each in (whole, table))
        assert np.allclose(all_of_it.min(axis=1), some.min(axis=1), rtol=0.01)


def test_both_operands_come_from_memory() -> None:
    config = SplitConfig(256, 64, 8, 8, groups=1, pieces=8, ahead=4)
    m, n, k = 3072, 64, 8192
    assert split_config.predicted(config, m, n, k) > 2 * k * (m + n) / H200.split.hbm + H200.split.fixed


@pytest.mark.parametrize(
    "shape, config",
    [
        ((64, 8192, 8192), SplitConfig(64, 64, 1, 7, bk=128, groups=1, ahead=2)),
        ((128, 4096, 14336), SplitConfig(128, 64, 2, 6, bk=128, groups=1, pieces=2, ahead=3)),
        ((256, 4096, 4096), SplitConfig(128, 64, 1, 12, cm=2, groups=1, ahead=4)),
    ],
)
def test_the_choice_is_what_measured_fastest(shape: tuple[int, int, int], config: SplitConfig) -> None:
    assert replace(choose_split(*shape), kept=0) == config
    assert np.prod(config.grid(*shape[:2])) == 128  # of 132 SMs


@pytest.mark.share(9)
@pytest.mark.parametrize("step", [331, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("flipped, n, k", [(False, 4096, 4096), (True, 4096, 4096), (False, 1001, 333), (False, 129, 8192)])
def test_the_choice_fits_the_memory_for_any_number_of_rows(flipped: bool, n: int, k: int, step: int) -> None:
    """The estimate that the choice relies on is never below the plan; a bias, and a result whose rows are not whole, need
    scratch memory on top."""
    from phalanx.cuda.lower.lower import lower
    from phalanx.ir.archs import arch_of
    from phalanx.runtime.launch.specialise import read_arguments, specialise

    arch, spec, depth = arch_of("sm_90a"), px.spec, px.cdiv(k, 8) * 8
    chosen = {choose_split(m, n, k): m for m in range(step, split_config.MOST_ROWS + 1, step)}
    for config, most in chosen.items():
        m = most - 1 if flipped else most
        whole = (m if flipped else n) % 8 == 0
        c = spec((n, m) if flipped else (m, n), px.f32 if whole else px.f16, aligned=whole)
        arguments = read_arguments(split_ring, (spec((m, depth), px.f16), spec((n, depth), px.f16), c, spec((n,), px.f32)))
        constants = {"ROWS": True, "A_ROWS": True, "FLIPPED": flipped, "WHOLE": whole, "BIASED": True, "ACTIVATION": None}
        constants["BIAS_OF_ROWS"] = flipped
        plan = lower(specialise(split_ring, arguments, {**constants, **config.constants()}).prepared, arch)
        assert plan.shared_bytes <= config.shared_bytes <= arch.shared_limit, config


def test_the_choice_is_for_launches_alone_behind_others_and_behind_one_like_it() -> None:
    """That with the least product of these times, of which that behind others counts twice."""
    for m in (8, 16, 104, 136, 264, 504):
        table = split_config.table_for(m)
        alone, others, alike = split_config.predicted_all(table, m, 5120, 13824, suits=True)
        counted = alone * others**2 * alike * split_config._allowed(table, m, 13824, True) ** 4
        best = table.configs[int(np.argmin(counted))]
        assert choose_split(m, 5120, 13824) == split_config.suited(best, m, 5120, 13824)


def test_few_ctas_do_not_ask_for_all_that_memory_brings() -> None:
    """Up to 48 rows are split if 107 SMs take part; with fewer the models decide, and tiles are quicker for 96."""
    few, many = (SplitConfig(8, 64, split, 4, groups=1, pieces=1) for split in (1, 2))
    assert not split_config.feeds_memory(few, 8, 6144) and split_config.feeds_memory(many, 8, 6144)
    assert split_side(Problem(1, 6144, 16384)) is None and split_side(Problem(1, 7168, 16384)) == "rows"


def test_few_rows_of_deep_weights_are_split() -> None:
    """80 of 132 SMs took 48 us for what all of them take 36 us for, one launch behind the other."""
    for m in (1, 7, 16, 33):
        assert choose_split(m, 5120, 13824).split == 4


def test_choosing_never_splits_beyond_the_steps() -> None:
    for m in (1, 17, 100, 300, 512):
        for k in (8, 64, 100, 192):
            config = choose_split(m, 512, k)
            assert config.split <= px.cdiv(k, config.bk)
            assert config.bm % (8 * config.pieces) == 0


def test_nothing_to_do() -> None:
    a = np.zeros((0, 64), ml_dtypes.bfloat16)
    assert split_k_matmul(a, np.zeros((64, 8), a.dtype)).shape == (0, 8)


def test_small_products_may_be_predicted_to_take_longer_split() -> None:
    """160 x 1688 x 2520 takes 6.6 us split and 10.8 cold, 6.9 and 11.8 in tiles; the models give 7.3, 11.8, 7.1 and 12."""
    small = Problem(160, 1688, 2520)
    assert 2 * small.k * (small.m + small.n) < H200.small_operands and split_side(small) == "rows"
    assert matmul_config._margin(H200.split_rows, small) is H200.split_rows.small_margin
    assert matmul_config._margin(H200.split_rows, Problem(160, 2688, 2520)) is H200.split_rows.margin


@pytest.mark.parametrize(("rows", "height", "many"), [(424, 112, True), (512, 128, False), (248, 256, False)])
def test_rows_that_are_not_there_count_where_there_are_many(rows: int, height: int, many: bool) -> None:
    """Of 424 in tiles of 112 there are 24 missing, of 512 in tiles of 128 none; of 248 eight are."""
    table = table_for(rows)
    factors = split_config._allowed(table, rows, 7168, True)[table.fields[0] == height]
    assert set(factors.tolist()) == {H200.split.missing_rows_factor if many else 1.0}


def test_few_rows_across_k_that_end_and_begin_in_a_line_are_not_split() -> None:
    """88 x 7168 x 2048 takes 12.5 us split, and 7.8 in tiles. Of 128 rows each begins at a line."""
    assert split_choice(Problem(88, 7168, 2048, by_k=(False, True))) is None
    assert split_choice(Problem(80, 7168, 2048, by_k=(False, False))) is None  # 9.8 us; 7.3 in tiles
    table, states = table_for(88, False), (H200.split, replace(H200.split, short_rows_factor=1.0))
    for rows, by_k, counts in ((88, (False, True), True), (88, (True, True), False), (128, (False, True), False)):
        short, other = (split_config.predicted_all(table, rows, 7168, 2048, by_k, (each,))[0] for each in states)
        assert bool((short > other).all()) == counts and bool((short >= other).all())


def test_few_hundred_rows_that_fill_no_tiles_are_not_split() -> None:
    """419 x 2048 x 7168 takes 28 us split, and 22 in tiles; 384 x 752 x 3792 8.3 split, and 8.8 in tiles."""
    assert split_choice(Problem(419, 2048, 7168)) is None
    assert split_choice(Problem(384, 752, 3792, by_k=(True, False))) is not None


def test_of_a_wide_product_both_sides_are_compared_if_they_are_about_as_long() -> None:
    """From which side it is split is the models' choice; a product and its transpose are split in the same way."""
    wide = Problem(624, 816, 9000, by_k=(False, True))
    found, turned = split_choice(wide), split_choice(wide.turned())
    assert found is not None and turned is not None
    assert (found[0], turned[0]) == ("columns", "rows") and found[1] == turned[1]
    much_longer = split_choice(Problem(512, 1536, 7168))
    assert much_longer is None or much_longer[0] == "rows"
