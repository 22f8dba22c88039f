"""Ordered atomics: what one cluster hands to another and what it does not; counters that a launch leaves at 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.effects import Span
from phalanx.ir.ops.control import Sync
from phalanx.ir.types import bf16
from support.front import array, prepared

PARTS, TILES, N = 3, 2, 64


@px.kernel(warps=2)
def add_up(X, W, Y, *, ORDER="acq_rel", EARLY=False, RESET=True):
    """Each CTA leaves what it has; who comes last to a tile adds it up."""
    done = px.counters(TILES)
    tile, part = px.block_id(0), px.block_id(1)
    mine = px.load(X[tile, part, 0:N])
    if EARLY:
        old = px.atomic_add(done[tile], 1, order=ORDER)
        px.store(W[tile, part, 0:N], 2.0 * mine)
    else:
        px.store(W[tile, part, 0:N], 2.0 * mine)
        old = px.atomic_add(done[tile], 1, order=ORDER)
    if old == PARTS - 1:
        total = px.zeros((N,), px.f32)
        for other in range(PARTS):
            total = total + px.load(W[tile, other, 0:N])
        px.store(Y[tile, 0:N], total)
        if RESET:
            px.atomic_exch(done[tile], 0)


def arrays() -> list[Any]:
    x = np.arange(TILES * PARTS * N, dtype=np.float32).reshape(TILES, PARTS, N)
    return [x, np.zeros_like(x), np.zeros((TILES, N), np.float32)]


def test_who_comes_last_sees_what_all_have_left() -> None:
    x, w, y = arrays()
    add_up[TILES, PARTS](x, w, y)
    assert (y == 2 * x.sum(1)).all()
    assert px.check(add_up[TILES, PARTS], *arrays(), schedules=6).ok
    assert px.explore(add_up[TILES, PARTS], *arrays(), limit=200).ok


@pytest.mark.parametrize("wrong", [{"ORDER": "relaxed"}, {"EARLY": True}])
def test_a_read_that_nothing_orders_behind_another_cluster_is_a_race(wrong: dict[str, Any]) -> None:
    report = px.check(add_up[TILES, PARTS], *arrays(), **wrong)
    assert {finding.kind for finding in report.findings} == {"race"}
    assert 'order="acq_rel"' in report.findings[0].message


def test_a_counter_that_is_not_set_back_is_unfinished() -> None:
    (finding,) = px.check(add_up[TILES, PARTS], *arrays(), RESET=False).findings
    assert finding.kind == "unfinished" and "counters[0] at 3" in finding.message


@px.kernel(warps=2)
def pass_on(X, Y, *, SKIP=False):
    """The first CTA writes, the second hands on what it has learned, the third reads: all by who comes when."""
    done = px.counters(2)
    number = px.block_id(0)
    if number == 0:
        px.store(X[0:N], px.full((N,), 7.0, px.f32))
        px.atomic_add(done[0], 1, order="acq_rel")
    if number == 1:
        told = px.atomic_add(done[0], 0, order="relaxed" if SKIP else "acq_rel")
        if told == 1:
            px.atomic_add(done[1], 1, order="acq_rel")
    if number == 2:
        told = px.atomic_add(done[1], 0, order="acq_rel")
        if told == 1:
            px.store(Y[0:N], px.load(X[0:N]))
        px.atomic_exch(done[0], 0)
        px.atomic_exch(done[1], 0)  # where the first two came before


def passed(**constants: Any) -> list[str]:
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)
    report = px.check(pass_on[3], x, y, schedules=1, **constants)
    return [finding.kind for finding in report.findings if finding.schedule == "late"]


def test_what_was_learned_is_handed_on() -> None:
    assert passed() == []
    assert passed(SKIP=True) == ["race"]


@px.kernel(warps=8)
def between_roles(X, W, Y, *, SYNC=True):
    """The role that learned of others tells the rest of its CTA by its end."""
    done = px.counters(1)
    part = px.block_id(0)
    flag = px.shared((1,), px.i32)
    px.store(W[part, 0:N], px.load(X[part, 0:N]))
    with px.warps(0, 4):
        if SYNC:
            px.store(flag[0], px.atomic_add(done[0], 1, order="acq_rel"))
    with px.warps(4, 4):
        if not SYNC:
            px.store(flag[0], px.atomic_add(done[0], 1, order="relaxed"))
    if px.load(flag[0]) == PARTS - 1:
        px.atomic_exch(done[0], 0)
        px.store(Y[0:N], px.load(W[0, 0:N]) + px.load(W[1, 0:N]))


def test_a_join_hands_on_what_a_role_learned() -> None:
    x = np.ones((PARTS, N), np.float32)
    assert px.check(between_roles[PARTS], x, np.zeros_like(x), np.zeros(N, np.float32)).ok
    report = px.check(between_roles[PARTS], x, np.zeros_like(x), np.zeros(N, np.float32), SYNC=False)
    assert {finding.kind for finding in report.findings} == {"race"}


@px.kernel(warps=4)
def copied(X, Y, *, FENCE="writer"):
    """The second CTA copies what the first has stored, by the engine: one of them fences it, behind the store."""
    done, s, bar = px.counters(1), px.shared((N,), px.f32), px.barrier()
    part = px.block_id(0)
    if FENCE == "early":
        px.fence.async_proxy("global")
    px.store(X[part, 0:N], px.full((N,), 3.0, px.f32))
    if FENCE == "writer":
        px.fence.async_proxy("global")
    last = px.atomic_add(done[0], 1, order="acq_rel") == 1
    if FENCE == "reader":
        px.fence.async_proxy("global")
    if last:
        px.atomic_exch(done[0], 0)
        with bar.transaction():
            px.tma.load(X[1 - part, 0:N], s, bar)
        bar.wait(0)
        px.store(Y[0:N], px.load(s))


@pytest.mark.parametrize("fence, kinds", [("writer", set()), ("reader", set()), ("early", {"proxy"}), ("", {"proxy"})])
def test_an_engine_needs_a_fence_between(fence: str, kinds: set[str]) -> None:
    x, y = np.zeros((2, N), np.float32), np.zeros(N, np.float32)
    assert {finding.kind for finding in px.check(copied[2], x, y, FENCE=fence).findings} == kinds


def test_the_text_releases_behind_a_barrier_of_the_role() -> None:
    specs = [px.spec((TILES, PARTS, N), px.f32)] * 2 + [px.spec((TILES, N), px.f32)]
    source = px.compile(add_up[TILES, PARTS], *specs, arch="sm_90a").source
    assert "atom.acq_rel.gpu.global.add.s32" in source
    before, after = source[source.index("__global__") :].split("atomic_add_i32_global_ordered(counters")
    assert "before one of them tells other CTAs" in before.splitlines()[-3] + before.splitlines()[-4]
    assert "__syncthreads();" in after.splitlines()[2]


@px.kernel(warps=4)
def by_engine(X, Y):
    """What the engine stored is handed on by a thread that need not be the one which waited for the engine."""
    done, s = px.counters(1), px.shared((N,), px.f32)
    part = px.block_id(0)
    px.store(s, px.full((N,), 3.0, px.f32))
    px.fence.async_proxy()
    px.tma.store(s, X[part, 0:N])
    px.tma.commit()
    px.tma.wait(0)
    if px.atomic_add(done[0], 1, order="acq_rel") == 1:
        px.atomic_exch(done[0], 0)
        px.store(Y[0:N], px.load(X[1 - part, 0:N]))


@px.kernel(warps=8)
def by_products(A, B, C):
    """When other CTAs are told, both warpgroups have read the operands: a peer may bring others."""
    done, bar = px.counters(1), px.barrier()
    a, b = px.shared((128, 64), A.dtype), px.shared((64, 64), B.dtype)
    with bar.transaction():
        px.tma.load(A[0:128, 0:64], a, bar)
        px.tma.load(B[0:64, 0:64], b, bar)
    bar.wait(0)
    acc = px.empty((128, 64), px.f32)
    px.wgmma(a, b.T, acc, accumulate=False)
    px.wgmma_commit()
    px.wgmma_wait(0)
    if px.atomic_add(done[0], 1, order="acq_rel") == 1:
        px.atomic_exch(done[0], 0)
    px.store(C[0:128, 0:64], acc)


@pytest.mark.parametrize(
    "kernel, types", [(by_engine, (array(2), array(1))), (by_products, (array(2, bf16), array(2, bf16), array(2)))]
)
def test_a_role_meets_before_one_of_its_threads_tells_others(kernel: Any, types: tuple[Any, ...]) -> None:
    ops = list(prepared(kernel, types).walk())
    (told,) = [number for number, op in enumerate(ops) if op.effects().handshakes]
    assert isinstance(ops[told - 1], Sync)


@px.kernel(warps=4, cluster=2)
def signalling(X, Y, *, TOLD=True, LATE=False):
    """Each CTA signals its peer behind a store; then it reads what others stored, told by an atomic or by the peer.

    LATE: a CTA tells others what it stored behind the signal, else before.
    """
    done, bar = px.counters(1), px.barrier()
    number, last = px.block_id(0), False
    px.store(X[number, 0:N], px.full((N,), 3.0, px.f32))
    if TOLD and not LATE:
        last = px.atomic_add(done[0], 1, order="acq_rel") == 3
    bar.arrive(ctas=1 << (px.cluster.rank() ^ 1))
    bar.wait(0)
    if TOLD and LATE:
        last = px.atomic_add(done[0], 1, order="acq_rel") == 3
    if TOLD:
        if last:
            px.atomic_exch(done[0], 0)
            px.atomic_add(done[0], 0, order="acq_rel")
            px.store(Y[0:N], px.load(X[0, 0:N]) + px.load(X[3, 0:N]))
    else:
        px.store(Y[number * N : number * N + N], px.load(X[number ^ 1, 0:N]))


@pytest.mark.parametrize(
    "constants, scope",
    [({"TOLD": True}, Span.CTA), ({"TOLD": True, "LATE": True}, Span.CLUSTER), ({"TOLD": False}, Span.CLUSTER)],
)
def test_what_an_atomic_brings_needs_no_signal_of_cluster_scope(constants: dict[str, bool], scope: Span) -> None:
    x, y = np.zeros((4, N), np.float32), np.zeros(4 * N, np.float32)
    function = prepared(signalling, (array(2), array(1)), **constants)
    assert {wait.scope for op in function.walk() for wait in op.effects().waits} == {scope}
    assert px.check(signalling[4], x, y, **constants).ok


@px.kernel(warps=4, cluster=2)
def told_for_another(X, Y):
    """One CTA of a cluster stores and signals the other, which tells the clusters: the signal carries the store."""
    done, bar = px.counters(1), px.barrier()
    cluster = px.cluster.id()
    if px.cluster.rank() == 0:
        px.store(X[cluster, 0:N], px.full((N,), 3.0, px.f32))
        bar.arrive(ctas=2)
    else:
        bar.wait(0)
        if px.atomic_add(done[0], 1, order="acq_rel") == 1:
            px.atomic_exch(done[0], 0)
            px.store(Y[0:N], px.load(X[0, 0:N]) + px.load(X[1, 0:N]))


@px.kernel(warps=8, cluster=2)
def told_between_roles(X, Y, *, SHAKES=True):
    """One role stores, and tells others of it unless it leaves that to the peer whom another role signals."""
    done, near, far = px.counters(2), px.barrier(), px.barrier()
    number = px.block_id(0)
    with px.warps(0, 4):
        px.store(X[number, 0:N], px.full((N,), 3.0, px.f32))
        if SHAKES:
            if px.atomic_add(done[0], 1, order="acq_rel") == 3:
                px.atomic_exch(done[0], 0)
                px.store(Y[0:N], px.load(X[0, 0:N]) + px.load(X[3, 0:N]))
        near.arrive()
    with px.warps(4, 4):
        near.wait(0)
        far.arrive(ctas=1 << (px.cluster.rank() ^ 1))
        far.wait(0)
        if not SHAKES:
            if px.atomic_add(done[1], 1, order="acq_rel") == 3:
                px.atomic_exch(done[1], 0)
                px.store(Y[0:N], px.load(X[0, 0:N]) + px.load(X[3, 0:N]))


def scopes_of(kernel: Any, **constants: Any) -> set[Span]:
    """The scopes of the signals that go to other CTAs."""
    function = prepared(kernel, (array(2), array(1)), **constants)
    arrivals = [arrival for op in function.walk() for arrival in op.effects().arrivals]
    return {arrival.scope for arrival in arrivals if arrival.mask is not None}


def test_a_signal_carries_what_another_agent_tells_others() -> None:
    x, y = np.zeros((4, N), np.float32), np.zeros(N, np.float32)
    assert scopes_of(told_for_another) == {Span.CLUSTER}
    assert px.check(told_for_another[4], x[:2], y).ok
    assert scopes_of(told_between_roles) == {Span.CTA}
    assert scopes_of(told_between_roles, SHAKES=False) == {Span.CLUSTER}
    assert px.check(told_between_roles[4], x, y).ok
