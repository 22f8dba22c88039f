"""The comparisons of a plan as Python text: few operations for many numbers that are to be alike."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.runtime.exporting.expressions import Expression
from phalanx.runtime.exporting.numbers import Guard


def condition(guard: Guard) -> str:
    if guard.sign == "==" and guard.right.constant == 0:  # Python asks for a number other than 0 soonest
        return f"not {guard.left.text}" if guard.outcome else guard.left.text
    return guard.text if guard.outcome else f"not {guard.text}"


def conditions(guards: Sequence[Guard]) -> list[str]:
    """The comparisons of some guards, all of which are to hold; those of many numbers with one bound as one.

    Strides are multiples of a power of two, forward, and below another one: so is what has all the bits that they have.
    """
    forward = {text for guard in guards if (text := _forward(guard)) is not None}
    multiples: dict[int, list[str]] = {}
    limits: dict[int, list[str]] = {}
    for guard in guards:
        divided, limited = _multiple_of(guard), _below(guard, forward)
        if divided is not None:
            multiples.setdefault(divided[1], []).append(divided[0])
        elif limited is not None:
            limits.setdefault(limited[1], []).append(limited[0])
    limited_ones = {text for texts in limits.values() for text in texts}
    found = [
        condition(guard) for guard in guards
        if _multiple_of(guard) is None and _below(guard, forward) is None
        and not (guard.sign == "<=" and _forward(guard) in limited_ones)
    ]
    found += [f"not ({' | '.join(dict.fromkeys(texts))}) & {divisor - 1}" for divisor, texts in multiples.items()]
    return found + [f"0 <= ({' | '.join(dict.fromkeys(texts))}) < {limit}" for limit, texts in limits.items()]


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
