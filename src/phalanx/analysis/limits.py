"""How large integer scalars can become, where that follows from the kernel alone: ranks, remainders, counted loops.

The writer adds the places of a tile to a start as plain integers only if no sum can leave 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from phalanx.analysis.once import once
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import For
from phalanx.ir.ops.tile import Binary, Keep
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Value, constant_of

Limits = Mapping[Value, int]


@once
def find_limits(function: Function) -> Limits:
    """The largest value of each scalar that is between 0 and some known number. Values that change are not followed."""
    limits: dict[Value, int] = {}
    for op in function.walk():
        target = op.defines
        if target is not None and isinstance(target.type, ScalarType) and target.type.dtype.kind in ("int", "uint"):
            found = _largest(op, limits, function.cluster)
            if found is not None and found < 1 << target.type.dtype.bits - 1:
                limits[target] = found
    return limits


def largest(limits: Limits, value: Value) -> int | None:
    """The largest number that a scalar can be, if it is surely 0 or more and that number is known."""
    number = constant_of(value)
    if number is None:
        return limits.get(value)
    return int(number) if number >= 0 else None


def _largest(op: Op, limits: Limits, cluster: tuple[int, int, int]) -> int | None:
    if op.in_rank(cluster, 0) is not None:
        return max(op.in_rank(cluster, rank) or 0 for rank in range(prod(cluster)))
    if op.most is not None:
        return op.most
    if isinstance(op, Keep):
        return largest(limits, op.x)
    if isinstance(op, For):
        start, stop, step = largest(limits, op.start), largest(limits, op.stop), largest(limits, op.step)
        return None if start is None or stop is None or not step else max(start, stop - 1)
    if not isinstance(op, Binary):
        return None
    a, b = largest(limits, op.a), largest(limits, op.b)
    if op.fn == "mod":
        divisor = constant_of(op.b)
        return int(divisor) - 1 if divisor is not None and divisor > 0 else None
    if op.fn == "and":
        return min((x for x in (a, b) if x is not None), default=None)
    if a is None or b is None:
        return None
    if op.fn in ("add", "mul", "min", "max"):
        return {"add": a + b, "mul": a * b, "min": min(a, b), "max": max(a, b)}[op.fn]
    return a if op.fn in ("floordiv", "shr") else None
