"""What `wgmma` asks of a product: its shape, and how its operands lie in shared memory."""

from __future__ import annotations

from phalanx.ir.archs import WARPGROUP
from phalanx.ir.ops.wgmma import ROWS, STEP_BYTES
from phalanx.ir.types import DType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView, in_shared

MAX_N = 256
ATOM_ROWS = 8
"""Rows of shared memory that `wgmma` reads together."""
WGMMA_CHUNK = 16
"""Bytes on whose multiples it begins."""
NARROWEST_ROW = 32
"""Bytes of a row of shared memory that it reads."""

Objection = tuple[str, str]
"""What stands against an instruction, and the remedy."""


def shape_objection(
    what: str, m: int, n: int, k: int, dtype: DType, along: str, warps: int
) -> Objection | None:
    """What of the product's shape `wgmma` does not have, if anything."""
    groups = warps // WARPGROUP
    plural = "s" if groups > 1 else ""
    high, wide = (groups, 1) if along == "m" else (1, groups)
    if m % (ROWS * high):
        over = f" over {groups} warpgroup{plural}" if along == "m" else ""
        return (
            f"{what}: M = {m} rows{over}",
            f"make M a multiple of {ROWS * high}: {ROWS} rows for each warpgroup of the role",
        )
    if high & (high - 1) and m != ROWS * high:
        return f"{what}: M = {m} rows over {groups} warpgroups", f"with {groups} warpgroups M is {ROWS * groups}"
    if n % wide or (wide > 1 and (n // wide) & (n // wide - 1)):
        return (
            f"{what}: N = {n} columns over {groups} warpgroups",
            f"make N / {groups} a power of two, or let them share the rows",
        )
    step = 16 if dtype.is_integer and n // wide > 32 else 8
    if n // wide % step or not 8 <= n // wide <= MAX_N:
        each = " for each warpgroup" if wide > 1 else ""
        multiples = f"a multiple of {step} from 8 to {MAX_N}"
        if step > 8:
            multiples = f"8 or 24, or a multiple of {step} up to {MAX_N}, for 8-bit integers"
        return (
            f"{what}: N = {n}" + f" over {groups} warpgroups" * (wide > 1),
            f"N is {multiples}{each}: use several accumulators for wider tiles",
        )
    least = STEP_BYTES // dtype.itemsize
    if k % least:
        return f"{what}: K = {k}", f"K is a multiple of {least} for {dtype}"
    return None


def major_objection(what: str, name: str, item: SharedView | Value, k_axis: int) -> Objection | None:
    """The axis of the buffer that is contiguous: K, or for 16-bit types the other one."""
    if isinstance(item, Value):
        return None
    last = len(item.buffer.shape) - 1
    if last not in item.kept or set(item.kept) != {last - 1, last}:
        return (
            f"{what}: {name} is not a matrix of the last two axes of '{item.buffer.name}'",
            "index the leading axes by integers: buffer[stage]",
        )
    if item.kept[k_axis] == last or item.dtype.bits == 16:
        return None
    rows = "M" if name == "a" else "N"
    return (
        f"{what}: {name} is contiguous along {rows}, which the hardware reads for 16-bit types only",
        f"let '{item.buffer.name}' be contiguous along K: shape ({rows}, K){', and write b.T' * (name == 'b')}",
    )


def place_objection(name: str, view: SharedView | Value) -> Objection | None:
    """What of a buffer's shape, or of where a view begins in it, keeps `wgmma` from reading it."""
    if not in_shared(view):
        return None
    buffer, item = view.buffer, view.dtype.itemsize
    rows, columns = buffer.shape[-2:]
    if rows % ATOM_ROWS:
        return f"{name} is in '{buffer.name}', whose {rows} rows are not a multiple of {ATOM_ROWS}", ""
    if columns * item % NARROWEST_ROW:
        return f"{name} is in '{buffer.name}', whose rows have {columns * item} bytes, no multiple of {NARROWEST_ROW}", ""
    row, column = view.offsets[-2:]
    if isinstance(row, Const) and int(row.value) % ATOM_ROWS:
        return f"{name} begins at row {row.value} of '{buffer.name}', no multiple of {ATOM_ROWS}", ""
    if isinstance(column, Const) and int(column.value) * item % WGMMA_CHUNK:
        return f"{name} begins at byte {int(column.value) * item} of the rows of '{buffer.name}'", ""
    return None
