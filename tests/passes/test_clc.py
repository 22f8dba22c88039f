"""What the passes make of cluster launch control: bytes and arrivals by rank, syncs, the target, the listing."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.cuda.prepare import default_arch
from phalanx.errors import Error
from phalanx.ir.core import Function
from phalanx.ir.ops.cluster import ClusterSync
from phalanx.ir.ops.mbarrier import ArriveExpectTx, BarrierInit
from phalanx.ir.printer import text
from phalanx.ir.values import constant_of
from phalanx.language.reader.reading import read_kernel
from support.front import array, prepared


@px.kernel(warps=2, cluster=lambda CLUSTER: CLUSTER)
def asks(X, *, CLUSTER):
    result, full, empty = px.shared((4,), px.i32), px.barrier(), px.barrier()
    with px.warps(0, 1):
        turn, more = px.ring(1), True
        while more:
            if px.cluster.rank() == 0:
                empty.wait(turn.parity ^ 1)
            with full.transaction():
                px.clc.try_cancel(result, full)
            full.wait(turn.parity)
            more, _ = px.clc.query(result)
            empty.arrive(ctas=1)
            turn.advance()
    with px.warps(1, 1):
        turn, more, block = px.ring(1), True, px.block_id(0)
        while more:
            px.store(X[block], 1.0)
            full.wait(turn.parity)
            more, block = px.clc.query(result)
            empty.arrive(ctas=1)
            turn.advance()


def made(cluster: object) -> Function:
    return prepared(asks, (array(1),), CLUSTER=cluster)


@pytest.mark.parametrize("cluster", [1, 2, 4, (2, 2)])
def test_every_cta_expects_its_own_16_bytes(cluster: object) -> None:
    (armed,) = [op for op in made(cluster).walk() if isinstance(op, ArriveExpectTx)]
    assert constant_of(armed.nbytes) == 16, "the same in all ranks"


@pytest.mark.parametrize(("cluster", "size"), [(1, 1), (2, 2), ((2, 2), 4)])
def test_every_reading_role_of_every_cta_counts_in_rank_0(cluster: object, size: int) -> None:
    full, empty = (op.counts for op in made(cluster).walk() if isinstance(op, BarrierInit))
    assert {count for row in full for count in row} == {1}
    assert empty[0] == (2 * size,)


def test_bytes_are_added_to_those_of_copies() -> None:
    @px.kernel(warps=1, cluster=2)
    def together(X):
        result, tile, full = px.shared((4,), px.i32), px.shared((64,), px.f32), px.barrier()
        with full.transaction():
            px.clc.try_cancel(result, full)
            px.tma.load(X[0:64], tile, full)
        full.wait(0)
        more, _ = px.clc.query(result)
        px.store(X[px.block_id(0)], px.where(more, px.max(px.load(tile)), 0.0))

    (armed,) = [op for op in prepared(together, (array(1),)).walk() if isinstance(op, ArriveExpectTx)]
    assert constant_of(armed.nbytes) == 16 + 64 * 4


def test_the_listing_shows_who_asks_and_what_lands_where() -> None:
    listing = text(made(2))
    assert "%2: bool = eq %rank, 0" in listing and "if %2 {\n" in listing
    assert "clc.try_cancel response=result, full, ctas=0b11 {completes 16 bytes}" in listing
    assert "%granted: bool, %block: i32 = clc.query response=result" in listing
    assert "clc.try_cancel response=result, full {completes 16 bytes}" in text(made(1))


def test_clusters_end_together_and_single_ctas_do_not_wait() -> None:
    assert isinstance(made(2).body.ops[-1], ClusterSync)
    assert not any(isinstance(op, ClusterSync) for op in made(1).walk())


@px.kernel(warps=1, cluster=2, exit_sync=False)
def without_exit_sync(X, *, MEET, EARLY=False):
    result, full = px.shared((4,), px.i32), px.barrier()
    with full.transaction():
        px.clc.try_cancel(result, full)
    full.wait(0)
    more, block = px.clc.query(result)
    if EARLY:
        if more:
            return
    px.store(X[block], 1.0)
    if MEET:
        px.cluster.sync()


def test_exit_sync_can_be_left_out_where_the_kernel_ends_together() -> None:
    function = prepared(without_exit_sync, (array(1),), MEET=True)
    assert sum(isinstance(op, ClusterSync) and not op.relaxed for op in function.walk()) == 1
    for constants in ({"MEET": False}, {"MEET": True, "EARLY": True}):
        with pytest.raises(Error, match=r"px\.clc\.try_cancel in a cluster needs all its CTAs"):
            prepared(without_exit_sync, (array(1),), **constants)


def test_the_default_target_has_it() -> None:
    for cluster in (1, 2):
        constants = asks.bind_constants({"CLUSTER": cluster})
        assert default_arch(read_kernel(asks, (array(1),), constants).function).name == "sm_100a"
