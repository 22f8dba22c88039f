"""The tutorials: their code runs in order, and prints what they say. The one on torch is with torch's tests."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from support.doc_pages import DOCS, Page

FOLDER = DOCS / "tutorials"
ELSEWHERE = {"index", "torch"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem not in ELSEWHERE)
LONG = {"attention"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in NAMES])
def test_the_page_runs_and_prints_what_it_says(name: str, tmp_path: Path, regenerate: bool) -> None:
    page = Page(FOLDER / f"{name}.md")
    page.compare(page.printed_here(tmp_path, f"{name}.py"), regenerate)
    page.compare_pictures(tmp_path, regenerate)


def test_the_path_leads_from_each_to_the_next() -> None:
    path = re.findall(r"^- \[(\d)\. .*\]\((\w+)\.md\)", (FOLDER / "index.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in path] == list(range(1, len(path) + 1))
    assert {name for _, name in path} | {"index"} == {file.stem for file in FOLDER.glob("*.md")}
    for (number, name), (_, after) in itertools.pairwise(path):
        text = (FOLDER / f"{name}.md").read_text()
        assert text.startswith(f"# {number}. ") and re.search(rf"^Next: \[.*\]\({after}\.md\)", text, re.MULTILINE)
