"""Cells hold tiles in one layout; what only looks at a tile takes it in any."""

from __future__ import annotations

from typing import Any

from phalanx.cuda.lower.layout_rules import Same, Wish, asks, is_tile
from phalanx.ir.ops.control import Assign, Assume, Breakpoint, DeviceAssert, Print, ReadVar


@asks(Assign)
def _assign(op: Assign) -> list[Wish]:
    return [Same((op.var, op.value))] if is_tile(op.value) else []


@asks(ReadVar)
def _read(op: ReadVar) -> list[Wish]:
    return [Same((op.var, op.result))] if is_tile(op.result) else []


@asks(Print, Assume, DeviceAssert, Breakpoint)
def _any_layout(op: Any) -> list[Wish]:
    return []
