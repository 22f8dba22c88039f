"""`phalanx explain FILE[:KERNEL]`: what the compiler chose for a kernel, beside the lines that it chose it for."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from phalanx.errors import Error
from phalanx.ir.core import Note
from phalanx.language.examples import Launch
from phalanx.location import NOWHERE
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.compiled import planned
from phalanx.runtime.launch.dispatch import debugging, function_for
from phalanx.runtime.launch.options import named_arch
from phalanx.runtime.launch.specialise import read_arguments, specialise
from phalanx.tools.output import CLEAN, UNABLE, complain, say
from phalanx.tools.user_files import declared

WIDTH = 116
"""Columns of a note, from its mark on."""


def explain(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL explains one.")],
    arch: Annotated[
        str | None, typer.Option(help="The target (default: the first of sm_90a, sm_100a, sm_120a that has all of it).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the notes as a JSON list.")] = False,
) -> None:
    """Shows what the compiler chose for the kernels of a file, as its @px.example functions or the file itself launch them.

    Loads that run ahead and how they come, those that do not and why, which instruction a product became, layouts,
    copies: each note stands below the line that it is about. The kernels are planned, not compiled: neither a GPU nor
    NVRTC is needed. Exits with 0, or with 2 where it can't be done: the file is not there, does not compile, raises or
    exits, or a kernel is refused.
    """
    try:
        found = [explanation_of(launch, arch) for launch in declared(file)]
        if as_json:
            say(json.dumps([item.as_dict() for item in found], indent=1))
        else:
            for item in dict.fromkeys(found):  # two examples may be alike to the compiler
                say(item.text())
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(CLEAN)


@dataclass(frozen=True)
class Explanation:
    """A kernel that was planned for a target: its lines, from `first` on, and the notes on them."""

    kernel: str
    arch: str
    warps: int
    shared_bytes: int
    file: str
    first: int
    lines: tuple[str, ...]
    notes: tuple[Note, ...]

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        notes = [{"file": n.loc.file, "line": n.loc.line, "message": n.message} for n in self.notes]
        return {
            "kernel": self.kernel, "arch": self.arch, "warps": self.warps, "shared_bytes": self.shared_bytes, "notes": notes,
        }  # fmt: skip

    def text(self) -> Any:
        """The lines with the notes below them, and then what belongs to no line of the kernel."""
        from rich.text import Text

        out = Text()
        warps = f"{self.warps} warp{'s' * (self.warps != 1)}"
        out.append(f"{self.kernel} for {self.arch}: {warps}, {self.shared_bytes:,} bytes of shared memory\n", style="bold")
        width = len(str(self.first + len(self.lines)))
        told: set[int] = set()
        for number, line in enumerate(self.lines, self.first):
            out.append(f"{number:{width}} | ", style="dim")
            out.append(f"{line}\n")
            indent = len(line) - len(line.lstrip())
            for place, note in enumerate(self.notes):
                if note.loc.file == self.file and note.loc.line == number:
                    told.add(place)
                    self._append(out, " " * width + " | ", " " * indent, note.message)
        for place, note in enumerate(self.notes):
            if place not in told:
                self._append(out, " " * width, " ", str(note))
        out.rstrip()
        out.append("\n")
        return out

    @staticmethod
    def _append(out: Any, margin: str, indent: str, message: str) -> None:
        for n, part in enumerate(textwrap.wrap(message, max(40, WIDTH - len(indent)))):
            out.append(margin, style="dim")
            out.append(f"{indent}{'= ' if n == 0 else '  '}{part}\n", style="cyan")


def explanation_of(launch: Launch, arch: str | None) -> Explanation:
    """What the compiler chose for a launch."""
    kernel = launch.bound.kernel
    with debugging(kernel):
        arguments = read_arguments(kernel, launch.args)
        constants = kernel.bind_constants(launch.constants)
        choice = choice_of(kernel, launch.bound.grid, arguments, constants, named_arch(arch))
        specialisation = specialise(kernel, arguments, choice.constants)
        target = named_arch(arch) or specialisation.default_arch
        function = function_for(specialisation, target)
        plan = planned(function, target)
    source = kernel.source
    chosen = () if choice.note is None else (choice.note,)
    notes = tuple(dict.fromkeys(note for note in (*chosen, *plan.notes) if note.message))
    notes = tuple(sorted(notes, key=lambda note: (note.loc is NOWHERE, note.loc.file != source.file, note.loc.line)))
    return Explanation(
        kernel.name, target.name, function.warps, plan.shared_bytes, source.file, source.first_line,
        tuple(line.rstrip() for line in source.lines), notes,
    )
