"""Rows that all SMs share, and the cooperative launches they need, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.rowwise.grid_rows import GridConfig

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
CONFIGS = (
    GridConfig(4, 2, 1, 9), GridConfig(2, 8, 1, 8), GridConfig(6, 2, 4, 4), GridConfig(8, 2, 4, 3), GridConfig(7, 4, 2, 3),
)  # fmt: skip


@px.kernel(warps=1, cooperative=True)
def meet(X, Y):
    px.atomic_add(X[0], 1)
    while px.atomic_load(X[0]) < px.num_blocks(0):
        pass
    px.store(Y[px.block_id(0)], px.block_id(0))


def test_all_ctas_meet() -> None:
    blocks = px.device().sms
    for _ in range(20):
        x, y = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(blocks, dtype=torch.int32, device="cuda")
        meet[blocks](x, y)
        assert torch.equal(y, torch.arange(blocks, dtype=torch.int32, device="cuda"))


def test_more_than_the_gpu_holds_are_refused() -> None:
    x, y = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    with pytest.raises(px.Error, match=r"launch of meet.*COOPERATIVE_LAUNCH_TOO_LARGE") as caught:
        meet[100 * px.device().sms](x, y)
    assert "cooperative=True" in caught.value.remedy


@pytest.mark.parametrize("columns", (1000, 100_003, 262_144, 300_001))
@pytest.mark.parametrize("name", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_softmax_and_its_logarithm(config: GridConfig, name: str, columns: int) -> None:
    torch.manual_seed(columns)
    x = torch.randn(37, columns, device="cuda").to(getattr(torch, name))
    near = 2e-5 if name == "float32" else 1e-2
    for ours, theirs in ((px.kernels.softmax, torch.softmax), (px.kernels.log_softmax, torch.log_softmax)):
        got, want = ours(x, config=config), theirs(x.double(), -1)
        assert torch.equal(got, ours(x, config=config)), "sums are in one order"
        assert float((got.double() - want).abs().max() / want.abs().max()) < near


def test_two_streams_and_a_graph() -> None:
    """Launches of several streams, which the card can't hold at once, follow each other; a graph has them as well."""
    x = torch.randn(24, 500_001, device="cuda")
    config = GridConfig(3, 4, 1, 16)
    want = px.kernels.softmax(x, config=config)
    streams, results = [torch.cuda.Stream() for _ in range(3)], []
    torch.cuda.synchronize()
    for _ in range(5):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(px.kernels.softmax(x, config=config))
    torch.cuda.synchronize()
    assert all(torch.equal(result, want) for result in results)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = px.kernels.softmax(px.kernels.softmax(x, config=config), config=config)
    for _ in range(3):
        y.zero_()
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, px.kernels.softmax(want, config=config))
