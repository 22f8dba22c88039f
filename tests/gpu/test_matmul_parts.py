"""Products whose last tiles are cut along K on the GPU: results, and one order of additions in streams and graphs."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.products.matmul import MatmulConfig, matmul
from phalanx.kernels.products.matmul_config import Problem, complete
from phalanx.kernels.products.matmul_cuts import with_parts
from phalanx.runtime.device.counters import RING

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
M, N, K = 300, 520, 4096
CLUSTERS = ((1, 1), (1, 2), (2, 1))


def in_parts(split: int, cluster: tuple[int, int], *, swapped: bool = False) -> MatmulConfig:
    problem = Problem(M, N, K, out_itemsize=4)
    config = with_parts(complete(problem, 128, 64, 2, cluster, swapped), problem, split)
    assert config is not None and config.cut_tiles(problem, px.device()) > 0
    return config


def operands() -> tuple[Any, Any]:
    """Random numbers: sums in another order have another result."""
    torch.manual_seed(0)
    return torch.randn(M, K, device="cuda").bfloat16(), torch.randn(N, K, device="cuda").bfloat16().T


def product(a: Any, b: Any, config: MatmulConfig) -> Any:
    return matmul(a, b, out_dtype=px.f32, config=config)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("split", [2, 3, 8])
def test_results(split: int, cluster: tuple[int, int], swapped: bool) -> None:
    a, b = (torch.randint(-3, 4, shape, device="cuda").bfloat16() for shape in ((M, K), (N, K)))
    got = product(a, b.T, in_parts(split, cluster, swapped=swapped))
    assert torch.equal(got.double(), a.double() @ b.double().T)


@pytest.mark.parametrize("split", [2, 3])
def test_more_launches_than_a_stream_has_counters(split: int) -> None:
    """A launch finds the counters that one before it left at 0."""
    (a, b), config = operands(), in_parts(split, (1, 1))
    first = product(a, b, config)
    assert all([torch.equal(product(a, b, config), first) for _ in range(RING + 10)])


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_streams_side_by_side(cluster: tuple[int, int]) -> None:
    """Launches that run at the same time have counters and sums of their own."""
    (a, b), config = operands(), in_parts(3, cluster)
    first = product(a, b, config)
    torch.cuda.synchronize()
    streams, found = [torch.cuda.Stream() for _ in range(3)], []
    for _ in range(30):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(product(a, b, config))
    torch.cuda.synchronize()
    assert all([torch.equal(each, first) for each in found])


def test_in_a_graph() -> None:
    """A graph's launches have counters that nobody else has, whatever runs between its replays."""
    (a, b), config = operands(), in_parts(3, (1, 2))
    first = product(a, b, config)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [product(a, b, config) for _ in range(4)]
    other = torch.cuda.Stream()
    for _ in range(5):
        for each in found:
            each.zero_()
        graph.replay()
        with torch.cuda.stream(other):
            beside = product(a, b, config)
        torch.cuda.synchronize()
        assert all([torch.equal(each, first) for each in (*found, beside)])
