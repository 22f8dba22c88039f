"""Short rows that begin anywhere, in spans: against NumPy in f64, checked, compiled without spills; the choice."""

from __future__ import annotations

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
from phalanx.kernels.rowwise.spans import SpanConfig, choose_span, norm_spans, softmax_spans, span_for


def verify_spans(x: np.ndarray, w: np.ndarray, b: np.ndarray, config: SpanConfig | None = None) -> None:
    exact = exact_softmax(x)
    near(px.kernels.softmax(x, config=config), exact)
    near(px.kernels.log_softmax(x, config=config), np.log(exact))
    near(px.kernels.rms_norm(x, w, EPS, config=config), exact_rms_norm(x, w))
    near(px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b))


@pytest.mark.share(12)
@pytest.mark.parametrize("dtype", (np.float32, np.float16, ml_dtypes.bfloat16))
@pytest.mark.parametrize("columns", (1, 7, 33, 57, 181, 258, 429))
def test_all_functions(columns: int, dtype: Any) -> None:
    """As the library chooses, of which the last span is not full."""
    x, w, b = sample(21, columns, dtype)
    assert span_for(x, w, b) is not None and (span_for(x) is not None) == (columns * x.itemsize < 800 or x.itemsize == 2)
    verify_spans(x, w, b)


CONFIGS = {
    "some threads to a row": SpanConfig(8, 2, 8, 1, warps=2),
    "a thread to a row": SpanConfig(1, 11, 32, 11, warps=2),
    "a warp to a row": SpanConfig(32, 1, 8, 1, warps=2),
    "a warp takes pairs": SpanConfig(32, 2, 8, 5, warps=2, pairs=True),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", CONFIGS)
def test_checked_clean(name: str) -> None:
    config = CONFIGS[name]
    columns = 70 if config.pairs else 11
    x, w, b = sample(61, columns, np.float32)
    flat, y = x.reshape(-1), np.zeros(x.size, np.float32)
    px.check(softmax_spans[2], flat, y, columns, **config.constants()).raise_if_found()
    px.check(norm_spans[2], flat, w, b, y, EPS, columns, **config.constants(), CENTERED=True).raise_if_found()
    verify_spans(x, w, b, config)


@pytest.mark.parametrize("config", (SpanConfig(8, 1, 8, 2), SpanConfig(8, 3, 8, 2), SpanConfig(8, 2, 64, 3)))
def test_spans_of_other_rows_are_refused(config: SpanConfig) -> None:
    x, w, _ = sample(9, 11, np.float32)
    for call in (lambda: px.kernels.softmax(x, config=config), lambda: px.kernels.rms_norm(x, w, config=config)):
        with pytest.raises(px.Error, match=r"let each be 2 and vectors at least (1|6)") as caught:
            call()
        assert caught.value.location.file == __file__


def test_pairs_of_odd_rows_are_refused() -> None:
    with pytest.raises(px.Error, match="pairs False if rows are odd"):
        px.kernels.softmax(sample(9, 67, np.float32)[0], config=SpanConfig(32, 2, 8, 5, pairs=True))


def test_a_row_of_which_nothing_counts() -> None:
    x = np.full((3, 37), -np.inf, np.float32)
    x[1, 3] = 2.0
    got = px.kernels.softmax(x)
    assert np.isnan(got[0]).all() and got[1, 3] == 1.0 and got[1].sum() == 1.0


def test_a_large_mean_costs_no_digits() -> None:
    x, w, b = with_large_mean(3, 301)
    near_with_large_mean(px.kernels.layer_norm(x, w, b, EPS), x, w, b)


LENGTHS = [33, 59, 130, 257, 302, 331, 350, 383, 394, 437, 447, 474, 505, 516, 602, 625]


@pytest.mark.long
@pytest.mark.parametrize("vectors", (0, 2))
@pytest.mark.parametrize("columns", LENGTHS)
def test_chosen_spans_compile_without_spills(columns: int, vectors: int) -> None:
    config = choose_span(columns, 2, vectors)
    assert config is not None and config.each * config.taken >= columns
    assert config.rows * columns <= config.vectors * 32 * 8 and config.rows * config.lanes % 32 == 0
    x, w = px.spec((64 * columns,), px.bf16), px.spec((columns,), px.bf16)
    if vectors:
        args = (x, w, w, x, EPS, columns)
        made = px.compile(norm_spans[8], *args, arch="sm_90a", **config.constants(), CENTERED=True)
    else:
        made = px.compile(softmax_spans[8], x, x, columns, arch="sm_90a", **config.constants())
    assert made.spills == 0 and made.shared_bytes * config.per_sm <= 227 * 1024


def test_which_rows_pass_in_spans() -> None:
    assert choose_span(39, 2).lanes == 4 and choose_span(257, 2).lanes == 32  # type: ignore[union-attr]
    assert choose_span(50_257, 2) is None and choose_span(626, 2, 2) is None
    assert [choose_span(columns, 2, 2).pairs for columns in (250, 257, 258)] == [False, False, True]  # type: ignore[union-attr]
    assert not choose_span(258, 2).pairs and not choose_span(258, 4, 2).pairs  # type: ignore[union-attr]
    assert [choose_span(columns, 2, 2).per_sm for columns in (302, 437, 538)] == [7, 6, 5]  # type: ignore[union-attr]
    whole, gaps = np.zeros((4, 40), np.float32), np.zeros((4, 41), np.float32)[:, :39]
    assert span_for(whole) is None and span_for(gaps) is None
