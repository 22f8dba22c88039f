"""Loops without a producer: the warps that compute fetch as well, as many steps ahead as the ring has stages, less one.

Before the loop the first steps are fetched, and in each step the one that takes the stage which came back last: at the
beginning of a step, or at its end where the products of the step before are over only then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import For
from phalanx.ir.ops.tile import Binary, Cast, Compare, Select
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Const, Label, Value
from phalanx.passes.rank_code import LoopCode

Fetch = Callable[[Value], list[Op]]
"""What fetches the step of an index."""


def fetch_ahead(loop: For, distance: int, fetch: Fetch, *, late: bool) -> tuple[list[Op], For]:
    """What stands before a loop, and the loop, in which the step `distance` further on is fetched; `late`: at its end."""
    before, inner = LoopCode(loop.loc), LoopCode(loop.loc)
    number = Value(I32, "ahead")
    first = _moved(inner, loop, loop.start, number)
    inner.branch(inside(inner, loop, first), _code(inner, fetch(first)))
    before.ops.append(
        For(
            number, Const(0, I32), Const(distance, I32), Const(1, I32), Block(tuple(inner.ops)), Label("ahead"),
            loc=loop.loc,
        )
    )
    step = LoopCode(loop.loc)
    following = _moved(step, loop, loop.index, Const(distance, I32))
    step.branch(inside(step, loop, following), _code(step, fetch(following)))
    ops = (*loop.body.ops, *step.ops) if late else (*step.ops, *loop.body.ops)
    return before.ops, dataclasses.replace(loop, body=Block(ops))


def _code(code: LoopCode, ops: list[Op]) -> LoopCode:
    made = code.fork()
    made.ops += ops
    return made


def _moved(code: LoopCode, loop: For, index: Value, steps: Value) -> Value:
    """The index so many steps after another."""
    if steps.type != loop.step.type:
        wide = Value(loop.step.type)
        code.ops.append(Cast(steps, wide, loc=code.loc))
        steps = wide
    far = Value(loop.step.type)
    result = Value(loop.index.type, loop.index.name)
    code.ops += [Binary("mul", steps, loop.step, far, loc=code.loc), Binary("add", index, far, result, loc=code.loc)]
    return result


def inside(code: LoopCode, loop: For, index: Value) -> Value:
    """Whether a loop comes to an index that it would step to."""
    if isinstance(loop.step, Const):
        return code.compare("lt" if int(loop.step.value) > 0 else "gt", index, loop.stop, "inside")
    up, below, above, result = (Value(BOOL, "inside") for _ in range(4))
    code.ops += [
        Compare("gt", loop.step, Const(0, loop.step.type), up, loc=code.loc),  # type: ignore[arg-type]
        Compare("lt", index, loop.stop, below, loc=code.loc), Compare("gt", index, loop.stop, above, loc=code.loc),
        Select(up, below, above, result, loc=code.loc),
    ]
    return result
