"""Accumulators that can stay in tensor memory: over a loop that only multiplies into them, or from product to product.

A cell of a tile stays there over a loop if inside the loop its value only goes from the cell into a product, from product to
product, and back into the cell, by way of other cells maybe. Then the tensor memory holds what the cell would, wherever the
loop begins a turn or ends. Of nested loops the outermost is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from phalanx.analysis.flow import OpWalk, Outcome
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, Break, Continue, For, Leave, ReadVar, Role, Roles, While
from phalanx.ir.traits import Product
from phalanx.ir.types import TileType
from phalanx.ir.values import Value, Var
from phalanx.passes.agents import own_code

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


def find_residences(
    block: Block, body: Block, products: Mapping[Op, Product], makers: Mapping[Value, Op]
) -> Iterator[Residence]:
    """The cells that stay in tensor memory over loops of `block`, a part of an agent's `body`; `products` may go there."""
    for position, op in enumerate(block.ops):
        if isinstance(op, Roles | Role):
            continue
        found: list[Residence] = []
        taken: set[Op] = set()
        if isinstance(op, For | While):
            written = (inner.var for inner in own_code(Block((op,))) if isinstance(inner, Assign))
            for var in dict.fromkeys(var for var in written if isinstance(var.type, TileType)):
                stay = _Stay(var, products).over(op, body)
                if stay is not None and taken.isdisjoint(stay[0]):
                    start, zeros = _zeros_before(block.ops[:position], var, makers)
                    found.append(Residence(op, var, *stay, start, zeros))
                    taken.update(stay[0])
        yield from found
        others = {product: what for product, what in products.items() if product not in taken}
        for inner in op.blocks():
            yield from find_residences(inner, body, others, makers)


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


class _Stay(OpWalk[Holding]):
    """Follows a cell through a loop: which values and cells are equal to what the tensor memory holds.

    Its notes are the instructions that work in tensor memory: products there, and moves between cells, which go.
    """

    def __init__(self, var: Var, products: Mapping[Op, Product]) -> None:
        self.var = var
        self.candidates = products

    def over(self, loop: Op, body: Block) -> tuple[tuple[Op, ...], tuple[Op, ...]] | None:
        """The products into the cell and its moves, if it may stay over the whole loop of the agent's `body`."""
        outcome = self.visit(loop, frozenset({self.var}))
        products = tuple(op for op in outcome.notes if op in self.candidates)
        if not products or outcome.out is None or self.var not in outcome.out or outcome.exits:
            return None  # with exits: they would go past the load behind the loop
        noted, inside = outcome.notes.keys(), set(Block((loop,)).walk())
        cells = {op.var for op in noted if isinstance(op, Assign | ReadVar)}
        there = {op.result for op in noted if isinstance(op, ReadVar)} | {self.candidates[op].result for op in products}
        for op in body.walk():
            if op in noted:
                continue
            if isinstance(op, Assign | ReadVar) and op.var in cells and (op in inside or op.var is not self.var):
                return None  # the cell has another value at times
            if any(value in there for value in op.operands()):
                return None  # somebody else reads what would be in tensor memory alone
        return products, tuple(op for op in noted if op not in self.candidates)

    def visit(self, node: Op, state: Holding) -> Outcome[Holding]:
        """Roles are other agents: what they do is none of this cell's business."""
        return Outcome(state) if isinstance(node, Roles | Role) else super().visit(node, state)

    def join(self, states: Sequence[Holding]) -> Holding:
        """Where ways meet, what holds on all of them."""
        return frozenset.intersection(*states)

    def step(self, node: Op, state: Holding) -> Outcome[Holding]:
        """A product makes the tensor memory hold its result alone; a move gives what it holds another name."""
        if node in self.candidates and self.candidates[node].acc in state:
            return Outcome(frozenset({self.candidates[node].result}), notes={node: None})
        if isinstance(node, ReadVar) and node.var in state:
            return Outcome(state | {node.result}, notes={node: None})
        if isinstance(node, Assign) and node.value in state:
            return Outcome(state | {node.var}, notes={node: None})
        return Outcome(state - {node.var} if isinstance(node, Assign) else state)


def _zeros_before(ops: tuple[Op, ...], var: Var, makers: Mapping[Value, Op]) -> tuple[Op | None, Op | None]:
    """The write that gives the cell zeros before a loop, the last thing that touches it there, and what made them."""
    for op in reversed(ops):
        if isinstance(op, Assign) and op.var is var:
            maker = makers.get(op.value)
            return (op, maker) if maker is not None and maker.filled_with == 0 else (None, None)
        inside = list(Block((op,)).walk())
        if any(isinstance(inner, Break | Continue | Leave) for inner in inside):
            break  # who goes past the loop wants the zeros in the cell
        if any(isinstance(inner, ReadVar | Assign) and inner.var is var for inner in inside):
            break
    return None, None
