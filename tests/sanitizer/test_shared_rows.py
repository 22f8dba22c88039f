"""Shared memory by index: the checks see the rows that are touched, no more and no less."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px

X = np.arange(64, dtype=np.float32)
EVEN, ODD = np.arange(0, 16, 2, dtype=np.int32), np.arange(1, 16, 2, dtype=np.int32)
NONE = np.full(8, -1, np.int32)


def kinds(kernel, *args) -> set[str]:
    return {finding.kind for finding in px.check(kernel[1], *args).findings}


@px.kernel(warps=2)
def two_writers(X, Y, I, J):
    """Each role writes the rows that its indices name."""
    s, done = px.shared((16, 4), X.dtype), px.barrier()
    px.store(s, 0.0)
    with px.warps(0, 1):
        px.store(s[px.load(I[0:8])], px.load(X[0:32]).reshape(8, 4))
        done.arrive()
    with px.warps(1, 1):
        px.store(s[px.load(J[0:8])], px.load(X[32:64]).reshape(8, 4))
        done.arrive()
    done.wait(0)
    px.store(Y[0:64], px.load(s).reshape(64))


def test_rows_that_are_apart_do_not_race():
    y = np.zeros_like(X)
    assert kinds(two_writers, X, y, EVEN, ODD) == set()
    two_writers[1](X, y, EVEN, ODD)
    assert np.array_equal(y.reshape(16, 4)[::2], X[:32].reshape(8, 4))
    assert np.array_equal(y.reshape(16, 4)[1::2], X[32:].reshape(8, 4))


def test_a_row_that_both_write_does():
    shared = ODD.copy()
    shared[5] = 4
    finding, = px.check(two_writers[1], X, np.zeros_like(X), EVEN, shared).findings
    assert finding.kind == "race" and "s[rows]" in finding.message


def test_rows_that_are_not_there_are_no_access():
    assert kinds(two_writers, X, np.zeros_like(X), NONE, np.full(8, 16, np.int32)) == set()


@px.kernel(warps=1)
def part_written(X, Y, I, J):
    s = px.shared((16,), X.dtype)
    px.store(s[px.load(I[0:8])], px.load(X[0:8]))
    px.store(Y[0:8], px.load(s[px.load(J[0:8])], fill=5))


@pytest.mark.parametrize(
    ("written", "read", "found"),
    [(EVEN, EVEN, set()), (EVEN, NONE, set()), (EVEN, ODD, {"uninitialised-read"}), (NONE, EVEN, {"uninitialised-read"})],
)
def test_only_what_was_written_may_be_read(written, read, found):
    assert kinds(part_written, X, np.zeros_like(X), written, read) == found


def test_masked_elements_load_as_fill():
    y = np.zeros(8, np.float32)
    part_written[1](X, y, EVEN, np.where(EVEN < 6, EVEN, -1).astype(np.int32))
    assert y.tolist() == [0, 1, 2, 5, 5, 5, 5, 5]


@px.kernel(warps=2)
def counts(Y, I):
    """A histogram of both roles: atomics do not race, and the read after the barrier sees both."""
    bins, done = px.shared((16,), px.i32), px.barrier()
    px.store(bins, 0)
    for role in px.static_range(2):
        with px.warps(role, 1):
            px.atomic_add(bins[px.load(I[role * 32 : role * 32 + 32])], 1)
            done.arrive()
    done.wait(0)
    px.store(Y[0:16], px.load(bins))


def test_atomics_by_index():
    index = np.random.default_rng(0).integers(-2, 18, 64).astype(np.int32)
    y = np.zeros(16, np.int32)
    counts[1](y, index)
    assert np.array_equal(y, np.bincount(index[(index >= 0) & (index < 16)], minlength=16))
    assert px.check(counts[1], y, index).ok
    seen = px.explore(counts[1], y, index)
    assert (seen.outcomes, seen.ok) == (1, True)


@px.kernel(warps=2, cluster=2)
def from_a_peer(X, Y, I, *, SYNC):
    """Rows of the other CTA's memory by index, after it has been told that they are there, or not."""
    s, rank = px.shared((32,), X.dtype), px.cluster.rank()
    px.store(s, px.load(X[rank * 32 : rank * 32 + 32]))
    if SYNC:
        px.cluster.sync()
    px.store(Y[rank * 8 : rank * 8 + 8], px.load(s.at(rank ^ 1)[px.load(I[0:8])]))


def test_rows_of_another_cta():
    y = np.zeros(16, np.float32)
    from_a_peer[2](X, y, EVEN, SYNC=True)
    assert np.array_equal(y, np.concatenate([X[32:][EVEN], X[:32][EVEN]]))
    assert px.check(from_a_peer[2], X, y, EVEN, SYNC=True).ok
    assert {finding.kind for finding in px.check(from_a_peer[2], X, y, EVEN, SYNC=False).findings} == {"race"}
