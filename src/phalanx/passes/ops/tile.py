"""What passes know of arithmetic on tiles."""

from __future__ import annotations

from phalanx.ir.ops.tile import Binary, Bitcast, Cast, Compare, Fma, Keep, Select, SkippingProduct, Unary
from phalanx.ir.values import Value
from phalanx.passes.registry import by_element, factors

by_element.add(Unary, Binary, Fma, SkippingProduct, Compare, Select, Cast, Bitcast, Keep)


@factors(Binary)
def _factors(op: Binary) -> tuple[Value, Value] | None:
    return (op.a, op.b) if op.fn == "mul" else None
