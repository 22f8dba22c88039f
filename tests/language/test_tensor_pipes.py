"""Pipes whose stages the tensor cores read or fill: `px.tcgen05.commit(pipe)` hands a stage on, to whom the copies say."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from examples.blackwell import rung
from phalanx.analysis.trace import steps, trace
from phalanx.ir.core import Function
from phalanx.ir.types import bf16, f32
from support.front import array, prepared

MATRICES = (array(2, bf16), array(2, bf16), array(2, bf16))


def arrivals(function: Function, barrier: str) -> dict[int, set[int]]:
    """Which ranks' barriers of that name each rank arrives on, in all its arrivals."""
    found: dict[int, set[int]] = {}
    for rank in range(function.cluster_size):
        for step in steps(trace(function, rank)):
            for signal in step.arrivals:
                if signal.barrier.name == barrier:
                    assert signal.ranks is not None
                    found.setdefault(rank, set()).update(signal.ranks)
    return found


@pytest.mark.share(7)
@pytest.mark.parametrize("pairs", [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (1, 4)], ids=str)
def test_a_stage_goes_back_to_all_whose_copies_fill_it(pairs: tuple[int, int]) -> None:
    """To both CTAs of each pair in the row and the column of the one that read it, from its even CTA."""
    height, width = pairs
    function = prepared(rung("v6").blackwell_v6, MATRICES, CM=height, CN=width, STAGES=2)
    place = {half + 2 * (x + height * y): (x, y) for half in (0, 1) for x in range(height) for y in range(width)}
    filling = {
        rank: {other for other, (x, y) in place.items() if x == place[rank][0] or y == place[rank][1]}
        for rank in place if rank % 2 == 0
    }  # fmt: skip
    assert arrivals(function, "pipe_empty") == filling
    counted = next(op.counts for op in function.walk() if getattr(op, "counts", ()) and op.barrier.name == "pipe_empty")
    assert {row[0] for row in counted} == {height + width - 1}, "as many even CTAs read what a CTA copies"


@pytest.mark.share(2)
@pytest.mark.parametrize("pairs", [(1, 1), (1, 2), (2, 1)], ids=str)
def test_an_accumulator_is_full_in_both_ctas_of_a_pair_and_goes_back_to_the_even_one(pairs: tuple[int, int]) -> None:
    function = prepared(rung("v6").blackwell_v6, MATRICES, CM=pairs[0], CN=pairs[1], STAGES=2)
    ranks = range(2 * pairs[0] * pairs[1])
    assert arrivals(function, "accs_full") == {rank: {rank, rank + 1} for rank in ranks if rank % 2 == 0}
    assert arrivals(function, "accs_empty") == {rank: {rank - rank % 2} for rank in ranks}


@px.kernel(warps=6)
def handed_on(A, B, C, *, STAGES, LATE):
    """Two products are in flight where `LATE`: a stage is given back when the one behind it has been begun."""
    a, b = px.shared((STAGES, 64, 16), A.dtype), px.shared((STAGES, 16, 16), B.dtype)
    acc = px.tmem((64, 16), px.f32)
    pipe, accs = px.pipe(STAGES), px.pipe(1)
    steps = A.shape[1] // 16
    with px.warps(4, 1):
        for k in range(steps):
            with pipe.produce() as s:
                px.tma.load(A[0:64, k * 16 : k * 16 + 16], a[s], pipe.full[s])
                px.tma.load(B[0:16, k * 16 : k * 16 + 16], b[s], pipe.full[s])
    with px.warps(5, 1):
        accs.acquire()
        for k in range(steps):
            s = pipe.wait()
            px.tcgen05.mma(a[s], b[s].T, acc, accumulate=k > 0)
            if k > 0 or not LATE:
                px.tcgen05.commit(pipe)
        if LATE:
            px.tcgen05.commit(pipe)
        px.tcgen05.commit(accs)
    with px.warps(0, 4):
        with accs.consume():
            px.store(C[0:64, 0:16], px.tcgen05.load(acc))


@pytest.mark.share(7)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_the_oldest_stage_is_handed_on(stages: int, late: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, 80)).astype(ml_dtypes.bfloat16) for rows in (64, 16))
    c = np.zeros((64, 16), np.float32)
    if late and stages == 1:
        with pytest.raises(px.Error, match="deadlock"):
            handed_on[1](a, b, c, STAGES=stages, LATE=late)
        return
    handed_on[1](a, b, c, STAGES=stages, LATE=late)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert px.check(handed_on[1], a, b, c, STAGES=stages, LATE=late, strict=True).ok


def test_without_a_cluster_it_is_an_arrival_here() -> None:
    function = prepared(handed_on, (array(2, bf16), array(2, bf16), array(2, f32)), STAGES=2, LATE=False)
    commits = [op for op in function.walk() if op.mnemonic == "tcgen05.commit"]
    assert [op.bar.barrier.name for op in commits] == ["pipe_empty", "accs_full"]
    assert all(op.multicast is None for op in commits)
