"""Every block of the page on clusters runs, in order, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

from support.doc_pages import Page


def test_every_block_runs_and_prints_what_the_page_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    assert {block.kind for block in page.blocks} == {"python", "text"}
    page.compare(page.printed_here(tmp_path, "page.py"), regenerate)


def test_the_page_has_all_parts_in_order(page: Page) -> None:
    exchanges = ["Rank", "Multicast", "Who counts", "Slot release", "Push", "Reduce", "Gather"]
    assert page.titles() == [*exchanges, "Cluster launch control"]
