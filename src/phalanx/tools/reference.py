"""Writes `docs/reference.md` from the docstrings of the language and the instructions: `make golden`."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import phalanx.ir.ops
import phalanx.kernels
import phalanx.language.ops.fence
from phalanx.ir.core import INSTRUCTIONS
from phalanx.language.builtin import BUILTINS
from phalanx.language.objects import exposed_names
from phalanx.language.ops.mbarrier import BarrierValue
from phalanx.language.ops.tile import TileObject
from phalanx.language.values import ArrayObject, ViewValue

HEAD = """# Reference

Written by `make golden` from the docstrings; do not edit. First what kernels call; then what is called outside them, and
the library; last what the compiler makes of a kernel: one instruction a row, with the same family name in `ir/ops`,
`sim/ops` and `cuda/ops`.
"""
MEMBERS = (("Barriers", BarrierValue), ("Tiles", TileObject), ("Views", ViewValue), ("Arrays", ArrayObject))
"""What kernels write behind a dot, by the kind of value."""
OUTSIDE = ("kernel", "func", "struct", "auto", "compile", "spec", "packed", "device", "check", "explore", "example", "tune")


def signature(found: inspect.Signature, skipped: int = 0) -> str:
    """The signature as users call it, without annotations."""
    parameters = list(found.parameters.values())[skipped:]
    return str(inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters]))


def functions() -> list[str]:
    """What kernels call: the functions, and the members of barriers, tiles, views and arrays."""
    lines = ["## Functions", ""]
    for entry in sorted(BUILTINS, key=lambda b: (b.impl.__module__, b.name)):
        text = inspect.cleandoc(entry.__doc__ or "")
        lines += [f"### `px.{entry.name}{signature(entry.signature)}`", "", text, ""]
    for title, members in MEMBERS:
        lines += [f"### {title}", ""]
        for name in exposed_names(members):
            member = getattr(members, name)
            called = signature(inspect.signature(member), 2) if member.__exposed__ == "method" else ""
            lines.append(f"- `.{name}{called}`: {first_line(member)}")
        lines.append("")
    return lines


def outside() -> list[str]:
    """What is called outside kernels, and the functions of the library."""
    lines = ["## Outside kernels", ""]
    for prefix, names, home in (("px", OUTSIDE, phalanx), ("px.kernels", phalanx.kernels.__all__, phalanx.kernels)):
        if home is phalanx.kernels:
            lines += ["## The library", ""]
        for name in names:
            item = getattr(home, name)
            lines += [f"### `{prefix}.{name}{signature(inspect.signature(item))}`", "", inspect.getdoc(item) or "", ""]
    return lines


def first_line(item: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return inspect.cleandoc(item.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def instructions() -> list[str]:
    """The instructions of each family, as tables."""
    lines = ["## Instructions", ""]
    for family in sorted({cls.family for cls in INSTRUCTIONS}):
        lines += [f"### {family}", "", "| instruction | class | what it does |", "| --- | --- | --- |"]
        for cls in INSTRUCTIONS:
            if cls.family == family:
                lines.append(f"| `{cls.mnemonic}` | `{cls.__name__}` | {first_line(cls).replace('|', '&#124;')} |")
        lines.append("")
    return lines


def text() -> str:
    """The whole page."""
    return "\n".join([HEAD, *functions(), *outside(), *instructions()]).rstrip() + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference.md")
    target.write_text(text())
