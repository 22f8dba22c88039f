"""Generic writes before asynchronous accesses: the proxy fence, on either side, at CTA and cluster scope."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)


@planted("proxy", args=(X, Y))
@px.kernel(warps=4)
def store_without_a_fence(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    px.store(s, px.load(X[0:64, 0:64]))  # other
    if not BUG:
        px.fence.async_proxy()
    px.tma.store(s, Y[0:64, 0:64])  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("proxy", args=(X, Y))
@px.kernel(warps=4)
def fence_before_the_write(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    if BUG:
        px.fence.async_proxy()
    px.store(s, px.load(X[0:64, 0:64]))  # other
    if not BUG:
        px.fence.async_proxy()
    px.tma.store(s, Y[0:64, 0:64])  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("proxy", args=(X, Y))
@px.kernel(warps=2)
def fence_of_the_writer_is_missing(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    ready = px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0:64, 0:64]))  # other
        if not BUG:
            px.fence.async_proxy()
        ready.arrive()
    with px.warps(1, 1):
        ready.wait(0)
        px.tma.store(s, Y[0:64, 0:64])  # bug
        px.tma.commit()
        px.tma.wait(0)


@planted("proxy", args=(X, Y))
@px.kernel(warps=2)
def fence_of_the_issuer_is_too_early(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    ready = px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0:64, 0:64]))  # other
        ready.arrive()
    with px.warps(1, 1):
        if BUG:
            px.fence.async_proxy()
        ready.wait(0)
        if not BUG:
            px.fence.async_proxy()
        px.tma.store(s, Y[0:64, 0:64])  # bug
        px.tma.commit()
        px.tma.wait(0)


@planted("proxy", args=(X, Y))
@px.kernel(warps=1)
def load_over_generic_data(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    px.store(s, px.load(X[0:64, 0:64]))  # other
    if not BUG:
        px.fence.async_proxy()
    with bar.transaction():
        px.tma.load(X[64:128, 0:64], s, bar)  # bug
    bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s))


@planted("proxy", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def remote_write_needs_a_fence_of_the_cluster(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    px.store(s.at(rank ^ 1), px.load(X[rank * 64 : rank * 64 + 64, 0:64]))  # other
    if BUG:
        px.fence.async_proxy()
    else:
        px.fence.async_proxy("cluster")
    px.cluster.sync()
    px.tma.store(s, Y[rank * 64 : rank * 64 + 64, 0:64])  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("proxy", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def receiver_fences_before_it_knows(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    px.store(s.at(rank ^ 1), px.load(X[rank * 64 : rank * 64 + 64, 0:64]))  # other
    px.cluster.sync()
    if not BUG:
        px.fence.async_proxy()
    px.tma.store(s, Y[rank * 64 : rank * 64 + 64, 0:64])  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("proxy", args=(X, Y))
@px.kernel(warps=1)
def global_data_is_read_back_by_the_engine(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]))  # other
    if BUG:
        px.fence.async_proxy()
    else:
        px.fence.async_proxy("global")
    with bar.transaction():
        px.tma.load(Y[0:64, 0:64], s, bar)  # bug
    bar.wait(0)
    px.store(Y[64:128, 0:64], px.load(s))


@planted("proxy", args=(X, Y), strict=True, twin_strict=False)
@px.kernel(warps=2)
def strict_asks_for_a_fence_after_reads(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    full = px.barrier()
    empty = px.barrier()
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            empty.wait((t & 1) ^ 1)
            with full.transaction():
                px.tma.load(X[t * 64 : t * 64 + 64, 0:64], s, full)  # bug
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            full.wait(t & 1)
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(s))  # other
            empty.arrive()


def test_a_fence_by_all_warps_stands_for_writer_and_issuer():
    @px.kernel(warps=2)
    def joined(X, Y):
        s = px.shared((64, 64), X.dtype)
        with px.warps(0, 1):
            px.store(s, px.load(X[0:64, 0:64]))
        px.sync()
        px.fence.async_proxy()
        px.sync()
        with px.warps(1, 1):
            px.tma.store(s, Y[0:64, 0:64])
            px.tma.commit()
            px.tma.wait(0)

    assert px.check(joined[1], X, Y).ok


@planted("proxy", args=(X, Y))
@px.kernel(warps=3)
def a_third_role_fences_on_the_way(X, Y, *, BUG):
    """A fence counts whoever runs it, if it comes after the store and before the copy."""
    s = px.shared((64, 64), X.dtype)
    written, relay = px.barrier(), px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0:64, 0:64]))  # other
        written.arrive()
    with px.warps(1, 1):
        if BUG:
            px.fence.async_proxy()
        written.wait(0)
        if not BUG:
            px.fence.async_proxy()
        relay.arrive()
    with px.warps(2, 1):
        relay.wait(0)
        px.tma.store(s, Y[0:64, 0:64])  # bug
        px.tma.commit()
        px.tma.wait(0)


@planted("proxy", args=(X, Y))
@px.kernel(warps=4)
def a_fence_that_the_issuer_does_not_know_of(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    written, fenced, told = px.barrier(), px.barrier(), px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0:64, 0:64]))  # other
        written.arrive()
        told.arrive()
    with px.warps(1, 1):
        written.wait(0)
        px.fence.async_proxy()
        fenced.arrive()
    with px.warps(2, 1):
        told.wait(0)
        if not BUG:
            fenced.wait(0)
        px.tma.store(s, Y[0:64, 0:64])  # bug
        px.tma.commit()
        px.tma.wait(0)
        if BUG:
            fenced.wait(0)


@planted("proxy", args=(X, Y))
@px.kernel(warps=9)
def who_waited_for_the_copies_fences_and_a_third_issues(X, Y, *, BUG):
    s, full, ready = px.shared((64, 64), X.dtype), px.barrier(), px.barrier()
    with px.warps(0, 4):
        px.cp_async.load(X[0:64, 0:64], s)  # other
        px.cp_async.commit(full)
        if BUG:
            px.fence.async_proxy()
    with px.warps(4, 4):
        full.wait(0)
        if not BUG:
            px.fence.async_proxy()
        ready.arrive()
    with px.warps(8, 1):
        ready.wait(0)
        px.tma.store(s, Y[0:64, 0:64])  # bug
        px.tma.commit()
        px.tma.wait(0)


@planted("proxy", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def a_fence_of_another_cta_is_for_its_own_memory(X, Y, *, BUG):
    """The peer fences what this CTA stored: "cta" covers the peer's memory, "cluster" that of all CTAs."""
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    px.store(s, px.load(X[rank * 64 : rank * 64 + 64, 0:64]))  # other
    px.cluster.sync()
    if rank == 1:
        if BUG:
            px.fence.async_proxy()
        else:
            px.fence.async_proxy("cluster")
    px.cluster.sync()
    if rank == 0:
        px.tma.store(s, Y[0:64, 0:64])  # bug
        px.tma.commit()
        px.tma.wait(0)


def test_async_before_generic_needs_no_fence():
    @px.kernel(warps=1)
    def reads(X, Y):
        s = px.shared((64, 64), X.dtype)
        bar = px.barrier()
        with bar.transaction():
            px.tma.load(X[0:64, 0:64], s, bar)
        bar.wait(0)
        x = px.load(s)
        px.store(s, x * 2.0)
        px.store(Y[0:64, 0:64], px.load(s))

    assert px.check(reads[1], X, Y, strict=True).ok


@planted("proxy", args=(X, Y))
@px.kernel(warps=4)
def a_copy_of_threads_is_no_fence(X, Y, *, BUG):
    """What threads copy they read through the generic proxy: that they did says nothing of a fence."""
    s, t = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype)
    full, again = px.barrier(), px.barrier()
    px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]))  # other
    px.sync()
    px.cp_async.load(Y[0:64, 0:64], s)
    px.cp_async.commit(full)
    full.wait(0)
    if not BUG:
        px.fence.async_proxy("global")
    with again.transaction():
        px.tma.load(Y[0:64, 0:64], t, again)  # bug
    again.wait(0)
    px.store(Y[64:128, 0:64], px.load(t))


@planted("proxy", args=(X, Y))
@px.kernel(warps=9)
def who_waited_for_a_copy_of_threads_needs_their_fence(X, Y, *, BUG):
    """The issuer knows of the stores by the copy alone; and that they were fenced, if that was before the copy."""
    s, t = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype)
    full, again = px.barrier(), px.barrier()
    with px.warps(0, 4):
        px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]))  # other
        if not BUG:
            px.fence.async_proxy("global")
        px.sync()
        px.cp_async.load(Y[0:64, 0:64], s)
        px.cp_async.commit(full)
    with px.warps(4, 1):
        full.wait(0)
        with again.transaction():
            px.tma.load(Y[0:64, 0:64], t, again)  # bug
    with px.warps(5, 4):
        again.wait(0)
        px.store(Y[64:128, 0:64], px.load(t))


@planted("proxy", args=(X, Y))
@px.kernel(warps=9)
def who_waited_for_a_copy_of_threads_fences(X, Y, *, BUG):
    s, t = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype)
    full, again = px.barrier(), px.barrier()
    with px.warps(0, 4):
        px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]))  # other
        px.sync()
        px.cp_async.load(Y[0:64, 0:64], s)
        px.cp_async.commit(full)
    with px.warps(4, 1):
        if BUG:
            px.fence.async_proxy("global")
        full.wait(0)
        if not BUG:
            px.fence.async_proxy("global")
        with again.transaction():
            px.tma.load(Y[0:64, 0:64], t, again)  # bug
    with px.warps(5, 4):
        again.wait(0)
        px.store(Y[64:128, 0:64], px.load(t))


@planted("proxy", args=(X, Y))
@px.kernel(warps=5)
def a_copy_lands_over_what_threads_stored(X, Y, *, BUG):
    """Without the fence the store may land last."""
    s, full = px.shared((64, 64), X.dtype), px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0:64, 0:64]))  # other
        if not BUG:
            px.fence.async_proxy()
        with full.transaction():
            px.tma.load(X[64:128, 0:64], s, full)  # bug
    with px.warps(1, 4):
        full.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))


HALVES = np.ones((64, 64), np.float16)


@px.kernel(warps=4)
def two_products_on_one_line(X, Y, *, FENCE):
    a, b = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype)
    x = px.load(X[0:64, 0:64])
    px.store(a, x)
    px.store(b, x)
    if FENCE:
        px.fence.async_proxy()
    acc = px.dot(a, a.T) + px.dot(b, b.T)
    px.store(Y[0:64, 0:64], acc)


def test_each_of_two_products_on_one_line_has_its_finding():
    y = np.zeros((64, 64), np.float32)
    findings = px.check(two_products_on_one_line[1], HALVES, y, FENCE=False, arch="sm_90a").findings
    assert [finding.kind for finding in findings] == ["proxy", "proxy"]
    assert len({finding.location.line for finding in findings}) == 1
    assert len({finding.location.column for finding in findings}) == 2
    assert px.check(two_products_on_one_line[1], HALVES, y, FENCE=True, arch="sm_90a").ok


C, D = array(128, 64), array(128, 64)


@planted("proxy", grid=2, args=(C, D))
@px.kernel(warps=4, cluster=2)
def stores_that_land_are_fenced_by_their_receiver(X, Y, *, BUG):
    rank = px.cluster.rank()
    s, landed = px.shared((64, 64), X.dtype), px.barrier()
    if BUG:
        px.fence.async_proxy("global")
    with landed.transaction():
        px.cluster.store(s, px.load(X[rank * 64 : rank * 64 + 64, 0:64]), landed, cta=1 - rank)  # other
    landed.wait(0)
    if not BUG:
        px.fence.async_proxy()
    px.tma.store(s, Y[rank * 64 : rank * 64 + 64, 0:64])  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("proxy", grid=2, args=(C, D))
@px.kernel(warps=4, cluster=2)
def a_fence_of_the_sender_comes_before_the_data(X, Y, *, BUG):
    rank = px.cluster.rank()
    s, landed = px.shared((64, 64), X.dtype), px.barrier()
    with landed.transaction():
        px.cluster.store(s, px.load(X[rank * 64 : rank * 64 + 64, 0:64]), landed, cta=1 - rank)  # other
        px.fence.async_proxy("cluster")
    landed.wait(0)
    if not BUG:
        px.fence.async_proxy()
    px.tma.store(s, Y[rank * 64 : rank * 64 + 64, 0:64])  # bug
    px.tma.commit()
    px.tma.wait(0)


def test_who_fences_after_stores_that_land():
    case, = (case for case in cases(__name__) if case.kernel is a_fence_of_the_sender_comes_before_the_data)
    finding, = case.check(True).findings
    assert "put px.fence.async_proxy() after the wait for landed of CTA" in finding.message
    assert "a fence of the sender comes before the data" in finding.message


@px.kernel(warps=4, cluster=2)
def pushed_without_a_barrier(X, Y, *, ENGINE):
    """Ordinary loads and stores: what they read and overwrite needs no fence; engines read it, the compiler fences."""
    rank = px.cluster.rank()
    mine, inbox = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype)
    px.store(inbox, px.zeros((64, 64), X.dtype))
    px.store(mine, px.load(X[rank * 64 : rank * 64 + 64, 0:64]))
    px.cluster.sync()
    px.cluster.copy(mine, inbox, cta=1 - rank)
    px.cluster.sync()
    if ENGINE:
        px.tma.store(inbox, Y[rank * 64 : rank * 64 + 64, 0:64])
        px.tma.commit()
        px.tma.wait(0)
    else:
        px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(inbox))


@pytest.mark.parametrize("engine", [False, True])
def test_a_push_without_a_barrier_is_ordinary_stores(engine):
    report = px.check(pushed_without_a_barrier[2], C, D, ENGINE=engine, strict=True)
    assert report.ok, report
    source = px.compile(pushed_without_a_barrier[2], C, D, ENGINE=engine, arch="sm_90a").source
    assert ("engines may read what was stored" in source) is engine


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
