"""How many tiles a kernel draws: both roles draw as many, so that what an array says of it is read once, before them."""

from __future__ import annotations

from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.types import ScalarType
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.slices import NotSliced, Slice, loads_wait_for_launches


def counted_before(places: Places, before: list[Op], rest: Block) -> tuple[list[Op], Block]:
    """What stands before the roles and the rest, with what tells the number of drawn tiles among the former.

    Arithmetic stays: that it gives the same in both roles is seen there. `NotSliced` where it can't be known before them.
    """
    found = Slice(places, set(before))
    for op in places.order:
        if op.draw is not None:
            found.value(op.draw.n)
    if all(op.effects().is_pure and not isinstance(op, Assign | ReadVar) for op in found.ops):
        return before, rest
    last = max(places.order[op] for op in found.ops)
    for op in loads_wait_for_launches(places):
        if places.order[op] < last:
            found.op(op)
    moved = [op for op in rest.ops if op in found.ops]
    inside = set(Block(tuple(moved)).walk())
    _check(places, found, inside)
    return [*before, *moved], Block(tuple(op for op in rest.ops if op not in found.ops))


def _check(places: Places, found: Slice, inside: set[Op]) -> None:
    """Whether what was found can stand before the roles, by itself: roles share scalars alone, and no cells."""
    cells = {op.var for op in inside if isinstance(op, Assign)}
    others = [op for op in places.order if op not in inside]
    odd = next((op for op in (*found.ops, *inside) if (op in found.ops) != (op in inside)), None)
    for op in others:
        if isinstance(op, Assign | ReadVar) and op.var in cells:
            odd = odd or op
        for value in op.operands():
            if places.makers.get(value) in inside and not isinstance(value.type, ScalarType):
                odd = odd or op
    if odd is not None:
        raise NotSliced(f"how many tiles are drawn is not known before the roles, see {odd.loc.short}")
