"""The page on what runs when: its code runs, and prints what it says; what it says of the sources is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import phalanx
from support.doc_pages import Page

SOURCES = Path(phalanx.__path__[0])
GENERATED = {
    "frozen.py", "runtime/exporting/exported_ways.py", "runtime/launch/matcher.py", "runtime/launch/replay.py",
    "runtime/planning/compiled_ways.py", "runtime/symbolic/reals.py", "sim/codegen.py", "sim/timeline/closed.py",
    "torch/straight.py",
}  # fmt: skip
"""Files that run text which this process made; none of them reads it from a file."""


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "page.py"), regenerate)


def called(names: set[str]) -> set[str]:
    """The package's files that call one of these by its plain name."""
    found = set()
    written = re.compile(rf"\b(?:{'|'.join(names)})\b")
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        if not written.search(text):
            continue
        calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
        if any(isinstance(func, ast.Name) and func.id in names for func in calls):
            found.add(path.relative_to(SOURCES).as_posix())
    return found


def test_no_other_file_runs_text() -> None:
    assert called({"eval", "exec"}) == GENERATED
    written = "\n".join(path.read_text() for path in (SOURCES / "runtime" / "exporting").glob("*.py"))
    assert len(re.findall(r"\beval\(", written)) == 1, "a template of an exported file evaluates text"


def test_nothing_is_asked_of_the_network() -> None:
    imports = re.compile(r"^\s*(?:import|from) (socket|urllib|http|ftplib|smtplib|requests|ssl)\b", re.MULTILINE)
    assert [path for path in SOURCES.rglob("*.py") if imports.search(path.read_text())] == []
