"""Loops that pipeline themselves beside what CTAs of a cluster tell each other: barriers, reductions, gathers, pushes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.host_build import COMPILER, MISSING
from support.host_cuda import run_on_host


@px.kernel(warps=4, cluster=lambda CTAS: CTAS)
def split(A, B, C, *, BM=64, BN=32, BK=32, CTAS=2, HOW="reduce", PRODUCER=True):
    """The steps of a tile dealt to the CTAs of a cluster, whose sums meet behind the loop; several tiles a cluster."""
    r, parts = px.cluster.rank(), px.shared((CTAS, BM, BN), px.f32)
    steps = px.cdiv(px.cdiv(A.shape[1], BK), CTAS)
    for t in px.persistent(px.cdiv(C.shape[0], BM)):
        m, acc = t * BM, px.zeros((BM, BN), px.f32)
        for i in px.pipelined(range(steps), stages=2, producer=PRODUCER):
            k = (i * CTAS + r) * BK
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
        if HOW == "reduce":
            acc = px.cluster.reduce(acc, "sum", cta=0)
        elif HOW == "gather":
            acc = px.sum(px.cluster.gather(acc), 0)
        else:
            if HOW == "copy":
                px.store(parts[0 if r == 0 else 1], acc)
                if r > 0:
                    px.cluster.copy(parts[1], parts[r], cta=0)
            else:
                px.store(parts[r].at(0), acc)
            if HOW == "halves":
                px.cluster.arrive()
                px.cluster.wait()
            else:
                px.cluster.sync()
            if r == 0:
                acc = px.sum(px.load(parts), 0)
            px.cluster.sync()
        if r == 0:
            px.store(C[m : m + BM, 0:BN], acc)


@px.kernel(warps=4, cluster=2)
def inside(A, B, C, FLAGS, *, BM=64, BN=32, BK=32, HOW="reduce", PRODUCER=True):
    """In every step that a flag names the CTAs tell each other the largest row sum, which is added to all that follow."""
    m, acc = px.block_id(0) * BM, px.zeros((BM, BN), px.f32)
    most, peers = px.zeros((BM,), px.f32), px.shared((2, BM), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2, producer=PRODUCER):
        a = px.load(A[m : m + BM, k : k + BK])
        acc = px.dot(a, px.load(B[0:BN, k : k + BK]).T, acc)
        if FLAGS[k // BK] > 0:
            sums = px.sum(a.to(px.f32), 1)
            if HOW == "reduce":
                most = most + px.cluster.reduce(sums, "max")
            elif HOW == "gather":
                most = most + px.max(px.cluster.gather(sums), 0)
            else:
                px.store(peers[px.cluster.rank()], sums)
                px.store(peers[px.cluster.rank()].at(px.cluster.rank() ^ 1), sums)
                px.cluster.sync()
                most = most + px.max(px.load(peers), 0)
                px.cluster.sync()
    px.store(C[m : m + BM, 0:BN], acc + most[:, None])


def whole(*shape: int) -> np.ndarray:
    """Small whole numbers: sums are exact in every order."""
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(ml_dtypes.bfloat16)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


def agree(bound: Any, args: list[np.ndarray], want: np.ndarray, **constants: Any) -> None:
    """Plain and pipelined leave what NumPy says in the last array but flags, and the checks find nothing."""
    for pipelined in (False, True):
        given = [x.copy() for x in args]
        bound(*given, pipelined=pipelined, **constants)
        np.testing.assert_array_equal(given[2], want, err_msg=f"pipelined={pipelined}")
    report = px.check(bound, *args, schedules=1, **constants)
    assert report.ok, str(report)


def said(bound: Any, args: list[np.ndarray], **constants: Any) -> str:
    return "\n".join(px.compile(bound, *args, arch="sm_90a", **constants).notes)


def parts(ctas: int, k: int) -> tuple[list[np.ndarray], np.ndarray]:
    a, b = whole(128, k), whole(32, k)
    return [a, b, np.ones((128, 32), np.float32)], wide(a) @ wide(b).T


@pytest.mark.share(12)
@pytest.mark.parametrize("k", [32, 224, 0])
@pytest.mark.parametrize("ctas", [2, 4])
@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize("how", ["reduce", "gather", "copy", "sync", "halves"])
def test_sums_meet_behind_the_loop(how: str, producer: bool, ctas: int, k: int) -> None:
    args, want = parts(ctas, k)
    agree(split[ctas], args, want, CTAS=ctas, HOW=how, PRODUCER=producer)


@pytest.mark.share(2)
@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize("how", ["reduce", "gather", "sync"])
def test_they_meet_in_the_steps(how: str, producer: bool) -> None:
    a, b, flags = whole(128, 160), whole(32, 160), np.array([1, 0, 1, 1, 0], np.int32)
    most = np.zeros((64,), np.float32)
    for step in np.flatnonzero(flags):
        sums = wide(a[:, 32 * step : 32 * step + 32]).sum(1).reshape(2, 64)
        most += sums.max(0)
    want = wide(a) @ wide(b).T + np.tile(most, 2)[:, None]
    args = [a, b, np.zeros((128, 32), np.float32), flags]
    agree(inside[2], args, want, HOW=how, PRODUCER=producer)
    made = px.compile(inside[2], *args, arch="sm_90a", HOW=how, PRODUCER=producer)
    assert any("sent to all of them" in note for note in made.notes), "both multiply by the same B"
    assert made.spills == 0


def test_the_barrier_is_of_the_warps_that_compute() -> None:
    args, _ = parts(2, 224)
    made = px.compile(split[2], *args, arch="sm_90a", HOW="halves")
    assert "px.cluster.arrive: on an mbarrier of the warps that compute; those that fetch take no part" in said(
        split[2], args, HOW="halves"
    )
    body = made.ir[made.ir.index("role consumer") :]
    assert "mbarrier.arrive cluster_barrier, count=1, ctas=0b11" in body
    assert 'mbarrier.wait cluster_barrier, parity=%cluster_parity, scope="cluster"' in body
    alone = px.compile(split[2], *args, arch="sm_90a", HOW="halves", PRODUCER=False).ir
    assert "cluster_barrier" not in alone and "cluster.arrive\n" in alone.replace("  ", "\n"), "there is nobody else"


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("how", ["reduce", "gather", "copy", "halves"])
def test_their_text_on_the_host(how: str, seed: int) -> None:
    args, want = parts(2, 96)
    run_on_host(split, 2, *args, seed=seed, HOW=how)
    np.testing.assert_array_equal(args[2], want)


@px.kernel(warps=4, cluster=2)
def now_and_then(X, TIMES, Y, *, BK=32, CASE="steps"):
    """Cluster operations that only a run knows to be equally frequent in both CTAs."""
    total, more = px.zeros((32,), px.f32), px.zeros((32,), px.f32)
    for k in px.pipelined(range(0, X.shape[0], BK), stages=2):
        total = total + px.load(X[k : k + BK])
    if CASE == "steps":
        for _ in range(TIMES[px.block_id(0)]):
            more = more + px.cluster.reduce(total, "sum")
    elif CASE == "rank" and TIMES[px.block_id(0)] > 0:
        px.cluster.sync()
    px.store(Y[px.block_id(0), 0:32], total + more)


@pytest.mark.parametrize(("case", "call", "what"), [("steps", "reduce", "trip counts"), ("rank", "sync", "conditions")])
def test_what_may_be_unequal_stays_as_it_is_written(case: str, call: str, what: str) -> None:
    args = [whole(96).astype(np.float32), np.array([2, 2], np.int32), np.zeros((2, 32), np.float32)]
    total = args[0].reshape(3, 32).sum(0)
    want = np.stack([total * (5 if case == "steps" else 1)] * 2)
    agree(now_and_then[2], args, want, CASE=case)
    (note,) = [n for n in said(now_and_then[2], args, CASE=case).splitlines() if "stays as it is written" in n]
    assert f"px.cluster.{call} at test_pipelined_clusters.py:" in note
    assert f"may run unequally often in the CTAs of the cluster, whose {what} at test_pipelined_clusters.py:" in note
    with pytest.raises(px.Error, match="is strict") as caught:
        px.compile(px.kernel(warps=4, cluster=2, strict=True)(now_and_then.fn)[2], *args, arch="sm_90a", CASE=case)
    assert "px.cluster.id()" in str(caught.value)
