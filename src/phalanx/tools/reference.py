"""Writes `docs/reference.md` from the docstrings of the language and the instructions: `make golden`."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import phalanx.ir.ops
import phalanx.language.fence  # noqa: F401
from phalanx.ir.core import INSTRUCTIONS
from phalanx.language.builtin import BUILTINS, Builtin
from phalanx.language.mbarrier import BarrierMembers
from phalanx.language.values import exposed_names

HEAD = """# Reference

Written by `make golden` from the docstrings; do not edit. The first part is what kernels call, the second what the
compiler makes of it: one instruction a row, with the same family name in `ir/ops`, `sim/ops` and `cuda/ops`.
"""


def signature(entry: Builtin) -> str:
    """The signature as users call it, without annotations."""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in entry.signature.parameters.values()]
    return str(inspect.Signature(parameters))


def functions() -> list[str]:
    lines = ["## Functions", ""]
    for entry in sorted(BUILTINS, key=lambda b: (b.impl.__module__, b.name)):
        text = inspect.cleandoc(entry.__doc__ or "")
        lines += [f"### `px.{entry.name}{signature(entry)}`", "", text, ""]
    lines += ["### Barriers", ""]
    for name in exposed_names(BarrierMembers):
        member = getattr(BarrierMembers, name)
        parameters = list(inspect.signature(member).parameters.values())[2:]
        plain = inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])
        lines.append(f"- `.{name}{plain}`: {first_line(member)}")
    return [*lines, ""]


def first_line(item: object) -> str:
    return inspect.cleandoc(item.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def instructions() -> list[str]:
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
    return "\n".join([HEAD, *functions(), *instructions()]).rstrip() + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference.md")
    target.write_text(text())
