"""Whether a call can go straight to the launch, past torch's dispatcher."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from phalanx.errors import Error, caller_location

traced = torch.compiler.is_dynamo_compiling
"""Whether torch.compile reads the code that asks; other tracers have modes, or tensors of a class of their own."""
modes = torch._C._len_torch_dispatch_stack
"""How many modes see what torch's dispatcher is asked for."""
transform = torch._C._functorch.peek_interpreter_stack
"""The innermost transform, such as vmap, or None."""
forward = torch.autograd.forward_ad
"""Forward derivatives: while a level of them is open, tensors may have one."""
_records = torch.is_grad_enabled
autocasts = torch._C._is_any_autocast_enabled
"""Whether autocast is on, for any kind of device: it matters to functions that take its type."""
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter


def is_plain(*arrays: Any) -> bool:
    """Whether nobody but the launch cares about a call with these arrays: no gradient, tracing, subclass, mode, transform.

    NumPy and CuPy arrays are always plain. All of torch's state that its dispatcher would ask for is asked for here, in less
    than a microsecond (`straight` asks for it in half the time). Not so autocast, which few functions know (`autocasts`), or
    modes of Python functions, such as torch's default device: launches are none.
    """
    if traced() or modes() or transform() is not None or forward._current_level >= 0:
        return False
    for x in arrays:
        if x is None:
            continue
        kind = type(x)
        if kind is _Tensor or kind is _Parameter:
            if x.requires_grad and _records():
                return False
        elif isinstance(x, _Tensor):
            return False
    return True


def refuse_tangents(op: str, arrays: Iterable[Any]) -> None:
    """Raises `px.Error` where an array has a forward derivative: no operator has one, and torch would drop it in silence."""
    if forward._current_level < 0:
        return
    for x in arrays:
        if isinstance(x, torch.Tensor) and _has_tangent(x):
            raise Error(
                f"{op} has no forward derivative, and an argument has one: it would be lost", location=caller_location(),
                remedy="differentiate backward, or compute this part with torch's own functions",
            )


def _has_tangent(x: torch.Tensor) -> bool:
    try:
        return forward.unpack_dual(x).tangent is not None
    except RuntimeError:  # within vmap, where torch does not look
        return True


def is_recorded(*arrays: Any) -> bool:
    """Whether torch records what is computed from one of these arrays."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in arrays)
