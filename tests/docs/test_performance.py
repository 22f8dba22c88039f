"""The performance guide: its code runs and prints what it says, and the notes that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import phalanx
from support.doc_pages import DOCS, Page


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "performance_page.py"), regenerate)


def test_the_notes_that_it_explains_exist(page: Page) -> None:
    table = page.text.split("| a note |")[1].split("\n\n")[0]
    named = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    sources = (DOCS / "pipelining.md").read_text(encoding="utf-8")  # whose notes are printed by its code
    sources += "\n".join(path.read_text(encoding="utf-8") for path in Path(phalanx.__path__[0]).rglob("*.py"))
    assert len(named) >= 4 and [name for name in named if name not in sources] == []
