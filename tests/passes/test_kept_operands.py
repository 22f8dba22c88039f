"""Tiles that products of a whole loop read: who fetches them, when they come back, and that results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from passes.test_pipelining import agrees, notes, numbers

FETCHED = "px.load of Q: staged by the copy engine, once for all steps; products read it there"


@px.kernel(warps=4)
def weighed(Q, K, V, ENDS, O, *, ROWS=64, KEYS=32, D=32, CASE="", PRODUCER=True):
    """Two products a step, some steps for each tile."""
    for h in px.persistent(K.shape[0]):
        q, o = px.load(Q[h, 0:ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
        if CASE == "left early":
            if ENDS[h] == 32:
                continue
        if CASE == "under a condition":
            if ENDS[h] > 0:
                for j in px.pipelined(range(0, ENDS[h], KEYS), producer=PRODUCER):
                    p = px.dot(q, px.load(K[h, j : j + KEYS, 0:D]).T).to(px.f16)
                    o = px.dot(p, px.load(V[h, j : j + KEYS, 0:D]), o)
        else:
            for j in px.pipelined(range(0, ENDS[h], KEYS), producer=PRODUCER):
                p = px.dot(q, px.load(K[h, j : j + KEYS, 0:D]).T).to(px.f16)
                o = px.dot(p, px.load(V[h, j : j + KEYS, 0:D]), o)
        if CASE == "twice":
            for j in px.pipelined(range(0, ENDS[h], KEYS)):
                o = px.dot(q, px.load(K[h, j : j + KEYS, 0:D]).T, o)
        if CASE == "written":
            px.store(Q[h, 0:ROWS, 0:D], (o * 0.0).to(Q.dtype))
        px.store(O[h, 0:ROWS, 0:D], o)


def arguments(shift: int = 0) -> list[Any]:
    """Four heads on two CTAs or one: steps before and behind a tile without any."""
    q = numbers(4, 64, 32 + shift, dtype=np.float16)[:, :, shift:]
    k, v = (numbers(4, 96, 32, dtype=np.float16, seed=seed) for seed in (1, 2))
    return [q, k, v, np.array([96, 0, 32, 70], np.int32), np.zeros((4, 64, 32), np.float32)]


@pytest.mark.share(2)
@pytest.mark.parametrize("grid", [1, 2])
@pytest.mark.parametrize("case", ["", "under a condition", "twice"])
def test_the_producer_fetches_them(case: str, grid: int) -> None:
    args = arguments()
    agrees(weighed[grid], *args, CASE=case)
    assert FETCHED in notes(weighed[grid], *args, CASE=case)


@pytest.mark.share(2)
@pytest.mark.parametrize("case", ["left early", "written", "unaligned", "alone"])
def test_else_threads_store_them(case: str) -> None:
    """Who leaves gives nothing back; what is written is read when its turn has come; and no tensor map describes it."""
    args, constants = arguments(1 if case == "unaligned" else 0), {"CASE": case, "PRODUCER": case != "alone"}
    agrees(weighed[1], *args, **constants)
    assert FETCHED not in notes(weighed[1], *args, **constants)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
def test_on_other_targets(arch: str) -> None:
    args = arguments()
    got, want = args[:4], args[:4]
    for how, name in ((got, {"arch": arch}), (want, {"pipelined": False})):
        how.append(np.zeros_like(args[4]))
        weighed[1](*how, **name)
    np.testing.assert_array_equal(got[4], want[4])
    assert px.check(weighed[1], *args, arch=arch).ok


def test_they_come_back_before_the_last_product() -> None:
    """So that the next tile's is on its way while this one's result is finished."""
    shape = (4, 64, 32)
    half, ends, out = px.spec(shape, px.f16), px.spec((4,), px.i32), px.spec(shape, px.f32)
    text = px.compile(weighed[1], half, half, half, ends, out, arch="sm_90a").ir
    lines = [line.strip() for line in text.splitlines()]
    back = next(n for n, line in enumerate(lines) if line.startswith("mbarrier.arrive Q_empty"))
    products = [n for n, line in enumerate(lines) if " = wgmma " in line]
    assert sum(n > back for n in products) == 1


@px.kernel(warps=4)
def projected(X, Q, W, ENDS, O, *, ROWS=64, KEYS=32, D=32):
    """The operand that stays is the second product's: it is read behind the last step."""
    for h in px.persistent(X.shape[0]):
        w, o = px.load(W[h, 0:KEYS, 0:D]), px.zeros((ROWS, D), px.f32)
        for j in px.pipelined(range(0, ENDS[h], D), stages=2):
            s = px.dot(px.load(X[h, 0:ROWS, j : j + D]), px.load(Q[h, 0:KEYS, j : j + D]).T)
            o = px.dot(px.minimum(s, 2.0).to(px.f16), w, o * 2.0)
        px.store(O[h, 0:ROWS, 0:D], o)


def test_what_the_last_product_reads_comes_back_behind_it() -> None:
    x, q = numbers(4, 64, 96, dtype=np.float16), numbers(4, 32, 96, dtype=np.float16, seed=1)
    w, o = numbers(4, 32, 32, dtype=np.float16, seed=2), np.zeros((4, 64, 32), np.float32)
    ends = np.array([96, 0, 32, 64], np.int32)
    agrees(projected[1], x, q, w, ends, o)
    said = notes(projected[1], x, q, w, ends, o)
    assert FETCHED.replace("of Q", "of W") in said and any("beside the next step's product" in note for note in said)
