"""Loops that ask: those that end by themselves, those that only others can end, and those that nobody ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.ops.control import While
from phalanx.runtime.launch.specialise import read_arguments, specialise
from phalanx.sim.spins import polling


def i32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


# --- a poll that gives up, and reads all the same -----------------------------------------------------------------------


@px.func
def begin(A, X, b):
    px.store(X, px.zeros((128,), px.i32))
    px.fence.async_proxy()
    px.sync()
    with b.transaction():
        px.tma.load(A[0:128], X, b)


@px.kernel(warps=4)
def and_left(A, O, *, T, BUG):
    X, b, n = px.shared((128,), px.i32), px.barrier(), 0
    begin(A, X, b)
    while n < T and not b.test_wait(0):
        n += 1
    if not BUG:
        b.wait(0)
    px.store(O[0:128], px.load(X))
    b.wait(0)


@px.kernel(warps=4)
def and_right(A, O, *, T, BUG):
    X, b, n = px.shared((128,), px.i32), px.barrier(), 0
    begin(A, X, b)
    while not b.test_wait(0) and n < T:
        n += 1
    if not BUG:
        b.wait(0)
    px.store(O[0:128], px.load(X))
    b.wait(0)


@px.kernel(warps=4)
def not_or(A, O, *, T, BUG):
    X, b, n = px.shared((128,), px.i32), px.barrier(), 0
    begin(A, X, b)
    while not (n >= T or b.test_wait(0)):
        n += 1
    if not BUG:
        b.wait(0)
    px.store(O[0:128], px.load(X))
    b.wait(0)


@px.kernel(warps=4)
def chosen(A, O, *, T, BUG):
    X, b, n = px.shared((128,), px.i32), px.barrier(), 0
    begin(A, X, b)
    while (not b.test_wait(0)) if n < T else False:
        n += 1
    if not BUG:
        b.wait(0)
    px.store(O[0:128], px.load(X))
    b.wait(0)


@px.kernel(warps=4)
def bits(A, O, *, T, BUG):
    X, b, n = px.shared((128,), px.i32), px.barrier(), 0
    begin(A, X, b)
    while (n < T) & ~b.test_wait(0):
        n += 1
    if not BUG:
        b.wait(0)
    px.store(O[0:128], px.load(X))
    b.wait(0)


@px.kernel(warps=4)
def flagged(A, O, *, T, BUG):
    X, b, n, go = px.shared((128,), px.i32), px.barrier(), 0, True
    begin(A, X, b)
    while go:
        n += 1
        if n >= T:
            go = False
        else:
            go = not b.test_wait(0)
    if not BUG:
        b.wait(0)
    px.store(O[0:128], px.load(X))
    b.wait(0)


@px.kernel(warps=4)
def broken_off(A, O, *, T, BUG):
    X, b, n = px.shared((128,), px.i32), px.barrier(), 0
    begin(A, X, b)
    while not b.test_wait(0):
        n += 1
        if n >= T:
            break
    if not BUG:
        b.wait(0)
    px.store(O[0:128], px.load(X))
    b.wait(0)


@pytest.mark.parametrize("kernel", [and_left, and_right, not_or, chosen, bits, flagged, broken_off], ids=lambda k: k.name)
def test_a_poll_that_gives_up(kernel: Any) -> None:
    a, o = np.ones(128, np.int32), i32(128)
    report, seen = px.check(kernel[1], a, o, T=3, BUG=True), px.explore(kernel[1], a, o, T=3, BUG=True)
    assert [finding.kind for finding in report.findings] == ["race"], report
    assert seen.complete and seen.outcomes == 2 and not seen.deadlocks and not seen.errors
    report, seen = px.check(kernel[1], a, o, T=3, BUG=False), px.explore(kernel[1], a, o, T=3, BUG=False)
    assert report.ok, report
    assert seen.ok and seen.outcomes == 1, seen


@pytest.mark.parametrize("tries", [1, 2, 20])
def test_however_often_it_asks(tries: int) -> None:
    a, o = np.ones(128, np.int32), i32(128)
    assert [finding.kind for finding in px.check(and_left[1], a, o, T=tries, BUG=True).findings] == ["race"]
    assert px.explore(and_left[1], a, o, T=tries, BUG=True).outcomes == 2


# --- a poll that nobody answers -----------------------------------------------------------------------------------------


@px.kernel(warps=4)
def asks_a_barrier(O, *, TRIES):
    b = px.barrier(1, count=1, checked=False)
    n = 0
    while n < TRIES and not b.test_wait(0):
        n += 1
    px.store(O[0], n)


@px.kernel(warps=4)
def asks_memory(O, *, TRIES):
    n = 0
    while n < TRIES and px.atomic_load(O[1]) == 0:
        n += 1
    px.store(O[0], n)


@px.kernel(warps=4)
def asks_by_an_update(O, *, TRIES):
    while px.atomic_add(O[0], 1) < TRIES - 1:
        pass


@px.kernel(warps=4)
def asks_twice_in_a_round(O, *, TRIES):
    b = px.barrier(2, count=1, checked=False)
    n = 0
    while n < TRIES and not (b[0].test_wait(0) or b[1].test_wait(0)):
        n += 1
    px.store(O[0], n)


@pytest.mark.parametrize("tries", [5, 200, 5000])
@pytest.mark.parametrize(
    "kernel", [asks_a_barrier, asks_memory, asks_by_an_update, asks_twice_in_a_round], ids=lambda k: k.name
)
def test_a_bounded_poll_ends_by_itself(kernel: Any, tries: int) -> None:
    o = i32(2)
    kernel[1](o, TRIES=tries)
    assert o.tolist() == [tries, 0]
    report = px.check(kernel[1], i32(2), TRIES=tries)
    assert report.ok, report
    if tries < 1000:  # each try is an event
        assert px.explore(kernel[1], i32(2), TRIES=tries).ok


@px.kernel(warps=4)
def counts_in_vain(O, *, BUG):
    """What it counts decides about nothing."""
    b = px.barrier(1, count=1, checked=False)
    n = 0
    if not BUG:
        b[0].arrive()
    while not b[0].test_wait(0):
        n += 1
    px.store(O[0], n)


@px.kernel(warps=4)
def goes_around(O, *, BUG):
    """It asks one barrier after the other, again and again."""
    b = px.barrier(3, count=1, checked=False)
    i = 0
    if not BUG:
        b[2].arrive()
    while not b[i].test_wait(0):
        i = (i + 1) % 3
    px.store(O[0], i)


@px.kernel(warps=2)
def each_by_itself(O, *, BUG):
    """What has come is not asked again, and one never comes."""
    b = px.barrier(2, count=1, checked=False)
    with px.warps(0, 1):
        b[0].arrive()
        if not BUG:
            b[1].arrive()
    with px.warps(1, 1):
        one, two = False, False
        while not (one and two):
            if not one:
                one = b[0].test_wait(0)
            if not two:
                two = b[1].test_wait(0)
        px.store(O[0], 1)


@px.kernel(warps=1)
def locked(O, *, BUG):
    """Another has the lock."""
    while px.atomic_cas(O[1], 0, 1) != 0:
        pass
    px.store(O[0], 1)
    if not BUG:
        px.atomic_exch(O[1], 0)


@pytest.mark.parametrize(("kernel", "grid"), [(counts_in_vain, 1), (goes_around, 1), (each_by_itself, 1), (locked, 2)])
def test_a_loop_that_goes_in_circles_is_a_deadlock(kernel: Any, grid: int) -> None:
    with pytest.raises(px.Error) as error:
        kernel[grid](i32(2), BUG=True)
    assert error.value.kind == "deadlock"
    kinds = [finding.kind for finding in px.check(kernel[grid], i32(2), BUG=True).findings]
    assert "deadlock" in kinds and "endless-loop" not in kinds
    seen = px.explore(kernel[grid], i32(2), BUG=True)
    assert seen.complete and len(seen.deadlocks) == 1 and not seen.outcomes and not seen.errors
    kernel[grid](i32(2), BUG=False)
    seen = px.explore(kernel[grid], i32(2), BUG=False)
    assert seen.complete and not seen.deadlocks and not seen.errors
    if kernel is not locked:  # whose lock orders nothing
        assert px.check(kernel[grid], i32(2), BUG=False).ok


# --- loops that read at the end of a round, and loops of those that wake each other -------------------------------------


@px.kernel(warps=1, cooperative=True)
def reads_last(W, Y, *, N):
    if px.block_id(0) == 0:
        px.atomic_exch(W[0], 5)
    else:
        v = px.atomic_load(W[0])
        while v == 0:
            v = px.atomic_load(W[0])
        px.store(Y[0], v)


@px.kernel(warps=1, cooperative=True)
def grid_barrier(W, Y, *, N):
    c, me = px.counters(2), px.block_id(0)
    n = px.atomic_add(c[0], 1, order="acq_rel") + 1
    while n < N:
        n = px.atomic_add(c[0], 0, order="acq_rel")
    px.store(Y[me], n)
    if px.atomic_add(c[1], 1) == N - 1:
        px.atomic_exch(c[0], 0)
        px.atomic_exch(c[1], 0)


@px.kernel(warps=4)
def tiles(W, Y, *, N):
    for _ in px.persistent(4, schedule="counter"):
        px.sync()


@pytest.mark.parametrize("kernel", [reads_last, grid_barrier, tiles], ids=lambda k: k.name)
def test_a_loop_looks_at_what_it_has_read_before_it_sleeps(kernel: Any) -> None:
    assert px.check(kernel[2], i32(4), i32(4), N=2).ok
    seen = px.explore(kernel[2], i32(4), i32(4), N=2)
    assert seen.ok and seen.outcomes == 1, seen


def test_a_grid_barrier_that_lacks_a_cta_is_a_deadlock() -> None:
    seen = px.explore(grid_barrier[2], i32(4), i32(4), N=3)
    assert seen.complete and len(seen.deadlocks) == 1 and not seen.outcomes


def test_an_update_that_changes_nothing_wakes_nobody() -> None:
    """Three CTAs spin by updates of 0: no run is without an end, though there are many orders."""
    assert px.check(grid_barrier[3], i32(4), i32(4), N=3).ok
    seen = px.explore(grid_barrier[3], i32(4), i32(4), N=3, limit=10)
    assert seen.explored == 10 and seen.outcomes == 1 and not seen.deadlocks and not seen.errors


@px.kernel(warps=2)
def reads_two_in_a_round(O):
    """The writer sets the first, then the second: the loop may see the second alone."""
    with px.warps(0, 1):
        px.atomic_exch(O[0], 1)
        px.atomic_exch(O[1], 1)
    with px.warps(1, 1):
        one, two = 0, 0
        while one + two == 0:
            one = px.atomic_load(O[0])
            two = px.atomic_load(O[1])
        px.store(O[2], one)
        px.store(O[3], two)


def test_a_round_that_asks_twice_is_several_events() -> None:
    seen = px.explore(reads_two_in_a_round[1], i32(4))
    assert seen.complete and seen.outcomes == 3  # (1, 0), (0, 1) and (1, 1)


# --- what is known of a loop before it runs -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "constants", "carried", "whole"), [
    (and_left, dict(T=3, BUG=True), {"n"}, False),
    (flagged, dict(T=3, BUG=True), {"n", "go"}, False),
    (counts_in_vain, dict(BUG=True), set(), True),
    (reads_last, dict(N=2), {"v"}, True),
    (goes_around, dict(BUG=True), {"i"}, False),
    (reads_two_in_a_round, {}, {"one", "two"}, False),
])
def test_what_a_loop_carries(kernel: Any, constants: dict[str, Any], carried: set[str], whole: bool) -> None:
    args = [i32(128) for _ in kernel.parameters]
    function = specialise(kernel, read_arguments(kernel, tuple(args)), constants).prepared
    [asks] = [found for op in function.walk() if isinstance(op, While) and (found := polling(op)) is not None]
    assert {var.name for var in asks.carried} >= carried and asks.whole is whole and not asks.acts


# --- who has yet to send what a wait lacks ------------------------------------------------------------------------------


@px.kernel(warps=2, cluster=2)
def halves(A, O, *, BUG):
    r = px.cluster.rank()
    X = px.shared((64, 64), px.f16)
    full, empty = px.barrier(1, count=1), px.barrier(1, count=2, checked=False)
    px.cluster.sync()
    with px.warps(0, 1):
        for k in range(3):
            empty[0].wait(k % 2 ^ 1)
            full[0].arrive_and_expect_tx(X.nbytes)
            px.tma.load(
                A[k * 64 + r * 32 : k * 64 + r * 32 + 32, 0:64], X[r * 32 : r * 32 + 32], full[0], multicast=0b11
            )
    with px.warps(1, 1):
        for k in range(3):
            full[0].wait(k % 2)
            px.store(O[r, k * 64 : k * 64 + 64, 0:64], px.load(X))
            empty[0].arrive(ctas=(0b01 if BUG else 0b11) if r == 1 else 0b11)


def test_bytes_of_a_sender_that_waits_are_a_deadlock() -> None:
    args = np.ones((192, 64), np.float16), np.zeros((2, 192, 64), np.float16)
    [finding] = px.check(halves[2], *args, BUG=True).findings
    assert finding.kind == "deadlock" and finding.other is not None
    arrives = finding.other.line + 2
    assert finding.message == (
        "no agent can ever go on: warp 0 of CTA 1 waits for empty, which lacks 1 of 2 arrivals in phase 0, and warp 1 of "
        "CTA 1 waits for full, which lacks 1 of 1 arrivals in phase 1: they wait for each other; only warp 1 of CTA 0 "
        f"(test_polls.py:{arrives}) arrived there in that phase: let everybody do so whom its count stands for"
    )
    assert px.check(halves[2], *args, BUG=False).ok
