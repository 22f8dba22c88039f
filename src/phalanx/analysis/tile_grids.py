"""Loops over tiles that are rows times columns of them: a number that the loop's body takes apart by `//` and `%`."""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import For
from phalanx.ir.ops.tile import Binary
from phalanx.ir.values import Value, constant_of


@frozen(eq=False)
class TileGrid:
    """``t // columns`` is the row of tile t, ``t % columns`` its column, and there are ``rows * columns`` tiles."""

    loop: For
    rows: Value
    columns: Value
    row: tuple[Op, ...]
    column: tuple[Op, ...]


def find_grid(function: Function, loop: For) -> TileGrid | None:
    """How a loop takes its number apart, if it does so by one number alone that all tiles are a multiple of."""
    count = next((op for op in function.walk() if op.defines is loop.stop), None)
    if not isinstance(count, Binary) or count.fn != "mul":
        return None
    row: list[Op] = []
    column: list[Op] = []
    divisors: dict[Value, None] = {}
    for op in loop.body.walk():
        if isinstance(op, Binary) and op.a is loop.index and op.fn in ("floordiv", "mod"):
            divisors[op.b] = None
            (row if op.fn == "floordiv" else column).append(op)
    if len(divisors) != 1 or not row or not column:
        return None
    (columns,) = divisors
    if columns is count.b:
        rows = count.a
    elif columns is count.a:
        rows = count.b
    else:
        return None
    if constant_of(rows) is not None or constant_of(columns) is not None:
        return None  # few of them: any order is as good
    return TileGrid(loop, rows, columns, tuple(row), tuple(column))
