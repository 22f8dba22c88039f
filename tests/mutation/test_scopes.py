"""Scopes that the compiler chose, one narrowed at a time: a race where stores must reach a peer, nothing elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from mutation.launches import Case
from mutation.mutation import Verdict

NARROW, RELAXED = "of CTA scope", "relaxed"


def matrix() -> np.ndarray:
    return np.arange(4 * 64, dtype=np.float32).reshape(4, 64)


def verdicts(kernel: Any, *args: Any, what: str = NARROW) -> dict[str, Verdict]:
    """What becomes of each mutant of that kind, by its line's text."""
    case = Case(kernel.name, kernel[2], list(args), {})
    found: dict[str, Verdict] = {}
    for mutant in case.mutants:
        if mutant.what.startswith("mbarrier.") and mutant.what.endswith(what):
            found[mutant.loc.text.strip()] = case.judge(mutant)
    return found


def kinds(found: dict[str, Verdict]) -> dict[str, str]:
    return {line: verdict.how for line, verdict in found.items()}


@px.kernel(cluster=2, warps=1)
def push(X, Y):
    s = px.shared((64,), px.f32)
    ready = px.barrier(count=1)
    rank = px.cluster.rank()
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))
    ready.arrive(ctas=1 << (rank ^ 1))
    ready.wait(0)
    px.store(Y[rank, 0:64], px.load(s))


@px.kernel(cluster=2, warps=1)
def pull(X, Y):
    s = px.shared((64,), px.f32)
    ready = px.barrier(count=1)
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank, 0:64]))
    ready.arrive(ctas=1 << (rank ^ 1))
    ready.wait(0)
    px.store(Y[rank, 0:64], px.load(s.at(rank ^ 1)))


@px.kernel(cluster=2, warps=1)
def through_global(X, Y):
    ready = px.barrier(count=1)
    rank = px.cluster.rank()
    px.store(X[rank, 0:64], px.load(X[rank + 2, 0:64]))
    ready.arrive(ctas=1 << (rank ^ 1))
    ready.wait(0)
    px.store(Y[rank, 0:64], px.load(X[rank ^ 1, 0:64]))


@pytest.mark.parametrize("kernel", [push, pull, through_global], ids=lambda kernel: kernel.name)
def test_a_narrow_signal_does_not_carry_stores_to_a_peer(kernel: Any) -> None:
    assert px.check(kernel[2], matrix(), matrix()).ok
    found = verdicts(kernel, matrix(), matrix())
    assert kinds(found) == {"ready.arrive(ctas=1 << (rank ^ 1))": "race", "ready.wait(0)": "race"}
    assert "order memory within a CTA only" in found["ready.wait(0)"].detail
    assert kinds(verdicts(kernel, matrix(), matrix(), what=RELAXED)) == {"ready.arrive(ctas=1 << (rank ^ 1))": "race"}


@px.kernel(cluster=2, warps=1)
def handed_back(X, Y):
    """`free` only says that the inbox was read: it need not carry stores, though some come before it."""
    inbox = px.shared((64,), px.f32)
    ready, free = px.barrier(count=1), px.barrier(count=1)
    rank = px.cluster.rank()
    for k in range(2):
        free.wait(k % 2 ^ 1)
        px.store(inbox.at(rank ^ 1), px.load(X[rank, 0:64]))
        ready.arrive(ctas=1 << (rank ^ 1))
        ready.wait(k % 2)
        px.store(Y[2 * k + rank, 0:64], px.load(inbox))
        free.arrive(ctas=1 << (rank ^ 1))


def test_what_only_gives_back_may_be_narrow() -> None:
    found = kinds(verdicts(handed_back, matrix(), matrix()))
    assert found["ready.arrive(ctas=1 << (rank ^ 1))"] == found["ready.wait(k % 2)"] == "race"
    assert found["free.arrive(ctas=1 << (rank ^ 1))"] == found["free.wait(k % 2 ^ 1)"] == "equivalent"


@px.kernel(cluster=2, warps=2)
def through_another_role(X, Y):
    """One role stores, another signals: what a role hands over inside the CTA travels on."""
    inbox = px.shared((64,), px.f32)
    here, there = px.barrier(count=1), px.barrier(count=1)
    rank = px.cluster.rank()
    with px.warps(0, 1):
        px.store(inbox.at(rank ^ 1), px.load(X[rank, 0:64]))
        here.arrive()
    with px.warps(1, 1):
        here.wait(0)
        there.arrive(ctas=1 << (rank ^ 1))
        there.wait(0)
        px.store(Y[rank, 0:64], px.load(inbox))


def test_a_store_that_another_role_signals_is_carried_too() -> None:
    assert px.check(through_another_role[2], matrix(), matrix()).ok
    assert kinds(verdicts(through_another_role, matrix(), matrix())) == {
        "there.arrive(ctas=1 << (rank ^ 1))": "race", "there.wait(0)": "race",
    }


@px.kernel(cluster=2, warps=1)
def by_copies(X, Y):
    s = px.shared((64,), px.f32)
    full, empty = px.barrier(count=1), px.barrier(count=2)
    rank = px.cluster.rank()
    with full.transaction():
        if rank == 0:
            px.tma.load(X[0, 0:64], s, full, multicast=3)
    full.wait(0)
    px.store(Y[rank, 0:64], px.load(s))
    empty.arrive(ctas=3)
    empty.wait(0)


def test_data_from_copies_needs_no_release() -> None:
    """There is nothing of cluster scope, and the arrive that expects the bytes may be relaxed: their landing orders."""
    assert verdicts(by_copies, matrix(), matrix()) == {}
    assert kinds(verdicts(by_copies, matrix(), matrix(), what=RELAXED))["with full.transaction():"] == "equivalent"


@px.kernel(cluster=2, warps=1)
def fenced(X, Y):
    """A fence on both sides does what the scopes do."""
    s = px.shared((64,), px.f32)
    ready = px.barrier(count=1)
    rank = px.cluster.rank()
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))
    px.fence.cluster()
    ready.arrive(ctas=1 << (rank ^ 1))
    ready.wait(0)
    px.fence.cluster()
    px.store(Y[rank, 0:64], px.load(s))


def test_fences_of_the_cluster_make_narrow_signals_do() -> None:
    found = kinds(verdicts(fenced, matrix(), matrix()))
    assert set(found.values()) == {"equivalent"} and len(found) == 2
