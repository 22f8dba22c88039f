"""The page on environment variables names those that are read, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import phalanx
from support.doc_pages import ROOT, Page

NAME = re.compile(r"PHALANX_[A-Z_]+")


def names_in(*places: Path) -> set[str]:
    found: set[str] = set()
    for place in places:
        for file in [place] if place.is_file() else place.rglob("*.py"):
            found |= set(NAME.findall(file.read_text(encoding="utf-8")))
    return found


def test_the_table_has_what_the_package_reads(page: Page) -> None:
    rows = set(re.findall(r"^\| `(PHALANX_[A-Z_]+)` \|", page.text, re.MULTILINE))
    assert rows | {"PHALANX_TUNING_WORKER"} == names_in(Path(phalanx.__path__[0]))


def test_the_page_names_no_other(page: Page) -> None:
    sources = (Path(phalanx.__path__[0]), ROOT / "benchmarks", ROOT / "tests", ROOT / "Makefile")
    assert set(NAME.findall(page.text)) <= names_in(*sources)


def test_other_pages_name_known_variables(page: Page) -> None:
    known = set(NAME.findall(page.text))
    for other in (ROOT / "docs").rglob("*.md"):
        assert set(NAME.findall(other.read_text(encoding="utf-8"))) <= known, other
