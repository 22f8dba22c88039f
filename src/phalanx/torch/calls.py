"""What the functions of this package share: refused options, and calls of many rows as calls of one under `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from phalanx.errors import Error, caller_location

NUMBERS = (int, float)
"""Scales that are no tensors. A tuple: torch 2.6 traces no ``int | float``."""


def refuse_config(config: Any) -> None:
    """A configuration is no argument of an operator: it is refused where a call has to go through torch's dispatcher."""
    if config is not None:
        raise Error(
            "config= for a call that torch records or traces", location=caller_location(),
            remedy="leave it out, or call the function of px.kernels under torch.no_grad()",
        )


refuse_config._dynamo_marked_constant = True  # type: ignore[attr-defined]  # run by torch.compile, which reads no errors


def as_sizes(sizes: Any, x: Any) -> Any:
    """Sizes of groups as a tensor on the device of `x`: operators take no list of what may be symbols."""
    if isinstance(sizes, torch.Tensor):
        return sizes
    return torch.tensor(list(sizes), dtype=torch.int32, device=x.device)


def nothing(like: torch.Tensor) -> torch.Tensor:
    """What an operator gives in the place of a result that nobody asked for: operators have a fixed number of results."""
    return like.new_empty((0,), dtype=torch.float32)


def first_axis(x: Any, axis: int | None, size: int) -> Any:
    """A tensor with the axis that `vmap` maps over in front; one that it does not map over is repeated along it."""
    if axis is None:
        return x.unsqueeze(0).expand(size, *x.shape)
    return x.movedim(axis, 0)


def batched_alike(op: Callable[[], Any], arrays: int) -> Callable[..., Any]:
    """The batch rule of an operator whose first `arrays` tensors all have rows of their own, and whose rest has none."""

    def rule(info: Any, axes: tuple[int | None, ...], *args: Any) -> Any:
        _require_shared(axes[arrays:])
        given = [first_axis(x, axis, info.batch_size) for x, axis in zip(args[:arrays], axes)]
        return op()(*given, *args[arrays:]), 0

    return rule


def batched_along(op: Callable[[], Any], arrays: int, results: int = 1) -> Callable[..., Any]:
    """The batch rule of an operator whose first `arrays` tensors, or None, have a batch in front, as its results do."""

    def rule(info: Any, axes: tuple[int | None, ...], *args: Any) -> Any:
        _require_shared(axes[arrays:])
        size = info.batch_size
        given = [x if x is None else first_axis(x, axis, size).flatten(0, 1) for x, axis in zip(args[:arrays], axes)]
        made = op()(*given, *args[arrays:])
        if results == 1:
            return made.unflatten(0, (size, -1)), 0
        parts = (x.unflatten(0, (size, -1)) if x.ndim > 1 else x.unsqueeze(0).expand(size, *x.shape) for x in made)
        return tuple(parts), (0,) * results

    return rule


def _require_shared(axes: tuple[int | None, ...]) -> None:
    if any(axis is not None for axis in axes):
        raise Error(
            "vmap over an argument that all rows share", location=caller_location(),
            remedy="map over the rows alone: in_dims is None for weights, biases, tables and sizes",
        )
