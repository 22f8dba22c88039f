"""The row-wise kernels in the simulator against NumPy in f64: short and odd rows, every element type, clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.rowwise.cross_entropy import cross_entropy_rows, sum_of
from phalanx.kernels.rowwise.norms import layer_norm_rows, rms_norm_rows
from phalanx.kernels.rowwise.row_config import RowConfig
from phalanx.kernels.rowwise.softmax import softmax_rows
from phalanx.kernels.rowwise.stream_config import StreamConfig

DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)
COLUMNS = (1, 7, 37, 255, 256, 1000, 1024, 1025, 2048, 4096, 5000)
EPS = 1e-5


def exact_softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def exact_rms_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + EPS) * w.astype(np.float64)


def exact_layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    apart = wide - wide.mean(axis=-1, keepdims=True)
    scaled = apart / np.sqrt((apart**2).mean(axis=-1, keepdims=True) + EPS)
    return scaled * w.astype(np.float64) + b.astype(np.float64)


def near(got: np.ndarray, want: np.ndarray, least: float = 0.0) -> None:
    """Within the rounding of the result's type, and what f32 loses before it; `least`: of numbers that may cancel out."""
    unit = float(ml_dtypes.finfo(got.dtype).eps)
    error = np.abs(got.astype(np.float64) - want)
    limit = unit * np.abs(want) + 2e-6 * np.abs(want).max() + least
    assert np.isfinite(got.astype(np.float64)).all() and (error <= limit).all(), float((error - limit).max())


def sample(rows: int, columns: int, dtype: Any, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = (3 * rng.standard_normal((rows, columns))).astype(dtype)
    return x, rng.standard_normal(columns).astype(dtype), rng.standard_normal(columns).astype(dtype)


def verify(x: np.ndarray, w: np.ndarray, b: np.ndarray, config: RowConfig | StreamConfig | None = None) -> None:
    """All five functions on one matrix."""
    exact = exact_softmax(x)
    for got, want in (
        (px.kernels.softmax(x, config=config), exact),
        (px.kernels.log_softmax(x, config=config), np.log(exact)),
        (px.kernels.rms_norm(x, w, EPS, config=config), exact_rms_norm(x, w)),
        (px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b)),
    ):
        assert type(got) is np.ndarray and got.dtype == x.dtype and got.shape == x.shape
        near(got, want)
    targets = np.arange(len(x)) * 31 % x.shape[1]
    losses = px.kernels.cross_entropy(x, targets, reduction="none", config=config if isinstance(config, RowConfig) else None)
    near(losses, -np.log(exact)[np.arange(len(x)), targets], 2.0**-23)


@pytest.mark.share(18)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", COLUMNS)
def test_all_functions(columns: int, dtype: Any) -> None:
    verify(*sample(5, columns, dtype))


def spread(cluster: int, warps: int, columns: int, dtype: Any, shared: int = 0) -> RowConfig:
    width = 32 * warps * (16 // np.dtype(dtype).itemsize)
    parts = px.cdiv(columns, cluster * width) - shared
    assert parts >= 1
    return RowConfig(cluster, warps, 1, width, parts, shared)


@pytest.mark.share(7)
@pytest.mark.parametrize("dtype", (np.float32, ml_dtypes.bfloat16))
@pytest.mark.parametrize("cluster, warps, columns", [(2, 2, 3000), (4, 2, 8192), (8, 1, 4001), (16, 1, 8193)])
def test_rows_across_a_cluster(cluster: int, warps: int, columns: int, dtype: Any) -> None:
    x, w, b = sample(3, columns, dtype)
    verify(x, w, b, spread(cluster, warps, columns, dtype))


@pytest.mark.share(2)
@pytest.mark.parametrize("cluster", (1, 2))
def test_part_of_the_row_in_shared_memory(cluster: int) -> None:
    x, w, b = sample(2, 2500, np.float32)
    verify(x, w, b, spread(cluster, 2, 2500, np.float32, shared=2))


@pytest.mark.long
def test_the_first_configuration_with_a_cluster() -> None:
    x, w, b = sample(1, 33000, ml_dtypes.bfloat16)
    verify(x, w, b)


def launches(config: RowConfig, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> list[tuple[Any, list[Any]]]:
    grid = config.grid(len(x))
    return [
        (softmax_rows[grid], [x, None, np.zeros_like(x), None, None, None, None]),
        (rms_norm_rows[grid], [x, None, w, np.zeros_like(x), EPS, None]),
        (layer_norm_rows[grid], [x, w, b, np.zeros_like(x), EPS, None]),
        (cross_entropy_rows[grid], [x, np.arange(len(x)), np.zeros(len(x), np.float32), None, None, -100, None]),
    ]


@pytest.mark.share(7)
@pytest.mark.parametrize("which", range(4), ids=("softmax", "rms_norm", "layer_norm", "cross_entropy"))
@pytest.mark.parametrize("cluster", (1, 2, 4))
def test_checked_clean(cluster: int, which: int) -> None:
    config = spread(cluster, 2, 2000, ml_dtypes.bfloat16, shared=1 if cluster == 1 else 0)
    launch, args = launches(config, *sample(2, 2000, ml_dtypes.bfloat16))[which]
    px.check(launch, *args, **config.constants()).raise_if_found()


def test_several_rows_in_a_cta_checked_clean() -> None:
    x, w, b = sample(5, 100, np.float32)
    config = RowConfig(1, 2, 4, 64, 2)
    for launch, args in launches(config, x, w, b):
        px.check(launch, *args, **config.constants()).raise_if_found()


def test_infinities_and_not_a_number() -> None:
    x = np.zeros((4, 300), np.float32)
    x[0, 10:] = -np.inf
    x[1, 5] = np.nan
    x[2, :] = -np.inf
    got = px.kernels.softmax(x)
    np.testing.assert_allclose(got[0, :10], 0.1, rtol=1e-6)
    assert (got[0, 10:] == 0).all() and np.isnan(got[1:3]).all()
    np.testing.assert_allclose(got[3], 1 / 300, rtol=1e-6)


def test_large_offsets_cancel() -> None:
    x, _, _ = sample(2, 1500, np.float32)
    near(px.kernels.softmax(x + np.float32(4096)), exact_softmax(x + np.float32(4096)))
    weight, bias = np.ones(1500, np.float32), np.zeros(1500, np.float32)
    got = px.kernels.layer_norm(x + np.float32(4096), weight, bias, EPS)
    np.testing.assert_allclose(got, exact_layer_norm(x + np.float32(4096), weight, bias), atol=2e-4)


def with_large_mean(rows: int, columns: int) -> tuple[np.ndarray, ...]:
    """Around 1,000, a standard deviation of 1: x^2 and its mean squared agree in six digits, of the seven that f32 has."""
    rng = np.random.default_rng(1)
    x = (1000 + rng.standard_normal((rows, columns))).astype(np.float32)
    return x, *(rng.standard_normal((2, columns)).astype(np.float32))


def near_with_large_mean(got: np.ndarray, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> None:
    """The mean itself is known to one rounding of f32 at 1,000, 6e-5; of the variance's digits none is lost to it."""
    np.testing.assert_allclose(got, exact_layer_norm(x, w, b), rtol=0, atol=1.5e-4 * float(np.abs(w).max()))
    scaled = (got.astype(np.float64) - b)[:, np.abs(w) > 0.1] / w[np.abs(w) > 0.1]
    wide = x.astype(np.float64)[:, np.abs(w) > 0.1]
    slope = ((scaled - scaled.mean(1, keepdims=True)) * (wide - wide.mean(1, keepdims=True))).sum(1)
    slope /= ((wide - wide.mean(1, keepdims=True)) ** 2).sum(1)
    np.testing.assert_allclose(slope, 1 / np.sqrt(x.astype(np.float64).var(axis=1) + EPS), rtol=5e-6)


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "config, columns",
    [
        (RowConfig(1, 4, 1, 512, 2), 1024), (RowConfig(1, 4, 1, 512, 2), 1001), (RowConfig(2, 4, 1, 512, 2), 1500),
        (RowConfig(4, 2, 1, 256, 2), 2048), (RowConfig(4, 2, 1, 256, 2), 1156), (RowConfig(4, 2, 1, 256, 2), 1037),
        (RowConfig(2, 2, 1, 256, 1, shared=2), 1300), (RowConfig(1, 2, 4, 64, 2), 100), (RowConfig(2, 2, 4, 64, 2), 190),
        (RowConfig(2, 2, 4, 64, 2), 256), (RowConfig(2, 2, 4, 64, 2), 100),
    ],
)  # fmt: skip
def test_a_large_mean_costs_no_digits(config: RowConfig, columns: int) -> None:
    """Also where warps, or whole CTAs, have no column of the row, and where rows begin anywhere."""
    x, w, b = with_large_mean(6, columns)
    near_with_large_mean(px.kernels.layer_norm(x, w, b, EPS, config=config), x, w, b)
    padded = np.zeros((6, columns + 3), np.float32)
    padded[:, 3:] = x
    near_with_large_mean(px.kernels.layer_norm(padded[:, 3:], w, b, EPS, config=config), x, w, b)


@pytest.mark.parametrize("warps, first", ((1, 1), (4, 512), (4, 700)))
def test_parts_of_a_row_with_means_far_apart(warps: int, first: int) -> None:
    """What is folded is mostly the distance of the warps' means from the row's."""
    x, w, b = sample(3, 2000, np.float32)
    x[:, :first] += 3000
    for cluster in (1, 2):
        config = RowConfig(cluster, warps, 1, 128 * warps, px.cdiv(2000, 128 * warps * cluster))
        np.testing.assert_allclose(
            px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(x, w, b), rtol=1e-5, atol=1e-5
        )


def test_losses_reductions_and_ignored_rows() -> None:
    x, _, _ = sample(6, 50, np.float32)
    targets = np.array([3, -100, 49, 0, 50, 7])
    losses = px.kernels.cross_entropy(x, targets, reduction="none")
    assert losses[1] == 0 and np.isnan(losses[4]), "an ignored row, a target that is no class"
    good = targets.copy()
    good[4] = 1
    each = px.kernels.cross_entropy(x, good, reduction="none")
    assert np.isclose(px.kernels.cross_entropy(x, good), each.sum() / 5)
    assert np.isclose(px.kernels.cross_entropy(x, good, reduction="sum"), each.sum())


def test_sums_of_many_losses_and_of_none() -> None:
    losses = np.linspace(0, 1, 150_001, dtype=np.float32)
    targets = np.arange(len(losses))
    targets[::3] = -7
    assert np.isclose(sum_of(losses, targets, -7, False)[0], losses.sum(dtype=np.float64), rtol=1e-6)
    mean = losses.sum(dtype=np.float64) / (targets != -7).sum()
    assert np.isclose(sum_of(losses, targets, -7, True)[0], mean, rtol=1e-6)
    none, nothing = np.zeros((0, 5), np.float32), np.zeros(0, np.int64)
    assert px.kernels.cross_entropy(none, nothing, reduction="sum") == 0
    assert np.isnan(px.kernels.cross_entropy(none, nothing))


@pytest.mark.parametrize("columns", (50, 2000))
def test_targets_that_are_no_classes(columns: int) -> None:
    """Of rows that share a CTA, and of rows with CTAs of their own; what 32 bits do not hold is no class either."""
    x, _, _ = sample(6, columns, np.float32)
    targets = np.array([3, -1, columns, 2**32 + 3, -(2**32) + 3, columns - 1])
    losses = px.kernels.cross_entropy(x, targets, reduction="none")
    assert np.isnan(losses[1:5]).all()
    for row in (0, 5):
        assert np.isclose(losses[row], -np.log(exact_softmax(x[row : row + 1])[0, targets[row]]), rtol=1e-5)


def test_leading_axes_and_strides() -> None:
    x, w, _ = sample(6, 40, np.float32)
    near(px.kernels.softmax(x.reshape(2, 3, 40)), exact_softmax(x).reshape(2, 3, 40))
    near(px.kernels.rms_norm(x[::2, 3:], w[3:], EPS), exact_rms_norm(x[::2, 3:], w[3:]))
    near(px.kernels.softmax(x.T), exact_softmax(np.ascontiguousarray(x.T)))
    assert px.kernels.softmax(x[:0]).shape == (0, 40) and px.kernels.softmax(x[:, :0]).shape == (6, 0)
    near(px.kernels.rms_norm(x[0]), exact_rms_norm(x[0], np.ones(40)))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: px.kernels.softmax(x.astype(np.int32)), "the argument has the element type i32"),
        (lambda x: px.kernels.softmax([1.0]), "the argument is a list, not an array"),
        (lambda x: px.kernels.rms_norm(x, x[0, :3]), "weight has shape (3,), the rows have 40 columns"),
        (lambda x: px.kernels.cross_entropy(x, np.zeros(3, np.int64)), "targets have shape (3,), the logits (6, 40)"),
        (lambda x: px.kernels.cross_entropy(x, np.zeros(6, np.int64), reduction="min"), "unknown reduction 'min'"),
        (lambda x: px.kernels.cross_entropy(x, np.zeros(6, np.int64), ignore_index=1.5), "ignore_index=1.5 is no target"),
        (lambda x: px.kernels.cross_entropy(x, np.zeros(6, np.int64), ignore_index=None), "ignore_index=None is no target"),
        (lambda x: px.kernels.cross_entropy(x[:, :0], np.zeros(6, np.int64)), "logits of shape (6, 0) have no classes"),
        (lambda x: px.kernels.softmax(x[0, 0]), "not an array"),
    ],
)
def test_errors(call: Callable[[np.ndarray], Any], message: str) -> None:
    with pytest.raises(px.Error) as caught:
        call(np.zeros((6, 40), np.float32))
    assert message in str(caught.value)


@pytest.mark.share(2)
@pytest.mark.parametrize("cluster", (1, 2, 4))
def test_parts_that_are_all_minus_infinity(cluster: int) -> None:
    """Of a warp, of a CTA, of a whole row: a part without a finite element counts nothing, a row without one is NaN."""
    config = RowConfig(cluster, 4, 1, 512, 1)
    x = np.random.default_rng(0).standard_normal((5, cluster * 512)).astype(np.float32)
    x[0, :128] = -np.inf  # the first warp's
    x[1, : cluster * 512 - 128] = -np.inf  # all but the last warp's
    x[2, 1:] = -np.inf
    x[3] = -np.inf
    with np.errstate(invalid="ignore"):
        want = exact_softmax(x)
        got = px.kernels.softmax(x, config=config)
        logs = px.kernels.log_softmax(x, config=config)
        losses = px.kernels.cross_entropy(x, np.zeros(5, np.int64), reduction="none", config=config)
    finite = [0, 1, 2, 4]
    near(got[finite], want[finite])
    assert np.isnan(got[3]).all() and np.isnan(logs[3]).all() and np.isnan(losses[3])
    assert (got[finite][want[finite] == 0] == 0).all() and np.isneginf(logs[0, :128]).all()
    assert np.isposinf(losses[0]) and losses[2] == 0 and np.isfinite(losses[4])


def test_a_nan_makes_its_row_nan_and_no_other() -> None:
    x = np.random.default_rng(0).standard_normal((4, 1024)).astype(np.float32)
    x[1, 700], x[3] = np.nan, -np.nan
    targets = np.zeros(4, np.int64)
    for cluster in (1, 2):
        config = RowConfig(cluster, 4, 1, 512, 2 // cluster)
        for got in (
            px.kernels.softmax(x, config=config),
            px.kernels.log_softmax(x, config=config),
            px.kernels.cross_entropy(x, targets, reduction="none", config=config)[:, None],
        ):
            assert np.isnan(got[[1, 3]]).all() and np.isfinite(got[[0, 2]]).all()


@pytest.mark.share(7)
@pytest.mark.parametrize("kind", ("softmax", "layer_norm"))
@pytest.mark.parametrize("cluster, waits", ((1, 0), (2, 1), (8, 1)))
def test_a_row_takes_one_exchange(cluster: int, waits: int, kind: str) -> None:
    """Each warp's maximum and sum, or sum and squares, travel together; a CTA alone has one barrier of its threads."""
    config = RowConfig(cluster, 16, 1, 4096, 2)
    x, vector = px.spec((64, cluster * 8192), px.bf16), px.spec((cluster * 8192,), px.bf16)
    launch, args = softmax_rows[config.grid(64)], (x, None, x, None, None, None, None)
    if kind == "layer_norm":
        launch, args = layer_norm_rows[config.grid(64)], (x, vector, vector, x, EPS, None)
    made = px.compile(launch, *args, **config.constants())
    assert made.ptx.count("st.async") == waits and made.ptx.count("try_wait") == waits
    assert made.ptx.count("bar.sync") + made.ptx.count("barrier.sync") == (cluster == 1)
