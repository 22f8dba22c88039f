"""The library's matmul in the simulator, against NumPy in f32."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phalanx as px
from kernels.matmul_operands import ACTIVATIONS, BF16, E4M3, E5M2, as_is, by_columns, close, numbers, product
from phalanx.kernels.products.matmul import CopyWarning, matmul

matmul_module = sys.modules["phalanx.kernels.products.matmul"]  # the name is the function's


@pytest.mark.share(7)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
@pytest.mark.parametrize("a_form", [as_is, by_columns])
@pytest.mark.parametrize("b_form", [as_is, by_columns])
def test_transposes_are_read_as_they_lie(dtype: Any, a_form: Callable, b_form: Callable) -> None:
    a, b = a_form(numbers(136, 80, dtype=dtype)), b_form(numbers(80, 264, dtype=dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CopyWarning)
        got = matmul(a, b)
    assert got.dtype == dtype
    close(got, product(a, b))


@pytest.mark.share(7)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 7), (77, 33, 17), (64, 1000, 8), (129, 257, 65)])
@pytest.mark.parametrize("form", [as_is, by_columns])
@pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")
def test_any_shape(m: int, n: int, k: int, form: Callable) -> None:
    a, b = form(numbers(m, k)), form(numbers(k, n))
    close(matmul(a, b), product(a, b))


def test_unaligned_rows_are_copied_with_a_warning() -> None:
    a, b = numbers(16, 17), numbers(17, 16)
    with pytest.warns(CopyWarning, match=r"copies a, of shape \(16, 17\)") as caught:
        matmul(a, b)
    assert caught[0].filename == __file__
    with pytest.warns(CopyWarning, match="copies a"):  # also the second time
        matmul(a, b)


@pytest.mark.parametrize("step", [-1, 2])
@pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")
def test_any_strides(step: int) -> None:
    a, b = numbers(72, 128)[::step, ::step], numbers(64 if step == 2 else 128, 40)[::1, ::-1]
    close(matmul(a, b), product(a, b))


@pytest.mark.parametrize(
    "shapes", [((0, 8), (8, 4)), ((4, 8), (8, 0)), ((0, 4, 8), (8, 4)), ((4, 0), (0, 4)), ((2, 4, 0), (0, 3))], ids=str
)
def test_nothing(shapes: Any) -> None:
    a, b = (numbers(*shape) for shape in shapes)
    bias = numbers(shapes[1][-1])
    want = np.maximum(product(a, b) + bias.astype(np.float32), 0)
    got = matmul(a, b, bias, "relu")
    assert got.shape == want.shape
    assert np.array_equal(got.astype(np.float32), want)


# What follows the product.


def test_a_nan_passes_relu_and_gelu() -> None:
    a, b = numbers(64, 64), numbers(64, 64)
    a[3, 5] = np.nan
    for activation in ("relu", "gelu", "gelu_tanh", "silu"):
        got = matmul(a, b, activation=activation).astype(np.float32)
        assert np.isnan(got[3]).all() and np.isfinite(np.delete(got, 3, axis=0)).all()


@pytest.mark.share(4)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str) -> None:
    a, b = numbers(64, 16), numbers(16, 72)
    want = ACTIVATIONS[activation](product(a, b))
    got = matmul(a, b, activation=activation, out_dtype=px.f32)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=4e-6)


@pytest.mark.share(4)
@pytest.mark.parametrize("shape", [(136,), (200, 136)])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_bias(shape: tuple[int, ...], dtype: Any) -> None:
    a, b, bias = numbers(200, 72), numbers(72, 136), numbers(*shape, dtype=dtype)
    close(matmul(a, b, bias, "silu"), ACTIVATIONS["silu"](product(a, b) + bias.astype(np.float32)))


@pytest.mark.share(4)
@pytest.mark.parametrize("a_shape, b_shape", [((40, 24), (24,)), ((3, 40, 24), (24,)), ((24,), (3, 24, 72)), ((24,), (24,))])
def test_a_bias_of_the_results_shape_where_there_are_vectors(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    a, b = numbers(*a_shape), numbers(*b_shape)
    want = product(a, b)
    bias = np.asarray(numbers(*want.shape, dtype=np.float32))
    close(matmul(a, b, bias), want + bias)


def test_the_result_may_take_the_place_of_the_bias() -> None:
    a, b, c = numbers(200, 72), numbers(72, 136), numbers(200, 136)
    want = product(a, b) + c.astype(np.float32)
    close(matmul(a, b, c, out=c), want)


def test_an_operand_is_refused_as_out_whatever_was_planned_before() -> None:
    a, b, out = numbers(64, 64), numbers(64, 64), np.zeros((64, 64), BF16)
    matmul(a, b, out=out)
    with pytest.raises(px.Error, match="out is where b is"):
        matmul(a, b, out=b)
    close(matmul(a, b, out=out), product(a, b))


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [px.f32, np.float16, "bf16", "float32"])
def test_types_of_results(dtype: Any) -> None:
    a, b = numbers(80, 40), numbers(40, 264)
    got = matmul(a, b, out_dtype=dtype)
    close(got, product(a, b))


@pytest.mark.share(4)
@pytest.mark.parametrize("form", ["columns", "every other", "unaligned", "f32"])
def test_out(form: str) -> None:
    a, b = numbers(80, 40), numbers(40, 136)
    room = {
        "columns": lambda: np.zeros((136, 80), BF16).T,
        "every other": lambda: np.zeros((160, 272), BF16)[::2, ::2],
        "unaligned": lambda: np.zeros((80, 150), BF16)[:, 3:139],
        "f32": lambda: np.zeros((80, 136), np.float32),
    }
    out = room[form]()
    assert matmul(a, b, out=out) is out
    close(out, product(a, b))
    if form == "unaligned":
        assert not out.base[:, :3].any() and not out.base[:, 139:].any()


# Batches.


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "left, right",
    [
        ((3, 40, 24), (3, 24, 72)),
        ((3, 40, 24), (24, 72)),  # one tall matrix
        ((3, 1, 24), (24, 72)),
        ((40, 24), (3, 24, 72)),
        ((2, 3, 40, 24), (2, 3, 24, 72)),
        ((2, 3, 40, 24), (2, 1, 24, 72)),  # one product per matrix of the first axis
        ((2, 1, 40, 24), (3, 24, 72)),
        ((1, 40, 24), (1, 1, 24, 72)),
        ((24,), (24, 72)),
        ((40, 24), (24,)),
        ((3, 40, 24), (24,)),
        ((24,), (24,)),
        ((24,), (3, 24, 72)),
    ],
    ids=str,
)
def test_batches_broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = numbers(*left), numbers(*right)
    want = product(a, b)
    close(matmul(a, b), want)
    out = np.zeros(want.shape, BF16)
    assert matmul(a, b, out=out) is out
    close(out, want)


@pytest.mark.share(7)
@pytest.mark.parametrize("form", [as_is, by_columns])
@pytest.mark.parametrize("shape", [(72,), (40, 72), (3, 40, 72)])
def test_batches_with_bias(form: Callable, shape: tuple[int, ...]) -> None:
    a, b, bias = form(numbers(3, 40, 24)), form(numbers(3, 24, 72)), numbers(*shape, dtype=np.float32)
    close(matmul(a, b, bias), product(a, b) + bias)


def test_a_bias_of_two_axes_keeps_tall_matrices_apart() -> None:
    a, b, bias = numbers(3, 40, 24), numbers(24, 72), numbers(40, 72)
    close(matmul(a, b, bias), product(a, b) + bias.astype(np.float32))


def test_expanded_batches() -> None:
    a, b = np.broadcast_to(numbers(40, 24), (3, 40, 24)), numbers(3, 24, 72)[::-1]
    with pytest.warns(CopyWarning, match="copies b"):
        got = matmul(a, b)
    close(got, product(a, b))


# 8-bit floats.


@pytest.mark.share(2)
@pytest.mark.parametrize("left, right", [(E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2)])
def test_8_bit_floats(left: Any, right: Any) -> None:
    a, b = numbers(72, 160, dtype=left), by_columns(numbers(160, 136, dtype=right))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CopyWarning)
        got = matmul(a, b)
    assert got.dtype == BF16
    close(got, product(a, b))


def test_8_bit_floats_are_read_along_k() -> None:
    a, b = by_columns(numbers(72, 160, dtype=E4M3)), numbers(160, 136, dtype=E4M3)
    with pytest.warns(CopyWarning, match="8-bit types are read along K only") as caught:
        got = matmul(a, b)
    assert len(caught) == 2
    close(got, product(a, b))


SCALES = {
    "number": lambda rng, shape: float(rng.uniform(0.5, 2)),
    "one": lambda rng, shape: np.full((1,), rng.uniform(0.5, 2), np.float32),
    "no axes": lambda rng, shape: np.full((), rng.uniform(0.5, 2), np.float32),
    "vector": lambda rng, shape: rng.uniform(0.5, 2, shape).astype(np.float32),
    "flat": lambda rng, shape: rng.uniform(0.5, 2, shape).astype(np.float32).reshape(-1),
}


@pytest.mark.share(7)
@pytest.mark.parametrize("left", SCALES)
@pytest.mark.parametrize("right", ["number", "vector"])
def test_scales(left: str, right: str) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(72, 32, dtype=E4M3), by_columns(numbers(32, 136, dtype=E4M3))
    scale_a, scale_b = SCALES[left](rng, (72, 1)), SCALES[right](rng, (1, 136))
    bias = numbers(136)
    got = matmul(a, b, bias, "relu", scale_a=scale_a, scale_b=scale_b, out_dtype=np.float32)
    rows = scale_a.reshape(-1, 1) if left == "flat" else scale_a
    close(got, np.maximum(product(a, b) * rows * scale_b + bias.astype(np.float32), 0))


def test_scales_of_rows_keep_tall_matrices_apart() -> None:
    a, b, scale = numbers(3, 40, 24), numbers(24, 72), np.arange(40, dtype=np.float32)[:, None]
    close(matmul(a, b, scale_a=scale), product(a, b) * scale)
