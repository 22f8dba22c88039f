"""The page on exports: its block runs, and the C that it shows is the C that is written."""

from __future__ import annotations

from pathlib import Path

from doc_pages import Page


def test_the_page(page: Page, tmp_path: Path) -> None:
    names = page.names(tmp_path)
    header = (names["folder"] / "scale.h").read_text()
    (shown,) = (block.text for block in page.blocks if block.kind == "c")
    assert all(line in header for line in shown.strip().splitlines())
    files = {"scale.c", "scale_code.c", "scale.json", "scale.py", "CMakeLists.txt", "scale_sm_100a.cubin"}
    assert files <= set(names["made"].files)
