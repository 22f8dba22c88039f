"""The page on installation: its code runs, its extras and requirements are those of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from support.doc_pages import ROOT, Page

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "install_page.py"), regenerate)


def test_extras_and_requirements(page: Page) -> None:
    table = page.text.split("## Extras")[1].split("##")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([\w-]+)`", row)}
    assert named == set(PROJECT["optional-dependencies"])
    for requirement in PROJECT["dependencies"]:
        name = re.match(r"[\w-]+", requirement)[0]
        assert name.lower() in page.text.lower(), name
