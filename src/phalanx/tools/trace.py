"""`phalanx trace FILE[:KERNEL]`: when the kernels of a file do what, on the model of a card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx.errors import Error
from phalanx.tools.output import CLEAN, UNABLE, complain, say
from phalanx.tools.user_files import declared

if TYPE_CHECKING:
    from phalanx.runtime.timeline.trace import Trace


def trace(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL traces one.")],
    to: Annotated[Path, typer.Option(help="The folder of the pages.")] = Path(),
    arch: Annotated[
        str | None, typer.Option(help="The target whose version is modelled (default: the first that has all of it).")
    ] = None,
    perfetto: Annotated[bool, typer.Option("--perfetto", help="Also write NAME.json, which Perfetto opens.")] = False,
) -> None:
    """Models when the kernels of a file do what, as its @px.example functions or the file itself launch them.

    Prints for each kernel how long it takes, what limits it and its longest waits, and writes NAME.html: rows for roles and
    engines, arrows from releases to waits, the kernel's text with its times. Times are a model's. No GPU is needed. Exits
    with 0, or with 2 where it can't be done.
    """
    from phalanx.runtime.timeline.tracing import trace as traced

    try:
        to.mkdir(parents=True, exist_ok=True)
        seen: set[str] = set()
        for launch in declared(file):
            if launch.name in seen:
                continue
            seen.add(launch.name)
            made = traced(launch.bound, *launch.args, arch=arch, **launch.constants)
            summary(made)
            for ending in (".html", ".json") if perfetto else (".html",):
                made.save(to / f"{launch.name}{ending}")
                say(str(to / f"{launch.name}{ending}"))
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(CLEAN)


def summary(made: Trace) -> None:
    """A few lines and a table of the longest waits."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    head, bound, *_ = str(made).splitlines()
    console.print(head, highlight=False, markup=False)
    console.print(bound, highlight=False, markup=False)
    table = Table("who waits", "at", "for", "of", "times", "cycles")
    for stall in made.stalls()[:8]:
        table.add_row(stall.who, stall.line, stall.waited_for, stall.at, f"{stall.count:,}", f"{stall.cycles:,.0f}")
    if table.row_count:
        console.print(table)
