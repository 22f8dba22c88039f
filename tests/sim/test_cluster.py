"""Clusters: ranks, barriers, peers' memory, multicast."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.errors import Error
from phalanx.ir import types as ty
from phalanx.ir.ops import cluster
from phalanx.ir.values import Value
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from sim.build import Build, at, const, ref, sh

KINDS = [Schedule("late"), Schedule("early"), *(Schedule("random", seed) for seed in range(5))]


def test_ranks_and_ids():
    b = Build(cluster=(2, 3, 1))
    out = b.array(3, ty.i32)
    numbers = [b.rank(), b.rank(0), b.rank(1)]
    numbers += [b.add(cluster.ClusterId(d, Value(ty.I32))) for d in (None, 0, 1)]
    for i, number in enumerate(numbers):
        b.store(at(out, b.block_id(1), b.block_id(0), i), number)
    got = np.zeros((6, 4, 6), np.int32)
    simulate(b.done(), (4, 6), [got])
    for y in range(6):
        for x in range(4):
            cx, cy, rx, ry = x // 2, y // 3, x % 2, y % 3
            assert got[y, x].tolist() == [rx + 2 * ry, rx, ry, cx + 2 * cy, cx, cy]


def test_grid_must_divide():
    b = Build(cluster=(2, 1, 1))
    with pytest.raises(Error, match=r"a grid of \(3, 1, 1\) CTAs does not consist of clusters of \(2, 1, 1\)"):
        simulate(b.done(), 3, [])


@pytest.mark.parametrize("schedule", KINDS, ids=str)
def test_exchange_through_a_peers_memory(schedule):
    """Every CTA writes its block id into its neighbour, syncs, and reads what it was given."""
    b = Build(cluster=(4, 1, 1))
    out = b.array(1, ty.i32)
    s = b.shared((4,), ty.i32)
    right = b.binary("and", b.binary("add", b.rank(), 1), 3)
    b.store(sh(s, cta=right), b.block_id())
    b.cluster_sync()
    b.store(at(out, (b.binary("mul", b.block_id(), 4), 4)), b.load(sh(s)))
    b.cluster_sync()
    got = np.zeros(32, np.int32)
    simulate(b.done(), 8, [got], schedule=schedule)
    expected = [block - block % 4 + (block + 3) % 4 for block in range(8)]
    assert got.reshape(8, 4).tolist() == [[e] * 4 for e in expected]


def test_load_from_a_peer_and_a_rank_outside():
    b = Build(cluster=(2, 1, 1))
    out, rank = b.array(1, ty.i32), b.scalar(ty.i32)
    s = b.shared((2, 4), ty.i32)
    b.store(sh(s), b.rank())
    b.cluster_sync()
    b.store(at(out, (b.binary("mul", b.rank(), 4), 4)), b.load(sh(s, 1, cta=rank)))
    b.cluster_sync()
    got = np.zeros(8, np.int32)
    simulate(b.done(), 2, [got, 1])
    assert (got == 1).all()
    with pytest.raises(Error, match="CTA 2 is outside the cluster of 2") as error:
        simulate(b.done(), 2, [got, 2])
    assert error.value.kind == "out-of-bounds"


@pytest.mark.parametrize("schedule", KINDS, ids=str)
def test_multicast_lands_everywhere_with_full_bytes(schedule):
    """Rank 1 fetches once for all; every CTA expects the whole tile."""
    b = Build(cluster=(3, 1, 1))
    x, y = b.array(2), b.array(3)
    s, bar = b.shared((2, 4, 4)), b.barrier(2)
    b.cluster_sync()
    b.arrive_expect(ref(bar, 1), 64)
    with b.if_(b.compare("eq", b.rank(), 1)):
        b.tma_load(at(x, (2, 4), (4, 4)), sh(s, 1), ref(bar, 1), multicast=b.binary("or", 5, 2))
    b.wait(ref(bar, 1), 0)
    b.store(at(y, b.block_id(), (0, 4), (0, 4)), b.load(sh(s, 1)))
    b.cluster_sync()
    data, got = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((6, 4, 4), np.float32)
    simulate(b.done(), 6, [data, got], schedule=schedule)
    assert np.array_equal(got, np.broadcast_to(data[2:6, 4:8], (6, 4, 4)))


def test_multicast_need_not_include_the_issuer():
    b = Build(cluster=(2, 1, 1))
    x, y = b.array(1), b.array(2)
    s, bar = b.shared((4,)), b.barrier()
    b.store(sh(s), const(7.0))
    b.cluster_sync()
    with b.if_(b.compare("eq", b.rank(), 0)):
        b.tma_load(at(x, (0, 4)), sh(s), ref(bar), multicast=2)
    with b.if_(b.compare("eq", b.rank(), 1)):
        b.arrive_expect(ref(bar), 16)
        b.wait(ref(bar), 0)
    b.cluster_sync()
    b.store(at(y, b.rank(), (0, 4)), b.load(sh(s)))
    got = np.zeros((2, 4), np.float32)
    simulate(b.done(), 2, [np.ones(4, np.float32), got])
    assert got.tolist() == [[7] * 4, [1] * 4]


@pytest.mark.parametrize("mask", [4, 0])
def test_multicast_mask_is_checked(mask):
    b = Build(cluster=(2, 1, 1))
    x = b.array(1)
    s, bar = b.shared((4,)), b.barrier()
    b.tma_load(at(x, (0, 4)), sh(s), ref(bar), multicast=mask)
    with pytest.raises(Error, match="names CTAs outside the cluster of 2" if mask else "names no CTA"):
        simulate(b.done(), 2, [np.ones(4, np.float32)])


@pytest.mark.parametrize("schedule", KINDS, ids=str)
def test_split_arrive_and_wait(schedule):
    b = Build(cluster=(2, 1, 1))
    out = b.array(1, ty.i32)
    s = b.shared((1,), ty.i32)
    other = b.binary("xor", b.rank(), 1)
    for turn in range(3):
        b.store(sh(s, cta=other), b.binary("add", b.rank(), turn))
        b.add(cluster.ClusterArrive(loc=b.here()))
        b.add(cluster.ClusterWait(loc=b.here()))
        b.store(at(out, b.binary("add", b.rank(), 2 * turn)), b.load(sh(s, 0)))
        b.cluster_sync()
    got = np.zeros(6, np.int32)
    simulate(b.done(), 2, [got], schedule=schedule)
    assert got.tolist() == [1, 0, 2, 1, 3, 2]


def test_misuse_of_the_cluster_barrier():
    b = Build(cluster=(2, 1, 1))
    b.add(cluster.ClusterWait(loc=b.here()))
    with pytest.raises(Error, match=r"without a px\.cluster\.arrive"):
        simulate(b.done(), 2, [])
    b = Build(cluster=(2, 1, 1))
    b.add(cluster.ClusterArrive(loc=b.here()))
    b.add(cluster.ClusterArrive(loc=b.here()))
    with pytest.raises(Error, match="twice without a wait"):
        simulate(b.done(), 2, [])


@pytest.mark.parametrize("schedule", KINDS, ids=str)
def test_roles_that_cover_all_warps_may_sync_the_cluster(schedule):
    b = Build(warps=4, cluster=(2, 1, 1))
    out = b.array(2, ty.i32)
    s = b.shared((2,), ty.i32)
    other = b.binary("xor", b.rank(), 1)
    with b.roles() as regions:
        for number, (first, count) in enumerate(((0, 1), (1, 3))):
            with b.role(regions, f"role{number}", first, count):
                b.store(sh(s, number, cta=other), b.binary("add", b.rank(), 10 * number))
                b.cluster_sync()
                b.store(at(out, b.rank(), number), b.load(sh(s, 1 - number)))
                b.cluster_sync()
    got = np.zeros((2, 2), np.int32)
    simulate(b.done(), 2, [got], schedule=schedule)
    assert got.tolist() == [[11, 1], [10, 0]]


def test_an_exited_cta_is_not_waited_for():
    b = Build(cluster=(2, 1, 1))
    out = b.array(1, ty.i32)
    with b.if_(b.compare("eq", b.rank(), 0)):
        b.cluster_sync()
        b.store(at(out, 0), 1)
    got = np.zeros(1, np.int32)
    simulate(b.done(), 2, [got])
    assert got[0] == 1
