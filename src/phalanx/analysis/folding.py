"""Integer and bool arithmetic on numbers the compiler knows, as the hardware does it: results wrap to their
type.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from phalanx.ir.types import DType

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "max": max,
    "min": min,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def is_integer(number: object) -> bool:
    """Whether folding applies: bools and ints; floats are left to the hardware."""
    return isinstance(number, int)


def wrap(number: int, dtype: DType) -> int | bool | None:
    """`number` in `dtype`, cut to its bits; None where the type is a float."""
    if dtype.kind == "bool":
        return bool(number)
    if not dtype.is_integer:
        return None
    low = int(number) & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.kind == "int" and low >> (dtype.bits - 1) else low


def fold_binary(fn: str, a: int, b: int, dtype: DType) -> int | bool | None:
    """`fn` of two numbers of type `dtype`; None for what has no fixed meaning (division by 0, a shift out of
    range).
    """
    compute = _BINARY.get(fn)
    if compute is None or (fn in ("floordiv", "mod") and b == 0):
        return None
    if fn in ("shl", "shr") and not 0 <= b < dtype.bits:
        return None
    return wrap(compute(a, b), dtype)


def fold_compare(fn: str, a: int, b: int) -> bool:
    """The truth of a comparison of two numbers."""
    return _COMPARE[fn](a, b)


def fold_unary(fn: str, x: int, dtype: DType) -> int | bool | None:
    """A function of one number, wrapped to its type; None where it is not folded."""
    if fn == "not":
        return not x if dtype.kind == "bool" else None
    if fn == "neg":
        return wrap(-x, dtype)
    return wrap(abs(x), dtype) if fn == "abs" else None
