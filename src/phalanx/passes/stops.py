"""Takes out what is for a run that somebody steps through."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.values import Value


def without_stops(function: Function) -> Function:
    """The kernel without `px.breakpoint`, and without what only its conditions compute or load; itself where it has none.

    For whoever prepares a kernel that nobody steps through. Example: ``without_stops(reading.function)``.
    """
    stops = {op for op in function.body.walk() if op.stops}
    if not stops:
        return function
    suspects = _behind(function.body, stops)
    gone = set(stops)
    while True:
        body = rewrite(function.body, lambda op, gone=gone: [] if op in gone else None)  # type: ignore[misc]
        used = {value for op in body.walk() for value in op.operands()}
        more = {op for op in body.walk() if op in suspects and not used.intersection(op.defined_values())}
        if not more:
            return dataclasses.replace(function, body=body)
        gone |= more


def _behind(body: Block, stops: set[Op]) -> set[Op]:
    """The instructions that the conditions follow from and that do nothing but define values."""
    made: dict[Value, Op] = {value: op for op in body.walk() for value in op.defined_values()}
    found: set[Op] = set()
    todo = [value for op in stops for value in op.operands()]
    while todo:
        op = made.get(todo.pop())
        if op is None or op in found or any(True for _ in op.blocks()):
            continue
        if op.effects().is_pure or op.tile_load is not None:
            found.add(op)
            todo += op.operands()
    return found
