"""Numbers with a fraction that only the caller of an exported function knows: a scale, an epsilon."""

from __future__ import annotations

from typing import Any

from phalanx.runtime.device.arrays import _KINDS, ArgumentKind
from phalanx.runtime.symbolic.numbers import Combined, Trace, Undecided


class RealExpression:
    """An expression of such numbers, computed in f64: the same in Python and in C."""

    constant = None
    multiple = 1

    def __init__(self, text: str, in_c: str, symbols: frozenset[str], bounds: tuple[float, float]) -> None:
        self.text, self.in_c, self.symbols = text, in_c, symbols
        self.low, self.high = bounds

    @staticmethod
    def named(name: str) -> RealExpression:
        """What the caller passes under this name."""
        return RealExpression(name, f"g->{name}", frozenset([name]), (-float("inf"), float("inf")))

    def c(self) -> str:
        """The expression in C; symbols are fields of `g`."""
        return self.in_c

    def at(self, values: dict[str, Any]) -> float:
        """Its value where its symbols have these."""
        return float(eval(self.text, {"__builtins__": {}}, values))


class Real(Combined):
    """A number of a trace with an example's value. It is no float: what takes a float's value by itself refuses it."""

    __slots__ = ("expression", "trace", "value")

    def __init__(self, trace: Trace, expression: RealExpression, value: float) -> None:
        self.trace, self.expression, self.value = trace, expression, value

    @staticmethod
    def named(trace: Trace, name: str) -> Real:
        """What the caller passes under this name."""
        return Real(trace, RealExpression.named(name), trace.values[name])

    def _with(self, sign: str, left: Any, right: Any) -> Any:
        sides = [_side(side) for side in (left, right)]
        if None in sides:
            return NotImplemented
        (a, x), (b, y) = sides  # type: ignore[misc]
        value = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[sign]()
        texts = f"({a.text} {sign} {b.text})", f"({a.c()} {sign} {b.c()})"
        bounds = (-float("inf"), float("inf"))
        return Real(self.trace, RealExpression(*texts, a.symbols | b.symbols, bounds), value)

    def __truediv__(self, other: Any) -> Any:
        return self._with("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with("/", other, self)

    def __neg__(self) -> Any:
        return self._with("-", 0.0, self)

    def _compare(self, sign: str, left: Any, right: Any) -> Any:
        sides = [_side(side) for side in (left, right)]
        if None in sides:
            return NotImplemented
        (a, x), (b, y) = sides  # type: ignore[misc]
        return self.trace.compare(a, sign, b, {"<": x < y, "<=": x <= y, "==": x == y}[sign])

    def __eq__(self, other: object) -> Any:
        return self._compare("==", self, other)

    def __ne__(self, other: object) -> Any:
        found = self._compare("==", self, other)
        return found if found is NotImplemented else not found

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", self, other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("<", other, self)

    def __ge__(self, other: Any) -> Any:
        return self._compare("<=", other, self)

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def __hash__(self) -> int:
        raise Undecided(f"{self.expression.text} is looked up in a table")

    def __float__(self) -> float:
        raise Undecided(f"{self.expression.text} is asked for its value")

    def __repr__(self) -> str:
        return self.expression.text


_KINDS[Real] = ArgumentKind.FLOAT


def _side(value: Any) -> tuple[RealExpression, float] | None:
    if isinstance(value, Real):
        return value.expression, value.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value)
    return RealExpression(repr(number), f"({number.hex()})", frozenset(), (number, number)), number
