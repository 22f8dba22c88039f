"""After reading: blocks become immutable, and what nobody uses goes away."""

from __future__ import annotations

from phalanx.ir.core import Block, Op, map_blocks
from phalanx.ir.ops.control import Assign, For, ReadVar
from phalanx.ir.values import Value, Var
from phalanx.language.builder import Landing


def seal(block: Block) -> Block:
    """Tuples instead of the lists that were growing while the function was read, and no landings any more."""
    out: list[Op] = []
    for op in block.ops:
        out += seal(op.body).ops if isinstance(op, Landing) else (map_blocks(op, seal),)
    return Block(tuple(out))


def remove_dead(block: Block) -> Block:
    """Drops pure instructions whose results nobody reads, and cells that are never read."""
    while True:
        read = {op.var for op in block.walk() if isinstance(op, ReadVar)}
        slim = _without_dead(block, set(), read)
        if slim is block:
            return block
        block = slim


def _without_dead(block: Block, used: set[Value], read: set[Var]) -> Block:
    """From the end, so that a chain of instructions nobody needs goes at once; `used` is what follows needs."""
    kept: list[Op] = []
    changed = False
    for op in reversed(block.ops):
        if isinstance(op, Assign):
            if op.var not in read:
                changed = True
                continue
        elif op.defines is not None and not isinstance(op, For) and op.effects().is_pure and op.defines not in used:
            changed = True
            continue
        used.update(op.operands())  # before what it holds: a loop's condition is computed inside it
        slim = _slimmer(op, used, read)
        changed |= slim is not op
        kept.append(slim)
    return Block(tuple(reversed(kept))) if changed else block


def _slimmer(op: Op, used: set[Value], read: set[Var]) -> Op:
    """`op` with what it holds slimmed, its last block first: what one block defines, only later ones read."""
    blocks = list(op.blocks())
    if not blocks:
        return op
    slim = {id(inner): _without_dead(inner, used, read) for inner in reversed(blocks)}
    return map_blocks(op, lambda inner: slim[id(inner)])
