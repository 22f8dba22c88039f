"""How ordinary accesses want the tiles that they load and store laid out."""

from __future__ import annotations

from phalanx.cuda.lower.layout_rules import (
    Operand,
    Same,
    Touch,
    Wish,
    as_it_was_read,
    asks,
    is_tile,
    row_indices,
    stored,
)
from phalanx.ir.ops.memory import ATOMICS, Atomic, Load, Store


@asks(Load)
def _load(op: Load) -> list[Wish]:
    if not is_tile(op.result):
        return []
    return [Touch(op.result, op.view, False), *row_indices(op.view, op.result)]


@asks(Store)
def _store(op: Store) -> list[Wish]:
    return stored(op.value, op.view)


@asks(*ATOMICS)
def _atomic(op: Atomic) -> list[Wish]:
    if not is_tile(op.value):
        return []
    others = [value for value in op.elements() if value not in (op.value, op.result)]
    touch = [Touch(op.value, op.view, True), *row_indices(op.view, op.value)]
    touch += [Operand(other, op.value, lambda layout: layout) for other in others]
    if op.result is None:
        return [Same((op.value,)), *touch]  # alone too: else its indices are moved to it
    return [Same((op.value, op.result)), *touch, as_it_was_read(op.result, op.value)]
