"""Instructions that read the lane again where they stand, so that nothing that follows from it is kept for them.

Offsets, coordinates and masks of a thread's elements follow from its lane. In a loop the compiler computes them once,
before it, and keeps them. Where products run in that loop, in a loop of their own, whose tiles fill most of the registers,
they would be spilled. So what stands around such a loop reads the lane at its place, and computes a few numbers
for every tile.
"""

from __future__ import annotations

from phalanx.cuda.text.pressure import Pressure
from phalanx.ir.archs import entry_registers
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import For, Role, Roles, While
from phalanx.ir.ops.tile import Compare

FULL = 0.6
"""The part of a role's registers from which on tiles leave no room for what is computed ahead."""


def find_read_again(function: Function, pressure: Pressure) -> frozenset[Op]:
    """The instructions of a loop's turn around an inner loop of products, and coordinates within such a loop."""
    found: set[Op] = set()
    entry = entry_registers(function.warps, function.ctas_per_sm)
    _Finder(pressure, found).block(function.body, FULL * entry, False, False)
    return frozenset(found)


class _Finder:
    def __init__(self, pressure: Pressure, found: set[Op]) -> None:
        self.pressure = pressure
        self.found = found

    def block(self, block: Block, limit: float, around: bool, within: bool) -> None:
        """`around`: the turn of a loop that holds full loops of products; `within`: the turn of such a loop."""
        for op in block.ops:
            if isinstance(op, Roles):
                for role in op.regions:
                    self.block(role.body, _limit(role, limit), around, within)
            elif isinstance(op, For | While):
                inner = any(self.is_full(loop, limit) for loop in op.body.walk())
                for part in op.blocks():
                    self.block(part, limit, inner, not inner and self.is_full(op, limit))
            elif not (blocks := tuple(op.blocks())):
                if around or (within and (op.numbers is not None or isinstance(op, Compare))):
                    self.found.add(op)
            else:
                for part in blocks:
                    self.block(part, limit, around, within)

    def is_full(self, op: Op, limit: float) -> bool:
        """Whether it is a loop of products that add to registers, and tiles take up most of those there are."""
        if not isinstance(op, For | While) or not any(inner.effects().accumulations for inner in op.body.walk()):
            return False
        return self.pressure.peak(op.body) >= limit


def _limit(role: Role, usual: float) -> float:
    return usual if role.regs is None else FULL * role.regs
