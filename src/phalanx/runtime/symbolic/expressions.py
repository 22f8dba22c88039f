"""Integer expressions over what only the caller of an exported function knows: sizes, strides, addresses.

An expression has the same meaning in Python, where exports are examined and the loader evaluates them, and in C, where the
exported function does. Both compute without overflow: Python by nature, C in 128 bits.
"""

from __future__ import annotations

from math import gcd
from typing import Any

LARGEST = 2**31 - 1
"""The largest size of an axis."""
ANYTHING = (-(2**126), 2**126)
_SIGNS = {"+": "+", "-": "-", "*": "*"}
_FUNCTIONS = {"//": "px_floor_div", "%": "px_floor_mod", "ceil": "px_ceil_div"}


class Expression:
    """An integer expression: a constant, a symbol, or `sign` of two others; "ceil" divides and rounds up.

    `low` and `high` bound its values, `multiple` divides all of them. Two are the same if their `text`, Python's, is.
    """

    __slots__ = ("args", "high", "low", "multiple", "sign", "symbols", "text")

    def __init__(
        self, sign: str, args: tuple[Any, ...], text: str, bounds: tuple[int, int], multiple: int, symbols: frozenset[str]
    ) -> None:
        self.sign, self.args, self.text, self.multiple, self.symbols = sign, args, text, multiple, symbols
        self.low, self.high = max(bounds[0], ANYTHING[0]), min(bounds[1], ANYTHING[1])

    @property
    def constant(self) -> int | None:
        """The value of an expression that is a constant, else None."""
        return self.args[0] if self.sign == "constant" else None

    def c(self) -> str:
        """The expression in C; symbols are fields of `g`."""
        if self.sign == "constant":
            value = self.args[0]
            return f"{value}" if abs(value) <= LARGEST else f"INT64_C({value})"
        if self.sign == "symbol":
            return f"g->{self.args[0]}"
        left, right = (part.c() for part in self.args)
        if self.sign in _FUNCTIONS:
            return f"{_FUNCTIONS[self.sign]}({left}, {right})"
        return f"({left} {_SIGNS[self.sign]} {right})"

    def at(self, values: dict[str, int]) -> int:
        """Its value where its symbols have these."""
        if self.sign == "constant":
            return int(self.args[0])
        if self.sign == "symbol":
            return values[self.args[0]]
        return _value(self.sign, self.args[0].at(values), self.args[1].at(values))

    def __repr__(self) -> str:
        return self.text


def constant(value: int) -> Expression:
    """The expression of a number."""
    text = str(value) if value >= 0 else f"({value})"
    return Expression("constant", (value,), text, (value, value), abs(value), frozenset())


def symbol(name: str, low: int = 0, high: int = LARGEST, multiple: int = 1) -> Expression:
    """What the caller passes under this name, between two bounds, and a multiple of a number."""
    return Expression("symbol", (name,), name, (low, high), multiple, frozenset([name]))


def combined(sign: str, a: Expression, b: Expression) -> Expression:
    """`a sign b`, simplified where that is plain to see. Divisors are positive constants, or symbols that are not 0."""
    if a.constant is not None and b.constant is not None:
        return constant(_value(sign, a.constant, b.constant))
    short = _shortened(sign, a, b)
    if short is not None:
        return short
    text = f"-(-{a.text} // {b.text})" if sign == "ceil" else f"{a.text} {sign} {b.text}"
    return Expression(sign, (a, b), f"({text})", _bounds(sign, a, b), _multiple(sign, a, b), a.symbols | b.symbols)


def _value(sign: str, a: int, b: int) -> int:
    if sign == "+":
        return a + b
    if sign == "-":
        return a - b
    if sign == "*":
        return a * b
    if sign == "//":
        return a // b
    return a % b if sign == "%" else -(-a // b)


def _shortened(sign: str, a: Expression, b: Expression) -> Expression | None:
    """The result where it is one of the two, or a constant, or a smaller expression."""
    left, right = a.constant, b.constant
    if (sign == "+" and left == 0) or (sign == "*" and left == 1):
        return b
    if (sign in "+-" and right == 0) or (sign in ("*", "//", "ceil") and right == 1):
        return a
    if (sign == "*" and 0 in (left, right)) or (sign == "-" and a.text == b.text):
        return constant(0)
    if sign in ("//", "%", "ceil") and a.text == b.text:
        return constant(0 if sign == "%" else 1)
    if sign == "-" and a.sign == "+" and b.text in (a.args[0].text, a.args[1].text):
        return a.args[1] if a.args[0].text == b.text else a.args[0]
    if sign == "*" and right is not None and a.sign == "*" and a.args[1].constant is not None:
        return combined("*", a.args[0], constant(a.args[1].constant * right))
    if sign == "*" and left is not None:
        return combined("*", b, a)
    if right is None or right <= 0:
        return None
    if sign == "%":
        return constant(0) if a.multiple % right == 0 else a if a.low >= 0 and a.high < right else None
    if sign in ("//", "ceil"):
        if a.sign == "*" and a.args[1].constant is not None and a.args[1].constant % right == 0:
            return combined("*", a.args[0], constant(a.args[1].constant // right))
        if sign == "//" and a.sign == "*" and (a.args[1].constant or 0) > 0 and right % a.args[1].constant == 0:
            return combined("//", a.args[0], constant(right // a.args[1].constant))
        if sign == "//" and a.low >= 0 and a.high < right:
            return constant(0)
    return None


def _bounds(sign: str, a: Expression, b: Expression) -> tuple[int, int]:
    if sign == "+":
        return a.low + b.low, a.high + b.high
    if sign == "-":
        return a.low - b.high, a.high - b.low
    if sign == "*":
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(ends), max(ends)
    if b.low < 1:
        return ANYTHING
    if sign == "%":
        return 0, b.high - 1
    ends = [_value(sign, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)


def _multiple(sign: str, a: Expression, b: Expression) -> int:
    if sign in "+-":
        return gcd(a.multiple, b.multiple)
    if sign == "*":
        return a.multiple * b.multiple
    if sign == "%":
        return gcd(a.multiple, b.multiple)
    return 1
