"""Mutants of a kernel with cluster launch control: each is reported, refused or shown equivalent in all orders of events."""

from __future__ import annotations

import numpy as np
import pytest

from mutation.mutation import judge, mutants, outcome_of
from passes.test_clc import asks
from support.front import array, prepared


@pytest.mark.share(2)
@pytest.mark.parametrize(("cluster", "grid"), [(1, 5), (2, 6)])
def test_all(cluster: int, grid: int) -> None:
    function = prepared(asks, (array(1),), CLUSTER=cluster)
    args = [np.zeros(grid, np.float32)]
    original = outcome_of(function, (grid, 1, 1), args)
    verdicts = [judge(mutant, original, (grid, 1, 1), args) for mutant in mutants(function)]
    assert len(verdicts) > 20
    assert not [f"{v.mutant}: {v.detail}" for v in verdicts if not v.is_explained]
    equivalent = [str(v.mutant) for v in verdicts if v.how == "equivalent"]
    assert all(text.endswith(": relaxed") for text in equivalent), "nobody needs what these two arrives publish"
