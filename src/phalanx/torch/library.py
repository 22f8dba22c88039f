"""How a function of the library becomes an operator of torch.

An operator has a schema and one Python function that calls the library. That function runs for tensors on a GPU and, in
the simulator, for those on the CPU; for tensors that only have an outline it runs, too, and launches nothing (see
`runtime.device.outlines`), so that shapes, strides and types of results are those of the library by construction. A
gradient is a `Rule`; an operator without one refuses tensors that require grad. Under autocast the named arguments take its
type, and under `vmap` a `batch` rule makes one call of many.

`ops` has the operators as this package calls them: where nothing but autograd watches, the function runs within a
`torch.autograd.Function` of the same rule, past torch's dispatcher, which takes several times as long.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from phalanx.errors import Error, caller_location
from phalanx.runtime.launch.outlining import outlines_only
from phalanx.torch.plain import autocasts, forward, modes, refuse_tangents, traced, transform

LIBRARY = torch.library.Library("phalanx", "DEF")
DEVICES = ("CPU", "CUDA")
OPERATORS: dict[str, Any] = {}
"""The operators of this namespace by name."""
REFUSING: list[str] = []
"""Operators without a gradient, which take no tensor that requires grad."""
ONCE: dict[str, str] = {}
"""Operators that compute gradients, by what they are the gradient of: they have none themselves."""


ops = types.SimpleNamespace()
"""The operators of this namespace by name, to be called with all arguments by position: see `quick`."""
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter


class Rule:
    """The gradient of an operator: what is kept of a call, and what the arguments' gradients are.

    `save(ctx, inputs, output)` keeps tensors with ``ctx.save_for_backward``; `backward(ctx, *gradients)` gives one gradient
    or None for each argument.
    """

    def __init__(self, save: Callable[..., None], backward: Callable[..., Any]) -> None:
        self.save, self.backward = save, backward


def operator(
    schema: str, *, rule: Rule | None = None, second: str | None = None, casts: Sequence[str] = (), batch: Any = None
) -> Callable[[Callable[..., Any]], Any]:
    """Makes an operator ``phalanx::name`` of a function that calls the library, and gives it back as ``torch.ops`` has it.

    `schema` is torch's, ``name(arguments) -> results``; all arguments are positional. `second`: the operator computes the
    gradient of what is named here, and has none itself. `casts` names arguments that take autocast's type. `batch` is the
    function that `torch.library.register_vmap` takes.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        name = schema.partition("(")[0]
        LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        full = f"phalanx::{name}"
        for device in DEVICES:
            LIBRARY.impl(name, without_tangents(full, function), device)
        torch.library.register_fake(full, outline_of(function), lib=LIBRARY)
        made = getattr(torch.ops.phalanx, name).default
        given = rule
        if second is not None:
            given, ONCE[name] = no_second_derivative(name, second), second
        if given is not None:
            torch.library.register_autograd(full, given.backward, setup_context=given.save, lib=LIBRARY)
        else:
            REFUSING.append(name)
            LIBRARY.impl(name, refusing(made), "Autograd", with_keyset=True)
        for device in DEVICES if casts else ():
            LIBRARY.impl(name, casting(made, casts, device.lower()), f"Autocast{device}")
        if batch is not None:
            torch.library.register_vmap(full, with_defaults(made, batch), lib=LIBRARY)
        OPERATORS[name] = made
        setattr(ops, name, made if given is None else quick(made, function, given, casts=bool(casts)))
        return made

    return decorate


def quick(op: Any, function: Callable[..., Any], rule: Rule, *, casts: bool = False) -> Callable[..., Any]:
    """An operator with a gradient as eager code calls it, with all its arguments by position.

    Where nobody but autograd watches, a call is the function's own, within a `torch.autograd.Function` where torch records
    it. For all others, among them what torch.compile reads, it is the operator: with `casts` also under autocast.
    """
    arguments = op._schema.arguments
    count, places = len(arguments), tuple(n for n, a in enumerate(arguments) if "Tensor" in str(a.type))
    records = torch.is_grad_enabled

    def run(ctx: Any, *args: Any) -> Any:
        result = function(*args)
        rule.save(ctx, args, result)
        return result

    methods = {"forward": staticmethod(run), "backward": staticmethod(rule.backward)}
    apply = type(op._schema.name.replace("::", "_"), (torch.autograd.Function,), methods).apply  # type: ignore[attr-defined]

    def call(*args: Any) -> Any:
        if traced() or modes() or transform() is not None or forward._current_level >= 0 or (casts and autocasts()):
            return op(*args)
        if len(args) != count:
            return op(*args)
        recorded = False
        for place in places:
            x = args[place]
            if x is not None:
                kind = type(x)
                if (kind is not _Tensor and kind is not _Parameter) or x.is_meta:
                    return op(*args)
                recorded = recorded or x.requires_grad
        return apply(*args) if recorded and records() else function(*args)

    return call


def outline_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for tensors without memory: it makes its results, and launches nothing."""

    @functools.wraps(function)
    def outline(*args: Any) -> Any:
        with outlines_only():
            return function(*args)

    return outline


def without_gradient(op: str, name: str) -> Error:
    """The error for a tensor that requires grad where an operator has no rule."""
    return Error(
        f"{name} requires grad, and {op} has no gradient: this one would be lost", location=caller_location(),
        remedy=f"call it under torch.no_grad(), or pass {name}.detach()",
    )


def refusing(op: Any, error: Callable[[str, str], Error] = without_gradient) -> Callable[..., Any]:
    """What torch calls where gradients may be recorded: an operator without a rule takes no tensor that requires grad."""
    names = [a.name for a in op._schema.arguments]

    def call(keyset: Any, *args: Any) -> Any:
        if torch.is_grad_enabled():
            for name, x in zip(names, args):
                if isinstance(x, torch.Tensor) and x.requires_grad:
                    raise error(op._schema.name, name)
        with torch._C._AutoDispatchBelowAutograd():
            return op.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    return call


def without_tangents(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for tensors with memory: forward derivatives, of which torch would drop ours in silence, are refused."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        refuse_tangents(op, (*args, *options.values()))
        return function(*args, **options)

    return call


def no_second_derivative(name: str, of: str) -> Rule:
    """The rule of an operator that computes the gradient `of` functions: to differentiate it again is an error."""

    def backward(ctx: Any, *gradients: Any) -> Any:
        raise Error(
            f"a gradient of {of} has no second derivative: phalanx::{name}, which computed it, can't be differentiated",
            remedy="leave create_graph=True out, or compute this part with torch's own functions",
        )

    return Rule(lambda ctx, inputs, output: None, backward)


def with_defaults(op: Any, batch: Callable[..., Any]) -> Callable[..., Any]:
    """A batch rule that gets all arguments: torch leaves out those at the end that are as the schema has them."""
    defaults = [argument.default_value if argument.has_default_value() else None for argument in op._schema.arguments]

    def call(info: Any, axes: tuple[int | None, ...], *args: Any) -> Any:
        missing = len(defaults) - len(args)
        return batch(info, (*axes, *(None,) * missing), *args, *defaults[len(args) :])

    return call


def casting(op: Any, casts: Sequence[str], device: str) -> Callable[..., Any]:
    """What torch calls under autocast: f32 arguments of these names become its type, as those of torch's products do."""
    places = [n for n, a in enumerate(op._schema.arguments) if a.name in casts]

    def call(*args: Any) -> Any:
        given = list(args)
        kind = torch.get_autocast_dtype(device)
        for place in places:
            x = given[place] if place < len(given) else None
            if isinstance(x, torch.Tensor) and x.dtype in (torch.float32, torch.float16, torch.bfloat16):
                given[place] = x.to(kind)
        with torch.amp.autocast(device, enabled=False):
            return op(*given)

    return call
