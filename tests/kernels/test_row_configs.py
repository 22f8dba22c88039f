"""Which configuration a row gets, and that every kernel compiles for each of them without spilling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.rowwise.cross_entropy import cross_entropy_rows
from phalanx.kernels.rowwise.norms import choose_centered, full_tiles, layer_norm_rows, rms_norm_rows
from phalanx.kernels.rowwise.norms_backward import rms_norm_backward
from phalanx.kernels.rowwise.row_config import LIMITS, RowConfig, choose, choose_for, places
from phalanx.kernels.rowwise.softmax import softmax_rows
from phalanx.kernels.rowwise.softmax_backward import softmax_backward

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
    assert choose(65536, 4, reads=True) == choose(65536, 4) and choose(131072, 2, reads=True) == choose(131072, 2)
    aligned, anywhere = np.zeros((2, 65536), np.float16), np.zeros((2, 65001), np.float16)
    assert choose_centered(aligned) == centered and choose_centered(anywhere).parts < centered.parts


def test_a_mean_takes_no_larger_clusters() -> None:
    for columns in range(1000, 1 << 20, 9973):
        weighted, centered = choose(columns, 2, weighted=True), choose(columns, 2, centered=True)
        assert (weighted.cluster, weighted.warps, weighted.columns) == (centered.cluster, centered.warps, centered.columns)
        assert centered.parts <= weighted.parts


def test_rows_alone_fill_the_registers_before_a_cluster_is_larger() -> None:
    aligned, anywhere = LIMITS.bare_held
    for columns, cluster, parts in ((36_000, 1, 9), (79_000, 2, 10), (162_000, 4, 10), (300_000, 8, 10)):
        config = choose(columns, 2, bare=True)
        assert (config.cluster, config.parts, config.per_sm) == (cluster, parts, 2)
        assert choose(columns, 2).cluster > cluster
    assert choose(40_960, 2, bare=True).parts == aligned and choose(40_961, 2, bare=True).cluster == 2
    assert choose(36_864, 2, bare=True, apart=True).parts == anywhere
    assert choose(36_865, 2, bare=True, apart=True).cluster == 2
    assert all(choose(columns, 4, bare=True) == choose(columns, 4) for columns in (18_000, 40_000, 65_536, 190_000))
    assert choose(80_000, 4, bare=True) == RowConfig(16, 4, 1, 512, 10, per_sm=6)
    assert [choose(columns, 2, reads=True).warps for columns in (6_144, 12_288, 24_576, 49_152)] == [2, 4, 8, 16]


def test_once_and_ahead_reach_the_kernel() -> None:
    plain, chosen = choose(4096, 2), []
    x, w = px.spec((64, 4096), px.bf16), px.spec((4096,), px.bf16)
    for once in (False, True):
        config = replace(plain, once=once)
        for made in (
            px.compile(softmax_rows[64], x, None, x, None, None, None, None, **config.constants()),
            px.compile(rms_norm_rows[64], x, None, w, x, 1e-6, None, **config.constants(), AHEAD=config.ahead),
        ):
            chosen.append("st.global.L1::no_allocate" in made.ptx)
    assert chosen == [False, False, True, True]


def test_a_row_that_no_cluster_holds() -> None:
    with pytest.raises(px.Error, match="does not fit a cluster"):
        choose(1 << 23, 4)


@pytest.mark.parametrize(
    "call",
    (
        lambda x, **options: px.kernels.softmax(x, **options),
        lambda x, **options: px.kernels.layer_norm(x, **options),
        lambda x, **options: px.kernels.rms_norm(x, **options),
        lambda x, **options: softmax_backward(x, x, **options),
        lambda x, **options: rms_norm_backward(x, x, **options),
    ),
)
def test_a_configuration_that_does_not_hold_the_row(call: Any) -> None:
    with pytest.raises(px.Error) as caught:
        call(np.zeros((2, 1032), np.float32), config=RowConfig(2, 1, 1, 128, 4))
    assert caught.value.message == "2 CTAs with 4 tiles of 128 columns have no room for rows of 1032 elements"
    assert caught.value.remedy == "let parts be more, or cluster, or leave config out"


REPRESENTATIVE = (
    (px.bf16, 100), (px.bf16, 4096), (px.bf16, 5001), (px.bf16, 16384), (px.bf16, 65536), (px.f16, 131072),
    (px.bf16, 262144), (px.bf16, 1 << 20), (px.f32, 16384), (px.f32, 1 << 20), (px.bf16, 2240), (px.f32, 592),
    (px.bf16, 448), (px.bf16, 11264),
)  # fmt: skip
"""One of each number of threads, tiles and CTAs on an SM that `choose` gives, and a row that vectors do not fill."""


SHARE = [pytest.param(*case, marks=[pytest.mark.long] * (n % 2)) for n, case in enumerate(REPRESENTATIVE)]
"""Half of them; all where long tests run."""

KINDS = ("softmax", "log_softmax", "rms_norm", "layer_norm", "cross_entropy")


def compiled(kind: str, dtype: Any, columns: int) -> Any:
    """The kernel that a call with contiguous rows gets, unless they pass through a ring; what it may use is checked."""
    like = np.zeros((2, columns), NUMPY[dtype])
    x, vector, rows = px.spec((64, columns), dtype), px.spec((columns,), dtype), px.spec((64,), px.f32)
    if kind == "layer_norm":
        config = choose_centered(like)
        constants = {**config.constants(), "AHEAD": config.ahead, "MASKED": config.columns != columns}
        constants["FULL"] = full_tiles(columns, config)
        made = px.compile(layer_norm_rows[config.grid(64)], x, vector, vector, x, 1e-6, None, **constants)
    elif kind == "rms_norm":
        config = choose_for(like, weighted=True, bare=True)
        constants = {**config.constants(), "AHEAD": config.ahead}
        made = px.compile(rms_norm_rows[config.grid(64)], x, None, vector, x, 1e-6, None, **constants)
    elif kind == "cross_entropy":
        config = choose_for(like, reads=True)
        args = (x, px.spec((64,), px.i64), rows, None, None, -100, None)
        made = px.compile(cross_entropy_rows[config.grid(64)], *args, **config.constants())
    else:
        fewer = kind == "log_softmax" and like.dtype.itemsize < 4
        config = choose_for(like, LIMITS.fewer_held if fewer else LIMITS.held, bare=True)
        args = (x, None, x, None, None, None, None)
        made = px.compile(softmax_rows[config.grid(64)], *args, **config.constants(), LOG=kind == "log_softmax")
    assert made.spills == 0, (kind, config, made)
    assert made.registers * 32 * config.warps * config.per_sm <= 65536
    assert made.shared_bytes * config.per_sm <= 227 * 1024
    assert ("st.async" in made.ptx) == (config.cluster > 1)
    return made


@pytest.mark.share(28)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "layer_norm"])
@pytest.mark.parametrize("dtype, columns", SHARE)
def test_compiles_without_spills(dtype: Any, columns: int, kind: str) -> None:
    compiled(kind, dtype, columns)


@pytest.mark.share(9)
@pytest.mark.parametrize("dtype, columns", [*SHARE, (px.bf16, 65001), (px.bf16, 131001), (px.f16, 300000)])
def test_layer_norm_compiles_without_spills(dtype: Any, columns: int) -> None:
    """Also long rows that begin anywhere, and those that leave warps of the largest cluster without a column."""
    assert compiled("layer_norm", dtype, columns).ptx.count("st.async") <= 1, "one exchange"


AWKWARD = (
    ("rms_norm", px.bf16, 65001), ("rms_norm", px.f16, 32767), ("softmax", px.bf16, 131071), ("softmax", px.f32, 8191),
    ("log_softmax", px.bf16, 49151), ("log_softmax", px.f16, 262145), ("cross_entropy", px.bf16, 16383),
    ("layer_norm", px.f32, 200000), ("layer_norm", px.bf16, 400000), ("layer_norm", px.f16, 163841),
)  # fmt: skip
"""Rows that no vector fits, or that leave a large cluster partly empty."""
ODD = (4097, 8191, 12289, 20001, 32767, 49151, 65001, 98303, 131071, 163841, 200001, 262143, 262145)
EMPTY_IN_PART = (98300, 131064, 200000, 230000, 262136, 400000, 524280)


@pytest.mark.share(14)
@pytest.mark.parametrize("kind, dtype, columns", AWKWARD)
def test_awkward_rows_compile_without_spills(kind: str, dtype: Any, columns: int) -> None:
    compiled(kind, dtype, columns)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", (px.bf16, px.f32))
@pytest.mark.parametrize("columns", [*ODD, *EMPTY_IN_PART])
def test_every_awkward_row_compiles_without_spills(columns: int, dtype: Any, kind: str) -> None:
    """Of f16 those above: its text is that of bf16 but for conversions."""
    compiled(kind, dtype, columns)


FULL = [
    (kind, dtype, cluster, anywhere)
    for cluster in (1, 4, 2, 8) for kind in ("softmax", "log_softmax", "cross_entropy") for dtype in (px.bf16, px.f16)
    for anywhere in (False, True) if kind != "cross_entropy" or cluster == 1
]  # fmt: skip


@pytest.mark.share(36)
@pytest.mark.parametrize("kind, dtype, cluster, anywhere", FULL)
def test_full_registers_do_not_spill(kind: str, dtype: Any, cluster: int, anywhere: bool) -> None:
    """Rows of as many vectors a thread as there are at most, also those that begin anywhere in a run of memory."""
    vector = 8
    parts = LIMITS.most_read if kind == "cross_entropy" else LIMITS.bare_held[anywhere]
    columns = cluster * parts * 512 * vector - (2 * vector - 1 if anywhere else 0)
    like = np.zeros((2, columns), NUMPY[dtype])
    options = {"reads": True} if kind == "cross_entropy" else {"bare": True}
    _, length, config = places(like, None, **options)
    assert (config.cluster, config.parts, length is not None) == (cluster, parts, anywhere)
    x = px.spec((64 * columns,) if anywhere else (64, columns), dtype)
    if kind == "cross_entropy":
        args: tuple[Any, ...] = (x, px.spec((64,), px.i64), px.spec((64,), px.f32), None, None, -100, length)
        made = px.compile(cross_entropy_rows[config.grid(64)], *args, arch="sm_90a", **config.constants())
    else:
        args = (x, None, x, None, None, None, length)
        log = kind == "log_softmax"
        made = px.compile(softmax_rows[config.grid(64)], *args, arch="sm_90a", **config.constants(), LOG=log)
    assert made.spills == 0 and made.registers * 32 * config.warps * config.per_sm <= 65536


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ("softmax", "log_softmax"))
@pytest.mark.parametrize("form", ("vectors", "run", "elements"))
@pytest.mark.parametrize("spread", LIMITS.bare_spread)
def test_rows_spread_over_small_ctas_do_not_spill(spread: tuple[int, ...], form: str, kind: str) -> None:
    """The longest of each such kind, whose rows begin at vectors, anywhere in a run of memory, or with gaps between them."""
    columns = spread[1] - {"vectors": 0, "run": 3, "elements": 1}[form]
    length = columns if form == "run" else None
    config = choose(columns + 3, 4, bare=True, apart=True) if form == "run" else choose(columns, 4, bare=True)
    assert (config.cluster, config.warps, config.per_sm) == spread[2:]
    x = px.spec((64 * columns,) if form == "run" else (64, columns), px.f32)
    args = (x, None, x, None, None, None, length)
    made = px.compile(softmax_rows[config.grid(64)], *args, arch="sm_90a", **config.constants(), LOG=kind == "log_softmax")
    assert made.spills == 0 and made.registers * 32 * config.warps * config.per_sm <= 65536


FULL_BESIDE_WEIGHTS = [
    (kind, dtype, columns - missing)
    for kind, dtype, columns in (
        ("rms_norm", px.bf16, 40_960), ("layer_norm", px.bf16, 10_240), ("layer_norm", px.bf16, 20_480),
        ("rms_norm", px.bf16, 73_728), ("rms_norm", px.f32, 18_432), ("rms_norm", px.bf16, 114_688),
        ("rms_norm", px.bf16, 131_072), ("rms_norm", px.f32, 40_960), ("rms_norm", px.f32, 65_536),
        ("rms_norm", px.f16, 40_960), ("rms_norm", px.f16, 73_728), ("layer_norm", px.f16, 20_480),
    )
    for missing in (8, 0)
]  # fmt: skip


@pytest.mark.share(24)
@pytest.mark.parametrize("kind, dtype, columns", FULL_BESIDE_WEIGHTS)
def test_full_registers_of_norms_do_not_spill(kind: str, dtype: Any, columns: int) -> None:
    compiled(kind, dtype, columns)


def test_norms_fill_registers_before_a_cluster_is_larger() -> None:
    found = {
        (columns, itemsize): choose(columns, itemsize, weighted=True, bare=True)
        for columns, itemsize in (
            (36_000, 2), (40_960, 2), (18_000, 4), (41_000, 2), (49_160, 2), (66_000, 2), (74_000, 2), (90_000, 2),
            (131_072, 2), (33_000, 4), (42_000, 4), (65_536, 4),
        )
    }  # fmt: skip
    assert [(each.cluster, each.warps, each.parts, each.per_sm, each.ahead) for each in found.values()] == [
        (1, 16, 9, 2, False), (1, 16, 10, 2, False), (1, 16, 9, 2, False), (2, 16, 6, 2, False), (4, 8, 7, 3, True),
        (4, 8, 9, 4, False), (8, 8, 5, 4, False), (8, 8, 6, 4, False), (8, 8, 8, 3, True), (8, 8, 5, 4, True),
        (8, 8, 6, 4, False), (8, 8, 8, 3, True),
    ]  # fmt: skip
    for columns, itemsize in ((36_000, 2), (18_000, 4), (41_000, 2)):
        assert choose(columns, itemsize, weighted=True).cluster == 4, "beside a residual there is no room"
        assert choose(columns, itemsize, weighted=True, bare=True, apart=True).cluster == 4
    centered = [choose(columns, 2, centered=True) for columns in (8_192, 8_200, 10_232, 16_384, 16_392, 20_472)]
    assert [(config.warps, config.parts, config.per_sm) for config in centered] == [
        (4, 8, 8), (4, 9, 7), (4, 10, 7), (8, 8, 4), (8, 9, 3), (8, 10, 3),
    ]  # fmt: skip


def test_narrow_elements_one_by_one_are_fewer() -> None:
    """Until all are here each is in a register of its own, so there is no room for as many, nor for weights."""
    anywhere, aligned = np.zeros((2, 32767), np.float16), np.zeros((2, 32768), np.float16)
    assert (choose_for(aligned).cluster, choose_for(anywhere).cluster) == (1, 2)
    weighted = choose_for(np.zeros((2, 40001), np.float16), weighted=True)
    assert (weighted.cluster, weighted.warps, weighted.ahead) == (2, 16, False)
    assert choose_for(np.zeros((2, 16383), np.float32)) == choose_for(np.zeros((2, 16384), np.float32))
    shifted = np.zeros((2, 32776), np.float16)[:, 4:32772]
    assert choose_for(shifted) == choose_for(anywhere), "whole vectors, which do not begin where vectors do"


@pytest.mark.long
def test_rows_with_moments_by_one_warp_or_two() -> None:
    """Of 16-bit elements, which leave a CTA of four warps partly empty; those that fill it stay there."""
    found = {columns: choose(columns, 2, centered=True) for columns in (2568, 3584, 3592, 4096, 4104, 5112, 5128)}
    shapes = {columns: (config.warps, config.rows, config.parts, config.per_sm) for columns, config in found.items()}
    assert shapes == {
        2568: (4, 4, 11, 1), 3584: (4, 4, 14, 1), 3592: (2, 1, 8, 12), 4096: (4, 1, 4, 8), 4104: (2, 1, 9, 10),
        5112: (2, 1, 10, 10), 5128: (4, 1, 6, 8),
    }
    assert choose(2568, 2).rows == 1 and choose(1284, 4, centered=True).rows == 1
    for columns in (3592, 5112):
        compiled("layer_norm", px.bf16, columns)


def test_centered_rows_leave_room_for_the_moments() -> None:
    full, most = choose(262144, 4, centered=True), choose(200000, 4, centered=True)
    assert (full.parts, full.shared, most.parts, most.shared) == (8, 0, LIMITS.centered_parts, 7 - LIMITS.centered_parts)
    assert most.per_sm == full.per_sm == 2 and most.once
    assert choose(196608 - 4, 4, centered=True).shared == 0 and choose(200000, 4).shared == 0
