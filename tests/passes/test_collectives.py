"""Collective copies become what each rank issues; pipes give stages back to whoever fills them."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.analysis.ranks import Evaluator, per_rank
from phalanx.ir.core import Function
from phalanx.ir.ops.cluster import ClusterAgree
from phalanx.ir.ops.control import If
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, BarrierInit
from phalanx.ir.ops.tma import TmaLoad
from phalanx.ir.values import constant_of
from support.front import array, prepared

SHAPES = [(m, n) for m in range(1, 17) for n in range(1, 17) if m * n <= 16]


def cluster_of(CLUSTER: Any) -> Any:
    return CLUSTER


def only(function: Function, kind: type) -> Any:
    (found,) = [op for op in function.walk() if isinstance(op, kind)]
    return found


@px.kernel(cluster=cluster_of)
def shared_load(X, *, CLUSTER, BM, MASK):
    s = px.shared((BM, 16), X.dtype)
    full = px.barrier()
    with full.transaction():
        px.cluster.load(X[0:BM, 0:16], s, full, ctas=MASK)
    full.wait(0)


@pytest.mark.parametrize("size", [2, 3, 4, 8, 16])
def test_every_rank_fetches_its_share(size: int) -> None:
    function = prepared(shared_load, (array(2),), CLUSTER=size, BM=2 * size, MASK=(1 << size) - 1)
    load = only(function, TmaLoad)
    assert load.dst.extents == (2, 16) and load.dst.nbytes == 128
    assert per_rank(function, load.src.offsets[0]) == tuple(2 * rank for rank in range(size))
    assert per_rank(function, load.dst.offsets[0]) == tuple(2 * rank for rank in range(size))
    assert constant_of(only(function, ArriveExpectTx).nbytes) == 128 * size
    assert only(function, ClusterAgree).src.extents == (2 * size, 16)


def test_a_mask_of_one_is_a_plain_load() -> None:
    function = prepared(shared_load, (array(2),), CLUSTER=1, BM=8, MASK=1)
    load = only(function, TmaLoad)
    assert load.multicast is None and load.dst.extents == (8, 16)


@px.kernel(cluster=6)
def uneven_groups(X, *, BM=12):
    """Ranks 0 to 3 share a tile, ranks 4 and 5 another; ranks are numbered out of a table."""
    s = px.shared((BM, 16), X.dtype)
    full = px.barrier()
    mask = px.where(px.cluster.rank() < 4, 0b001111, 0b110000)
    with full.transaction():
        px.cluster.load(X[0:BM, 0:16], s, full, ctas=mask)
    full.wait(0)


def test_groups_of_different_sizes() -> None:
    function = prepared(uneven_groups, (array(2),))
    loads = {op.dst.extents[0]: op for op in function.walk() if isinstance(op, TmaLoad)}
    assert sorted(loads) == [3, 6]
    assert [Evaluator(function, rank).number(loads[3].dst.offsets[0]) for rank in range(4)] == [0, 3, 6, 9]
    assert [Evaluator(function, rank).number(loads[6].dst.offsets[0]) for rank in (4, 5)] == [0, 6]
    branches = [op for op in function.walk() if isinstance(op, If)]
    assert sorted(per_rank(function, op.cond) for op in branches) == sorted(
        [(True,) * 4 + (False,) * 2, (False,) * 4 + (True,) * 2]
    )
    assert constant_of(only(function, ArriveExpectTx).nbytes) == 12 * 64


@px.kernel(cluster=4)
def columns(X):
    """Every other rank: shares are numbered within the mask."""
    s = px.shared((8, 16), X.dtype)
    full = px.barrier()
    with full.transaction():
        px.cluster.load(X[0:8, 0:16], s, full, ctas=0b0101 << px.cluster.rank() % 2)
    full.wait(0)


def test_shares_are_numbered_within_the_mask() -> None:
    function = prepared(columns, (array(2),))
    assert per_rank(function, only(function, TmaLoad).src.offsets[0]) == (0, 0, 4, 4)


@px.kernel(cluster=4)
def lowest(X):
    s = px.shared((8, 16), X.dtype)
    full = px.barrier()
    with full.transaction():
        px.cluster.copy(X[0:8, 0:16], s, full, mask=0b0110)
    full.wait(0)


def test_the_lowest_rank_fetches_and_outsiders_fetch_their_own() -> None:
    function = prepared(lowest, (array(2),))
    issuers = {}
    for op in function.walk():
        if isinstance(op, If):
            (load,) = [inner for inner in op.then if isinstance(inner, TmaLoad)]
            issuers[load.multicast is not None] = per_rank(function, op.cond)
    assert issuers == {True: (False, True, False, False), False: (True, False, False, True)}
    assert constant_of(only(function, ArriveExpectTx).nbytes) == 512


# --- pipes
# --------------------------------------------------------------------------------------------------------------


@px.kernel(warps=3, cluster=cluster_of)
def both_ways(A, B, *, CLUSTER, BM, STAGES=2):
    """Each CTA multicasts its share of A along its row and of B along its column."""
    wide, high = px.cluster.size(0), px.cluster.size(1)
    x, y = px.cluster.rank(0), px.cluster.rank(1)
    a, b = px.shared((STAGES, BM, 16), A.dtype), px.shared((STAGES, BM, 16), A.dtype)
    across = ((1 << wide) - 1) << (wide * y)
    down = 0
    for row in px.static_range(high):
        down = down | 1 << (wide * row + x)
    pipe = px.pipe(STAGES, consumers=2)
    with px.warps(0, 1):
        for k in range(4):
            with pipe.produce() as s:
                px.cluster.load(A[0:BM, k * 16 : k * 16 + 16], a[s], pipe.full[s], ctas=across)
                px.cluster.load(B[0:BM, k * 16 : k * 16 + 16], b[s], pipe.full[s], ctas=down)
    with px.warps(1, 1):
        for _ in range(4):
            with pipe.consume() as s:
                px.store(A[0:1, 0:16], px.load(a[s, 0:1]))
    with px.warps(2, 1):
        for _ in range(4):
            with pipe.consume() as s:
                px.store(B[0:1, 0:16], px.load(b[s, 0:1]))


@pytest.mark.share(9)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stages_go_back_to_everybody_who_fills_them(shape: tuple[int, int]) -> None:
    """The count of `empty` is that of an independent enumeration: m + n - 1 CTAs, twice the consumers."""
    wide, high = shape
    function = prepared(both_ways, (array(2), array(2)), CLUSTER=(wide, high), BM=wide * high)
    size = wide * high
    fills = {(p, q) for p in range(size) for q in range(size) if p // wide == q // wide or p % wide == q % wide}
    inits = {op.barrier.name: op for op in function.walk() if isinstance(op, BarrierInit)}
    assert inits["pipe_empty"].counts == ((2 * (wide + high - 1),) * 2,) * size
    assert inits["pipe_full"].counts == ((1, 1),) * size
    back = [sum(1 << p for p in range(size) if (p, q) in fills) for q in range(size)]
    for op in function.walk():
        if isinstance(op, Arrive) and size > 1:
            assert op.ctas is not None and list(per_rank(function, op.ctas)) == back


@px.kernel(warps=2, cluster=2)
def plain_pipe(X, *, STAGES=2):
    s = px.shared((STAGES, 8, 16), X.dtype)
    pipe = px.pipe(STAGES)
    with px.warps(0, 1):
        with pipe.produce() as stage:
            px.tma.load(X[0:8, 0:16], s[stage], pipe.full[stage])
    with px.warps(1, 1):
        with pipe.consume() as stage:
            px.store(X[8:16, 0:16], px.load(s[stage]))


def test_without_multicast_a_stage_stays_at_home() -> None:
    function = prepared(plain_pipe, (array(2),))
    assert only(function, Arrive).ctas is None


@px.kernel(warps=1)
def by_hand(X, Y, *, STAGES=3):
    """One agent fills two stages ahead and takes them in turn, with ordinary stores."""
    s = px.shared((STAGES, 16), X.dtype)
    pipe = px.pipe(STAGES)
    for k in range(2):
        stage = pipe.acquire()
        px.store(s[stage], px.load(X[k, 0:16]))
        pipe.commit()
    for k in range(6):
        if k + 2 < 6:
            stage = pipe.acquire()
            px.store(s[stage], px.load(X[k + 2, 0:16]))
            pipe.commit()
        stage = pipe.wait()
        px.store(Y[k, 0:16], px.load(s[stage]))
        pipe.release()


def test_filling_and_taking_have_places_of_their_own() -> None:
    import numpy as np

    x = np.arange(96, dtype=np.float32).reshape(6, 16)
    y = np.zeros_like(x)
    by_hand[1](x, y)
    np.testing.assert_array_equal(x, y)
