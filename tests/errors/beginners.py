"""What beginners get wrong, as texts: small kernels with a mistake, where its caret stands, what is said and what helps.

A file of `beginners/` has sections. `== name` begins one; then comes the program, in which « and » stand around what the
caret has to mark; `--` begins the message, `=>` what the remedy has to contain. A program without a kernel of its own is
the body of one with the arguments `ARGUMENTS`.
"""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px

FOLDER = Path(__file__).parent / "beginners"
FILES = sorted(FOLDER.glob("*.txt"))
HEAD = "@px.kernel\ndef k(X, Y, V, W, I, H, n):\n"
CALL = "\nk[1](X, Y, V, W, I, H, 5)\n"
OPEN, CLOSE = "«", "»"


@dataclass(frozen=True)
class Mistake:
    """One section: the program with its marks, the message, and what the remedy has to contain."""

    name: str
    marked: str
    message: str
    remedy: str

    @property
    def program(self) -> str:
        """What is run: the program without its marks."""
        return self.marked.replace(OPEN, "").replace(CLOSE, "")

    @property
    def place(self) -> tuple[int, int, int]:
        """The line of the marked part, and the columns at which it begins and ends."""
        (number, line), = ((n, line) for n, line in enumerate(self.marked.splitlines(), 1) if OPEN in line)
        return number, line.index(OPEN), line.index(CLOSE) - len(OPEN)


def mistakes(file: Path) -> list[Mistake]:
    """The sections of a file."""
    parts = re.split(r"^== (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [section(name, text) for name, text in zip(parts[::2], parts[1::2], strict=True)]


def section(name: str, text: str) -> Mistake:
    """A section's program, made whole, and what is asked of the error."""
    program, message, remedy = re.split(r"^(?:--|=>) ", text, flags=re.MULTILINE)
    return Mistake(name, whole(program.rstrip("\n")), message.strip(), remedy.strip())


def whole(program: str) -> str:
    """A body with its kernel around it; a program that has what it needs stays."""
    if re.search(r"@px\.|px\.(kernel|spec|compile|check)\(", program):
        return program + "\n"
    return HEAD + textwrap.indent(program, "    ") + CALL


def names() -> dict[str, Any]:
    """What programs find: the modules, and arrays of the shapes that beginners have."""
    return {
        "px": px, "np": np, "math": math, "__name__": "beginner",
        "X": np.ones((64, 64), np.float32), "Y": np.ones((64, 64), np.float32), "V": np.ones(256, np.float32),
        "W": np.ones(256, np.float32), "I": np.ones(256, np.int32), "H": np.ones((64, 64), ml_dtypes.bfloat16),
    }


def error_of(mistake: Mistake, folder: Path) -> px.Error:
    """The error that a program ends in, run from a file of its own."""
    file = folder / f"{mistake.name}.py"
    file.write_text(mistake.program, encoding="utf-8")
    try:
        exec(compile(mistake.program, str(file), "exec"), names())
    except px.Error as error:
        return error
    raise AssertionError(f"{mistake.name}: no error")
