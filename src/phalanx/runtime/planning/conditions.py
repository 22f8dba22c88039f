"""The comparisons of a plan as Python text: few operations for many numbers that are to be alike."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.numbers import Guard


def condition(guard: Guard) -> str:
    """The comparison of one guard, which is to turn out as it did."""
    if guard.sign == "==" and guard.right.constant == 0:  # Python asks for a number other than 0 soonest
        return f"not {guard.left.text}" if guard.outcome else guard.left.text
    return guard.text if guard.outcome else f"not {guard.text}"


def conditions(guards: Sequence[Guard]) -> list[str]:
    """The comparisons of some guards, all of which are to hold; those of many numbers with one bound as one.

    Strides are multiples of a power of two, forward, and below another one: so is what has all the bits that they have.
    Of sizes that are equal one is compared with constants, and with the strictest ones.
    """
    bounds = _Bounds(guards)
    forward = bounds.forward | {text for guard in guards if (text := _forward(guard)) is not None}
    multiples: dict[int, list[str]] = {}
    limits: dict[int, list[str]] = {}
    found: list[str] = []
    for guard in guards:
        divided, limited = _multiple_of(guard), _below(guard, forward)
        if divided is not None:
            multiples.setdefault(divided[1], []).append(divided[0])
        elif limited is not None:
            limits.setdefault(limited[1], []).append(limited[0])
    limited_ones = {text for texts in limits.values() for text in texts}
    for guard in guards:
        if _multiple_of(guard) is None and _below(guard, forward) is None and not bounds.has(guard):
            if not (guard.sign == "<=" and _forward(guard) in limited_ones):
                found.append(condition(guard))
    found = [*bounds.texts(limited_ones), *found]
    found += [f"not ({' | '.join(dict.fromkeys(texts))}) & {divisor - 1}" for divisor, texts in multiples.items()]
    return found + [f"0 <= ({' | '.join(dict.fromkeys(texts))}) < {limit}" for limit, texts in limits.items()]


class _Bounds:
    """What guards say of symbols: which are equal, which equal a constant, are not 0, or are at least something."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._same: dict[str, str] = {}
        self._symbols: dict[str, Expression] = {}
        self._equal: dict[str, int] = {}
        self._least: dict[str, int] = {}
        self._nonzero: dict[str, None] = {}
        for guard in guards:
            if guard.outcome and guard.sign == "==" and guard.left.sign == guard.right.sign == "symbol":
                self._join(guard.left.text, guard.right.text)
        for guard in guards:
            found = _bound(guard)
            if found is None:
                continue
            symbol, kind, number = found
            name = self._same.get(symbol.text, symbol.text)
            self._symbols.setdefault(name, symbol)
            if kind == "==":
                self._equal[name] = number
            elif kind == "!=":
                self._nonzero[name] = None
            else:
                self._least[name] = max(number, self._least.get(name, number))

    def _join(self, left: str, right: str) -> None:
        former, name = self._same.get(left, left), self._same.get(right, right)
        self._same |= {text: name for text, known in self._same.items() if known == former}
        self._same[left] = self._same[right] = name

    @staticmethod
    def has(guard: Guard) -> bool:
        """Whether `texts` say what a guard does."""
        return _bound(guard) is not None

    @property
    def forward(self) -> set[str]:
        """Symbols that are at least 0."""
        return {name for name, least in self._least.items() if least >= 0}

    def texts(self, forward: set[str]) -> list[str]:
        """The comparisons with constants; what is `forward` is compared with 0 elsewhere."""
        found = [f"{name} == {number}" for name, number in self._equal.items()]
        for name, least in self._least.items():
            if name in self._equal or (least <= 0 and name in forward):
                continue
            known = name in forward or self._symbols[name].low >= 0
            found.append(name if known and least == 1 else f"{least} <= {name}")
        alone = [name for name in self._nonzero if name not in self._equal and self._least.get(name, 0) < 1]
        return found + alone


def _bound(guard: Guard) -> tuple[Expression, str, int] | None:
    """What a guard says of a symbol and a constant, where it is one of these: "==", "!=" 0, ">="."""
    left, right = guard.left, guard.right
    if guard.sign == "==" and left.sign == "symbol" and right.constant is not None:
        if guard.outcome:
            return left, "==", right.constant
        return (left, "!=", 0) if right.constant == 0 else None
    if guard.outcome and guard.sign in ("<", "<=") and left.constant is not None and right.sign == "symbol":
        return right, ">=", left.constant + (guard.sign == "<")
    return None


def _is_power(number: int | None) -> bool:
    return number is not None and number > 0 and number & (number - 1) == 0


def _unscaled(expression: Expression) -> tuple[Expression, int]:
    """What an expression multiplies by a power of two, and that."""
    if expression.sign == "*" and _is_power(expression.args[1].constant):
        return expression.args[0], expression.args[1].constant
    return expression, 1


def _multiple_of(guard: Guard) -> tuple[str, int] | None:
    """The number that a guard says is a multiple of a power of two, and that."""
    left = guard.left
    if not guard.outcome or guard.sign != "==" or guard.right.constant != 0 or left.sign != "%":
        return None
    if not _is_power(left.args[1].constant):
        return None
    number, factor = _unscaled(left.args[0])
    divisor = left.args[1].constant // factor
    return (number.text, divisor) if divisor > 1 else None


def _forward(guard: Guard) -> str | None:
    """The number that a guard says is at least 0."""
    if not guard.outcome or guard.sign not in ("<", "<=") or guard.left.constant != 0:
        return None
    return _unscaled(guard.right)[0].text


def _below(guard: Guard, forward: set[str]) -> tuple[str, int] | None:
    """The number that a guard says is less than a power of two, and that; one that is not below 0."""
    if not guard.outcome or guard.sign != "<" or not _is_power(guard.right.constant):
        return None
    number, factor = _unscaled(guard.left)
    limit = guard.right.constant // factor
    return (number.text, limit) if limit and (number.low >= 0 or number.text in forward) else None


__all__ = ["condition", "conditions"]
