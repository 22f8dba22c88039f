"""Numbers that remember how they came about: what stands for sizes, strides and addresses while a function is traced.

A `Number` has a value, that of one set of sizes, and an expression. Arithmetic gives numbers; a comparison gives a bool and
leaves a `Guard` behind: with other sizes the function takes the same way only if all guards hold. What has no expression
(an index into a table, a float) settles the number: the guard is that it has this very value.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.runtime.symbolic.expressions import Expression, combined, constant

MOST_GUARDS = 2000


@frozen
class Guard:
    """`left sign right` was `outcome`. `settled`: there is no other way to be looked for where it is not."""

    left: Any
    sign: str
    right: Any
    outcome: bool
    settled: bool = False

    @property
    def text(self) -> str:
        """The comparison in Python, whatever its outcome."""
        return f"({self.left.text} {self.sign} {self.right.text})"

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols that the comparison depends on."""
        return self.left.symbols | self.right.symbols

    def c(self) -> str:
        """The comparison in C, whatever its outcome."""
        return f"{self.left.c()} {self.sign} {self.right.c()}"


class Trace:
    """One run of a function: the values of all symbols, those of the example, and the guards so far.

    `device` is the GPU where arrays lie. `asks_again`: who takes the same way with other sizes asks the library's choices
    again and compares, so that they stand among the guards; exports keep those of the example.
    """

    def __init__(
        self, values: dict[str, Any], example: dict[str, Any], *, device: int = 0, asks_again: bool = False
    ) -> None:
        self.values, self.example, self.device, self.asks_again = values, example, device, asks_again
        self.guards: list[Any] = []
        self.counted: dict[str, Any] = {}
        self.decided: dict[str, bool] = {}
        self.bounds: dict[str, tuple[int, int]] = {}
        self.memories: list[Any] = []  # what the function asked for while it ran

    def number(self, expression: Expression, value: int) -> Number | int:
        """A number of this trace; constants are plain integers."""
        fixed = expression.constant
        return Number(self, expression, value) if fixed is None else fixed

    def compare(self, left: Any, sign: str, right: Any, outcome: bool, settled: bool = False) -> bool:
        """Notes a comparison of two expressions, unless its outcome is plain or known already."""
        known = _plain(sign, left, self.range_of(left), right, self.range_of(right))
        if known is not None:
            return known
        guard = Guard(left, sign, right, outcome, settled)
        if guard.text not in self.decided:
            if len(self.guards) >= MOST_GUARDS:
                raise Error(
                    f"the function compares sizes more than {MOST_GUARDS} times",
                    remedy="give sizes that it loops over as numbers",
                )
            self.decided[guard.text] = outcome
            self.guards.append(guard)
            self._narrow(guard)
        return outcome

    def note_choice(self, choice: Any) -> None:
        """Notes what was chosen, unless it was noted already: something with a `text`."""
        if choice.text not in self.decided:
            self.decided[choice.text] = True
            self.guards.append(choice)

    def range_of(self, expression: Any) -> tuple[Any, Any]:
        """Between which bounds an expression is, as far as the guards say."""
        return self.bounds.get(expression.text, (expression.low, expression.high))

    def _narrow(self, guard: Guard) -> None:
        """What a comparison with a constant says of an expression from now on."""
        left, sign, right, outcome = guard.left, guard.sign, guard.right, guard.outcome
        if left.constant is not None:
            left, right = right, left
            sign = {"<": ">", "<=": ">="}.get(sign, sign)
        limit = right.constant
        if limit is None:
            return
        if not outcome:
            sign = {"==": "!=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[sign]
        low, high = self.range_of(left)
        if sign == "==":
            low, high = limit, limit
        elif sign == "!=":
            low, high = (low + 1 if low == limit else low), (high - 1 if high == limit else high)
        elif sign in ("<", "<="):
            high = min(high, limit - (sign == "<"))
        else:
            low = max(low, limit + (sign == ">"))
        self.bounds[left.text] = (low, high)


def _plain(sign: str, left: Any, a: tuple[Any, Any], right: Any, b: tuple[Any, Any]) -> bool | None:
    """The outcome of a comparison that is the same for all values."""
    if left.text == right.text:
        return sign != "<"
    if sign == "==":
        return False if a[1] < b[0] or b[1] < a[0] else True if a == b and a[0] == a[1] else None
    if sign == "<":
        return True if a[1] < b[0] else False if a[0] >= b[1] else None
    return True if a[1] <= b[0] else False if a[0] > b[1] else None


class _Tracing(threading.local):
    """What is traced in this thread."""

    trace: Trace | None = None


_TRACING = _Tracing()


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Within it, comparisons of this thread's numbers leave guards behind."""
    former, _TRACING.trace = _TRACING.trace, trace
    try:
        yield trace
    finally:
        _TRACING.trace = former


@contextmanager
def unguarded() -> Iterator[None]:
    """Within it, numbers are their values: for choices that may differ without being wrong."""
    former, _TRACING.trace = _TRACING.trace, None
    try:
        yield
    finally:
        _TRACING.trace = former


def current_trace() -> Trace | None:
    """The run of a function that this thread is in; None outside of them, and where numbers are their values."""
    return _TRACING.trace


def is_exported() -> bool:
    """Whether this thread runs a function for an export, which is to hold for sizes that nobody knows yet."""
    trace = _TRACING.trace
    return trace is not None and not trace.asks_again


class Undecided(TypeError):
    """A number was asked for something that it can't have for all sizes, such as a hash: `symbols` are its own."""

    def __init__(self, message: str, symbols: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.symbols = symbols


class Combined:
    """Sums, differences and products of what a trace knows, of which `_with` makes another."""

    __slots__ = ()

    def _with(self, sign: str, left: Any, right: Any) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._with("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with("*", other, self)


class Number(Combined):
    """An integer of a trace. Outside of it, or in a choice, it is no more than its value."""

    __slots__ = ("expression", "trace", "value")
    __array_ufunc__ = None  # NumPy's integers leave the arithmetic to it

    def __init__(self, trace: Trace, expression: Expression, value: int) -> None:
        self.trace, self.expression, self.value = trace, expression, value

    def _with(self, sign: str, left: Any, right: Any) -> Any:
        sides = [_sides(side) for side in (left, right)]
        if None in sides:
            return NotImplemented
        (a, x), (b, y) = sides  # type: ignore[misc]
        if sign in ("//", "%", "ceil") and not self._is_divisor(b, y):
            raise Undecided(f"a division by {b.text}, which may be 0 or negative")
        value = {
            "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y, "%": lambda: x % y,
            "ceil": lambda: -(-x // y),
        }[sign]()  # fmt: skip
        return self.trace.number(combined(sign, a, b), value)

    def _is_divisor(self, b: Expression, value: int) -> bool:
        """Whether one may divide by an expression: it is positive, which a guard says if need be."""
        if b.constant is not None:
            return b.constant > 0
        return value > 0 and not self._decide(b, "<=", constant(0), False)

    def __floordiv__(self, other: Any) -> Any:
        expression = self.expression
        if expression.sign == "-" and expression.args[0].constant == 0:  # -(-a // b) rounds up
            positive = self.trace.number(expression.args[1], -self.value)
            if isinstance(positive, Number):
                made = positive._with("ceil", positive, other)
                return made if made is NotImplemented else 0 - made
        return self._with("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._with("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._with("%", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        expression = self.expression
        if expression.sign == "-" and expression.args[0].constant == 0:
            return self.trace.number(expression.args[1], -self.value)
        return self._with("-", 0, self)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __and__(self, mask: Any) -> Any:
        if isinstance(mask, int) and mask >= 0 and mask & (mask + 1) == 0:
            return self % (mask + 1)
        return self._settled() & mask

    def __truediv__(self, other: Any) -> Any:
        return Ratio(self, other) if isinstance(other, int) and other > 0 else self._settled() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._settled()

    def __pow__(self, other: Any) -> Any:
        return self._settled() ** other

    def __ceil__(self) -> Number:
        return self

    __floor__ = __trunc__ = __ceil__

    # Comparisons -------------------------------------------------------------------------------------------

    def _decide(self, left: Expression, sign: str, right: Expression, outcome: bool) -> bool:
        if _TRACING.trace is not self.trace:
            return outcome
        return self.trace.compare(left, sign, right, outcome)

    def _compare(self, sign: str, other: Any, swapped: bool = False) -> Any:
        sides = _sides(other)
        if sides is None:
            if isinstance(other, float):
                value = self._settled()
                return {"<": value < other, "<=": value <= other, "==": value == other}[sign]
            return NotImplemented
        (a, x), (b, y) = ((sides, _sides(self)) if swapped else (_sides(self), sides))  # type: ignore[misc]
        return self._decide(a, sign, b, {"<": x < y, "<=": x <= y, "==": x == y}[sign])

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        found = self._compare("==", other)
        return found if found is NotImplemented else not found

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return not self <= other if isinstance(other, float) else self._compare("<", other, swapped=True)

    def __ge__(self, other: Any) -> Any:
        return not self < other if isinstance(other, float) else self._compare("<=", other, swapped=True)

    def __bool__(self) -> bool:
        return bool(self != 0)

    # What has no expression --------------------------------------------------------------------------------

    def _settled(self) -> int:
        """The value, which from now on is the only one."""
        if _TRACING.trace is self.trace:
            self.trace.compare(self.expression, "==", constant(self.value), True, settled=True)
        return self.value

    def __index__(self) -> int:
        return self._settled()

    __int__ = __index__

    def __float__(self) -> float:
        return float(self._settled())

    def bit_length(self) -> int:
        """The bits of the number, as `int.bit_length` counts them."""
        return self._settled().bit_length()

    def __hash__(self) -> int:
        if _TRACING.trace is self.trace:
            raise Undecided(f"{self.expression.text} is looked up in a table", self.expression.symbols)
        return hash(self.value)

    def __repr__(self) -> str:
        return self.expression.text


class Ratio:
    """A number divided by an integer: what is rounded up or down again."""

    __slots__ = ("by", "number")

    def __init__(self, number: Number, by: int) -> None:
        self.number, self.by = number, by

    def __ceil__(self) -> Any:
        return self.number._with("ceil", self.number, self.by)

    def __floor__(self) -> Any:
        return self.number // self.by

    def __float__(self) -> float:
        return float(self.number) / self.by

    def __lt__(self, other: Any) -> Any:
        return self.number < other * self.by

    def __le__(self, other: Any) -> Any:
        return self.number <= other * self.by

    def __gt__(self, other: Any) -> Any:
        return self.number > other * self.by

    def __ge__(self, other: Any) -> Any:
        return self.number >= other * self.by

    def __mul__(self, other: Any) -> Any:
        return float(self) * other

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        return float(self) + other

    __radd__ = __add__


def _sides(value: Any) -> tuple[Expression, int] | None:
    if isinstance(value, Number):
        return value.expression, value.value
    if isinstance(value, int | np.integer):
        return constant(int(value)), int(value)
    return None


def expression_of(value: Any) -> Expression:
    """The expression of a number or an integer."""
    if isinstance(value, Number):
        return value.expression
    return constant(int(value))


def at_example(value: Any) -> Any:
    """A number as its value for the example's sizes; anything else as it is."""
    is_traced_one = isinstance(value, Number) or is_traced_real(value)
    return value.expression.at(value.trace.example) if is_traced_one else value


def is_traced_real(value: Any) -> bool:
    """Whether something is a `reals.Real`, which only exports have: the library hands it on as it is."""
    return type(value).__module__ == "phalanx.runtime.symbolic.reals"
