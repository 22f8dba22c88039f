"""Prints how heavy the sources are: lines of code by room, the largest files and functions, the longest kernel signatures.

    python benchmarks/weight.py
    python benchmarks/weight.py --against HEAD~20

A line of code is one that has something other than a comment, a docstring or white space. A docstring is any string that
stands alone as a statement, as below a constant. A room is a folder of `src/phalanx`, or of one of its folders; a file in
neither is in the room `.`. Tests and benchmarks are a line each. `--against` prints what a commit had beside each room.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = "src/phalanx"
OTHERS = "tests", "benchmarks"
MOST_PARAMETERS = 16
"""A kernel with more parameters is printed: configurations can travel as one struct."""
MOST_LINES = 600
"""A file of more lines, of any kind, is printed."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Part:
    """A file, function or kernel, and its size: lines of code, or, of a signature, parameters."""

    where: str
    size: int


@dataclass(frozen=True)
class Source:
    """What is counted of one file of Python."""

    path: str
    lines: int
    code: int
    functions: tuple[Part, ...]
    signatures: tuple[Part, ...]

    @property
    def room(self) -> str:
        """The folder that the file is counted in, relative to the sources; "tests" or "benchmarks" of other files."""
        if not self.path.startswith(SOURCES):
            return self.path.split("/")[0]
        return "/".join(self.path.removeprefix(f"{SOURCES}/").split("/")[:-1][:2]) or "."


def code_lines(text: str, tree: ast.AST) -> list[int]:
    """The numbers of the lines that have code, in order. All lines of a string are code, unless it is a docstring."""
    strings: set[int] = set()
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(lines_of(node))
        elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            strings.update(lines_of(node))
    lines = enumerate(text.split("\n"), start=1)
    return [
        number
        for number, line in lines
        if number not in docstrings and (number in strings or (line.strip() and not line.lstrip().startswith("#")))
    ]


def lines_of(node: ast.expr | ast.stmt | Function) -> range:
    """The numbers of the lines of a part of the program."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def named_functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """All functions with the names of the classes and functions around them. An expression has none inside."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, Function):
            yield prefix + child.name, child
        inner = f"{prefix}{child.name}." if isinstance(child, Function | ast.ClassDef) else prefix
        yield from named_functions(child, inner)


def is_kernel(function: Function) -> bool:
    """Whether a decorator's name ends with "kernel", as in `px.kernel(...)` and `row_kernel`."""
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name.endswith("kernel"):
            return True
    return False


def parameters(function: Function) -> int:
    """How many parameters a function has."""
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def weigh(path: str, text: str) -> Source:
    """Counts one file."""
    tree = ast.parse(text)
    code = code_lines(text, tree)
    functions = []
    signatures = []
    for name, function in named_functions(tree):
        where = f"{path}:{function.lineno} {name}"
        lines = lines_of(function)
        functions.append(Part(where, bisect_left(code, lines.stop) - bisect_left(code, lines.start)))
        if is_kernel(function):
            signatures.append(Part(where, parameters(function)))
    return Source(path, len(text.splitlines()), len(code), tuple(functions), tuple(signatures))


def of_folder(root: Path, folders: Sequence[str] = (SOURCES, *OTHERS)) -> list[Source]:
    """Counts these folders of a checkout."""
    return [
        weigh(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
    ]


def of_commit(commit: str) -> list[Source]:
    """Counts the sources, tests and benchmarks of a commit."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, SOURCES, *OTHERS], stdout=subprocess.PIPE, check=True
    ).stdout  # fmt: skip
    found = []
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".py") else None
            if file is not None:
                found.append(weigh(member.name, file.read().decode()))
    return found


def by_room(sources: list[Source]) -> dict[str, tuple[int, int]]:
    """Files and lines of code of each room, and of "source", all rooms of the sources together."""
    files: Counter[str] = Counter()
    code: Counter[str] = Counter()
    for source in sources:
        for room in {source.room, source.room if source.room in OTHERS else "source"}:
            files[room] += 1
            code[room] += source.code
    return {room: (files[room], code[room]) for room in files}


def rooms_in_order(rooms: set[str]) -> list[str]:
    """Rooms by name, then the sum of the sources, then the others."""
    last = ["source", *OTHERS]
    return [*sorted(rooms - set(last)), *(room for room in last if room in rooms)]


def table(now: list[Source], before: list[Source] | None) -> Iterator[str]:
    """The lines of code by room, and what they were before, if that is asked for."""
    new = by_room(now)
    old = by_room(before) if before is not None else None
    yield f"{'room':24}{'files':>7}{'code':>9}" + (f"{'before':>9}{'change':>9}" if old is not None else "")
    for room in rooms_in_order(set(new) | set(old or {})):
        files, code = new.get(room, (0, 0))
        line = f"{room:24}{files:7,}{code:9,}"
        if old is not None:
            then = old.get(room, (0, 0))[1]
            line += f"{then:9,}{code - then:+9,}"
        yield line


def largest(title: str, parts: list[Part], count: int) -> Iterator[str]:
    """The largest of these parts below a title."""
    yield f"\n{title}"
    for part in sorted(parts, key=lambda part: (-part.size, part.where))[:count]:
        yield f"{part.size:7,}  {part.where}"


def report(now: list[Source], before: list[Source] | None = None, count: int = 10) -> Iterator[str]:
    """All that is printed, line by line."""
    yield from table(now, before)
    ours = [source for source in now if source.room not in OTHERS]
    yield from largest("largest files, lines of code", [Part(source.path, source.code) for source in ours], count)
    functions = [part for source in ours for part in source.functions]
    yield from largest("largest functions, lines of code", functions, count)
    long = [Part(source.path, source.lines) for source in ours if source.lines > MOST_LINES]
    yield from largest(f"files of more than {MOST_LINES} lines: {len(long)}", long, count)
    wide = [part for source in ours for part in source.signatures if part.size > MOST_PARAMETERS]
    yield from largest(f"kernels with more than {MOST_PARAMETERS} parameters: {len(wide)}", wide, len(wide))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="a commit, whose lines of code are printed beside")
    parser.add_argument("--count", type=int, default=10, help="how many of the largest files and functions")
    given = parser.parse_args()
    before = of_commit(given.against) if given.against else None
    print("\n".join(report(of_folder(ROOT), before, given.count)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
