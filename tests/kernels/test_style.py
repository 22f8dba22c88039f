"""How the library's kernels are written: a statement a line, and steps named where a kernel is long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import phalanx

FOLDER = Path(phalanx.__path__[0]) / "kernels"
FILES = sorted(FOLDER.rglob("*.py"))
CHOOSERS = ("row_config", "share_config", "stream_config")
"""Files that choose configurations of rows, which pack statements still."""
LONG = 60
"""Lines of a kernel, or of a function in one, from which on its steps are named beside the code."""


def names_in(node: ast.AST) -> set[str]:
    """The variables and attributes that an expression has, as they are written."""
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)}


def packed(tree: ast.Module) -> Iterator[ast.Assign]:
    """Assignments of tuples that are several statements in a line: none of the values needs what another one replaces."""
    documented = [
        node for node, behind in zip(tree.body, tree.body[1:])
        if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
    ]  # fmt: skip
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or node in documented:
            continue
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
            continue
        if any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts)):
            continue
        calls = any(isinstance(part, ast.Call) for part in ast.walk(value))
        if calls and any(not isinstance(item, ast.Name) for item in target.elts):
            continue  # a call may read what is assigned
        if not any(names_in(one) & names_in(other) for n, one in enumerate(target.elts) for other in value.elts[n + 1 :]):
            yield node


def long_without_steps(text: str) -> Iterator[str]:
    """The names of long kernels, and of long functions for kernels, without a comment that names a step."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef) or node.end_lineno is None:
            continue
        made = [ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list]
        of_kernels = any(name == "px.func" or name.endswith("kernel") for name in made)
        own = lines[node.lineno - 1 : node.end_lineno]
        if of_kernels and len(own) > LONG and not any(line.lstrip().startswith("# Step 1") for line in own):
            yield node.name


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in CHOOSERS], ids=lambda path: path.stem)
def test_one_statement_a_line(path: Path) -> None:
    assert [f"{path.name}:{node.lineno}" for node in packed(ast.parse(path.read_text()))] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_long_kernels_name_their_steps(path: Path) -> None:
    assert list(long_without_steps(path.read_text())) == []


@pytest.mark.parametrize(
    "text, found",
    [("a, b = 1, f(x)", 1), ("a, b = b, a", 0), ("a, b = f(x)", 0), ("a, self.b = f(x), g(x)", 0), ("a, *b = 1, 2", 0)],
)
def test_statements_that_are_packed(text: str, found: int) -> None:
    assert len(list(packed(ast.parse(text)))) == found


def test_a_long_kernel_without_steps_is_found() -> None:
    body = "    x = 1\n" * LONG
    assert list(long_without_steps(f"@px.func\ndef long(x):\n{body}")) == ["long"]
    assert list(long_without_steps(f"@px.func\ndef long(x):\n    # Step 1: all.\n{body}")) == []
    assert list(long_without_steps(f"def plain(x):\n{body}")) == []
