"""The launches of a user's file: those of its `@px.example` functions, else those that it makes when it is imported."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import phalanx
from phalanx.errors import Error
from phalanx.language.examples import Launch, is_example, launch_of
from phalanx.location import NOWHERE, Location
from phalanx.runtime.device.outlines import listening_to_launches
from phalanx.runtime.launch.options import split_target
from phalanx.runtime.launch.specialise import Argument, Spec, read_arguments
from phalanx.sanitizer.runs import copies_of


def declared(target: str) -> list[Launch]:
    """The launches of a file, of one kernel where the target names it.

    Its `@px.example` functions say them. A file without such a function is example enough where it launches, checks or
    compiles kernels while it is imported: those calls are taken, with copies of what NumPy arrays held before them.
    """
    file, kernel = parts_of(target)
    made = Overheard()
    with listening_to_launches(made.hear):
        module = load(file)
    functions = [item for item in vars(module).values() if is_example(item) and item.__module__ == module.__name__]
    launches = []
    for function in functions:
        with plainly(file, f"the example '{function.__name__}'"), redirect_stdout(sys.stderr):
            launches.append(launch_of(function))
    launches = launches or made.launches()
    if not launches:
        raise Error(
            f"{file} declares no example and launches no kernel when it is imported",
            remedy="put @px.example on a function that returns kernel[grid], arguments; or launch a kernel at the top level",
        )
    if kernel is None:
        return launches
    chosen = [launch for launch in launches if launch.name == kernel]
    if not chosen:
        names = ", ".join(sorted({launch.name for launch in launches}))
        raise Error(f"{file} has no example of a kernel named {kernel!r}", remedy=f"its examples launch {names}")
    return chosen


class Overheard:
    """The launches that a file makes while it is imported: of several that differ in values alone, the first."""

    def __init__(self) -> None:
        self.found: dict[Any, tuple[Launch, bool]] = {}

    def hear(self, bound: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """Takes up one of them, unless it is the library's or will end with an error at once."""
        kernel = bound.kernel
        if (kernel.fn.__module__ or "").partition(".")[0] == "phalanx":
            return
        try:
            constants, _, _ = split_target(kernel, given)
            arguments = read_arguments(kernel, args)
        except Error:
            return  # the launch itself is about to say it
        key = (kernel.fn, repr(bound.grid), repr(sorted(constants.items())), *map(outline, arguments))
        if key not in self.found:
            described = any(isinstance(arg, Spec) for arg in args)
            self.found[key] = Launch(bound, tuple(copies_of(list(args))), constants), described

    def launches(self) -> list[Launch]:
        """All launches with data, and launches of px.spec for kernels that were given no data at all."""
        with_data = {launch.bound.kernel.fn for launch, described in self.found.values() if not described}
        return [
            launch for launch, described in self.found.values()
            if not described or launch.bound.kernel.fn not in with_data
        ]  # fmt: skip


def outline(argument: Argument) -> Any:
    """What tells two launches apart, of one argument: its type, and for an array the shape and strides."""
    if argument.info is not None:
        return str(argument.type), tuple(argument.info.shape), tuple(argument.info.strides)
    return repr(argument.value) if isinstance(argument.value, Spec) else str(argument.type)


def parts_of(target: str) -> tuple[Path, str | None]:
    """FILE and KERNEL. A file may have a colon in its name; a kernel may not."""
    if Path(target).is_file():
        return Path(target), None
    file, colon, kernel = target.rpartition(":")
    if colon and Path(file).is_file():
        return Path(file), kernel
    raise Error(f"there is no file {(file if colon else target)!r}", remedy="name a Python file, or FILE:KERNEL")


def load(file: Path) -> ModuleType:
    """The file as a module. What it prints goes to the standard error: the output is the command's.

    Its folder comes last on the path: a file beside it that has the name of an installed package takes nobody's place.
    """
    path = file.resolve()
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    name = f"phalanx_check_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Error(f"{file} is no Python file", remedy="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with plainly(file, str(file)), redirect_stdout(sys.stderr):
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
    """The line where Python found the mistake that keeps it from reading a file."""
    if problem.filename is None or problem.lineno is None:
        return NOWHERE
    start = max(0, (problem.offset or 1) - 1)
    stop = problem.end_offset - 1 if problem.end_offset and problem.end_lineno == problem.lineno else start + 1
    return Location(problem.filename, problem.lineno, start, problem.lineno, max(stop, start + 1), problem.text or "")
