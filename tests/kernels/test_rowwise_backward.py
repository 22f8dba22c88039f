"""Gradients of the row-wise functions in the simulator against f64: every type, clusters, shared memory; clean, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.rowwise.column_sums import both_column_sums, column_sums, sum_columns
from phalanx.kernels.rowwise.cross_entropy_backward import cross_entropy_backward, cross_entropy_backward_rows
from phalanx.kernels.rowwise.norms_backward import (
    choose_backward,
    layer_norm_backward,
    norm_backward_rows,
    rms_norm_backward,
)
from phalanx.kernels.rowwise.pairs import choose_pair
from phalanx.kernels.rowwise.row_config import LIMITS, RowConfig, choose_for
from phalanx.kernels.rowwise.softmax_backward import softmax_backward, softmax_backward_rows
from phalanx.runtime.launch.dispatch import BoundLaunch

BF16 = ml_dtypes.bfloat16
DTYPES = (np.float32, np.float16, BF16)
EPS = 1e-5


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return rms_norm_around(x - x.mean(-1, keepdims=True), w) + b


def rms_norm_around(apart: np.ndarray, w: np.ndarray) -> np.ndarray:
    return apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + EPS) * w


def exact_rms(d: np.ndarray, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r, g = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPS), d * w
    return r * (g - x * r * r * (g * x).mean(-1, keepdims=True)), (d * x * r).sum(0)


def exact_layer(d: np.ndarray, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    apart, g = x - x.mean(-1, keepdims=True), d * w
    r = 1 / np.sqrt((apart * apart).mean(-1, keepdims=True) + EPS)
    h = apart * r
    return r * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True)), (d * h).sum(0), d.sum(0)


def exact_losses(g: np.ndarray, x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    p = softmax(x)
    p[np.arange(len(x)), targets] -= 1
    return p * g[:, None]


def slope(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, along: np.ndarray, d: np.ndarray) -> float:
    """The derivative of ``sum(d * function(x))`` along a direction, by finite differences."""
    step = 1e-6
    return float((d * (function(x + step * along) - function(x - step * along))).sum() / (2 * step))


def test_the_formulas_are_the_derivatives() -> None:
    rng = np.random.default_rng(0)
    x, d, along = rng.standard_normal((3, 4, 9))
    w, b, v = rng.standard_normal((3, 9))
    targets = np.array([0, 8, 3, 3])
    y = softmax(x)
    cases = [
        (softmax, x, along, d, y * (d - (d * y).sum(-1, keepdims=True))),
        (lambda z: np.log(softmax(z)), x, along, d, d - y * d.sum(-1, keepdims=True)),
        (lambda z: rms_norm(z, w), x, along, d, exact_rms(d, x, w)[0]),
        (lambda z: rms_norm(x, z), w, v, d, exact_rms(d, x, w)[1]),
        (lambda z: layer_norm(z, w, b), x, along, d, exact_layer(d, x, w)[0]),
        (lambda z: layer_norm(x, z, b), w, v, d, exact_layer(d, x, w)[1]),
        (lambda z: layer_norm(x, w, z), b, v, d, exact_layer(d, x, w)[2]),
        (lambda z: -np.log(softmax(z))[np.arange(4), targets], x, along, d[:, 0], exact_losses(d[:, 0], x, targets)),
    ]
    for function, at, direction, given, gradient in cases:
        assert np.isclose(slope(function, at, direction, given), (gradient * direction).sum(), rtol=1e-6)


def near(got: np.ndarray, want: np.ndarray, dtype: Any) -> None:
    unit = float(ml_dtypes.finfo(dtype).eps)
    limit = unit * np.abs(want) + 4e-6 * np.abs(want).max()
    assert got.dtype == dtype and (np.abs(got.astype(np.float64) - want) <= limit).all()


def sample(rows: int, columns: int, dtype: Any) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(rows + columns)
    x, d = (rng.standard_normal((rows, columns)).astype(dtype) for _ in range(2))
    w, b = (rng.standard_normal(columns).astype(dtype) for _ in range(2))
    return x, d, w, b


def verify(rows: int, columns: int, dtype: Any, config: RowConfig | None = None, *, norms: bool = True) -> None:
    """All functions on one matrix."""
    x, d, w, b = sample(rows, columns, dtype)
    wide, wide_d, wide_w = (z.astype(np.float64) for z in (x, d, w))
    y = softmax(wide).astype(dtype)
    p = y.astype(np.float64)
    near(softmax_backward(d, y, config=config), p * (wide_d - (wide_d * p).sum(-1, keepdims=True)), dtype)
    y = np.log(softmax(wide)).astype(dtype)
    p = np.exp(y.astype(np.float64))
    near(softmax_backward(d, y, log=True, config=config), wide_d - p * wide_d.sum(-1, keepdims=True), dtype)
    targets, factors = np.arange(rows) * 31 % columns, np.arange(1, rows + 1, dtype=np.float32)
    near(
        cross_entropy_backward(factors, x, targets, config=config),
        exact_losses(factors.astype(np.float64), wide, targets), dtype,
    )
    if norms:
        for got, want in zip(rms_norm_backward(d, x, w, EPS, config=config), exact_rms(wide_d, wide, wide_w)):
            near(got, want, dtype)
        for got, want in zip(layer_norm_backward(d, x, w, EPS, bias=b, config=config), exact_layer(wide_d, wide, wide_w)):
            near(got, want, dtype)


@pytest.mark.share(7)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", (7, 255, 1024, 1025, 4096))
def test_all_functions(columns: int, dtype: Any) -> None:
    verify(9, columns, dtype)


@pytest.mark.share(2)
@pytest.mark.parametrize("cluster, warps, columns", [(2, 2, 1500), (8, 1, 2001)])
def test_rows_across_a_cluster(cluster: int, warps: int, columns: int) -> None:
    width = 32 * warps * 4
    verify(5, columns, np.float32, RowConfig(cluster, warps, 1, width, px.cdiv(columns, cluster * width)))


def test_part_of_the_rows_in_shared_memory() -> None:
    verify(2, 1500, np.float32, RowConfig(1, 2, 1, 256, 4, 2), norms=False)


def test_more_rows_than_clusters() -> None:
    """A cluster goes through several rows, and its sums are those of all of them."""
    verify(23, 300, np.float32, RowConfig(1, 2, 1, 256, 2))
    verify(23, 300, np.float32, RowConfig(1, 2, 1, 256, 2, ahead=True))
    verify(23, 100, np.float32, RowConfig(1, 2, 4, 64, 2))


@pytest.mark.parametrize("columns", (640, 2048))
def test_weights_of_another_type(columns: int) -> None:
    """Those of a model that is trained are f32, and its rows bf16."""
    x, d, w, b = sample(11, columns, BF16)
    w, b = w.astype(np.float32) + 1 / 512, b.astype(np.float32)
    wide, wide_d, wide_w = (z.astype(np.float64) for z in (x, d, w))
    for got, want in zip(rms_norm_backward(d, x, w, EPS), exact_rms(wide_d, wide, wide_w)):
        near(got, want, got.dtype)
    for got, want in zip(layer_norm_backward(d, x, w, EPS, bias=b), exact_layer(wide_d, wide, wide_w)):
        near(got, want, got.dtype)
    assert [each.dtype for each in rms_norm_backward(d, x, w, EPS)] == [BF16, np.float32]


@pytest.mark.share(6)
@pytest.mark.parametrize("weights", (px.f32, px.bf16))
@pytest.mark.parametrize("columns", (1024, 2048, 8192))
def test_a_row_takes_one_barrier(columns: int, weights: Any) -> None:
    """What a warp has of a row is what it sums: no layout makes warps exchange more than the two sums, nor spill."""
    rows = px.spec((4096, columns), px.bf16)
    x = np.zeros((1, columns), BF16)
    chosen = choose_backward(x, x, centered=False)
    clusters = 132 * chosen.per_sm
    made = px.compile(
        norm_backward_rows[clusters], rows, px.spec((columns,), weights), rows, rows, px.spec((clusters, columns), px.f32),
        None, EPS, arch="sm_90a", **chosen.constants(), AHEAD=chosen.ahead, CENTERED=False,
    )  # fmt: skip
    loop = made.source[made.source.index("for (int unit") :]
    assert loop[: loop.index("\n  }\n")].count("__syncthreads()") == 1
    assert chosen.ahead and not made.spills


def test_no_weights_and_no_rows() -> None:
    x, d, w, b = sample(3, 40, np.float32)
    dx, dw = rms_norm_backward(d, x, None, EPS)
    near(dx, exact_rms(d.astype(np.float64), x.astype(np.float64), np.ones(40))[0], np.float32)
    assert dw is None and rms_norm_backward(d, x, w, EPS, of_weight=False)[1] is None
    dx, dw, db = layer_norm_backward(d[:0], x[:0], w, bias=b)
    assert dx.shape == (0, 40) and (dw == 0).all() and (db == 0).all()


def test_ignored_rows_and_targets_that_are_no_classes() -> None:
    x = np.full((4, 50), np.nan, np.float32)
    x[1:] = np.random.default_rng(0).standard_normal((3, 50))
    got = cross_entropy_backward(np.ones(4, np.float32), x, np.array([-100, 3, 50, -1]))
    assert (got[0] == 0).all() and np.isfinite(got[1]).all() and np.isnan(got[2:]).all()


@pytest.mark.parametrize("rows, columns", [(1, 5), (700, 300), (33, 128)])
def test_column_sums(rows: int, columns: int) -> None:
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(BF16)
    near(column_sums(x, "f32"), x.astype(np.float64).sum(0), np.float32)
    near(column_sums(x), x.astype(np.float64).sum(0), BF16)
    assert (column_sums(x[:0], "f32") == 0).all()


@pytest.mark.parametrize("rows, columns", [(700, 300), (33, 128)])
def test_sums_of_two_matrices_by_the_same_launches(rows: int, columns: int) -> None:
    """Each with its own type, and bit for bit what it is alone."""
    x, y = (np.random.default_rng(n).standard_normal((rows, columns)).astype(np.float32) for n in range(2))
    first, second = both_column_sums((x, None), (y, "bf16"))
    near(first, x.astype(np.float64).sum(0), np.float32)
    near(second, y.astype(np.float64).sum(0), BF16)
    assert (column_sums(y, "bf16") == second).all() and (column_sums(x) == first).all()


@pytest.mark.parametrize("weighted", (False, True))
def test_both_gradients_take_one_launch(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What clusters gave to weights and to biases is summed at once; and where there is one of them, that alone."""
    launched = []
    launch = BoundLaunch.launch

    def noted(bound: Any, args: Any, given: Any) -> None:
        launched.append((bound.kernel.name, bound.grid))
        launch(bound, args, given)

    monkeypatch.setattr(BoundLaunch, "launch", noted)
    x, d, w, b = sample(9, 300, np.float32)
    dx, dw, db = layer_norm_backward(d, x, w if weighted else None, EPS, bias=b)
    assert launched[1:] == [("sum_columns", (3, 1, 1 + weighted))] and len(launched) == 2
    exact = exact_layer(d.astype(np.float64), x.astype(np.float64), w if weighted else np.ones(300))
    near(dx, exact[0], np.float32)
    near(db, exact[2], np.float32)
    if weighted:
        near(dw, exact[1], np.float32)
    else:
        assert dw is None


@pytest.mark.share(2)
@pytest.mark.parametrize("cluster", (1, 2))
def test_checked_clean(cluster: int) -> None:
    x, d, w, _ = sample(3, 700, np.float32)
    config = RowConfig(cluster, 2, 1, 256, px.cdiv(700, 256 * cluster))
    sums = np.zeros((1, 700), np.float32)
    constants = config.constants()
    px.check(softmax_backward_rows[config.grid(3)], x, d, np.zeros_like(x), **constants).raise_if_found()
    px.check(
        cross_entropy_backward_rows[config.grid(3)], x, np.arange(3), sums[0, :3], np.zeros_like(x), -100, **constants
    ).raise_if_found()
    px.check(
        norm_backward_rows[cluster], x, w, d, np.zeros_like(x), sums, sums.copy(), EPS, **constants, CENTERED=True
    ).raise_if_found()
    sums = [np.zeros((2, 700), np.float32) for _ in range(2)]
    px.check(sum_columns[6, 2], x, sums[0], None, None).raise_if_found()
    px.check(sum_columns[6, 2, 2], x, sums[0], d, sums[1]).raise_if_found()


@pytest.mark.long
@pytest.mark.share(8)
@pytest.mark.parametrize("dtype, made", [(BF16, px.bf16), (np.float32, px.f32)])
@pytest.mark.parametrize("columns", (512, 4096, 8192, 65536))
def test_compiled_without_spills(columns: int, dtype: Any, made: Any) -> None:
    x = np.zeros((1, columns), dtype)
    rows, vector, sums = px.spec((1024, columns), made), px.spec((columns,), made), px.spec((132, columns), px.f32)
    pair = choose_pair(x, x)
    assert px.compile(softmax_backward_rows[pair.grid(1024)], rows, rows, rows, **pair.constants()).spills == 0
    config = choose_for(x, LIMITS.fewer_held)
    labels, factors = px.spec((1024,), px.i64), px.spec((1024,), px.f32)
    launch = cross_entropy_backward_rows[config.grid(1024)]
    assert px.compile(launch, rows, labels, factors, rows, -100, **config.constants()).spills == 0
    for centered in (False, True):
        config = choose_backward(x, x, centered=centered)
        launch = norm_backward_rows[4 * config.cluster]
        biases = sums if centered else None
        found = px.compile(
            launch, rows, vector, rows, rows, sums, biases, EPS, **config.constants(), CENTERED=centered
        )
        assert found.spills == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: softmax_backward(x[:3], x), "d has shape (3, 40), what it is the gradient of (6, 40)"),
        (lambda x: softmax_backward(x.astype(np.float16), x), "d has the element type f16"),
        (lambda x: rms_norm_backward(x, x, x[0, :3]), "weight has shape (3,), the rows have 40 columns"),
        (lambda x: cross_entropy_backward(x[:3, 0], x, np.arange(6)), "d has shape (3,), the logits (6, 40)"),
        (lambda x: column_sums(x[0]), "x has shape (40,)"),
        (lambda x: both_column_sums((x, None), (x[:3], None)), "matrices have shapes (6, 40) and (3, 40)"),
    ],
)
def test_errors(call: Callable[[np.ndarray], Any], message: str) -> None:
    with pytest.raises(px.Error) as caught:
        call(np.zeros((6, 40), np.float32))
    assert message in str(caught.value)


def test_rows_that_are_too_long() -> None:
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 1 << 18), (4, 4))
    with pytest.raises(px.Error, match="gradients of rows of 262144 columns do not fit a cluster"):
        choose_backward(x, x, centered=False)
