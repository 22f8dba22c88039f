"""What a user sees when something is wrong: one exception type with a place, a caret, a call chain and a remedy."""

from __future__ import annotations

import os

from phalanx.ir.location import NOWHERE, Location


class Error(Exception):
    """A mistake in a kernel, its launch, or its run.

    Anyone may catch it: ``location`` is the user's place (``.file``, ``.line``, ``.column``), ``remedy`` says what would
    fix it, ``kind`` names the class of mistake ("error" unless a check has its own name).

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

    def __str__(self) -> str:
        return render(self)

    def at(self, location: Location) -> Error:
        """The same error, placed at `location` if it has no place yet."""
        if self.location is NOWHERE:
            self.location = location
        return self


def excerpt(location: Location) -> list[str]:
    """The source line of `location` with a caret under the offending part."""
    number = str(location.line)
    pad = " " * len(number)
    text = location.text.rstrip("\n")
    start = location.column
    stop = location.end_column if location.end_line == location.line else len(text)
    width = max(1, min(stop, len(text)) - start)
    expanded = text[:start].expandtabs(4)
    return [
        f"{pad} --> {display_path(location.file)}:{location.line}:{location.column + 1}",
        f"{pad} |",
        f"{number} | {text.expandtabs(4)}",
        f"{pad} | {' ' * len(expanded)}{'^' * width}",
    ]


def display_path(path: str) -> str:
    """`path` relative to the working directory when it lies below it."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
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
    if error.details:
        lines += ["  " + line if line else "" for line in error.details.splitlines()]
    if error.remedy:
        lines.append(f"  = help: {error.remedy}")
    return "\n".join(lines)
