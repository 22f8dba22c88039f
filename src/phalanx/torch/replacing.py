"""`px.torch.replace`: modules of ours in the place of torch's, in a model that exists."""

from __future__ import annotations

from typing import Any

import torch

from phalanx.frozen import frozen
from phalanx.torch import nn
from phalanx.torch.products import allows_tf32

HALVES = (torch.bfloat16, torch.float16)
SWAPS = {torch.nn.Linear: nn.Linear, torch.nn.RMSNorm: nn.RMSNorm, torch.nn.LayerNorm: nn.LayerNorm}


@frozen
class Replaced:
    """What `px.torch.replace` did: (name, kind) of modules that it swapped, (name, kind, reason) of those it left."""

    swapped: tuple[tuple[str, str], ...]
    left: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        """Describes the replaced modules, a line for each."""
        lines = [f"{name}: {kind} is px.torch.nn.{kind} now" for name, kind in self.swapped]
        lines += [f"{name}: {kind} stays: {reason}" for name, kind, reason in self.left]
        return "\n".join(lines) or "no module that could be swapped"


def replace(model: Any, *, autocast: bool = False) -> Replaced:
    """Makes ours of torch's `Linear`, `RMSNorm` and `LayerNorm` modules of a model, in place, and says which.

    Parameters, names, hooks and tied weights stay: a module changes its class alone. Linear layers of f32 are left, unless
    `autocast` says that the model runs under it, or ``torch.set_float32_matmul_precision`` allows tf32; so are norms of more
    than the last axis, and attention modules, whose arguments differ (`px.torch.nn.Attention`). Anyone may call it; no
    hardware is involved.
    Example: ``print(px.torch.replace(model))``.
    """
    swapped: list[tuple[str, str]] = []
    left: list[tuple[str, str, str]] = []
    for name, module in model.named_modules():
        kind = type(module)
        if kind is torch.nn.MultiheadAttention:
            left.append((name, kind.__name__, "its arguments are not those of px.torch.nn.Attention"))
        if kind not in SWAPS:
            continue
        reason = _reason(module, autocast)
        if reason is None:
            module.__class__ = SWAPS[kind]
            swapped.append((name, kind.__name__))
        else:
            left.append((name, kind.__name__, reason))
    return Replaced(tuple(swapped), tuple(left))


def _reason(module: Any, autocast: bool) -> str | None:
    """Why a module of ours can't take this one's place, or None."""
    if isinstance(module, torch.nn.Linear):
        if module.weight.dtype not in HALVES and not autocast and not allows_tf32():
            return f"its weights are {module.weight.dtype}; convert them to bf16, pass autocast=True, or allow tf32"
        if module.in_features % 8 or module.out_features % 8:
            return f"its sizes {module.in_features} and {module.out_features} are no multiples of 8: every call would copy"
    elif len(module.normalized_shape) != 1:
        return f"it normalises the last {len(module.normalized_shape)} axes"
    return None
