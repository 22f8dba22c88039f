"""What a producer has to run to know where a load reads, and whether it is reached: the backward slice of its place.

The slice holds arithmetic, cells, loops, branches and exits, tiles that are drawn, and loads of indices and scalars that
nothing overwrites. Anything else stands against it: the load then stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.effects import Effects, Neighbour
from phalanx.ir.ops.control import Assign, Break, Continue, For, If, ReadVar, Scope, While
from phalanx.ir.types import TileType
from phalanx.ir.values import Const, Param, Value
from phalanx.passes.pipelining.places import Exit, Places


class NotSliced(Exception):
    """Why a producer can't know it; the text is the reason."""


class Slice:
    """The instructions of a slice, as they are found. `outside`: what stands before the roles is known to all of them."""

    def __init__(self, places: Places, outside: set[Op]) -> None:
        self.places = places
        self.outside = outside
        self.ops: set[Op] = set()
        self.carried: set[Op] = set()
        """Loops of which the slice reads a cell that they change."""

    def copy(self) -> Slice:
        """Another slice that begins with what this one has."""
        made = Slice(self.places, self.outside)
        made.ops, made.carried = set(self.ops), set(self.carried)
        return made

    def add_place(self, op: Op, values: Iterable[Value]) -> None:
        """What decides whether `op` is reached, and what the values are that it reads."""
        self._control(op)
        for value in values:
            self.value(value)

    def value(self, value: Value) -> None:
        """What makes a value."""
        if isinstance(value, Const | Param):
            return
        self.op(self.places.makers[value])

    def op(self, op: Op) -> None:
        """An instruction, what it reads and what decides whether it is reached."""
        if op in self.ops or op in self.outside:
            return
        self.ops.add(op)
        self._check(op)
        self._control(op)
        if isinstance(op, ReadVar):
            for write in self.places.assigns.get(op.var, ()):
                self.op(write)
                if self.places.order[write] > self.places.order[op]:  # what an iteration leaves to the next
                    self.carried |= set(self.places.around[write]) & set(self.places.around[op])
        for value in op.operands():
            self.value(value)
        if isinstance(op, For | While | Scope):
            self._exits(op)

    def _control(self, op: Op) -> None:
        for outer in self.places.around[op]:
            self.op(outer)
        self._skipped(op)

    def _skipped(self, op: Op) -> None:
        """Exits before `op` that go past it."""
        places = self.places
        for before in places.exits:
            if places.order[before] < places.order[op] and self._passes(before, op):
                self.op(before)

    def _passes(self, before: Op, op: Op) -> bool:
        """Whether an exit that stands before `op` may go past it: to the end of something that holds both."""
        assert isinstance(before, Exit)
        holders = (outer for outer in self.places.around[op] if isinstance(outer, For | While | Scope))
        return any(outer.label is before.label for outer in holders) and before not in self.ops

    def _exits(self, holder: For | While | Scope) -> None:
        """Exits that end a loop of the slice early, wherever they stand in it."""
        for inner in self.places.exits:
            if isinstance(holder, Scope) or isinstance(inner, Continue):
                continue
            if self.places.is_in(inner, holder) and not self._stays_inside(inner, holder):
                self.op(inner)

    def _stays_inside(self, exit_: Op, holder: For | While | Scope) -> bool:
        """Whether an exit goes to something inside the loop."""
        assert isinstance(exit_, Exit)
        around = self.places.around[exit_]
        inner = around[around.index(holder) + 1 :]
        return any(isinstance(outer, For | While | Scope) and outer.label is exit_.label for outer in inner)

    def _check(self, op: Op) -> None:
        """Whether a producer may run it."""
        if isinstance(op, For | While | If | Scope | Assign | ReadVar | Exit) or op.draw is not None:
            return
        effects = op.effects()
        load = op.tile_load
        if load is not None and load.view.space.readable_ahead:
            array = load.view.memory
            assert isinstance(array, Param)
            write = self.places.overtaken(op, array)
            if write is not None:
                raise NotSliced(
                    f"its place follows from '{array.name}', which is written at {write.loc.short}: what is read ahead "
                    "might be old"
                )
        elif not effects.is_pure and not _is_wait_for_launch(effects):
            raise NotSliced(f"its place follows from {op.call} at {op.loc.short}")
        result = op.defines
        if result is not None and isinstance(result.type, TileType) and len(result.type.shape) > 1:
            raise NotSliced(f"its place follows from a tile of shape {result.type.shape} at {op.loc.short}")


def _is_wait_for_launch(effects: Effects) -> bool:
    return effects.launches == (Neighbour.PRIOR,)


def loads_wait_for_launches(places: Places) -> list[Op]:
    """What waits for the launch before this one: a producer waits for it as well."""
    return [op for op in places.order if Neighbour.PRIOR in op.effects().launches]


def check_breaks(loop: For, places: Places, slice_: Slice) -> None:
    """Adds what a producer has to run to end a loop early with the others; an error at a `break` that it can't follow."""
    for leaving in places.exits:
        if not isinstance(leaving, Break) or leaving.label is not loop.label:
            continue
        why = "without a producer, steps are fetched before it is known whether the loop comes to them"
        remedy = "leave producer=False out, put the rest of the loop under an if, or shorten the range"
        try:
            slice_.op(leaving)
        except NotSliced as problem:
            why = str(problem).replace("its place follows", "whether it is come to follows")
            remedy = "the loads ahead would be nobody's: put the rest of the loop under an if, or shorten the range"
        else:
            if loop.pipelined is None or loop.pipelined.producer:
                continue
        raise Error(f"break in a loop over px.pipelined: {why}", location=leaving.loc, remedy=remedy)
