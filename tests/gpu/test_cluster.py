"""On the GPU: pushes, collective copies, reductions and pipes for clusters of 1 to 16 CTAs, as in the simulator."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import phalanx as px
from support import collective_cases
from support.cluster_cases import MAKERS, case, label
from support.cluster_launches import Shape

pytestmark = pytest.mark.gpu
pytest.importorskip("torch")
SHAPES: tuple[Shape, ...] = ((1, 1, 1), (2, 1, 1), (4, 1, 1), (2, 2, 1), (8, 1, 1), (16, 1, 1))


def on_gpu(made: Any, *, watchdog: bool = False) -> None:
    from examples.cases import module

    move, back = module("common").gpu_mover()
    kernel = dataclasses.replace(made.kernel, watchdog=True) if watchdog else made.kernel
    args = [move(a) if isinstance(a, np.ndarray) else a for a in made.args]
    kernel[made.grid](*args, **made.constants)
    made.check(back(args[1]))


@pytest.mark.parametrize("shape", SHAPES, ids=label)
@pytest.mark.parametrize("name", MAKERS)
def test_is_right(name: str, shape: Shape) -> None:
    for seed in range(3):
        on_gpu(case(name, shape, seed))


@pytest.mark.parametrize("name", MAKERS)
def test_is_right_with_the_watchdog(name: str) -> None:
    on_gpu(case(name, (2, 1, 1)), watchdog=True)


@pytest.mark.parametrize("shape", SHAPES, ids=label)
@pytest.mark.parametrize("name", collective_cases.MAKERS)
def test_collective_copies_are_right(name: str, shape: Shape) -> None:
    for seed in range(3):
        on_gpu(collective_cases.case(name, shape, seed))


@px.kernel(warps=8, cluster=lambda C: C)
def many_turns(X, Y, *, C, N=512):
    """Thousands of reductions in a row: turns and phases never mix."""
    rank = px.cluster.rank()
    total = px.zeros((1,), px.f32)
    for turn in range(4000):
        x = px.load(X[rank, 0:N]) + turn % 7
        total += px.cluster.reduce(px.sum(x), "sum") - px.cluster.reduce(px.min(x), "min")
    px.store(Y[rank, 0:1], total)


@pytest.mark.parametrize("c", [2, 8, 16])
def test_many_reductions_in_a_row(c: int) -> None:
    import torch

    x = torch.ones((c, 512), device="cuda")
    y = torch.zeros((c, 1), device="cuda")
    many_turns[c](x, y, C=c)
    want = np.float32(0)  # every term is exact in f32, and so is the order of the sum
    for turn in range(4000):
        want += np.float32((1 + turn % 7) * (512 * c - 1))
    assert torch.equal(y.cpu(), torch.full((c, 1), float(want)))


@px.kernel(warps=8, cluster=lambda C: C)
def many_gathers(X, Y, *, C, N=512):
    """Thousands of gathers and reductions on the same inboxes, by parts of warps and by scalars."""
    rank = px.cluster.rank()
    total = px.zeros((1,), px.f32)
    for turn in range(4000):
        x = px.load(X[rank, 0:N]) + turn % 7
        parts, least = px.cluster.gather((px.sum(x.reshape(8, N // 8), axis=1), px.min(x.reshape(8, N // 8), axis=1)))
        whole = px.cluster.gather(px.max(x))
        total += px.sum(parts) - px.min(least) + px.max(whole) - px.cluster.reduce(px.min(x), "min")
    px.store(Y[rank, 0:1], total)


@pytest.mark.parametrize("c", [1, 2, 8, 16])
def test_many_gathers_in_a_row(c: int) -> None:
    import torch

    x = torch.ones((c, 512), device="cuda")
    y = torch.zeros((c, 1), device="cuda")
    many_gathers[c](x, y, C=c)
    want = np.float32(0)  # every term is exact in f32, and so is the order of the sum
    for turn in range(4000):
        want += np.float32((1 + turn % 7) * (512 * c - 1))
    assert torch.equal(y.cpu(), torch.full((c, 1), float(want)))
