"""Which fields of an instruction are run-time operands, in the order in which its meaning receives them."""

from __future__ import annotations

import dataclasses
import re

from phalanx.ir.core import Op
from phalanx.ir.views import BarrierRef

_OPERAND = re.compile(r"\b(Value|View|GlobalView|SharedView|BarrierRef)\b")
_NEVER = {"loc", "result", "results", "var"}
_NAMES: dict[type[Op], tuple[str, ...]] = {}


def operand_names(cls: type[Op]) -> tuple[str, ...]:
    """Fields that hold a value, a view, a barrier, or a tuple of them, by their declared types."""
    names = _NAMES.get(cls)
    if names is None:
        names = tuple(
            field.name for field in dataclasses.fields(cls)
            if field.name not in _NEVER and _OPERAND.search(str(field.type))
        )
        _NAMES[cls] = names
    return names


def operand_positions(op: Op) -> dict[int, int]:
    """From the identity of an operand, as `effects()` names it, to its position; a barrier's index finds it too."""
    operands = [getattr(op, name) for name in operand_names(type(op))]
    positions = {id(operand): i for i, operand in enumerate(operands) if operand is not None}
    for i, operand in enumerate(operands):
        if isinstance(operand, BarrierRef):
            positions.setdefault(id(operand.index), i)
    return positions
