"""The CUDA text of loops over `px.persistent` on the CPU: every tile once, everybody told the same, counters back at 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from passes.test_tile_draws import product_like
from phalanx.cuda.module import Module
from sanitizer.test_handshakes import PARTS, TILES, add_up, arrays
from sim.test_persistent import TAKEN, assert_taken, deal, taken, taken_case, told, twice
from support import host_cuda
from support.host_cuda import HostFailure, launch, module_for

pytestmark = pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)
SEEDS = range(1, 5)
LONG = pytest.mark.long  # each text takes a second of a C++ compiler


@pytest.mark.parametrize(
    "schedule, n, clusters, ctas",
    [
        pytest.param("static", 7, 3, 1, marks=LONG), pytest.param("static", 8, 2, 2, marks=LONG),
        pytest.param("counter", 7, 3, 1, marks=LONG), ("counter", 8, 2, 2),
    ],
)  # fmt: skip
def test_every_tile_is_somebodys(schedule: str, n: int, clusters: int, ctas: int) -> None:
    args = (np.full((ctas, n), -1, np.int32), np.full((ctas, n), -1, np.int32), n)
    module = module_for(deal, args, CTAS=ctas, SCHEDULE=schedule)
    for seed in SEEDS:
        owner, seen = args[0].copy(), args[1].copy()
        launch(module, clusters * ctas, [owner, seen, n], seed)
        assert (owner == owner[0]).all() and (seen == seen[0]).all()
        for cluster in range(clusters):
            assert sorted(seen[0][owner[0] == cluster].tolist()) == list(range((owner[0] == cluster).sum()))
        if schedule == "static":
            assert owner[0].tolist() == [t % clusters for t in range(n)]


@pytest.mark.parametrize(
    "n, clusters, ctas",
    [(9, 3, 1), pytest.param(5, 2, 2, marks=LONG), pytest.param(0, 2, 1, marks=LONG)],
)
def test_every_role_is_told_the_same(n: int, clusters: int, ctas: int) -> None:
    empty = np.full((clusters, ctas, 3, n + 1), -1, np.int32)
    module = module_for(told, (empty, n), CTAS=ctas)
    for seed in SEEDS:
        seen = empty.copy()
        launch(module, clusters * ctas, [seen, n], seed)
        assert (seen == seen[:, :1, :1]).all(), seed
        mine = seen[:, 0, 0]
        assert sorted(mine[mine >= 0].tolist()) == list(range(n)), seed


@LONG
def test_several_loops() -> None:
    module = module_for(twice, (np.zeros((3, 8), np.int32), 6))
    for seed in SEEDS:
        x = np.zeros((3, 8), np.int32)
        launch(module, 2, [x, 6], seed)
        assert x.tolist() == [[1] * 6 + [0] * 2, [1] * 7 + [0], [1] * 7 + [0]]


@pytest.mark.parametrize(
    "n, clusters, cluster", [pytest.param(*case, marks=() if case == TAKEN[4] else LONG) for case in TAKEN]
)
def test_clusters_that_have_not_started_are_taken_over(n: int, clusters: int, cluster: Any) -> None:
    grid, args = taken_case(n, clusters, cluster)
    module = module_for(taken, tuple(args), arch="sm_100a", CTAS=cluster)
    for seed in SEEDS:
        owner, times = (arg.copy() for arg in args[:2])
        launch(module, grid, [owner, times, n], seed)
        assert_taken(owner, times, n)


def test_beside_a_pipe_with_multicasts() -> None:
    x = np.random.default_rng(0).standard_normal((320, 64)).astype(np.float32)
    y = np.zeros((2, *x.shape), np.float32)
    launch(module_for(product_like, (x, y, 5), CTAS=2), 4, [x, y, 5], 1)
    assert (y == x).all()


def test_a_counter_that_is_not_set_back_is_found() -> None:
    n = 5
    args = [np.zeros((1, n), np.int32), np.zeros((1, n), np.int32), n]
    good = module_for(deal, tuple(args), SCHEDULE="counter")
    reset = "if (last) {"
    assert good.source.count(reset) == 1
    bad = Module(**{**vars_of(good), "source": good.source.replace(reset, "if (false) {")})
    with pytest.raises(HostFailure, match=r"the counters are \[5\] at the end, not 0"):
        launch(bad, 2, args, 1)


def test_who_comes_last_adds_up() -> None:
    module = module_for(add_up, tuple(arrays()))
    for seed in SEEDS:
        x, w, y = arrays()
        launch(module, (TILES, PARTS), [x, w, y], seed)
        assert (y == 2 * x.sum(1)).all()


def vars_of(module: Module) -> dict[str, object]:
    return {name: getattr(module, name) for name in Module.__dataclass_fields__}
