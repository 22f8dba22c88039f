"""What passes know of arithmetic on tiles."""

from __future__ import annotations

from phalanx.ir.ops.tile import Binary
from phalanx.ir.values import Value
from phalanx.passes.registry import factors


@factors(Binary)
def _factors(op: Binary) -> tuple[Value, Value] | None:
    return (op.a, op.b) if op.fn == "mul" else None
