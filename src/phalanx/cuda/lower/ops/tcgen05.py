"""How tiles lie in registers that come from tensor memory, or go there."""

from __future__ import annotations

from phalanx.cuda.lower.layout_rules import OneOf, Same, Wish, asks
from phalanx.cuda.tiles.tensor_views import accesses_of
from phalanx.ir.ops.tcgen05 import Tcgen05Load, Tcgen05Store, Tcgen05WaitLoads


@asks(Tcgen05Load)
def _load(op: Tcgen05Load) -> list[Wish]:
    return [OneOf(op.result, tuple(dict.fromkeys(way.layout for way in accesses_of(op.src, op))))]


@asks(Tcgen05WaitLoads)
def _wait(op: Tcgen05WaitLoads) -> list[Wish]:
    return [Same((result, tile)) for tile, result in op.updates()]


@asks(Tcgen05Store)
def _store(op: Tcgen05Store) -> list[Wish]:
    return [OneOf(op.tile, tuple(dict.fromkeys(way.layout for way in accesses_of(op.dst, op))))]
