"""The page on loops that pipeline themselves: its code runs and prints what the page says, and so does the command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipelining.md"
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
COMMAND = "$ phalanx explain product.py\n"


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path, regenerate: bool) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    codes = [text for kind, text in blocks if kind == "python"]
    said = []
    script = "\nprint('----')\n".join(codes)
    (tmp_path / "page.py").write_text(script)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = [text for text in done.stdout.split("----\n") if text]
    shown = [text for kind, text in blocks if kind == "text"]
    if regenerate:
        page = PAGE.read_text()
        for text in said:
            first = next(match for match in BLOCK.finditer(page) if match[1] == "text" and "\0" not in match[2])
            page = page[: first.start(2)] + "\0" + text + page[first.end(2) :]
        PAGE.write_text(page.replace("\0", ""))
        return
    assert said == shown


def test_the_command_prints_what_the_page_says(tmp_path: Path, regenerate: bool) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    (tmp_path / "product.py").write_text(next(text for kind, text in blocks if kind == "python"))
    code = "from phalanx.tools.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", "product.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    shown = next(text for kind, text in blocks if text.startswith(COMMAND))
    if regenerate:
        PAGE.write_text(PAGE.read_text().replace(shown, COMMAND + done.stdout.rstrip() + "\n"))
        return
    assert shown == COMMAND + done.stdout.rstrip() + "\n"
