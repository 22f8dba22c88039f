"""Which barriers pay for cluster scope."""

from __future__ import annotations

from typing import Any

import phalanx as px
from front import array, prepared
from phalanx.passes.scopes import choose_scopes


def paying(kernel: Any, *types: Any) -> set[str]:
    return {barrier.name for barrier in choose_scopes(prepared(kernel, types)).cluster}


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
    scopes = choose_scopes(prepared(push, (array(2),)))
    (barrier,) = scopes.cluster
    assert scopes.release(barrier, remote=True) == ".release.cluster"
    assert scopes.release(barrier, remote=False) == ""
    assert scopes.acquire(barrier) == ".acquire.cluster"


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
