"""The page on profiling: its code runs, and its commands name what there is."""

from __future__ import annotations

from pathlib import Path

from support.doc_pages import Page


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "sums.py"), regenerate)


def test_the_kernel_has_the_name_that_the_command_gives(page: Page, tmp_path: Path) -> None:
    made = page.names(tmp_path)["made"]
    assert made.name == "row_sums_kernel" and "-k regex:row_sums" in page.text
