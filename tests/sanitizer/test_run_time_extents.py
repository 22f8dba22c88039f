"""Pushes of as many rows as a launch says: the checks see those rows, no more and no less."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px

X = np.arange(2 * 64, dtype=np.float32).reshape(2, 64)


@px.kernel(warps=2, cluster=2)
def beside(X, Y, n, keep):
    """The first n elements arrive from the other CTA, while a role writes those from `keep` on."""
    rank = px.cluster.rank()
    mine, inbox, full = px.shared((64,), X.dtype), px.shared((64,), X.dtype), px.barrier()
    px.store(mine, px.load(X[rank, 0:64]))
    px.store(inbox, -1.0)
    px.fence.async_proxy("cluster")
    px.cluster.sync()
    with px.warps(0, 1):
        px.cluster.copy(mine[0:n], inbox[0:n], full, cta=rank ^ 1, arm=True)
        full.wait(0)
    with px.warps(1, 1):
        px.store(inbox[keep : keep + 16], -2.0)
    px.store(Y[rank, 0:64], px.load(inbox))


@pytest.mark.parametrize("n", [4, 17, 48])
def test_only_what_is_sent_is_touched(n: int) -> None:
    y = np.zeros_like(X)
    assert px.check(beside[2], X, y, n, 48).ok
    beside[2](X, y, n, 48)
    want = np.full_like(X, -1)
    want[:, :n], want[:, 48:] = X[::-1, :n], -2
    assert np.array_equal(y, want)


def test_what_is_sent_races_with_what_is_written() -> None:
    finding, = px.check(beside[2], X, np.zeros_like(X), 17, 16).findings
    assert finding.kind == "race" and "inbox[0:17]" in finding.message


def test_a_region_that_leaves_the_buffer_is_told() -> None:
    for n, message in ((65, "0:65 is outside axis 0 of mine, whose size is 64"), (-1, "a region of -1 elements of mine")):
        with pytest.raises(px.Error) as error:
            beside[2](X, np.zeros_like(X), n, 48)
        assert error.value.kind == "out-of-bounds" and error.value.message == message


@px.kernel(warps=2, cluster=2)
def columns(X, Y, m, n, keep):
    """The first n columns of m rows arrive from the other CTA, while a role writes the columns from `keep` on."""
    rank = px.cluster.rank()
    mine, inbox, full = px.shared((4, 16), X.dtype), px.shared((4, 16), X.dtype), px.barrier()
    px.store(mine, px.load(X[rank, 0:64]).reshape(4, 16))
    px.store(inbox, -1.0)
    px.fence.async_proxy("cluster")
    px.cluster.sync()
    with px.warps(0, 1):
        px.cluster.copy(mine[0:m, 0:n], inbox[0:m, 0:n], full, cta=rank ^ 1, arm=True)
        full.wait(0)
    with px.warps(1, 1):
        px.store(inbox[0:4, keep : keep + 4], -2.0)
    px.store(Y[rank, 0:64], px.load(inbox).reshape(64))


@pytest.mark.parametrize(("m", "n"), [(4, 12), (3, 5), (1, 12), (0, 7)])
def test_only_the_columns_that_are_sent_are_touched(m: int, n: int) -> None:
    y = np.zeros_like(X)
    assert px.check(columns[2], X, y, m, n, 12).ok
    columns[2](X, y, m, n, 12)
    want = np.full((2, 4, 16), -1, np.float32)
    want[:, :m, :n], want[:, :, 12:] = X[::-1].reshape(2, 4, 16)[:, :m, :n], -2
    assert np.array_equal(y, want.reshape(2, 64))


def test_columns_that_are_sent_race_with_what_is_written() -> None:
    finding, = px.check(columns[2], X, np.zeros_like(X), 3, 13, 12).findings
    assert finding.kind == "race" and "inbox[0:3, 0:13]" in finding.message


def test_columns_that_the_buffer_lacks_are_told() -> None:
    for m, n, message in (
        (4, 17, "0:17 is outside axis 1 of mine, whose size is 16"), (4, -2, "a region of -2 places along axis 1 of mine")
    ):
        with pytest.raises(px.Error) as error:
            columns[2](X, np.zeros_like(X), m, n, 12)
        assert error.value.kind == "out-of-bounds" and error.value.message == message
