"""Activations by themselves, and their gradients: for training, which needs what an activation was given."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, is_among, refused
from phalanx.kernels.products.activations import ACTIVATIONS, GELU_A, GELU_B, INVERSE_SQRT2, activate
from phalanx.kernels.rowwise.pairs import gradient_of

INVERSE_SQRT_2PI = 0.3989422804014327
ROWS, COLUMNS = 16, 256
"""Rows and columns of a tile."""


@px.func
def slope(x, ACTIVATION):
    """The derivative of `ACTIVATION` at each element of a tile of f32."""
    if ACTIVATION == "relu":
        return px.where(x > 0.0, 1.0, 0.0)
    if ACTIVATION == "gelu":
        return 0.5 + 0.5 * px.erf(x * INVERSE_SQRT2) + x * INVERSE_SQRT_2PI * px.exp2(x * x * (-0.5 * LOG2E))
    if ACTIVATION == "gelu_tanh":
        t = px.tanh(x * (GELU_A + (GELU_A * GELU_B) * (x * x)))
        return 0.5 + 0.5 * t + (0.5 * x) * (1.0 - t * t) * (GELU_A + (3.0 * GELU_A * GELU_B) * (x * x))
    s = px.sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


@px.kernel(warps=8, pdl=True)
def activate_tiles(X, D, Y, *, ACTIVATION, BM=ROWS, BN=COLUMNS):
    """Y = ACTIVATION(X), or with a gradient of that, D, its product with the slope at X."""
    wait_for_prior_launch()
    m = px.block_id(0) * BM
    n = px.block_id(1) * BN
    x = px.load(X[m : m + BM, n : n + BN]).to(px.f32)
    if D is None:
        y = activate(x, ACTIVATION)
    else:
        y = px.load(D[m : m + BM, n : n + BN]).to(px.f32) * slope(x, ACTIVATION)
    px.store(Y[m : m + BM, n : n + BN], y.to(Y.dtype))


def activated(x: Any, activation: str) -> Any:
    """The activation of every element, in x's type and shape; computed in f32. See `matmul` for the names.

    Any GPU from sm_90, on the current stream, or the simulator for NumPy.
    Example: ``y = activated(matmul(x, w.T), "silu")``.
    """
    return _launch(x, None, activation)


def activation_backward(d: Any, x: Any, activation: str) -> Any:
    """The gradient of `activated`, from that of its result, `d`, and its argument.

    Example: ``dx = activation_backward(d, x, "gelu")``.
    """
    gradient_of("d", d, info_of("x", x))
    return _launch(x, d, activation)


def _launch(x: Any, d: Any, activation: str) -> Any:
    if activation is None or not is_among(activation, ACTIVATIONS):
        raise refused(f"unknown activation {activation!r}", f"use one of {', '.join(map(repr, ACTIVATIONS[1:]))}")
    info = info_of("x", x)
    rows = as_rows(x, info)
    others = None if d is None else as_rows(d, info_of("d", d))
    count, columns = rows.shape
    y = empty(x, (count, columns), info.dtype_name)
    if has_work(count, columns):
        activate_tiles[px.cdiv(count, ROWS), px.cdiv(columns, COLUMNS)](rows, others, y, ACTIVATION=activation)
    return y.reshape(info.shape)
