"""Rows that a share of all SMs has: every length against NumPy in f64, checked, compiled without spills; the choice."""

from __future__ import annotations

import math
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
from phalanx.kernels.rowwise import share_config
from phalanx.kernels.rowwise.share_config import ShareConfig, choose_shares, fitting, most_rows, shares_for
from phalanx.kernels.rowwise.shares import norm_shares
from phalanx.kernels.rowwise.stream_config import LAYER_NORM, RMS_NORM
from phalanx.machines.h200 import H200

CONFIGS = {
    "two CTAs": ShareConfig(2, 3, 4, 4, delay=2),
    "three CTAs": ShareConfig(3, 2, 4, 5, delay=1),
    "in pieces": ShareConfig(2, 3, 4, 5, delay=1, pieces=2),
    "a CTA for a row": ShareConfig(1, 5, 5, 2, delay=1),
    "nothing on its way": ShareConfig(4, 2, 3, 4, delay=3),
}


@pytest.mark.share(22)
@pytest.mark.parametrize("columns", (1, 17, 512, 1001, 1530, 1536))
@pytest.mark.parametrize("dtype", (np.float32, ml_dtypes.bfloat16))
@pytest.mark.parametrize("rows", (1, 2, 7))
@pytest.mark.parametrize("name", CONFIGS)
def test_both_norms(name: str, rows: int, dtype: Any, columns: int) -> None:
    x, w, b = sample(rows, columns, dtype)
    for got, want in (
        (px.kernels.rms_norm(x, w, EPS, config=CONFIGS[name]), exact_rms_norm(x, w)),
        (px.kernels.layer_norm(x, w, b, EPS, config=CONFIGS[name]), exact_layer_norm(x, w, b)),
    ):
        assert got.dtype == x.dtype
        near(got, want)


@pytest.mark.parametrize("rows", [5, *(pytest.param(rows, marks=pytest.mark.long) for rows in (3, 6, 9, 11, 13))])
@pytest.mark.parametrize("columns", [1001, *(pytest.param(columns, marks=pytest.mark.long) for columns in (1002, 1003))])
def test_groups_of_several_classes(rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes need not have as many rows each, and a group may begin where one has none left."""
    monkeypatch.setattr(share_config, "SIMULATED_GROUPS", 3)
    x, w, b = sample(rows, columns, np.float32)
    near(px.kernels.layer_norm(x, w, b, EPS, config=CONFIGS["two CTAs"]), exact_layer_norm(x, w, b))


def test_rows_without_weights() -> None:
    x, w, b = sample(5, 1003, np.float32)
    ones, zeros = np.ones_like(w), np.zeros_like(b)
    config = CONFIGS["in pieces"]
    near(px.kernels.rms_norm(x, None, EPS, config=config), exact_rms_norm(x, ones))
    near(px.kernels.layer_norm(x, config=config, eps=EPS), exact_layer_norm(x, ones, zeros))
    near(px.kernels.layer_norm(x, bias=b, config=config, eps=EPS), exact_layer_norm(x, ones, b))


@pytest.mark.parametrize(
    "name, columns, groups",
    [
        ("in pieces", 1003, 2),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("two CTAs", 1204, 1), ("three CTAs", 702, 2), ("a CTA for a row", 900, 3),
                ("nothing on its way", 1201, 1),
            )
        ),
    ],
)  # fmt: skip
def test_checked_clean(name: str, columns: int, groups: int) -> None:
    config, rows = CONFIGS[name], 6
    x, w, b = sample(rows, columns, np.float32)
    period = 4 // math.gcd(columns, 4)
    y, words = np.zeros(x.size, np.float32), np.full(groups * most_rows(rows, period, groups) * 32, -1)
    constants = {"config": config, "SLOTS": 32, "PERIOD": period, "LINED": config.lined(columns, 4)}
    args = (x.reshape(-1), w, b, y, EPS, columns, rows, words)
    px.check(norm_shares[groups * config.share], *args, **constants, CENTERED=True).raise_if_found()


def test_rows_of_which_a_cta_knows_zeros() -> None:
    """What is published is never 0, whatever the numbers are: nobody would notice it."""
    x, config = np.zeros((3, 700), np.float32), CONFIGS["two CTAs"]
    x[1, :10] = 1.0
    _, w, b = sample(2, 700, np.float32)
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    assert not px.kernels.rms_norm(x[:1], config=config).any()


@pytest.mark.parametrize("name", ["in pieces", pytest.param("a CTA for a row", marks=pytest.mark.long)])
def test_a_large_mean_costs_no_digits(name: str) -> None:
    x, w, b = with_large_mean(3, 2001)
    near_with_large_mean(px.kernels.layer_norm(x, w, b, EPS, config=CONFIGS[name]), x, w, b)


def test_slices_find_room_in_the_places_of_the_warps() -> None:
    with pytest.raises(px.Error) as caught:
        px.kernels.rms_norm(np.zeros((2, 4003), np.float32), config=ShareConfig(2, 3, 4, 4))
    assert caught.value.message == (
        "3 warps with 4 vectors a thread in each of 2 CTAs have no room for rows of 4003 elements"
    )
    assert caught.value.remedy == "let parts be more, or share"


def test_the_ring_has_room_for_the_rows_that_wait() -> None:
    with pytest.raises(px.Error) as caught:
        px.kernels.rms_norm(np.zeros((2, 403), np.float32), config=ShareConfig(2, 3, 4, 5, delay=2, pieces=2))
    assert caught.value.message == "a ring of 5 stages for 3 rows of 2 pieces"
    assert caught.value.remedy == "let stages be 6 at least: so many wait for what is known of a row"


@pytest.mark.long
def test_more_ctas_than_a_warp_has_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that are missing are asked for again, others are not."""
    monkeypatch.setattr(share_config, "SIMULATED_GROUPS", 1)
    x, w, b = sample(2, 33 * 128, np.float32)
    config = ShareConfig(33, 1, 2, 3, delay=1)
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))


CHOSEN = [
    (LAYER_NORM, 640_000, 2),
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            *((LAYER_NORM, columns, 4) for columns in (
                377_304, 438_648, 535_776, 826_072, 1_060_136, 1_200_000, 1_369_584, 1_537_848, 1_755_136, 1_954_984,
                57_707, 79_803, 89_119, 117_645, 334_359, 672_199, 1_089_869, 1_369_585, 1_755_135, 1_858_533, 1_999_999,
            )),
            *((LAYER_NORM, columns, 2) for columns in (
                116_808, 125_888, 146_784, 169_824, 380_008, 549_456, 791_616, 837_216, 1_000_000, 1_272_528, 1_461_008,
                1_878_432, 2_000_000, 155_681, 229_339, 253_793, 513_551, 938_593, 1_272_529, 1_660_497, 1_999_999,
            )),
            *((RMS_NORM, columns, 4) for columns in (
                757_328, 1_069_608, 1_311_840, 1_840_912, 1_898_976, 2_000_000, 89_553, 343_855, 968_379, 1_803_753,
                1_999_999,
            )),
            *((RMS_NORM, columns, 2) for columns in (1_170_592, 1_291_184, 1_610_256, 1_980_288, 139_721, 329_401, 499_999)),
        )
    ),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("kind, columns, itemsize", CHOSEN)
def test_chosen_ones_compile_without_spills(kind: str, columns: int, itemsize: int) -> None:
    config = choose_shares(columns, itemsize, kind, H200.sms)
    assert config is not None
    dtype, rows, vector = px.bf16 if itemsize == 2 else px.f32, 64, 16 // itemsize
    slots, groups, period = px.cdiv(config.share, 32) * 32, H200.sms // config.share, vector // math.gcd(columns, vector)
    x, w = px.spec((rows * columns,), dtype), px.spec((columns,), dtype)
    words = px.spec((groups * most_rows(rows, period, groups) * slots,), px.i64)
    args = (x, w, w if kind == LAYER_NORM else None, x, EPS, columns, rows, words)
    constants = {"config": config, "SLOTS": slots, "PERIOD": period, "LINED": config.lined(columns, itemsize)}
    made = px.compile(norm_shares[groups * config.share], *args, arch="sm_90a", **constants, CENTERED=kind == LAYER_NORM)
    assert made.spills == 0 and made.cooperative and made.shared_bytes <= H200.shared_bytes()


def test_slices_of_rows_that_begin_anywhere_are_not_short() -> None:
    """layer_norm of 229,339 bf16 is at 0.81 of the device copy by 22 CTAs with slices of 20.9 KB each, at 0.90 by 16."""
    assert fitting(229_339, 2, 2, 132).share == 16
    for columns in (145_007, 163_841, 229_339, 283_511, 391_499):
        found = fitting(columns, 2, 2, 132)
        assert share_config.share_slice(columns, 8, found.share) * 2 >= H200.rows.share_short
    assert fitting(244_384, 2, 2, 132).share == 22, "rows that begin at vectors may"


def test_which_rows_a_share_of_the_sms_has() -> None:
    for kind, ranges in H200.rows.shares.items():
        for (itemsize, aligned), found in ranges.items():
            for low, high in found:
                first, last = (bound // itemsize // 8 * 8 + (0 if aligned else 1) for bound in (low, min(high, 8_000_000)))
                assert choose_shares(first - 8, itemsize, kind, H200.sms) is None
                assert choose_shares(first + 8, itemsize, kind, H200.sms) is not None
                assert choose_shares(last - 8, itemsize, kind, H200.sms) is not None
                assert high > 8_000_000 or choose_shares(last + 8, itemsize, kind, H200.sms) is None
    assert choose_shares(10_000_000, 4, LAYER_NORM, H200.sms) is None, "no room for the rows that wait"
    assert shares_for(np.zeros((1, 2_000_000), np.float32), LAYER_NORM) is None, "the simulator has other SMs"
