"""Pushes, collective copies, pipes and reductions: clean as they stand, and one planted mistake at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
import support.cluster_cases as cluster_cases
import support.collective_cases as collective_cases
from support.cluster_cases import label
from support.cluster_launches import SHAPES, Shape

CASES = [(module, name) for module in (cluster_cases, collective_cases) for name in module.MAKERS]


@pytest.mark.share(18)
@pytest.mark.parametrize("shape", SHAPES, ids=label)
@pytest.mark.parametrize(("module", "name"), CASES, ids=lambda part: part if isinstance(part, str) else "")
def test_is_clean(module: Any, name: str, shape: Shape) -> None:
    made = module.case(name, shape)
    report = px.check(made.kernel[made.grid], *made.args, **made.constants)
    assert report.ok, str(report)


def kinds(launch: Any, *args: Any, **constants: Any) -> set[str]:
    return {finding.kind for finding in px.check(launch, *args, **constants).findings}


@px.kernel(warps=2, cluster=2)
def relay(X, Y, *, FENCE=True, RELEASE=True, WAIT=True, BYTES=256, STAGES=2, N=64):
    """Each CTA pushes rows to the other through a ring of stages."""
    rank = px.cluster.rank()
    mine, inbox = px.shared((STAGES, N), X.dtype), px.shared((STAGES, N), X.dtype)
    full, empty = px.barrier(STAGES, count=1), px.barrier(STAGES)
    ring = px.ring(STAGES)
    with px.warps(0, 1):
        for turn in range(6):
            if RELEASE:
                empty[ring.stage].wait(ring.parity ^ 1)
            px.store(mine[ring.stage], px.load(X[rank, turn, 0:N]))
            if FENCE:
                px.fence.async_proxy()
            full[ring.stage].arrive_and_expect_tx(BYTES, ctas=1 << (rank ^ 1))
            px.cluster.copy(mine[ring.stage], inbox[ring.stage], full[ring.stage], cta=rank ^ 1)
            ring.advance()
    with px.warps(1, 1):
        for turn in range(6):
            if WAIT:
                full[ring.stage].wait(ring.parity)
            px.store(Y[rank, turn, 0:N], px.load(inbox[ring.stage]))
            empty[ring.stage].arrive(ctas=1 << (rank ^ 1))
            ring.advance()


def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((2, 6, 64)).astype(np.float32)
    return x, np.zeros_like(x)


def test_the_relay_is_clean() -> None:
    x, y = arrays()
    assert kinds(relay[2], x, y) == set()


def test_a_push_after_ordinary_stores_needs_the_proxy_fence() -> None:
    assert kinds(relay[2], *arrays(), FENCE=False) == {"proxy"}


def test_a_stage_that_is_filled_again_before_it_was_released() -> None:
    assert "race" in kinds(relay[2], *arrays(), RELEASE=False)


def test_an_inbox_that_is_read_before_it_is_full() -> None:
    assert "race" in kinds(relay[2], *arrays(), WAIT=False)


def test_bytes_that_do_not_add_up() -> None:
    assert "tx-mismatch" in kinds(relay[2], *arrays(), BYTES=512)


@px.kernel(warps=2, cluster=2)
def forgetful_pipe(X, Y, *, EVERYBODY=True, STAGES=2):
    """The stage is given back to this CTA alone, although both fill it."""
    rank = px.cluster.rank()
    stages = px.shared((STAGES, 32, 32), X.dtype)
    pipe = px.pipe(STAGES, ctas=0b11 if EVERYBODY else 1 << rank)
    with px.warps(0, 1):
        for t in range(6):
            with pipe.produce() as s:
                px.cluster.load(X[t * 32 : t * 32 + 32, 0:32], stages[s], pipe.full[s], ctas=0b11)
    with px.warps(1, 1):
        for t in range(6):
            with pipe.consume() as s:
                px.store(Y[rank, t * 32 : t * 32 + 32, 0:32], px.load(stages[s]))


def test_a_multicast_stage_that_is_not_released_to_every_issuer() -> None:
    x, y = np.ones((192, 32), np.float32), np.zeros((2, 192, 32), np.float32)
    assert kinds(forgetful_pipe[2], x, y) == set()
    assert "race" in kinds(forgetful_pipe[2], x, y, EVERYBODY=False)


@px.kernel(cluster=2)
def sometimes(X, Y, every):
    x = px.load(X[0, 0:32])
    if px.block_id(0) >= every:
        x = px.cluster.reduce(x, "sum")
    px.store(Y[px.block_id(0), 0:32], x)


def test_a_reduction_that_a_cta_leaves_out() -> None:
    x, y = np.ones((1, 32), np.float32), np.zeros((2, 32), np.float32)
    assert kinds(sometimes[2], x, y, 0) == set()
    report = px.check(sometimes[2], x, y, 1)
    assert [finding.kind for finding in report.findings] == ["deadlock"]
    assert "waits for the other CTAs in exchange number 0 of the cluster" in str(report)


@px.kernel(cluster=2)
def reduces_instead_of_syncing(X, Y, *, SYNC=False):
    """A store into the peer's memory, and then only a reduction before it is read there."""
    rank = px.cluster.rank()
    s = px.shared(32, px.f32)
    x = px.load(X[0, 0:32])
    px.store(s.at(1 - rank), x)
    if SYNC:
        px.cluster.sync()
    total = px.cluster.reduce(px.sum(x), "sum") + px.sum(px.cluster.gather(px.max(x)))
    px.store(Y[rank, 0:32], px.load(s) + total)


def test_an_exchange_orders_no_other_memory() -> None:
    x, y = np.ones((1, 32), np.float32), np.zeros((2, 32), np.float32)
    assert kinds(reduces_instead_of_syncing[2], x, y, SYNC=True) == set()
    assert kinds(reduces_instead_of_syncing[2], x, y) == {"race"}


@px.kernel(warps=2, cluster=2)
def taken_over(X, Y, *, SCOPE=None, SYNC=False):
    """Threads of a CTA store into the other's memory; a later buffer there is filled by copies of the same CTA's engine."""
    rank = px.cluster.rank()
    meeting = px.shared((32, 64), px.f32)
    px.cluster.sync()
    px.store(meeting.at(1 - rank), px.load(X[0:32, 0:64]))
    px.cluster.sync()
    px.store(Y[rank, 0:32, 0:64], px.load(meeting))
    px.cluster.sync()
    if SCOPE is not None:
        px.fence.async_proxy(SCOPE)
    inbox = px.shared((32, 64), px.f32, reuse=meeting)
    mine = px.shared((32, 64), px.f32)
    full = px.barrier()
    if SYNC:
        px.cluster.sync()
    with px.warps(0, 1):
        px.store(mine, px.full((32, 64), 3.0, px.f32))
        px.fence.async_proxy()
        full.arrive_and_expect_tx(mine.nbytes, ctas=1 << (1 - rank))
        px.cluster.copy(mine, inbox, full, cta=1 - rank)
    with px.warps(1, 1):
        full.wait(0)
        px.store(Y[rank, 0:32, 0:64], px.load(inbox))


@pytest.mark.parametrize(
    ("scope", "sync", "found"),
    [
        (None, False, {"proxy"}), (None, True, {"proxy"}), ("cta", False, {"proxy"}), ("cta", True, set()),
        ("cluster", False, set()),
    ],
)
def test_whose_fence_covers_what_a_peer_stored(scope: str | None, sync: bool, found: set[str]) -> None:
    """Who stored fences with the scope of the cluster; or who owns the memory fences it, and tells the other CTA."""
    x, y = np.ones((32, 64), np.float32), np.zeros((2, 32, 64), np.float32)
    assert kinds(taken_over[2], x, y, SCOPE=scope, SYNC=sync) == found
