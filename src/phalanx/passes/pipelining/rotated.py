"""Writes loops whose second product of a step is put off to the next one (`rotation.py`)."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import TYPE_CHECKING

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.analysis.whole_blocks import chosen_in_whole_blocks
from phalanx.ir.clones import Clones
from phalanx.ir.core import Block, Op, substitute
from phalanx.ir.ops.control import For, If
from phalanx.ir.ops.tile import Empty, SkippingProduct
from phalanx.ir.ops.wgmma import Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.types import BOOL, TileType
from phalanx.ir.values import Const, Label, Value, Var
from phalanx.ir.views import SharedView, in_shared
from phalanx.passes.pipelining.products import StagedProduct, runs
from phalanx.passes.pipelining.rings import Ring
from phalanx.passes.pipelining.rotation import Rotation
from phalanx.passes.rank_code import LoopCode
from phalanx.passes.registry import factors

if TYPE_CHECKING:
    from phalanx.passes.pipelining.consumer import Consumer


class Rotated:
    """One loop, written."""

    def __init__(self, consumer: Consumer, rotation: Rotation) -> None:
        self.consumer = consumer
        self.form = rotation
        found = consumer.products.found
        self.first, self.second = found[rotation.first], found[rotation.second]
        assert isinstance(self.second.a, Value) and self.second.what.acc is not None
        self.powers, self.sum = self.second.a, self.second.what.acc
        self.chosen = chosen_in_whole_blocks(consumer.places.function, rotation.loop, consumer.places.makers)
        self.power_cell = Var(self.powers.type, self.powers.name or "p")
        self.sum_cell = Var(self.sum.type, self.sum.name or "acc")

    def ops(self) -> list[Op]:
        """All of it, under a condition where it may have no iterations."""
        loop = self.form.loop
        code = LoopCode(loop.loc)
        ran = runs(loop, code)
        inner = LoopCode(loop.loc)
        self._first_step(inner)
        second = inner.binary("add", loop.start, loop.step)
        if self.chosen:
            second = self._whole_steps(inner, second)
        inner.ops.append(dataclasses.replace(loop, start=second, pipelined=None, body=Block(tuple(self._step({})))))
        kept = self.consumer.last_read.get(loop, [])
        late = [ring for ring in kept if self.form.second in ring.loads[0].products]
        inner.ops += self.consumer.give_back([ring for ring in kept if ring not in late], loop.loc)
        self._last_product(inner)
        inner.ops += self.consumer.give_back(late, loop.loc)
        if ran is None:
            return inner.ops
        nothing = Block(tuple(self.consumer.give_back(kept, loop.loc)))
        return [*code.ops, If(ran, Block(tuple(inner.ops)), nothing, loc=loop.loc)]

    def _first_step(self, code: LoopCode) -> None:
        """The first step without its second product."""
        form = self.form
        clones = Clones(same_cells=True)
        clones.known[form.loop.index] = form.loop.start
        for op in form.before:
            code.ops.append(clones.copy(op, _leaf))
        raw, rings = self._begin(code, self.first, clones)
        result = Value(raw.type, raw.name)
        clones.known[self.first.what.result] = result
        code.ops.append(WgmmaWait(0, (raw,), (result,), loc=code.loc))
        self._release(code, rings)
        for op in (*form.early, *form.reads, *form.late):
            code.ops.append(clones.copy(op, _leaf))
        code.assign(self.power_cell, clones.of(self.powers))
        code.assign(self.sum_cell, clones.of(self.sum))

    def _whole_steps(self, code: LoopCode, second: Value) -> Value:
        """The steps that need no mask, as a loop of their own; where the others begin."""
        loop = self.form.loop
        clones = Clones(same_cells=True)
        index = clones.known[loop.index] = Value(loop.index.type, loop.index.name)
        behind = Var(loop.index.type, "behind")
        code.assign(behind, second)
        one = Const(1, loop.step.type)  # type: ignore[arg-type]
        stop = code.binary("add", code.binary("sub", loop.stop, loop.step), one)  # index + step <= stop
        body = LoopCode(loop.loc)
        body.ops += [clones.copy(op, _leaf) for op in without_unused(self._step(self.chosen))]
        body.assign(behind, body.binary("add", index, loop.step))
        code.ops.append(
            For(index, second, stop, loop.step, Block(tuple(body.ops)), Label(loop.label.name), loc=loop.loc)
        )
        return code.read(behind)

    def _step(self, chosen: dict[Value, Value]) -> list[Op]:
        """A step: its first product, and the second one of the step before; with `chosen` in the place of selects."""
        form = self.form
        code = LoopCode(form.loop.loc)
        code.ops += form.before
        put_off = code.read(self.power_cell), code.read(self.sum_cell)  # before any product: no register moves under one
        raw, keys = self._begin(code, self.first, Clones())
        flying, values = self._begin_put_off(code, *put_off)
        handed = Value(flying.type, flying.name)
        code.ops.append(WgmmaWait(1, (raw, flying), (self.first.what.result, handed), loc=form.first.loc))
        self._release(code, keys)
        code.ops += _with(form.early, chosen)
        total = Value(flying.type, flying.name)
        code.ops.append(WgmmaWait(0, (handed,), (total,), loc=form.second.loc))
        self._release(code, values)
        old: dict[Value, Value] = {op.defines: total for op in form.reads if op.defines is not None}
        code.ops += [skipping_ones(op, total) for op in _with(form.late, chosen | old)]
        code.assign(self.power_cell, self.powers)
        code.assign(self.sum_cell, old.get(self.sum, self.sum))
        return code.ops

    def _last_product(self, code: LoopCode) -> None:
        flying, values = self._begin_put_off(code, code.read(self.power_cell), code.read(self.sum_cell))
        total = Value(flying.type, flying.name)
        code.ops.append(WgmmaWait(0, (flying,), (total,), loc=self.form.second.loc))
        self._release(code, values)
        code.assign(self.form.cell, total)

    # Parts of a step.

    def _begin(self, code: LoopCode, made: StagedProduct, clones: Clones) -> tuple[Value, list[Ring]]:
        """Waits for what a product reads and issues it; its accumulator, and the rings it reads."""
        rings = self._take(code, made)
        a, b = self.consumer.side(made.a), self.consumer.side(made.b)
        acc = made.what.acc
        if acc is None:
            acc = Value(made.what.result.type, made.what.result.name)
            code.ops.append(Empty(acc, loc=made.op.loc))
        return self._issue(code, made, clones.of(a), b, clones.of(acc), made.what.acc is not None), rings

    def _begin_put_off(self, code: LoopCode, powers: Value, total: Value) -> tuple[Value, list[Ring]]:
        """The second product of the step before."""
        rings = self._take(code, self.second)
        return self._issue(code, self.second, powers, self.consumer.side(self.second.b), total, True), rings

    def _issue(
        self, code: LoopCode, made: StagedProduct, a: SharedView | Value, b: SharedView | Value, acc: Value, adds: bool
    ) -> Value:
        assert in_shared(b) and made.along is not None
        raw, loc = Value(made.what.result.type, made.what.result.name), made.op.loc
        warps = self.consumer.places.function.warps
        code.ops.append(Wgmma(a, b, acc, Const(adds, BOOL), warps, raw, along=made.along, loc=loc))
        code.ops.append(WgmmaCommit(loc=loc))
        return raw

    def _take(self, code: LoopCode, made: StagedProduct) -> list[Ring]:
        rings = list(dict.fromkeys(self.consumer.ring_of[item] for item in self.consumer.operands.reads(made.op)))
        for ring in rings:
            code.ops += self.consumer.take(ring)
        return rings

    def _release(self, code: LoopCode, rings: list[Ring]) -> None:
        for ring in rings:
            ring.release(code, self.consumer.stages[ring])


def _leaf(block: Block) -> Block:
    """Arithmetic has no code inside."""
    return block


def _with(ops: tuple[Op, ...], values: dict[Value, Value]) -> list[Op]:
    """Instructions with values in the place of others, and without those that defined them."""
    return [substitute(op, values) for op in ops if op.defines is None or op.defines not in values]


def skipping_ones(op: Op, total: Value) -> Op:
    """An instruction; where it multiplies the rows of a sum by a factor each, in a form that looks for factors of 1 first.

    These are most, where a factor follows from a maximum over the steps so far, and the question costs next to nothing.
    The product is the same.
    """
    multiplies, result = factors.of(op), op.defines
    pair = None if multiplies is None else multiplies(op)
    if pair is None or total not in pair or result is None:
        return op
    other = pair[1] if pair[0] is total else pair[0]
    kind, each = total.type, other.type
    if not isinstance(kind, TileType) or not isinstance(each, TileType) or kind.dtype != each.dtype:
        return op
    if result.type != kind or not kind.dtype.is_float or prod(each.shape) == prod(kind.shape):
        return op
    return SkippingProduct(total, other, result, loc=op.loc)


def without_unused(ops: list[Op]) -> list[Op]:
    """The code without arithmetic whose results nobody reads."""
    used: set[Value] = set()
    out: list[Op] = []
    for op in reversed(ops):
        made = op.defined_values()
        if made and op.effects().is_pure and not used.intersection(made):
            continue
        used.update(op.operands())
        out.append(op)
    return out[::-1]
