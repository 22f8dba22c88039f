"""The page on tuning: its code runs, and prints what it says; the commands that it shows are some."""

from __future__ import annotations

import re
from pathlib import Path

from doc_pages import DOCS, Page


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "tuning.py"), regenerate)


def test_the_commands_that_it_shows_are_in_the_reference(page: Page) -> None:
    """They need a GPU: names and options are looked up."""
    (shown,) = (block.text for block in page.blocks if block.kind == "sh")
    reference = (DOCS / "reference" / "commands.md").read_text()
    for line in shown.splitlines():
        command = line.partition("#")[0].split()
        for name in command[2].split("|"):
            assert f"## `phalanx bench {name}`" in reference
        for option in re.findall(r"--[a-z-]+", line.partition("#")[0]):
            assert f"`{option} " in reference or f"`{option}`" in reference
