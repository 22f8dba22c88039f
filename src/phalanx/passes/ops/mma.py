"""What passes make of products that are finished at once."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Op
from phalanx.ir.ops.mma import Mma
from phalanx.passes.registry import Side, with_operands


@with_operands(Mma)
def _with_operands(op: Mma, a: Side, b: Side) -> Op:
    return dataclasses.replace(op, a=a, b=b)
