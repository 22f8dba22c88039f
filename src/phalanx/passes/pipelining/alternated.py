"""Writes loops whose steps alternate (`alternation.py`): two steps a turn, one before the loop, maybe one behind it.

A step is begun, early code and products, before the products of the one before are waited for. Where these add to sums
that go on, products are in flight when a turn ends. Where late code reads their sums, it runs beside the next products:
``P1, late code of 0, early code of 2, P2, wait for P1, late code of 1, wait for P2``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.ir.clones import Clones
from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import For, If
from phalanx.ir.ops.memory import FenceAsyncProxy
from phalanx.ir.ops.tile import Empty
from phalanx.ir.ops.wgmma import Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Const, Label, Value, Var
from phalanx.ir.views import SharedBuffer, in_shared
from phalanx.passes.pipelining.ahead import inside
from phalanx.passes.pipelining.alternation import Alternation
from phalanx.passes.pipelining.products import runs
from phalanx.passes.rank_code import LoopCode

if TYPE_CHECKING:
    from phalanx.passes.pipelining.consumer import Consumer

FENCE = "what threads computed is seen by the tensor cores"

Step = dict[Value, Value]
"""A step that has begun: its values, by those of the step as it was read."""


class Alternated:
    """One loop, written."""

    def __init__(self, consumer: Consumer, form: Alternation) -> None:
        self.consumer = consumer
        self.form = form
        self.slot = Value(I32, "slot")
        self.sums = {lane: Value(lane.result.type, lane.result.name or "acc") for lane in form.lanes}
        """What a step begins to add to."""
        self.flying = dict(self.sums)
        """What its products give, while they may be in flight."""
        self.pattern = self._pattern()
        read = (item for made in form.products for item in consumer.operands.reads(made.op))
        self.rings = list(dict.fromkeys(consumer.ring_of[item] for item in read))
        self.stages = {ring: consumer.stages[ring] for ring in self.rings}
        over = {self.flying[lane]: lane.cell or Var(lane.result.type, "part") for lane in form.lanes}
        values = (*form.carried, *self.stages.values())
        held = {value: Var(value.type, value.name) for value in values}  # type: ignore[arg-type]
        self.cells: dict[Value, Var] = over | held
        """Where a step's values are when a turn ends."""
        self.settles = any(lane.cell is None for lane in form.lanes)
        """Whether products are over when a turn ends: of sums that go on over it ptxas does not see who may read them."""

    def _pattern(self) -> list[Op]:
        """A step up to its late code, with its index, the place of its operands and its sums left open."""
        form, consumer = self.form, self.consumer
        body = form.loop.body
        early, beside = set(form.early), set(form.beside)
        read = {value for op in (*early, *(made.op for made in form.products)) for value in op.operands()}
        ops: list[Op] = []
        later: list[Op] = []
        for place, op in enumerate((*body.ops, None)):
            for ring in consumer.waits.get((body, place), ()):
                needed = any(item.products or item.load.result in read for item in ring.loads)
                (ops if needed else later).extend(consumer.take(ring))
            if op in early:
                ops.append(op)
            elif op in beside:
                later.append(op)
        return [*ops, *self._stores(), *self._products(), WgmmaCommit(loc=form.loop.loc), *later]

    def _stores(self) -> list[Op]:
        """The operands that are computed go where products read them."""
        ops: list[Op] = []
        stored: set[SharedBuffer] = set()
        for op, item in self.form.written.items():
            if item.buffer not in stored:
                ops += item.form.store(item.stored(self.slot), op.loc)
                stored.add(item.buffer)
        return [*ops, FenceAsyncProxy("cta", FENCE, loc=self.form.loop.loc)] if ops else []

    def _products(self) -> list[Op]:
        """The products of a step."""
        form, consumer = self.form, self.consumer
        ops: list[Op] = []
        for made in form.products:
            lane = next(lane for lane in form.lanes if made.op in lane.products)
            written = form.written.get(made.op)
            a, b = consumer.side(made.a), consumer.side(made.b) if written is None else written.view(self.slot)
            assert in_shared(b) and made.along is not None
            adds = Const(lane.cell is not None or made.op is not lane.products[0], BOOL)
            raw, warps = Value(made.what.result.type, made.what.result.name), consumer.places.function.warps
            ops.append(Wgmma(a, b, self.flying[lane], adds, warps, raw, along=made.along, loc=made.op.loc))
            self.flying[lane] = raw
        return ops

    def ops(self) -> list[Op]:
        """All of it, under a condition where it may have no iterations."""
        loop = self.form.loop
        outer, code = LoopCode(loop.loc), LoopCode(loop.loc)
        ran = runs(loop, outer)
        first = self._begin(code, loop.start, 0, {}, self._rooms(code))
        if self.settles:
            self._settle(code, first)
        self._keep(code, first)
        following = Var(loop.index.type, "following")  # type: ignore[arg-type]
        second = code.binary("add", loop.start, loop.step)
        code.assign(following, second)
        two = _twice(code, loop.step)
        stop = code.binary("sub", loop.stop, loop.step)
        turn, index = LoopCode(loop.loc), Value(loop.index.type, loop.index.name)
        self._turn(turn, index)
        turn.assign(following, turn.binary("add", index, two))
        code.ops.append(For(index, second, stop, two, Block(tuple(turn.ops)), Label(loop.label.name), loc=loop.loc))
        last = self._recall(code)
        if not self.settles:
            self._settle(code, last)
            self._hand_over(code, last)
        rest, alone = LoopCode(loop.loc), LoopCode(loop.loc)
        one_more = self._begin(rest, rest.read(following), 1, {}, {})
        self._late(rest, last)
        self._settle(rest, one_more)
        self._hand_over(rest, one_more)
        self._late(rest, one_more)
        self._late(alone, last)
        code.branch(inside(code, loop, code.read(following)), rest, alone)
        if ran is None:
            return code.ops
        return [*outer.ops, If(ran, Block(tuple(code.ops)), Block(()), loc=loop.loc)]

    def _turn(self, code: LoopCode, index: Value) -> None:
        """Two steps, behind one whose products are in flight, or over where these steps settle."""
        earlier = self._recall(code)
        later = self._begin(code, index, 1, earlier, {})
        if self.settles:
            self._late(code, earlier)
        else:
            self._wait(code, 1, later)
            self._release(code, earlier)
        again = self._begin(code, code.binary("add", index, self.form.loop.step), 0, later, earlier)
        self._wait(code, 1, later, again)
        self._release(code, later)
        if self.settles:
            self._late(code, later)
            self._settle(code, again)
        self._keep(code, again)

    # Parts of a step.

    def _rooms(self, code: LoopCode) -> Step:
        """Registers for the first step's sums, those of the cells: nothing moves while a product is in flight."""
        flying = [self.flying[lane] for lane in self.form.lanes if lane.cell is None]
        for value in flying:
            empty = Value(value.type, value.name)
            code.ops.append(Empty(empty, loc=code.loc))
            code.assign(self.cells[value], empty)
        return {value: code.read(self.cells[value]) for value in flying}

    def _begin(self, code: LoopCode, index: Value, slot: int, before: Step, free: Step) -> Step:
        """Early code and products of a step. Sums go on from those of the step `before`, or in cells; those that begin
        anew take the registers of the step `free`, or new ones."""
        clones = Clones(same_cells=True)
        clones.known[self.form.loop.index] = index
        clones.known[self.slot] = Const(slot, I32)
        for lane, begun in self.sums.items():
            flying = self.flying[lane]
            if lane.cell is not None:
                value = before[flying] if before else code.read(lane.cell)
            elif free:
                value = free[flying]
            else:
                value = Value(begun.type, begun.name)
                code.ops.append(Empty(value, loc=code.loc))
            clones.known[begun] = value
        for op in self.pattern:
            code.ops.append(clones.copy(op, _leaf))
        return {value: clones.of(value) for value in self.cells}

    def _wait(self, code: LoopCode, pending: int, *steps: Step) -> None:
        """All but so many of the steps' groups are over: sums have new names. One that goes on is the last step's."""
        pairs: list[tuple[Value, Value]] = []
        for lane, flying in self.flying.items():
            for step in steps if lane.cell is None else steps[-1:]:
                over = Value(flying.type, flying.name)
                pairs.append((step[flying], over))
                step[flying] = over
        accs, results = zip(*pairs, strict=True)
        code.ops.append(WgmmaWait(pending, accs, results, loc=self.form.products[0].op.loc))

    def _settle(self, code: LoopCode, step: Step) -> None:
        """A step's products are over, and no others are in flight: what they read is given back."""
        self._wait(code, 0, step)
        self._release(code, step)

    def _release(self, code: LoopCode, step: Step) -> None:
        for ring, stage in self.stages.items():
            ring.release(code, step[stage])

    def _late(self, code: LoopCode, step: Step) -> None:
        """The late code of a step."""
        clones = Clones(same_cells=True)
        clones.known |= {lane.result: step[flying] for lane, flying in self.flying.items()}
        clones.known |= {value: step[value] for value in self.form.carried}
        for op in self.form.late:
            code.ops.append(clones.copy(op, _leaf))

    def _keep(self, code: LoopCode, step: Step) -> None:
        for value, cell in self.cells.items():
            code.assign(cell, step[value])

    def _recall(self, code: LoopCode) -> Step:
        return {value: code.read(cell) for value, cell in self.cells.items()}

    def _hand_over(self, code: LoopCode, step: Step) -> None:
        """What the loop leaves in the cells of its sums."""
        for lane, flying in self.flying.items():
            if lane.cell is not None:
                code.assign(lane.cell, step[flying])


def _twice(code: LoopCode, step: Value) -> Value:
    """Two steps: a constant of one, so that its sign is known."""
    if isinstance(step, Const):
        return Const(2 * int(step.value), step.type)  # type: ignore[arg-type]
    return code.binary("add", step, step)


def _leaf(block: Block) -> Block:
    """Arithmetic has no code inside."""
    return block
