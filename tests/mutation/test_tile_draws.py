"""Mutants of loops whose tiles a counter deals: what the compiler wrote is checked as if somebody had written it by hand."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from front import array, prepared
from mutation.mutation import judge, mutants, outcome_of


@px.kernel(warps=2, cluster=lambda CTAS: CTAS)
def dealt(X, *, CTAS=1):
    rank = px.cluster.rank()
    with px.warps(0, 1):
        for t in px.persistent(4, schedule="counter"):
            px.store(X[rank, 0, t], 1.0)
    with px.warps(1, 1):
        for t in px.persistent(4, schedule="counter"):
            px.store(X[rank, 1, t], 1.0)


@pytest.mark.parametrize("ctas", [1, 2])
def test_all(ctas: int) -> None:
    function = prepared(dealt, (array(3),), CTAS=ctas)
    grid, args = (ctas, 1, 1), [np.zeros((ctas, 2, 4), np.float32)]
    original = outcome_of(function, grid, args)
    verdicts = [judge(mutant, original, grid, args) for mutant in mutants(function)]
    assert len(verdicts) > 10
    assert not [f"{v.mutant}: {v.detail}" for v in verdicts if not v.is_explained]
    equivalent = [v.mutant.what for v in verdicts if v.how == "equivalent"]
    assert equivalent == ["fence.barrier_init removed" if ctas == 1 else "mbarrier.arrive_expect_tx: relaxed"]
