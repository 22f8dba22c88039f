"""Which accumulators can stay in tensor memory: over a loop that only multiplies into them, or from product to product.

A cell of a tile stays there over a loop if inside the loop its value only goes from the cell into a product, from product to
product, and back into the cell. Then the tensor memory holds what the cell would, wherever the loop begins a turn or ends.
Of nested loops the outermost is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, Break, Continue, For, Leave, ReadVar, Role, Roles, Scope, While
from phalanx.ir.traits import Product
from phalanx.ir.types import TileType
from phalanx.ir.values import Label, Value, Var

Holding = frozenset[Value]
"""The cell and the values that are equal to what the tensor memory holds."""


@frozen(eq=False)
class Residence:
    """A cell that lies in tensor memory over a loop: the products into it, and its reads and writes, which go.

    `start` is the write before the loop that gives it nothing but zeros, if there is one, and `zeros` what made those.
    """

    loop: Op
    var: Var
    products: tuple[Op, ...]
    moves: tuple[Op, ...]
    start: Op | None
    zeros: Op | None


@frozen(eq=False)
class Chain:
    """Products of one block, each of which takes the result of the one before it and nobody else does."""

    products: tuple[Op, ...]


def own_code(block: Block) -> Iterator[Op]:
    """The instructions that the agent of `block` runs itself: not those of roles inside."""
    for op in block.ops:
        yield op
        if not isinstance(op, Roles | Role):
            for inner in op.blocks():
                yield from own_code(inner)


def find_residences(block: Block, products: Mapping[Op, Product], makers: Mapping[Value, Op]) -> Iterator[Residence]:
    """The cells of an agent's code that stay in tensor memory over its loops; `products` may go there."""
    for position, op in enumerate(block.ops):
        if isinstance(op, Roles | Role):
            continue
        found: list[Residence] = []
        if isinstance(op, For | While):
            written = (inner.var for inner in own_code(Block((op,))) if isinstance(inner, Assign))
            for var in dict.fromkeys(var for var in written if isinstance(var.type, TileType)):
                stay = _Stay(var, products)
                if stay.over(op):
                    start, zeros = _zeros_before(block.ops[:position], var, makers)
                    found.append(Residence(op, var, tuple(stay.products), tuple(stay.moves), start, zeros))
        yield from found
        taken = {product for residence in found for product in residence.products}
        others = {product: what for product, what in products.items() if product not in taken}
        for inner in op.blocks():
            yield from find_residences(inner, others, makers)


def find_chains(block: Block, products: Mapping[Op, Product], uses: Mapping[Value, int]) -> Iterator[Chain]:
    """The products of an agent's code, each with those of its block that go on with its result alone."""
    run: dict[Value, list[Op]] = {}
    for op in block.ops:
        if op in products:
            what = products[op]
            before = [] if what.acc is None or uses[what.acc] > 1 else run.pop(what.acc, [])
            run[what.result] = [*before, op]
        elif not isinstance(op, Roles | Role):
            for inner in op.blocks():
                yield from find_chains(inner, products, uses)
    yield from (Chain(tuple(found)) for found in run.values())


class _Stay:
    """Follows a cell through a loop, as long as what the tensor memory would hold is known."""

    def __init__(self, var: Var, products: Mapping[Op, Product]) -> None:
        self.var = var
        self.candidates = products
        self.products: dict[Op, None] = {}
        self.moves: dict[Op, None] = {}
        self.seen: set[Value] = set()
        """The values that exist in tensor memory alone: nobody else may read one."""

    def over(self, loop: Op) -> bool:
        """Whether the cell may stay over the whole loop."""
        inside = {op.label for op in Block((loop,)).walk() if isinstance(op, For | While | Scope)}
        try:
            self._loop(loop, inside)
            others = (op for op in Block((loop,)).walk() if op not in self.products and op not in self.moves)
            return bool(self.products) and not any(value in self.seen for op in others for value in op.operands())
        except _Lost:
            return False

    def _loop(self, loop: Op, labels: Collection[Label]) -> None:
        at_head: Holding = frozenset({self.var})
        for block in loop.blocks():
            held = self._block(block, at_head, labels)
            self._require(held)

    def _require(self, held: Holding | None) -> None:
        """Where ways of the loop meet, the tensor memory holds what the cell does."""
        if held is not None and self.var not in held:
            raise _Lost

    def _block(self, block: Block, held: Holding | None, labels: Collection[Label]) -> Holding | None:
        """What is held behind a block; None where nobody comes there."""
        for op in block.ops:
            if held is None:
                break
            held = self._step(op, held, labels)
        return held

    def _step(self, op: Op, held: Holding, labels: Collection[Label]) -> Holding | None:
        if isinstance(op, ReadVar) and op.var is self.var:
            self._require(held)
            self.moves[op] = None
            self.seen.add(op.result)
            return held | {op.result}
        if isinstance(op, Assign) and op.var is self.var:
            if op.value not in held:
                raise _Lost
            self.moves[op] = None
            return held | {self.var}
        if op in self.candidates and self.candidates[op].acc in held:
            self.products[op] = None
            self.seen.add(self.candidates[op].result)
            return frozenset({self.candidates[op].result})
        if isinstance(op, Break | Continue | Leave):
            if op.label not in labels:
                raise _Lost  # it would go past the load behind the loop
            self._require(held)
            return None
        if isinstance(op, Roles | Role) or not self._concerns(op):
            return held
        return self._nested(op, held, labels)

    def _nested(self, op: Op, held: Holding, labels: Collection[Label]) -> Holding | None:
        if isinstance(op, For | While):
            self._require(held)
            self._loop(op, labels)
            return frozenset({self.var})
        ends = [self._block(block, held, labels) for block in op.blocks()]
        reached = [end for end in ends if end is not None]
        if isinstance(op, Scope):  # those who leave it early hold the cell's value, and maybe no other
            return frozenset.intersection(frozenset({self.var}), *reached)
        return frozenset.intersection(*reached) if reached else None

    def _concerns(self, op: Op) -> bool:
        """Whether anything inside touches the cell or jumps."""
        return any(
            isinstance(inner, Break | Continue | Leave) or (isinstance(inner, ReadVar | Assign) and inner.var is self.var)
            or inner in self.candidates
            for block in op.blocks() for inner in block.walk()
        )


class _Lost(Exception):
    """What the tensor memory would hold is not what the program means."""


def _zeros_before(ops: tuple[Op, ...], var: Var, makers: Mapping[Value, Op]) -> tuple[Op | None, Op | None]:
    """The write that gives the cell zeros before a loop, the last thing that touches it there, and what made them."""
    for op in reversed(ops):
        if isinstance(op, Assign) and op.var is var:
            maker = makers.get(op.value)
            return (op, maker) if maker is not None and maker.filled_with == 0 else (None, None)
        if any(isinstance(inner, ReadVar | Assign) and inner.var is var for inner in Block((op,)).walk()):
            break
    return None, None
