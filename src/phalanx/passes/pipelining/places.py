"""Where the instructions of a kernel stand, who makes and reads their values, and who writes which array."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Mode
from phalanx.ir.ops.control import Assign, Break, Continue, For, Leave, Scope, While
from phalanx.ir.values import Param, Value, Var

Exit = Break | Continue | Leave


class Places:
    """Looked up once for a kernel, before anything is changed."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.makers: dict[Value, Op] = {}
        self.readers: dict[Value, list[Op]] = {}
        self.assigns: dict[Var, list[Assign]] = {}
        self.home: dict[Op, Block] = {}
        self.index: dict[Op, int] = {}
        """The place of an instruction in its block."""
        self.order: dict[Op, int] = {}
        """The place of an instruction in the text."""
        self.last: dict[Op, int] = {}
        """The place in the text of the last instruction inside."""
        self.around: dict[Op, tuple[Op, ...]] = {}
        self.writes: dict[Param, list[Op]] = {}
        self.exits: list[Exit] = []
        self._visit(function.body, ())

    def _visit(self, block: Block, around: tuple[Op, ...]) -> None:
        for index, op in enumerate(block.ops):
            self.home[op], self.index[op], self.around[op] = block, index, around
            self.order[op] = len(self.order)
            for value in op.defined_values():
                self.makers[value] = op
            for value in op.operands():
                self.readers.setdefault(value, []).append(op)
            if isinstance(op, Assign):
                self.assigns.setdefault(op.var, []).append(op)
            if isinstance(op, Exit):
                self.exits.append(op)
            for array in written_arrays(op):
                self.writes.setdefault(array, []).append(op)
            for inner in op.blocks():
                self._visit(inner, (*around, op))
            self.last[op] = len(self.order) - 1

    def place_in(self, block: Block, op: Op) -> int | None:
        """Where in `block` an instruction stands, or the one around it; None if it is somewhere else."""
        for outer in (op, *reversed(self.around[op])):
            if self.home[outer] is block:
                return self.index[outer]
        return None

    def is_in(self, op: Op, outer: Op) -> bool:
        """Whether an instruction stands inside another."""
        return outer in self.around[op]

    def overtaken(self, op: Op, array: Param) -> Op | None:
        """What may write an array before `op` runs, or while it runs again: a reader there must not be moved ahead."""
        loops = [outer for outer in self.around[op] if isinstance(outer, For | While)]
        for write in self.writes.get(array, ()):
            if self.order[write] < self.order[op] or any(loop in self.around[write] for loop in loops):
                return write
        return None

    def exits_from(self, op: Op) -> Iterator[Op]:
        """What inside an instruction, or it itself, goes to a place outside it."""
        inside = list(Block((op,)).walk())
        labels = {inner.label for inner in inside if isinstance(inner, For | While | Scope)}
        for inner in inside:
            if isinstance(inner, Exit) and inner.label not in labels:
                yield inner


def written_arrays(op: Op) -> Iterator[Param]:
    """The arrays that an instruction may write."""
    for access in op.effects().accesses:
        if access.region.space.is_common and access.mode is not Mode.READ:
            memory = access.region.memory
            assert isinstance(memory, Param)
            yield memory
