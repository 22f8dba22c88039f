"""Rows that a share of all SMs has, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.rowwise.share_config import ShareConfig, fitting

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
CONFIGS = (
    ShareConfig(2, 12, 5, 6, delay=3), ShareConfig(11, 8, 2, 8, delay=2, pieces=2),
    ShareConfig(66, 4, 1, 5, delay=3), ShareConfig(132, 3, 2, 3, delay=1),
)  # fmt: skip


def both_norms(x: Any, w: Any, b: Any, config: Any = None) -> list[Any]:
    return [px.kernels.rms_norm(x, w, 1e-5, config=config), px.kernels.layer_norm(x, w, b, 1e-5, config=config)]


def exact(x: Any, w: Any, b: Any) -> list[Any]:
    x, w, b = x.double(), w.double(), b.double()
    normed = torch.nn.functional.layer_norm(x, x.shape[1:], w, b, 1e-5)
    return [x * (x * x).mean(-1, keepdim=True).add(1e-5).rsqrt() * w, normed]


def close(config: Any, rows: int, columns: int, name: str) -> None:
    torch.manual_seed(columns)
    dtype = getattr(torch, name)
    x, (w, b) = torch.randn(rows, columns, device="cuda").to(dtype), torch.randn(2, columns, device="cuda").to(dtype)
    near = 2e-5 if name == "float32" else 1e-2
    for got, again, want in zip(both_norms(x, w, b, config), both_norms(x, w, b, config), exact(x, w, b), strict=True):
        assert torch.equal(got, again), "sums are in one order"
        assert float((got.double() - want).abs().max() / want.abs().max()) < near


@pytest.mark.parametrize("columns", (1000, 10_003, 15_000, 12_346))
@pytest.mark.parametrize("name", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_both_norms(config: ShareConfig, name: str, columns: int) -> None:
    close(config, 301, columns, name)


@pytest.mark.parametrize("rows", (1, 3, 37))
@pytest.mark.parametrize("columns", (600_000, 700_001, 1_999_996))
@pytest.mark.parametrize("name", ("float32", "bfloat16"))
def test_fitting_ones(name: str, columns: int, rows: int) -> None:
    close(fitting(columns, 4 if name == "float32" else 2, 2, px.device().sms), rows, columns, name)


def test_chosen_ones() -> None:
    close(None, 40, 640_000, "bfloat16")


def test_a_graph() -> None:
    x, (w, b) = torch.randn(24, 150_001, device="cuda"), torch.randn(2, 150_001, device="cuda")
    config = fitting(150_001, 4, 2, px.device().sms)
    want = px.kernels.layer_norm(x, w, b, config=config)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = px.kernels.layer_norm(px.kernels.layer_norm(x, w, b, config=config), w, b, config=config)
    for _ in range(3):
        y.zero_()
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, px.kernels.layer_norm(want, w, b, config=config))
