"""The page on tuning: its code runs, and prints what it says; the commands that it shows are some."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import ROOT
from phalanx.tools.bench import module_of, scripts
from support.doc_pages import Page


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "tuning.py"), regenerate)


def test_the_commands_that_it_shows_are_there(page: Page) -> None:
    """They need a GPU: names and options are looked up."""
    (shown,) = (block.text for block in page.blocks if block.kind == "sh")
    known = scripts(ROOT)
    for line in shown.splitlines():
        command = line.partition("#")[0].split()
        for name in command[2].split("|") if command[2:] else ():
            text = ROOT.joinpath(*module_of(name, known).split(".")).with_suffix(".py").read_text()
            text += (ROOT / "benchmarks" / "common" / "machine.py").read_text()
            for option in re.findall(r"--[a-z-]+", line.partition("#")[0]):
                assert f'"{option}"' in text, f"{name} has no {option}"
