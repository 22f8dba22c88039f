"""What exchanges over the cluster ask of the tiles they send and receive, and which copies go from CTA to CTA."""

from __future__ import annotations

import dataclasses
from math import prod

from phalanx.cuda.lower.layout_rules import Prefer, Same, Wish, asks, is_tile, shape_of, stored
from phalanx.cuda.lower.registry import Push, pushes
from phalanx.ir.ops.cluster import ClusterCopy, ClusterGather, ClusterReduce, ClusterStore
from phalanx.layouts.blocked import whole_in_every_warp
from phalanx.layouts.registers import LANES

GATHERED_WHOLE = 8
"""Registers of a thread that a gathered tile may take, whole in every warp."""
WIDEST = 16
"""Bytes of one access to shared memory."""


@asks(ClusterStore)
def _store(op: ClusterStore) -> list[Wish]:
    return stored(op.value, op.view)


@asks(ClusterReduce)
def _cluster_reduce(op: ClusterReduce) -> list[Wish]:
    return [Same((op.result, op.x))] if is_tile(op.x) else []


@asks(ClusterGather)
def _cluster_gather(op: ClusterGather) -> list[Wish]:
    """Up to some size every warp reads all that was gathered: what follows folds it, and needs no other warp."""
    wishes: list[Wish] = [Same(op.xs)] if is_tile(op.xs[0]) else []
    shape, vector = shape_of(op.results[0]), WIDEST // op.record_bytes(0)
    if prod(shape) <= GATHERED_WHOLE * LANES:
        wishes += [Prefer(result, lambda warps: whole_in_every_warp(shape, warps, vector)) for result in op.results]
    return wishes


@pushes(ClusterCopy)
def _push(op: ClusterCopy) -> Push:
    return Push(op.src, op.dst, op.bar, op.nbytes, lambda how: dataclasses.replace(op, how=how))
