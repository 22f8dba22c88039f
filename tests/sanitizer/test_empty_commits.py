"""A commit whose engine has no work in the whole kernel: it arrives at once, and publishes nothing that its agent did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

Y = array(4, 64)
ONE: dict[str, Any] = dict(grid=1, args=(Y,))


@planted("race", **ONE)
@px.kernel(warps=5)
def of_products(Y, *, BUG):
    s, b = px.shared((64,), Y.dtype), px.barrier(count=1, checked=False)
    with px.warps(0, 4):
        px.store(s, px.full((64,), 1.0, Y.dtype))  # other
        if BUG:
            px.tcgen05.commit(b)
        else:
            b.arrive()
    with px.warps(4, 1):
        b.wait(0)
        px.store(Y[0, 0:64], px.load(s))  # bug


@planted("race", **ONE)
@px.kernel(warps=5)
def behind_a_store_to_tensor_memory(Y, *, BUG):
    t, s, b = px.tmem((128, 64), px.f32), px.shared((64,), Y.dtype), px.barrier(count=1, checked=False)
    with px.warps(0, 4):
        px.store(s, px.full((64,), 1.0, Y.dtype))  # other
        px.tcgen05.store(t, px.zeros((128, 64), px.f32))
        if BUG:
            px.tcgen05.commit(b)
        else:
            b.arrive()
    with px.warps(4, 1):
        b.wait(0)
        px.store(Y[0, 0:64], px.load(s))  # bug


@planted("race", **ONE)
@px.kernel(warps=2)
def of_copies_by_threads(Y, *, BUG):
    s, b = px.shared((64,), Y.dtype), px.barrier(checked=False)
    with px.warps(0, 1):
        px.store(s, px.full((64,), 1.0, Y.dtype))  # other
        if BUG:
            px.cp_async.commit(b)
        else:
            b.arrive()
    with px.warps(1, 1):
        b.wait(0)
        px.store(Y[0, 0:64], px.load(s))  # bug


@px.kernel(warps=8)
def products_on_a_pipe(Y):
    p = px.pipe(2)
    with px.warps(0, 4):
        p.acquire()
        px.tcgen05.commit(p)
    with px.warps(4, 4):
        p.wait()
        p.release()
        px.store(Y[0, 0:64], 1.0)


@px.kernel(warps=2)
def copies_on_a_pipe(Y):
    p = px.pipe(2)
    with px.warps(0, 1):
        p.acquire()
        px.cp_async.commit(p)
    with px.warps(1, 1):
        p.wait()
        p.release()
        px.store(Y[0, 0:64], 1.0)


@px.kernel(warps=4, cluster=2)
def to_both_ctas(Y):
    b = px.barrier()
    px.tcgen05.commit(b, multicast=0b11)
    b.wait(0)
    px.store(Y[px.cluster.rank(), 0:64], 1.0)


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case: Any) -> None:
    case.verify()


@pytest.mark.parametrize("kernel, grid", [(products_on_a_pipe, 1), (copies_on_a_pipe, 1), (to_both_ctas, 2)])
def test_it_arrives(kernel: Any, grid: int) -> None:
    y = np.zeros((4, 64), np.float32)
    kernel[grid](y)
    assert (y[:grid] == 1).all()
    report = px.check(kernel[grid], Y)
    assert report.ok, report
    assert px.explore(kernel[grid], Y).ok
