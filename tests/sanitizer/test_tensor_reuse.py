"""Buffers of different shape and type in the same columns of tensor memory: what they share is cells, not rows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import cases, planted

A = (np.arange(128 * 16) % 7 - 3).reshape(128, 16).astype(ml_dtypes.bfloat16)
B = (np.arange(64 * 16) % 5 - 2).reshape(64, 16).astype(ml_dtypes.bfloat16)
C, P = np.zeros((128, 64), np.float32), np.zeros((128, 64), np.float32)
ARGS = dict(grid=1, args=(A, B, C, P))


@planted("uninitialised-read", **ARGS)
@px.kernel(warps=4)
def half_of_an_accumulator_becomes_an_operand(A, B, C, P, *, BUG):
    """64 columns of f32, of which the first 32 become 64 columns of bf16: those of the other half stay."""
    a, b = px.shared((128, 16), A.dtype), px.shared((64, 16), B.dtype)
    scores = px.tmem((128, 64), px.f32)
    left = px.tmem((128, 64), px.bf16, reuse=scores)
    full, done = px.barrier(), px.barrier()
    with full.transaction():
        px.tma.load(A[0:128, 0:16], a, full)
        px.tma.load(B[0:64, 0:16], b, full)
    full.wait(0)
    px.tcgen05.mma(a, b.T, scores, accumulate=False)
    px.tcgen05.commit(done)
    done.wait(0)
    whole = px.tcgen05.load(scores)
    px.tcgen05.store(left, whole.to(px.bf16))  # other
    first = 16 if BUG else 32
    px.store(C[0:128, 0:32], px.tcgen05.load(scores[:, first : first + 32]))  # bug
    px.store(P[0:128, 0:64], px.tcgen05.load(left).to(px.f32))


@planted("race", **ARGS)
@px.kernel(warps=5)
def the_half_that_is_being_added_to_becomes_an_operand(A, B, C, P, *, BUG):
    """The tensor cores add to columns 32 to 63 while threads store an operand in 0 to 31."""
    a, b = px.shared((128, 16), A.dtype), px.shared((64, 16), B.dtype)
    scores = px.tmem((128, 64), px.f32)
    left = px.tmem((128, 128), px.bf16, reuse=scores)
    full, done = px.barrier(), px.barrier()
    with px.warps(4, 1):
        with full.transaction():
            px.tma.load(A[0:128, 0:16], a, full)
            px.tma.load(B[0:64, 0:16], b, full)
        full.wait(0)
        px.tcgen05.mma(a, b[32:64].T, scores[:, 32:64], accumulate=False)  # bug
        px.tcgen05.commit(done)
    with px.warps(0, 4):
        begin = 64 if BUG else 0
        px.tcgen05.store(left[:, begin : begin + 64], px.full((128, 64), 1, px.bf16))  # other
        done.wait(0)
        if not BUG:
            px.store(C[0:128, 32:64], px.tcgen05.load(scores[:, 32:64]))


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_what_was_overwritten_is_not_there_any_more():
    """A plain run gives no old data either: it is poisoned, as memory is at the start."""
    product = A.astype(np.float32) @ B.astype(np.float32).T
    c, p = np.zeros((128, 64), np.float32), np.zeros((128, 64), np.float32)
    half_of_an_accumulator_becomes_an_operand[1](A, B, c, p, BUG=False)
    assert (c[:, :32] == product[:, 32:]).all() and (p == product.astype(ml_dtypes.bfloat16).astype(np.float32)).all()
    half_of_an_accumulator_becomes_an_operand[1](A, B, c, p, BUG=True)
    assert np.isnan(c[:, :16]).all() and (c[:, 16:32] == product[:, 32:48]).all()


def test_every_order_is_explored():
    """The exploration sees the same cells."""
    kernel = the_half_that_is_being_added_to_becomes_an_operand
    assert not px.explore(kernel[1], A, B, C, P, BUG=False).clashes
    assert px.explore(kernel[1], A, B, C, P, BUG=True).clashes
