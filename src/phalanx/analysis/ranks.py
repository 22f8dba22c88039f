"""Ranks are enumerated: what a scalar of the kernel is in the CTA of one rank.

The cluster's shape is a constant of at most 16 CTAs, so a question about ranks is answered once per rank. A
value is then a number, or a `Symbol`: something known only at run time. Equal symbols are equal values:
expressions are numbered by structure, so `full[s]` here and `full[s]` there are the same barrier if nothing
assigned `s` between them.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from phalanx.analysis.folding import fold_binary, fold_compare, fold_unary, is_integer, wrap
from phalanx.ir.core import Block, Function, Op, content_fields, operand_fields, values_in
from phalanx.ir.effects import PURE, Effects
from phalanx.ir.ops.control import Assign, ReadVar, While
from phalanx.ir.ops.tile import Binary, Cast, Compare, Select, Unary
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Const, Value, Var

Number = int | float | bool


class Symbol:
    """A value known only at run time; identity is equality.

    `varies` holds the loops whose iterations may change it.
    """

    __slots__ = ("varies",)

    def __init__(self, varies: frozenset[object] = frozenset()) -> None:
        self.varies = varies


Term = Number | Symbol


def varies_in(term: Term | None, loop: object) -> bool:
    """Whether the term may differ from one iteration of `loop` to the next."""
    return isinstance(term, Symbol) and loop in term.varies


@dataclass
class Facts:
    """What all ranks share about a function: where values are defined, cells assigned, and each instruction's
    effects.
    """

    definitions: dict[Value, Op] = field(default_factory=dict)
    assigns: dict[Var, list[Assign]] = field(default_factory=dict)
    effects: dict[Op, Effects] = field(default_factory=dict)
    _assigned: dict[Block, tuple[Var, ...]] = field(default_factory=dict)
    _waits: dict[Block, bool] = field(default_factory=dict)
    _steps: dict[Block, tuple[Op, ...]] = field(default_factory=dict)

    @staticmethod
    def of(function: Function) -> Facts:
        """The facts of a function, found once."""
        facts = _FACTS.get(function)
        if facts is None:
            facts = _FACTS[function] = Facts()
            for op in function.walk():
                for value in op.defined_values():
                    facts.definitions[value] = op
                if isinstance(op, Assign):
                    facts.assigns.setdefault(op.var, []).append(op)
                effects = op.effects()
                facts.effects[op] = PURE if effects.is_pure else effects
        return facts

    def assigned(self, block: Block) -> tuple[Var, ...]:
        """The cells that the block may write, each once."""
        if block not in self._assigned:
            self._assigned[block] = tuple(dict.fromkeys(op.var for op in block.walk() if isinstance(op, Assign)))
        return self._assigned[block]

    def steps(self, block: Block) -> tuple[Op, ...]:
        """The block's instructions without its arithmetic, which is evaluated where something asks for it."""
        if block not in self._steps:
            self._steps[block] = tuple(op for op in block.ops if isinstance(op, ReadVar) or not self.is_arithmetic(op))
        return self._steps[block]

    def is_arithmetic(self, op: Op) -> bool:
        """Whether an instruction only computes its one result."""
        return op.defines is not None and self.effects[op] is PURE and not any(True for _ in op.blocks())

    def blocks_on_barrier(self, block: Block) -> bool:
        """Whether an agent may block on an mbarrier somewhere in the block, or spin on one."""
        if block not in self._waits:
            self._waits[block] = any(
                self.spins(op) or any(wait.blocking for wait in self.effects[op].waits) for op in block.walk()
            )
        return self._waits[block]

    def spins(self, op: Op) -> bool:
        """Whether it is a loop without a bound that asks a barrier: it ends when the phase is over, as a wait does."""
        if not isinstance(op, While):
            return False
        return any(self.effects[inner].waits for block in op.blocks() for inner in block.walk())


_FACTS: weakref.WeakKeyDictionary[Function, Facts] = weakref.WeakKeyDictionary()


class Evaluator:
    """Scalars of `function` in the CTA of `rank`.

    Passes call it. On its own it knows constants, the rank, and cells assigned once; a pass that walks the
    code in order (`analysis/trace.py`) also tells it what each cell holds (`cells`), which loops it is in
    (`loops`) and which copy of a role it follows (`copy`).
    Example: ``Evaluator(function, 1).number(copy.multicast)`` is the mask that rank 1 uses, None if only a
    run knows it.
    """

    def __init__(self, function: Function, rank: int) -> None:
        self.function = function
        self.rank = rank
        self.facts = Facts.of(function)
        self.copy: int | None = None
        self.cells: dict[Var, Term] = {}
        self.loops: frozenset[object] = frozenset()
        self._known: dict[Value, Term] = {}
        self._interned: dict[Hashable, Symbol] = {}

    def number(self, value: Value) -> Number | None:
        """The number that `value` is in this rank, None if it is known only at run time."""
        term = self.term(value)
        return None if isinstance(term, Symbol) else term

    def same(self, a: Value, b: Value) -> bool:
        """Whether two values are certainly equal."""
        return self.term(a) == self.term(b)

    def term(self, value: Value) -> Term:
        """`value` as a number or a symbol; equal terms are equal values."""
        if isinstance(value, Const):
            return value.value
        if value not in self._known:
            for each in self._unknown(value):
                self._known[each] = self._evaluate(each)
        return self._known[value]

    def _unknown(self, value: Value) -> Iterator[Value]:
        """The value behind all that it is computed from and is not known yet: chains of arithmetic have any length."""
        waiting = [value]
        while waiting:
            last = waiting[-1]
            before = [each for each in self._operands(last) if each not in self._known]
            if before:
                waiting += before
                continue
            waiting.pop()
            if last not in self._known:
                yield last

    def _operands(self, value: Value) -> Iterator[Value]:
        """What arithmetic computes a value from; nothing for cells, which may feed themselves."""
        op = self.facts.definitions.get(value)
        if op is None or isinstance(op, ReadVar) or not self.facts.is_arithmetic(op):
            return
        for name in operand_fields(type(op)):
            for each in values_in(getattr(op, name)):
                if not isinstance(each, Const):
                    yield each

    def fresh(self) -> Symbol:
        """Something unknown at this place."""
        return Symbol(self.loops)

    def set(self, value: Value, term: Term) -> None:
        """From here on `value` is `term`: a loop's index, say."""
        self._known[value] = term

    def define(self, op: Op) -> None:
        """Notes that control reaches `op`, one of `Facts.steps`. Called in program order."""
        if isinstance(op, Assign):
            self.cells[op.var] = self.term(op.value)
        elif isinstance(op, ReadVar):
            if op.var in self.cells:
                self._known[op.result] = self.cells[op.var]
        else:
            for value in op.defined_values():
                self._known[value] = self.fresh()

    def forget(self, block: Block) -> None:
        """What the block computes is to be computed anew: another iteration begins."""
        for op in block.walk():
            for value in op.defined_values():
                self._known.pop(value, None)

    def choose(self, cond: Term, a: Term, b: Term) -> Term:
        """`a` where `cond` holds, `b` elsewhere."""
        if not isinstance(cond, Symbol):
            return a if cond else b
        return a if _identical(a, b) else self._intern(("select", cond, a, b), (cond, a, b))

    def _evaluate(self, value: Value) -> Term:
        op = self.facts.definitions.get(value)
        if op is None or not self.facts.is_arithmetic(op):
            return self._intern(("value", value), ())
        if isinstance(op, ReadVar):
            return self._read(op)
        folded = self._fold(op) if isinstance(value.type, ScalarType) else None
        return self._number_by_structure(op, value) if folded is None else folded

    def _read(self, op: ReadVar) -> Term:
        """A cell nobody told us about: its value, if it is assigned in one place only."""
        symbol = self._intern(("value", op.result), ())
        self._known[op.result] = symbol  # what a cell that feeds itself sees
        assigns = self.facts.assigns.get(op.var, [])
        return self.term(assigns[0].value) if len(assigns) == 1 else symbol

    def _fold(self, op: Op) -> Term | None:
        number = op.in_rank(self.function.cluster, self.rank)
        if number is None and self.copy is not None:
            number = op.in_copy(self.copy)
        if number is not None:
            return number
        if isinstance(op, Select):
            return self.choose(self.term(op.cond), self.term(op.a), self.term(op.b))
        if isinstance(op, (Binary, Compare)):
            a, b = self.term(op.a), self.term(op.b)
            if isinstance(op, Compare) and isinstance(a, Symbol) and a is b and not op.a.type.dtype.is_float:
                return fold_compare(op.fn, 0, 0)
            if not (is_integer(a) and is_integer(b)):
                return None
            if isinstance(op, Compare):
                return fold_compare(op.fn, a, b)  # type: ignore[arg-type]
            return fold_binary(op.fn, a, b, op.result.type.dtype)  # type: ignore[arg-type]
        if isinstance(op, (Unary, Cast)):
            x = self.term(op.x)
            if not is_integer(x):
                return None
            dtype = op.result.type.dtype
            return wrap(x, dtype) if isinstance(op, Cast) else fold_unary(op.fn, x, dtype)  # type: ignore[arg-type]
        return None

    def _number_by_structure(self, op: Op, value: Value) -> Term:
        """One symbol for all instructions that compute the same from the same."""
        parts: list[Term] = []

        def key(item: object) -> Hashable:
            if isinstance(item, Value):
                term = self.term(item)
                parts.append(term)
                return (type(term), term)
            return tuple(map(key, item)) if isinstance(item, tuple) else item

        names = content_fields(type(op))
        return self._intern((type(op), value.type, *(key(getattr(op, name)) for name in names)), tuple(parts))

    def _intern(self, key: Hashable, parts: tuple[Term, ...]) -> Symbol:
        symbol = self._interned.get(key)
        if symbol is None:
            varies = [part.varies for part in parts if isinstance(part, Symbol)]
            symbol = self._interned[key] = Symbol(frozenset().union(*varies))
        return symbol


def _identical(a: Term, b: Term) -> bool:
    return a is b or (type(a) is type(b) and a == b)


def ranks(function: Function) -> Iterator[int]:
    """Every CTA rank of the cluster."""
    return iter(range(function.cluster_size))


def per_rank(function: Function, value: Value) -> tuple[Number | None, ...]:
    """What `value` is in each rank; None where only a run knows it.

    Passes call it. Example: a condition `px.cluster.rank() == 0` in a cluster of 2 gives ``(True, False)``.
    """
    return tuple(Evaluator(function, rank).number(value) for rank in ranks(function))
