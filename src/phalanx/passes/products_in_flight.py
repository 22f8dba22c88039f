"""Products of warpgroups that a loop need not wait for in the turn in which they begin.

What the next turn brings into shared memory is on its way while the tensor cores still work. For that the operands of two
turns lie in places of their own, and the accumulator is touched by nothing but the products of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, For, ReadVar
from phalanx.ir.ops.tile import Binary
from phalanx.ir.ops.wgmma import WgmmaWait
from phalanx.ir.traits import Product
from phalanx.ir.types import I32
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.views import SharedBuffer, SharedView
from phalanx.passes.agents import AgentCode
from phalanx.passes.resident_accumulators import find_residences

TURNS = 2
"""Turns whose operands are in shared memory at the same time."""


@frozen(eq=False)
class Flight:
    """A product that is waited for in the next turn of its loop, or behind it. `cell` holds its accumulator.

    `stage` says which of two places its operands have in this turn; `var` is the cell of that number.
    """

    loop: For
    cell: Var
    product: Op
    var: Var
    stage: Value

    def before(self) -> list[Op]:
        """Before the loop."""
        return [Assign(self.var, Const(0, I32), loc=self.loop.loc)]

    def at_start(self) -> list[Op]:
        """Where a turn begins."""
        return [ReadVar(self.var, self.stage, loc=self.loop.loc)]

    def behind_product(self) -> list[Op]:
        """The next turn has the other place."""
        other, loc = Value(I32), self.product.loc
        return [Binary("xor", self.stage, Const(1, I32), other, loc=loc), Assign(self.var, other, loc=loc)]

    def behind(self) -> list[Op]:
        """Behind the loop the last product is over."""
        old, new, loc = Value(self.cell.type, self.cell.name), Value(self.cell.type, self.cell.name), self.product.loc
        return [
            ReadVar(self.cell, old, loc=loc), WgmmaWait(0, (old,), (new,), loc=loc), Assign(self.cell, new, loc=loc),
        ]

    def in_ring(self, buffer: SharedBuffer, view: SharedView) -> SharedView:
        """A view of a buffer as one of this turn's place in `buffer`, which has a place for each of two turns."""
        return view.replaced(
            buffer=buffer, offsets=(self.stage, *view.offsets), extents=(1, *view.extents),
            kept=tuple(axis + 1 for axis in view.kept),
        )


def find_flights(
    agent: AgentCode, products: Mapping[Op, Product], makers: Mapping[Value, Op], home: Mapping[Op, Block]
) -> Iterator[Flight]:
    """The loops of an agent that do one product a turn, of those given, and none besides."""
    for residence in find_residences(agent.block, agent.block, products, makers):
        loop = residence.loop
        if not isinstance(loop, For) or len(residence.products) != 1:
            continue
        (product,) = residence.products
        others = (op for op in loop.body.walk() if op is not product)
        if home[product] is loop.body and not any(_multiplies(op) for op in others):
            yield Flight(loop, residence.var, product, Var(I32, "dot_turn"), Value(I32, "dot_turn"))


def _multiplies(op: Op) -> bool:
    effects = op.effects()
    return op.product is not None or bool(effects.accumulations or effects.groups)
