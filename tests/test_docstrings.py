"""Docstrings and the length of functions, over the whole package.

A name is public if it has no underscore in front and stands at the top of a module or in a public class; functions inside
functions are neither counted nor asked for a docstring. The length of a function is that of its text from `def` to its
end, with the functions inside it: those count to the one that they stand in.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import phalanx

ROOT = Path(phalanx.__path__[0])
FILES = sorted(ROOT.rglob("*.py"))
DOCUMENTED = 0.90
"""The share of public functions and classes that have a docstring, at least."""
DOCUMENTED_IN = {"language": 0.99, "tools": 0.90}
"""The same for single folders."""
RIDDLES = ("The same", "Of", "Those", "Which", "So many")
"""Openings that say nothing to a reader who has not read what stands above: a docstring stands alone."""
LONGEST, LONGEST_KERNEL = 80, 120
"""Lines of a function, outside `kernels/` and inside."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """The public functions and classes of a module, with the methods of those classes."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_") and not is_overload(node):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def is_overload(node: Definition) -> bool:
    """Whether it only gives one more type to a function that follows."""
    return any(isinstance(item, ast.Name) and item.id == "overload" for item in node.decorator_list)


class Looked(NamedTuple):
    """What these tests ask of a file."""

    public: int
    undocumented: list[str]
    too_long: list[str]
    docstrings: list[tuple[str, str]]
    """All docstrings and the strings that document constants, with their places."""


@functools.cache
def looked() -> dict[str, Looked]:
    """Every file of the package, read once."""
    return {name_of(file): look(name_of(file), ast.parse(file.read_text())) for file in FILES}


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements of a module, those inside of others too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.expr):  # holds no statement
            yield from statements(node)


def look(name: str, tree: ast.Module) -> Looked:
    names = list(public(tree))
    undocumented = [f"{name}:{node.lineno} {node.name}" for node in names if not ast.get_docstring(node)]
    most = LONGEST_KERNEL if name.startswith("kernels/") else LONGEST
    too_long, docstrings = [], []
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > most:
                too_long.append(f"{name}:{node.lineno} {node.name}, {length} lines")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.append((f"{name}:{node.lineno}", node.value.value))
    return Looked(len(names), undocumented, too_long, docstrings)


def undocumented(folder: str = "") -> tuple[list[str], int]:
    """The public names without a docstring, and how many public names there are."""
    files = [about for name, about in looked().items() if name.startswith(folder)]
    return [place for about in files for place in about.undocumented], sum(about.public for about in files)


def test_public_names_have_docstrings() -> None:
    missing, count = undocumented()
    assert 1 - len(missing) / count >= DOCUMENTED, missing


@pytest.mark.parametrize("folder", DOCUMENTED_IN)
def test_public_names_of_a_folder_have_docstrings(folder: str) -> None:
    missing, count = undocumented(folder + "/")
    assert 1 - len(missing) / count >= DOCUMENTED_IN[folder], missing


def test_functions_are_short() -> None:
    assert [place for about in looked().values() for place in about.too_long] == []


def docstrings() -> Iterator[tuple[str, str]]:
    for about in looked().values():
        yield from about.docstrings


def begins_with_a_riddle(text: str) -> bool:
    """Whether a docstring begins with words that point to something outside it."""
    return re.match(rf"\s*({'|'.join(RIDDLES)})\b", text) is not None


def riddles() -> list[tuple[str, str]]:
    return [(place, text.strip().split("\n")[0]) for place, text in docstrings() if begins_with_a_riddle(text)]


def test_docstrings_stand_alone() -> None:
    assert list(riddles()) == [], "say it in plain words"


@pytest.mark.parametrize("text", ["Of both.", "The same with cells.", "\n    Those of stores.", "Which warps run it."])
def test_a_riddle_is_found(text: str) -> None:
    assert begins_with_a_riddle(text)


@pytest.mark.parametrize("text", ["Offsets in bytes.", "The sameness of types.", "Whichever comes first."])
def test_words_that_begin_alike_are_none(text: str) -> None:
    assert not begins_with_a_riddle(text)


def test_code_in_docstrings_is_not_torn_at_a_line_end() -> None:
    torn = []
    for place, text in docstrings():
        plain = re.sub(r"``[^`\n]*``", "", text)
        torn += [(place, code) for code in re.findall(r"``[^`]*``", plain) if "\n" in code and "\n\n" not in code]
    assert not torn


def test_bullets_in_docstrings_stand_in_a_list() -> None:
    """A bullet right below a line of a paragraph was pushed there by a re-wrap: Markdown takes it for text."""
    torn = []
    for place, text in docstrings():
        lines = text.split("\n")
        for above, line in itertools.pairwise(lines):
            indent = len(line) - len(line.lstrip())
            bullet = re.match(r"\s*- \S", line)
            begins_a_list = not above.strip() or above.rstrip().endswith(":") or re.match(r"\s*- ", above)
            if bullet and not begins_a_list and len(above) - len(above.lstrip()) <= indent:
                torn.append((place, line.strip()))
    assert not torn
