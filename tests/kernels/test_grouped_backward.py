"""Gradients of grouped products, gathers and activations in the simulator against f64; clean, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.gather_backward import add_rows, dot_rows, gather_backward, scaled_rows
from phalanx.kernels.products.activations_backward import activate_tiles, activated, activation_backward
from phalanx.kernels.products.group_tiles import planned
from phalanx.kernels.products.grouped import GroupedConfig, grouped_ring
from phalanx.kernels.products.grouped_backward import (
    group_gradients,
    group_sums,
    grouped_bias_gradients,
    grouped_row_gradients,
    grouped_weight_gradients,
    moe_row_gradients,
)
from phalanx.kernels.products.moe import expert_ring

BF16 = ml_dtypes.bfloat16
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(erf)(x / 2**0.5)),
    "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name: str) -> None:
    """The gradient by finite differences of the function in f64."""
    rng = np.random.default_rng(0)
    x, d = (3 * rng.standard_normal((2, 5, 300))).astype(np.float32)
    wide, step, function = x.astype(np.float64), 1e-6, FUNCTIONS[name]
    np.testing.assert_allclose(activated(x, name), function(wide), atol=3e-6)
    slope = (function(wide + step) - function(wide - step)) / (2 * step)
    np.testing.assert_allclose(activation_backward(d, x, name), d * slope, atol=2e-5)
    half = x.astype(BF16)
    assert activated(half[None], name).shape == (1, 5, 300) and activated(half, name).dtype == BF16


def test_activations_in_the_tails() -> None:
    x = np.array([[-1e4, -40.0, 40.0, 1e4]], np.float32)
    for name in FUNCTIONS:
        np.testing.assert_allclose(activation_backward(np.ones_like(x), x, name), [[0, 0, 1, 1]], atol=1e-6)


@pytest.mark.parametrize("dtype", (np.float32, BF16))
def test_rows_that_were_taken_often_are_summed_in_f32(dtype: Any) -> None:
    d = np.random.default_rng(0).standard_normal((40, 100)).astype(dtype)
    names = np.arange(40) % 3 - 1
    names[-1] = 9
    want = np.zeros((5, 100))
    for row, name in zip(d.astype(np.float64), names):
        if 0 <= name < 5:
            want[name] += row
    got = gather_backward(d, names, 5)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=float(ml_dtypes.finfo(dtype).eps), atol=1e-5)
    assert (gather_backward(d[:0], names[:0], 5) == 0).all()


def test_scaled_rows() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 20, 150)).astype(BF16)
    weight = rng.standard_normal(20).astype(np.float32)
    scaled, dots = scaled_rows(x, weight, y)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(scaled.astype(np.float64), wide * weight[:, None], rtol=2**-8)
    np.testing.assert_allclose(dots, (wide * y.astype(np.float64)).sum(1), atol=1e-4)
    assert scaled_rows(x, weight)[1] is None


SIZES = [70, 0, 100, 3]


@pytest.mark.parametrize("sizes", [SIZES, [0, 0, 0, 0], [64, 64, 0, 45], [1, 1, 1, 1]])
def test_weights_and_biases(sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    d, x = rng.standard_normal((180, 136)).astype(BF16), rng.standard_normal((180, 72)).astype(BF16)
    x[sum(sizes) :] = np.nan  # rows of no group are looked at by nobody
    d[sum(sizes) :] = np.nan
    weights, biases = grouped_weight_gradients(d, x, sizes, 4), grouped_bias_gradients(d, sizes, 4, "f32")
    start = 0
    for group, size in enumerate(sizes):
        rows = d[start : start + size].astype(np.float64)
        want = rows.T @ x[start : start + size].astype(np.float64)
        np.testing.assert_allclose(weights[group].astype(np.float64), want, rtol=2**-8, atol=2e-5)
        np.testing.assert_allclose(biases[group], rows.sum(0), atol=2e-5)
        start += size


@pytest.mark.share(2)
@pytest.mark.parametrize("sizes", [SIZES, [130, 0, 40, 3]])
def test_rows(sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    d, w = rng.standard_normal((180, 136)).astype(BF16), rng.standard_normal((4, 136, 72)).astype(BF16)
    names = np.arange(180) * 7 % 50 - 1  # and some that name no row
    want, taken, start = np.zeros((180, 72)), np.zeros((48, 72)), 0
    for group, size in enumerate(sizes):
        for row in range(start, start + size):
            want[row] = d[row].astype(np.float64) @ w[group].astype(np.float64)
            if 0 <= names[row] < 48:
                taken[names[row]] += want[row]
        start += size
    np.testing.assert_allclose(grouped_row_gradients(d, w, sizes).astype(np.float64), want, rtol=2**-8, atol=2e-5)
    np.testing.assert_allclose(moe_row_gradients(d, w, sizes, names, 48), taken, rtol=1e-5, atol=1e-4)


def test_turned_weights_are_clean() -> None:
    rng = np.random.default_rng(0)
    d, w = rng.standard_normal((180, 136)).astype(BF16), rng.standard_normal((4, 136, 72)).astype(BF16)
    table, cut = planned(np.array(SIZES, np.int32), d, 180, 4, 128), GroupedConfig()
    y, sums, names = np.zeros((180, 72), BF16), np.zeros((48, 72), np.float32), np.arange(180) % 48
    launch = grouped_ring[2, 2]
    px.check(launch, d, w, y, table, table, **cut.constants(), TURNED=True).raise_if_found()
    weight, options = np.ones(180, np.float32), {"GATHER": False, "SCATTER": True, "TURNED": True}
    px.check(expert_ring[4], d, names, w, sums, table, weight, **options).raise_if_found()


@pytest.mark.long
def test_turned_weights_compile_without_spills() -> None:
    d, w = px.spec((8192, 4096), px.bf16), px.spec((8, 4096, 2048), px.bf16)
    y, sums, table = px.spec((8192, 2048), px.bf16), px.spec((4096, 2048), px.f32), px.spec((4, 96), px.i32)
    assert px.compile(grouped_ring[2, 2], d, w, y, table, table, **GroupedConfig().constants(), TURNED=True).spills == 0
    names, weight, options = px.spec((8192,), px.i64), px.spec((8192,), px.f32), {"GATHER": False, "SCATTER": True}
    assert px.compile(expert_ring[4], d, names, w, sums, table, weight, **options, TURNED=True).spills == 0


def test_no_rows() -> None:
    none = np.zeros((0, 16), BF16)
    assert (grouped_weight_gradients(none, none, [0, 0], 2) == 0).all()


def test_checked_clean() -> None:
    rng = np.random.default_rng(0)
    d, x = rng.standard_normal((180, 136)).astype(BF16), rng.standard_normal((180, 72)).astype(BF16)
    sizes = np.array(SIZES, np.int32)
    names, sums = np.arange(180) % 5, np.zeros((5, 72), np.float32)
    for launch, args, constants in (
        (group_gradients[2, 1, 4], (d, x, sizes, np.zeros((4, 136, 72), BF16)), {"GROUPS": 4}),
        (group_sums[2, 4], (d, sizes, np.zeros((4, 136), BF16)), {"GROUPS": 4}),
        (add_rows[12, 1], (x, names, sums), {}),
        (dot_rows[12], (x, x, x[:, 0].copy(), np.zeros_like(x), np.zeros(180, np.float32)), {}),
        (activate_tiles[12, 1], (x, x, np.zeros_like(x)), {"ACTIVATION": "gelu"}),
    ):
        px.check(launch, *args, **constants).raise_if_found()


@pytest.mark.long
def test_compiled_without_spills() -> None:
    d, x, w = px.spec((8192, 4096), px.bf16), px.spec((8192, 2048), px.bf16), px.spec((8, 4096, 2048), px.bf16)
    sizes, names = px.spec((8,), px.i32), px.spec((8192,), px.i64)
    weight, table = px.spec((8192,), px.f32), px.spec((512, 2048), px.f32)
    for launch, args, constants in (
        (group_gradients[32, 16, 8], (d, x, sizes, w), {"GROUPS": 8}),
        (group_sums[32, 8], (d, sizes, px.spec((8, 4096), px.bf16)), {"GROUPS": 8}),
        (add_rows[512, 16], (x, names, table), {}),
        (dot_rows[512], (x, x, weight, x, weight), {}),
        *((activate_tiles[512, 8], (x, x, x), {"ACTIVATION": name}) for name in FUNCTIONS),
    ):
        assert px.compile(launch, *args, **constants).spills == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: activated(x, "tanh"), "unknown activation 'tanh'"),
        (lambda x: activated(x, None), "unknown activation None"),
        (lambda x: gather_backward(x, np.arange(3), 5), "idx has shape (3,), d (6, 40)"),
        (lambda x: scaled_rows(x, x[:3, 0]), "x has shape (6, 40), weight (3,)"),
        (lambda x: grouped_weight_gradients(x, x[:3], [6], 1), "d has shape (6, 40), x (3, 40)"),
        (lambda x: grouped_weight_gradients(x, x.astype(np.float16), [6], 1), "d is bf16, x is f16"),
        (lambda x: grouped_weight_gradients(x[:, 1:], x, [6], 1), "the rows of d, of strides (40, 1), do not begin"),
    ],
)
def test_errors(call: Callable[[np.ndarray], Any], message: str) -> None:
    with pytest.raises(px.Error) as caught:
        call(np.zeros((6, 40), BF16))
    assert message in str(caught.value)
