"""What a kernel shows of itself while it runs, and where it may stop."""

from __future__ import annotations

from phalanx.ir.ops.control import Breakpoint, Print
from phalanx.ir.types import BOOL, DType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import in_tensor
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import Number, describe, load_scalar
from phalanx.language.operators import is_scalar, is_tile, truth
from phalanx.language.ops import memory, tcgen05
from phalanx.language.values import ViewValue


@builtin("print", host=print)
def print_(ctx: Builder, *parts: object) -> None:
    """Prints strings, values and views of memory, once per role that runs it, behind the names of its CTA and its role.

    A view of global, shared or tensor memory is read as `px.load` and `px.tcgen05.load` read it, an access like any other:
    `px.check` sees it. The line begins with the CTA's place in the grid, its rank in a cluster of several, and the role:
    ``block (2, 0, 0), rank 1, warp 4: k = 3``. On a GPU each element of a tile is a line of its own.
    Any agent; any GPU (``printf``) and the simulator. Example: ``px.print("k =", k)``; ``px.print(X[0:2, 0:4])``.
    """
    shown: list[str | Value] = []
    for part in parts:
        part = load_scalar(ctx, part)
        if isinstance(part, ViewValue):
            part = tcgen05.load.impl(ctx, part) if in_tensor(part.view) else memory.load.impl(ctx, part)
        if isinstance(part, str) or is_scalar(part) or is_tile(part):
            shown.append(part if isinstance(part, (str, Value)) else str(part))
        elif part is None or isinstance(part, DType):
            shown.append(str(part))
        elif isinstance(part, tuple):
            ctx.fail("px.print of a tuple", "pass its items: px.print(*shape)")
        else:
            ctx.fail(f"px.print can't show {describe(part)}", "pass values, or views of memory: px.print(s[0:8])")
    ctx.emit(Print(tuple(shown), loc=ctx.loc))


@builtin("breakpoint")
def breakpoint_(ctx: Builder, condition: object = True) -> None:
    """Stops a session of `px.debug` here, each time that `condition` holds (for a tile: anywhere).

    Any agent; any GPU, where it is nothing: the text of a kernel is the same without it, and without what only its condition
    computes or loads. A launch in the simulator and `px.check` know nothing of it either.
    Example: ``px.breakpoint(px.isnan(acc))``.
    """
    cond = load_scalar(ctx, condition)
    if isinstance(cond, Number):
        if cond:
            ctx.emit(Breakpoint(Const(True, BOOL), loc=ctx.loc))
        return
    if not is_scalar(cond) and not is_tile(cond):
        ctx.fail(f"px.breakpoint needs a condition, not {describe(cond)}", "e.g. px.breakpoint(k == 3)")
    ctx.emit(Breakpoint(truth(ctx, cond), loc=ctx.loc))
