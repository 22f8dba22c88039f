"""Bugs of copies of a role: a count that forgets them, a turn of the wrong one, a copy that leaves something out."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(64, 32), array(64, 32)
ONE = dict(grid=1, args=(X, Y))


@planted("count-mismatch", **ONE)
@px.kernel(warps=3)
def the_count_forgets_the_copies(X, Y, *, BUG):
    s, full = px.shared((32,), X.dtype), px.barrier()
    free = px.barrier(count=1 if BUG else 2)  # bug
    with px.warps(0, 1):
        for t in range(4):
            free.wait((t & 1) ^ 1)
            with full.transaction():
                px.tma.load(X[t, 0:32], s, full)
    with px.warps(1, 1, copies=2) as c:
        for t in range(4):
            full.wait(t & 1)
            px.store(Y[2 * t + c, 0:32], px.load(s))
            free.arrive()


@planted("race", **ONE)
@px.kernel(warps=3)
def one_copy_does_not_give_back(X, Y, *, BUG):
    """The stage is filled again while the second copy reads it: the barrier counts the first one alone."""
    s, full, free = px.shared((32,), X.dtype), px.barrier(), px.barrier()
    with px.warps(0, 1):
        for t in range(4):
            free.wait((t & 1) ^ 1)
            with full.transaction():
                px.tma.load(X[t, 0:32], s, full)  # bug
    with px.warps(1, 1, copies=2) as c:
        for t in range(4):
            full.wait(t & 1)
            px.store(Y[2 * t + c, 0:32], px.load(s))  # other
            if c == 0 or not BUG:
                free.arrive()


@planted("deadlock", **ONE)
@px.kernel(warps=3)
def the_turn_goes_to_the_copy_itself(X, Y, *, BUG):
    """Three copies take turns; off by one, each waits for what only itself would do."""
    total, turn = px.shared((32,), px.f32), px.barrier(3)
    px.store(total, px.zeros((32,), px.f32))
    px.sync()
    with px.warps(0, 1, copies=3) as c:
        for t in range(3):
            turn[c].wait((t & 1) ^ (1 if c == 0 else 0))  # bug
            px.store(total, px.load(total) + px.load(X[3 * t + c, 0:32]))
            px.store(Y[3 * t + c, 0:32], px.load(total))
            turn[(c + (0 if BUG else 1)) % 3].arrive()


@planted("race", **ONE)
@px.kernel(warps=3)
def the_copies_take_no_turns(X, Y, *, BUG):
    """The first copy writes what the others read, of which one does not wait."""
    total, turn = px.shared((32,), px.f32), px.barrier(3)
    px.store(total, px.zeros((32,), px.f32))
    px.sync()
    with px.warps(0, 1, copies=3) as c:
        if c != 1 or not BUG:
            turn[c].wait(1 if c == 0 else 0)
        if c == 0:
            px.store(total, px.load(X[c, 0:32]))  # other
        else:
            px.store(Y[c, 0:32], px.load(total))  # bug
        turn[(c + 1) % 3].arrive()


@planted("race", **ONE)
@px.kernel(warps=4)
def the_copies_share_one_element(X, Y, *, BUG):
    """Each copy has a row of its own, or not."""
    s = px.shared((2, 32), X.dtype)
    with px.warps(0, 2, copies=2) as c:
        own = c // 2 if BUG else c
        px.store(s[own], px.load(X[c, 0:32]))  # bug
        px.store(Y[c, 0:32], px.load(s[own]))  # other


@planted("tx-mismatch", **ONE)
@px.kernel(warps=2)
def one_copy_expects_too_many_bytes(X, Y, *, BUG):
    s, full = px.shared((2, 32), X.dtype), px.barrier(2)
    with px.warps(0, 1, copies=2) as c:
        full[c].arrive_and_expect_tx(128 + (16 * c if BUG else 0))  # bug
        px.tma.load(X[c, 0:32], s[c], full[c])  # other
        full[c].wait(0)
        px.store(Y[c, 0:32], px.load(s[c]))


@planted("out-of-bounds", **ONE)
@px.kernel(warps=3)
def the_last_copy_has_no_element(X, Y, *, BUG):
    s = px.shared((3, 32), X.dtype)
    with px.warps(0, 1, copies=3) as c:
        px.store(s[c + (1 if BUG else 0)], px.load(X[c, 0:32]))  # bug


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_a_finding_names_the_copies():
    report = next(case for case in cases(__name__) if str(case) == "the_copies_share_one_element").check(True)
    assert {(agent.role, agent.first_warp, agent.warps) for agent in report.findings[0].agents} == {
        ("warps 0-1", 0, 2), ("warps 2-3", 2, 2)
    }


def test_every_order_of_copies_that_take_turns_is_explored():
    case = next(case for case in cases(__name__) if str(case) == "the_copies_take_no_turns")
    assert px.explore(case.kernel[1], *case.args, BUG=False).ok
    found = px.explore(case.kernel[1], *case.args, BUG=True)
    assert found.outcomes > 1 and not found.ok


def test_an_exchange_over_the_cluster_is_each_copy_s_own():
    @px.kernel(warps=4, cluster=2)
    def kernel(X, Y):
        rank = px.cluster.rank()
        with px.warps(0, 2, copies=2) as c:
            for t in range(3):
                x = px.load(X[4 * t + 2 * c + rank, 0:32])
                px.store(Y[4 * t + 2 * c + rank, 0:32], px.cluster.reduce(x, "sum"))
                if c == 1:
                    px.store(Y[12 + 2 * t + rank, 0:32], px.cluster.reduce(2 * x, "max"))

    rows = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    y = np.zeros_like(rows)
    assert px.check(kernel[2], rows, y).ok
    kernel[2](rows, y)
    pairs = rows[:12].reshape(3, 2, 2, 32)
    np.testing.assert_array_equal(y[:12].reshape(3, 2, 2, 32), np.repeat(pairs.sum(axis=2, keepdims=True), 2, axis=2))
    largest = np.repeat(pairs[:, 1].max(axis=1, keepdims=True), 2, axis=1)
    np.testing.assert_array_equal(y[12:18].reshape(3, 2, 32), 2 * largest)


def test_a_deadlock_tells_of_each_copy():
    @px.kernel(warps=3)
    def kernel(X):
        go = px.barrier(2, count=1, checked=False)
        with px.warps(0, 1):
            go[0].arrive()
        with px.warps(1, 1, copies=2) as c:
            go[c].wait(0)
            go[1 - c].arrive()
            if c == 1:
                go[1].wait(1)

    report = px.check(kernel[1], np.zeros(4, np.float32))
    assert "warp 2" in str(report) and "deadlock" in {finding.kind for finding in report.findings}
