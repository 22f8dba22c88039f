"""Device functions (and structs) of the generated text: the C++ of `cuda/device_functions`, and what emitters build.

Blank lines part the paragraphs of a `.cuh` file. Each is one piece of the generated text and goes by the name that it
defines first. Lines `// needs: a b` name the pieces that stand before it, lines that begin with `///` are for the reader of
the file; neither is written into a kernel's text.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from phalanx.frozen import frozen

_FOLDER = Path(__file__).parents[1] / "device_functions"
_NEEDS = "// needs: "
_DEFINED = re.compile(r"^struct\s+(?:alignas\(\d+\)\s+)?(\w+)|^[^/#\n].*?(\w+)\(", re.MULTILINE)


@frozen
class Helper:
    """A device function (or struct) of the generated text, written once before the kernel if anything uses it."""

    name: str
    text: str
    needs: tuple[Helper, ...] = ()


@cache
def helper(name: str) -> Helper:
    """The device function of that name in the files of `cuda/device_functions`."""
    text, needs = paragraphs()[name]
    return Helper(name, text, tuple(helper(needed) for needed in needs))


def find_helper(name: str) -> Helper | None:
    """The device function of that name, None where no file has it."""
    return helper(name) if name in paragraphs() else None


@cache
def paragraphs() -> dict[str, tuple[str, list[str]]]:
    """Text and needs of each piece, by its name."""
    read: dict[str, tuple[str, list[str]]] = {}
    for file in sorted(_FOLDER.glob("*.cuh")):
        for paragraph in file.read_text(encoding="utf-8").split("\n\n"):
            lines = paragraph.strip("\n").split("\n")
            needs = [name for line in lines if line.startswith(_NEEDS) for name in line.removeprefix(_NEEDS).split()]
            text = "\n".join(line for line in lines if not line.startswith((_NEEDS, "///")))
            if not text:
                continue
            defined = _DEFINED.search(text)
            assert defined is not None, f"{file.name}: a paragraph that defines nothing: {text}"
            name = defined[1] or defined[2]
            assert name not in read, f"{file.name}: {name} is defined twice"
            read[name] = text, needs
    return read
