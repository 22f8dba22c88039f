"""Pages of the documentation as tests see them: blocks of code, what the page says they print, and a way to run them.

A block of `python` is code; all of a page's blocks are one program, run from top to bottom. A block of `text` (on a page
that has none of these: one without a language) says what the code block before it prints. Blocks that begin with `$` show
a command, and blocks in other languages are for readers; neither is compared here.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
END = "--- end of a block ---\n"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and where the text lies in the page."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def is_code(self) -> bool:
        return self.kind == "python"


class Page:
    """A page of Markdown whose code runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text()
        self.blocks = [Block(found[1], found[2], *found.span(2)) for found in BLOCK.finditer(self.text)]

    @property
    def code(self) -> list[str]:
        """The code blocks."""
        return [block.text for block in self.blocks if block.is_code]

    def outputs(self) -> list[list[Block]]:
        """For each code block what it prints: mostly one block, or several that a page talks about in between."""
        kind = "text" if any(block.kind == "text" for block in self.blocks) else ""
        found: list[list[Block]] = []
        for block in self.blocks:
            if block.is_code:
                found.append([])
            elif block.kind == kind and found and not block.text.startswith("$ "):
                found[-1].append(block)
        return found

    def command(self, command: str) -> str:
        """What the page shows for a command: all of the block that begins with it."""
        (text,) = (block.text for block in self.blocks if block.text.startswith(f"$ {command}\n"))
        return text

    def titles(self) -> list[str]:
        """The titles of its sections."""
        return re.findall(r"^## (.*)$", self.text, re.MULTILINE)

    def printed(self, folder: Path, name: str = "page.py", timeout: float = 300) -> list[str]:
        """What each code block prints, in a process of its own."""
        (folder / name).write_text(self.program())
        done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(END)[:-1]

    def printed_here(self, folder: Path, name: str) -> list[str]:
        """What each code block prints, in this process, which is quicker: for pages that leave nothing behind."""
        file = folder / name
        file.write_text(self.program())
        said = io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(said), patch.dict(os.environ):
            exec(compile(file.read_text(), str(file), "exec"), {"__name__": "__main__"})
        return said.getvalue().split(END)[:-1]

    def program(self) -> str:
        """All code blocks, each with a mark behind what it prints."""
        return "".join(f"{text}\nprint({END!r}, end='')\n" for text in self.code)

    def verify(self, folder: Path, name: str = "page.py", regenerate: bool = False) -> None:
        """Each block prints what the page says; `regenerate` writes it into the page instead."""
        self.compare(self.printed(folder, name), regenerate)

    def compare(self, printed: list[str], regenerate: bool = False) -> None:
        """Compares what blocks printed with what the page says, or writes it there."""
        if regenerate:
            self.write(printed)
            return
        assert printed == ["".join(block.text for block in blocks) for blocks in self.outputs()]

    def write(self, printed: list[str]) -> None:
        """Puts what was printed into the page; every block that prints must have a place for it."""
        text = self.text
        for said, blocks in reversed(list(zip(printed, self.outputs(), strict=True))):
            if said == "".join(block.text for block in blocks):
                continue
            assert len(blocks) == 1, f"{self.path.name}: {len(blocks)} places for the output\n{said}"
            text = text[: blocks[0].start] + said + text[blocks[0].end :]
        self.path.write_text(text)

    def compare_pictures(self, folder: Path, regenerate: bool = False) -> dict[str, str]:
        """The pictures that the page's code wrote are those that it shows from `docs/pictures`, or become them."""
        made = {path.name: path.read_text() for path in folder.glob("*.svg")}
        if regenerate:
            for name, text in made.items():
                (PICTURES / name).write_text(text)
        shown = re.findall(r"!\[[^\]]*\]\((?:\.\./)?pictures/(\w+\.svg)\)", self.text)
        assert made.keys() <= set(shown), "made and not shown"
        assert made == {name: (PICTURES / name).read_text() for name in made}
        return made

    def names(self, folder: Path, head: str = "") -> dict[str, Any]:
        """The names that its code defines, from a run in this process; `head` comes first."""
        file = folder / f"{self.path.stem}.py"
        file.write_text(head + "\n\n".join(self.code))  # kernels are read from their file
        found: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), found)
        return found
