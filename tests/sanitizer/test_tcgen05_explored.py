"""Every order of events of small kernels on Blackwell's tensor cores: what the exploration, which knows no clocks, says."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer import test_tcgen05, test_tcgen05_pairs
from sanitizer.planted import cases, line_of
from sanitizer.tensor_launches import PAIR


@px.kernel(warps=6, cluster=2)
def pair(A, B, C, *, STEPS, S):
    """Two CTAs multiply as one, over a ring of stages, and each drains its half."""
    rank = px.cluster.rank()
    a, b, acc = px.shared((S, 64, 16), A.dtype), px.shared((S, 8, 16), B.dtype), px.tmem((64, 16), px.f32)
    full, empty, done = px.barrier(S), px.barrier(S), px.barrier()
    with px.warps(4, 1):
        r = px.ring(S)
        for k in range(STEPS):
            empty[r.stage].wait(r.parity ^ 1)
            with full[r.stage].transaction():
                px.tma.load(A[rank * 64 : rank * 64 + 64, k * 16 : k * 16 + 16], a[r.stage], full[r.stage], two_cta=True)
                px.tma.load(B[rank * 8 : rank * 8 + 8, k * 16 : k * 16 + 16], b[r.stage], full[r.stage], two_cta=True)
            r.advance()
    with px.warps(5, 1):
        if rank == 0:
            r = px.ring(S)
            for k in range(STEPS):
                full[r.stage].wait(r.parity)
                px.tcgen05.mma(a[r.stage], b[r.stage].T, acc, accumulate=k > 0, two_cta=True)
                px.tcgen05.commit(empty[r.stage], multicast=0b11, two_cta=True)
                r.advance()
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[rank * 64 : rank * 64 + 64, 0:16], px.tcgen05.load(acc))


def test_a_pair():
    a, b, c = PAIR["args"]
    found = px.explore(pair[2], a, b, c, STEPS=2, S=1)
    assert found.ok and found.complete and found.outcomes == 1 and not found.clashes
    assert px.check(pair[2], a, b, c, STEPS=3, S=2).ok
    result = np.zeros_like(c)
    pair[2](a, b, result, STEPS=3, S=2)
    assert (result == a.astype(np.float32) @ b.astype(np.float32).T).all()


IN_ORDER_HERE = ("a_product_follows_another_of_a_different_shape", "two_copies_into_the_same_columns")
"""The simulator lets the tensor cores do what one role gave them in its order: only the checks know that they need not."""
TOO_MANY_ORDERS = ("the_mask_of_a_commit_is_too_small", "the_mask_of_a_commit_is_too_large")
EXPLORED = [
    case for module in (test_tcgen05, test_tcgen05_pairs) for case in cases(module.__name__)
    if case.kind == "race" and not case.strict and str(case) not in (*IN_ORDER_HERE, *TOO_MANY_ORDERS)
]


@pytest.mark.share(2)
@pytest.mark.parametrize("case", EXPLORED, ids=str)
def test_planted(case):
    """A race is a clash of the same two lines in some order of events; the twin has none."""
    twin, wrong = (px.explore(case.kernel[case.grid], *case.args, BUG=bug, **case.constants) for bug in (False, True))
    assert twin.ok and not twin.clashes, twin
    lines = frozenset(line_of(case.kernel, mark) for mark in ("bug", "other"))
    assert lines in {frozenset(line for _, line in clash) for clash in wrong.clashes}, wrong
