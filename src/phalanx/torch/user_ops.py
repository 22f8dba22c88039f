"""`px.torch.op`: an operator of torch made of a user's function around kernels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from phalanx.errors import Error, caller_location
from phalanx.torch.library import DEVICES, Rule, outline_of, quick, refusing, without_tangents
from phalanx.torch.plain import is_plain

_LIBRARIES: dict[str, tuple[str, Any]] = {}
"""What each operator that users made was made of, the function's name, and the library in which it is alone."""


def op(
    name: str, *, mutates: Sequence[str] = (), backward: Callable[..., Any] | None = None,
    save: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a torch operator of a function that launches kernels: ``torch.ops.namespace.name``, and itself to be called.

    `name` is ``"namespace::name"``. The schema comes from the function's annotations (``torch.Tensor``, ``float``, ``int``,
    ``bool``, ``str``, ``torch.dtype``, lists and optional ones of them); `mutates` names the tensors that it writes. What it
    gives for tensors without memory is found by running it on them, with no kernel launched: so it makes its results by
    ``torch.empty`` and its like, and looks at no element. It returns new tensors, or None, and no argument.

    `backward(ctx, *gradients)` gives the arguments' gradients, one or None for each; `save(ctx, inputs, output)` keeps what
    it needs, by default all arguments, as ``ctx.inputs``. Without `backward` a tensor that requires grad is refused. A call
    that torch neither records nor traces is the function's own.

    Anyone may call it, outside kernels; torch 2.6 and newer; tensors of the CPU run in the simulator. Example::

        @px.torch.op("mine::double", backward=lambda ctx, d: double(d))
        def double(x: torch.Tensor) -> torch.Tensor:
            y = torch.empty_like(x)
            double_rows[px.cdiv(x.shape[0], 64)](x, y)
            return y
    """
    space, found, short = name.partition("::")
    if not (found and space.isidentifier() and short.isidentifier()):
        raise Error(
            f"{name!r} is no name of an operator", location=caller_location(), remedy='write it as "namespace::name"'
        )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        schema = _schema(function, mutates)
        if backward is not None and mutates:
            raise Error(
                f"operator {name} writes {', '.join(mutates)} and has a backward", location=caller_location(),
                remedy="an operator with a gradient returns new tensors: leave mutates= out",
            )
        library = _library_of(name, function)
        library.define(short + schema, tags=(torch.Tag.pt2_compliant_tag,))
        run = _positional(function)
        for device in DEVICES:
            library.impl(short, without_tangents(name, run), device)
        torch.library.register_fake(name, outline_of(run), lib=library)
        made = recorded = getattr(getattr(torch.ops, space), short).default
        if backward is None:
            library.impl(short, refusing(made), "Autograd", with_keyset=True)
        else:
            keep = save or _keep_everything
            gradients = backward if save is not None else _with_inputs(backward)
            torch.library.register_autograd(name, gradients, setup_context=keep, lib=library)
            recorded = quick(made, run, Rule(keep, gradients))
        return _front(function, made, recorded)

    return decorate


def _library_of(name: str, function: Callable[..., Any]) -> Any:
    """A library for one operator. A function that is defined again, as by a notebook's cell run twice, takes its place."""
    maker = f"{function.__module__}.{function.__qualname__}"
    former = _LIBRARIES.get(name)
    if former is not None:
        if former[0] != maker:
            raise Error(
                f"there is an operator {name} already, made of {former[0]}", location=caller_location(),
                remedy="choose another name: an operator is made anew of a function of the same name alone",
            )
        former[1]._destroy()
    library = torch.library.Library(name.partition("::")[0], "FRAGMENT")
    _LIBRARIES[name] = maker, library
    return library


def _schema(function: Callable[..., Any], mutates: Sequence[str]) -> str:
    """The schema of a function by its annotations, ``(arguments) -> results``."""
    parameters = inspect.signature(function).parameters
    unknown = [one for one in mutates if one not in parameters]
    if unknown:
        raise Error(
            f"mutates names '{unknown[0]}', which is no argument of {function.__name__}", location=caller_location(),
            remedy=f"its arguments are {', '.join(parameters)}",
        )
    try:
        return torch.library.infer_schema(function, mutates_args=tuple(mutates))
    except ValueError as error:
        raise Error(
            f"no schema for {function.__name__}: {error}", location=caller_location(),
            remedy="annotate every argument and the result: x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor",
        ) from None


def _positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as torch calls it: it may pass keyword-only arguments by position no more than we may."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return run


def _keep_everything(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keeps all arguments: tensors where autograd watches for changes of them, other ones as they are."""
    ctx.places = [n for n, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
    ctx.others = [None if n in ctx.places else x for n, x in enumerate(inputs)]
    ctx.save_for_backward(*(inputs[n] for n in ctx.places))


def _with_inputs(backward: Callable[..., Any]) -> Callable[..., Any]:
    """The backward function with ``ctx.inputs`` put together again."""

    def run(ctx: Any, *gradients: Any) -> Any:
        inputs = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = tensor
        ctx.inputs = tuple(inputs)
        return backward(ctx, *gradients)

    return run


def _front(function: Callable[..., Any], made: Any, recorded: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it: straight on where nobody watches, as a recorded call, or by torch's dispatcher."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if is_plain(*args, *options.values()):
            return function(*args, **options)
        return made(*args, **options) if options else recorded(*args)

    return call
