"""Many reads of the same bytes before a write: none of them is forgotten, however many came in between."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array


@px.kernel(warps=4, cluster=2)
def pushed_often(I, O, n, *, BUG):
    """CTA 0 reads its tile, and pushes it n times; CTA 1, which learns of the pushes, writes over it."""
    r = px.cluster.rank()
    s, inbox, full = px.shared((16,), px.i32), px.shared((128, 16), px.i32), px.barrier(1, count=1)
    px.store(s, px.load(I[r * 16 : r * 16 + 16]))
    px.fence.async_proxy()
    px.cluster.sync()
    if r == 0:
        if BUG:
            px.store(O[0:16], px.load(s))
        for i in range(n):
            px.cluster.copy(s, inbox[i], full[0], cta=1)
    else:
        full[0].arrive_and_expect_tx(n * 64)
        full[0].wait(0)
        px.store(s.at(0), px.zeros((16,), px.i32))


@pytest.mark.parametrize("n", [1, 8, 63, 64, 100, 128])
def test_a_read_before_many_copies_is_remembered(n):
    args = array(64, dtype=np.int32), np.zeros(64, np.int32), n
    assert [finding.kind for finding in px.check(pushed_often[2], *args, BUG=True).findings] == ["race"]
    assert px.check(pushed_often[2], *args, BUG=False).ok


@px.kernel(warps=4, cluster=2)
def pushed_on_many_barriers(I, O, *, N, WAITED):
    """Each push completes on a barrier of its own; CTA 1 writes over the source when it has waited for `WAITED` of them."""
    r = px.cluster.rank()
    s, inbox, full = px.shared((16,), px.i32), px.shared((N, 16), px.i32), px.barrier(N, count=1)
    px.store(s, px.load(I[r * 16 : r * 16 + 16]))
    px.fence.async_proxy()
    px.cluster.sync()
    if r == 0:
        for i in px.static_range(N):
            px.cluster.copy(s, inbox[i], full[i], cta=1)
    else:
        for i in px.static_range(N):
            full[i].arrive_and_expect_tx(64)
        for i in px.static_range(N):
            if i < WAITED:
                full[i].wait(0)
        px.store(s.at(0), px.zeros((16,), px.i32))
        for i in px.static_range(N):
            if i >= WAITED:
                full[i].wait(0)


@pytest.mark.parametrize("n", [4, 80])
def test_every_copy_has_to_be_waited_for(n):
    args = array(64, dtype=np.int32), np.zeros(64, np.int32)
    assert px.check(pushed_on_many_barriers[2], *args, N=n, WAITED=n).ok
    for waited in (1, n - 1):
        report = px.check(pushed_on_many_barriers[2], *args, N=n, WAITED=waited)
        assert [finding.kind for finding in report.findings] == ["race"]
