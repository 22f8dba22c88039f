"""Offsets of views as linear forms of run-time values, and how far apart two of them are between two moments."""

from __future__ import annotations

from dataclasses import dataclass, field

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import For, While
from phalanx.ir.ops.tile import Binary, Cast, Unary
from phalanx.ir.values import Value, constant_of

Loop = For | While


@frozen
class Linear:
    """`constant + sum(factor * value)`; the values are those that no arithmetic takes apart."""

    constant: int
    terms: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        """The sum of two such forms."""
        total = dict(self.terms)
        for value, factor in other.terms:
            total[value] = total.get(value, 0) + sign * factor
        return Linear(self.constant + sign * other.constant, tuple((v, f) for v, f in total.items() if f))

    def times(self, factor: int) -> Linear:
        """The form, multiplied by a number."""
        return Linear(self.constant * factor, tuple((v, f * factor) for v, f in self.terms if factor))


@dataclass
class Offsets:
    """Where the values of a function come from. `around` holds, for each value, the loops it is computed anew in."""

    definitions: dict[Value, Op] = field(default_factory=dict)
    around: dict[Value, frozenset[Loop]] = field(default_factory=dict)
    _forms: dict[Value, Linear] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function) -> Offsets:
        """What the starts of a function's regions are, as sums of products."""
        offsets = cls()
        offsets._collect(function.body, frozenset())
        return offsets

    def _collect(self, block: Block, loops: frozenset[Loop]) -> None:
        for op in block:
            inside = loops | {op} if isinstance(op, (For, While)) else loops
            for value in op.defined_values():
                self.definitions[value] = op
                self.around[value] = inside
            for nested in op.blocks():
                self._collect(nested, inside)

    def form(self, value: Value) -> Linear:
        """`value` as a linear form."""
        found = self._forms.get(value)
        if found is None:
            found = self._forms[value] = self._decompose(value)
        return found

    def _decompose(self, value: Value) -> Linear:
        number = constant_of(value)
        if number is not None:
            return Linear(int(number))
        op = self.definitions.get(value)
        whole = Linear(0, ((value, 1),))
        if isinstance(op, Cast) and op.x.type.dtype.is_integer and op.x.type.dtype.bits <= value.type.dtype.bits:
            return self.form(op.x) if not op.x.type.shape else whole  # type: ignore[union-attr]
        if isinstance(op, Unary) and op.fn == "neg":
            return self.form(op.x).times(-1)
        if isinstance(op, Binary):
            a, b = self.form(op.a), self.form(op.b)
            if op.fn in ("add", "sub"):
                return a.plus(b, 1 if op.fn == "add" else -1)
            if op.fn == "mul" and not (a.terms and b.terms):
                return a.times(b.constant) if not b.terms else b.times(a.constant)
        return whole

    def apart(self, first: Value, first_size: int, later: Value, later_size: int, crossed: frozenset[Loop]) -> bool:
        """Whether `[first, first + size)` and, later, `[later, later + size)` share nothing.

        `crossed`: the loops that went to another iteration between the two. What is computed outside them is the
        same at both moments. An index of theirs has moved by one step or more, always in the same direction.
        """
        a, b = self.form(first), self.form(later)
        if not a.terms and not b.terms:
            distance = b.constant - a.constant
            return distance >= first_size or -distance >= later_size
        fixed = self._difference(a, b, crossed)
        if fixed is None:
            return False
        distance, stride = fixed
        # the distance is now distance + stride * k, for some k of 1, 2, 3 and so on
        if isinstance(stride, _Unsigned):
            return distance == 0 and stride.size >= max(first_size, later_size)
        if stride == 0:
            return distance >= first_size or -distance >= later_size
        return distance + stride >= first_size if stride > 0 else -(distance + stride) >= later_size

    def _difference(
        self, a: Linear, b: Linear, crossed: frozenset[Loop]
    ) -> tuple[int, int | _Unsigned] | None:
        """`b - a` as a constant and what each iteration of one crossed loop adds; None if it is not of that form."""
        before, after = self._moving(a, crossed), self._moving(b, crossed)
        still = b.plus(Linear(0, after), -1).plus(a.plus(Linear(0, before), -1), -1)
        if still.terms or dict(before) != dict(after) or len(before) > 1:
            return None
        if not before:
            return still.constant, 0
        [(value, factor)] = before
        loop = self.definitions.get(value)
        if not isinstance(loop, For) or loop.index is not value or loop not in crossed:
            return None
        if len(crossed & self.around[value]) > 1:
            return None  # an outer loop went on as well: the index may have begun again
        step = constant_of(loop.step)
        return still.constant, _Unsigned(abs(factor)) if step is None else factor * int(step)

    def _moving(self, form: Linear, crossed: frozenset[Loop]) -> tuple[tuple[Value, int], ...]:
        return tuple((v, f) for v, f in form.terms if crossed & self.around.get(v, frozenset()))


@frozen
class _Unsigned:
    """At least this much, in a direction that only a run knows."""

    size: int
