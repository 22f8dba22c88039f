"""What rows are computed together with: sums with a residual, scales and masks, gradients in the place of logits."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from kernels.test_rowwise import EPS, exact_rms_norm, exact_softmax, near, sample
from phalanx.kernels.rowwise.row_config import RowConfig, choose
from support.host_cuda import COMPILER, MISSING
from support.library_launches import launches

softmax, norms, cross_entropy = (
    importlib.import_module(f"phalanx.kernels.rowwise.{name}") for name in ("softmax", "norms", "cross_entropy")
)
CLUSTER = RowConfig(2, 2, 1, 256, 3, 1)
AGAIN = RowConfig(2, 2, 1, 256, 1, 1, again=2)
ALL_AGAIN = RowConfig(1, 2, 1, 256, 1, again=5)
CHOSEN = [(96, None), (301, None), (1000, None)]
MASKS: dict[str, tuple[int, ...]] = {
    "one row": (301,), "a row for each batch": (2, 1, 1, 301), "rows for all batches": (1, 1, 4, 301),
    "all": (2, 3, 4, 301), "rows for each batch": (2, 1, 4, 301), "rows and heads": (3, 4, 301),
}  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", (np.float32, ml_dtypes.bfloat16))
@pytest.mark.parametrize("columns, config", [*CHOSEN, (1501, CLUSTER), (1501, AGAIN), (1280, ALL_AGAIN)])
def test_add_rms_norm(columns: int, config: RowConfig | None, dtype: Any) -> None:
    x, w, _ = sample(5, columns, dtype)
    residual = sample(5, columns, dtype, seed=1)[0]
    total = (x.astype(np.float32) + residual.astype(np.float32)).astype(dtype)
    got = px.kernels.add_rms_norm(x, residual, w, EPS, config=config)
    assert (residual == total).all()
    near(got, exact_rms_norm(total, w))


@pytest.mark.share(7)
@pytest.mark.parametrize("kind", ("truth", "added"))
@pytest.mark.parametrize("name", MASKS)
def test_masks_of_every_shape(name: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 301)).astype(np.float32)
    mask = rng.random(MASKS[name]) < 0.7 if kind == "truth" else rng.standard_normal(MASKS[name]).astype(np.float32)
    scaled = x.astype(np.float64) * 0.5
    want = np.where(mask, scaled, -np.inf) if kind == "truth" else scaled + mask
    near(px.kernels.softmax(x, scale=0.5, mask=mask), exact_softmax(want))


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", (np.float16, ml_dtypes.bfloat16))
@pytest.mark.parametrize("columns, config", [(64, None), (1000, None), (1501, CLUSTER), (1501, AGAIN), (1280, ALL_AGAIN)])
def test_scaled_rows(columns: int, config: RowConfig | None, dtype: Any) -> None:
    x, mask, _ = sample(4, columns, dtype)
    want = exact_softmax(x.astype(np.float64) * 0.125 + mask.astype(np.float64))
    near(px.kernels.softmax(x, scale=0.125, mask=mask, config=config), want)
    exact = exact_softmax(x.astype(np.float64) * 3)
    near(px.kernels.log_softmax(x, scale=3, config=config), np.log(exact))


@pytest.mark.share(5)
@pytest.mark.parametrize("kind", ("truth", "added", "one row"))
@pytest.mark.parametrize("dtype", (np.float32, np.float16, ml_dtypes.bfloat16))
@pytest.mark.parametrize("columns", (803, 1537, 5003))
def test_masked_rows_that_begin_anywhere(columns: int, dtype: Any, kind: str) -> None:
    """They and their masks are read in whole vectors, as runs of memory; the results of simulator and text are right."""
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((5, columns)).astype(dtype)
    mask = rng.random((5, columns)) < 0.7 if kind == "truth" else rng.standard_normal((5, columns)).astype(dtype)
    mask = mask[:1] if kind == "one row" else mask
    scaled = x.astype(np.float64) * 0.5
    want = exact_softmax(np.where(mask, scaled, -np.inf) if kind == "truth" else scaled + mask.astype(np.float64))
    tolerance = 1e-5 if dtype == np.float32 else 1e-2
    with launches((softmax, "softmax_rows")) as found:
        got = px.kernels.softmax(x, scale=0.5, mask=mask)
    (launch,) = found
    assert len(launch.arguments[0].shape) == len(launch.arguments[1].shape) == 1
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=1e-6)
    if columns < 1000:
        launch.check().raise_if_found()
    if COMPILER is not None:
        y = launch.arguments[2]
        y[...] = 0
        launch.on_host("sm_90a")
        np.testing.assert_allclose(y.reshape(5, columns).astype(np.float64), want, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("value", (float("inf"), float("nan")))
def test_a_mask_concerns_its_own_row(value: float) -> None:
    """Of rows that begin within a vector others' masks are read, too."""
    x, mask = np.zeros((3, 801), np.float32), np.zeros((3, 801), np.float32)
    mask[1] = value
    got = px.kernels.softmax(x, mask=mask)
    assert np.isnan(got[1]).all()
    np.testing.assert_allclose(got[[0, 2]], 1 / 801, rtol=1e-6)


def test_masked_rows_are_read_in_vectors() -> None:
    """Of 5,001 bf16 a thread reads 8 bytes at once, and 4 of a mask of truth values that begins anywhere."""
    with launches((softmax, "softmax_rows"), run=False) as found:
        px.kernels.softmax(np.zeros((4, 5001), ml_dtypes.bfloat16), mask=np.ones((4, 5001), bool))
    made = found[0].compile("sm_90a")
    assert made.spills == 0 and "load_part_words<4>" in made.source and "load_shifted_words<4>" in made.source


def test_a_row_without_anything_that_counts() -> None:
    mask = np.ones((3, 200), bool)
    mask[1] = False
    got = px.kernels.softmax(np.zeros((3, 200), np.float32), mask=mask)
    assert np.isnan(got[1]).all() and (got[[0, 2]] == np.float32(1 / 200)).all()


@pytest.mark.share(4)
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
@pytest.mark.parametrize("columns, config", [*CHOSEN, (1501, CLUSTER), (1501, AGAIN), (1280, ALL_AGAIN)])
def test_gradients_take_the_place_of_logits(columns: int, config: RowConfig | None, reduction: str) -> None:
    x, _, _ = sample(5, columns, np.float32)
    targets = np.arange(5) * 31 % columns
    targets[2] = -100
    exact = exact_softmax(x)
    losses = -np.log(exact)[np.arange(5), np.maximum(targets, 0)]
    losses[2] = 0
    want = exact.copy()
    want[np.arange(5), np.maximum(targets, 0)] -= 1
    want[2] = 0
    loss = px.kernels.cross_entropy(x, targets, reduction=reduction, gradient=True, config=config)
    near(x, want / (4 if reduction == "mean" else 1))
    whole = {"mean": losses.sum() / 4, "sum": losses.sum(), "none": losses}[reduction]
    np.testing.assert_allclose(loss, whole, rtol=1e-5)


FUSED: dict[str, tuple[ModuleType, str, Callable[..., Any]]] = {
    "masked softmax": (softmax, "softmax_rows", lambda x, y, w, **o: softmax.softmax(x, scale=0.5, mask=y > 0, **o)),
    "sum and norm": (norms, "rms_norm_rows", lambda x, y, w, **o: norms.add_rms_norm(x, y, w, **o)),
    "gradient": (
        cross_entropy, "cross_entropy_rows",
        lambda x, y, w, **o: cross_entropy.cross_entropy(x, np.array([7, 1000]), reduction="sum", gradient=True, **o),
    ),
}  # fmt: skip


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("columns", (1501, 1500))
@pytest.mark.parametrize("name", FUSED)
def test_tiles_that_are_read_again_are_clean_and_right_as_text(name: str, columns: int) -> None:
    module, kernel, call = FUSED[name]
    x, w, _ = sample(2, columns, np.float32)
    y = sample(2, columns, np.float32, seed=1)[0]
    with launches((module, kernel)) as found:
        call(x.copy(), y.copy(), w, config=AGAIN)
    (launch,) = found
    assert launch.constants["config"].again == 2
    launch.check().raise_if_found()
    copies = {id(given): given.copy() for given in launch.arguments if isinstance(given, np.ndarray)}
    wanted = [copies.get(id(given), given) for given in launch.arguments]  # logits and gradients are one array
    launch.kernel[launch.grid](*wanted, **launch.constants)
    launch.on_host("sm_90a")
    for mine, want in zip(launch.arguments, wanted):
        if isinstance(mine, np.ndarray):
            np.testing.assert_allclose(mine.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("name", FUSED)
def test_rows_longer_than_a_cluster_holds(name: str) -> None:
    _, _, call = FUSED[name]
    columns = 1_300_001
    x, w, _ = sample(1, columns, np.float32)
    y = sample(1, columns, np.float32, seed=1)[0]
    if name == "gradient":
        kept = x.copy()
        px.kernels.cross_entropy(kept, np.array([1000]), reduction="sum", gradient=True)
        want = exact_softmax(x)
        want[0, 1000] -= 1
        near(kept, want)
    elif name == "sum and norm":
        near(call(x, y, w), exact_rms_norm(y, w))
    else:
        near(call(x, y, w), exact_softmax(np.where(y > 0, x.astype(np.float64) * 0.5, -np.inf)))
    assert choose(columns, 4, again=True).again > 0
    with pytest.raises(px.Error, match="does not fit a cluster"):
        choose(columns, 4)


def test_a_target_that_is_no_class() -> None:
    x = np.zeros((2, 100), np.float32)
    loss = px.kernels.cross_entropy(x, np.array([100, 3]), reduction="none", gradient=True)
    assert np.isnan(loss[0]) and np.isnan(x[0]).all() and np.isfinite(x[1]).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: px.kernels.softmax(x, scale=-1.0), "scale is -1.0"),
        (lambda x: px.kernels.softmax(x, mask=np.ones((4, 7), bool)), "mask has shape (4, 7), the argument (3, 4, 8)"),
        (lambda x: px.kernels.softmax(x, mask=np.ones((3, 1, 1, 8), bool)), "mask has shape (3, 1, 1, 8)"),
        (lambda x: px.kernels.softmax(np.stack([x, x]), mask=np.ones((1, 3, 1, 8), bool)), "mask has shape (1, 3, 1, 8)"),
        (lambda x: px.kernels.softmax(x, mask=np.ones((4, 8), np.int32)), "mask has the element type i32"),
        (lambda x: px.kernels.add_rms_norm(x, x[0]), "residual is f32 (4, 8), the argument f32 (3, 4, 8)"),
        (lambda x: px.kernels.add_rms_norm(x[..., :4], x[..., 4:]), "residual has gaps between its elements"),
        (
            lambda x: px.kernels.cross_entropy(x[..., :4], np.zeros((3, 4), int), gradient=True),
            "logits have gaps between their elements",
        ),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(px.Error) as caught:
        call(np.zeros((3, 4, 8), np.float32))
    assert message in str(caught.value) and "= help: " in str(caught.value)
