"""Between which regions the copies of boxes go."""

from __future__ import annotations

from phalanx.cuda.lower.registry import Transfer, transfers
from phalanx.ir.ops.tma import TmaLoad, TmaPrefetch, TmaReduce, TmaStore


@transfers(TmaLoad)
def _load(op: TmaLoad) -> Transfer:
    return Transfer((op.src,), op.dst, op.cache, multicast=op.multicast is not None, pair=op.pair)


@transfers(TmaStore)
def _store(op: TmaStore) -> Transfer:
    return Transfer((op.dst,), op.src, op.cache, stores=True)


@transfers(TmaReduce)
def _reduce(op: TmaReduce) -> Transfer:
    return Transfer((op.dst,), op.src, op.cache, stores=True, folds=op.op)


@transfers(TmaPrefetch)
def _prefetch(op: TmaPrefetch) -> Transfer:
    return Transfer((op.src,), None, op.cache)
