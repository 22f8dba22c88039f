"""Copies of instructions, for another role or another place: with values, cells and labels of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from phalanx.ir.core import Block, Op, block_fields
from phalanx.ir.holders import mapped_fields
from phalanx.ir.types import Type
from phalanx.ir.values import Label, Value, Var
from phalanx.markers import Kind, fields_of


class Clones:
    """What stands for the values, cells and labels of copied instructions; what was not copied stands for itself.

    With `same_cells` the copies read and write the cells of the originals: they run in the same role. `retyped` says of
    which type a copy's result is, where it is another one than the original's.
    """

    def __init__(self, same_cells: bool = False, retyped: Callable[[Type], Type] | None = None) -> None:
        self.known: dict[Any, Any] = {}
        self.same_cells = same_cells
        self.retyped = retyped

    def of(self, item: Any) -> Any:
        """What stands for a value, a cell, a label or storage in the copy."""
        return self.known.get(item, item)

    def copy(self, op: Op, block: Callable[[Block], Block]) -> Op:
        """The instruction with operands from the copy and results of its own; `block` copies what is inside it."""
        changes: dict[str, Any] = {name: self._fresh(getattr(op, name)) for name in fields_of(type(op), Kind.RESULT)}
        for name in (*fields_of(type(op), Kind.CELL), *fields_of(type(op), Kind.ATTRIBUTE)):
            item = getattr(op, name)
            if isinstance(item, Label) or (isinstance(item, Var) and not self.same_cells):
                changes[name] = self._fresh(item) if item not in self.known else self.known[item]
        for name in block_fields(type(op)):
            changes[name] = block(getattr(op, name))
        return dataclasses.replace(mapped_fields(op, self.of), **changes)

    def _fresh(self, item: Any) -> Any:
        if item is None:
            return None
        if isinstance(item, tuple):
            return tuple(map(self._fresh, item))
        if isinstance(item, Label):
            made: Any = Label(item.name)
        else:
            kind = item.type if self.retyped is None else self.retyped(item.type)
            made = Var(kind, item.name) if isinstance(item, Var) else Value(kind, item.name)
        self.known[item] = made
        return made
