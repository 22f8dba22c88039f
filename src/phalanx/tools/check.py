"""`phalanx check FILE[:KERNEL]`: runs the checks that a file declares with `@px.example`."""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

import phalanx
from phalanx.errors import Error
from phalanx.language.examples import Launch, is_example, launch_of
from phalanx.location import NOWHERE, Location
from phalanx.runtime.checking import DEFAULT_SCHEDULES, check_launch
from phalanx.sanitizer.report import Report
from phalanx.tools.output import CLEAN, FOUND, UNABLE, complain, say


def check(
    file: Annotated[str, typer.Argument(help="A file with @px.example functions; FILE:KERNEL checks one kernel.")],
    schedules: Annotated[int, typer.Option(help="How many orders of events are tried.", min=1)] = DEFAULT_SCHEDULES,
    seed: Annotated[int, typer.Option(help="The first seed of the random ones.")] = 0,
    arch: Annotated[
        str | None, typer.Option(help="The target whose version is checked (default: the first that has all of it).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as a JSON list.")] = False,
) -> None:
    """Checks the kernels of a file, as its @px.example functions launch them.

    Exits with 0 where nothing is found, 1 on findings, 2 where it can't check: the file is not there, does not compile,
    raises when it is imported or in an example, or exits; and where a kernel can't be read.
    """
    try:
        launches = declared(file)
        reports = run(launches, schedules, seed, arch, quiet=as_json)
        if as_json:
            say(json.dumps([json.loads(report.to_json()) for report in reports], indent=1))
        else:
            for report in reports:
                say(report)
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(CLEAN if all(report.ok for report in reports) else FOUND)


def declared(target: str) -> list[Launch]:
    """The launches that a file declares, of one kernel where the target names it."""
    file, kernel = parts_of(target)
    module = load(file)
    functions = [item for item in vars(module).values() if is_example(item) and item.__module__ == module.__name__]
    if not functions:
        raise Error(
            f"{file} declares no example", remedy="put @px.example on a function that returns kernel[grid], arguments"
        )
    launches = []
    for function in functions:
        with plainly(file, f"the example '{function.__name__}'"):
            launches.append(launch_of(function))
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
    with plainly(file, str(file)):
        spec.loader.exec_module(module)
    return module


@contextmanager
def plainly(file: Path, what: str) -> Iterator[None]:
    """What the user's code raises, as one message: where it happened, in the user's own frames."""
    try:
        yield
    except Error:
        raise
    except SyntaxError as problem:
        raise Error(
            f"{what} does not compile: {problem.msg}", location=place_of_syntax(problem),
            remedy="correct it: python would not run it either",
        ) from None
    except SystemExit as problem:
        frames = frames_of_user(problem)
        raise Error(
            f"{what} exits (code {problem.code}): nothing was checked", location=place_of_frame(frames),
            remedy='put what is to run as a script below if __name__ == "__main__":',
        ) from None
    except Exception as problem:
        frames = frames_of_user(problem)
        text = f": {problem}" if str(problem) else ""
        raise Error(
            f"{what} raises {type(problem).__name__}{text}".replace("\n", " "), location=place_of_frame(frames),
            details="".join(traceback.format_list(frames[:-1])).rstrip() or None,
            remedy="it has to run without errors before its kernels can be checked",
        ) from None


def frames_of_user(problem: BaseException) -> list[traceback.FrameSummary]:
    """The frames of a traceback, without those of this package and of Python's import system."""
    home = str(Path(phalanx.__file__).parent)
    frames = traceback.extract_tb(problem.__traceback__)
    return [f for f in frames if not f.filename.startswith(home) and not f.filename.startswith("<frozen importlib")]


def place_of_frame(frames: list[traceback.FrameSummary]) -> Location:
    """The innermost of the user's lines."""
    if not frames:
        return NOWHERE
    frame = frames[-1]
    text = linecache.getline(frame.filename, frame.lineno or 0)
    indent = len(text) - len(text.lstrip())
    return Location(frame.filename, frame.lineno or 0, indent, frame.lineno or 0, len(text.rstrip()), text, frame.name)


def place_of_syntax(problem: SyntaxError) -> Location:
    """Where Python found the mistake that keeps it from reading a file."""
    if problem.filename is None or problem.lineno is None:
        return NOWHERE
    start = max(0, (problem.offset or 1) - 1)
    stop = problem.end_offset - 1 if problem.end_offset and problem.end_lineno == problem.lineno else start + 1
    return Location(problem.filename, problem.lineno, start, problem.lineno, max(stop, start + 1), problem.text or "")


def run(launches: list[Launch], schedules: int, seed: int, arch: str | None, *, quiet: bool) -> list[Report]:
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

            report = check_launch(
                launch.bound, launch.args, launch.constants, schedules, seed=seed, progress=progress, arch=arch
            )
            reports.append(report)
            bar.update(task, completed=schedules)
    return reports
