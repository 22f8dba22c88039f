"""Rows by index: where their indices are, and between which regions they are copied."""

from __future__ import annotations

from phalanx.cuda.lower.layout_rules import Fixed, Wish, asks, shape_of
from phalanx.cuda.lower.registry import Transfer, transfers
from phalanx.ir.ops.gather import TmaGather, TmaGather4, TmaScatter, TmaScatter4
from phalanx.layouts.rows import index_layout, issue_layout


@asks(TmaGather)
def _gathered(op: TmaGather) -> list[Wish]:
    """The indices of loads are with the warps that issue them."""
    rows = op.src.offsets[0]
    return [Fixed(rows, issue_layout(shape_of(rows)[0], op.warps))]


@asks(TmaScatter)
def _scattered(op: TmaScatter) -> list[Wish]:
    """The lanes of every warp hold the rows' numbers of a store."""
    rows = op.dst.offsets[0]
    return [Fixed(rows, index_layout(shape_of(rows)[0], op.warps))]


@transfers(TmaGather4)
def _four_loads(op: TmaGather4) -> Transfer:
    return Transfer(op.rows, op.dst, op.cache, rows=True, multicast=op.multicast is not None, pair=op.pair)


@transfers(TmaGather)
def _loads(op: TmaGather) -> Transfer:
    return Transfer((op.src,), op.dst, op.cache, rows=True, multicast=op.multicast is not None, pair=op.pair)


@transfers(TmaScatter4)
def _four_stores(op: TmaScatter4) -> Transfer:
    return Transfer(op.rows, op.src, op.cache, rows=True, stores=True)


@transfers(TmaScatter)
def _stores(op: TmaScatter) -> Transfer:
    return Transfer((op.dst,), op.src, op.cache, rows=True, stores=True)
