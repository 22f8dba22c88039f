"""Scalars of a kernel as Python expressions of a launch: what rounds of loops depend on.

Arithmetic is written as the simulator writes it (`sim.registry.inline_of`). What a launch decides (sizes of arrays, the
grid, the place of a cluster) its family registers here with `@number`, in `sim/timeline/ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Const, Param, Value, Var
from phalanx.sim.registry import inline_of

NUMBERS: dict[type[Op], Callable[[Any], str]] = {}
"""Expressions of instructions that a launch decides.

Their names: `sizes`, the shapes of the arguments; `args`, the numbers among them; `grid`, its CTAs; `clusters`, their
number; `cluster`, the number of one, and `place`, where it begins in the grid.
"""


class Unknown(Exception):
    """Something that only a run decides: data in memory, or a cell that several places assign."""


def number(cls: type[Op]) -> Callable[[Callable[[Any], str]], Callable[[Any], str]]:
    """Registers the expression of what a launch decides.

    For the files of `sim/timeline/ops`. Example::

        @number(NumBlocks)
        def num_blocks(op: NumBlocks) -> str:
            return f"grid[{op.dim}]"
    """

    def register(express: Callable[[Any], str]) -> Callable[[Any], str]:
        NUMBERS[cls] = express
        return express

    return register


class Numbers:
    """Writes Python that computes scalars of an agent of one rank, each where it is first asked for."""

    def __init__(self, function: Function, rank: int, copy: int) -> None:
        self.function = function
        self.rank = rank
        self.copy = copy
        self.lines: list[str] = []
        self.depth = 1
        self.makers: dict[str, Callable[[Any], Any]] = {}
        """Functions that expressions name, as the simulator's own writer keeps them."""
        self.used: set[str] = set()
        """The names of loops' indices, and of what differs between clusters, that were asked for."""
        self._scopes: list[dict[Value, str]] = [{}]
        self._definitions: dict[Value, Op] = {}
        self._assigns: dict[Var, list[Assign]] = {}
        for op in function.walk():
            for value in op.defined_values():
                self._definitions[value] = op
            if isinstance(op, Assign):
                self._assigns.setdefault(op.var, []).append(op)

    def line(self, text: str) -> None:
        """Appends a line."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """Lines below a head, whose names are not known behind them."""
        self.line(head)
        self.depth += 1
        self._scopes.append({})
        yield
        self._scopes.pop()
        self.depth -= 1

    def name(self, value: Value, text: str) -> None:
        """A value's name from here on: a loop's index."""
        self._scopes[-1][value] = text

    def expr(self, value: Value | None) -> str:
        """A Python expression for a scalar; raises `Unknown`."""
        if value is None or not isinstance(value.type, ScalarType):
            raise Unknown
        if isinstance(value, Const):
            return repr(value.value) if not isinstance(value.value, int) or value.value >= 0 else f"({value.value})"
        if isinstance(value, Param):
            return f"args[{value.index}]"
        for scope in self._scopes:
            if value in scope:
                self.used.add(scope[value])
                return scope[value]
        return self._computed(value, self._definitions.get(value))

    def _computed(self, value: Value, op: Op | None) -> str:
        """What an instruction defines."""
        if op is None:
            raise Unknown
        known = op.in_rank(self.function.cluster, self.rank)
        known = op.in_copy(self.copy) if known is None else known
        if known is not None:
            return str(known)
        if type(op) in NUMBERS:
            text = NUMBERS[type(op)](op)
            self.used.add(text.partition("[")[0])
            return text
        if isinstance(op, ReadVar):
            assigns = self._assigns.get(op.var, [])
            if len(assigns) != 1 or isinstance(self._definitions.get(assigns[0].value), ReadVar):
                raise Unknown
            return self.expr(assigns[0].value)
        express = inline_of(op)
        if express is None or not op.effects().is_pure:
            raise Unknown
        expression = express(op, self)
        if expression is None:
            raise Unknown
        name = f"v{len(self.lines)}_{self.depth}"
        self.line(f"{name} = {expression}")
        self._scopes[-1][value] = name
        return name

    def functions(self) -> dict[str, Any]:
        """What the lines name beside their parameters."""
        return {name: make(None) for name, make in self.makers.items()}
