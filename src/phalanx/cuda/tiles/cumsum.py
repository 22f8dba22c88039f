"""Running sums: a scan whose blocks are joined by addition, in f32 where the elements are narrower floats."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.arithmetic import binary_text, compute_dtype, narrow, widen
from phalanx.cuda.tiles.index import element
from phalanx.cuda.tiles.ordered import Joiner, exchange_bytes
from phalanx.cuda.tiles.scan import emit_scan
from phalanx.ir.ops.tile import CumSum
from phalanx.ir.types import DType
from phalanx.layouts.registers import RegisterLayout


class _Addition(Joiner):
    commutes = True

    def __init__(self, w: Writer, dtype: DType) -> None:
        self.w, self.dtypes = w, (dtype,)

    def join(self, low: Sequence[str], high: Sequence[str], out: Sequence[str]) -> str:
        return f"{out[0]} = {binary_text(self.w, 'add', low[0], high[0], self.dtypes[0])};"


def cumsum_scratch_bytes(op: CumSum, layout: RegisterLayout) -> int:
    """Scratch bytes of running sums."""
    return exchange_bytes((compute_dtype(scalar_dtype(op.result)),), layout, op.axis)


def emit_cumsum(w: Writer, op: CumSum) -> None:
    """Writes running sums along one axis; the result has the operand's layout."""
    dtype = scalar_dtype(op.result)
    name = w.declare_tile(op.result)
    emit_scan(
        w, op, w.plan.layouts[op.x], op.axis, _Addition(w, compute_dtype(dtype)),
        lambda i: [widen(w, element(w.name(op.x), i), dtype)],
        lambda i, values: f"{element(name, i)} = {narrow(w, values[0], dtype)};",
    )
