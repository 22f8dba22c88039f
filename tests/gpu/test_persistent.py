"""`px.persistent` and `kernel[px.auto]` on the GPU: schedules, clusters, roles, streams, graphs, overlapping launches."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import phalanx as px
from passes.test_tile_draws import product_like
from phalanx.runtime.device.counters import PAGE, RING, SLOT_BYTES, counters_of
from phalanx.runtime.device.driver import get_driver
from sim.test_persistent import deal, told

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


@px.kernel(warps=4)
def add_one(X, n, *, BLOCK=256):
    for t in px.persistent(n, schedule="counter"):
        px.store(X[t * BLOCK : t * BLOCK + BLOCK], px.load(X[t * BLOCK : t * BLOCK + BLOCK]) + 1)


@px.kernel(warps=4, pdl=True)
def add_one_early(X, n, *, BLOCK=256):
    """Draws its tiles before the launch before it is over, and touches X only then."""
    px.launch_dependents()
    for t in px.persistent(n, schedule="counter"):
        px.wait_prior()
        px.store(X[t * BLOCK : t * BLOCK + BLOCK], px.load(X[t * BLOCK : t * BLOCK + BLOCK]) + 1)


def assert_counters_are_zero() -> None:
    torch.cuda.synchronize()
    driver = get_driver()
    counters = counters_of(driver, 0)
    handed_out = [(ring.start, RING) for ring in counters._rings.values()] + [(counters._page.start, PAGE)]
    allocated = [(start, places) for start, places in handed_out if start]  # a stream that was only captured has no ring
    assert allocated
    for start, places in allocated:
        words = (ctypes.c_int * (places * SLOT_BYTES // 4))()
        driver.copy_to_host(ctypes.addressof(words), start, ctypes.sizeof(words))
        assert not any(words)


@pytest.mark.parametrize("schedule", ["static", "counter"])
@pytest.mark.parametrize("ctas", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 100, 5000])
def test_every_tile_is_somebodys(schedule: str, ctas: int, n: int) -> None:
    for _ in range(3):
        owner = torch.full((ctas, n), -1, dtype=torch.int32, device="cuda")
        seen = torch.full((ctas, n), -1, dtype=torch.int32, device="cuda")
        deal[px.auto](owner, seen, n, CTAS=ctas, SCHEDULE=schedule)
        who, place = owner.cpu().numpy(), seen.cpu().numpy()
        assert (who == who[0]).all() and (place == place[0]).all(), "all CTAs of a cluster"
        assert (who >= 0).all()
        for cluster in set(who[0].tolist()):
            mine = place[0][who[0] == cluster]
            assert sorted(mine.tolist()) == list(range(len(mine)))


@pytest.mark.parametrize("ctas", [1, 2])
def test_every_role_is_told_the_same(ctas: int) -> None:
    n, clusters = 400, 40
    for _ in range(5):
        seen = torch.full((clusters, ctas, 3, n + 1), -1, dtype=torch.int32, device="cuda")
        told[clusters * ctas](seen, n, CTAS=ctas)
        got = seen.cpu().numpy()
        assert (got == got[:, :1, :1]).all()
        mine = got[:, 0, 0]
        assert sorted(mine[mine >= 0].tolist()) == list(range(n))
    assert_counters_are_zero()


def test_beside_a_pipe_with_multicasts() -> None:
    x = torch.randn(64 * 500, 64, device="cuda")
    y = torch.zeros(2, *x.shape, device="cuda")
    for _ in range(3):
        y.zero_()
        product_like[px.auto](x, y, 500)
        torch.cuda.synchronize()
        assert torch.equal(y[0], x) and torch.equal(y[1], x)


def test_more_launches_than_places_in_two_streams() -> None:
    n, rounds = 300, 2 * RING + 5
    a, b = (torch.zeros(256 * n, device="cuda") for _ in range(2))
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for x, stream in zip((a, b), streams, strict=True):
            with torch.cuda.stream(stream):
                add_one[px.auto](x, n)
    torch.cuda.synchronize()
    assert (a == rounds).all() and (b == rounds).all()
    assert_counters_are_zero()


@pytest.mark.parametrize("n", [3, 900])
def test_launches_that_overlap(n: int) -> None:
    x, rounds = torch.zeros(256 * n, device="cuda"), RING + 100
    for _ in range(rounds):
        add_one_early[px.auto](x, n)
    torch.cuda.synchronize()
    assert (x == rounds).all()
    assert_counters_are_zero()


@pytest.mark.parametrize("kernel", [add_one, add_one_early], ids=lambda kernel: kernel.name)
def test_a_graph_beside_other_launches(kernel: Any) -> None:
    n = 700
    x, y = (torch.zeros(256 * n, device="cuda") for _ in range(2))
    kernel[px.auto](x, n)
    torch.cuda.synchronize()
    x.zero_()
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        for _ in range(4):
            kernel[px.auto](x, n)
    torch.cuda.synchronize()
    x.zero_()
    for _ in range(50):
        graph.replay()
        with torch.cuda.stream(side):
            kernel[px.auto](y, n)
    torch.cuda.synchronize()
    assert (x == 200).all() and (y == 50).all()
    assert_counters_are_zero()


def test_the_grid_is_what_fits() -> None:
    out = torch.zeros(1 << 20, dtype=torch.int32, device="cuda")

    @px.kernel(warps=4, cluster=lambda CTAS: CTAS)
    def count(OUT, *, CTAS):
        for t in px.persistent(OUT.shape[0]):
            px.store(OUT[t], px.cluster.count())

    for ctas in (1, 2):
        fits = px.device().clusters(px.compile(count[px.auto], out, CTAS=ctas))
        count[px.auto](out, CTAS=ctas)
        assert (out == fits).all()
        count[px.auto](out[:5], CTAS=ctas)
        assert (out[:5] == 5).all() and (out[5:] == fits).all()
