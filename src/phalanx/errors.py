"""What a user sees when something is wrong: one exception type with a place, a caret, a call chain and a remedy."""

from __future__ import annotations

import linecache
import os
import sys
import unicodedata
from collections.abc import Container, Sequence
from typing import NoReturn

from phalanx.location import NOWHERE, Location

DISTRIBUTION = "phalanx-gpu"
"""What pip calls this package; Python imports it as `phalanx`."""


def pip_install(*requirements: str) -> str:
    """The command that installs packages, quoted so that every shell passes it on as it is."""
    return " ".join(["pip install", *(f'"{item}"' for item in requirements)])


def extra_of_ours(extra: str) -> str:
    """One of this package's extras, as `pip_install` takes it."""
    return f"{DISTRIBUTION}[{extra}]"


class Error(Exception):
    """A mistake in a kernel, its launch, or its run.

    Anyone may catch it: ``location`` is the user's place (``.file``, ``.line``, ``.column``), ``remedy`` says what
    would fix it, ``kind`` names the class of mistake ("error" unless a check has its own name).

    Example::

        try:
            kernel[grid](x, y)
        except px.Error as error:
            print(error.location.line, error.remedy)
    """

    def __init__(
        self,
        message: str,
        *,
        location: Location = NOWHERE,
        remedy: str | None = None,
        kind: str = "error",
        details: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.remedy = remedy
        self.kind = kind
        self.details = details

    other: Location | None = None
    """The place that this one conflicts with, where a check knows it."""
    call: Location = NOWHERE
    """The line that launched, checked or compiled a kernel, where the error is about the kernel as a whole."""

    def __str__(self) -> str:
        return render(self)

    def at(self, location: Location) -> Error:
        """This error, placed at `location` if it has no place yet."""
        if self.location is NOWHERE:
            self.location = location
        return self


def columns_text(rows: Sequence[Sequence[str]], numbers: Container[int] = ()) -> str:
    """Rows of texts as lines with aligned columns, for the details of an error; `numbers` are columns that end together."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def internal_error(problem: BaseException, location: Location) -> Error:
    """What the user sees of a failure inside the compiler: never its traceback, but how to get it."""
    return Error(
        f"internal: {type(problem).__name__}: {problem}",
        location=location,
        remedy="this is a bug of phalanx: please report it with the kernel; PHALANX_DEBUG=1 shows the traceback",
    )


def internal(message: str, location: Location) -> NoReturn:
    """A mistake of the compiler itself, found by one of its own checks."""
    raise Error(
        f"internal: {message}",
        location=location,
        remedy="this is a bug in phalanx, not in the kernel: please report it with the kernel's source",
    )


def wants_traceback() -> bool:
    """Whether the compiler's own frames are to be shown (PHALANX_DEBUG=1)."""
    return os.environ.get("PHALANX_DEBUG", "0") not in ("", "0")


def caller_location() -> Location:
    """The line of the user's code that called into the package: the place of mistakes made outside kernels.

    torch's own frames are passed over: its dispatcher stands between a caller and an operator.
    """
    homes = [os.path.dirname(os.path.abspath(__file__)) + os.sep]
    torch = sys.modules.get("torch")
    if getattr(torch, "__file__", None):
        homes.append(os.path.dirname(os.path.abspath(torch.__file__)) + os.sep)  # type: ignore[union-attr,type-var,arg-type]
    frame = sys._getframe(1)
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(tuple(homes)):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return NOWHERE
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line)
    indent = len(text) - len(text.lstrip())
    return Location(file, line, indent, line, len(text.rstrip()), text, frame.f_code.co_name)


def excerpt(location: Location) -> list[str]:
    """The source line of `location` with a caret under the offending part."""
    number = str(location.line)
    pad = " " * len(number)
    text = location.text.rstrip("\r\n")
    start = location.column
    stop = location.end_column if location.end_line == location.line else len(text.rstrip())
    before, marked = _expanded(text[:start]), _expanded(text[: max(start, stop)])
    carets = max(1, _width(marked) - _width(before))
    return [
        f"{pad} --> {display_path(location.file)}:{location.line}:{location.column + 1}",
        f"{pad} |",
        f"{number} | {_expanded(text)}".rstrip(),
        f"{pad} | {' ' * _width(before)}{'^' * carets}",
    ]


def _expanded(text: str) -> str:
    return text.expandtabs(4)


def _width(text: str) -> int:
    """Columns that a terminal needs for `text`: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def display_path(path: str) -> str:
    """`path` relative to the working directory when it lies below it."""
    try:
        relative = os.path.relpath(path)
    except (ValueError, OSError):  # another drive, or a working directory that is gone
        return path
    return path if relative.startswith("..") else relative


def render(error: Error) -> str:
    """The whole text of an error: message, excerpt, call chain, details, remedy."""
    lines = [error.message if error.kind == "error" else f"{error.kind}: {error.message}"]
    if error.location is not NOWHERE:
        lines += excerpt(error.location)
        caller = error.location.caller
        while caller is not None:
            lines.append(f"  = called at {display_path(caller.file)}:{caller.line}: {caller.text.strip()}")
            caller = caller.caller
    if error.call is not NOWHERE:
        lines.append(f"  = called at {display_path(error.call.file)}:{error.call.line}: {error.call.text.strip()}")
    if error.details:
        lines += ["  " + line if line else "" for line in error.details.splitlines()]
    if error.remedy:
        lines.append(f"  = help: {error.remedy}")
    return "\n".join(lines)
