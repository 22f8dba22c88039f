"""How much scratch shared memory an instruction needs for itself: one rule per instruction class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.cuda.text.writer import scalar_dtype
from phalanx.cuda.tiles.convert import conversion_scratch_bytes
from phalanx.cuda.tiles.cumsum import cumsum_scratch_bytes
from phalanx.cuda.tiles.fold import fold_scratch_bytes
from phalanx.cuda.tiles.reduce import reduce_scratch_bytes
from phalanx.cuda.tiles.share import shared_bytes_of_tile
from phalanx.ir.core import Op
from phalanx.ir.ops.memory import ATOMICS, Atomic, AtomicLoad
from phalanx.ir.ops.tile import ConvertLayout, CumSum, Reduce, ReduceBy, Reshape, ScanBy
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.layouts.registers import RegisterLayout

Layouts = Mapping[Value, RegisterLayout]


def _of_change(op: ConvertLayout | Reshape, layouts: Layouts) -> int:
    if not isinstance(op.x.type, TileType) or not isinstance(op.result.type, TileType):
        return 0
    return conversion_scratch_bytes(layouts[op.x], layouts[op.result], scalar_dtype(op.x).itemsize)


def _of_atomic(op: Atomic | AtomicLoad, layouts: Layouts) -> int:
    if op.result is None:
        return 0
    if isinstance(op.result.type, TileType):
        return shared_bytes_of_tile(layouts[op.result], scalar_dtype(op.result))
    return scalar_dtype(op.result).itemsize


_RULES: dict[type[Op], Callable[[Any, Layouts], int]] = {
    Reduce: lambda op, layouts: reduce_scratch_bytes(op, layouts[op.x]),
    CumSum: lambda op, layouts: cumsum_scratch_bytes(op, layouts[op.x]),
    ReduceBy: lambda op, layouts: fold_scratch_bytes(op, layouts[op.xs[0]]),
    ScanBy: lambda op, layouts: fold_scratch_bytes(op, layouts[op.xs[0]]),
    ConvertLayout: _of_change,
    Reshape: _of_change,
    **dict.fromkeys((*ATOMICS, AtomicLoad), _of_atomic),
}


def scratch_needed(op: Op, layouts: Layouts) -> int:
    """Bytes of scratch memory of one instruction."""
    rule = _RULES.get(type(op))
    return rule(op, layouts) if rule is not None else 0
