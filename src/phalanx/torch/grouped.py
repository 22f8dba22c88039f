"""Grouped products and those of a mixture of experts as operators."""

from __future__ import annotations

from typing import Any

import torch

from phalanx import kernels
from phalanx.kernels.gather_backward import scaled_rows
from phalanx.kernels.products.grouped_backward import (
    grouped_bias_gradients,
    grouped_row_gradients,
    grouped_weight_gradients,
    moe_row_gradients,
)
from phalanx.torch.calls import as_sizes, nothing, refuse_config
from phalanx.torch.library import Rule, operator, ops
from phalanx.torch.plain import is_recorded
from phalanx.torch.products import NAMES
from phalanx.torch.straight import straight

# --- what their gradients are made of -----------------------------------------------------------------------------------


@operator("grouped_rows_backward(Tensor d, Tensor w, Tensor group_sizes) -> Tensor", second="grouped_matmul and moe_matmul")
def _rows_backward(d: Any, w: Any, group_sizes: Any) -> Any:
    return grouped_row_gradients(d, w, group_sizes)


@operator(
    "grouped_weights_backward(Tensor d, Tensor x, Tensor group_sizes, Tensor? idx) -> Tensor",
    second="grouped_matmul and its kin",
)
def _weights_backward(d: Any, x: Any, group_sizes: Any, idx: Any) -> Any:
    rows = x if idx is None else kernels.gather_rows(x, idx)
    return grouped_weight_gradients(d, rows, group_sizes, group_sizes.shape[0])


@operator("grouped_biases_backward(Tensor d, Tensor group_sizes, ScalarType dtype) -> Tensor", second="grouped_matmul")
def _biases_backward(d: Any, group_sizes: Any, dtype: Any) -> Any:
    return grouped_bias_gradients(d, group_sizes, group_sizes.shape[0], NAMES[dtype])


@operator(
    "moe_rows_backward(Tensor d, Tensor w, Tensor group_sizes, Tensor idx, SymInt rows) -> Tensor",
    second="moe_gather_matmul",
)
def _moe_rows_backward(d: Any, w: Any, group_sizes: Any, idx: Any, rows: int) -> Any:
    return moe_row_gradients(d, w, group_sizes, idx, rows).to(d.dtype)


@operator("scaled_rows(Tensor x, Tensor weight, Tensor? dot_with) -> (Tensor, Tensor)", second="moe_matmul_scatter")
def _scaled_rows(x: Any, weight: Any, dot_with: Any) -> Any:
    scaled, dots = scaled_rows(x, weight, dot_with)
    return scaled, nothing(x) if dots is None else dots


# --- grouped_matmul -----------------------------------------------------------------------------------------------------


def _save_grouped(ctx: Any, inputs: Any, output: Any) -> None:
    x, w, sizes, bias, ctx.activation, _ = inputs
    ctx.save_for_backward(x, w, sizes, bias)


def _grouped_gradients(ctx: Any, d: Any) -> Any:
    x, w, sizes, bias = ctx.saved_tensors
    d = d.contiguous()
    if ctx.activation is not None:
        before = ops.grouped_matmul(x, w, sizes, bias, None)
        d = ops.activation_backward(d, before, ctx.activation)
    needs = ctx.needs_input_grad
    dx = ops.grouped_rows_backward(d, w, sizes) if needs[0] else None
    dw = ops.grouped_weights_backward(d, x, sizes, None) if needs[1] else None
    dbias = ops.grouped_biases_backward(d, sizes, bias.dtype) if bias is not None and needs[3] else None
    return dx, dw, None, dbias, None, None


@operator(
    "grouped_matmul(Tensor x, Tensor w, Tensor group_sizes, Tensor? bias=None, str? activation=None, str? arch=None) "
    "-> Tensor",
    rule=Rule(_save_grouped, _grouped_gradients), casts=("x", "w"),
)
def _grouped_matmul(
    x: Any, w: Any, group_sizes: Any, bias: Any = None, activation: Any = None, arch: Any = None
) -> Any:
    return kernels.grouped_matmul(x, w, group_sizes, bias=bias, activation=activation, arch=arch)


@operator(
    "grouped_matmul_out(Tensor x, Tensor w, Tensor group_sizes, Tensor(a!) out, Tensor? bias=None, str? activation=None, "
    "str? arch=None) -> ()",
    casts=("x", "w"),
)
def _grouped_matmul_out(
    x: Any, w: Any, group_sizes: Any, out: Any, bias: Any = None, activation: Any = None, arch: Any = None
) -> None:
    kernels.grouped_matmul(x, w, group_sizes, bias=bias, activation=activation, out=out, arch=arch)


@straight(kernels.grouped_matmul, "x", "w", "group_sizes", "bias", "out", casts=True)
def grouped_matmul(
    x: Any, w: Any, group_sizes: Any, *, bias: Any = None, activation: str | None = None, out: Any = None,
    config: Any = None, arch: str | None = None,
) -> Any:
    """`px.kernels.grouped_matmul` with gradients, for eager and compiled code; takes autocast's type.

    Rows behind the last group have the gradient 0. With an activation, what it was given is multiplied again for the
    gradient. Example: ``y = px.torch.grouped_matmul(x_sorted, w, counts)``.
    """
    refuse_config(config)
    sizes = as_sizes(group_sizes, x)
    if out is None or is_recorded(x, w, bias, out):
        y = ops.grouped_matmul(x, w, sizes, bias, activation, arch)
        return y if out is None else out.copy_(y)
    ops.grouped_matmul_out(x, w, sizes, out, bias, activation, arch)
    return out


# --- mixtures of experts ------------------------------------------------------------------------------------------------


def _save_gathered(ctx: Any, inputs: Any, output: Any) -> None:
    x, idx, w, sizes, _ = inputs
    ctx.save_for_backward(x, idx, w, sizes)


def _gathered_gradients(ctx: Any, d: Any) -> Any:
    x, idx, w, sizes = ctx.saved_tensors
    needs, d = ctx.needs_input_grad, d.contiguous()
    dx = ops.moe_rows_backward(d, w, sizes, idx, x.shape[0]) if needs[0] else None
    dw = ops.grouped_weights_backward(d, x, sizes, idx) if needs[2] else None
    return dx, None, dw, None, None


@operator(
    "moe_gather_matmul(Tensor x, Tensor idx, Tensor w, Tensor group_sizes, str? arch=None) -> Tensor",
    rule=Rule(_save_gathered, _gathered_gradients), casts=("x", "w"),
)
def _moe_gather_matmul(x: Any, idx: Any, w: Any, group_sizes: Any, arch: Any = None) -> Any:
    return kernels.moe_gather_matmul(x, idx, w, group_sizes, arch=arch)


@straight(kernels.moe_gather_matmul, "x", "idx", "w", "group_sizes", "out", casts=True)
def moe_gather_matmul(
    x: Any, idx: Any, w: Any, group_sizes: Any, *, out: Any = None, arch: str | None = None, **options: int
) -> Any:
    """`px.kernels.moe_gather_matmul` with gradients, for eager and compiled code; takes autocast's type.

    Example: ``h = px.torch.moe_gather_matmul(x, order, w1, counts)``.
    """
    refuse_config(options or None)
    y = ops.moe_gather_matmul(x, idx, w, as_sizes(group_sizes, x), arch)
    return y if out is None else out.copy_(y)


def _save_sorted(ctx: Any, inputs: Any, output: Any) -> None:
    x, w, sizes, _ = inputs
    ctx.save_for_backward(x, w, sizes)


def _sorted_gradients(ctx: Any, d: Any) -> Any:
    x, w, sizes = ctx.saved_tensors
    needs, d = ctx.needs_input_grad, d.contiguous()
    dx = ops.grouped_rows_backward(d, w, sizes) if needs[0] else None
    dw = ops.grouped_weights_backward(d, x, sizes, None) if needs[1] else None
    return dx, dw, None, None


@operator(
    "moe_matmul(Tensor x, Tensor w, Tensor group_sizes, str? arch=None) -> Tensor",
    rule=Rule(_save_sorted, _sorted_gradients), casts=("x", "w"),
)
def _moe_matmul(x: Any, w: Any, group_sizes: Any, arch: Any = None) -> Any:
    return kernels.moe_matmul(x, w, group_sizes, arch=arch)


@straight(kernels.moe_matmul, "x", "w", "group_sizes", "out", casts=True)
def moe_matmul(x: Any, w: Any, group_sizes: Any, *, out: Any = None, arch: str | None = None, **options: int) -> Any:
    """`px.kernels.moe_matmul` with gradients, for eager and compiled code; takes autocast's type.

    Example: ``y = px.torch.moe_matmul(x_sorted, w, counts)``.
    """
    refuse_config(options or None)
    y = ops.moe_matmul(x, w, as_sizes(group_sizes, x), arch)
    return y if out is None else out.copy_(y)


def _save_scattered(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])


def _scattered_gradients(ctx: Any, d: Any) -> Any:
    """Row i of the result is weight[i] * (h[i] @ w[e].T): its gradient comes by index, and is weighed twice."""
    h, w, sizes, idx, weight = ctx.saved_tensors
    needs = ctx.needs_input_grad
    rows = ops.gather_rows(d.to(h.dtype).contiguous(), idx)
    dh = dw = dweight = None
    if needs[0] or needs[4]:
        unweighted = ops.grouped_rows_backward(rows, w, sizes)
        dh, dweight = ops.scaled_rows(unweighted, weight, h)
    if needs[1]:
        dw = ops.grouped_weights_backward(ops.scaled_rows(rows, weight, None)[0], h, sizes, None)
    return dh, dw, None, None, dweight if needs[4] else None, d if needs[5] else None, None


@operator(
    "moe_matmul_scattered(Tensor h, Tensor w, Tensor group_sizes, Tensor idx, Tensor weight, Tensor out, str? arch=None) "
    "-> Tensor",
    rule=Rule(_save_scattered, _scattered_gradients), casts=("h", "w"),
)
def _moe_matmul_scattered(
    h: Any, w: Any, group_sizes: Any, idx: Any, weight: Any, out: Any, arch: Any = None
) -> Any:
    made = out.clone(memory_format=torch.contiguous_format)
    return kernels.moe_matmul_scatter(h, w, group_sizes, idx, weight, made, arch=arch)


@operator(
    "moe_matmul_scatter(Tensor h, Tensor w, Tensor group_sizes, Tensor idx, Tensor weight, Tensor(a!) out, str? arch=None) "
    "-> ()",
    casts=("h", "w"),
)
def _moe_matmul_scatter(
    h: Any, w: Any, group_sizes: Any, idx: Any, weight: Any, out: Any, arch: Any = None
) -> None:
    kernels.moe_matmul_scatter(h, w, group_sizes, idx, weight, out, arch=arch)


@straight(kernels.moe_matmul_scatter, "h", "w", "group_sizes", "idx", "weight", "out", casts=True)
def moe_matmul_scatter(
    h: Any, w: Any, group_sizes: Any, idx: Any, weight: Any, out: Any, *, arch: str | None = None, **options: int
) -> Any:
    """`px.kernels.moe_matmul_scatter` with gradients, for eager and compiled code; takes autocast's type.

    Example: ``px.torch.moe_matmul_scatter(h, w2, counts, order, gates, y)``.
    """
    refuse_config(options or None)
    sizes = as_sizes(group_sizes, h)
    if is_recorded(h, w, weight, out):
        return out.copy_(ops.moe_matmul_scattered(h, w, sizes, idx, weight, out, arch))
    ops.moe_matmul_scatter(h, w, sizes, idx, weight, out, arch)
    return out
