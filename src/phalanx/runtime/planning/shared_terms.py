"""The numbers of a plan's launches as Python text: what several of them have in common is worked out once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from phalanx.runtime.device.map_layout import UNIT, MapLayout
from phalanx.runtime.planning.ways import LaunchTerms, MapTerms, Way
from phalanx.runtime.symbolic.expressions import Expression, combined, constant, symbol
from phalanx.runtime.symbolic.tracing import Viewed


def tuple_text(texts: Iterable[str]) -> str:
    """The text of a tuple."""
    return "(" + "".join(f"{text}, " for text in texts) + ")"


def expressions_of(value: Any) -> tuple[Expression, ...]:
    """What an argument of a launch passes that depends on sizes."""
    if isinstance(value, Viewed):
        return (value.data, *value.strides, *value.shape)
    return (value,) if isinstance(value, Expression) else ()


class Names:
    """What some numbers have in common is worked out once: `lines` do, and give it names, which others use later.

    What depends on symbols that are `late` has lines of its own, which come after the others.
    """

    def __init__(self, known: dict[str, str], late: frozenset[str] = frozenset()) -> None:
        self.lines: list[str] = []
        self.late, self.late_lines = late, list[str]()
        self.known = known
        self._counts: dict[str, int] = {}

    def share(self, expressions: Sequence[Expression], *, early: bool = False) -> None:
        """Gives names to what occurs several times; if `early`, to nothing that divides by what may be 0."""
        for expression in expressions:
            self._count(expression)
        for expression in expressions:
            self._name(expression, early)

    def _count(self, expression: Expression) -> None:
        count = self._counts[expression.text] = self._counts.get(expression.text, 0) + 1
        if count == 1 and expression.sign not in ("constant", "symbol") and expression.text not in self.known:
            for part in expression.args:
                self._count(part)

    def _name(self, expression: Expression, early: bool) -> None:
        if expression.sign in ("constant", "symbol") or expression.text in self.known:
            return
        for part in expression.args:
            self._name(part, early)
        if self._counts[expression.text] > 1 and not (early and _may_fail(expression)):
            text, name = self.text(expression), f"e{len(self.known)}"
            self.known[expression.text] = name
            lines = self.lines if expression.symbols.isdisjoint(self.late) else self.late_lines
            lines.append(f"{name} = {text}")

    def text(self, expression: Expression) -> str:
        """An expression, with the names of what has some."""
        name = self.known.get(expression.text)
        if name is not None or expression.sign in ("constant", "symbol"):
            return name or expression.text
        left, right = map(self.text, expression.args)
        return f"(-(-{left} // {right}))" if expression.sign == "ceil" else f"({left} {expression.sign} {right})"

    def texts(self, expressions: Sequence[Expression]) -> str:
        """Some of them, as a tuple."""
        return tuple_text(map(self.text, expressions))

    def renamed(self, expression: Expression) -> Expression:
        """The expression with names for what has some: symbols of the same bounds."""
        name = self.known.get(expression.text)
        if name is not None:
            return symbol(name, expression.low, expression.high, expression.multiple)
        if expression.sign in ("constant", "symbol"):
            return expression
        args = tuple(map(self.renamed, expression.args))
        bounds, symbols = (expression.low, expression.high), args[0].symbols | args[1].symbols
        return Expression(expression.sign, args, self.text(expression), bounds, expression.multiple, symbols)


def _may_fail(expression: Expression) -> bool:
    """Whether something is divided by what is no constant."""
    if expression.sign in ("constant", "symbol"):
        return False
    if expression.sign in ("//", "%", "ceil") and expression.args[1].constant is None:
        return True
    return any(map(_may_fail, expression.args))


class SharedTerms(Names):
    """The numbers of a way's launches.

    `layouts` has for each launch those of its descriptors, or None where the driver encodes them; `known` the names that
    there are already; `others` are expressions that are worked out as well.
    """

    def __init__(
        self, way: Way, layouts: Sequence[Sequence[MapLayout] | None], known: dict[str, str],
        others: Sequence[Expression] = (),
    ) -> None:
        super().__init__(known, frozenset([each.name for each in way.memories]))
        self._layouts = {id(terms): each for terms, each in zip(way.launches, layouts, strict=True)}
        everything: list[Expression] = list(others)
        for terms in way.launches:
            everything += terms.grid
            for value in terms.arguments:
                everything += expressions_of(value)
            for each in terms.maps:
                everything += each.pointer, *self.numbers(terms, each)
        self.share(everything)
        apart = [each for terms in way.launches for each in terms.maps if self._layouts[id(terms)] is None]
        sizes = [self.texts((*each.dims, *each.byte_strides)) for each in apart]
        self._tuples = {text: f"m{number}" for number, text in enumerate(dict.fromkeys(sizes)) if sizes.count(text) > 1}
        self.lines += [f"{name} = {text}" for text, name in self._tuples.items()]

    def numbers(self, terms: LaunchTerms, each: MapTerms) -> tuple[Expression, ...]:
        """The sizes and strides of a descriptor, as they are passed."""
        if self._layouts[id(terms)] is None:
            return (*each.dims, *each.byte_strides)
        sizes = [combined("-", size, constant(1)) for size in each.dims]
        return (*sizes, *[combined("//", step, constant(UNIT)) for step in each.byte_strides])

    def maps(self, terms: LaunchTerms) -> str:
        """The descriptors of a launch that the driver encodes: for each its address, and a tuple of sizes and strides, which
        several may share."""
        sizes = [self.texts((*each.dims, *each.byte_strides)) for each in terms.maps]
        pointers = [self.text(each.pointer) for each in terms.maps]
        return tuple_text(f"({pointer}, {self._tuples.get(text, text)})" for pointer, text in zip(pointers, sizes))


__all__ = ["Names", "SharedTerms", "expressions_of", "tuple_text"]
