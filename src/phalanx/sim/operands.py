"""What an instruction's meaning and its reports receive at run time, and where in that each operand stands.

A meaning gets one argument per operand field, in the order of the fields. Effects may name more than those: a view that
is derived from an operand (the half of a peer, a range of columns), a value inside a view. Such items are resolved like
operands and follow them in the call; reports look at them, the meaning does not get them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from phalanx.ir.core import Op, operand_fields
from phalanx.ir.effects import Effects, Lifecycle
from phalanx.ir.values import Const
from phalanx.ir.views import BarrierRef

Operands = tuple[Any, ...]
Position = tuple[int, ...]
"""The number of an argument, then positions inside it where it is a tuple."""


class CallOperands:
    """The arguments of the call that runs `op`: `fields` for its meaning, then `derived` for reports alone."""

    def __init__(self, op: Op) -> None:
        self.fields = tuple(getattr(op, name) for name in operand_fields(type(op)))
        self.paths: dict[Any, Position] = {}
        for number, item in enumerate(self.fields):
            self._note(item, (number,))
        self.derived: list[Any] = []
        effects = op.effects()
        if not effects.is_pure:
            for item in _named_by(effects):
                if item is not None and not isinstance(item, Const) and item not in self.paths:
                    self.paths[item] = (len(self.fields) + len(self.derived),)
                    self.derived.append(item)

    def _note(self, item: Any, path: Position) -> None:
        if isinstance(item, tuple):
            for position, part in enumerate(item):
                self._note(part, (*path, position))
        elif item is not None:
            self.paths.setdefault(item, path)

    def number(self, item: Any) -> int | None:
        """The number of the argument that is what an effect names; None where it is a part of one, or a constant."""
        path = self.paths.get(item, ())
        return path[0] if len(path) == 1 else None

    def finder(self, item: Any) -> Callable[[Operands], Any]:
        """A function that finds what an effect names among the arguments. Equal views are one place."""
        path = self.paths.get(item)
        if path is None:
            constant = None if item is None else item.value
            return lambda operands: constant
        if len(path) == 1:
            number = path[0]
            return lambda operands: operands[number]

        def inside(operands: Operands) -> Any:
            found: Any = operands
            for position in path:
                found = found[position]
            return found

        return inside

    def meaning_alone(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run` without what follows its operands."""
        if not self.derived:
            return run
        count = len(self.fields)
        return lambda *operands: run(*operands[:count])


def lifecycle_barrier(life: Lifecycle) -> BarrierRef | None:
    """The one barrier that begins or ends; None for all of its array."""
    return None if life.index is None else BarrierRef(life.barrier, life.index)


def _named_by(effects: Effects) -> Iterator[Any]:
    """What the reports of these effects look at."""
    for access in effects.accesses:
        yield access.region
        yield access.mask
        yield access.only_if
    for expected in effects.expects:
        yield from (expected.barrier, expected.nbytes, expected.mask)
    for arrival in effects.arrivals:
        yield from (arrival.barrier, arrival.count, arrival.mask)
    for life in effects.lifecycle:
        yield lifecycle_barrier(life)
    for handshake in effects.handshakes:
        yield handshake.region
