"""On the GPU: copies of a role take turns, multiply, and reduce over the cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from support.role_copies import products, products_arguments, turns, turns_arguments

pytestmark = pytest.mark.gpu
pytest.importorskip("torch")


def on_gpu(kernel: Any, grid: int, *arrays: np.ndarray, **constants: Any) -> np.ndarray:
    """What the last array holds after a run."""
    from examples.cases import module

    move, back = module("common").gpu_mover()
    moved = [move(x) for x in arrays]
    kernel[grid](*moved, **constants)
    return back(moved[-1])


@pytest.mark.parametrize(("copies", "count"), [(2, 4), (3, 4), (3, 1), (4, 2), (8, 2), (5, 3)])
def test_copies_that_take_turns(copies: int, count: int) -> None:
    x, y, want = turns_arguments(copies)
    np.testing.assert_allclose(on_gpu(turns(copies, count).copied, 1, x, y, COPIES=copies, COUNT=count), want, rtol=1e-6)


def test_products_of_copies_with_registers_of_their_own() -> None:
    *arrays, want = products_arguments()
    np.testing.assert_array_equal(on_gpu(products, 1, *arrays), want)


def test_an_exchange_over_the_cluster_is_each_copy_s_own() -> None:
    @px.kernel(warps=6, cluster=2)
    def kernel(X, Y):
        rank = px.cluster.rank()
        with px.warps(0, 2, copies=3) as c:
            for t in range(100):
                x = px.load(X[c, rank, 0:64]) + t
                px.store(Y[c, rank, 0:64], px.cluster.reduce(x, "sum"))
                if c == 1:
                    px.store(Y[c, rank, 0:64], 2 * px.cluster.reduce(x, "max"))

    x = np.random.default_rng(0).integers(0, 99, (3, 2, 64)).astype(np.float32)
    want = x.sum(axis=1, keepdims=True) + 2 * 99
    want[1] = 2 * (x[1].max(axis=0) + 99)
    np.testing.assert_array_equal(on_gpu(kernel, 2, x, np.zeros_like(x)), np.repeat(want, 2, axis=1))
