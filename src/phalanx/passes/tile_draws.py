"""Loops over tiles that a counter deals (`px.persistent(n, schedule="counter")`), written out in ordinary instructions.

The first tile of a cluster is its number. With each tile that it takes, the cluster draws the next one: an atomic
addition to a word of global memory, whose old value plus the number of clusters is a tile. So `n` tiles are `n` draws,
however many clusters there are, and whoever draws the last one sets the word back to 0 for the next launch. That holds
as long as every cluster comes to the loop and goes on to its end, which `passes/tile_loops.py` sees to.

One agent draws: of the roles that run the loop at the same time the first (that has no copies, or its first copy), in
the first CTA of the cluster. It draws ahead, and tells the others with a ring of two slots: a tile in shared memory, a
barrier that says that the slot is full and one that all have read it. In a cluster it sends the tile into the slot of every
CTA, and all of them give theirs back to it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.cluster import ClusterCount, ClusterId, ClusterStore
from phalanx.ir.ops.control import NextTile, While
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, Wait
from phalanx.ir.ops.memory import AtomicAdd, AtomicExch, Load, Store
from phalanx.ir.ops.tile import Binary
from phalanx.ir.types import I32, i32
from phalanx.ir.values import Const, Param, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView
from phalanx.location import Location
from phalanx.passes.rank_code import LoopCode, fresh_name

POSITIVE = 0x7FFFFFFF
"""Tiles are 0 or more, which the compiler sees where the sign is cut off: copies to them need no second way."""


@dataclass(frozen=True)
class Slots:
    """How the agent that draws tells the others: two slots, each full or empty."""

    tiles: SharedBuffer
    full: BarrierArray
    empty: BarrierArray
    receivers: int
    """The CTAs in which somebody waits to be told, as a mask."""

    @staticmethod
    def of(function: Function, agents: int, taken: set[str], loc: Location) -> Slots | None:
        """Slots for the loops of so many agents of a CTA; None where nobody has to be told."""
        alone, everyone = agents == 1, (1 << function.cluster_size) - 1
        if alone and function.cluster_size == 1:
            return None
        tiles, full, empty = (fresh_name(name, taken) for name in ("tiles", "tiles_full", "tiles_empty"))
        return Slots(
            SharedBuffer(tiles, (2,), i32, loc), BarrierArray(full, 2, loc=loc), BarrierArray(empty, 2, loc=loc),
            everyone - 1 if alone else everyone,
        )

    def slot(self, number: Value, *, cta: Value | None = None) -> SharedView:
        """The element of a slot, this CTA's or another's."""
        return SharedView(self.tiles, (number,), (1,), (), cta)


class Draws:
    """One loop: who draws in it, and what its agent does to learn the next tile."""

    def __init__(
        self, function: Function, array: Param, number: int, slots: Slots | None, copies: int, *, draws: bool
    ) -> None:
        self.counter = GlobalView(array, (Const(number, I32),), (1,), ())
        self.slots, self.copies, self.draws = slots, copies, draws
        self.size = function.cluster_size
        self.next, self.slot, self.round = (Var(I32, name) for name in ("next_tile", "tile_slot", "tile_round"))

    def loop(self, loop: While, draw: NextTile) -> list[Op]:
        """The loop that stands in its place, and what comes before it."""
        before, test, body = (LoopCode(loop.loc) for _ in range(3))
        if self.slots is not None:
            before.assign(self.slot, Const(0, I32))
            before.assign(self.round, Const(0, I32))
        if self.draws:
            self._begin(before)
        first = before.is_first(self.size, self.copies) if self.draws else None
        tile = self._tile(test, first)
        test.ops.append(masked(tile, draw.result, loop.loc))
        if self.draws:
            self._draw(body, draw.n, first)
        return [*before.ops, put_in(loop, test, body)]

    def _begin(self, code: LoopCode) -> None:
        """The first tile is the cluster's number."""
        number = Value(I32, "cluster")
        code.ops.append(ClusterId(None, number, loc=code.loc))
        code.assign(self.next, number)

    def _tile(self, code: LoopCode, first: Value | None) -> Value:
        """The next tile: the one that was drawn, or what the slot says."""
        if self.slots is None:
            return code.read(self.next)
        slot, round_ = code.read(self.slot), code.read(self.round)
        if self.draws and first is None:
            tile = code.read(self.next)
            self._tell(code, slot, round_, tile)
        elif first is None:
            tile = self._learn(code, slot, round_)
        else:  # the role that draws in the first CTA, or its first copy, is told in the others
            known = Var(I32, "tile")
            then, orelse = LoopCode(code.loc), LoopCode(code.loc)
            drawn = then.read(self.next)
            self._tell(then, slot, round_, drawn)
            then.assign(known, drawn)
            orelse.assign(known, self._learn(orelse, slot, round_))
            code.branch(first, then, orelse)
            tile = code.read(known)
        code.assign(self.round, code.binary("xor", round_, slot))  # of two slots: the other one, and back
        code.assign(self.slot, code.binary("xor", slot, Const(1, I32)))
        return tile

    def _tell(self, code: LoopCode, slot: Value, round_: Value, tile: Value) -> None:
        """Waits until all have read the slot, fills it, and says so."""
        slots, loc = self.slots, code.loc
        assert slots is not None
        full = BarrierRef(slots.full, slot)
        free = code.binary("xor", round_, Const(1, I32))
        code.ops.append(Wait(BarrierRef(slots.empty, slot), free, loc=loc))
        if self.size == 1:
            code.ops += [Store(slots.slot(slot), tile, loc=loc), Arrive(full, Const(1, I32), loc=loc)]
            return
        nbytes = slots.slot(slot).nbytes
        code.ops.append(ArriveExpectTx(full, Const(nbytes, I32), Const(slots.receivers, I32), loc=loc))
        for rank in range(self.size):
            if slots.receivers >> rank & 1:
                there = slots.slot(slot, cta=Const(rank, I32))
                code.ops.append(ClusterStore(there, tile, full, Const(1 << rank, I32), loc=loc))

    def _learn(self, code: LoopCode, slot: Value, round_: Value) -> Value:
        """Waits until the slot is full, reads it, and gives it back to the one who draws."""
        slots, loc = self.slots, code.loc
        assert slots is not None
        tile = Value(I32, "tile")
        code.ops.append(Wait(BarrierRef(slots.full, slot), round_, loc=loc))
        code.ops.append(Load(slots.slot(slot), Const(0, I32), tile, loc=loc))
        drawer = Const(1, I32) if self.size > 1 else None
        code.ops.append(Arrive(BarrierRef(slots.empty, slot), Const(1, I32), drawer, loc=loc))
        return tile

    def _draw(self, code: LoopCode, n: Value, first: Value | None) -> None:
        """Draws the tile after this one; the last of n draws sets the counter back."""
        inner = code if first is None else LoopCode(code.loc)
        loc = code.loc
        old, count = Value(I32, "drawn"), Value(I32, "clusters")
        inner.ops.append(AtomicAdd(self.counter, Const(1, I32), old, loc=loc))
        last = inner.compare("eq", old, inner.binary("sub", n, Const(1, I32)), "last")
        reset = LoopCode(loc)
        reset.ops.append(AtomicExch(self.counter, Const(0, I32), None, loc=loc))
        inner.branch(last, reset)
        inner.ops.append(ClusterCount(count, loc=loc))
        inner.assign(self.next, inner.binary("add", old, count))
        if first is not None:
            code.branch(first, inner)


def put_in(loop: While, test: LoopCode, body: LoopCode) -> While:
    """The loop with code in the place of its draw, and more at the beginning of its body."""
    ops = loop.test.ops
    place = next(n for n, op in enumerate(ops) if op.draw is not None)
    return dataclasses.replace(
        loop,
        test=Block((*ops[:place], *test.ops, *ops[place + 1 :])),
        body=Block((*body.ops, *loop.body.ops)),
    )


def masked(tile: Value, result: Value, loc: Location) -> Op:
    """The tile without its sign."""
    return Binary("and", tile, Const(POSITIVE, I32), result, loc=loc)
