"""What `px.assume` says of integer scalars, for the analyses that follow definitions.

The analyses ask what a value is, not where it is used. So an assumption counts only if it runs whenever the value is
made: both stand in one block, or in what always runs inside it, with no way out between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from phalanx.analysis.once import once
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Assume, Break, Continue, For, Leave, Roles, Scope, While
from phalanx.ir.ops.mbarrier import Transaction
from phalanx.ir.ops.tile import Binary, Compare
from phalanx.ir.values import Value, constant_of

_ALWAYS_RUN = (Roles, Scope, Transaction)
_TURNED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq", "ne": "ne"}


Bound = tuple[Value, bool]
"""A value that another is not less than (not more than), and whether it is more (less)."""


@frozen
class Assumptions:
    """`least[v]`: what v is not less than; `most[v]`: what v is not more than; `multiples[v]`: the number that v is a
    multiple of."""

    least: dict[Value, tuple[Bound, ...]]
    most: dict[Value, tuple[Bound, ...]]
    multiples: dict[Value, int]


@once
def find_assumptions(function: Function) -> Assumptions:
    """For `signs`, `divisibility` and accesses to global memory.

    Example: after ``px.assume(m % 8 == 0)``, ``multiples[m] == 8``.
    """
    least: dict[Value, list[Bound]] = {}
    most: dict[Value, list[Bound]] = {}
    multiples: dict[Value, int] = {}
    makers = {op.defines: op for op in function.walk() if isinstance(op, Binary | Compare)}
    for cond, made in _conditions(function.body, set(function.params), makers):
        a, b, fn = cond.a, cond.b, cond.fn
        for value, other, how in ((a, b, fn), (b, a, _TURNED[fn])):
            if value in made and how in ("ge", "gt", "eq"):
                least.setdefault(value, []).append((other, how == "gt"))
            if value in made and how in ("le", "lt", "eq"):
                most.setdefault(value, []).append((other, how == "lt"))
            rest = makers.get(value)
            if how == "eq" and constant_of(other) == 0 and isinstance(rest, Binary) and rest.fn == "mod":
                by = constant_of(rest.b)
                if by is not None and by > 0 and rest.a in made:
                    before = multiples.get(rest.a, 1)
                    multiples[rest.a] = before * int(by) // gcd(before, int(by))
    low, high = ({value: tuple(others) for value, others in found.items()} for found in (least, most))
    return Assumptions(low, high, multiples)


def _conditions(
    block: Block, made: set[Value], makers: Mapping[Value | None, Op]
) -> Iterator[tuple[Compare, set[Value]]]:
    """Every comparison that is assumed, with the values whose making it always follows."""
    for op in block:
        made.update(op.defined_values())
        if isinstance(op, Assume):
            yield from ((part, made) for part in _parts(op.cond, makers))
        for inner in op.blocks():
            always = isinstance(op, _ALWAYS_RUN)
            yield from _conditions(inner, set(made if always else op.defined_values()), makers)
        if _may_leave(op):
            made.clear()


def _may_leave(op: Op) -> bool:
    """Whether what follows the instruction may be left out."""
    inside = [op, *(nested for block in op.blocks() for nested in block.walk())]
    here = {nested.label for nested in inside if isinstance(nested, For | While | Scope)}
    return any(isinstance(nested, Break | Continue | Leave) and nested.label not in here for nested in inside)


def _parts(cond: Value, makers: Mapping[Value | None, Op]) -> Iterator[Compare]:
    """The comparisons of which all hold."""
    op = makers.get(cond)
    if isinstance(op, Compare):
        yield op
    elif isinstance(op, Binary) and op.fn == "and":
        yield from _parts(op.a, makers)
        yield from _parts(op.b, makers)
