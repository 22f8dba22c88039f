"""The page on the language: its code runs in order, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

from support.doc_pages import Page


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "page.py"), regenerate)
