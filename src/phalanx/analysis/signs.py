"""Integer scalars that are known not to be negative: the copy engine stores to no negative coordinate.

Products and sums of such scalars count as such: one that leaves 32 bits names no element of any array.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from phalanx.analysis.assumptions import Bound, find_assumptions
from phalanx.analysis.once import once
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import Assign, For, ReadVar
from phalanx.ir.ops.tile import Binary, Cast, Keep, Select, Unary
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Const, Value, constant_of

_FOLLOWED = (Binary, Unary, Select, Cast, Keep, For, Assign, ReadVar)


class Signs:
    """`nonnegative(value)`: whether an integer scalar is known to be 0 or more."""

    def __init__(
        self, negative: set[Value], computed: set[Value], least: Mapping[Value, tuple[Bound, ...]] = MappingProxyType({})
    ) -> None:
        self._negative = negative  # may be negative, as far as is known by now
        self._computed = computed
        self._least = least  # what was assumed

    def nonnegative(self, value: Value) -> bool:
        """Whether the value is known to be 0 or more, assumptions included."""
        return self._found(value) or any(self._found(least, beyond) for least, beyond in self._least.get(value, ()))

    def _found(self, value: Value, beyond: bool = False) -> bool:
        """Whether the value is 0 or more without assumptions about itself; with `beyond`, the next integer is."""
        if isinstance(value, Const):
            return value.value + beyond >= 0
        if isinstance(value.type, ScalarType) and value.type.dtype.kind in ("uint", "bool"):
            return True
        return value in self._computed and value not in self._negative


@once
def find_signs(function: Function) -> Signs:
    """Follows the definitions of all integer scalars; cells and loops until nothing changes any more."""
    ops = [op for op in function.walk() if op.nonnegative or isinstance(op, _FOLLOWED)]
    targets = [(op, op.var if isinstance(op, Assign) else op.defines) for op in ops]
    negative: set[Value] = set()
    computed = {target for _, target in targets if target is not None}
    signs = Signs(negative, computed, find_assumptions(function).least)
    changed = True
    while changed:
        changed = False
        for op, target in targets:
            if target is not None and target not in negative and not _holds(op, signs):
                negative.add(target)
                changed = True
    return signs


def _holds(op: Op, signs: Signs) -> bool:
    """Whether what an instruction defines is 0 or more, as far as is known of its operands."""
    known = signs.nonnegative
    if op.nonnegative:
        return True
    if isinstance(op, For):
        stop = constant_of(op.stop)
        return known(op.start) and (known(op.step) or (stop is not None and stop >= -1))
    if isinstance(op, Assign):
        return known(op.value)
    if isinstance(op, ReadVar):
        return known(op.var)
    if isinstance(op, Select):
        return known(op.a) and known(op.b)
    if isinstance(op, Keep):
        return known(op.x)
    if isinstance(op, Cast):
        return isinstance(op.x.type, ScalarType) and not op.x.type.dtype.is_float and known(op.x)
    if isinstance(op, Unary):
        return op.fn == "abs"
    assert isinstance(op, Binary)
    if op.fn in ("max", "and"):
        return known(op.a) or known(op.b)
    if op.fn == "mod":
        return known(op.b)  # floors, so it has the sign of the divisor
    if op.fn in ("shl", "shr"):
        return known(op.a)
    return op.fn in ("add", "mul", "min", "or", "xor", "floordiv") and known(op.a) and known(op.b)
