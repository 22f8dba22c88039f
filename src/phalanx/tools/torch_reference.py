"""What `px.torch` has, with signatures and docstrings, read from its source: the reference is written without torch, too."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / "torch"
PREFIX = "px.torch"


@dataclass(frozen=True)
class Described:
    """A function or class as users call it, and its docstring."""

    call: str
    text: str


def described(folder: Path = HOME, prefix: str = PREFIX) -> Iterator[Described]:
    """What a package exports, in the order of its names; what a package in it exports follows.

    Anyone may call it; torch need not be there. Example: ``next(described()).call.startswith("px.torch.")``.
    """
    package = _parsed(folder / "__init__.py")
    homes = {
        name.name: statement.module.rpartition(".")[2]
        for statement in package.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for name in statement.names
    }
    inner = [name for name in homes if (folder / name).is_dir()]
    for name in sorted(homes):
        file = folder / f"{homes[name]}.py"
        if name in inner or not file.exists() or homes[name] == "version":
            continue
        yield _entry(file, name, f"{prefix}.{name}")
    for name in inner:
        yield from described(folder / name, f"{prefix}.{name}")


def _entry(file: Path, name: str, called: str) -> Described:
    (found,) = [
        node for node in _parsed(file).body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    ]
    function, skipped = found, 0
    if isinstance(found, ast.ClassDef):
        function, skipped = next(n for n in found.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), 1
    assert isinstance(function, ast.FunctionDef)
    return Described(f"{called}({_arguments(function.args, skipped)})", inspect.cleandoc(ast.get_docstring(found) or ""))


def _arguments(given: ast.arguments, skipped: int) -> str:
    """Writes a function's arguments without annotations, and without the first `skipped` ones (`self`)."""
    for one in (*given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))):
        one.annotation = None
    given.args = given.args[skipped:]
    return ast.unparse(given)


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _parsed(file: Path) -> ast.Module:
    return ast.parse(_text(file))
