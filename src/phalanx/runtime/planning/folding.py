"""A way with what its own comparisons say put in: constants for sizes that equal one, one name for sizes that are equal.

A way was traced with a name for each size and stride of each array. Where arrays of a call have the same sizes and strides,
which queries, keys and values mostly have, those of the first stand for all; where a comparison says what a size is, that
stands for it from there on. Many comparisons are plain then, and numbers of launches that were told apart are one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from phalanx.frozen import frozen
from phalanx.runtime.planning.ways import LaunchTerms, MapTerms, NewMemory, Way, size_name, stride_name
from phalanx.runtime.symbolic.choices import Choice, is_sized
from phalanx.runtime.symbolic.expressions import Expression, combined, symbol
from phalanx.runtime.symbolic.numbers import Guard, Number, Trace
from phalanx.runtime.symbolic.tracing import Viewed


class Folding:
    """What stands for symbols: constants, or other symbols."""

    def __init__(self) -> None:
        self._stands: dict[str, Expression] = {}
        self._known: dict[str, Expression] = {}

    def put(self, name: str, value: Expression) -> None:
        """From now on `value` stands for a symbol; it holds no symbol for which something stands."""
        if value.text != name:
            for other, stands in self._stands.items():
                if stands.text == name:
                    self._stands[other] = value
            self._stands[name] = value
            self._known.clear()

    def __call__(self, expression: Expression) -> Expression:
        """The expression, with what stands for its symbols."""
        if expression.symbols.isdisjoint(self._stands):
            return expression
        found = self._known.get(expression.text)
        if found is None:
            if expression.sign == "symbol":
                found = self._stands[expression.text]
            else:
                found = combined(expression.sign, *map(self, expression.args))
            self._known[expression.text] = found
        return found

    def all(self, expressions: Sequence[Expression]) -> tuple[Expression, ...]:
        """The same of several."""
        return tuple(map(self, expressions))

    def value(self, value: Any) -> Any:
        """The same of what a choice is asked for, or a launch passes: numbers in tuples and dataclasses as well."""
        if isinstance(value, Number):
            return value.trace.number(self(value.expression), value.value)
        if isinstance(value, Expression):
            return self(value)
        if isinstance(value, Viewed):
            shape, strides = self.all(value.shape), self.all(value.strides)
            return Viewed(value.memory, value.dtype, self(value.data), shape, strides)
        if not is_sized(value):
            return value
        if type(value) is tuple:
            return tuple(map(self.value, value))
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: self.value(getattr(value, name)) for name in fields})


@frozen
class FoldedWay:
    """A way, with what its comparisons say put in where it stands: the comparisons, None for those that are plain, and
    `end`, a way without any. `fold` does it to other expressions of the end."""

    guards: tuple[Any, ...]
    end: Way
    fold: Folding


def alike_symbols(ranks: Sequence[int | None], alike: Sequence[int]) -> Folding:
    """The sizes and strides of arrays that are alike: `alike` has for each the first one that it is like."""
    fold = Folding()
    for number, (rank, first) in enumerate(zip(ranks, alike, strict=True)):
        for axis in range(rank or 0) if first != number else ():
            fold.put(size_name(number, axis), symbol(size_name(first, axis)))
            fold.put(stride_name(number, axis), symbol(stride_name(first, axis), -(2**62), 2**62))
    return fold


def folded(way: Way, fold: Folding) -> FoldedWay | None:
    """The way with all that can be put in; None where no call takes it, since what stands for symbols says otherwise."""
    trace = Trace({}, {}, asks_again=True)
    guards: list[Any] = []
    try:
        for asked in way.guards:
            if isinstance(asked, Choice):
                guards.append(_choice(asked, fold))
                continue
            left, right = fold(asked.left), fold(asked.right)
            before = len(trace.guards)
            outcome = trace.compare(left, asked.sign, right, asked.outcome, asked.settled)
            if asked.outcome != outcome or trace.decided.get(_text(left, asked.sign, right), outcome) != outcome:
                return None
            guards.append(trace.guards[-1] if len(trace.guards) > before else None)
            if asked.sign == "==" and asked.outcome:
                _put_equal(fold, left, right)
        return FoldedWay(tuple(guards), _end(way, fold), fold)
    except ZeroDivisionError:
        return None


def _text(left: Expression, sign: str, right: Expression) -> str:
    return Guard(left, sign, right, True).text


def _put_equal(fold: Folding, left: Expression, right: Expression) -> None:
    """The constant, or the symbol of which more is known, stands for the other."""
    if left.sign == "symbol" and right.sign in ("symbol", "constant"):
        known, other = (left, right) if left.high - left.low < right.high - right.low else (right, left)
        fold.put(other.text, known)


def _choice(asked: Choice, fold: Folding) -> Choice:
    options = {name: fold.value(value) for name, value in asked.options.items()}
    return Choice(asked.function, fold.value(asked.args), options, asked.result, asked.name)


def _end(way: Way, fold: Folding) -> Way:
    launches = tuple(
        LaunchTerms(
            terms.launcher, terms.captured, fold.all(terms.grid),  # type: ignore[arg-type]
            tuple(map(fold.value, terms.arguments)),
            tuple(
                MapTerms(each.fixed, fold(each.pointer), fold.all(each.dims), fold.all(each.byte_strides))
                for each in terms.maps
            ),
        )
        for terms in way.launches
    )
    memories = tuple(NewMemory(each.name, each.dtype, fold.all(each.sizes)) for each in way.memories)
    results = tuple(fold.value(each) if isinstance(each, Viewed) else each for each in way.results)
    return Way((), launches, memories, results, way.several)


__all__ = ["FoldedWay", "Folding", "alike_symbols", "folded"]
