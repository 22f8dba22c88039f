"""The page on debugging: its sessions say what it shows, and its table lists every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phalanx.sim.debug.commands import COMMANDS
from support.doc_pages import Page


def test_sessions_say_what_the_page_shows(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "sums.py"), regenerate)


def test_every_command_is_listed(page: Page, regenerate: bool) -> None:
    rows = []
    for each in COMMANDS:
        written = each.usage.replace("|", "\\|")
        short = "".join(f", `{name}`" for name in each.names[1:])
        rows.append(f"| `{written}`{short} | {each.about} |")
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows])
    found = re.search(r"\| command \| what it does \|\n(?:\|.*\n)+", page.text)
    assert found is not None
    if regenerate:
        page.path.write_text(page.path.read_text().replace(found[0], table + "\n"))
    else:
        assert table + "\n" == found[0]


@pytest.mark.parametrize("story", ["A deadlock", "A race", "A wrong tile"])
def test_no_story_changes_its_kernel(page: Page, story: str) -> None:
    """What is wrong is found in the kernel as it is: a story has one, and neither prints nor breakpoints in it."""
    text = page.text.split(f"## {story}\n")[1].split("\n## ")[0]
    code = "".join(re.findall(r"```python\n(.*?)```", text, re.S))
    assert code.count("@px.kernel") == 1 and "px.print" not in code and "px.breakpoint" not in code
