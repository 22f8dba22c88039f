"""What is written more carefully after NVRTC has moved registers of products in flight.

The text gives values no registers: where a value goes round a loop or comes from two arms of a branch, NVRTC moves it when
it likes, though a product is still using it. `assembly.in_flight` finds that in the PTX. Then the kernel is written once
more: first with registers of its own for each product's operand, and each product's fence in its own statement; then with
the products that are still concerned waited for at once. That always ends: nothing is moved during a product that is over.
The same helps where ptxas finds registers written during a product, or too few for all of them, and serialises every one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from phalanx.frozen import frozen
from phalanx.ir.core import Function, Op
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.location import Location

_MARK = re.compile(r"// product (\d+)")


@frozen
class Cautions:
    """`careful`: every product has its own registers and its own fence, and is marked in the text. `alone`: where products
    stand that are waited for at once."""

    careful: bool = False
    alone: frozenset[Location] = frozenset()

    def after(self, instructions: Iterable[str], ptx: str, products: Sequence[Op]) -> Cautions | None:
        """What to take care of next, for a kernel of these products; None where nothing is left to do.

        `instructions`: those of the PTX whose registers are touched in flight, and those that touch them.
        """
        if not self.careful:
            return replace(self, careful=True)
        numbers = {number for text in instructions for number in _marks_before(text, ptx)}
        found = frozenset(products[number].loc for number in numbers)
        more = self.alone | (found if found - self.alone else frozenset(op.loc for op in products))
        return None if more == self.alone else replace(self, alone=more)

    def after_loss(self, own: Iterable[Op], products: Sequence[Op]) -> Cautions | None:
        """What to take care of next where ptxas serialises products over their registers; None where nothing is left.

        `own`: the products that have registers of their own.
        """
        if not self.careful:
            return replace(self, careful=True)
        for chosen in (own, products):
            more = self.alone | {op.loc for op in chosen}
            if more != self.alone:
                return replace(self, alone=more)
        return None


CAREFREE = Cautions()
"""How a kernel is written at first."""


def products_of(function: Function) -> tuple[Op, ...]:
    """The products of a kernel that work on registers, in the order of their numbers."""
    return tuple(op for op in function.walk() if op.effects().accumulations)


def register_operands(op: Op) -> tuple[Value, ...]:
    """The tiles that work on registers reads while it is in flight, but for the accumulators that it updates."""
    accumulators = {item.acc for item in op.effects().accumulations}
    if not accumulators:
        return ()
    return tuple(value for value in op.operands() if isinstance(value.type, TileType) and value not in accumulators)


def mark(number: int) -> str:
    """What stands before a product in marked text, and comes out in PTX."""
    return f'asm volatile("// product {number}");'


def _marks_before(instruction: str, ptx: str) -> set[int]:
    """The numbers of the products that an instruction belongs to, wherever it is in the text."""
    found: set[int] = set()
    at = ptx.find(instruction) if instruction else -1
    while at >= 0:
        last = ptx.rfind("// product ", 0, at)
        if last >= 0 and (match := _MARK.match(ptx, last)):
            found.add(int(match[1]))
        at = ptx.find(instruction, at + 1)
    return found
