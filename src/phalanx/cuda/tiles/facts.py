"""What is known of a kernel's scalars."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from phalanx.analysis.divisibility import Divisibility, find_divisibility
from phalanx.cuda.plan import Plan
from phalanx.cuda.text.writer import Writer
from phalanx.ir.core import Op
from phalanx.ir.ops.control import ReadVar
from phalanx.ir.ops.tile import Binary
from phalanx.ir.types import I32
from phalanx.ir.values import Value, constant_of

_SUMS: WeakKeyDictionary[Plan, dict[Value, tuple[Value, int]]] = WeakKeyDictionary()


def split_constant(w: Writer, value: Value) -> tuple[Value, int]:
    """`value` as another named scalar plus a constant, so that several accesses share an address.

    Only 32-bit sums that grow: where such a sum wraps around, it is negative, and no index either way.
    """
    table = _SUMS.get(w.plan)
    if table is None:
        table = _SUMS[w.plan] = {}
        defined: dict[Value, Op] = {}
        for op in w.plan.function.walk():
            for result in op.defined_values():
                defined[result] = op
            if isinstance(op, Binary) and op.fn == "add" and op.result.type == I32:
                for base, constant in ((op.a, op.b), (op.b, op.a)):
                    number = constant_of(constant)
                    if number is None or number < 0 or constant_of(base) is not None:
                        continue
                    if not isinstance(defined.get(base), ReadVar):
                        table[op.result] = base, int(number)
    base, number = table.get(value, (value, 0))
    return (value, 0) if base in w.cells.movable else (base, number)


def facts_of(w: Writer) -> Divisibility:
    """The divisibility of the kernel's integers: which offsets are multiples of a vector."""
    return find_divisibility(w.plan.function)
