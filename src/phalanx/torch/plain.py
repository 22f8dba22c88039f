"""Whether a call can go straight to the launch, past torch's dispatcher."""

from __future__ import annotations

from typing import Any

import torch

_compiles = torch.compiler.is_compiling
_modes = torch._C._len_torch_dispatch_stack
_transform = torch._C._functorch.peek_interpreter_stack
_records = torch.is_grad_enabled
_autocasts = torch._C._is_any_autocast_enabled
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter


def is_plain(*arrays: Any) -> bool:
    """Whether nobody but the launch cares about a call with these arrays: no gradient, tracing, subclass, mode or autocast.

    NumPy and CuPy arrays are always plain. All of torch's state that its dispatcher would ask for is asked for here, in
    about half a microsecond. Modes of Python functions, such as torch's default device, are not asked: launches are none.
    """
    if _compiles():
        return False
    for x in arrays:
        kind = type(x)
        if kind is _Tensor or kind is _Parameter:
            if x.requires_grad and _records():
                return False
        elif x is not None and isinstance(x, _Tensor):
            return False
    return not (_modes() or _autocasts() or _transform() is not None)


def is_recorded(*arrays: Any) -> bool:
    """Whether torch records what is computed from one of these arrays."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in arrays)


__all__ = ["is_plain", "is_recorded"]
