"""The functions that are open while a kernel is read: the kernel itself, and those inlined into it."""

from __future__ import annotations

from dataclasses import dataclass, field

from phalanx.ir.values import Label
from phalanx.language.reader.source import FunctionSource
from phalanx.language.reader.state import WayIn
from phalanx.location import Location


@dataclass
class Frame:
    """One inlined function: its source, where it was called, and how it is left."""

    source: FunctionSource
    ident: int
    caller: Location | None
    label: Label
    control_depth: int
    role_depth: int
    transactions: int
    returns: list[tuple[WayIn, object]] = field(default_factory=list)
    result: object = None
    done: bool = False
