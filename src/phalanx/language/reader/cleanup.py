"""After reading: what nobody uses goes away."""

from __future__ import annotations

from collections import Counter

from phalanx.ir.core import Block, Op, block_fields, map_blocks, rewrite
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.values import Value, Var


def remove_dead(block: Block) -> Block:
    """Drops pure instructions and results that nobody reads, and cells that are never read."""
    dead = find_dead(block)
    return remove_unread_results(_without(block, dead) if dead else block)


def remove_unread_results(block: Block) -> Block:
    """Instructions with effects lose a result that nobody reads, where they can do without."""
    read = {value for op in block.walk() for value in op.operands()}
    return rewrite(block, lambda op: None if op.defines is None or op.defines in read else [op.without_result()])


def find_dead(block: Block) -> set[Op]:
    """The instructions whose results nobody uses: where the last use of a value goes, so does what made it."""
    ops = list(dict.fromkeys(block.walk()))
    uses = Counter(value for op in ops for value in op.operands())
    reads = Counter(op.var for op in ops if isinstance(op, ReadVar))
    makers: dict[Value, Op] = {}
    writers: dict[Var, list[Op]] = {}
    for op in ops:
        if isinstance(op, Assign):
            writers.setdefault(op.var, []).append(op)
        elif op.defines is not None and not block_fields(type(op)) and op.effects().is_pure:
            makers[op.defines] = op
    unused = [op for value, op in makers.items() if not uses[value]]
    unused += [op for var, assigned in writers.items() if not reads[var] for op in assigned]
    dead: set[Op] = set()
    while unused:
        op = unused.pop()
        dead.add(op)
        for value in op.operands():
            uses[value] -= 1
            if not uses[value] and value in makers:
                unused.append(makers[value])
        if isinstance(op, ReadVar):
            reads[op.var] -= 1
            if not reads[op.var]:
                unused += writers.get(op.var, ())
    return dead


def _without(block: Block, dead: set[Op]) -> Block:
    kept = tuple(map_blocks(op, lambda inner: _without(inner, dead)) for op in block.ops if op not in dead)
    return block if kept == block.ops else Block(kept)
