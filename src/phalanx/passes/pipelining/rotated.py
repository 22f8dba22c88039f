"""Writes loops whose second product of a step is put off to the next one (`rotation.py`)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from phalanx.ir.clones import Clones
from phalanx.ir.core import Block, Op, substitute
from phalanx.ir.ops.control import If
from phalanx.ir.ops.tile import Empty
from phalanx.ir.ops.wgmma import Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.types import BOOL
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.views import SharedView
from phalanx.passes.pipelining.products import StagedProduct, runs
from phalanx.passes.pipelining.rings import Ring
from phalanx.passes.pipelining.rotation import Rotation
from phalanx.passes.rank_code import LoopCode

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
        inner.ops.append(dataclasses.replace(loop, start=second, pipelined=None, body=Block(tuple(self._step()))))
        self._last_product(inner)
        if ran is None:
            return inner.ops
        return [*code.ops, If(ran, Block(tuple(inner.ops)), Block(), loc=loop.loc)]

    def _first_step(self, code: LoopCode) -> None:
        """The first step without its second product."""
        form = self.form
        clones = Clones(same_cells=True)
        clones.known[form.loop.index] = form.loop.start
        for op in form.before:
            code.ops.append(clones.copy(op, lambda inner: inner))
        raw, rings = self._begin(code, self.first, clones)
        result = Value(raw.type, raw.name)
        clones.known[self.first.what.result] = result
        code.ops.append(WgmmaWait(0, (raw,), (result,), loc=code.loc))
        self._release(code, rings)
        for op in (*form.early, *form.reads, *form.late):
            code.ops.append(clones.copy(op, lambda inner: inner))
        code.assign(self.power_cell, clones.of(self.powers))
        code.assign(self.sum_cell, clones.of(self.sum))

    def _step(self) -> list[Op]:
        """A step: its first product, and the second one of the step before."""
        form = self.form
        code = LoopCode(form.loop.loc)
        code.ops += form.before
        put_off = code.read(self.power_cell), code.read(self.sum_cell)  # before any product: no register moves under one
        raw, keys = self._begin(code, self.first, Clones())
        flying, values = self._begin_put_off(code, *put_off)
        handed = Value(flying.type, flying.name)
        code.ops.append(WgmmaWait(1, (raw, flying), (self.first.what.result, handed), loc=form.first.loc))
        self._release(code, keys)
        code.ops += form.early
        total = Value(flying.type, flying.name)
        code.ops.append(WgmmaWait(0, (handed,), (total,), loc=form.second.loc))
        self._release(code, values)
        old: dict[Value, Value] = {op.defines: total for op in form.reads if op.defines is not None}
        code.ops += (substitute(op, old) for op in form.late)
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
        assert isinstance(b, SharedView) and made.along is not None
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
