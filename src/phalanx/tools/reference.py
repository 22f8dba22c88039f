"""Writes `docs/reference.md` and the pages under `docs/reference/` from the docstrings: `make golden`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import phalanx.ir.ops
import phalanx.kernels
import phalanx.language.ops.fence
from phalanx.ir.core import INSTRUCTIONS
from phalanx.language.builtin import BUILTINS
from phalanx.language.objects import exposed_names
from phalanx.language.ops.mbarrier import BarrierValue
from phalanx.language.ops.tile import TileObject
from phalanx.language.values import ArrayObject, ViewValue
from phalanx.tools.torch_reference import described

WRITTEN = "<!-- Written by `make golden` from the docstrings; do not edit. -->"
HEAD = f"""# Reference

{WRITTEN}

First what kernels call; then what is called outside them, the library, also as operators of torch, and the commands; last
what the compiler makes of a kernel, one instruction a row.
"""
MEMBERS = (("Barriers", BarrierValue), ("Tiles", TileObject), ("Views", ViewValue), ("Arrays", ArrayObject))
"""What kernels write behind a dot, by the kind of value."""
VARIABLES = {"Barriers": "bar", "Tiles": "x", "Views": "view", "Arrays": "X"}
"""What a value of each kind is called in the headings of its members."""
OUTSIDE = (
    "kernel", "func", "struct", "auto", "choose", "compile", "spec", "packed", "device", "check", "debug", "explore",
    "trace", "example", "tune", "autotune", "bench", "export",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A page of functions that kernels call: those of some modules of `language/ops`, and members of values."""

    name: str
    title: str
    about: str
    modules: tuple[str, ...]
    members: tuple[str, ...] = ()


FAMILIES = (
    Family("control", "Grid, roles and loops", "Where a CTA is, which warps do what, and loops.",
           ("control", "printing", "persistent", "pipelined", "ptx")),
    Family("memory", "Memory", "Shared memory, loads and stores, atomics, fences, copies that threads begin.",
           ("memory", "cp_async"), ("Views", "Arrays")),
    Family("tma", "The copy engine", "Tiles and rows by index, copied while the kernel goes on.", ("tma", "gather")),
    Family("barriers", "Barriers, rings and pipes", "What agents tell each other.",
           ("mbarrier", "ring", "pipes"), ("Barriers",)),
    Family("clusters", "Clusters", "CTAs that reach into each other's memory.", ("cluster", "collectives", "clc")),
    Family("products", "Products", "Tensor cores, and the tensor memory of Blackwell.", ("mma", "wgmma", "tcgen05", "tmem")),
    Family("tiles", "Tiles", "Values in registers: making them, arithmetic, along an axis.",
           ("tile", "tile_parts", "folds", "topk"), ("Tiles",)),
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One heading of the reference: what is called, as users write it, and its text."""

    call: str
    text: str


@dataclass(frozen=True)
class Section:
    """A page under `docs/reference/`, or a part of one."""

    name: str
    title: str
    about: str
    entries: list[Entry] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    """What it has instead of entries."""

    def lines(self) -> list[str]:
        """The page, after its title."""
        texts = [[f"## `{entry.call}`", "", re.sub(r"::$", ":", entry.text, flags=re.M), ""] for entry in self.entries]
        return [WRITTEN, "", self.about, "", *(line for text in texts for line in text), *self.body]


def signature(found: inspect.Signature, skipped: int = 0) -> str:
    """The signature as users call it, without annotations."""
    parameters = list(found.parameters.values())[skipped:]
    return str(inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters]))


def functions() -> Iterator[Section]:
    """What kernels call: the functions by family, with the members of barriers, tiles, views and arrays."""
    rest = {entry.impl.__module__ for entry in BUILTINS}
    for family in FAMILIES:
        modules = {f"phalanx.language.ops.{name}" for name in family.modules}
        entries = [*written_in(modules), *(entry for kind in family.members for entry in members(kind))]
        rest -= modules
        yield Section(family.name, family.title, family.about, entries)
    for module in sorted(rest):  # a family that is listed nowhere has a page of its own
        name, about = module.rsplit(".", 1)[-1], inspect.cleandoc(sys.modules[module].__doc__ or "").split("\n\n")[0]
        yield Section(name, f"The family `{name}`", " ".join(about.split()), list(written_in({module})))


def written_in(modules: set[str]) -> Iterator[Entry]:
    """The functions that these modules declare."""
    found = (b for b in BUILTINS if b.impl.__module__ in modules)
    for entry in sorted(found, key=lambda b: (b.impl.__module__, b.name)):
        yield Entry(f"px.{entry.name}{signature(entry.signature)}", inspect.cleandoc(entry.__doc__ or ""))


def members(kind: str) -> list[Entry]:
    """What is written behind the dot of a value."""
    found, entries = dict(MEMBERS)[kind], []
    for name in exposed_names(found):
        member = getattr(found, name)
        called = signature(inspect.signature(member), 2) if member.__exposed__ == "method" else ""
        entries.append(Entry(f"{VARIABLES[kind]}.{name}{called}", inspect.cleandoc(member.__doc__ or "")))
    return entries


def outside() -> Iterator[Section]:
    """What is called outside kernels, the functions of the library, and those of torch's operators."""
    groups: tuple[tuple[str, str, str, str, tuple[str, ...], Any], ...] = (
        ("outside", "Outside kernels", "Declaring, compiling, checking, tuning, exporting.", "px", OUTSIDE, phalanx),
        ("library", "The library", "`px.kernels`: whole kernels behind functions, on torch, CuPy and NumPy arrays.",
         "px.kernels", tuple(phalanx.kernels.__all__), phalanx.kernels),
    )  # fmt: skip
    for page, title, about, prefix, names, home in groups:
        items = [(name, getattr(home, name)) for name in names]
        entries = [
            Entry(f"{prefix}.{name}{signature(inspect.signature(item))}", inspect.getdoc(item) or "") for name, item in items
        ]
        yield Section(page, title, about, entries)
    about = "`px.torch`: the library as operators of torch with gradients, operators of your own, and modules."
    yield Section("torch", "In torch", about, [Entry(each.call, each.text) for each in described()])


def commands() -> Section:
    """The command `phalanx`, from what its parser knows."""
    from typer.main import get_command

    from phalanx.tools.cli import app
    from phalanx.tools.output import CODES

    entries = []
    for name, command in sorted(leaves("phalanx", get_command(app))):
        text = [inspect.cleandoc(command.help or "").replace("\f", ""), ""]
        rows = [option_row(parameter) for parameter in command.params]
        text += ["| | |", "| --- | --- |", *rows] if rows else []
        entries.append(Entry(name, "\n".join(text).rstrip()))
    return Section("commands", "Commands", f"The command `phalanx`. {CODES}", entries)


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group and of the groups in it, by all that is typed for them."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for part, inner in command.commands.items():
        yield from leaves(f"{name} {part}", inner)


def option_row(parameter: Any) -> str:
    """One argument or option of a command as a row of a table."""
    is_option = parameter.param_type_name == "option"
    names = ", ".join(parameter.opts) if is_option else (parameter.metavar or parameter.name).upper()
    takes = "" if not is_option or getattr(parameter, "is_flag", False) else f" {parameter.name.upper()}"
    default = parameter.default
    told = f" (default: `{default}`)" if isinstance(default, str | int | float) and not isinstance(default, bool) else ""
    return f"| `{names}{takes}` | {(parameter.help or '').strip().replace('|', '&#124;')}{told} |"


def first_line(item: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return paragraph(item.__doc__ or "")


def paragraph(text: str) -> str:
    """The first paragraph of a text, on one line."""
    return inspect.cleandoc(text).split("\n\n")[0].replace("\n", " ")


def instructions() -> Section:
    """The instructions of each family, as tables."""
    lines: list[str] = []
    for family in sorted({cls.family for cls in INSTRUCTIONS}):
        lines += [f"## {family}", "", "| instruction | class | what it does |", "| --- | --- | --- |"]
        for cls in INSTRUCTIONS:
            if cls.family == family:
                lines.append(f"| `{cls.mnemonic}` | `{cls.__name__}` | {first_line(cls).replace('|', '&#124;')} |")
        lines.append("")
    about = "What the compiler makes of a kernel, with the same family name in `ir/ops`, `sim/ops` and `cuda/ops`."
    return Section("instructions", "Instructions", about, body=lines)


def sections() -> list[Section]:
    """All pages, in their order."""
    return [*functions(), *outside(), commands(), instructions()]


def pages() -> dict[str, str]:
    """The text of every page, by its path under `docs/`."""
    found = sections()
    index = [HEAD]
    for section in found:
        index += [f"## {section.title}", "", f"- [{section.title}](reference/{section.name}.md): {section.about}", ""]
        if section.entries:
            index += ["| | |", "| --- | --- |", *(index_row(section, entry) for entry in section.entries), ""]
    result = {"reference.md": "\n".join(index).rstrip() + "\n"}
    for section in found:
        text = "\n".join([f"# {section.title}", "", *section.lines()])
        result[f"reference/{section.name}.md"] = text.rstrip() + "\n"
    return result


def index_row(section: Section, entry: Entry) -> str:
    """What is called, with a link to its page, and its first line."""
    name = entry.call.split("(")[0]
    return f"| [`{name}`](reference/{section.name}.md#{slug(entry.call)}) | {paragraph(entry.text).replace('|', '&#124;')} |"


def slug(title: str) -> str:
    """The anchor of a heading, as Markdown's readers make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def write(folder: Path) -> None:
    """Writes all pages below a folder."""
    for name, text in pages().items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
