"""Waits and fences around tensor memory where code is left early: by break, continue, or the return of a function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px


@px.kernel(warps=4)
def loops(X, Y, n):
    """The last store is followed by a break, by a continue or by the end of the loop."""
    t = px.tmem((128, 32), px.f32)
    for k in range(n):
        if k == 2:
            px.tcgen05.store(t, px.load(X[0:128, 0:32]) * 3)
            break
        if k == 1:
            px.tcgen05.store(t, px.load(X[0:128, 0:32]) * 2)
            continue
        px.tcgen05.store(t, px.load(X[0:128, 0:32]))
    px.store(Y[0:128, 0:32], px.tcgen05.load(t))


@px.func
def stored_or_told(t, X, bar, n):
    if n > 1:
        px.tcgen05.store(t, px.load(X[0:128, 0:32]) * n)
        return
    px.tcgen05.store(t, px.load(X[0:128, 0:32]))
    bar.arrive()


@px.kernel(warps=8)
def functions(X, Y, n):
    """One way ends with the store, the other with a signal behind it; then another role is told."""
    t = px.tmem((128, 32), px.f32)
    ready, other = px.barrier(), px.barrier()
    with px.warps(0, 4):
        stored_or_told(t, X, other, n)
        ready.arrive()
    with px.warps(4, 4):
        ready.wait(0)
        px.store(Y[0:128, 0:32], px.tcgen05.load(t))


@px.func
def waited_or_read(t, Y, ready, n):
    if n > 1:
        ready.wait(0)
        return
    ready.wait(0)
    px.store(Y[0:128, 0:32], px.tcgen05.load(t))


@px.kernel(warps=8)
def readers(X, Y, n):
    """Behind a load, one way ends with a wait, the other with a load behind a wait; then there is another load."""
    t, u = px.tmem((128, 32), px.f32), px.tmem((128, 32), px.f32)
    ready = px.barrier()
    with px.warps(0, 4):
        px.tcgen05.store(t, px.load(X[0:128, 0:32]) * n)
        ready.arrive()
    with px.warps(4, 4):
        px.tcgen05.store(u, px.load(X[0:128, 0:32]))
        x = px.tcgen05.load(u)
        waited_or_read(t, Y, ready, n)
        px.store(Y[0:128, 0:32], px.tcgen05.load(t) + x - x)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kernel", [loops, functions, readers], ids=lambda kernel: kernel.name)
def test_ways_out(kernel: Any, n: int) -> None:
    x = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)
    y = np.zeros_like(x)
    kernel[1](x, y, n)
    np.testing.assert_array_equal(y, x * n)
    report = px.check(kernel[1], x, y, n)
    assert report.ok, report
