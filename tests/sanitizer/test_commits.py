"""Work that ends with a commit of its engine: who may rely on it, and who may not."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.movers import commit, move
from sanitizer.planted import array, cases, line_of, planted

X, Y = array(4, 16), array(4, 16)
ONE = dict(grid=1, args=(X, Y))


@planted("race", **ONE)
@px.kernel(warps=2)
def reads_before_the_commit(X, Y, *, BUG):
    a, b = px.shared((16,), X.dtype), px.shared((16,), X.dtype)
    done = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(a, px.load(X[0, 0:16]))
        px.fence.async_proxy()
        move(a, b)  # other
        commit(done)
    with px.warps(1, 1):
        if not BUG:
            done.wait(0)
        px.store(Y[0, 0:16], px.load(b))  # bug
        if BUG:
            done.wait(0)


@planted("race", **ONE)
@px.kernel(warps=2)
def the_source_is_written_while_it_is_read(X, Y, *, BUG):
    a, b = px.shared((16,), X.dtype), px.shared((16,), X.dtype)
    done = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(a, px.load(X[0, 0:16]))
        px.fence.async_proxy()
        move(a, b)  # other
        commit(done)
        if not BUG:
            done.wait(0)
        px.store(a, px.load(X[1, 0:16]))  # bug
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[0, 0:16], px.load(b))


@planted("race", **ONE)
@px.kernel(warps=2)
def a_commit_covers_only_what_was_given_before(X, Y, *, BUG):
    a, b = px.shared((16,), X.dtype), px.shared((16,), X.dtype)
    done, other = px.barrier(count=1), px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(a, px.load(X[0, 0:16]))
        px.fence.async_proxy()
        if BUG:
            commit(done)
        move(a, b)  # other
        if not BUG:
            commit(done)
        commit(other)
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[0, 0:16], px.load(b))  # bug
        other.wait(0)


@planted("race", **ONE)
@px.kernel(warps=2)
def an_engine_without_order_writes_twice(X, Y, *, BUG):
    a, b = px.shared((2, 16), X.dtype), px.shared((16,), X.dtype)
    done = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(a, px.load(X[0:2, 0:16]))
        px.fence.async_proxy()
        move(a[0], b, "unordered" if BUG else "ordered")  # other
        move(a[1], b, "unordered" if BUG else "ordered")  # bug
        commit(done, "unordered" if BUG else "ordered")
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[0, 0:16], px.load(b))


@planted("race", **ONE)
@px.kernel(warps=2)
def a_commit_publishes_nothing_else(X, Y, *, BUG):
    a, b, c = px.shared((16,), X.dtype), px.shared((16,), X.dtype), px.shared((16,), X.dtype)
    done, told = px.barrier(count=1), px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(a, px.load(X[0, 0:16]))
        px.fence.async_proxy()
        move(a, b)
        px.store(c, px.load(X[1, 0:16]))  # other
        commit(done)
        told.arrive()
    with px.warps(1, 1):
        done.wait(0)
        if not BUG:
            told.wait(0)
        px.store(Y[0, 0:16], px.load(b) + px.load(c))  # bug
        if BUG:
            told.wait(0)


@planted("unfinished", **ONE)
@px.kernel(warps=1)
def never_committed(X, Y, *, BUG):
    a, b = px.shared((16,), X.dtype), px.shared((16,), X.dtype)
    done = px.barrier(count=1, checked=False)
    px.store(a, px.load(X[0, 0:16]))
    px.fence.async_proxy()
    move(a, b)  # bug
    if BUG:
        done.arrive()
    else:
        commit(done)
    done.wait(0)


@planted("proxy", **ONE)
@px.kernel(warps=2)
def the_engine_needs_a_fence(X, Y, *, BUG):
    a, b = px.shared((16,), X.dtype), px.shared((16,), X.dtype)
    done = px.barrier(count=1)
    with px.warps(0, 1):
        px.store(a, px.load(X[0, 0:16]))  # other
        if not BUG:
            px.fence.async_proxy()
        move(a, b)  # bug
        commit(done)
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[0, 0:16], px.load(b))


@px.kernel(warps=2, cluster=2)
def in_two_ctas(X, Y, *, COUNT=None):
    """Each CTA moves its own half, and tells both."""
    rank = px.cluster.rank()
    a, b = px.shared((16,), X.dtype), px.shared((16,), X.dtype)
    done = px.barrier(count=COUNT)
    with px.warps(0, 1):
        px.store(a, px.load(X[rank, 0:16]))
        px.fence.async_proxy()
        move(a, b)
        commit(done, ctas=0b11)
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[rank, 0:16], px.load(b))


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_arrivals_of_the_engine_are_counted_over_the_cluster():
    y = np.zeros((2, 16), np.float32)
    in_two_ctas[2](X, y)
    assert (y == X[:2]).all()
    assert px.check(in_two_ctas[2], X, Y).ok
    with pytest.raises(px.Error, match="written with count=1, but the arrivals of one phase are 2"):
        in_two_ctas[2](X, y, COUNT=1)


EXPLORED = [case.kernel for case in cases(__name__) if case.kind == "race"]


@pytest.mark.parametrize("kernel", EXPLORED, ids=lambda kernel: kernel.name)
def test_every_order_is_explored(kernel):
    """The exploration, which knows no clocks of the checks, says the same."""
    twin, wrong = (px.explore(kernel[1], X, Y, BUG=bug) for bug in (False, True))
    assert twin.ok and not twin.clashes
    lines = frozenset(line_of(kernel, mark) for mark in ("bug", "other"))
    assert wrong.complete and {frozenset(line for _, line in clash) for clash in wrong.clashes} == {lines}
    assert wrong.outcomes > 1 or kernel is a_commit_publishes_nothing_else
