"""`wgmma.fence` before each batch of products: where registers may have been touched since the tensor cores did."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Block, Function, Op, map_blocks
from phalanx.ir.ops.wgmma import WgmmaFence
from phalanx.ir.types import TileType


def insert_mma_fences(function: Function) -> Function:
    """A fence before the first product of every run of products that nothing but scalar arithmetic interrupts."""

    def insert(block: Block) -> Block:
        out: list[Op] = []
        fenced = False
        for op in block.ops:
            effects = op.effects()
            if effects.accumulations:
                if not fenced:
                    out.append(WgmmaFence(loc=op.loc))
                fenced = True
            elif not effects.is_pure or any(True for _ in op.blocks()) or _makes_tile(op):
                fenced = False
            out.append(map_blocks(op, insert))
        same = len(out) == len(block.ops) and all(a is b for a, b in zip(out, block.ops, strict=True))
        return block if same else Block(tuple(out))

    body = insert(function.body)
    return function if body is function.body else dataclasses.replace(function, body=body)


def _makes_tile(op: Op) -> bool:
    return any(isinstance(value.type, TileType) for value in op.defined_values())
