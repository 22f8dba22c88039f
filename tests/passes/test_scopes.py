"""Which barriers pay for cluster scope."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.ir.effects import Span
from phalanx.ir.types import I32
from support.front import array, prepared


def paying(kernel: Any, *types: Any) -> set[str]:
    function = prepared(kernel, types)
    effects = [op.effects() for op in function.walk()]
    signals = [part for e in effects for part in (*e.arrivals, *e.waits)]
    found = {part.barrier.barrier.name for part in signals if part.scope is Span.CLUSTER}
    local = [part for e in effects for part in e.arrivals if part.mask is None]
    assert all(part.scope is Span.CTA for part in local)
    for name in found:  # both sides of it
        assert {part.scope for part in signals if part.barrier.barrier.name == name and part not in local} == {Span.CLUSTER}
    return found


@px.kernel(cluster=2)
def multicast(X):
    s = px.shared((32, 32), px.f32)
    full = px.barrier(count=1)
    empty = px.barrier(count=2)
    with full.transaction():
        if px.cluster.rank() == 0:
            px.tma.load(X[0:32, 0:32], s, full, multicast=3)
    full.wait(0)
    empty.arrive(ctas=3)
    empty.wait(0)


def test_copies_and_releases_of_slots_stay_cheap() -> None:
    assert paying(multicast, array(2)) == set()


@px.kernel(cluster=2)
def push(X):
    s = px.shared((32, 32), px.f32)
    ready = px.barrier(count=1)
    other = px.barrier(count=1)
    peer = px.cluster.rank() ^ 1
    px.store(s.at(peer), px.load(X[0:32, 0:32]))
    ready.arrive(ctas=1 << peer)
    ready.wait(0)
    other.arrive()
    other.wait(0)


def test_a_store_to_a_peer_is_released_and_acquired() -> None:
    assert paying(push, array(2)) == {"ready"}


@px.kernel(cluster=2)
def pull(X, Y):
    s = px.shared((32, 32), px.f32)
    ready = px.barrier(count=1)
    peer = px.cluster.rank() ^ 1
    px.store(s, px.load(X[0:32, 0:32]))
    ready.arrive(ctas=1 << peer)
    ready.wait(0)
    px.store(Y[0:32, 0:32], px.load(s.at(peer)))


def test_a_load_from_a_peer_counts_too() -> None:
    assert paying(pull, array(2), array(2)) == {"ready"}


@px.kernel(cluster=2)
def through_global(X, Y):
    ready = px.barrier(count=1)
    peer = px.cluster.rank() ^ 1
    px.store(Y[0:32, 0:32], px.load(X[0:32, 0:32]))
    ready.arrive(ctas=1 << peer)
    ready.wait(0)
    px.store(X[0:32, 0:32], px.load(Y[32:64, 0:32]))


def test_global_memory_that_is_stored_and_loaded_counts() -> None:
    assert paying(through_global, array(2), array(2)) == {"ready"}


@px.kernel(cluster=1)
def alone(X):
    ready = px.barrier(count=1)
    px.store(X[0:32, 0:32], px.load(X[0:32, 0:32]) * 2)
    ready.arrive(ctas=1)
    ready.wait(0)


def test_a_cluster_of_one_has_no_peers() -> None:
    assert paying(alone, array(2)) == set()


@px.kernel(cluster=2)
def store_after_the_pipeline(X, Y):
    """Stages are released in a loop; only then does the CTA write into its peer."""
    s = px.shared((32, 32), px.f32)
    inbox = px.shared((32, 32), px.f32)
    full, empty, ready = px.barrier(), px.barrier(), px.barrier()
    peer = px.cluster.rank() ^ 1
    for k in range(4):
        empty.wait(k % 2 ^ 1)
        with full.transaction():
            px.tma.load(X[0:32, 0:32], s, full)
        full.wait(k % 2)
        empty.arrive(ctas=3)
    px.store(inbox.at(peer), px.load(s))
    ready.arrive(ctas=1 << peer)
    ready.wait(0)
    px.store(Y[0:32, 0:32], px.load(inbox))


def test_a_pipeline_does_not_pay_for_what_comes_after_it() -> None:
    assert paying(store_after_the_pipeline, array(2), array(2)) == {"ready"}


@px.kernel(cluster=2)
def store_in_every_round(X, Y):
    inbox = px.shared((32, 32), px.f32)
    ready, free = px.barrier(), px.barrier()
    peer = px.cluster.rank() ^ 1
    for k in range(4):
        free.wait(k % 2 ^ 1)
        px.store(inbox.at(peer), px.load(X[0:32, 0:32]))
        ready.arrive(ctas=1 << peer)
        ready.wait(k % 2)
        px.store(Y[0:32, 0:32], px.load(inbox))
        free.arrive(ctas=1 << peer)


def test_a_store_of_an_earlier_round_reaches_every_arrive_of_the_loop() -> None:
    assert paying(store_in_every_round, array(2), array(2)) == {"ready", "free"}


@px.kernel(cluster=2, warps=2)
def store_in_another_role(X, Y):
    inbox = px.shared((32, 32), px.f32)
    here, there = px.barrier(), px.barrier()
    peer = px.cluster.rank() ^ 1
    with px.warps(0, 1):
        px.store(inbox.at(peer), px.load(X[0:32, 0:32]))
        here.arrive()
    with px.warps(1, 1):
        here.wait(0)
        there.arrive(ctas=1 << peer)
        there.wait(0)
        px.store(Y[0:32, 0:32], px.load(inbox))


def test_a_store_of_another_role_is_passed_on() -> None:
    assert paying(store_in_another_role, array(2), array(2)) == {"there"}


@px.kernel(cluster=2)
def store_before_a_cluster_sync(X, Y):
    inbox = px.shared((32, 32), px.f32)
    done = px.barrier()
    peer = px.cluster.rank() ^ 1
    px.store(inbox.at(peer), px.load(X[0:32, 0:32]))
    px.cluster.sync()
    px.store(Y[0:32, 0:32], px.load(inbox))
    done.arrive(ctas=3)
    done.wait(0)


def test_a_cluster_sync_has_published_what_came_before_it() -> None:
    assert paying(store_before_a_cluster_sync, array(2), array(2)) == set()


@px.kernel(cluster=2)
def left_before_the_sync(X, n):
    s = px.shared((32, 32), px.f32)
    ready = px.barrier(count=1)
    peer = px.cluster.rank() ^ 1
    for _ in range(n):
        px.store(s.at(peer), px.load(X[0:32, 0:32]))
        if n > 3:
            break
        px.cluster.sync()
    ready.arrive(ctas=1 << peer)
    ready.wait(0)


def test_a_way_out_of_a_loop_carries_its_stores_past_the_sync_at_the_loops_end() -> None:
    assert paying(left_before_the_sync, array(2), I32) == {"ready"}


@px.kernel(cluster=2)
def synced_in_every_iteration(X, n):
    s = px.shared((32, 32), px.f32)
    ready = px.barrier(count=1)
    peer = px.cluster.rank() ^ 1
    for i in range(n):
        ready.arrive(ctas=1 << peer)
        ready.wait(i & 1)
        px.store(s.at(peer), px.load(X[0:32, 0:32]))
        px.cluster.sync()


def test_a_sync_at_the_end_of_an_iteration_orders_its_stores_before_the_next() -> None:
    assert paying(synced_in_every_iteration, array(2), I32) == set()


@px.kernel(cluster=2)
def atomics_in_turn(X):
    """The second CTA's update comes after the first one's, and gives what that left: the barrier says so."""
    turn = px.barrier(count=1)
    if px.cluster.rank() == 0:
        px.atomic_add(X[0], 1.0)
        turn.arrive(ctas=2)
    else:
        turn.wait(0)
        px.store(X[1], px.atomic_add(X[0], 1.0))


def test_atomic_updates_that_a_barrier_orders_pay() -> None:
    assert paying(atomics_in_turn, array(1)) == {"turn"}
