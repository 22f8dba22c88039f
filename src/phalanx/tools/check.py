"""`phalanx check FILE[:KERNEL]`: runs the checks that a file declares with `@px.example`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from phalanx.errors import Error
from phalanx.language.examples import Launch, is_example, launch_of
from phalanx.runtime.checking import DEFAULT_SCHEDULES, check_launch
from phalanx.sanitizer.report import Report


def check(
    file: Annotated[str, typer.Argument(help="A file with @px.example functions; FILE:KERNEL checks one kernel.")],
    schedules: Annotated[int, typer.Option(help="How many orders of events are tried.", min=1)] = DEFAULT_SCHEDULES,
    seed: Annotated[int, typer.Option(help="The first seed of the random ones.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as a JSON list.")] = False,
) -> None:
    """Checks the kernels of a file, as its @px.example functions launch them. Exits with 1 on findings, 2 on errors."""
    from rich.console import Console

    complain = Console(stderr=True)
    try:
        launches = declared(file)
        reports = run(launches, schedules, seed, quiet=as_json)
    except Error as error:
        complain.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps([json.loads(report.to_json()) for report in reports], indent=1))
    else:
        out = Console(soft_wrap=True)
        for report in reports:
            out.print(report)
    raise typer.Exit(0 if all(report.ok for report in reports) else 1)


def declared(target: str) -> list[Launch]:
    """The launches that a file declares, of one kernel where the target names it."""
    file, kernel = parts_of(target)
    module = load(file)
    functions = [item for item in vars(module).values() if is_example(item) and item.__module__ == module.__name__]
    if not functions:
        raise Error(
            f"{file} declares no example", remedy="put @px.example on a function that returns kernel[grid], arguments"
        )
    launches = [launch_of(function) for function in functions]
    if kernel is None:
        return launches
    chosen = [launch for launch in launches if launch.name == kernel]
    if not chosen:
        names = ", ".join(sorted({launch.name for launch in launches}))
        raise Error(f"{file} has no example of a kernel named {kernel!r}", remedy=f"its examples launch {names}")
    return chosen


def parts_of(target: str) -> tuple[Path, str | None]:
    """FILE and KERNEL. A file may have a colon in its name; a kernel may not."""
    if Path(target).is_file():
        return Path(target), None
    file, colon, kernel = target.rpartition(":")
    if colon and Path(file).is_file():
        return Path(file), kernel
    raise Error(f"there is no file {(file if colon else target)!r}", remedy="name a Python file, or FILE:KERNEL")


def load(file: Path) -> ModuleType:
    """The file as a module; its folder comes first on the path, as when Python runs it."""
    path = file.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = f"phalanx_check_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Error(f"{file} is no Python file", remedy="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(launches: list[Launch], schedules: int, seed: int, *, quiet: bool) -> list[Report]:
    """The report of each launch, with a progress bar where a person looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet or not sys.stderr.isatty())
    reports = []
    with bar:
        for launch in launches:
            task = bar.add_task(launch.name, total=schedules)

            def progress(done: int, task: Any = task) -> None:
                bar.update(task, completed=done)

            report = check_launch(launch.bound, launch.args, launch.constants, schedules, seed=seed, progress=progress)
            reports.append(report)
            bar.update(task, completed=schedules)
    return reports
