"""What is found out about a function and wanted again lies beside its fields, and goes when the function does.

A weak dictionary would keep a function for ever whose findings hold on to it, as a table of its layouts does.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from phalanx.ir.core import Function

Found = TypeVar("Found")


class Beside(Generic[Found]):
    """Findings of one kind, by function: ``ARRANGED = Beside[Arrangement]("arranged")``."""

    def __init__(self, name: str) -> None:
        self.name = f"_{name}"

    def get(self, function: Function) -> Found | None:
        """What was kept of a function; None where nothing was."""
        found: Found | None = function.__dict__.get(self.name)
        return found

    def keep(self, function: Function, found: Found) -> Found:
        """Keeps it, and gives it back. IR never changes: what is kept is true as long as there is the function."""
        object.__setattr__(function, self.name, found)
        return found
