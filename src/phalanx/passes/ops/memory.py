"""What passes know of instructions that bring registers into memory."""

from __future__ import annotations

from phalanx.ir.ops.memory import AtomicAdd, AtomicMax, AtomicMin, Store
from phalanx.ir.values import Value
from phalanx.ir.views import View
from phalanx.passes.registry import brought


@brought(Store)
def _stored(op: Store) -> tuple[View, Value]:
    return op.view, op.value


@brought(AtomicAdd, AtomicMax, AtomicMin)
def _updated(op: AtomicAdd | AtomicMax | AtomicMin) -> tuple[View, Value] | None:
    """What is added, or compared, element by element, unless somebody wants the old ones."""
    return (op.view, op.value) if op.result is None and not op.effects().handshakes else None
