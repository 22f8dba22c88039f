"""Programmatic dependent launches on the GPU: long chains of kernels that overlap give the results of chains that don't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import phalanx as px

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


@px.kernel(warps=4, pdl=True)
def add_shifted(X, Y, W, *, BLOCK=1024):
    """Reads what other CTAs of the launch before wrote; W is written by no kernel, so that it may be read early."""
    i = px.block_id(0) * BLOCK
    w = px.load(W[i : i + BLOCK])
    px.wait_prior()
    j = (i + BLOCK) % X.shape[0]
    x = px.load(X[j : j + BLOCK])
    px.launch_dependents()
    px.store(Y[i : i + BLOCK], x + w)


@pytest.mark.parametrize("blocks", [4, 400])
def test_a_chain_of_overlapping_launches(blocks: int) -> None:
    n, rounds = 1024 * blocks, 200
    x = torch.arange(n, dtype=torch.float32, device="cuda") % 1024
    y, w = torch.empty_like(x), torch.ones_like(x)
    want = x.clone()
    for _ in range(rounds):
        add_shifted[blocks](x, y, w)
        add_shifted[blocks](y, x, w)
        want = want.roll(-2048) + 2
    torch.cuda.synchronize()
    assert torch.equal(x, want)


def test_in_a_graph() -> None:
    x = torch.zeros(4096, device="cuda")
    y, w = torch.empty_like(x), torch.ones_like(x)
    add_shifted[4](x, y, w)
    torch.cuda.synchronize()
    x.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            add_shifted[4](x, y, w)
            add_shifted[4](y, x, w)
    x.zero_()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert (x == 30).all()


def steps_of_a_model(pause: Callable[[], None]) -> Any:
    """Kernels of the library that read what the one before wrote, and write what it has just read; `pause` after each."""
    torch.manual_seed(0)
    n, experts = 1024, 4
    x, other = torch.randn(n, n, device="cuda", dtype=torch.bfloat16), torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
    square = torch.randn(n, n, device="cuda", dtype=torch.bfloat16) / n**0.5
    weights = torch.randn(experts, n, n, device="cuda", dtype=torch.bfloat16) / n**0.5
    scale, order = torch.ones(n, device="cuda", dtype=torch.bfloat16), torch.randperm(n, device="cuda", dtype=torch.int32)
    sizes = torch.tensor([300, 0, 500, 224], device="cuda", dtype=torch.int32)
    kernels = px.kernels

    def paused(tensor: Any) -> Any:
        pause()
        return tensor

    for _ in range(20):
        for step in (
            lambda: kernels.matmul(x, square, out=other),
            lambda: kernels.matmul(other, square.T, out=x),
            lambda: other.copy_(kernels.layer_norm(paused(kernels.rms_norm(x, scale)), scale, scale)),
            lambda: kernels.gather_rows(other, order, out=x),
            lambda: kernels.grouped_matmul(x, weights, sizes, out=other),
            lambda: kernels.moe_gather_matmul(other, order, weights, sizes, out=x),
            lambda: kernels.matmul(x[:16], square, out=other[:16]),
            lambda: x.copy_(kernels.softmax(other)),
            lambda: x.sub_(x.mean()).mul_(100),
        ):
            step()
            pause()
    return x


def test_kernels_of_the_library_follow_each_other() -> None:
    assert torch.equal(steps_of_a_model(lambda: None), steps_of_a_model(torch.cuda.synchronize))
