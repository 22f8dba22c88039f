"""Global memory: between roles, CTAs and clusters; bulk groups; atomics."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)


@planted("race", grid=4, args=(X, Y))
@px.kernel(warps=1)
def blocks_write_overlapping_rows(X, Y, *, BUG):
    b = px.block_id(0) * (64 - BUG)
    px.store(Y[b : b + 64, 0:64], px.load(X[b : b + 64, 0:64]))  # bug, other


@planted("race", grid=4, args=(X, Y))
@px.kernel(warps=1)
def blocks_add_without_atomics(X, Y, *, BUG):
    if BUG:
        px.store(Y[0, 0:64], px.load(Y[0, 0:64]) + px.load(X[px.block_id(0), 0:64]))  # bug, other
    else:
        px.atomic_add(Y[0, 0:64], px.load(X[px.block_id(0), 0:64]))


@planted("race", grid=1, args=(X, Y))
@px.kernel(warps=2)
def role_reads_global_data_of_another(X, Y, *, BUG):
    done = px.barrier()
    with px.warps(0, 1):
        px.store(Y[0, 0:64], px.load(X[0, 0:64]))  # other
        done.arrive()
    with px.warps(1, 1):
        if not BUG:
            done.wait(0)
        px.store(Y[1, 0:64], px.load(Y[0, 0:64]) * 2.0)  # bug
        if BUG:
            done.wait(0)


@planted("race", grid=1, args=(X, Y))
@px.kernel(warps=1)
def stage_is_refilled_while_the_store_reads_it(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    for t in range(X.shape[0] // 64):
        with bar.transaction():
            px.tma.load(X[t * 64 : t * 64 + 64, 0:64], s, bar)  # bug
        bar.wait(t & 1)
        px.tma.store(s, Y[t * 64 : t * 64 + 64, 0:64])  # other
        px.tma.commit()
        if not BUG:
            px.tma.wait(0, read=True)
    px.tma.wait(0)


@planted("race", grid=1, args=(X, Y))
@px.kernel(warps=1)
def waits_for_one_group_too_few(X, Y, *, BUG):
    s = px.shared((2, 64, 64), X.dtype)
    for t in range(X.shape[0] // 64):
        px.tma.wait(1 + BUG, read=True)
        px.store(s[t & 1], px.load(X[t * 64 : t * 64 + 64, 0:64]))  # bug
        px.fence.async_proxy()
        px.tma.store(s[t & 1], Y[t * 64 : t * 64 + 64, 0:64])  # other
        px.tma.commit()
    px.tma.wait(0)


@planted("race", grid=1, args=(X, Y))
@px.kernel(warps=1)
def read_wait_does_not_cover_the_writes(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    px.store(s, px.load(X[0:64, 0:64]))
    px.fence.async_proxy()
    px.tma.store(s, Y[0:64, 0:64])  # other
    px.tma.commit()
    px.tma.wait(0, read=bool(BUG))
    px.store(Y[64:128, 0:64], px.load(Y[0:64, 0:64]))  # bug


@planted("race", grid=1, args=(X, Y))
@px.kernel(warps=1)
def two_copies_into_one_place(X, Y, *, BUG):
    s = px.shared((2, 64, 64), X.dtype)
    bar = px.barrier()
    with bar.transaction():
        for i in px.static_range(2):
            px.tma.load(X[i * 64 : i * 64 + 64, 0:64], s[0 if BUG else i], bar)  # bug, other
    bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s[0]))


@planted("race", grid=2, args=(X, Y))
@px.kernel(warps=1)
def rows_by_index_meet(X, Y, *, BUG):
    rows = px.arange(16) * 2 + (0 if BUG else px.block_id(0))
    px.store(Y[rows, 0:64], px.load(X[rows, 0:64]))  # bug, other


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_arguments_that_share_memory():
    @px.kernel(warps=1)
    def shift(A, B):
        b = px.block_id(0) * 64
        px.store(B[b : b + 64], px.load(A[b : b + 64]))

    memory = np.zeros(320, np.float32)
    assert px.check(shift[4], memory[:256], memory[:256]).ok
    assert [f.kind for f in px.check(shift[4], memory[4:260], memory[:256]).findings] == ["race"]


def test_reductions_by_engine_and_atomics_do_not_race():
    @px.kernel(warps=1)
    def add(X, Y):
        s = px.shared((64,), X.dtype)
        px.store(s, px.load(X[px.block_id(0), 0:64]))
        px.fence.async_proxy()
        px.tma.reduce(s, Y[0, 0:64], "add")
        px.tma.commit()
        px.tma.wait(0, read=True)
        px.atomic_add(Y[0, 0:64], px.load(X[px.block_id(0), 0:64]))

    assert px.check(add[4], X, Y, schedules=5).ok


def test_the_arguments_do_not_change():
    y = np.zeros_like(Y)
    assert px.check(blocks_write_overlapping_rows[4], X, y, BUG=False).ok
    assert not y.any()
