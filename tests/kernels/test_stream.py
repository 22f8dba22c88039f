"""Rows chunk by chunk: every length and group against NumPy in f64, checked, compiled without spills; the choice."""

from __future__ import annotations

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
    exact_softmax,
    near,
    near_with_large_mean,
    sample,
    verify,
    with_large_mean,
)
from phalanx.kernels.rowwise.row_config import LIMITS, RowConfig, places, run_of
from phalanx.kernels.rowwise.stream_config import (
    LAYER_NORM,
    LOG_SOFTMAX,
    RMS_NORM,
    SOFTMAX,
    VECTORS,
    StreamConfig,
    choose_stream,
    in_lines,
    stream_for,
    whole_rows,
)
from phalanx.kernels.rowwise.stream_norms import norm_stream
from phalanx.kernels.rowwise.stream_softmax import softmax_stream
from phalanx.machines.h200 import H200

CONFIGS = {
    "all in the ring": StreamConfig(2, 2, 1, 6, 4),
    "read again": StreamConfig(2, 2, 1, 4, 1),
    "weights in registers": StreamConfig(1, 2, 2, 7, 6, parts=6),
    "some of them": StreamConfig(2, 2, 1, 8, 6, parts=2),
    "one CTA": StreamConfig(1, 2, 1, 3, 0, streamed=True, once=False),
    "one warp": StreamConfig(1, 1, 3, 9, 8, parts=1),
    "four CTAs": StreamConfig(4, 1, 1, 4, 2),
    "two rows at once": StreamConfig(2, 4, 1, 6, 3, parts=1, group=2),
}
HELD = (
    (StreamConfig(2, 2, 1, 7, 3, parts=3, hold=True), ml_dtypes.bfloat16),
    (StreamConfig(1, 2, 1, 8, 6, parts=2, group=2, hold=True), np.float32),
)
"""Configurations that hold rows of 2,803 and 1,501 columns in registers."""


@pytest.mark.share(21)
@pytest.mark.parametrize("columns", (1, 17, 512, 1001, 2803))
@pytest.mark.parametrize("dtype", (np.float32, ml_dtypes.bfloat16))
@pytest.mark.parametrize("name", CONFIGS)
def test_all_functions(name: str, dtype: Any, columns: int) -> None:
    verify(*sample(5, columns, dtype), config=CONFIGS[name])


def test_logits_of_16_bits_that_masks_made_huge() -> None:
    """Masks of the least number there is, or of -1e9, over some elements or all; threads that see nothing else at first."""
    config, columns = StreamConfig(1, 1, 1, 4, 2), 520
    least = float(ml_dtypes.finfo(ml_dtypes.bfloat16).min)
    x = sample(6, columns, ml_dtypes.bfloat16)[0]
    x[0, :300], x[1, 300:], x[2], x[3], x[4, ::2], x[5, 7] = least, -1e30, -1e9, least, -7e4, 3e38
    large = x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True)
    logs = large - np.log(np.exp(large).sum(1, keepdims=True))
    assert np.allclose(px.kernels.softmax(x, config=config).astype(np.float64), np.exp(logs), rtol=0.01, atol=1e-6)
    x, logs = x[[0, 1, 4, 5]], logs[[0, 1, 4, 5]]  # of the others the logarithm is lost beside the maximum
    losses = px.kernels.cross_entropy(x, logs.argmax(1), reduction="none")
    assert np.allclose(losses, -logs.max(1), rtol=1e-3, atol=1e-5)


@pytest.mark.long
@pytest.mark.share(8)
@pytest.mark.parametrize("name", CONFIGS)
def test_checked_clean(name: str) -> None:
    config, columns = CONFIGS[name], 1203
    x, w, b = sample(3, columns, np.float32)
    flat, y, grid = x.reshape(-1), np.zeros(x.size, np.float32), 2 * config.cluster
    for kernel, args, more in (
        (softmax_stream, [flat, y, columns, 3], {"LINED": True}),
        (norm_stream, [flat, w, b, y, EPS, columns, 3], {"CENTERED": True}),
        (norm_stream, [flat, w, b, y, EPS, columns, 3], {"CENTERED": True, "LINED": True}),
    ):
        px.check(kernel[grid], *args, config=config, **more, PERIOD=4).raise_if_found()


@pytest.mark.share(2)
@pytest.mark.parametrize("config, dtype", HELD, ids=["one row", "two rows at once"])
def test_rows_in_registers(config: StreamConfig, dtype: Any) -> None:
    x, w, b = sample(5, 2803 if config.group == 1 else 1501, dtype)
    exact = exact_softmax(x)
    near(px.kernels.softmax(x, config=config), exact)
    near(px.kernels.log_softmax(x, config=config), np.log(exact))
    near(px.kernels.rms_norm(x, w, EPS, config=config), exact_rms_norm(x, w))
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    flat, y, constants = x.reshape(-1), np.zeros(x.size, dtype), {"config": config, "WHOLE": True}
    more = {"PERIOD": 16 // x.itemsize, "CENTERED": True}
    px.check(norm_stream[2 * config.cluster], flat, w, b, y, EPS, x.shape[1], 5, **constants, **more).raise_if_found()


SAVED = {
    "all weights on the SM": (StreamConfig(2, 2, 1, 8, 6, parts=2, saved=4), np.float32),
    "some are loaded": (StreamConfig(2, 2, 1, 8, 6, parts=1, saved=3), np.float32),
    "two rows at once": (StreamConfig(2, 2, 1, 5, 3, parts=1, saved=1, group=2), ml_dtypes.bfloat16),
    "rows that are read again": (StreamConfig(2, 2, 1, 6, 4, parts=2, saved=1), np.float32),
    "in registers alone": (StreamConfig(2, 2, 1, 5, 2, parts=1), ml_dtypes.bfloat16),
}
"""Weights beside some chunks of rows of 2,803 and 2,800 columns stay in shared memory, or stay beside rows that do not."""


@pytest.mark.long
@pytest.mark.share(10)
@pytest.mark.parametrize("columns", (2800, 2803))
@pytest.mark.parametrize("name", SAVED)
def test_weights_in_shared_memory(name: str, columns: int) -> None:
    config, dtype = SAVED[name]
    x, w, b = sample(5, columns, dtype)
    near(px.kernels.rms_norm(x, w, EPS, config=config), exact_rms_norm(x, w))
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    near(px.kernels.layer_norm(x, None, b, EPS, config=config), exact_layer_norm(x, np.ones_like(w), b))
    constants = {"config": config, "CENTERED": True, "PERIOD": math.lcm(columns, 16 // x.itemsize) // columns}
    constants["WHOLE"] = config.chunks(columns, x.itemsize) <= config.kept
    args = x.reshape(-1), w, b, np.zeros(x.size, dtype), EPS, columns, 5
    px.check(norm_stream[2 * config.cluster], *args, **constants).raise_if_found()


@pytest.mark.share(2)
@pytest.mark.parametrize("columns", (1025, 1031))
def test_rows_in_registers_whose_last_chunk_is_an_edge(columns: int) -> None:
    """Whole vectors of some of these rows end before the last chunk but one does."""
    x, w, b = sample(9, columns, ml_dtypes.bfloat16)
    config = StreamConfig(1, 2, 1, 8, 3, parts=3, hold=True)
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    near(px.kernels.softmax(x, config=config), exact_softmax(x))


@pytest.mark.share(2)
@pytest.mark.parametrize("columns", (1040, 1056, 1088, 1152))
def test_copies_begin_at_lines(columns: int) -> None:
    """Wherever in a line of 128 bytes rows begin; those of whole lines take no more room for it."""
    config = CONFIGS["two rows at once"]
    assert in_lines(config, columns, 2) == (columns % 64 > 0) and not in_lines(replace(config, per_sm=2), columns, 2)
    x, w, b = sample(9, columns, ml_dtypes.bfloat16)
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))
    near(px.kernels.softmax(x, config=replace(config, parts=0)), exact_softmax(x))


def test_no_barrier_parts_the_stores_of_a_row() -> None:
    """Chunks of a row are apart, which the compiler sees; between rows one suffices."""
    flat, w = px.spec((64 * 4096,), px.bf16), px.spec((4096,), px.bf16)
    for config, kernel, args in (
        (StreamConfig(2, 4, 1, 6, 2, hold=True), softmax_stream, (flat, flat, 4096, 64)),
        (StreamConfig(2, 4, 1, 6, 2, parts=2), norm_stream, (flat, w, w, flat, EPS, 4096, 64)),
    ):
        made = px.compile(kernel[2], *args, arch="sm_90a", config=config, WHOLE=True, LINED=True)
        assert "before Y is written" not in made.source


def test_rows_in_registers_are_of_one_length() -> None:
    x = sample(2, 1203, np.float32)[0]
    with pytest.raises(px.Error, match="of which a CTA has up to 3"):
        px.kernels.softmax(x, config=StreamConfig(2, 2, 1, 7, 4, hold=True))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ("read again", "weights in registers", "two rows at once"))
def test_a_large_mean_costs_no_digits(name: str) -> None:
    x, w, b = with_large_mean(3, 2001)
    near_with_large_mean(px.kernels.layer_norm(x, w, b, EPS, config=CONFIGS[name]), x, w, b)


def test_a_first_element_far_from_all_others_costs_few_digits() -> None:
    """Each thread counts from the mean of its first vector: one element of it far away is in the variance as well."""
    x, w, b = with_large_mean(3, 2001)
    x[:, ::8] = -3e4
    want = exact_layer_norm(x, w, b)
    got = px.kernels.layer_norm(x, w, b, EPS, config=CONFIGS["read again"])
    np.testing.assert_allclose(got, want, rtol=0, atol=3e-5 * float(np.abs(want).max()))


CHOSEN = [
    (SOFTMAX, 1_000_003, 2),
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            (RMS_NORM, 1_360_352, 2), (SOFTMAX, 2_000_000, 4), (RMS_NORM, 50_257, 2), (RMS_NORM, 404_200, 4),
            (LAYER_NORM, 5_003, 2),
            (LAYER_NORM, 50_257, 2),
            (LAYER_NORM, 65_536, 2), (LAYER_NORM, 238_976, 4), (LAYER_NORM, 250_392, 2), (LAYER_NORM, 489_664, 4),
            (LAYER_NORM, 2_000_000, 4), (LAYER_NORM, 41_511, 4), (LAYER_NORM, 111_387, 4), (LAYER_NORM, 67_000, 2),
            (LAYER_NORM, 105_000, 2), (LAYER_NORM, 440_864, 2), (LAYER_NORM, 13_102, 2), (LAYER_NORM, 2_361, 2),
            (SOFTMAX, 98_560, 2), (SOFTMAX, 750_720, 2), (RMS_NORM, 919_168, 2), (LOG_SOFTMAX, 183_346, 2),
            (LOG_SOFTMAX, 750_721, 2), (SOFTMAX, 2_000_000, 2), (LAYER_NORM, 800_003, 2), (LAYER_NORM, 867_696, 2),
            (LAYER_NORM, 860_003, 2), (LAYER_NORM, 7_161, 2), (LAYER_NORM, 3_581, 4), (LAYER_NORM, 1_999_999, 2),
            (RMS_NORM, 1_370_657, 2), (RMS_NORM, 1_999_999, 2), (RMS_NORM, 150_001, 2),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("kind, columns, itemsize", CHOSEN)
def test_chosen_streams_compile_without_spills(kind: str, columns: int, itemsize: int) -> None:
    vector = 16 // itemsize
    config = choose_stream(columns, itemsize, kind, columns % vector == 0)
    assert config is not None and config.shared_bytes(VECTORS.get(kind, 0)) * config.per_sm <= 220 * 1024
    assert config.parts + config.saved <= config.kept
    dtype = px.bf16 if itemsize == 2 else px.f32
    x, w = px.spec((64 * columns,), dtype), px.spec((columns,), dtype)
    constants = {"config": config, "PERIOD": vector // math.gcd(columns, vector)}
    constants |= {"WHOLE": config.chunks(columns, itemsize) <= config.kept, "LINED": in_lines(config, columns, itemsize)}
    if kind in (SOFTMAX, LOG_SOFTMAX):
        args = (x, x, columns, 64)
        made = px.compile(softmax_stream[config.cluster], *args, arch="sm_90a", **constants, LOG=kind == LOG_SOFTMAX)
    else:
        bias, centered = (w, True) if kind == LAYER_NORM else (None, False)
        args = (x, w, bias, x, EPS, columns, 64)
        made = px.compile(norm_stream[config.cluster], *args, arch="sm_90a", **constants, CENTERED=centered)
    assert made.spills <= (6 * 4 if config.hold else 0), "up to six words of a held row: faster than a larger cluster"
    assert (made.shared_bytes + H200.reserved_shared_bytes) * config.per_sm <= H200.shared_bytes_per_sm


def test_which_rows_are_streamed() -> None:
    assert choose_stream(262144, 2) is None and choose_stream(50257, 2, aligned=False) is None
    long = (100_000, 180_000, 400_000, 1_000_000)
    clusters = [(config.cluster, config.step) for columns in long if (config := choose_stream(columns, 2))]
    assert clusters == [(2, 2), (4, 2), (8, 2), (16, 2)]
    assert choose_stream(131_072, 2, RMS_NORM) is None and choose_stream(919_168, 2, RMS_NORM) is not None
    assert choose_stream(16_384, 4, LAYER_NORM) is None and choose_stream(16_385, 4, LAYER_NORM, aligned=False) is not None
    for kind in (SOFTMAX, LOG_SOFTMAX):
        config = choose_stream(750_720, 2, kind)
        assert config is not None and config.hold and config.cluster == 8
    assert choose_stream(119_963, 4, LOG_SOFTMAX, aligned=False) is None


def test_softmax_of_16_bits_leaves_few_registers_empty() -> None:
    """Rows that fill the threads of 1, 2, 4 or 8 CTAs, or that leave little of the last of them, stay in registers."""
    for columns, streamed in (
        (40_960, False), (81_920, False), (81_928, True), (163_840, False), (163_848, True), (320_000, False),
        (330_000, True),
    ):
        assert (choose_stream(columns, 2) is not None) == streamed
    assert choose_stream(100_000, 2, LOG_SOFTMAX) is None and choose_stream(240_928, 2) is None
    assert choose_stream(150_001, 2, aligned=False) is not None, "one vector less where rows begin anywhere"
    for columns, streamed in ((73_721, True), (98_303, True), (98_305, False), (73_713, False)):
        assert (choose_stream(columns, 2, LOG_SOFTMAX, aligned=False) is not None) == streamed
    assert choose_stream(98_304, 2, LOG_SOFTMAX) is None


def test_weights_of_another_type_stay_in_no_registers() -> None:
    x, w = np.zeros((2, 65_536), np.float16), np.zeros(65_536, np.float16)
    same = stream_for(x, LAYER_NORM, w, w)
    assert same is not None and same.parts == 8
    assert stream_for(x, LAYER_NORM, w.astype(np.float32), None) is None
    long = np.zeros((2, 700_000), np.float16)
    wide = stream_for(long, RMS_NORM, np.zeros(700_000, np.float32))
    assert wide is not None and wide.parts == 0


def test_rows_that_no_ring_keeps_are_read_again() -> None:
    assert whole_rows(2_000_000, 4, 0) is None and whole_rows(2_000_000, 4, 2) is None
    for columns in range(20_000, 1_400_000, 9_973):
        config = whole_rows(columns, 2, 1)
        assert config is None or (config.kept == config.chunks(columns, 2) <= config.stages and config.parts <= config.kept)


def test_weights_take_the_place_of_stages() -> None:
    """Of rows whose weights registers have no room for; where they would take too much, what is read leaves L2 first."""
    for columns, vectors, cluster, saved, streamed in (
        (330_000, 2, 8, 3, False), (600_000, 2, 16, 2, False), (867_696, 2, 16, 5, False), (1_400_000, 2, 16, 0, True),
        (700_000, 1, 16, 0, False), (1_200_000, 1, 16, 3, False), (1_500_000, 1, 16, 0, True),
    ):
        config = whole_rows(columns, 2, vectors)
        assert config is not None and (config.cluster, config.saved, config.streamed) == (cluster, saved, streamed)
        assert config.kept + LIMITS.stream_spare <= config.stages
        assert config.shared_bytes(vectors) <= LIMITS.stream_ring_bytes
        assert config.saved == 0 or config.parts == LIMITS.stream_weights // vectors
    longest = choose_stream(2_000_000, 4, LAYER_NORM)
    assert longest is not None and longest.parts and longest.chunks(2_000_000, 4) > longest.kept


@pytest.mark.long
def test_weights_of_rows_that_the_ring_does_not_keep_are_loaded() -> None:
    x, w, b = sample(2, 2803, np.float32)
    config = StreamConfig(1, 2, 2, 5, 1, parts=1)
    near(px.kernels.softmax(x, config=config), exact_softmax(x))
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))


def test_a_matrix_with_gaps_is_no_run() -> None:
    x = np.zeros((4, 80), np.float32)
    assert run_of(x[:, :64]) is None and run_of(x).shape == (320,) and run_of(x[:1, :64]).shape == (64,)
    assert run_of(np.zeros(81, np.float32)[1:].reshape(8, 10)) is None
    with pytest.raises(px.Error, match="do not lie side by side"):
        px.kernels.softmax(x[:, :64], config=CONFIGS["one CTA"])


def test_rows_that_begin_anywhere_are_parts_of_a_run() -> None:
    odd, even, gaps = (np.zeros((4, n), np.float32) for n in (1001, 1000, 1004))
    assert places(odd, None)[0].shape == (4004,) and places(odd, None)[1] == 1001
    assert places(even, None)[0].shape == (4, 1000) and places(even, None)[1] is None
    assert places(gaps[:, :1001], None)[1] is None, "such rows are read element by element"
    assert places(odd, RowConfig(1, 8, 1, 1024, 1))[1] == 1001
    assert places(odd, RowConfig(1, 4, 1, 512, 2))[1] == 1001
    assert places(np.zeros((4, 1023), np.float32), RowConfig(1, 8, 1, 1024, 1))[1] is None, "its last vector has no place"
