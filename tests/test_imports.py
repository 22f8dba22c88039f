"""Which way imports go: the picture of the house in docs/architecture.md is true, and no files import each other in circles.

Every import under src/phalanx is read from the syntax: those of a module, those inside functions, which run when first
needed, and those of `if TYPE_CHECKING`, which never run. What still goes the wrong way is listed; the lists only shrink.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "phalanx"
PICTURE = ROOT / "docs" / "architecture.md"

WRONG_WAY: list[tuple[str, str]] = []
"""(who, whom) of imports that the picture does not have."""
TYPES_UPWARDS: list[tuple[str, str]] = [
    ("phalanx", "phalanx.kernels"),
    ("phalanx", "phalanx.torch"),
]
"""(who, whom) of imports for types alone that go to a higher floor."""


class Kind(Enum):
    """When an import runs."""

    LOAD = "when the file is loaded"
    CALL = "when a function is called"
    TYPES = "never: for the type checker"


class Import(NamedTuple):
    """One file imports another; `line` is where."""

    who: str
    whom: str
    kind: Kind
    line: int


# --- reading imports ----------------------------------------------------------------------------------------------------


def module_name(file: Path) -> str:
    """The name by which a file of the package is imported."""
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in sorted(SOURCE.rglob("*.py"))}


def imports_in(tree: ast.AST, who: str, known: Mapping[str, object], kind: Kind = Kind.LOAD) -> Iterator[Import]:
    """The imports of files of the package in a piece of syntax; `known` are the names of all its files."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # holds no statement
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "phalanx":
                    yield Import(who, alias.name, kind, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{who} line {node.lineno}: imports are absolute"
            module = node.module or ""
            if module.partition(".")[0] == "phalanx":
                for alias in node.names:
                    inside = f"{module}.{alias.name}"
                    yield Import(who, inside if inside in known else module, kind, node.lineno)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports_in(ast.Module(node.body, []), who, known, Kind.TYPES)
            yield from imports_in(ast.Module(node.orelse, []), who, known, kind)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports_in(node, who, known, Kind.CALL if kind is Kind.LOAD else kind)
        else:
            yield from imports_in(node, who, known, kind)


@cache
def all_imports() -> list[Import]:
    """Every import of one file of the package by another."""
    found = [
        part for name, file in MODULES.items() for part in imports_in(ast.parse(file.read_text("utf-8")), name, MODULES)
    ]
    assert len(found) > 2000, "the imports are found"
    return [part for part in found if part.who != part.whom]


# --- the picture --------------------------------------------------------------------------------------------------------


class House(NamedTuple):
    """The picture: what each part reads, and on which floor it stands, counted from the top."""

    reads: dict[str, list[str]]
    floors: dict[str, int]

    def part_of(self, module: str) -> str:
        """The part of the house in which a file is: the longest name that its path begins with."""
        path = module.removeprefix("phalanx").replace(".", "/").lstrip("/")
        candidates = [part for part in self.reads if path == part or path.startswith(part + "/")]
        if not path:
            return "phalanx"
        if path == "__main__":
            return "tools"  # the command, under another name
        assert candidates, f"{module} stands nowhere in the picture of docs/architecture.md"
        return max(candidates, key=len)


def picture(text: str) -> House:
    """Reads the picture: rows of a part and what it reads, between lines that part the floors."""
    block = text.split("## Which way imports go", 1)[1].split("```")[1]
    reads: dict[str, list[str]] = {}
    floors: dict[str, int] = {}
    floor = 0
    for line in block.splitlines():
        if line.startswith("├"):
            floor += 1
        elif line.startswith("│"):
            part, read = (cell.strip() for cell in line.strip("│").split("│"))
            assert part not in reads, f"{part} stands twice in the picture"
            reads[part], floors[part] = read.split(), floor
    return House(reads, floors)


HOUSE = picture(PICTURE.read_text("utf-8"))


def crossings(kinds: set[Kind]) -> dict[tuple[str, str], list[Import]]:
    """The imports between parts of the house, by (who's part, whom's part)."""
    found: dict[tuple[str, str], list[Import]] = defaultdict(list)
    for part in all_imports():
        pair = HOUSE.part_of(part.who), HOUSE.part_of(part.whom)
        if part.kind in kinds and pair[0] != pair[1]:
            found[pair].append(part)
    return found


RUN = {Kind.LOAD, Kind.CALL}


def test_what_is_imported_is_there() -> None:
    assert not [part for part in all_imports() if part.whom not in MODULES]


def test_every_folder_stands_in_the_picture() -> None:
    folders = {child.stem for child in SOURCE.iterdir() if child.is_dir() or child.suffix == ".py"}
    folders -= {"__init__", "__main__", "__pycache__"}
    drawn = {part.partition("/")[0] for part in HOUSE.reads} - {"phalanx"}
    assert drawn == folders
    assert all((SOURCE / part).is_dir() or (SOURCE / f"{part}.py").is_file() for part in HOUSE.reads if part != "phalanx")


@pytest.mark.parametrize("part", HOUSE.reads)
def test_a_part_reads_lower_floors_alone(part: str) -> None:
    for read in HOUSE.reads[part]:
        assert HOUSE.floors[read] > HOUSE.floors[part], f"{part} reads {read}, which is not below it"


def test_imports_go_as_the_picture_says() -> None:
    wrong = [
        part for (a, b), parts in crossings(RUN).items() if b not in HOUSE.reads[a]
        for part in parts if (part.who, part.whom) not in WRONG_WAY
    ]
    assert not wrong, "imports that the picture of docs/architecture.md does not have"


def test_the_list_of_wrong_imports_has_no_old_ones() -> None:
    there = {(part.who, part.whom) for (a, b), parts in crossings(RUN).items() if b not in HOUSE.reads[a] for part in parts}
    assert set(WRONG_WAY) <= there, "one of them is gone: take it out of WRONG_WAY"


def test_the_picture_shows_nothing_that_is_not_there() -> None:
    there = crossings(RUN)
    missing = [(a, b) for a, reads in HOUSE.reads.items() for b in reads if (a, b) not in there]
    assert not missing, "the picture says that a reads b, and no file does"


def test_imports_for_types_go_down_too() -> None:
    upwards = sorted(
        (part.who, part.whom) for (a, b), parts in crossings({Kind.TYPES}).items()
        if HOUSE.floors[b] <= HOUSE.floors[a] for part in parts
    )
    assert upwards == TYPES_UPWARDS


# --- circles ------------------------------------------------------------------------------------------------------------


def circles(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of files that reach each other, of more than one file each, in the order of their names."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in edges.get(todo.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        return seen

    reach = {name: reached(name) for name in edges}
    found: list[set[str]] = []
    for name in sorted(edges):
        together = {name} | {other for other in reach[name] if name in reach.get(other, ())}
        if len(together) > 1 and together not in found:
            found.append(together)
    return found


def test_no_files_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = defaultdict(set)
    for part in all_imports():
        if part.kind in RUN:
            edges[part.who].add(part.whom)
    assert circles(edges) == [], "only circles of imports for types are fine"


# --- the test itself ----------------------------------------------------------------------------------------------------

PLANTED = '''
import numpy
import phalanx.ir.core
from phalanx import errors
from phalanx.ir.core import Op, Block
if TYPE_CHECKING:
    from phalanx.sim import machine
else:
    import phalanx.cuda.plan
class Late:
    def load(self):
        from phalanx.passes.counts import infer
    other = lambda: __import__("phalanx.tools")
def typed():
    if typing.TYPE_CHECKING:
        import phalanx.runtime.cache
'''


def test_every_kind_of_import_is_seen() -> None:
    found = list(imports_in(ast.parse(PLANTED), "phalanx.planted", MODULES))
    assert [(part.whom, part.kind, part.line) for part in found] == [
        ("phalanx.ir.core", Kind.LOAD, 3),
        ("phalanx.errors", Kind.LOAD, 4),
        ("phalanx.ir.core", Kind.LOAD, 5),
        ("phalanx.ir.core", Kind.LOAD, 5),
        ("phalanx.sim.machine", Kind.TYPES, 7),
        ("phalanx.cuda.plan", Kind.LOAD, 9),
        ("phalanx.passes.counts", Kind.CALL, 12),
        ("phalanx.runtime.cache", Kind.TYPES, 16),
    ]


def test_relative_imports_are_refused() -> None:
    with pytest.raises(AssertionError, match="imports are absolute"):
        list(imports_in(ast.parse("from .core import Op"), "phalanx.ir.planted", MODULES))


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"d"}}) == [{"b", "c"}]
    assert circles({"a": {"b"}, "b": {"c"}}) == []


def test_a_file_belongs_to_the_longest_name() -> None:
    house = House({"cuda": [], "cuda/lower": [], "ir": []}, {})
    assert house.part_of("phalanx.cuda.lower.copies") == "cuda/lower"
    assert house.part_of("phalanx.cuda.module") == "cuda"
    with pytest.raises(AssertionError, match="stands nowhere"):
        house.part_of("phalanx.irate")
