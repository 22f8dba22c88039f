"""What passes make of signals of barriers: at another scope, in other CTAs, by other threads."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Op
from phalanx.ir.effects import Span
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, BarrierInit, Form, TestWait, Wait
from phalanx.ir.values import Value
from phalanx.passes.registry import at_scope, counting, in_ctas, in_form


@at_scope(Arrive, ArriveExpectTx, Wait, TestWait)
def _at_scope(op: Arrive | ArriveExpectTx | Wait | TestWait, scope: Span) -> Op:
    return dataclasses.replace(op, scope=scope)


@in_ctas(Arrive)
def _in_ctas(op: Arrive, ctas: Value) -> Op:
    return dataclasses.replace(op, ctas=ctas)


@in_form(Arrive)
def _in_form(op: Arrive, form: Form, factor: int, spread: bool) -> Op:
    if (form, factor, spread) == (op.form, op.factor, op.spread):
        return op
    return dataclasses.replace(op, form=form, factor=factor, spread=spread)


@counting(BarrierInit)
def _counting(op: BarrierInit, factor: int) -> Op:
    return op if factor == op.factor else dataclasses.replace(op, factor=factor)
