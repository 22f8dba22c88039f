"""How much scratch shared memory an instruction needs for itself: what its family registers in `cuda/ops`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.ir.core import Op
from phalanx.ir.tables import Table
from phalanx.ir.values import Value
from phalanx.layouts.registers import RegisterLayout

Layouts = Mapping[Value, RegisterLayout]

needs_scratch: Table[Callable[[Any, Layouts], int]] = Table()
"""`@needs_scratch(Reduce)` registers a function from an instruction and the layouts of all tiles to bytes."""


def scratch_needed(op: Op, layouts: Layouts) -> int:
    """Bytes of scratch memory of one instruction, 0 for most."""
    rule = needs_scratch.of(op)
    return 0 if rule is None else rule(op, layouts)
