"""Row-wise functions as operators: softmax, its logarithm, RMSNorm, LayerNorm, cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from phalanx import kernels
from phalanx.errors import Error, caller_location
from phalanx.kernels.rowwise.cross_entropy_backward import cross_entropy_backward
from phalanx.kernels.rowwise.norms_backward import layer_norm_backward, rms_norm_backward
from phalanx.kernels.rowwise.softmax_backward import softmax_backward
from phalanx.torch.calls import batched_alike, nothing, refuse_config
from phalanx.torch.library import Rule, operator, ops
from phalanx.torch.plain import is_recorded
from phalanx.torch.straight import straight

# --- softmax ------------------------------------------------------------------------------------------------------------


@operator(
    "softmax_backward(Tensor d, Tensor y, bool log) -> Tensor", second="softmax and log_softmax",
    batch=batched_alike(lambda: torch.ops.phalanx.softmax_backward, 2),
)
def _softmax_backward(d: Any, y: Any, log: bool) -> Any:
    return softmax_backward(d, y, log=log)


def _rule_of(log: bool) -> Rule:
    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    def backward(ctx: Any, d: Any) -> Any:
        return ops.softmax_backward(d, ctx.saved_tensors[0], log)

    return Rule(save, backward)


@operator("softmax(Tensor x) -> Tensor", rule=_rule_of(False), batch=batched_alike(lambda: torch.ops.phalanx.softmax, 1))
def _softmax(x: Any) -> Any:
    return kernels.softmax(x)


@operator(
    "log_softmax(Tensor x) -> Tensor", rule=_rule_of(True), batch=batched_alike(lambda: torch.ops.phalanx.log_softmax, 1)
)
def _log_softmax(x: Any) -> Any:
    return kernels.log_softmax(x)


def _scaled_and_masked(x: Any, scale: float | None, mask: Any) -> Any:
    """What the softmax is of, by torch's own functions, which have gradients, in the type of `x`."""
    y = x if scale is None else x * scale
    if mask is None:
        return y
    return y.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else (y + mask).to(x.dtype)


def _along(function: Callable[..., Any], x: Any, dim: int, scale: float | None, mask: Any, config: Any) -> Any:
    """A function of rows along another axis than the last one, which is moved there and back."""
    if not -x.ndim <= dim < x.ndim:
        _refuse_dim(dim, x.ndim)
    if dim % x.ndim == x.ndim - 1:
        return function(x, scale=scale, mask=mask, config=config)
    if mask is not None:
        mask = mask.expand(x.shape).movedim(dim, -1)
    return function(x.movedim(dim, -1), scale=scale, mask=mask, config=config).movedim(-1, dim)


def _refuse_dim(dim: int, axes: int) -> None:
    raise Error(
        f"dim={dim} of an array with {axes} axes", location=caller_location(),
        remedy=f"give one of {-axes} to {axes - 1}: the axis along which the powers sum up to 1",
    )


_refuse_dim._dynamo_marked_constant = True  # type: ignore[attr-defined]  # run by torch.compile, which reads no errors


@straight(kernels.softmax, "x", "mask")
def softmax(x: Any, dim: int = -1, *, scale: float | None = None, mask: Any = None, config: Any = None) -> Any:
    """`px.kernels.softmax` with a gradient, for eager and compiled code, along the axis `dim`.

    Where torch records or traces the call, scale and mask are torch's own operations before it. The kernels read rows: along
    another axis than the last one, `x` is copied. Example: ``y = px.torch.softmax(x, dim=-1)``.
    """
    if dim != -1:
        return _along(softmax, x, dim, scale, mask, config)
    refuse_config(config)
    return ops.softmax(_scaled_and_masked(x, scale, mask))


@straight(kernels.log_softmax, "x", "mask")
def log_softmax(x: Any, dim: int = -1, *, scale: float | None = None, mask: Any = None, config: Any = None) -> Any:
    """`px.kernels.log_softmax` with a gradient, as `softmax`. Example: ``y = px.torch.log_softmax(x)``."""
    if dim != -1:
        return _along(log_softmax, x, dim, scale, mask, config)
    refuse_config(config)
    return ops.log_softmax(_scaled_and_masked(x, scale, mask))


# --- norms --------------------------------------------------------------------------------------------------------------


@operator(
    "rms_norm_backward(Tensor d, Tensor x, Tensor? weight, float eps, bool of_weight) -> (Tensor, Tensor)", second="rms_norm"
)
def _rms_norm_backward(d: Any, x: Any, weight: Any, eps: float, of_weight: bool) -> Any:
    dx, dweight = rms_norm_backward(d, x, weight, eps, of_weight=of_weight)
    return dx, nothing(x) if dweight is None else dweight


def _save_rms(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _rms_gradients(ctx: Any, d: Any) -> Any:
    x, weight = ctx.saved_tensors
    of_weight = weight is not None and ctx.needs_input_grad[1]
    dx, dweight = ops.rms_norm_backward(d, x, weight, ctx.eps, of_weight)
    return dx, dweight if of_weight else None, None


@operator(
    "rms_norm(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor", rule=Rule(_save_rms, _rms_gradients),
    batch=batched_alike(lambda: torch.ops.phalanx.rms_norm, 1),
)
def _rms_norm(x: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    return kernels.rms_norm(x, weight, eps)


@straight(kernels.rms_norm, "x", "weight")
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, *, config: Any = None) -> Any:
    """`px.kernels.rms_norm` with gradients, for eager and compiled code. Example: ``y = px.torch.rms_norm(x, w)``."""
    refuse_config(config)
    return ops.rms_norm(x, weight, eps)


@operator("add_rms_norm(Tensor x, Tensor(a!) residual, Tensor? weight=None, float eps=1e-6) -> Tensor")
def _add_rms_norm(x: Any, residual: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    return kernels.add_rms_norm(x, residual, weight, eps)


@straight(kernels.add_rms_norm, "x", "residual", "weight")
def add_rms_norm(x: Any, residual: Any, weight: Any = None, eps: float = 1e-6, *, config: Any = None) -> Any:
    """`px.kernels.add_rms_norm` with gradients, for eager and compiled code; where torch records it, sum and norm are apart.

    Example: ``y = px.torch.add_rms_norm(x, residual, w)``.
    """
    refuse_config(config)
    if is_recorded(x, residual, weight):
        total = x + residual
        residual.copy_(total)
        return ops.rms_norm(total, weight, eps)
    return ops.add_rms_norm(x, residual, weight, eps)


@operator(
    "layer_norm_backward(Tensor d, Tensor x, Tensor? weight, Tensor? bias, float eps, bool of_weight) "
    "-> (Tensor, Tensor, Tensor)",
    second="layer_norm",
)
def _layer_norm_backward(d: Any, x: Any, weight: Any, bias: Any, eps: float, of_weight: bool) -> Any:
    dx, *others = layer_norm_backward(d, x, weight, eps, of_weight=of_weight, bias=bias)
    return dx, *(nothing(x) if gradient is None else gradient for gradient in others)


def _save_layer(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(x, weight, bias)


def _layer_gradients(ctx: Any, d: Any) -> Any:
    x, weight, bias = ctx.saved_tensors
    of_weight = weight is not None and ctx.needs_input_grad[1]
    of_bias = bias is not None and ctx.needs_input_grad[2]
    dx, dweight, dbias = ops.layer_norm_backward(d, x, weight, bias if of_bias else None, ctx.eps, of_weight)
    return dx, dweight if of_weight else None, dbias if of_bias else None, None


@operator(
    "layer_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor",
    rule=Rule(_save_layer, _layer_gradients), batch=batched_alike(lambda: torch.ops.phalanx.layer_norm, 1),
)
def _layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return kernels.layer_norm(x, weight, bias, eps)


@straight(kernels.layer_norm, "x", "weight", "bias")
def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, config: Any = None) -> Any:
    """`px.kernels.layer_norm` with gradients, for eager and compiled code. Example: ``y = px.torch.layer_norm(x, w, b)``."""
    refuse_config(config)
    return ops.layer_norm(x, weight, bias, eps)


# --- cross entropy ------------------------------------------------------------------------------------------------------


@operator(
    "cross_entropy_backward(Tensor d, Tensor logits, Tensor targets, int ignore_index) -> Tensor", second="cross_entropy"
)
def _cross_entropy_backward(d: Any, logits: Any, targets: Any, ignore_index: int) -> Any:
    return cross_entropy_backward(d, logits, targets, ignore_index=ignore_index)


def _save_losses(ctx: Any, inputs: Any, output: Any) -> None:
    logits, targets, ctx.reduction, ctx.ignore_index = inputs
    ctx.save_for_backward(logits, targets)


def _loss_gradients(ctx: Any, d: Any) -> Any:
    logits, targets = ctx.saved_tensors
    if ctx.reduction == "mean":
        d = d / (targets != ctx.ignore_index).sum()
    d = d.expand(targets.shape).contiguous()
    return ops.cross_entropy_backward(d, logits, targets, ctx.ignore_index), None, None, None


def _batched_losses(info: Any, axes: Any, logits: Any, targets: Any, reduction: str, ignore_index: int) -> Any:
    """Every call has a mean or sum of its own: the losses of all rows, and what each call makes of its part."""
    rows = batched_alike(lambda: torch.ops.phalanx.cross_entropy, 2)
    losses, _ = rows(info, axes, logits, targets, "none", ignore_index)
    if reduction == "none":
        return losses, 0
    sums = losses.flatten(1).sum(1)
    if reduction == "sum":
        return sums, 0
    counted = targets != ignore_index
    counts = counted.sum() if axes[1] is None else counted.movedim(axes[1], 0).flatten(1).sum(1)
    return sums / counts, 0


@operator(
    'cross_entropy(Tensor logits, Tensor targets, str reduction="mean", int ignore_index=-100) -> Tensor',
    rule=Rule(_save_losses, _loss_gradients), batch=_batched_losses,
)
def _cross_entropy(logits: Any, targets: Any, reduction: str = "mean", ignore_index: int = -100) -> Any:
    return kernels.cross_entropy(logits, targets, reduction=reduction, ignore_index=ignore_index)


@straight(kernels.cross_entropy, "logits", "targets")
def cross_entropy(
    logits: Any, targets: Any, *, reduction: str = "mean", ignore_index: int = -100, gradient: bool = False,
    config: Any = None,
) -> Any:
    """`px.kernels.cross_entropy` with a gradient, for eager and compiled code.

    The gradient of the logits is computed from the logits themselves: no probabilities are kept in between. `gradient`, by
    which it takes their place at once, is for calls that torch neither records nor traces.
    Example: ``loss = px.torch.cross_entropy(logits, targets)``.
    """
    refuse_config(config)
    if gradient:
        raise Error(
            "gradient=True for a call that torch records or traces", location=caller_location(),
            remedy="leave it out: backward() computes the gradient; or call it under torch.no_grad()",
        )
    return ops.cross_entropy(logits, targets, reduction, ignore_index)
