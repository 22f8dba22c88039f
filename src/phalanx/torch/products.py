"""Products of matrices as operators: `matmul` and `split_k_matmul`, with bias and activation."""

from __future__ import annotations

from typing import Any

import torch

from phalanx import kernels
from phalanx.errors import Error, caller_location
from phalanx.kernels.products.activations_backward import activated, activation_backward
from phalanx.kernels.rowwise.column_sums import column_sums
from phalanx.torch.calls import NUMBERS, batched_alike, refuse_config
from phalanx.torch.library import Rule, operator, ops
from phalanx.torch.plain import is_recorded
from phalanx.torch.straight import straight

_Tensor, _F32, _precision = torch.Tensor, torch.float32, torch._C._get_float32_matmul_precision
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
"""Types of gradients as the library calls them."""

# --- activations and sums -----------------------------------------------------------------------------------------------


@operator("activation_backward(Tensor d, Tensor x, str activation) -> Tensor", second="matmul with an activation")
def _activation_backward(d: Any, x: Any, activation: str) -> Any:
    return activation_backward(d, x, activation)


def _save_activated(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.activation = inputs
    ctx.save_for_backward(x)


def _activated_gradient(ctx: Any, d: Any) -> Any:
    return ops.activation_backward(d, ctx.saved_tensors[0], ctx.activation), None


@operator(
    "activated(Tensor x, str activation) -> Tensor", rule=Rule(_save_activated, _activated_gradient),
    batch=batched_alike(lambda: torch.ops.phalanx.activated, 1),
)
def _activated(x: Any, activation: str) -> Any:
    return activated(x, activation)


@operator("column_sums(Tensor x, ScalarType dtype) -> Tensor", second="matmul with a bias")
def _column_sums(x: Any, dtype: Any) -> Any:
    return column_sums(x, NAMES[dtype])


# --- matmul -------------------------------------------------------------------------------------------------------------

SCALES = (
    "Tensor? scale_a=None, Tensor? scale_b=None, Tensor? tensor_scale=None, float? factor=None, float? tensor_factor=None"
)


def _save_product(ctx: Any, inputs: Any, output: Any) -> None:
    a, b, bias, ctx.activation, *scales = inputs[:9]
    ctx.tf32 = inputs[11] if len(inputs) > 11 else False
    if [scale for scale in scales if scale is not None]:
        for x, name in ((a, "a"), (b, "b")):
            if x.requires_grad:
                raise Error(
                    f"{name} requires grad, and products with scales have no gradient: this one would be lost",
                    location=caller_location(), remedy=f"pass {name}.detach(), or multiply bf16 operands without scales",
                )
    ctx.arguments = len(inputs)
    ctx.save_for_backward(a, b, bias)


def _product_gradients(ctx: Any, d: Any) -> Any:
    a, b, bias = ctx.saved_tensors
    if ctx.activation is not None:
        before = _product(a, b, ctx.tf32, bias, d.dtype)  # what the activation was given, multiplied again
        d = ops.activation_backward(d, before, ctx.activation)
    return *product_gradients(d, a, b, bias, ctx.needs_input_grad, ctx.tf32), *(None,) * (ctx.arguments - 3)


def _product(a: Any, b: Any, tf32: bool, bias: Any = None, dtype: torch.dtype | None = None) -> Any:
    """A product within a gradient; of f32 its operands lie along K, as the tensor cores take them."""
    if tf32 and a.dtype == torch.float32:
        a, b = a.contiguous(), b.transpose(-1, -2).contiguous().transpose(-1, -2)
    return ops.matmul(a, b, bias, None, None, None, None, None, None, dtype, None, tf32)


def product_gradients(d: Any, a: Any, b: Any, bias: Any, needs: Any, tf32: bool) -> tuple[Any, Any, Any]:
    """The gradients of ``a @ b + bias``: products with the transposed operands, summed where they were broadcast."""
    dbias = _bias_gradient(d, a, b, bias) if bias is not None and needs[2] else None
    d = d.to(a.dtype).contiguous()
    rows, columns = a.ndim == 1, b.ndim == 1
    left, right = a.unsqueeze(0) if rows else a, b.unsqueeze(1) if columns else b
    if columns:
        d = d.unsqueeze(-1)
    if rows:
        d = d.unsqueeze(-2)
    da = db = None
    if needs[0]:
        da = _summed_to(_product(d, right.transpose(-1, -2), tf32), left.shape)
        da = da.reshape(a.shape) if rows else da
    if needs[1]:
        if right.ndim == 2 and left.ndim > 2:  # one product over all rows, instead of a sum of many
            left, d = left.reshape(-1, left.shape[-1]), d.reshape(-1, d.shape[-1])
        db = _summed_to(_in_layout_of(right, left, d, tf32), right.shape)
        db = db.reshape(b.shape) if columns else db
    return da, db, dbias


def _in_layout_of(right: Any, left: Any, d: Any, tf32: bool) -> Any:
    """The gradient of the right operand; where that is a transposed view, as a weight's is, so is the gradient.

    Otherwise torch would transpose every gradient of a weight once more, to have it lie as the weight does.
    """
    if right.stride(-1) != 1 and right.stride(-2) == 1:
        return _product(d.transpose(-1, -2), left, tf32).transpose(-1, -2)
    return _product(left.transpose(-1, -2), d, tf32)


def _bias_gradient(d: Any, a: Any, b: Any, bias: Any) -> Any:
    """The sum of the gradient over the rows that share a number of the bias."""
    if b.ndim == 1:
        each = d if bias.numel() == d.numel() else d.sum()
        return each.to(bias.dtype).reshape(bias.shape)
    if bias.ndim == 1 and a.ndim > 1:
        return ops.column_sums(d.reshape(-1, d.shape[-1]), bias.dtype)
    return _summed_to(d, bias.shape).to(bias.dtype)


def _summed_to(x: Any, shape: Any) -> Any:
    """A gradient summed over the axes along which its argument was broadcast."""
    return x if x.shape == shape else x.sum_to_size(shape)


def _batched_product(
    info: Any, axes: Any, a: Any, b: Any, bias: Any, activation: Any, *rest: Any
) -> Any:
    """A batch of products: operands that `vmap` maps over get its axis in front of all others."""
    scales, others = rest[:5], rest[5:]
    if any(axis is not None for axis in axes[4:]) or any(scale is not None for scale in scales[:3]):
        raise Error("vmap over a product with scales", location=caller_location(), remedy="multiply without scales")
    if min(a.ndim - (axes[0] is not None), b.ndim - (axes[1] is not None)) < 2:
        raise Error("vmap over a product with a vector", location=caller_location(), remedy="pass a matrix of one row")
    longest = max(a.ndim - (axes[0] is not None), b.ndim - (axes[1] is not None))
    operands = []
    for x, axis in ((a, axes[0]), (b, axes[1])):
        if axis is not None:
            x = x.movedim(axis, 0)
            x = x.reshape(x.shape[0], *(1,) * (longest - x.ndim + 1), *x.shape[1:])
        operands.append(x)
    if bias is not None and axes[2] is not None:
        product = ops.matmul(*operands, None, None, *scales, *others)
        bias = bias.movedim(axes[2], 0)
        bias = bias.reshape(bias.shape[0], *(1,) * (product.ndim - bias.ndim), *bias.shape[1:])
        total = (product + bias).to(product.dtype)
        return total if activation is None else ops.activated(total, activation), 0
    return ops.matmul(*operands, bias, activation, *scales, *others), 0


@operator(
    f"matmul(Tensor a, Tensor b, Tensor? bias=None, str? activation=None, {SCALES}, ScalarType? out_dtype=None, "
    "str? arch=None, bool tf32=False) -> Tensor",
    rule=Rule(_save_product, _product_gradients), casts=("a", "b"), batch=_batched_product,
)
def _matmul(
    a: Any, b: Any, bias: Any = None, activation: Any = None, scale_a: Any = None, scale_b: Any = None,
    tensor_scale: Any = None, factor: Any = None, tensor_factor: Any = None, out_dtype: Any = None, arch: Any = None,
    tf32: bool = False,
) -> Any:
    return kernels.matmul(
        a, b, bias, activation, **_scaled(scale_a, scale_b, tensor_scale, factor, tensor_factor), out_dtype=out_dtype,
        arch=arch, tf32=tf32,
    )


@operator(
    f"matmul_out(Tensor a, Tensor b, Tensor(a!) out, Tensor? bias=None, str? activation=None, {SCALES}, str? arch=None, "
    "bool tf32=False) -> ()",
    casts=("a", "b"),
)
def _matmul_out(
    a: Any, b: Any, out: Any, bias: Any = None, activation: Any = None, scale_a: Any = None, scale_b: Any = None,
    tensor_scale: Any = None, factor: Any = None, tensor_factor: Any = None, arch: Any = None, tf32: bool = False,
) -> None:
    scales = _scaled(scale_a, scale_b, tensor_scale, factor, tensor_factor)
    kernels.matmul(a, b, bias, activation, out, **scales, arch=arch, tf32=tf32)


def _scaled(scale_a: Any, scale_b: Any, tensor_scale: Any, factor: Any, tensor_factor: Any) -> dict[str, Any]:
    """The scales as the library takes them: numbers, which operators take apart from tensors, in the place that is free."""
    if factor is not None and scale_a is None:
        scale_a = factor
    elif factor is not None:
        scale_b = factor
    return {"scale_a": scale_a, "scale_b": scale_b, "tensor_scale": tensor_factor if tensor_scale is None else tensor_scale}


def _numbers_apart(scale_a: Any, scale_b: Any, tensor_scale: Any) -> tuple[Any, ...]:
    """Scales that are tensors, and those that are numbers, multiplied."""
    factor = None
    tensors = []
    for scale in (scale_a, scale_b):
        is_number = isinstance(scale, NUMBERS)
        if is_number:
            factor = float(scale) * (1.0 if factor is None else factor)
        tensors.append(None if is_number else scale)
    if isinstance(tensor_scale, NUMBERS):
        return *tensors, None, factor, float(tensor_scale)
    return *tensors, tensor_scale, factor, None


def reads_as_tf32(a: Any) -> bool:
    """Whether a product of `a` reads f32 as tf32 where nobody says: as torch's own would."""
    return isinstance(a, _Tensor) and a.dtype is _F32 and _precision() != "highest"


@straight(
    kernels.matmul, "a", "b", "bias", "out", "scale_a", "scale_b", "tensor_scale", casts=True,
    rare=("scale_a", "scale_b", "tensor_scale", "out_dtype", "config", "arch"), settled={"tf32": reads_as_tf32},
)
def matmul(
    a: Any, b: Any, bias: Any = None, activation: str | None = None, out: Any = None, *, scale_a: Any = None,
    scale_b: Any = None, tensor_scale: Any = None, out_dtype: Any = None, config: Any = None, arch: str | None = None,
    tf32: bool | None = None,
) -> Any:
    """`px.kernels.matmul` with gradients, for eager and compiled code; takes autocast's type.

    Gradients are products with the transposed operands; that of a bias of one row is a sum over all rows. Where torch
    records, an activation follows the product as an operator of its own, and what it was given, rounded to the result's
    type, is kept. Products with scales have no gradients. `tf32`, without which operands of f32 are refused, is by default
    what ``torch.set_float32_matmul_precision`` allows torch's own products.
    Example: ``y = px.torch.matmul(x, w.T, bias, "gelu")``.
    """
    refuse_config(config)
    if tf32 is None:
        tf32 = isinstance(a, torch.Tensor) and a.dtype is torch.float32 and allows_tf32()
    scales = _numbers_apart(scale_a, scale_b, tensor_scale)
    if out is None or is_recorded(a, b, bias, out):
        dtype = _torch_dtype(out_dtype) if out is None else out.dtype
        if activation is not None and is_recorded(a, b, bias):
            y = ops.matmul(a, b, bias, None, *scales, dtype, arch, tf32)
            y = ops.activated(y, activation)
        else:
            y = ops.matmul(a, b, bias, activation, *scales, dtype, arch, tf32)
        return y if out is None else out.copy_(y)
    ops.matmul_out(a, b, out, bias, activation, *scales, arch, tf32)
    return out


def allows_tf32() -> bool:
    """Whether torch's own products of f32 may read fewer bits: so may ours, then. A graph has it as it was when traced."""
    return torch.get_float32_matmul_precision() != "highest"


allows_tf32._dynamo_marked_constant = True  # type: ignore[attr-defined]  # by torch.compiler's decorator: loads all of it


def _torch_dtype(asked: Any) -> torch.dtype | None:
    """A result's type as torch's: from torch's own, ours, or a name."""
    if asked is None or isinstance(asked, torch.dtype):
        return asked
    name = getattr(asked, "name", asked)
    found = {ours: dtype for dtype, ours in NAMES.items()}.get(name) or getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise Error(
            f"out_dtype={asked!r} is no type of a result", location=caller_location(),
            remedy=f"use one of {', '.join(map(str, NAMES))}",
        )
    return found


# --- products with few rows ---------------------------------------------------------------------------------------------


def _save_split(ctx: Any, inputs: Any, output: Any) -> None:
    a, b, bias, ctx.activation = inputs
    ctx.arguments, ctx.tf32 = 4, False
    ctx.save_for_backward(a, b, bias)


def _batched_split(info: Any, axes: Any, a: Any, b: Any, bias: Any, activation: Any) -> Any:
    """Many products are a batch of `matmul`."""
    return _batched_product(info, (*axes, *(None,) * 8), a, b, bias, activation, *(None,) * 7, False)


@operator(
    "split_k_matmul(Tensor a, Tensor b, Tensor? bias=None, str? activation=None) -> Tensor",
    rule=Rule(_save_split, _product_gradients), casts=("a", "b"), batch=_batched_split,
)
def _split_k_matmul(a: Any, b: Any, bias: Any = None, activation: Any = None) -> Any:
    return kernels.split_k_matmul(a, b, bias, activation)


@operator(
    "split_k_matmul_out(Tensor a, Tensor b, Tensor(a!) out, Tensor? bias=None, str? activation=None) -> ()",
    casts=("a", "b"),
)
def _split_k_matmul_out(a: Any, b: Any, out: Any, bias: Any = None, activation: Any = None) -> None:
    kernels.split_k_matmul(a, b, bias, activation, out)


@straight(kernels.split_k_matmul, "a", "b", "bias", "out", casts=True)
def split_k_matmul(
    a: Any, b: Any, bias: Any = None, activation: str | None = None, out: Any = None, config: Any = None
) -> Any:
    """`px.kernels.split_k_matmul` with gradients, for eager and compiled code.

    Example: ``y = px.torch.split_k_matmul(x, weight.T)``.
    """
    refuse_config(config)
    if out is None or is_recorded(a, b, bias, out):
        y = ops.split_k_matmul(a, b, bias, activation)
        return y if out is None else out.copy_(y)
    ops.split_k_matmul_out(a, b, out, bias, activation)
    return out
