"""Mutants of loops whose tiles a counter deals: what the compiler wrote is checked as if somebody had written it by hand."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from mutation.mutation import judge, mutants, outcome_of
from support.front import array, prepared


@px.kernel(warps=2, cluster=lambda CTAS: CTAS)
def dealt(X, *, CTAS=1, SCHEDULE="counter"):
    rank = px.cluster.rank()
    with px.warps(0, 1):
        for t in px.persistent(4, schedule=SCHEDULE):
            px.store(X[rank, 0, t], 1.0)
    with px.warps(1, 1):
        for t in px.persistent(4, schedule=SCHEDULE):
            px.store(X[rank, 1, t], 1.0)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "ctas, schedule", [(1, "counter"), (2, "counter"), (1, "clc"), pytest.param(2, "clc", marks=pytest.mark.long)]
)
def test_all(ctas: int, schedule: str) -> None:
    function = prepared(dealt, (array(3),), CTAS=ctas, SCHEDULE=schedule)
    grid, args = (ctas if schedule == "counter" else 4 * ctas, 1, 1), [np.zeros((ctas, 2, 4), np.float32)]
    original = outcome_of(function, grid, args)
    verdicts = [judge(mutant, original, grid, args) for mutant in mutants(function)]
    assert len(verdicts) > 10
    assert not [f"{v.mutant}: {v.detail}" for v in verdicts if not v.is_explained]
    equivalent = [v.mutant.what for v in verdicts if v.how == "equivalent"]
    if schedule == "clc":  # a query has the fence that ends its read, and who asks publishes nothing
        assert equivalent and all(text.endswith(": relaxed") for text in equivalent)
    else:
        assert equivalent == ["fence.barrier_init removed" if ctas == 1 else "mbarrier.arrive_expect_tx: relaxed"]
