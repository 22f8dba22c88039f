"""CUDA text apart: what a kernel says, and the device functions before it, which many kernels share.

Golden files hold each device function once (`helpers.cuh`) and, in a kernel's file, the names of those that it uses.
"""

from __future__ import annotations

import re

BEGIN, END = "namespace ptx {\n\n", "}  // namespace ptx\n"
_NAME = re.compile(r"^(?:struct|union|class)\s+(?:alignas\(\d+\)\s+)?(\w+)|\b(~?\w+)\(", re.MULTILINE)


def apart(source: str) -> tuple[str, dict[str, str]]:
    """The text with a list of names in place of its device functions, and the text of each of them."""
    before, found, rest = source.partition(BEGIN)
    if not found:
        return source, {}
    inside, found, after = rest.partition(END)
    assert found, "the namespace of device functions ends"
    helpers: dict[str, str] = {}
    for text in inside.strip("\n").split("\n\n"):
        name = name_of(text)
        while name in helpers:  # another form of the same name: of other types, or a specialisation
            name += "'"
        helpers[name] = text
    listed = "".join(f"//   {name}\n" for name in helpers)
    return f"{before}// device functions, as in helpers.cuh:\n{listed}{after}", helpers


def name_of(text: str) -> str:
    """What a piece of the prelude defines."""
    lines = [line for line in text.split("\n") if not line.startswith(("//", "template", "#"))]
    code = re.sub(r"__\w+__(\(\d+\))?", "", lines[0]) if lines else text
    found = _NAME.search(code)
    return next(filter(None, found.groups())) if found else code.strip()


def listed_in(kept: str) -> set[str]:
    """The names of device functions that a golden file lists."""
    return {line.removeprefix("//   ") for line in kept.splitlines() if line.startswith("//   ")}


def read_helpers(text: str) -> dict[str, str]:
    """The device functions of `helpers.cuh`, by name."""
    pieces = re.split(r"^// == (.+)\n", text, flags=re.MULTILINE)[1:]
    return {name: piece.strip("\n") for name, piece in zip(pieces[::2], pieces[1::2], strict=True)}


def written(helpers: dict[str, str]) -> str:
    """`helpers.cuh` with these device functions, in the order of their names."""
    head = "// Each device function of the golden kernels, once.\n"
    return head + "".join(f"\n// == {name}\n{helpers[name]}\n" for name in sorted(helpers))
