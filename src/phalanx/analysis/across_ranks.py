"""What values are in the CTAs of a cluster, as expressions that can be compared across ranks.

Each rank is enumerated. What only a run knows is an expression of what all CTAs of a cluster know alike: arguments, the
cluster's own number, tiles that are dealt to it, indices of loops that begin and step alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from phalanx.analysis.ranks import Evaluator
from phalanx.ir.core import Function, Op, content_fields
from phalanx.ir.effects import Mode
from phalanx.ir.ops.cluster import coordinates
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, ReadVar, Scope, While
from phalanx.ir.values import Const, Param, Value, Var


class AcrossRanks:
    """The values of a kernel; `around` has, for each instruction, those that it stands in."""

    def __init__(self, function: Function, around: Mapping[Op, tuple[Op, ...]]) -> None:
        self.function = function
        self.around = around
        self.ranks = range(function.cluster_size)
        self.evaluators = [Evaluator(function, rank) for rank in self.ranks]
        self.facts = self.evaluators[0].facts
        self.exits = [op for op in function.walk() if isinstance(op, Break | Continue | Leave)]
        self.known: dict[tuple[Value, int], Hashable] = {}
        self.written = {
            access.region.memory for effects in self.facts.effects.values() for access in effects.accesses
            if access.mode is not Mode.READ
        }
        self.own: set[Var] = set()
        """Cells that may differ between the CTAs of a cluster."""
        self._settle()

    def alike(self, op: Op) -> bool:
        """Whether all CTAs of the cluster go the same way at a loop or a branch."""
        if isinstance(op, While):
            return any(inner.draw is not None for inner in op.test) or self.uniform(op.cond)
        return all(self.uniform(value) for value in op.operands()) if isinstance(op, For | If) else True

    def unlike(self, op: Op) -> Op | None:
        """What may bring CTAs of the cluster to an instruction unequally often: a loop or a branch around it, or around an
        exit to the end of something that holds it; None where nothing does."""
        holders = [outer.label for outer in self.around[op] if isinstance(outer, For | While | Scope)]
        exits = [leaving for leaving in self.exits if any(leaving.label is label for label in holders)]
        ways = (outer for place in (op, *exits) for outer in self.around[place])
        return next((outer for outer in ways if not self.alike(outer)), None)

    def uniform(self, value: Value) -> bool:
        """Whether a value is the same in all CTAs of the cluster."""
        return len({self.term(value, rank) for rank in self.ranks}) == 1

    def term(self, value: Value, rank: int) -> Hashable:
        """A value in the CTA of a rank: a number, or an expression of what all CTAs of the cluster know alike."""
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Param):
            return value
        key = (value, rank)
        if key not in self.known:
            self.known[key] = self._term(value, rank)
        return self.known[key]

    def _settle(self) -> None:
        """Finds the cells that differ between CTAs: none at first, then those that are given what differs, or where."""
        found = True
        while found:
            found = False
            self.known.clear()
            for var, writes in self.facts.assigns.items():
                if var in self.own:
                    continue
                if not all(self.uniform(write.value) and self.unlike(write) is None for write in writes):
                    self.own.add(var)
                    found = True

    def _term(self, value: Value, rank: int) -> Hashable:
        number = self.evaluators[rank].number(value)
        if number is not None:
            return number
        op = self.facts.definitions[value]
        if op.block_dimension is not None:
            own = coordinates(self.function.cluster, rank)[op.block_dimension]
            return ("block", op.block_dimension, own)
        if isinstance(op, For):
            return ("index", op, self.term(op.start, rank), self.term(op.step, rank))
        if op.draw is not None:
            return ("tile", op)
        if isinstance(op, ReadVar):
            return ("cell", value, rank if op.var in self.own else None)
        load = op.tile_load
        if load is not None and load.view.space.readable_ahead and load.view.memory not in self.written:
            places = tuple(self.term(offset, rank) for offset in load.view.offsets)
            return ("load", load.view.memory, load.view.extents, load.view.kept, places, self.term(load.fill, rank))
        if not op.effects().is_pure:
            return ("own", value, rank)
        return (type(op), value.type, *(self._part(getattr(op, name), rank) for name in content_fields(type(op))))

    def _part(self, item: object, rank: int) -> Hashable:
        if isinstance(item, Value):
            return self.term(item, rank)
        return tuple(self._part(part, rank) for part in item) if isinstance(item, tuple) else item  # type: ignore[return-value]
