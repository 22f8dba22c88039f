"""A flag of relaxed atomics between fences of the cluster: what comes before the one is known behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.ops.control import Sync
from phalanx.ir.types import i32
from support.front import array as of_rank
from support.front import prepared

I, O = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)


@px.kernel(warps=4, cluster=2)
def by_flag(I, O, *, BEFORE="right", BEHIND="right", AGAIN=False):
    """CTA 0 fills a buffer and raises a flag of CTA 1, which waits for it and reads the buffer.

    The fences are where they belong, or on the wrong side of the flag, or missing. AGAIN: CTA 0 writes once more behind it.
    """
    r = px.cluster.rank()
    s, flag = px.shared((128,), px.i32), px.shared((1,), px.i32)
    px.store(flag, 0)
    px.cluster.sync()
    if r == 0:
        px.store(s, px.load(I[0:128]))
        if BEFORE == "right":
            px.fence.cluster()
        px.atomic_exch(flag.at(1)[0:1], 1)
        if BEFORE == "wrong":
            px.fence.cluster()
        if AGAIN:
            px.store(s, px.zeros((128,), px.i32))
    else:
        if BEHIND == "wrong":
            px.fence.cluster()
        while px.max(px.atomic_add(flag[0:1], 0)) == 0:
            px.sync()
        if BEHIND == "right":
            px.fence.cluster()
        px.store(O[0:128], px.load(s.at(0)))


def test_fences_on_both_sides_of_a_flag_hand_memory_on():
    out = np.zeros_like(O)
    by_flag[2](I, out)
    assert (out == I).all()
    report = px.check(by_flag[2], I, O)
    assert report.ok, report


@pytest.mark.parametrize("wrong", [
    {"BEFORE": "wrong"}, {"BEFORE": "none"}, {"BEHIND": "wrong"}, {"BEHIND": "none"}, {"AGAIN": True},
], ids=str)
def test_a_fence_that_is_missing_or_on_the_wrong_side_is_a_race(wrong: dict[str, Any]):
    report = px.check(by_flag[2], I, O, **wrong)
    assert [finding.kind for finding in report.findings] == ["race"]


def test_the_threads_meet_before_the_fence_and_behind_it():
    """One thread raises the flag and one looks at it: their fences have to speak for all."""
    ops = list(prepared(by_flag, (of_rank(1, i32), of_rank(1, i32))).walk())
    fences = [at for at, op in enumerate(ops) if op.mnemonic == "fence.cluster"]
    assert len(fences) == 2
    for at in fences:
        assert isinstance(ops[at - 1], Sync)
        touches = next(op for op in ops[at + 1 :] if op.effects().accesses or isinstance(op, Sync))
        assert isinstance(touches, Sync)


@px.kernel(warps=4, cluster=2)
def in_another_cluster(X, Y):
    """The fence of a cluster orders nothing between clusters, whatever lies between."""
    c = px.counters(1)
    if px.block_id(0) == 0:
        px.store(Y[0, 0:64], px.load(X[0, 0:64]))
        px.fence.cluster()
        px.atomic_exch(c[0], 1)
    if px.block_id(0) == 2:
        while px.atomic_add(c[0], 0) == 0:
            px.sync()
        px.fence.cluster()
        px.store(X[1, 0:64], px.load(Y[0, 0:64]))
        px.atomic_exch(c[0], 0)


@px.kernel(warps=4, cluster=2)
def in_global_memory(X, Y):
    """The flag may be in global memory, as long as both sides are of one cluster."""
    c = px.counters(2)
    at = px.cluster.id()
    if px.cluster.rank() == 0:
        px.store(Y[at, 0:64], px.load(X[at, 0:64]))
        px.fence.cluster()
        px.atomic_exch(c[at], 1)
    else:
        while px.atomic_load(c[at]) == 0:
            px.sync()
        px.fence.cluster()
        px.store(X[2 + at, 0:64], px.load(Y[at, 0:64]))
        px.atomic_exch(c[at], 0)


def test_a_flag_in_global_memory():
    x = np.ones((4, 64), np.float32)
    report = px.check(in_global_memory[4], x, np.zeros_like(x))
    assert report.ok, report
    assert {finding.kind for finding in px.check(in_another_cluster[4], x, np.zeros_like(x)).findings} == {"race"}
