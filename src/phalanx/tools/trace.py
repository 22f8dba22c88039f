"""`phalanx trace FILE[:KERNEL]`: when the kernels of a file do what, on the model of a card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx.errors import Error
from phalanx.tools.output import CLEAN, UNABLE, complain, say
from phalanx.tools.user_files import declared

if TYPE_CHECKING:
    from phalanx.runtime.timeline.trace import Comparison, Trace


def trace(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL traces one.")],
    to: Annotated[Path, typer.Option(help="The folder of the pages.")] = Path(),
    arch: Annotated[
        str | None, typer.Option(help="The target whose version is modelled (default: the first that has all of it).")
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Launch on the GPU, too: the page has both timelines.")] = False,
    perfetto: Annotated[bool, typer.Option("--perfetto", help="Also write NAME.json, which Perfetto opens.")] = False,
) -> None:
    """Models when the kernels of a file do what, as its @px.example functions or the file itself launch them.

    Prints for each kernel how long it takes, what limits it and its longest waits, and writes NAME.html: rows for roles and
    engines, arrows from releases to waits, the kernel's text with its times. Times are a model's, and no GPU is needed.
    With --gpu each is launched on the GPU as well, on copies of its arrays, and NAME.html lays the real timeline beside the
    model's. Exits with 0, or with 2 where it can't be done.
    """
    from phalanx.runtime.timeline.tracing import trace as traced

    try:
        to.mkdir(parents=True, exist_ok=True)
        seen: set[str] = set()
        for launch in declared(file):
            if launch.name in seen:
                continue
            seen.add(launch.name)
            real = None
            if gpu:
                real = traced(launch.bound, *copied_to_gpu(launch.args), arch=arch, **launch.constants)
            made = traced(launch.bound, *launch.args, arch=arch, **launch.constants)
            summary(made)
            if real is not None:
                summary(real)
                say(str(made.compare(real)))
            written: list[tuple[str, Trace | Comparison]] = [(".html", made if real is None else made.compare(real))]
            written += [(".json", made if real is None else real)] * perfetto
            for ending, what in written:
                what.save(to / f"{launch.name}{ending}")
                say(str(to / f"{launch.name}{ending}"))
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(CLEAN)


def copied_to_gpu(args: Sequence[Any]) -> list[Any]:
    """Arguments with copies on the GPU in the place of arrays."""
    from phalanx.runtime.device.driver import has_gpu
    from phalanx.runtime.shaking import on_device

    if not has_gpu():
        raise Error(
            "phalanx trace --gpu launches kernels on a GPU, and there is none", remedy="without --gpu a model says when"
        )
    return [on_device(value) for value in args]


def summary(made: Trace) -> None:
    """A few lines and a table of the longest waits."""
    from rich.console import Console
    from rich.table import Table

    from phalanx.runtime.timeline.trace import by_array

    console = Console()
    for line in str(made).splitlines():
        if not line.startswith("  "):
            console.print(line, highlight=False, markup=False)
    table = Table("who waits", "at", "for", "of", "times", "cycles")
    for stall in by_array(made.stalls())[:8]:
        table.add_row(stall.who, stall.line, stall.waited_for, stall.at, f"{stall.count:,}", f"{stall.cycles:,.0f}")
    if table.row_count:
        console.print(table)
