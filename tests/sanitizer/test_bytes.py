"""Expected bytes: too many, too few, none, twice; and what is legal."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)


@planted("tx-mismatch", args=(X, Y))
@px.kernel(warps=1)
def expects_too_many(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    bar.arrive_and_expect_tx(s.nbytes + 16 * BUG)  # bug
    px.tma.load(X[0:64, 0:64], s, bar)  # other
    bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s))


@planted("tx-mismatch", args=(X, Y))
@px.kernel(warps=1)
def expects_too_few(X, Y, *, BUG):
    s = px.shared((2, 64, 64), X.dtype)
    bar = px.barrier()
    bar.arrive_and_expect_tx(s.nbytes // (1 + BUG))  # bug
    for i in px.static_range(2):
        px.tma.load(X[64 * i : 64 * i + 64, 0:64], s[i], bar)  # other
    bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s[0]) + px.load(s[1]))


@planted("tx-mismatch", args=(X, Y))
@px.kernel(warps=1)
def expects_nothing(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    px.tma.load(X[0:64, 0:64], s, bar)  # other
    if BUG:
        bar.arrive()  # bug
    else:
        bar.arrive_and_expect_tx(s.nbytes)
    bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s))


@planted("tx-mismatch", args=(X, Y))
@px.kernel(warps=2)
def expects_twice_in_a_ring(X, Y, *, BUG):
    stages = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(2, count=1)
    empty = px.barrier(2)
    ring = px.ring(2)
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            empty[ring.stage].wait(ring.parity ^ 1)
            if BUG:
                full[ring.stage].expect_tx(64)
            full[ring.stage].arrive_and_expect_tx(64 * 64 * 4)  # bug
            px.tma.load(X[t * 64 : t * 64 + 64, 0:64], stages[ring.stage], full[ring.stage])  # other
            ring.advance()
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            full[ring.stage].wait(ring.parity)
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(stages[ring.stage]))
            empty[ring.stage].arrive()
            ring.advance()


@planted("tx-mismatch", args=(X, Y))
@px.kernel(warps=1)
def expects_bytes_that_nobody_sends(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    bar = px.barrier(count=1)
    px.store(s, px.load(X[0, 0:64]))
    if BUG:
        bar.arrive_and_expect_tx(s.nbytes)  # bug
    else:
        bar.arrive()
    bar.wait(0)
    px.store(Y[0, 0:64], px.load(s))


@planted("tx-mismatch", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def expects_only_its_own_half_of_a_multicast(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    bar.arrive_and_expect_tx(s.nbytes // (1 + BUG))  # bug
    px.tma.load(X[rank * 32 : rank * 32 + 32, 0:64], s[rank * 32 : rank * 32 + 32], bar, multicast=3)  # other
    bar.wait(0)
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(s))


@planted("tx-mismatch", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def multicasts_to_itself_alone(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    bar.arrive_and_expect_tx(s.nbytes)  # bug
    if rank == 0:
        px.tma.load(X[0:64, 0:64], s, bar, multicast=1 if BUG else 3)
    bar.wait(0)
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(s))


@planted("tx-mismatch", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def multicasts_into_a_phase_that_its_peer_may_not_have_ended(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    bar.arrive()  # other
    bar.wait(0)
    if not BUG:
        px.cluster.sync()
    with bar.transaction():
        if rank == 0:
            px.tma.load(X[0:64, 0:64], s, bar, multicast=3)  # bug
    bar.wait(1)
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.load(s))


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_bytes_may_land_before_they_are_expected():
    @px.kernel(warps=2)
    def early(X, Y):
        s = px.shared((64, 64), X.dtype)
        bar = px.barrier(count=2)
        with px.warps(0, 1):
            px.tma.load(X[0:64, 0:64], s, bar)
            bar.arrive()
        with px.warps(1, 1):
            bar.arrive_and_expect_tx(s.nbytes)
            bar.wait(0)
            px.store(Y[0:64, 0:64], px.load(s))

    assert px.check(early[1], X, Y, schedules=8).ok


def test_a_mismatch_lists_the_blocked_waits():
    report = px.check(expects_too_many[1], X, Y, BUG=True)
    finding, = report.findings
    assert "expects 16400 bytes and its copies bring 16384" in finding.message
    assert any("waits for bar, phase 0" in note for note in finding.notes)


def test_bytes_for_an_earlier_phase_are_told_with_what_that_phase_waits_for():
    report = px.check(multicasts_into_a_phase_that_its_peer_may_not_have_ended[2], X, Y, BUG=True)
    finding, = report.findings
    assert finding.message == (
        "the bytes of this px.tma.load may land in phase 0 of bar of CTA 1: nothing tells its issuer (all warps, CTA 0, "
        "cluster 0) that it is complete, and while it is not, neither that phase nor the next adds up; wait for phase 0, or "
        "for a signal of one who did, before the copy"
    )
    assert finding.label == "completes on bar of CTA 1"
    assert finding.other_label == "arrives in phase 0 (all warps, CTA 1, cluster 0)"


@px.kernel(warps=1)
def expects_less_than_nothing(Y, n):
    bar = px.barrier(count=1)
    bar.expect_tx(n)
    bar.expect_tx(-n)
    bar.arrive()
    bar.wait(0)
    px.store(Y[0, 0], 1.0)


def test_bytes_that_are_expected_are_not_negative():
    assert px.check(expects_less_than_nothing[1], Y, 0).ok
    finding = px.check(expects_less_than_nothing[1], Y, 16).findings[0]
    assert (finding.kind, finding.location.text.strip()) == ("tx-mismatch", "bar.expect_tx(-n)")
    assert finding.message == (
        "bar of CTA 0 is told to expect -16 bytes in phase 0; expect as many bytes as the copies bring, 0 or more"
    )


@px.kernel(cluster=2)
def announces(X, Y, *, BYTES):
    """Each CTA tells the other how many bytes it sends."""
    mine, inbox, full = px.shared((32,), px.f32), px.shared((32,), px.f32), px.barrier()
    to = px.cluster.rank() ^ 1
    px.store(mine, px.load(X[px.cluster.rank(), 0:32]))
    px.fence.async_proxy()
    full.expect_tx(BYTES, ctas=1 << to)
    px.cluster.copy(mine, inbox, full, cta=to)
    full.arrive(ctas=1 << to)
    full.wait(0)
    px.store(Y[px.cluster.rank(), 0:32], px.load(inbox))


@pytest.mark.parametrize(("nbytes", "kinds"), [(128, set()), (64, {"tx-mismatch"}), (256, {"tx-mismatch"})])
def test_bytes_announced_by_the_sender_are_counted_at_the_receiver(nbytes, kinds):
    assert {finding.kind for finding in px.check(announces[2], X, Y, BYTES=nbytes).findings} == kinds
