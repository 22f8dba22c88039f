"""Loops over tiles that the hardware hands out (`px.persistent(n, schedule="clc")`): cluster launch control, written out.

The grid has a cluster for every tile, of which those start that fit. A cluster that is done asks for one that has not
started, and takes over its tile: the number of a cluster is its tile (and, in a grid with fewer clusters than tiles, that
number plus the clusters of the grid, and so on). Who is taken over never starts; who is not, starts by itself: so every
tile is somebody's, whenever anybody stops to ask.

One agent asks, as one draws in `passes/tile_draws.py`, and once for each cluster that was taken: with its first tile, so
that the answer is there when its tiles are done. The answer comes to all CTAs of the cluster, into one of two places, and
every agent reads it there. After a refusal nobody asks again: all of them have read it, and the loop is over.
"""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.ir.core import Function, Op
from phalanx.ir.ops.clc import RESPONSE_DTYPE, RESPONSE_WORDS, ClcQuery, ClcTryCancel
from phalanx.ir.ops.cluster import ClusterCount, ClusterId
from phalanx.ir.ops.control import NextTile, NumBlocks, While
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, Wait
from phalanx.ir.ops.tile import Select
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, SharedBuffer, SharedView
from phalanx.location import Location
from phalanx.passes.rank_code import LoopCode, fresh_name
from phalanx.passes.tile_draws import masked, put_in


@dataclass(frozen=True)
class Answers:
    """Two places for answers, each with the barriers that say that one came and that all have read it."""

    responses: SharedBuffer
    full: BarrierArray
    empty: BarrierArray

    @staticmethod
    def of(taken: set[str], loc: Location) -> Answers:
        """Memory and barriers for the loops that belong together."""
        names = [fresh_name(name, taken) for name in ("tile_answers", "tiles_full", "tiles_empty")]
        return Answers(
            SharedBuffer(names[0], (2, RESPONSE_WORDS), RESPONSE_DTYPE, loc), BarrierArray(names[1], 2, loc=loc),
            BarrierArray(names[2], 2, loc=loc),
        )

    def at(self, slot: Value) -> SharedView:
        """The place of one answer."""
        return SharedView(self.responses, (slot, Const(0, I32)), (1, RESPONSE_WORDS), (1,))


class Requests:
    """One loop: what its agent does to learn the next tile, and, where it asks, to ask."""

    def __init__(self, function: Function, answers: Answers, copies: int, *, draws: bool) -> None:
        self.function, self.answers, self.copies, self.draws = function, answers, copies, draws
        self.size = function.cluster_size
        self.everyone = Const((1 << self.size) - 1, I32) if self.size > 1 else None
        self.tile, self.slot, self.round = (Var(I32, name) for name in ("tile", "tile_slot", "tile_round"))
        self.begun, self.fresh = Var(BOOL, "begun"), Var(BOOL, "taken")

    def loop(self, loop: While, draw: NextTile) -> list[Op]:
        """The loop that stands in its place, and what comes before it."""
        before, test, body = (LoopCode(loop.loc) for _ in range(3))
        number = Value(I32, "cluster")
        before.ops.append(ClusterId(None, number, loc=loop.loc))
        for cell, value in ((self.tile, number), (self.slot, Const(0, I32)), (self.round, Const(0, I32))):
            before.assign(cell, value)
        before.assign(self.begun, Const(False, BOOL))
        before.assign(self.fresh, Const(True, BOOL))
        test.branch(test.read(self.begun), self._next(test.fork(), draw.n))
        test.assign(self.begun, Const(True, BOOL))
        test.ops.append(masked(test.read(self.tile), draw.result, loop.loc))
        if self.draws:
            first = before.is_first(self.size, self.copies)
            inner = body if first is None else body.fork()
            inner.branch(inner.read(self.fresh), self._ask(inner.fork()))
            if first is not None:  # around the other condition: which CTA it is, is known
                body.branch(first, inner)
        return [*before.ops, put_in(loop, test, body)]

    def _next(self, code: LoopCode, n: Value) -> LoopCode:
        """The next tile of the cluster that was taken last, or the first of another one; n where there is none."""
        count = Value(I32, "clusters")
        code.ops.append(ClusterCount(count, loc=code.loc))
        further = code.binary("add", code.read(self.tile), count)
        inside = code.compare("lt", further, n, "further")
        same, other = code.fork(), code.fork()
        same.assign(self.tile, further)
        same.assign(self.fresh, Const(False, BOOL))
        slot, round_ = other.read(self.slot), other.read(self.round)
        granted, block = Value(BOOL, "granted"), Value(I32, "block")
        drawer = Const(1, I32) if self.size > 1 else None
        other.ops += [
            Wait(BarrierRef(self.answers.full, slot), round_, loc=code.loc),
            ClcQuery(self.answers.at(slot), (granted, block), loc=code.loc),
            Arrive(BarrierRef(self.answers.empty, slot), Const(1, I32), drawer, loc=code.loc),
        ]
        taken = Value(I32, "tile")
        other.ops.append(Select(granted, self._cluster_of(other, block), n, taken, loc=code.loc))
        other.assign(self.tile, taken)
        other.assign(self.fresh, Const(True, BOOL))
        other.assign(self.round, other.binary("xor", round_, slot))  # of two places: the other one, and back
        other.assign(self.slot, other.binary("xor", slot, Const(1, I32)))
        code.branch(inside, same, other)
        return code

    def _cluster_of(self, code: LoopCode, block: Value) -> Value:
        """The number of the cluster that a block of the grid, by its linear index, is in."""
        x, y, z = self.function.cluster
        if y * z == 1:  # along the first dimension clusters are runs of blocks, in every row
            return block if x == 1 else code.binary("floordiv", block, Const(x, I32))
        width, height = Value(I32, "blocks_x"), Value(I32, "blocks_y")
        code.ops += [NumBlocks(0, width, loc=code.loc), NumBlocks(1, height, loc=code.loc)]
        row = code.binary("floordiv", block, width)
        places = [code.binary("mod", block, width), code.binary("mod", row, height), code.binary("floordiv", row, height)]
        a, b, c = (code.binary("floordiv", place, Const(size, I32)) for place, size in zip(places, (x, y, z), strict=True))
        wide, high = (code.binary("floordiv", v, Const(size, I32)) for v, size in ((width, x), (height, y)))
        above = code.binary("add", b, code.binary("mul", high, c))
        return code.binary("add", a, code.binary("mul", wide, above))

    def _ask(self, code: LoopCode) -> LoopCode:
        """Waits until all have read what was in the place, and asks for an answer there."""
        slot, round_ = code.read(self.slot), code.read(self.round)
        full, place = BarrierRef(self.answers.full, slot), self.answers.at(slot)
        free = code.binary("xor", round_, Const(1, I32))
        code.ops += [
            Wait(BarrierRef(self.answers.empty, slot), free, loc=code.loc),
            ArriveExpectTx(full, Const(place.nbytes, I32), self.everyone, loc=code.loc),
            ClcTryCancel(place, full, self.everyone, loc=code.loc),
        ]
        return code
