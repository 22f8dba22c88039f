"""`kernel[px.auto]`: how many CTAs are launched, in the simulator and on a GPU, the first time and again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.launch import auto_grid
from phalanx.runtime.launch.dispatch import BoundLaunch
from support.fake_driver import OnGpu, fake_gpu

SMS, PER_SM, CLUSTERS = 132, 2, 66
"""What the fake driver says: SMs, CTAs of a kernel on each, clusters at once."""


@px.kernel(warps=1)
def squares(X, Y, *, BM=16):
    for t in px.persistent(px.cdiv(X.shape[0], BM)):
        x = px.load(X[t * BM : t * BM + BM])
        px.store(Y[t * BM : t * BM + BM], x * x)


@px.kernel(warps=1, cluster=lambda CTAS: CTAS)
def clusters_seen(OUT, n, *, CTAS=2):
    for t in px.persistent(n):
        px.store(OUT[t], px.cluster.count())


@px.kernel(warps=1)
def by_data(N, OUT):
    for t in px.persistent(N[0]):
        px.store(OUT[t], px.cluster.count())


@pytest.mark.parametrize("n, clusters", [(1, 1), (2, 2), (9, 2)])
def test_the_simulator_starts_few_clusters_and_no_more_than_tiles(n: int, clusters: int) -> None:
    out = np.zeros(n, np.int32)
    clusters_seen[px.auto](out, n)
    assert out.tolist() == [clusters] * n


def test_a_number_that_only_a_run_knows_leaves_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_CLUSTERS", "3")
    out = np.zeros(2, np.int32)
    by_data[px.auto](np.array([2], np.int32), out)
    assert out.tolist() == [3, 3]


def test_checks_take_it() -> None:
    x, y = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    assert px.check(squares[px.auto], x, y).ok
    seen = px.explore(squares[px.auto], x, y)
    assert seen.ok
    squares[px.auto](x, y)
    assert (y == x * x).all()


def grids(kernel: Any, *calls: tuple[tuple[Any, ...], dict[str, Any]]) -> list[tuple[int, ...]]:
    """The grids of launches on a GPU, one call after the other."""
    with fake_gpu() as library:
        for args, constants in calls:
            kernel[px.auto](*args, **constants)
        return [tuple(launch.grid) for launch in library.launches]


def test_on_a_gpu_it_is_what_fits_and_no_more_than_tiles() -> None:
    large, small = OnGpu(100_000), OnGpu(50)
    found = grids(squares, ((large, large), {}), ((small, small), {}), ((small, small), {"BM": 64}), ((large, large), {}))
    assert found == [(SMS * PER_SM, 1, 1), (4, 1, 1), (1, 1, 1), (SMS * PER_SM, 1, 1)]


def test_with_clusters_the_driver_says_how_many_fit() -> None:
    out = OnGpu(1000)
    assert grids(clusters_seen, ((out, 1000), {})) == [(2 * CLUSTERS, 1, 1)]
    # The number may change from launch to launch with the argument, and nobody looks at it again: what fits is launched.
    assert grids(clusters_seen, ((out, 3), {})) == [(2 * CLUSTERS, 1, 1)]


def test_launches_that_come_again_look_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    x = OnGpu(100_000)
    asked = 0

    def whole(self: BoundLaunch, args: Any, given: Any, real: Any = BoundLaunch.launch) -> None:
        nonlocal asked
        asked += 1
        real(self, args, given)

    with fake_gpu() as library, monkeypatch.context() as patched:
        patched.setattr(BoundLaunch, "launch", whole)
        assert squares[px.auto] is squares[px.auto]
        for _ in range(5):
            squares[px.auto](x, x)
        for _ in range(3):
            squares[px.auto](x, x, BM=32)
        assert asked == 2
        assert library.names().count("cuOccupancyMaxActiveBlocksPerMultiprocessor") == 2
        squares[7](x, x)  # with a grid of its own, and back
        squares[px.auto](x, x)
        assert [tuple(launch.grid) for launch in library.launches[-2:]] == [(7, 1, 1), (SMS * PER_SM, 1, 1)]


def test_a_kernel_without_tiles_is_refused_also_after_a_launch() -> None:
    @px.kernel(warps=1)
    def one(X):
        px.store(X[0], 1.0)

    with fake_gpu():
        one[1](OnGpu(4))
        with pytest.raises(px.Error, match=r"has no px\.persistent loop"):
            one[px.auto](OnGpu(4))


def one_each(run: Any, config: Any) -> float:
    run()
    return 1.0


@pytest.mark.long
def test_tuning_takes_it() -> None:
    x, y = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    tuned = px.tune(
        squares[px.auto], [{"BM": 16}, {"BM": 32}], (x, y), measure=one_each, isolate=False, reference=None, check=True
    )
    tuned(x, y)
    assert (y == x * x).all()


def test_the_grid_of_a_run_is_found_where_the_kernel_is_loaded() -> None:
    class Loaded:
        clusters_at_once = 10

    fitting = auto_grid.FittingGrid(None, (2, 1, 2))
    assert fitting.on_device(Loaded()) == (20, 1, 2)  # type: ignore[arg-type]
    assert auto_grid.FittingGrid(0, (1, 1, 1)).on_device(Loaded()) == (1, 1, 1)  # type: ignore[arg-type]


def test_where_clusters_are_taken_over_there_is_one_for_each_tile() -> None:
    class Loaded:
        clusters_at_once = 10

    grid = auto_grid.FittingGrid(1000, (2, 1, 1), one_each=True)
    assert grid.on_device(Loaded()) == (2000, 1, 1)  # type: ignore[arg-type]
    assert auto_grid.FittingGrid(None, (2, 1, 1), one_each=True).on_device(Loaded()) == (20, 1, 1)  # type: ignore[arg-type]
