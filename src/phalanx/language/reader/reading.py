"""Reading a kernel into IR, for given argument types and constants."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error, internal_error, wants_traceback
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function
from phalanx.ir.effects import Neighbour
from phalanx.ir.types import ArrayType, ScalarType, i32
from phalanx.ir.values import Param
from phalanx.language.builder import Builder, seal
from phalanx.language.kernel import Kernel, is_strict, resolve_cluster, resolve_ctas_per_sm, resolve_warps
from phalanx.language.limits import check_nesting
from phalanx.language.reader.capture import CAPTURES, constant, kind_of
from phalanx.language.reader.cleanup import remove_dead
from phalanx.language.reader.reader import Reader
from phalanx.language.reader.source import FunctionSource
from phalanx.language.structs import new_struct


@frozen(eq=False)
class Reading:
    """A kernel read for given types, with the names it captured (to be compared at later launches)."""

    function: Function
    captured: tuple[tuple[FunctionSource, str, object], ...]


def read_kernel(kernel: Kernel, types: tuple[ArrayType | ScalarType | None, ...], constants: dict[str, Any]) -> Reading:
    """The IR of a kernel for argument types (None: the argument is Python's None, a constant) and constants."""
    source = kernel.source
    warps = resolve_warps(kernel, constants)
    cluster = resolve_cluster(kernel, constants)
    ctas_per_sm = resolve_ctas_per_sm(kernel, constants, warps)
    ctx = Builder(warps, cluster, loc=kernel.location)
    reader = Reader(ctx)
    arguments: dict[str, object] = {}
    params: list[Param] = []
    for name, type_ in zip(kernel.parameters, types, strict=True):
        if type_ is None:
            arguments[name] = None
            continue
        param = Param(type_, name, len(params))
        params.append(param)
        arguments[name] = param
    for name, struct, fields in kernel.groups:
        arguments[name] = new_struct(ctx, struct, {own: arguments.pop(given) for own, given in zip(struct.fields, fields)})
    shaping = kernel.shaping
    for name, value in constants.items():
        if name not in shaping:
            arguments[name] = check_constant(kernel, name, value)
    ctx.owned = Param(ArrayType(1, i32), "counters", len(params))
    try:
        reader.run_function(source, arguments, None)
    except Error:
        raise
    except RecursionError:
        raise Error(
            "expressions, statements and calls are nested too deep here for Python's stack", location=ctx.loc,
            remedy="functions are inlined: call fewer helpers from helpers, and give parts of expressions names",
        ) from None
    except Exception as problem:
        if wants_traceback():
            raise
        raise internal_error(problem, ctx.loc) from problem
    whole = seal(Block(tuple(ctx.entry + ctx.ops)))
    check_nesting(whole)
    body = remove_dead(whole)
    function = Function(
        name=kernel.name,
        params=(*params, ctx.owned) if ctx.counters else tuple(params),
        counters=ctx.counters,
        constants=tuple((name, value) for name, value in constants.items()),
        warps=warps,
        cluster=cluster,
        exit_sync=kernel.exit_sync,
        buffers=tuple(ctx.buffers),
        barriers=tuple(ctx.barriers),
        body=body,
        loc=kernel.location,
        ctas_per_sm=ctas_per_sm,
        notes=tuple(dict.fromkeys(ctx.notes)),  # a loop may be read several times
        pdl=kernel.pdl,
        cooperative=kernel.cooperative,
        strict=is_strict(kernel),
        on_loss=kernel.on_loss,
    )
    check_dependent_launch(function)
    captured = tuple((source_, name, value) for (source_, name), value in reader.captured.items())
    return Reading(function, captured)


def check_dependent_launch(function: Function) -> None:
    """A kernel that begins early waits for its predecessor somewhere: else those after it would not wait for it either."""
    flags = ("pdl", function.pdl), ("cooperative", function.cooperative), ("strict", function.strict)
    for name, value in flags:
        if not isinstance(value, bool):
            raise Error(f"{name}={value!r} of kernel '{function.name}'", location=function.loc, remedy="it is True or False")
    if function.on_loss not in ("error", "note"):
        raise Error(
            f"on_loss={function.on_loss!r} of kernel '{function.name}'", location=function.loc,
            remedy='it is "error" or "note"',
        )
    if function.pdl and function.cooperative:
        raise Error(
            f"kernel '{function.name}' has both pdl=True and cooperative=True",
            location=function.loc,
            remedy="leave one out: CTAs that begin while others run are not all there at the same time",
        )
    if function.pdl and not any(Neighbour.PRIOR in op.effects().launches for op in function.walk()):
        raise Error(
            f"kernel '{function.name}' has pdl=True and never waits for the launch before it",
            location=function.loc,
            remedy="call px.wait_prior() before the first access to what other kernels read or write",
        )


def check_constant(kernel: Kernel, name: str, value: object) -> object:
    """Constants are numbers, strings, dtypes, None, tuples of them, functions and structs of the language."""
    found = constant(value)
    if found is None and value is not None:
        raise Error(
            f"the constant '{name}' of kernel '{kernel.name}' is {kind_of(value)}",
            location=kernel.location,
            remedy=f"constants are {CAPTURES}; arrays are positional",
        )
    return found
