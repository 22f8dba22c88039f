"""How many registers of a thread hold tiles, place by place: an estimate, from which tiles are read later.

Tiles that share registers (cells and what is read from them, accumulators from product to product) count once. Operands
of products in flight are alive until the wait for them. Scalars and addresses come on top; ptxas decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from phalanx.cuda.text.cells import Cells
from phalanx.ir.archs import entry_registers
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import GroupAction
from phalanx.ir.ops.control import Assign, Break, Continue, For, Leave, ReadVar, Roles, Scope, While
from phalanx.ir.types import TileType
from phalanx.ir.values import Label, Value, constant_of
from phalanx.location import NOWHERE

if TYPE_CHECKING:
    from phalanx.layouts import RegisterLayout

Live = frozenset[Value]
MOST_NAMED = 6
"""Tiles that a note names."""


class Pressure:
    """The tiles that are alive after each instruction of a kernel."""

    def __init__(self, body: Block, cells: Cells, layouts: Mapping[Value, RegisterLayout]) -> None:
        self.layouts = layouts
        self.cells = cells
        self.after: dict[Op, Live] = {}
        self._shared: dict[Value, Value] = {}
        self._until: dict[Op, set[Value]] = {}
        for op in body.walk():
            self._share(op)
        self._ends: dict[Label, Live] = {}
        """What is alive behind a loop or a scope."""
        self._next_turns: dict[Label, Live] = {}
        """What is alive where the next turn of a loop begins."""
        self._block(body, frozenset())

    def _share(self, op: Op) -> None:
        """Notes a tile that is all of another one under another type or shape."""
        if not op.moves or op.defines is None:
            return
        (source,) = op.operands()
        if isinstance(source.type, TileType) and self.words(source) == self.words(op.defines):
            self._shared[op.defines] = source

    def words(self, tile: Value) -> int:
        """The registers of a thread that hold a tile; truths are in predicates, or computed again."""
        dtype = tile.type.dtype  # type: ignore[union-attr]
        return 0 if dtype.kind == "bool" else -(-self.layouts[tile].num_registers * max(8, dtype.bits) // 32)

    def peak(self, block: Block) -> int:
        """The largest number of registers that hold tiles at any place of a block, and of those inside it."""
        return max((self.total(op) for op in block.walk() if op in self.after), default=0)

    def total(self, op: Op) -> int:
        """The registers that hold tiles after an instruction."""
        return sum(self.words(tile) for tile in self.after.get(op, ()))

    def fullest(self, function: Function) -> str:
        """The place where tiles leave the least room, and what is alive there: "k.py:12: o 64, s 40: 104 of 160". Empty
        where there are no tiles."""
        entry = entry_registers(function.warps, function.ctas_per_sm)
        limits = dict.fromkeys(function.walk(), entry)
        for role in (role for op in function.walk() if isinstance(op, Roles) for role in op.regions):
            limits.update(dict.fromkeys(role.body.walk(), role.regs or entry))
        places = [op for op in limits if self.total(op) and op.loc is not NOWHERE]
        if not places:
            return ""
        place = max(places, key=lambda op: self.total(op) - limits[op])
        tiles = sorted(self.after[place], key=self.words, reverse=True)
        named = [f"{tile.name or 'a tile'} {self.words(tile)}" for tile in tiles if self.words(tile)]
        listed = ", ".join(named[:MOST_NAMED]) + (f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else "")
        return (
            f"most registers of a thread hold tiles after {place.loc.short}: {listed}, {self.total(place)} of "
            f"{limits[place]}, beside addresses and scalars"
        )

    # ------------------------------------------------------------------ backwards through the kernel

    def _root(self, value: Value) -> Value:
        value = self.cells.source(value)
        while (found := self._shared.get(value)) is not None:
            value = self.cells.source(found)
        return value

    def _block(self, block: Block, live: Live) -> Live:
        self._keep_operands(block)
        for op in reversed(block.ops):
            self.after[op] = live
            live = self._before(op, live)
        return live.difference(self.cells.declared.get(block, ()))  # a cell begins where it is declared

    def _before(self, op: Op, live: Live) -> Live:
        match op:
            case For() | While():
                return self._loop(op, live)
            case Break() | Leave():
                return self._ends.get(op.label, frozenset())
            case Continue():
                return self._next_turns.get(op.label, frozenset())
            case Scope():
                self._ends[op.label] = live
                return self._block(op.body, live)
            case Roles():
                return frozenset().union(*(self._block(role.body, live) for role in op.regions))
            case ReadVar():
                return self._used(live - {self._root(op.result)}, (op.var,)) if self._root(op.result) in live else live
            case Assign():
                return self._used(live - {op.var}, (op.value,) if op.var in live else ())
        blocks = tuple(op.blocks())
        if blocks:  # a branch: one of them, or neither
            return live.union(*(self._block(inner, live) for inner in blocks))
        pairs = op.updates()
        old = {acc for acc, _ in pairs}
        kept = [acc for acc, result in pairs if self._root(result) in live or self._root(acc) in live]
        live = live - {self._root(value) for value in op.defined_values()}
        return self._used(live, (*kept, *(value for value in op.operands() if value not in old), *self._until.get(op, ())))

    def _used(self, live: Live, values: tuple[Value, ...]) -> Live:
        return live | {self._root(value) for value in values if isinstance(value.type, TileType)}

    def _loop(self, op: For | While, after: Live) -> Live:
        blocks = tuple(op.blocks())
        endless = isinstance(op, While) and bool(constant_of(op.cond))  # it ends by `break`
        head = ended = frozenset() if endless else after
        for _ in range(2):  # what the next turn reads is alive at the end of this one
            self._ends[op.label], self._next_turns[op.label] = after, head
            live = head
            for block in reversed(blocks):
                live = self._block(block, live)
            head = live | ended
        return head

    def _keep_operands(self, block: Block) -> None:
        """Notes at each wait of a block the tiles that products before it, which are over only then, read."""
        reading: list[tuple[int, tuple[Value, ...]]] = []
        committed = 0
        for op in block.ops:
            effects = op.effects()
            if effects.accumulations:
                accs = {item.acc for item in effects.accumulations}
                reading.append((committed, tuple(value for value in op.operands() if value not in accs)))
            for group in effects.groups:
                if group.action is GroupAction.COMMIT:
                    committed += 1
                elif group.action is GroupAction.WAIT:
                    over = [item for item in reading if item[0] < committed - group.pending]
                    reading = [item for item in reading if item not in over]
                    self._until[op] = {value for _, values in over for value in values}
