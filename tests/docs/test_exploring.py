"""The page on every order of events: its code runs, and prints what it says."""

from __future__ import annotations

from pathlib import Path

from phalanx.language.examples import launch_of
from support.doc_pages import Page


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "ring.py"), regenerate)


def test_its_example_is_one(page: Page, tmp_path: Path) -> None:
    names = page.names(tmp_path)
    found = launch_of(names["small"])
    assert found.name == "ring" and found.constants == {"STAGES": 2} and found.args == (names["x"], names["y"])
