"""Rows that all SMs share, and the cooperative launches they need, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.rowwise.grid_rows import GridConfig

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
CONFIGS = (
    GridConfig(4, 2, 1, 9), GridConfig(2, 8, 1, 8), GridConfig(6, 2, 4, 4, saved=(3, 3)),
    GridConfig(8, 2, 4, 3, saved=(3, 0)), GridConfig(7, 4, 2, 3),
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


def all_functions(x: Any, w: Any, b: Any, config: Any = None) -> list[Any]:
    library = px.kernels
    return [
        library.softmax(x, config=config), library.log_softmax(x, config=config),
        library.rms_norm(x, w, 1e-5, config=config), library.layer_norm(x, w, b, 1e-5, config=config),
    ]


def exact(x: Any, w: Any, b: Any) -> list[Any]:
    x, w, b = x.double(), w.double(), b.double()
    normed = torch.nn.functional.layer_norm(x, x.shape[1:], w, b, 1e-5)
    return [x.softmax(-1), x.log_softmax(-1), x * (x * x).mean(-1, keepdim=True).add(1e-5).rsqrt() * w, normed]


@pytest.mark.parametrize("columns", (1000, 100_003, 262_144, 300_001))
@pytest.mark.parametrize("name", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_all_functions(config: GridConfig, name: str, columns: int) -> None:
    torch.manual_seed(columns)
    dtype = getattr(torch, name)
    x, (w, b) = torch.randn(37, columns, device="cuda").to(dtype), torch.randn(2, columns, device="cuda").to(dtype)
    near = 2e-5 if name == "float32" else 1e-2
    for got, again, want in zip(all_functions(x, w, b, config), all_functions(x, w, b, config), exact(x, w, b), strict=True):
        assert torch.equal(got, again), "sums are in one order"
        assert float((got.double() - want).abs().max() / want.abs().max()) < near


def test_two_streams_and_a_graph() -> None:
    """Launches of several streams, which the card can't hold at once, follow each other; a graph has them as well."""
    x, (w, b) = torch.randn(24, 500_001, device="cuda"), torch.randn(2, 500_001, device="cuda")
    config = GridConfig(3, 4, 1, 16)
    want = px.kernels.layer_norm(x, w, b, config=config)
    streams, results = [torch.cuda.Stream() for _ in range(3)], []
    torch.cuda.synchronize()
    for _ in range(5):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(px.kernels.layer_norm(x, w, b, config=config))
    torch.cuda.synchronize()
    assert all(torch.equal(result, want) for result in results)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = px.kernels.layer_norm(px.kernels.layer_norm(x, w, b, config=config), w, b, config=config)
    for _ in range(3):
        y.zero_()
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, px.kernels.layer_norm(want, w, b, config=config))
