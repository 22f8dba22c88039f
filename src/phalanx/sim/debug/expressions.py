"""What a person asks for: `acc[0, 0:4]`, `full[1].pending`, `s.at(1)[0] == 3`. Read as syntax and never run as Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.debug.names import variables
from phalanx.sim.debug.run import Run
from phalanx.sim.machine import Cta

BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: lambda x: not truth(x), ast.Invert: operator.invert,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "all": np.all, "any": np.any, "max": np.max, "min": np.min, "sum": np.sum, "isnan": np.isnan,
}
BARRIER = ("phase", "pending", "expected", "bytes", "live")
"""What is asked of a barrier behind a dot."""


def evaluate(text: str, run: Run, agent: Agent | None, cta: Cta | None, constants: dict[str, Any]) -> Any:
    """The value of an expression where `agent` stands, in the memory of `cta`; an `Error` for what has no value."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as problem:
        raise Error(f"{text!r} is no expression", remedy="e.g. print acc[0, 0:4]") from problem
    try:
        return Evaluation(run, agent, cta, constants).value(tree.body)
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError) as problem:
        raise Error(f"{text!r} has no value: {problem}") from problem


def truth(value: Any) -> bool:
    """Whether a condition holds; a tile's, whether it does anywhere."""
    return bool(np.any(value))


class Evaluation:
    """Names as the agent sees them: its variables, the buffers and barriers of its CTA, arguments, constants."""

    def __init__(self, run: Run, agent: Agent | None, cta: Cta | None, constants: dict[str, Any]) -> None:
        self.run = run
        self.cta = cta
        self.constants = constants
        self.variables = {} if agent is None else variables(agent, run.code)

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for."""
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is None:
            raise Error(f"{ast.unparse(node)!r} can't be shown", remedy="names, subscripts, arithmetic and comparisons can")
        return method(node)

    def of_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def of_Name(self, node: ast.Name) -> Any:
        return self.named(node.id, self.cta)

    def of_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(map(self.value, node.elts))

    def of_Slice(self, node: ast.Slice) -> slice:
        return slice(*(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)))

    def of_Subscript(self, node: ast.Subscript) -> Any:
        return self.value(node.value)[self.value(node.slice)]

    def of_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return UNARY[type(node.op)](self.value(node.operand))

    def of_BinOp(self, node: ast.BinOp) -> Any:
        function = BINARY.get(type(node.op))
        if function is None:
            raise Error(f"{ast.unparse(node)!r} can't be shown")
        return function(self.value(node.left), self.value(node.right))

    def of_BoolOp(self, node: ast.BoolOp) -> bool:
        parts = (truth(self.value(part)) for part in node.values)
        return all(parts) if isinstance(node.op, ast.And) else any(parts)

    def of_Compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), None
        for kind, right in zip(node.ops, map(self.value, node.comparators)):
            if type(kind) not in BINARY:
                raise Error(f"{ast.unparse(node)!r} can't be shown")
            holds = BINARY[type(kind)](left, right)
            result = holds if result is None else np.logical_and(result, holds)
            left = right
        return result

    def of_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and self.is_struct(node.value.id) and node.attr in self.variables:
            return self.variables[node.attr]
        dotted = ast.unparse(node)
        if self.cta is not None and dotted in {array.title for array in self.cta.barriers}:
            return self.named(dotted, self.cta)  # of a pipe: tiles.full
        owner = self.value(node.value)
        if isinstance(owner, MBarrier) and node.attr in BARRIER:
            return owner.tx if node.attr == "bytes" else getattr(owner, node.attr)
        if isinstance(owner, np.ndarray) and node.attr in ("shape", "dtype", "T"):
            return getattr(owner, node.attr)
        raise Error(f"{ast.unparse(node.value)} has no '{node.attr}'", remedy=f"a barrier has {', '.join(BARRIER)}")

    def is_struct(self, name: str) -> bool:
        """Whether a name is none of the run's: rings and other structs are gone there, their fields are variables."""
        try:
            self.named(name, self.cta)
        except Error:
            return True
        return False

    def of_Call(self, node: ast.Call) -> Any:
        function = node.func
        if node.keywords or len(node.args) != 1:
            raise Error(f"{ast.unparse(node)!r} can't be shown")
        if isinstance(function, ast.Attribute) and function.attr == "at" and isinstance(function.value, ast.Name):
            return self.named(function.value.id, self.peer(self.value(node.args[0])))
        if isinstance(function, ast.Name) and function.id in FUNCTIONS:
            return FUNCTIONS[function.id](self.value(node.args[0]))
        raise Error(f"{ast.unparse(function)} can't be called here", remedy=f"these can: {', '.join(FUNCTIONS)}")

    def peer(self, rank: Any) -> Cta | None:
        """Another CTA of the agent's cluster."""
        if self.cta is None:
            return None
        ctas = self.cta.cluster.ctas
        if not isinstance(rank, int) or not 0 <= rank < len(ctas):
            raise Error(f"there is no CTA {rank} in the cluster of {len(ctas)}")
        return ctas[rank]

    def named(self, name: str, cta: Cta | None) -> Any:
        """What a name stands for where the agent is; memory and barriers are those of `cta`."""
        if name in self.variables and cta is self.cta:
            return self.variables[name]
        if cta is not None:
            for buffer, memory in cta.buffers.items():
                if buffer.name == name:
                    return memory
            for array, barriers in cta.barriers.items():
                if name in (array.name, array.title):
                    return barriers[0] if array.n == 1 else barriers
        for param, value in zip(self.run.function.params, self.run.args):
            if param.name == name:
                return value
        if name in self.constants:
            return self.constants[name]
        raise Error(f"there is no {name!r} here", remedy="'variables', 'memory' and 'barriers' list what there is")
