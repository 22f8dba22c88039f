"""Copies from CTA to CTA: order at both ends, bytes, and who may exit."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)
PAIR = dict(grid=2, args=(X, Y))


@planted("race", **PAIR)
@px.kernel(warps=1, cluster=2)
def receiver_does_not_wait(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    d = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    px.store(s, px.load(X[rank * 64 : rank * 64 + 64, 0:64]))
    px.fence.async_proxy()
    bar.arrive_and_expect_tx(d.nbytes)
    px.cluster.copy(s, d, bar, cta=rank ^ 1)  # other
    if not BUG:
        bar.wait(0)
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(d))  # bug
    if BUG:
        bar.wait(0)


@planted("race", **PAIR)
@px.kernel(warps=1, cluster=2)
def sender_overwrites_its_source(X, Y, *, BUG):
    """The receiver's wait says that the source was read; the sender hears of it through the cluster barrier."""
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    d = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    px.store(s, px.load(X[rank * 64 : rank * 64 + 64, 0:64]))
    px.fence.async_proxy()
    bar.arrive_and_expect_tx(d.nbytes)
    px.cluster.copy(s, d, bar, cta=rank ^ 1)  # other
    bar.wait(0)
    if not BUG:
        px.cluster.sync()
    px.store(s, px.load(X[0:64, 0:64]))  # bug
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(d))


@planted("proxy", **PAIR)
@px.kernel(warps=1, cluster=2)
def source_is_not_fenced(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    d = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    px.store(s, px.load(X[rank * 64 : rank * 64 + 64, 0:64]))  # other
    if not BUG:
        px.fence.async_proxy()
    bar.arrive_and_expect_tx(d.nbytes)
    px.cluster.copy(s, d, bar, cta=rank ^ 1)  # bug
    bar.wait(0)
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(d))


@planted("tx-mismatch", **PAIR)
@px.kernel(warps=1, cluster=2)
def receiver_expects_half(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((2, 64, 64), X.dtype)
    d = px.shared((2, 64, 64), X.dtype)
    bar = px.barrier()
    px.store(s, px.full((2, 64, 64), 1.0, X.dtype))
    px.fence.async_proxy()
    bar.arrive_and_expect_tx(d.nbytes // (1 + BUG))  # bug
    for i in px.static_range(2):
        px.cluster.copy(s[i], d[i], bar, cta=rank ^ 1)  # other
    bar.wait(0)
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(d[0]) + px.load(d[1]))


@planted("exit-hazard", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2, exit_sync=False)
def sender_exits_while_its_source_is_read(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    d = px.shared((64, 64), X.dtype)
    bar = px.barrier(count=1, checked=False)
    px.cluster.sync()
    if rank == 0:
        px.store(s, px.load(X[0:64, 0:64]))
        px.fence.async_proxy()
        px.cluster.copy(s, d, bar, cta=1)  # bug
    else:
        bar.arrive_and_expect_tx(d.nbytes)
        bar.wait(0)
        px.store(Y[0:64, 0:64], px.load(d))
    if not BUG:
        px.cluster.sync()


@planted("race", **PAIR)
@px.kernel(warps=8, cluster=2)
def source_is_written_again_after_the_receiver_said_so(X, Y, *, BUG):
    """Who knows that the push has read its source knows the write that it read, whoever made it: for those bytes alone."""
    s = px.shared((2, 64), X.dtype)
    inbox = px.shared((64,), X.dtype)
    full, taken = px.barrier(count=1), px.barrier(count=1)
    px.cluster.sync()
    with px.warps(0, 4):
        if px.cluster.rank() == 0:
            px.store(s, px.load(X[0:2, 0:64]))  # other
            px.fence.async_proxy()
            px.cluster.copy(s[0], inbox, full, cta=1)
        else:
            full.arrive_and_expect_tx(inbox.nbytes)
            full.wait(0)
            px.store(Y[0, 0:64], px.load(inbox))
            taken.arrive(ctas=0b01)
    with px.warps(4, 4):
        if px.cluster.rank() == 0:
            taken.wait(0)
            px.store(s[1 if BUG else 0], px.zeros((64,), X.dtype))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=3)
def global_rows_are_written_again_after_their_copy(X, Y, *, BUG):
    """The same for what a load has read of global memory."""
    s = px.shared((64, 64), X.dtype)
    full, taken = px.barrier(count=1), px.barrier(count=1)
    with px.warps(0, 1):
        px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]))  # other
        px.store(Y[64:128, 0:64], px.load(X[0:64, 0:64]))
        px.fence.async_proxy("global")
        px.tma.load(Y[64:128, 0:64] if BUG else Y[0:64, 0:64], s, full)
    with px.warps(1, 1):
        full.arrive_and_expect_tx(s.nbytes)
        full.wait(0)
        taken.arrive()
    with px.warps(2, 1):
        taken.wait(0)
        px.store(Y[0:64, 0:64], px.zeros((64, 64), X.dtype))  # bug


@px.kernel(warps=2, cluster=2)
def never_waits(X, Y):
    """The peer's data is read without a wait, where something lies already."""
    rank = px.cluster.rank()
    s, inbox = px.shared((64,), X.dtype), px.shared((64,), X.dtype)
    full = px.barrier(count=1)
    px.store(inbox, px.zeros((64,), X.dtype))
    px.store(s, px.load(X[rank, 0:64]))
    px.fence.async_proxy()
    px.cluster.sync()
    with px.warps(0, 1):
        px.store(Y[rank, 0:64], px.load(inbox))
    with px.warps(1, 1):
        full.arrive_and_expect_tx(inbox.nbytes)
        px.cluster.copy(s, inbox, full, cta=rank ^ 1)
        full.wait(0)


def test_a_forgotten_wait_for_a_peers_data_is_told_as_that():
    finding, = px.check(never_waits[2], X, Y).findings
    assert finding.kind == "race" and "px.load(inbox)" in finding.location.text
    assert "px.load reads inbox of CTA" in finding.message and "nothing orders it after px.cluster.copy" in finding.message
    assert "wait for full of CTA" in finding.message and "(parity 0, phase 0) before it" in finding.message


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
