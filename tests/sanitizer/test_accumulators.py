"""Products one after the other on tensor memory: in order on one and the same accumulator, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import cases, planted

ARGS = (np.ones((128, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((128, 64), np.float32))
ONE = dict(grid=1, args=ARGS)


@planted("race", **ONE)
@px.kernel(warps=4)
def overlapping_columns(A, B, C, *, BUG):
    """Two accumulators of one shape that have columns in common, but not all."""
    a, b = px.shared((128, 64), A.dtype), px.shared((64, 64), B.dtype)
    acc = px.tmem((128, 128), px.f32)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc[:, 0:64], accumulate=False)  # other
    if BUG:
        px.tcgen05.mma(a, b.T, acc[:, 32:96], accumulate=False)  # bug
    else:
        px.tcgen05.mma(a, b.T, acc[:, 64:128], accumulate=False)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:128, 0:64], px.tcgen05.load(acc[:, 0:64]))


@planted("race", **ONE)
@px.kernel(warps=4)
def overlapping_columns_that_add_up(A, B, C, *, BUG):
    a, b = px.shared((128, 64), A.dtype), px.shared((64, 64), B.dtype)
    acc = px.tmem((128, 128), px.f32)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    px.tcgen05.store(acc, px.zeros((128, 128), px.f32))
    px.tcgen05.mma(a, b.T, acc[:, 32:96])  # other
    px.tcgen05.mma(a, b.T, acc[:, 0:64] if BUG else acc[:, 32:96])  # bug
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:128, 0:64], px.tcgen05.load(acc[:, 0:64]))


@planted("race", **ONE)
@px.kernel(warps=4)
def waited_for_between(A, B, C, *, BUG):
    """A commit that was waited for orders any two products."""
    a, b = px.shared((128, 64), A.dtype), px.shared((64, 64), B.dtype)
    acc = px.tmem((128, 128), px.f32)
    full, between, done = px.barrier(), px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc[:, 0:64], accumulate=False)  # other
    px.tcgen05.commit(between)
    if not BUG:
        between.wait(0)
    px.tcgen05.mma(a, b.T, acc[:, 32:96], accumulate=False)  # bug
    px.tcgen05.commit(done)
    done.wait(0)
    if BUG:
        between.wait(0)
    px.store(C[0:128, 0:64], px.tcgen05.load(acc[:, 0:64]))


@px.kernel(warps=4)
def of_two_names(A, B, C):
    """Two buffers on the same columns are one accumulator to the tensor cores."""
    a, b = px.shared((128, 64), A.dtype), px.shared((64, 64), B.dtype)
    acc = px.tmem((128, 64), px.f32)
    again = px.tmem((128, 64), px.f32, reuse=acc)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    px.tcgen05.mma(a, b.T, acc, accumulate=False)
    px.tcgen05.mma(a, b.T, again, accumulate=False)
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[0:128, 0:64], px.tcgen05.load(again))


def test_the_same_columns_by_another_name_are_the_same_accumulator():
    report = px.check(of_two_names[1], *ARGS)
    assert report.ok, report


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
