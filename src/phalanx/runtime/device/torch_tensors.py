"""Torch's tensors as a launch finds them: whether they have memory, whether torch records them, and their versions.

A launch runs behind torch's back. A tensor that torch traces has no memory yet, of one that requires grad the gradient
would be lost, and of one that the kernel writes torch has to know that it changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx.errors import Error, caller_location


class WithoutMemory(Error):
    """A tensor has no memory that a kernel could read, and torch knows what an operator of it gives.

    So it is with meta tensors, with those of tracers, of `vmap` and of subclasses that dispatch by themselves.
    """


class _Tensors(dict[type, bool]):
    """Whether a type is torch's tensor, or inherits from it; decided once per type."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = _tensor_among(kind) is not None
        return found


def _tensor_among(kind: type) -> type | None:
    """Torch's tensor among the bases of a type."""
    for base in kind.__mro__:
        if base.__name__ == "Tensor" and base.__module__ == "torch":
            return base
    return None


TENSORS = _Tensors()
PLAIN: list[type] = []
"""Types seen so far whose tensors lie in memory as torch's own do, so that their address may be asked for."""


def is_plain(kind: type) -> bool:
    """Whether tensors of a type belong to `PLAIN`, to which it is added then; False for what is no tensor of torch."""
    if kind in PLAIN:
        return True
    base = _tensor_among(kind)
    dispatch = getattr(base, "__torch_dispatch__", None)
    found = base is not None and getattr(kind, "__torch_dispatch__", None) is dispatch
    if found:
        PLAIN.append(kind)
    return found


def address_of(x: Any) -> int:
    """Where a tensor begins in memory, 0 for one without elements; an error for one that has no memory."""
    refuse_rowless((x,))
    if not is_plain(type(x)):
        raise _without_memory(f"a {type(x).__name__} has no memory of its own")
    try:
        pointer: int = x.data_ptr()
    except RuntimeError:
        raise _without_address(x) from None
    if not pointer and x.numel():
        raise _without_memory(f"a tensor on device '{x.device}' has no memory")
    return pointer


def refuse_rowless(arrays: Iterable[Any]) -> None:
    """Raises `px.Error` for a nested tensor, which torch keeps from its operators in words of its own."""
    for x in arrays:
        if getattr(x, "is_nested", False):
            raise _without_rows("nested tensor")


def _without_address(x: Any) -> Error:
    """The error for a tensor that torch gives no address of: its elements lie elsewhere, or it stands for others."""
    torch = sys.modules["torch"]
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return _without_memory("a tensor within a transform of torch.func has no memory of its own")
    return _without_rows(f"tensor of layout {x.layout}")


def _without_rows(what: str) -> Error:
    return Error(
        f"a {what} has no elements at regular places in memory", location=caller_location(),
        remedy="pass a dense tensor, such as x.to_dense(), or the values alone: x.values()",
    )


def _without_memory(what: str) -> WithoutMemory:
    return WithoutMemory(
        what, location=caller_location(), remedy="launch on a tensor of the CPU, which the simulator runs, or of a GPU"
    )


def tracked(arrays: Iterable[Any]) -> int | None:
    """The place of an array that torch records what is computed from, or None."""
    for number, x in enumerate(arrays):
        if TENSORS[type(x)] and x.requires_grad and sys.modules["torch"].is_grad_enabled():
            return number
    return None


def refuse_gradients(names: Sequence[str], arrays: Sequence[Any]) -> None:
    """Raises `px.Error` where torch records what is computed from one of the arrays, which the caller names so.

    A kernel runs behind torch's back: the gradient would be dropped without a word. Tensors that require grad are taken
    under ``torch.no_grad()``. The library's functions call it, in any thread; it touches no GPU. Example:
    ``refuse_gradients(("weight",), (layer.weight,))``.
    """
    number = tracked(arrays)
    if number is not None:
        name = names[number]
        raise Error(
            f"{name} requires grad, and px.kernels computes no gradients: this one would be lost",
            location=caller_location(),
            remedy=f"px.torch has this with gradients; or call it under torch.no_grad(), or pass {name}.detach()",
        )


def refuse_lost_gradients(kernel: str, names: Sequence[str], arrays: Sequence[Any]) -> None:
    """Raises `px.Error` where torch records what is computed from an argument of a launch, of a kernel of that name.

    A write into it would be a change that the gradient knows nothing of; a read makes a result without a gradient. The
    runtime calls it before a launch; it touches no GPU. Example: ``refuse_lost_gradients("scale", ("X",), (x,))``.
    """
    number = tracked(arrays)
    if number is not None and number < len(names):
        raise lost_gradient(kernel, names[number])


def lost_gradient(kernel: str, name: str) -> Error:
    """The error for an argument of a launch that requires grad."""
    return Error(
        f"argument '{name}' of kernel '{kernel}' requires grad, and a launch has no gradient: this one would be lost",
        location=caller_location(),
        remedy="px.torch.op(..., backward=...) makes an operator with a gradient of a function that launches it; "
        "or launch under torch.no_grad(), or on x.detach()",
    )


def version_counter() -> Callable[[Iterable[Any]], None]:
    """Torch's function that counts one more version of tensors; of inference tensors, which have none, it counts none."""
    counter: Callable[[Iterable[Any]], None] = sys.modules["torch"]._C._increment_version
    return counter


def count_versions(arrays: Sequence[Any], written: Iterable[int]) -> None:
    """Tells torch that a kernel wrote these of its arguments: who kept one for a gradient has to see that it changed."""
    changed = [arrays[n] for n in written if TENSORS[type(arrays[n])]]
    if changed:
        version_counter()(changed)
