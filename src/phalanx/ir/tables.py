"""Tables of functions by instruction class: what families tell others about their instructions.

Whoever needs something of instructions that is no effect declares a table, the families fill it in, and a look-up takes the
place of a question for the class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from phalanx.ir.core import Op

Entry = TypeVar("Entry", bound=Callable[..., Any])


class Table(Generic[Entry]):
    """One function per instruction class. `table(A, B)` is the decorator that registers it, `table.of(op)` finds it."""

    def __init__(self) -> None:
        self.entries: dict[type[Op], Entry] = {}

    def __call__(self, *classes: type[Op]) -> Callable[[Entry], Entry]:
        """Registers the decorated function for these classes; a second registration is a mistake."""

        def register(entry: Entry) -> Entry:
            for cls in classes:
                assert cls not in self.entries, f"{cls.__name__} is registered twice"
                self.entries[cls] = entry
            return entry

        return register

    def of(self, op: Op) -> Entry | None:
        """What was registered for the class of an instruction."""
        return self.entries.get(type(op))


class Marks:
    """A set of instruction classes with something in common. `marks.add(A, B)` registers them, `op in marks` asks."""

    def __init__(self) -> None:
        self.entries: set[type[Op]] = set()

    def add(self, *classes: type[Op]) -> None:
        """Marks these classes."""
        self.entries.update(classes)

    def __contains__(self, op: Op) -> bool:
        return type(op) in self.entries
