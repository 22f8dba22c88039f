"""Arrivals: missing, double, too many, too few."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, line_of, planted

X, Y = array(256, 64), array(256, 64)


@planted("deadlock", args=(X, Y))
@px.kernel(warps=2)
def consumer_never_releases(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    full = px.barrier()
    empty = px.barrier(count=1)
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            empty.wait((t & 1) ^ 1)  # bug
            with full.transaction():
                px.tma.load(X[t * 64 : t * 64 + 64, 0:64], s, full)
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            full.wait(t & 1)  # other
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(s))
            if not BUG or t < 0:
                empty.arrive()


@planted("deadlock", args=(X, Y))
@px.kernel(warps=3)
def count_is_one_too_high(X, Y, *, BUG):
    s = px.shared((2, 64), X.dtype)
    done = px.barrier(count=2 + BUG, checked=False)
    with px.warps(0, 1):
        px.store(s[0], px.load(X[0, 0:64]))
        done.arrive()
    with px.warps(1, 1):
        px.store(s[1], px.load(X[1, 0:64]))
        done.arrive()
    with px.warps(2, 1):
        done.wait(0)  # bug
        px.store(Y[0, 0:64], px.load(s[0]) + px.load(s[1]))


@planted("race", args=(X, Y))
@px.kernel(warps=3)
def count_is_one_too_low(X, Y, *, BUG):
    s = px.shared((2, 64), X.dtype)
    done = px.barrier(count=2 - BUG, checked=False)
    with px.warps(0, 1):
        px.store(s[0], px.load(X[0, 0:64]))
        done.arrive()
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[0, 0:64], px.load(s[0]) + px.load(s[1]))  # bug
    with px.warps(2, 1):
        px.store(s[1], px.load(X[1, 0:64]))  # other
        done.arrive()


@planted("count-mismatch", args=(X, Y))
@px.kernel(warps=3)
def written_count_contradicts_the_arrivals(X, Y, *, BUG):
    s = px.shared((2, 64), X.dtype)
    done = px.barrier(count=2 + BUG)  # bug
    with px.warps(0, 1):
        px.store(s[0], px.load(X[0, 0:64]))
        done.arrive()
    with px.warps(1, 1):
        px.store(s[1], px.load(X[1, 0:64]))
        done.arrive()
    with px.warps(2, 1):
        done.wait(0)
        px.store(Y[0, 0:64], px.load(s[0]) + px.load(s[1]))


@planted("over-arrival", args=(X, Y))
@px.kernel(warps=2)
def arrives_twice_while_bytes_are_outstanding(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    full = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        full.arrive_and_expect_tx(s.nbytes)  # other
        if BUG:
            full.arrive()  # bug
        px.tma.load(X[0:64, 0:64], s, full)
    with px.warps(1, 1):
        full.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))


@planted("over-arrival", args=(X, Y))
@px.kernel(warps=2)
def arrives_with_more_than_the_count(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    done = px.barrier(count=2, checked=False)  # other
    with px.warps(0, 1):
        px.store(s, px.load(X[0, 0:64]))
        done.arrive(2 + BUG)  # bug
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[0, 0:64], px.load(s))


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def releases_twice_so_that_the_producer_runs_ahead(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    full = px.barrier()
    empty = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        for t in range(6):
            empty.wait((t & 1) ^ 1)
            px.store(s, px.load(X[t, 0:64]))  # other
            full.arrive()
    with px.warps(1, 1):
        for t in range(6):
            full.wait(t & 1)
            px.store(Y[t, 0:64], px.load(s))  # bug
            empty.arrive()
            if BUG and t == 0:
                empty.arrive()


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_a_deadlock_names_every_blocked_wait_and_who_waits_for_whom():
    finding, = px.check(consumer_never_releases[1], X, Y, BUG=True).findings
    assert "warp 0 of CTA 0 waits for empty, which lacks 1 of 1 arrivals in phase 0" in finding.message
    assert "warp 1 of CTA 0 waits for full, which lacks 1 of 1 arrivals in phase 1" in finding.message
    assert len(finding.notes) == 2
    assert finding.location.line == line_of(consumer_never_releases, "bug")
