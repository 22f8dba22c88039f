"""Launches that overlap: accesses to global memory that no wait for the launch before comes before are notes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, line_of

X, Y = array(128, 64), array(128, 64)
ROWS = np.arange(8, dtype=np.int32)
READ = "right only if no launch before this one on the stream writes it"
WRITE = "the launch before this one on the stream may still read or write it"


def notes(kernel: Any, *args: Any, grid: int = 1, **constants: Any) -> list[str]:
    """The notes of a kernel without findings."""
    report = px.check(kernel[grid], *args, **constants)
    assert report.ok, report
    return report.notes


def note(kernel: Any, what: str, why: str) -> str:
    return f"test_overlap.py:{line_of(kernel, 'early')}: {what} before px.wait_prior(): {why}"


# --- one early access each, and its twin --------------------------------------------------------------------------------


@px.kernel(warps=1, pdl=True)
def loads(X, Y, *, EARLY):
    if not EARLY:
        px.wait_prior()
    x = px.load(X[0:64, 0:64])  # early
    if EARLY:
        px.wait_prior()
    px.store(Y[0:64, 0:64], x)


@px.kernel(warps=1, pdl=True)
def reads_a_number(X, Y, *, EARLY):
    if not EARLY:
        px.wait_prior()
    scale = X[3, 4] * 2.0  # early
    if EARLY:
        px.wait_prior()
    px.store(Y[0:64, 0:64], px.full((64, 64), scale, px.f32))


@px.kernel(warps=1, pdl=True)
def stores(X, Y, *, EARLY):
    if not EARLY:
        px.wait_prior()
    px.store(Y[0:64, 0:64], px.zeros((64, 64), px.f32))  # early
    if EARLY:
        px.wait_prior()


@px.kernel(warps=1, pdl=True)
def adds(X, Y, *, EARLY):
    if not EARLY:
        px.wait_prior()
    px.atomic_add(Y[0, 0:32], px.full((32,), 1.0, px.f32))  # early
    if EARLY:
        px.wait_prior()


@px.kernel(warps=2, pdl=True)
def copies_in_a_role_without_the_wait(X, Y, *, EARLY):
    s = px.shared((64, 64), X.dtype)
    full = px.barrier()
    with px.warps(0, 1):
        if not EARLY:
            px.wait_prior()
        with full.transaction():
            px.tma.load(X[0:64, 0:64], s, full)  # early
    with px.warps(1, 1):
        if EARLY:
            px.wait_prior()
        full.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))


@px.kernel(warps=1, pdl=True)
def copies_out(X, Y, *, EARLY):
    s = px.shared((64, 64), X.dtype)
    px.store(s, px.zeros((64, 64), px.f32))
    px.fence.async_proxy("cta")
    if not EARLY:
        px.wait_prior()
    px.tma.store(s, Y[0:64, 0:64])  # early
    px.tma.commit()
    px.tma.wait(0)
    if EARLY:
        px.wait_prior()


@px.kernel(warps=1, pdl=True)
def folds(X, Y, *, EARLY):
    s = px.shared((64, 64), X.dtype)
    px.store(s, px.zeros((64, 64), px.f32))
    px.fence.async_proxy("cta")
    if not EARLY:
        px.wait_prior()
    px.tma.reduce(s, Y[0:64, 0:64], op="add")  # early
    px.tma.commit()
    px.tma.wait(0)
    if EARLY:
        px.wait_prior()


@px.kernel(warps=1, pdl=True)
def gathers(X, Y, *, EARLY):
    s = px.shared((4, 64), X.dtype)
    bar = px.barrier()
    if not EARLY:
        px.wait_prior()
    with bar.transaction():
        px.tma.gather4(X, (1, 5, 2, 3), 0, s, bar)  # early
    bar.wait(0)
    if EARLY:
        px.wait_prior()
    px.store(Y[0:4, 0:64], px.load(s))


@px.kernel(warps=1, pdl=True)
def scatters(X, Y, *, EARLY):
    s = px.shared((4, 64), X.dtype)
    px.store(s, px.zeros((4, 64), px.f32))
    px.fence.async_proxy("cta")
    if not EARLY:
        px.wait_prior()
    px.tma.scatter4(s, (1, 5, 2, 3), 0, Y)  # early
    px.tma.commit()
    px.tma.wait(0)
    if EARLY:
        px.wait_prior()


PLANTED = [
    (loads, "px.load reads X", READ), (reads_a_number, "px.load reads X", READ), (stores, "px.store writes Y", WRITE),
    (adds, "px.atomic_add updates Y", WRITE), (copies_in_a_role_without_the_wait, "px.tma.load reads X", READ),
    (copies_out, "px.tma.store writes Y", WRITE), (folds, "px.tma.reduce updates Y", WRITE),
    (gathers, "px.tma.gather4 reads X", READ), (scatters, "px.tma.scatter4 writes Y", WRITE),
]  # fmt: skip


@pytest.mark.parametrize("kernel, what, why", PLANTED, ids=[kernel.name for kernel, _, _ in PLANTED])
def test_planted(kernel: Any, what: str, why: str) -> None:
    assert notes(kernel, X, Y, EARLY=True) == [note(kernel, what, why)]
    assert notes(kernel, X, Y, EARLY=False) == []


def test_the_rows_of_a_gather_are_read_too() -> None:
    @px.kernel(warps=1, pdl=True)
    def by_index(X, ROWS, Y):
        s = px.shared((8, 64), X.dtype)
        bar = px.barrier()
        with bar.transaction():
            px.tma.gather(X, ROWS[0:8], 0, s, bar)  # early
        px.wait_prior()
        bar.wait(0)
        px.store(Y[0:8, 0:64], px.load(s))

    assert sorted(notes(by_index, X, ROWS, Y)) == [
        note(by_index, "px.load reads ROWS", READ), note(by_index, "px.tma.gather reads X", READ),
    ]


# --- who comes after the wait -------------------------------------------------------------------------------------------


@px.kernel(warps=2, pdl=True)
def consumer_after_the_producers_copies(X, Y, *, ORDERED):
    """The producer arrives before it waits: only the copy comes after its wait, and the phase after the copy."""
    s = px.shared((64, 64), X.dtype)
    full = px.barrier()
    with px.warps(0, 1):
        full.arrive_and_expect_tx(s.nbytes)
        px.wait_prior()
        px.tma.load(X[0:64, 0:64], s, full)
    with px.warps(1, 1):
        if ORDERED:
            full.wait(0)
        px.store(Y[64:128, 0:64], px.zeros((64, 64), px.f32))  # early
        if not ORDERED:
            full.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))


@px.kernel(warps=2, pdl=True)
def arrives_after_the_wait(X, Y, *, ORDERED):
    ready = px.barrier()
    with px.warps(0, 1):
        if not ORDERED:
            ready.arrive()
        px.wait_prior()
        if ORDERED:
            ready.arrive()
    with px.warps(1, 1):
        ready.wait(0)
        px.store(Y[0:64, 0:64], px.zeros((64, 64), px.f32))  # early


@px.kernel(warps=2, pdl=True)
def after_the_roles(X, Y, *, ORDERED):
    with px.warps(0, 1):
        px.wait_prior()
        if not ORDERED:
            px.sync()
    with px.warps(1, 1):
        if not ORDERED:
            px.store(Y[64:128, 0:64], px.zeros((64, 64), px.f32))  # early
        else:
            px.sync()
    px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]))


@px.kernel(warps=1, cluster=2, pdl=True)
def peer_waits(X, Y, *, ORDERED):
    rank = px.cluster.rank()
    if rank == 0:
        px.wait_prior()
    if ORDERED:
        px.cluster.sync()
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.zeros((64, 64), px.f32))  # early


@px.kernel(warps=1, cluster=2, pdl=True)
def peer_waits_and_arrives_relaxed(X, Y, *, ORDERED):
    rank = px.cluster.rank()
    if ORDERED:
        if rank == 0:
            px.wait_prior()
    px.cluster.arrive(relaxed=True)
    if not ORDERED:
        if rank == 0:
            px.wait_prior()
    px.cluster.wait()
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.zeros((64, 64), px.f32))  # early


@px.kernel(warps=1, cluster=2, pdl=True)
def peer_waits_and_signals(X, Y, *, ORDERED):
    rank = px.cluster.rank()
    ready = px.barrier()
    px.cluster.sync()
    if rank == 0:
        if ORDERED:
            px.wait_prior()
        ready.arrive(ctas=0b10)
        if not ORDERED:
            px.wait_prior()
    else:
        ready.wait(0)
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], px.zeros((64, 64), px.f32))  # early


@px.kernel(warps=1, cluster=2, pdl=True)
def peer_waits_and_tells_a_number(X, Y, *, ORDERED):
    rank = px.cluster.rank()
    if ORDERED:
        if rank == 0:
            px.wait_prior()
    total = px.cluster.reduce(px.full((4,), 1.0, px.f32), "sum")
    if not ORDERED:
        if rank == 0:
            px.wait_prior()
    px.store(Y[rank * 64, 0:4], total)  # early


ORDERS = [
    (consumer_after_the_producers_copies, 1), (arrives_after_the_wait, 1), (after_the_roles, 1), (peer_waits, 2),
    (peer_waits_and_arrives_relaxed, 2), (peer_waits_and_signals, 2), (peer_waits_and_tells_a_number, 2),
]  # fmt: skip


@pytest.mark.parametrize("kernel, grid", ORDERS, ids=[kernel.name for kernel, _ in ORDERS])
def test_what_comes_after_the_wait_is_not_early(kernel: Any, grid: int) -> None:
    assert notes(kernel, X, Y, grid=grid, ORDERED=True) == []
    assert notes(kernel, X, Y, grid=grid, ORDERED=False) == [note(kernel, "px.store writes Y", WRITE)]


def test_a_pipeline_whose_producer_waits() -> None:
    @px.kernel(warps=2, pdl=True)
    def pipeline(W, X, Y, *, N=8):
        stages = px.shared((2, 16, 64), X.dtype)
        pipe = px.pipe(2)
        scale = W[0, 5]  # early
        with px.warps(0, 1):
            px.wait_prior()
            for t in range(N):
                with pipe.produce() as s:
                    px.tma.load(X[t * 16 : t * 16 + 16, 0:64], stages[s], pipe.full[s])
        with px.warps(1, 1):
            for t in range(N):
                with pipe.consume() as s:
                    px.store(Y[t * 16 : t * 16 + 16, 0:64], px.load(stages[s]) * scale)

    assert notes(pipeline, X, X, Y) == [note(pipeline, "px.load reads W", READ)]


def test_a_wait_in_one_cluster_says_nothing_in_another() -> None:
    @px.kernel(warps=1, pdl=True)
    def first_waits(Y):
        b = px.block_id(0)
        if b == 0:
            px.wait_prior()
        px.store(Y[b * 64 : b * 64 + 64, 0:64], px.zeros((64, 64), px.f32))  # early

    assert notes(first_waits, Y, grid=1) == []
    assert notes(first_waits, Y, grid=2) == [note(first_waits, "px.store writes Y", WRITE)]


def test_a_launch_in_which_nobody_waits() -> None:
    """It may end before the launch before it does, and the next one waits for this one alone."""

    @px.kernel(warps=1, pdl=True)
    def early_exit(Y, count):
        b = px.block_id(0)
        if b < count:
            px.wait_prior()
            px.store(Y[b * 64 : b * 64 + 64, 0:64], px.zeros((64, 64), px.f32))

    assert notes(early_exit, Y, 1, grid=2) == notes(early_exit, Y, 2, grid=2) == []
    where = f"test_overlap.py:{early_exit.location.line}"
    why = "launches after this one would not wait for those before it"
    assert notes(early_exit, Y, 0, grid=2) == [
        f"{where}: no CTA of early_exit came to a px.wait_prior() in this launch: {why}"
    ]


# --- what is no early access --------------------------------------------------------------------------------------------


def test_only_kernels_that_overlap_are_watched() -> None:
    def body(X, Y):
        x = px.load(X[0:64, 0:64])
        px.wait_prior()
        px.store(Y[0:64, 0:64], x)

    assert notes(px.kernel(warps=1)(body), X, Y) == []
    assert len(notes(px.kernel(warps=1, pdl=True)(body), X, Y)) == 1


def test_prefetches_shared_memory_and_what_lies_outside() -> None:
    @px.kernel(warps=1, pdl=True)
    def prepares(X, Y):
        s = px.shared((64, 64), X.dtype)
        px.tma.prefetch(X[0:64, 0:64])
        px.store(s, px.zeros((64, 64), px.f32))
        px.atomic_add(s[0, 0:32], px.load(s[1, 0:32]))
        px.store(Y[128:192, 0:64], px.load(X[128:192, 0:64]))
        px.wait_prior()
        px.store(Y[0:64, 0:64], px.load(s))

    assert notes(prepares, X, Y) == []


def test_letting_the_next_launch_begin_is_no_wait() -> None:
    @px.kernel(warps=1, pdl=True)
    def signals(Y):
        px.launch_dependents()
        px.store(Y[0:64, 0:64], px.zeros((64, 64), px.f32))  # early
        px.wait_prior()

    assert notes(signals, Y) == [note(signals, "px.store writes Y", WRITE)]


def test_rows_that_are_none_are_not_read() -> None:
    @px.kernel(warps=1, pdl=True)
    def none(X, Y, *, FIRST):
        s = px.shared((8, 64), X.dtype)
        bar = px.barrier()
        with bar.transaction():
            px.tma.gather(X, px.arange(8) + FIRST, 0, s, bar)  # early
        bar.wait(0)
        px.wait_prior()
        px.store(Y[0:8, 0:64], px.load(s))

    early = note(none, "px.tma.gather reads X", READ)
    assert notes(none, X, Y, FIRST=0) == [early]
    assert early in notes(none, X, Y, FIRST=124) and early not in notes(none, X, Y, FIRST=128)


def test_one_note_per_line_array_and_kind() -> None:
    @px.kernel(warps=1, pdl=True)
    def several(X, Y):
        for t in px.static_range(2):
            for i in range(4):
                px.store(Y[t * 64 + i, 0:64], px.load(X[t, 0:64]) + px.load(X[i, 0:64]))  # early
        px.wait_prior()

    assert notes(several, X, Y) == [note(several, "px.load reads X", READ), note(several, "px.store writes Y", WRITE)]


def test_a_cluster_off_the_rails_takes_no_notes() -> None:
    @px.kernel(warps=2, pdl=True)
    def too_often(Y, *, TIMES):
        ready = px.barrier(count=2, checked=False)
        with px.warps(0, 1):
            ready.arrive(TIMES)
            px.store(Y[0:64, 0:64], px.zeros((64, 64), px.f32))  # early
            px.wait_prior()
        with px.warps(1, 1):
            ready.wait(0)

    assert px.check(too_often[1], Y, TIMES=2).notes == [note(too_often, "px.store writes Y", WRITE)]
    report = px.check(too_often[1], Y, TIMES=3)
    assert [finding.kind for finding in report.findings] == ["over-arrival"] and not report.notes


def test_the_report_shows_them() -> None:
    report = px.check(stores[1], X, Y, EARLY=True)
    assert str(report) == f"note: {note(stores, 'px.store writes Y', WRITE)}\nstores: no findings under 3 schedules"
