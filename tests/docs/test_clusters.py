"""Every block of the page on clusters runs, in order, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clusters.md"
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
END = "end of a block"


def test_every_block_runs_and_prints_what_the_page_says(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert {kind for kind, _ in blocks} == {"python", "text"}
    code = [text for kind, text in blocks if kind == "python"]
    script = tmp_path / "page.py"
    script.write_text("".join(f"{text}\nprint({END!r})\n" for text in code))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(f"{END}\n")[:-1]
    shown = [""] * len(code)
    number = -1
    for kind, text in blocks:
        if kind == "python":
            number += 1
        else:
            shown[number] = text
    assert printed == shown


def test_the_page_has_all_parts_in_order() -> None:
    titles = re.findall(r"^## (.*)$", PAGE.read_text(), re.M)
    exchanges = ["Rank", "Multicast", "Who counts", "Slot release", "Push", "Reduce", "Gather"]
    assert titles == [*exchanges, "Cluster launch control"]
