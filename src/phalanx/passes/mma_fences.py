"""A fence before each batch of an engine's work on registers: where threads may have touched them since the engine did."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Block, Function, Op, map_blocks
from phalanx.ir.engines import REGISTER_FENCES, Engine
from phalanx.ir.types import TileType


def insert_mma_fences(function: Function) -> Function:
    """A fence before the first of every run of accumulations that nothing but scalar arithmetic interrupts.

    Each engine that works on registers has the fence that its family registered; one without such a fence needs none.
    """

    def insert(block: Block) -> Block:
        out: list[Op] = []
        fenced: set[Engine] = set()
        for op in block.ops:
            effects = op.effects()
            if effects.accumulations:
                for engine in dict.fromkeys(item.engine for item in effects.accumulations):
                    if engine not in fenced and engine in REGISTER_FENCES:
                        out.append(REGISTER_FENCES[engine](loc=op.loc))
                    fenced.add(engine)
            elif not effects.is_pure or any(True for _ in op.blocks()) or _makes_tile(op):
                fenced.clear()
            out.append(map_blocks(op, insert))
        same = len(out) == len(block.ops) and all(a is b for a, b in zip(out, block.ops, strict=True))
        return block if same else Block(tuple(out))

    body = insert(function.body)
    return function if body is function.body else dataclasses.replace(function, body=body)


def _makes_tile(op: Op) -> bool:
    return any(isinstance(value.type, TileType) for value in op.defined_values())
