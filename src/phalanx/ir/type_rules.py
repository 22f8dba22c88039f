"""How the types of an instruction's operands and results fit together: one rule per instruction class.

The families register the rules beside their instructions (`ir/ops/<family>.py`), the verifier looks them up. An instruction
that has operands or results and no rule says why; `tests/ir/test_type_rules.py` finds the one that does neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.errors import internal
from phalanx.ir.core import Op
from phalanx.ir.tables import Table
from phalanx.ir.types import I32, ArrayType, DType
from phalanx.ir.values import Value
from phalanx.ir.views import View

type_rules: Table[Callable[[Any], None]] = Table()
"""Raises an error at an instruction whose types don't fit together."""
UNRULED: dict[type[Op], str] = {}
"""Instructions with operands or results that have no rule, and why."""
FROM_EFFECTS = "its barriers, masks, counts and regions are checked wherever effects name some"


def needs_no_type_rule(*classes: type[Op], why: str = FROM_EFFECTS) -> None:
    """Says why instructions have no rule for the types of their operands and results."""
    UNRULED.update(dict.fromkeys(classes, why))


def need(holds: bool, op: Op, what: str) -> None:
    """Raises an error of the compiler's own unless something holds that it sees to itself."""
    if not holds:
        internal(f"{op.mnemonic}: {what}", op.loc)


def shape_of(item: Value | View) -> tuple[int, ...]:
    """The shape of a scalar, a tile or a region."""
    if isinstance(item, View):
        return item.shape
    assert not isinstance(item.type, ArrayType)
    return item.type.shape


def dtype_of(item: Value | View) -> DType:
    """The type of the elements of a scalar, a tile or a region."""
    return item.dtype if isinstance(item, View) else item.type.dtype


def need_elementwise(op: Op, *operands: Value, result: DType | None = None) -> None:
    """Operands of one element type broadcast to the result, whose elements are of type `result`, or of theirs."""
    first = operands[0]
    need(all(dtype_of(v) == dtype_of(first) for v in operands), op, "operands of different element types")
    assert op.defines is not None
    need(dtype_of(op.defines) == (result or dtype_of(first)), op, "result of another element type")
    shapes = [shape_of(v) for v in operands]
    try:
        joined = np.broadcast_shapes(*shapes)
    except ValueError:
        internal(f"{op.mnemonic}: shapes {shapes} do not broadcast", op.loc)
    need(shape_of(op.defines) == joined, op, f"result of shape {shape_of(op.defines)}, not {joined}")


def need_alike(op: Op, one: Value | View, other: Value | View) -> None:
    """Two operands or results have one shape and one element type."""
    alike = shape_of(one) == shape_of(other) and dtype_of(one) == dtype_of(other)
    need(alike, op, f"{_text(one)} beside {_text(other)}")


def need_index(op: Op) -> None:
    """The result is an i32 scalar."""
    assert op.defines is not None
    need(op.defines.type == I32, op, f"result is {op.defines.type}")


def need_same_tiles(op: Op, before: tuple[Value, ...], after: tuple[Value, ...]) -> None:
    """There is one result for each operand, of its type."""
    need([value.type for value in before] == [value.type for value in after], op, "results unlike what they are made of")


def _text(item: Value | View) -> str:
    return f"{dtype_of(item)}{list(shape_of(item))}"
