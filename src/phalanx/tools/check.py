"""`phalanx check FILE[:KERNEL]`: runs the checks on the launches of a file."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from phalanx.errors import Error
from phalanx.language.examples import Launch
from phalanx.runtime.checking import DEFAULT_SCHEDULES, check_choices, check_launch
from phalanx.sanitizer.report import Report
from phalanx.tools.output import CLEAN, FOUND, UNABLE, complain, say
from phalanx.tools.user_files import declared


def check(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL checks one.")],
    schedules: Annotated[int, typer.Option(help="How many orders of events are tried.", min=1)] = DEFAULT_SCHEDULES,
    seed: Annotated[int, typer.Option(help="The first seed of the random ones.")] = 0,
    arch: Annotated[
        str | None, typer.Option(help="The target whose version is checked (default: the first that has all of it).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as a JSON list.")] = False,
    all_choices: Annotated[bool, typer.Option(help="Check every combination of constants that are px.choose.")] = False,
    bounds: Annotated[bool, typer.Option("--bounds", help="Also find regions that reach outside a global array.")] = False,
) -> None:
    """Checks the kernels of a file, as its @px.example functions launch them, or the file itself when it is imported.

    Exits with 0 where nothing is found, 1 on findings, 2 where it can't check: the file is not there, does not compile,
    raises when it is imported or in an example, or exits; and where a kernel can't be read.
    """
    try:
        launches = declared(file)
        reports = run(
            launches, schedules, seed, arch, quiet=as_json, all_choices=all_choices, bounds="report" if bounds else None
        )
        if as_json:
            say(json.dumps([json.loads(report.to_json()) for report in reports], indent=1))
        else:
            for report in reports:
                say(report)
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(CLEAN if all(report.ok for report in reports) else FOUND)


def run(
    launches: list[Launch], schedules: int, seed: int, arch: str | None, *, quiet: bool, all_choices: bool = False,
    bounds: str | None = None,
) -> list[Report]:
    """The report of each launch, with a progress bar where a person looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet or not sys.stderr.isatty())
    reports = []
    os.environ.setdefault("PHALANX_PROGRESS", "0")  # the bar says how far it is
    with bar:
        for launch in launches:
            task = bar.add_task(launch.name, total=schedules)

            def progress(done: int, task: Any = task) -> None:
                bar.update(task, completed=done)

            report = (check_choices if all_choices else check_launch)(
                launch.bound, launch.args, launch.constants, schedules, seed=seed, progress=progress, arch=arch,
                bounds=bounds,
            )
            reports.append(report)
            bar.update(task, completed=schedules)
    return reports
