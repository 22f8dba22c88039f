"""Passes, analyses, the CUDA back end without its emitters, the checks and the simulator's core ask for no class.

They read its effects and declared properties, or look up what its family registered. Every way to ask is searched for in
the syntax of those files: `isinstance`, class patterns of `match`, `type(...)` and `__class__`, tables with instruction
classes as keys, `family` and `mnemonic` outside a message, `getattr`, `hasattr` and `except AttributeError`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

import phalanx
from phalanx.ir.core import Op
from phalanx.ir.ops import control, mbarrier, memory, tile

SOURCE = Path(phalanx.__file__).parent
SEARCHED = (
    "passes/**/*.py", "analysis/**/*.py", "cuda/lower/**/*.py", "cuda/text/**/*.py", "cuda/tiles/**/*.py",
    "sanitizer/**/*.py", "sim/*.py",
)

CONTROL_FLOW: dict[type[Op], str] = {
    control.If: "one of two blocks runs",
    control.For: "its block runs as often as its bounds say",
    control.While: "its blocks run until a condition fails",
    control.Break: "goes to the end of a loop",
    control.Continue: "goes to the next iteration of a loop",
    control.Scope: "its block can be left early",
    control.Leave: "goes to the end of a scope",
    control.Role: "its block is run by some of the warps",
    control.Roles: "its blocks run at the same time",
    control.Assign: "a cell holds another value from here on",
    control.ReadVar: "the value that a cell holds",
    mbarrier.Transaction: "its block runs once; what its copies bring is expected together",
}
"""Instructions that say which others run, when, and with which values: whoever walks a function knows them all."""

ARITHMETIC: dict[type[Op], str] = {
    tile.Unary: "a function of one number",
    tile.Binary: "a function of two numbers",
    tile.Compare: "a truth about two numbers",
    tile.Select: "one of two numbers",
    tile.Cast: "the same number in another type",
    tile.Keep: "the same number",
    control.Assume: "a truth that the user promises",
}
"""Instructions on scalars that the files below calculate with."""
CALCULATES: dict[str, str] = {
    "analysis/assumptions.py": "what px.assume says of numbers",
    "analysis/divisibility.py": "what a number is a multiple of",
    "analysis/limits.py": "how large a number can become",
    "analysis/offsets.py": "a start as a sum of products",
    "analysis/ranks.py": "what a number is in the CTA of one rank",
    "analysis/signs.py": "whether a number may be negative",
    "analysis/tile_grids.py": "the row and the column of a tile",
    "analysis/whole_blocks.py": "what a comparison with the end of a loop says",
    "cuda/text/masks.py": "which CTA a mask names",
    "cuda/text/read_again.py": "what a comparison with the lane's coordinates needs",
    "cuda/tiles/control_text.py": "whether a step is positive",
    "cuda/tiles/facts.py": "an index as a sum",
    "cuda/tiles/limits.py": "comparisons of coordinates with limits",
}
"""Files in which questions about arithmetic are allowed, each with what it calculates."""

ALLOWED: dict[tuple[str, str], str] = {
    ("analysis/ranks.py", "type(op)"): "part of a key: equal instructions of equal operands give equal values",
    ("analysis/ranks.py", "type(term)"): "a number: 1 and True are different terms",
    ("analysis/ranks.py", "type(a)"): "a number: 1 and True are different terms",
    ("analysis/ranks.py", "type(b)"): "a number: 1 and True are different terms",
    ("analysis/trace.py", "type(a[var])"): "a number: 1 and True are different terms",
    ("analysis/trace.py", "type(b[var])"): "a number: 1 and True are different terms",
    ("cuda/text/stamps.py", "op.mnemonic"): "what a timeline calls it",
    ("cuda/text/registry.py", "type(op)"): "the look-up of what a family registered",
    ("sim/registry.py", "type(op)"): "the look-up of what a family registered",
    ("analysis/across_ranks.py", "getattr(op, name)"): "each of its declared fields, by name",
    ("analysis/across_ranks.py", "type(op)"): "part of a key: equal instructions of equal operands give equal values",
    ("analysis/ranks.py", "getattr(op, name)"): "each of its declared fields, by name",
    ("sim/codegen.py", "type(item)"): "an operand that is no operand, in a message",
    ("sim/combine.py", "getattr(op, name)"): "each of its declared operands, by name",
    ("sim/combine.py", "type(op)"): "its declared operands",
    ("sim/operands.py", "getattr(op, name)"): "each of its declared operands, by name",
    ("sim/operands.py", "type(op)"): "its declared operands",
    ("sanitizer/accesses.py", "getattr(record.place, 'view', record)"): "a place in memory",
    ("sanitizer/checker.py", "AttributeError"): "a place in memory, which remembers its cells",
    ("sanitizer/globals.py", "type(place)"): "a place in memory",
    ("sim/numerics.py", "type(x)"): "a number",
    ("sim/run.py", "type(arg)"): "an argument of the launch",
    ("sim/scheduler.py", "type(problem)"): "an exception",
    ("sim/recorder.py", "hasattr(copy, 'group')"): "a copy in flight",
    ("sim/steps.py", "getattr(copy, 'data', None)"): "a copy in flight",
    ("sim/steps.py", "getattr(copy, 'group', None)"): "a copy in flight",
    ("sim/steps.py", "getattr(copy, 'destinations', ())"): "a copy in flight",
}
"""(file, text) of questions that are no type tests of instructions, each with the reason."""


def _classes(found: object) -> Iterator[type]:
    """The classes that an object stands for in `isinstance`, or as a key: itself, those of a union or of a tuple."""
    if isinstance(found, type):
        yield found
    elif isinstance(found, types.UnionType) or typing.get_origin(found) is typing.Union:
        for part in typing.get_args(found):
            yield from _classes(part)
    elif isinstance(found, tuple | list | set | frozenset):
        for part in found:
            yield from _classes(part)


class _Search(ast.NodeVisitor):
    """Finds the questions of one file; names are looked up in the imported module."""

    def __init__(self, file: str, module: types.ModuleType) -> None:
        self.file = file
        self.scope = dict(vars(module))
        self.found: list[tuple[str, str]] = []
        self.messages = 0

    def note(self, node: ast.AST) -> None:
        self.found.append((self.file, ast.unparse(node)))

    def instructions(self, node: ast.expr) -> list[type] | None:
        """The instruction classes that an expression names; None where only a run knows."""
        try:
            found = eval(compile(ast.Expression(node), self.file, "eval"), dict(self.scope))
        except Exception:
            return None
        return [cls for cls in _classes(found) if issubclass(cls, Op)]

    def is_question(self, node: ast.expr) -> bool:
        classes = self.instructions(node)
        if classes is None:
            return True
        known = {*CONTROL_FLOW, *(ARITHMETIC if self.file in CALCULATES else ())}
        return any(cls not in known for cls in classes)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Names that are imported inside a function are looked up like those of the module."""
        module = importlib.import_module(node.module or "")
        self.scope |= {name.asname or name.name: vars(module).get(name.name) for name in node.names}

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.messages += 1
        self.generic_visit(node)
        self.messages -= 1

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        asks_class = name in ("isinstance", "issubclass") and self.is_question(node.args[1])
        if asks_class or (name == "type" and len(node.args) == 1) or name in ("getattr", "hasattr"):
            self.note(node)
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        if self.is_question(node.cls):
            self.note(node.cls)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "__class__" or (node.attr in ("family", "mnemonic") and not self.messages):
            self.note(node)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            if key is not None and self.instructions(key) and self.is_question(key):
                self.note(key)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None and "AttributeError" in ast.unparse(node.type):
            self.note(node.type)
        self.generic_visit(node)


def questions(file: Path) -> list[tuple[str, str]]:
    """Every question about the class of an instruction in a file of the package, as (file, text)."""
    name = file.relative_to(SOURCE).with_suffix("")
    module = importlib.import_module(".".join(("phalanx", *name.parts)).removesuffix(".__init__"))
    search = _Search(str(name.with_suffix(".py")), module)
    search.visit(ast.parse(file.read_text()))
    return search.found


@functools.cache
def _all() -> list[tuple[str, str]]:
    files = sorted(file for pattern in SEARCHED for file in SOURCE.glob(pattern))
    assert len(files) > 80, "the files are found"
    return [question for file in files for question in questions(file)]


def test_no_instruction_is_asked_what_it_is() -> None:
    left = [question for question in _all() if question not in ALLOWED]
    assert left == [], "read its effects or declared properties, or look up what its family registered"


def test_what_is_allowed_is_there() -> None:
    assert not set(ALLOWED) - set(_all()), "an exception that nobody needs any more"


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(op, Load)",
        "isinstance(op, (If, Load))",
        "isinstance(op, KINDS)",
        "type(op) is Load",
        "op.__class__ is Load",
        "op.family == 'tma'",
        "op.mnemonic.startswith('tma.')",
        "getattr(op, 'multicast', None)",
        "hasattr(op, 'multicast')",
        "RULES = {Load: 1}",
        "match op:\n    case Load():\n        pass",
        "try:\n    op.bar\nexcept AttributeError:\n    pass",
    ],
)
def test_every_way_to_ask_is_found(line: str) -> None:
    search = _Search("passes/planted.py", types.ModuleType("planted"))
    search.scope = {"Load": memory.Load, "If": control.If, "KINDS": (memory.Load, memory.Store)}
    search.visit(ast.parse(line))
    assert search.found


@pytest.mark.parametrize("line", ["isinstance(op, If)", "isinstance(x, int)", "f'px.{op.mnemonic}'", "{If: 1}"])
def test_control_flow_and_messages_are_free(line: str) -> None:
    search = _Search("passes/planted.py", types.ModuleType("planted"))
    search.scope = {"If": control.If}
    search.visit(ast.parse(line))
    assert not search.found
