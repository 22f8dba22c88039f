"""What integer scalars are known to be multiples of: proves that an address is aligned.

Only powers of two are tracked, because they survive the wrap-around of 32-bit arithmetic. ANY stands for 0 and for what
has not been seen yet: a multiple of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd

from phalanx.analysis.assumptions import find_assumptions
from phalanx.analysis.once import once
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import Assign, For, ReadVar
from phalanx.ir.ops.tile import Binary, Cast, Keep, Select, Unary
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Const, Value, constant_of

ANY = 0
LIMIT = 1 << 31

Divisor = Callable[[Value], int]


class Divisibility:
    """`divisor(value)`: the largest known power of two that divides an integer scalar (ANY for zero)."""

    def __init__(self, known: Mapping[Value, int]) -> None:
        self._known = known

    def divisor(self, value: Value) -> int:
        """The largest power of two that the value is known to be a multiple of."""
        if isinstance(value, Const):
            return power_of_two(int(value.value))
        return self._known.get(value, 1)

    def proves(self, value: Value, factor: int, multiple: int) -> bool:
        """Whether `value * factor` is always a multiple of `multiple`, a power of two."""
        divisor = self.divisor(value)
        return divisor == ANY or divisor * factor % multiple == 0


def power_of_two(number: int) -> int:
    """The largest power of two that divides `number`; ANY for 0."""
    return min(number & -number, LIMIT)


@once
def find_divisibility(function: Function) -> Divisibility:
    """Follows the definitions of all integer scalars; cells and loops until nothing changes any more."""
    known: dict[Value, int] = {}
    assumed = {value: power_of_two(number) for value, number in find_assumptions(function).multiples.items()}
    ops = [op for op in function.walk() if isinstance(op, Binary | Unary | Select | Cast | Keep | For | Assign | ReadVar)]

    def divisor(value: Value) -> int:
        if isinstance(value, Const):
            return power_of_two(int(value.value))
        # Not seen yet: everything that is computed starts as ANY and only falls; what no rule covers is 1.
        return both(known.get(value, ANY if value in computed else 1), assumed.get(value, 1))

    def both(found: int, said: int) -> int:
        return ANY if found == ANY else max(found, said)

    computed = {target for op in ops if (target := _target(op)) is not None}
    changed = True
    while changed:
        changed = False
        for op in ops:
            target = _target(op)
            if target is None:
                continue
            new = gcd(known.get(target, ANY), _transfer(op, divisor))
            if known.get(target) != new:
                known[target] = new
                changed = True
    for value, number in assumed.items():
        known[value] = both(known.get(value, 1), number)
    return Divisibility(known)


def _target(op: Op) -> Value | None:
    value = op.var if isinstance(op, Assign) else op.defines
    if value is None or not isinstance(value.type, ScalarType) or not value.type.dtype.is_integer:
        return None
    return value


def _transfer(op: Op, divisor: Divisor) -> int:
    if isinstance(op, For):
        return gcd(divisor(op.start), divisor(op.step))
    if isinstance(op, Assign):
        return divisor(op.value)
    if isinstance(op, ReadVar):
        return divisor(op.var)
    if isinstance(op, Select):
        return gcd(divisor(op.a), divisor(op.b))
    if isinstance(op, Keep):
        return divisor(op.x)
    if isinstance(op, Cast):
        integer = isinstance(op.x.type, ScalarType) and op.x.type.dtype.is_integer
        return divisor(op.x) if integer else 1
    if isinstance(op, Unary):
        return divisor(op.x) if op.fn in ("neg", "abs") else 1
    assert isinstance(op, Binary)
    return _binary(op, divisor)


def _binary(op: Binary, divisor: Divisor) -> int:
    a, b = divisor(op.a), divisor(op.b)
    constant = constant_of(op.b)
    if op.fn in ("add", "sub", "max", "min", "or", "xor", "mod"):
        return gcd(a, b)
    if op.fn == "mul":
        return min(a * b, LIMIT)
    if op.fn == "and":
        return ANY if ANY in (a, b) else max(a, b)
    if op.fn in ("shl", "shr") and constant is not None and not 0 <= constant < op.a.type.dtype.bits:
        return ANY if op.fn == "shl" else 1  # everything is shifted out; what is left is the sign
    if op.fn == "shl" and constant is not None:
        return min(a << int(constant), LIMIT)
    if op.fn in ("shr", "floordiv") and constant is not None and constant > 0:
        by = 1 << int(constant) if op.fn == "shr" else int(constant)
        return ANY if a == ANY else a // by if a % by == 0 else 1
    return 1
