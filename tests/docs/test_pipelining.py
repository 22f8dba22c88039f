"""The page on loops that pipeline themselves: its code runs and prints what the page says, and so does the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.doc_pages import Page

COMMAND = "phalanx explain product.py"


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.verify(tmp_path, regenerate=regenerate)


def test_the_command_prints_what_the_page_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    (tmp_path / "product.py").write_text(page.code[0])
    code = "from phalanx.tools.cli import main; main()"
    arguments = [sys.executable, "-c", code, *COMMAND.split()[1:]]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    shown, printed = page.command(COMMAND), f"$ {COMMAND}\n{done.stdout.rstrip()}\n"
    if regenerate:
        page.path.write_text(page.path.read_text().replace(shown, printed))
        return
    assert shown == printed
