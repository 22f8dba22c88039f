"""Buffers whose lives are apart share memory: who does, who must not, and what is put between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from passes.overlaps import clean, data, pair, shared
from phalanx.ir.archs import SHARED_LIMIT, arch_of
from phalanx.ir.core import Function
from phalanx.ir.ops.control import Sync
from phalanx.ir.ops.memory import FenceAsyncProxy
from phalanx.passes.sharing import budget, plan
from phalanx.sanitizer.runs import run_checked, schedules_of
from phalanx.sim.machine import layout
from support import front

X, Y = front.array(1), front.array(1)  # buffers of 1,024 are 4 KiB; 32 CTAs per SM leave 6 KiB for each


def reasons(function: Function, kind: type) -> list[str]:
    return [op.reason for op in function.walk() if isinstance(op, kind) and "takes over" in op.reason]


@px.kernel(warps=2, ctas_per_sm=lambda CROWD: CROWD)
def phases(X, Y, *, CROWD=32, READ=True):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    bar = px.barrier(2)
    with bar[0].transaction():
        px.tma.load(X[0:1024], a, bar[0])
    bar[0].wait(0)
    x = px.load(a)
    px.store(a, x * 2)
    px.fence.async_proxy()
    px.tma.store(a, Y[0:1024])
    px.tma.commit()
    px.tma.wait(0, read=READ)
    with bar[1].transaction():
        px.tma.load(X[1024:2048], b, bar[1])
    bar[1].wait(0)
    px.store(Y[1024:2048], px.load(b) * 3)


def test_phases_share_where_the_kernel_would_not_fit() -> None:
    assert budget(front.prepared(phases, (X, Y)), arch_of("sm_90a")) == 228 * 1024 // 32 - 1024
    function = front.prepared(phases, (X, Y))
    assert shared(function) == pair("a", "b")
    clean(function, data(2048), np.zeros(2048, np.float32))
    assert [str(note).split(": ", 1)[1] for note in function.notes] == [
        "b lies in the memory of a: never in use together with a"
    ]


def test_threads_meet_before_another_buffer_takes_over() -> None:
    function = front.prepared(both_in_one_role, (X, Y), WARPS=2)
    syncs = [op.reason for op in function.walk() if isinstance(op, Sync)]
    assert any("a was read" in reason and "before b, in its memory, is written" in reason for reason in syncs)


def test_what_fits_keeps_its_own_memory() -> None:
    function = front.prepared(phases, (X, Y), CROWD=1)
    assert shared(function) == set() and not function.notes


def test_results_are_the_same_and_the_note_and_listing_say_so() -> None:
    x, y, z = data(2048), np.zeros(2048, np.float32), np.zeros(2048, np.float32)
    phases[1](x, y)
    phases[1](x, z, CROWD=1)
    assert np.array_equal(y, z) and np.array_equal(y[:1024], x[:1024] * 2) and np.array_equal(y[1024:], x[1024:] * 3)
    compiled = px.compile(phases[1], px.spec(2048, px.f32), px.spec(2048, px.f32), arch="sm_90a")
    assert any("b lies in the memory of a" in note for note in compiled.notes)
    assert "shared b: f32[1024], 4096 bytes, reuses a: never in use together with a" in compiled.ir
    apart = px.compile(phases[1], px.spec(2048, px.f32), px.spec(2048, px.f32), arch="sm_90a", CROWD=1)
    assert compiled.shared_bytes == apart.shared_bytes - 4096


@px.kernel(warps=2, ctas_per_sm=32)
def store_in_flight(X, Y, *, WAIT):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    bar = px.barrier()
    px.store(a, px.load(X[0:1024]))
    px.fence.async_proxy()
    px.tma.store(a, Y[0:1024])
    px.tma.commit()
    if WAIT:
        px.tma.wait(0, read=True)
    with bar.transaction():
        px.tma.load(X[1024:2048], b, bar)
    bar.wait(0)
    px.store(Y[1024:2048], px.load(b))
    px.tma.wait(0)


@pytest.mark.parametrize("wait", [True, False])
def test_a_store_that_may_still_read_keeps_its_memory(wait: bool) -> None:
    function = front.prepared(store_in_flight, (X, Y), WAIT=wait)
    assert shared(function) == (pair("a", "b") if wait else set())
    clean(function, data(2048), np.zeros(2048, np.float32))


@px.kernel(warps=2, ctas_per_sm=32)
def two_groups(X, Y, *, OPEN):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    px.store(a, px.load(X[0:1024]))
    px.fence.async_proxy()
    px.tma.store(a, Y[0:1024])
    px.tma.commit()
    px.tma.commit()
    px.tma.wait(OPEN, read=True)
    px.store(b, px.load(X[1024:2048]) + 1)
    px.store(Y[1024:2048], px.load(b))
    px.tma.wait(0)


@pytest.mark.parametrize(("open_groups", "shares"), [(0, True), (1, True), (2, False)])
def test_groups_that_may_stay_open(open_groups: int, shares: bool) -> None:
    function = front.prepared(two_groups, (X, Y), OPEN=open_groups)
    assert shared(function) == (pair("a", "b") if shares else set())
    clean(function, data(2048), np.zeros(2048, np.float32))


@px.kernel(warps=2, ctas_per_sm=32)
def generic_then_copy(X, Y):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    bar = px.barrier()
    px.store(a, px.load(X[0:1024]))
    px.sync()
    px.store(Y[0:1024], px.load(a) * 2)
    with bar.transaction():
        px.tma.load(X[1024:2048], b, bar)
    bar.wait(0)
    px.store(Y[1024:2048], px.load(b))


def test_an_ordinary_write_before_a_copy_gets_a_fence_and_a_sync() -> None:
    function = front.prepared(generic_then_copy, (X, Y))
    assert shared(function) == pair("a", "b")
    assert reasons(function, FenceAsyncProxy) == ["b takes over bytes of a, and copies write it"]
    names = [op.mnemonic for op in function.walk()]
    fence = names.index("fence.async_proxy")
    assert "sync" in names[names.index("store") : fence] and names[fence + 1] == "tma.load"
    clean(function, data(2048), np.zeros(2048, np.float32))
    without = front.prepared(generic_then_copy, (X, Y))
    body = px_without(without, FenceAsyncProxy)
    found = run_checked(body, (1, 1, 1), [data(2048), np.zeros(2048, np.float32)], schedules_of(1, 0)[0])
    assert [finding.kind for finding in found] == ["proxy"]


def px_without(function: Function, kind: type) -> Function:
    import dataclasses

    from phalanx.ir.core import rewrite

    return dataclasses.replace(function, body=rewrite(function.body, lambda op: [] if isinstance(op, kind) else None))


@px.kernel(warps=2, ctas_per_sm=32)
def in_a_loop(X, Y, *, SPLIT):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    for i in range(X.shape[0] // 1024):
        px.store(a, px.load(X[i * 1024:i * 1024 + 1024]))
        px.sync()
        px.store(Y[i * 1024:i * 1024 + 1024], px.load(a) * 2)
        px.sync()
        if not SPLIT:
            px.store(b, px.load(X[0:1024]))
    if SPLIT:
        for i in range(X.shape[0] // 1024):
            px.store(b, px.load(X[i * 1024:i * 1024 + 1024]))
    px.sync()
    px.store(Y[0:1024], px.load(b))


@pytest.mark.parametrize("split", [True, False])
def test_a_loop_keeps_what_it_touches(split: bool) -> None:
    function = front.prepared(in_a_loop, (X, Y), SPLIT=split)
    assert shared(function) == (pair("a", "b") if split else set())
    clean(function, data(2048), np.zeros(2048, np.float32))


@px.kernel(warps=2, ctas_per_sm=32)
def one_barrier_for_both(X, Y):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:1024], a, bar)
    bar.wait(0)
    px.store(Y[0:1024], px.load(a) * 2)
    with bar.transaction():
        px.tma.load(X[1024:2048], b, bar)
    bar.wait(1)
    px.store(Y[1024:2048], px.load(b))


def test_a_barrier_that_is_waited_for_again_may_still_guard_the_first_copy() -> None:
    function = front.prepared(one_barrier_for_both, (X, Y))
    assert shared(function) == set()
    clean(function, data(2048), np.zeros(2048, np.float32))


@px.kernel(warps=2, ctas_per_sm=32)
def roles_with_an_epilogue(X, Y, *, INSIDE):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    full = px.barrier()
    with px.warps(0, 1):
        with full.transaction():
            px.tma.load(X[0:1024], a, full)
    with px.warps(1, 1):
        full.wait(0)
        px.store(Y[0:1024], px.load(a) * 2)
        if INSIDE:
            px.store(b, px.load(X[1024:2048]))
            px.store(Y[1024:2048], px.load(b) + 1)
    if not INSIDE:
        px.store(b, px.load(X[1024:2048]))
        px.sync()
        px.store(Y[1024:2048], px.load(b) + 1)


@pytest.mark.parametrize("inside", [True, False])
def test_roles_run_side_by_side_until_they_join(inside: bool) -> None:
    function = front.prepared(roles_with_an_epilogue, (X, Y), INSIDE=inside)
    assert shared(function) == (set() if inside else pair("a", "b"))
    clean(function, data(2048), np.zeros(2048, np.float32))


@px.kernel(warps=4, ctas_per_sm=16)
def both_in_one_role(X, Y, *, WARPS=1):
    a = px.shared(2048, px.f32)
    b = px.shared(2048, px.f32)
    with px.warps(0, WARPS):
        px.store(a, px.load(X[0:2048]))
        px.store(Y[0:2048], px.load(a) * 2)
        px.store(b, px.load(X[2048:4096]))
        px.store(Y[2048:4096], px.load(b) + 1)
    with px.warps(WARPS, 1):
        px.device_assert(X.shape[0] == 4096, "two rows")


def test_within_one_role_buffers_follow_each_other() -> None:
    function = front.prepared(both_in_one_role, (X, Y))
    assert shared(function) == pair("a", "b")
    clean(function, data(4096), np.zeros(4096, np.float32))


@px.kernel(warps=2, ctas_per_sm=32)
def store_of_a_role(X, Y):
    a = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    with px.warps(0, 1):
        px.store(a, px.load(X[0:1024]))
        px.fence.async_proxy()
        px.tma.store(a, Y[0:1024])
        px.tma.commit()
    with px.warps(1, 1):
        px.device_assert(X.shape[0] == 2048, "two rows")
    px.tma.wait(0)
    px.store(b, px.load(X[1024:2048]))
    px.sync()
    px.store(Y[1024:2048], px.load(b) + 1)


def test_a_wait_outside_a_role_does_not_end_its_stores() -> None:
    assert shared(front.prepared(store_of_a_role, (X, Y))) == set()


@px.kernel(warps=2, cluster=2, ctas_per_sm=32)
def pushed(X, Y, *, SYNC):
    a = px.shared(1024, px.f32)
    inbox = px.shared(1024, px.f32)
    b = px.shared(1024, px.f32)
    bar = px.barrier()
    rank = px.cluster.rank()
    px.store(a, px.load(X[rank * 1024:rank * 1024 + 1024]))
    px.fence.async_proxy()
    bar.arrive_and_expect_tx(4096)
    px.cluster.copy(a, inbox, bar, cta=rank ^ 1)
    bar.wait(0)
    px.store(Y[rank * 1024:rank * 1024 + 1024], px.load(inbox))
    if SYNC:
        px.cluster.sync()
    px.store(b, px.load(X[0:1024]))
    px.sync()
    px.store(Y[2048 + rank * 1024:3072 + rank * 1024], px.load(b) * 2)


@pytest.mark.parametrize("sync", [True, False])
def test_what_peers_touch_is_over_at_a_cluster_barrier(sync: bool) -> None:
    function = front.prepared(pushed, (X, Y), SYNC=sync)
    assert shared(function) == (pair("a", "b") if sync else set())
    clean(function, data(2048), np.zeros(4096, np.float32), grid=2)


@px.kernel(warps=4, ctas_per_sm=lambda CROWD: CROWD)
def products(X, Y, *, CROWD=8, WAIT=True):
    a = px.shared((64, 64), px.bf16)
    b = px.shared((64, 64), px.bf16)
    c = px.shared((64, 64), px.f32)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:64, 0:64], a, bar)
        px.tma.load(X[0:64, 0:64], b, bar)
    bar.wait(0)
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, b.T, acc)
    px.wgmma_commit()
    if WAIT:
        px.wgmma_wait(0)
        px.store(c, acc)
    else:
        px.store(c, px.zeros((64, 64), px.f32))
        px.wgmma_wait(0)
        px.sync()
        px.store(Y[0:64, 0:64], acc)
    px.sync()
    px.store(Y[0:64, 0:64], px.load(c))


def test_operands_of_products_in_flight_keep_their_memory() -> None:
    types = (front.array(2, px.bf16), front.array(2))
    function = front.prepared(products, types)
    assert shared(function) == pair("c", "a") | pair("c", "b")  # the two operands together make room for the result
    args = np.ones((64, 64), px.bf16.numpy), np.zeros((64, 64), np.float32)
    clean(function, *args)
    assert shared(front.prepared(products, types, WAIT=False)) == set()


def test_lanes_lie_behind_each_other() -> None:
    function = front.prepared(products, (front.array(2, px.bf16), front.array(2)))
    offsets, size = layout(function)
    at = {buffer.name: offset for buffer, offset in offsets.items() if hasattr(buffer, "dtype")}
    assert sorted([at["a"], at["b"]]) == [0, 8192] and at["c"] == 0 and size < 17 * 1024
    compiled = px.compile(products[1], px.spec((64, 64), px.bf16), px.spec((64, 64), px.f32), arch="sm_90a")
    assert 16384 <= compiled.shared_bytes < 17 * 1024
    assert "reuses c behind a" in compiled.ir or "reuses c behind b" in compiled.ir


def test_manual_reuse_is_one_unit_and_barriers_are_left_alone() -> None:
    @px.kernel(warps=2, ctas_per_sm=32)
    def kernel(X, Y):
        a = px.shared(1024, px.f32)
        a2 = px.shared(512, px.f32, reuse=a)
        b = px.shared(1024, px.f32)
        px.store(a, px.load(X[0:1024]))
        px.sync()
        px.store(Y[0:1024], px.load(a))
        px.sync()
        px.store(b, px.load(X[0:1024]))
        px.sync()
        px.store(a2, px.load(b[0:512]))
        px.sync()
        px.store(Y[0:512], px.load(a2))

    function = front.prepared(kernel, (X, Y))
    assert shared(function) == pair("a", "a2")


def test_a_reduction_over_the_cluster_keeps_its_memory() -> None:
    @px.kernel(warps=2, cluster=2, ctas_per_sm=32)
    def kernel(X, Y):
        a = px.shared(1024, px.f32)
        b = px.shared(1024, px.f32)
        px.store(a, px.load(X[0:1024]))
        px.sync()
        total = px.cluster.reduce(px.sum(px.load(a), 0), "sum")
        px.sync()
        px.store(b, px.load(X[0:1024]))
        px.sync()
        px.store(Y[px.cluster.rank() * 1024:px.cluster.rank() * 1024 + 1024], px.load(b) + total)

    function = front.prepared(kernel, (X, Y))
    assert shared(function) == pair("a", "b")
    clean(function, data(1024), np.zeros(2048, np.float32), grid=2)


@pytest.mark.long
def test_a_kernel_too_large_without_sharing_compiles_with_it() -> None:
    @px.kernel(warps=4)
    def kernel(X, Y):
        a = px.shared((128, 256), px.f32)
        b = px.shared((128, 256), px.f32)
        px.store(a, px.load(X[0:128, 0:256]))
        px.sync()
        px.store(Y[0:128, 0:256], px.load(a))
        px.store(b, px.load(X[0:128, 0:256]))
        px.sync()
        px.store(Y[0:128, 0:256], px.load(b) + px.load(Y[0:128, 0:256]))

    spec = px.spec((128, 256), px.f32)
    assert px.compile(kernel[1], spec, spec, arch="sm_90a").shared_bytes <= SHARED_LIMIT
    x, y = np.ones((128, 256), np.float32), np.zeros((128, 256), np.float32)
    assert px.check(kernel[1], x, y).ok
    kernel[1](x, y)
    assert (y == 2).all()


@pytest.mark.parametrize("crowd", [1, 32])
def test_what_another_buffer_left_there_was_never_written(crowd: int) -> None:
    @px.kernel(warps=2, ctas_per_sm=lambda CROWD: CROWD)
    def kernel(X, Y, *, CROWD):
        a = px.shared(1024, px.f32)
        b = px.shared(1024, px.f32)
        px.store(a, px.load(X[0:1024]))
        px.sync()
        px.store(Y[0:1024], px.load(a))
        px.sync()
        px.store(b[0:1000], px.load(X[0:1000]))
        px.sync()
        px.store(Y[0:1024], px.load(b))

    report = px.check(kernel[1], data(1024), np.zeros(1024, np.float32), CROWD=crowd)
    assert [finding.kind for finding in report.findings] == ["uninitialised-read"], report


def test_the_plan_is_best_fit() -> None:
    a, b, c, d = (px_buffer(name, size) for name, size in (("a", 4), ("b", 2), ("c", 2), ("d", 1)))
    sizes = {a: 4096, b: 2048, c: 2048, d: 1024}
    apart = {frozenset((a, x)) for x in (b, c, d)}
    slots = plan(sizes, apart)
    assert [[[unit.name for unit in lane] for lane in slot.lanes] for slot in slots] == [[["a"], ["b", "c"]], [["d"]]]


def px_buffer(name: str, kib: int) -> Any:
    from phalanx.ir.types import u8
    from phalanx.ir.views import SharedBuffer

    return SharedBuffer(name, (kib * 1024,), u8)
