"""On the GPU: copies by TMA at the edges of arrays, signals between CTAs, and what a stuck or wrong kernel reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from support.copy_kernels import hinted

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def ramp(*shape: int, dtype: Any = None) -> Any:
    size = 1
    for extent in shape:
        size *= extent
    return (torch.arange(size, device="cuda") % 251 + 1).to(dtype or torch.float32).reshape(shape)


@px.kernel
def row_copy(X, Y, row, start, *, N=1000, ALIGN=16):
    """One run of a row; `start` in multiples of ALIGN elements may lie outside the row at either end."""
    s = px.shared(N, X.dtype)
    bar = px.barrier(count=1)
    at = start * ALIGN
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[row, at : at + N], s, bar)
    bar.wait(0)
    px.tma.store(s, Y[row, at : at + N])
    px.tma.commit()
    px.tma.wait(0)


@px.kernel
def row_fill(X, Y, row, start, *, N=1000, ALIGN=16):
    """The same run, elements outside the row as zeros, to the start of Y."""
    s = px.shared(N, X.dtype)
    bar = px.barrier(count=1)
    at = start * ALIGN
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[row, at : at + N], s, bar)
    bar.wait(0)
    px.store(Y[0:N], px.load(s))


@pytest.mark.parametrize("start", [0, 1, 3, -1, -70, 500])
@pytest.mark.parametrize("n", [1000, 1001, 16, 3])
@pytest.mark.parametrize("row", [0, 2, -1, 3])
@pytest.mark.parametrize("width", [1500, 1004])
def test_runs_at_the_edges(start: int, n: int, row: int, width: int) -> None:
    x = ramp(3, width)
    y, filled = torch.zeros_like(x), torch.full((n,), -1.0, device="cuda")
    row_copy[1](x, y, row, start, N=n)
    row_fill[1](x, filled, row, start, N=n)
    expected, run = torch.zeros_like(x), torch.zeros(n, device="cuda")
    if 0 <= row < 3:
        low, high = max(0, 16 * start), min(width, 16 * start + n)
        if low < high:
            expected[row, low:high] = x[row, low:high]
            run[low - 16 * start : high - 16 * start] = x[row, low:high]
    assert torch.equal(y, expected)
    assert torch.equal(filled, run)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8, torch.float64])
def test_runs_of_other_widths(dtype: Any) -> None:
    x = ramp(2, 1504, dtype=dtype)
    y = torch.zeros_like(x)
    row_copy[1](x, y, 1, 2, N=1001)
    assert torch.equal(y[1, 32:1033], x[1, 32:1033])
    assert y.count_nonzero() == 1001


@px.kernel
def box_copy(X, Y, i, j, k):
    k = k * 4  # the copy engine wants multiples of 16 bytes along the last axis
    s = px.shared((3, 8, 32), px.f32)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.prefetch(X[i : i + 3, j : j + 8, k : k + 32])
    px.tma.load(X[i : i + 3, j : j + 8, k : k + 32], s, bar)
    bar.wait(0)
    px.tma.store(s, Y[i : i + 3, j : j + 8, k : k + 32])
    px.tma.commit()
    px.tma.wait(0)


@pytest.mark.parametrize("place", [(0, 0, 0), (-1, 0, 0), (0, -3, 1), (0, 0, -2), (-1, -3, -2), (3, 15, 9), (9, 9, 9)])
def test_boxes_at_the_edges(place: tuple[int, int, int]) -> None:
    x = ramp(5, 20, 60)
    y = torch.zeros_like(x)
    box_copy[1](x, y, *place)
    start = (place[0], place[1], 4 * place[2])
    window = tuple(slice(max(0, p), max(0, p + e)) for p, e in zip(start, (3, 8, 32)))
    expected = torch.zeros_like(x)
    expected[window] = x[window]
    assert torch.equal(y, expected)


@px.kernel
def fold(X, Y, *, N=32):
    s = px.shared((N, N), X.dtype)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[0:N, 0:N], s, bar)
    bar.wait(0)
    px.tma.reduce(s, Y[0:N, 0:N], "add")
    px.tma.commit()
    px.tma.wait(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_reductions_add_atomically(dtype: Any) -> None:
    x = torch.randint(0, 4, (32, 32), device="cuda").to(dtype)
    y = torch.zeros_like(x)
    fold[7](x, y)
    assert torch.equal(y, 7 * x)


@px.kernel(warps=5, cluster=2)
def ring(X, Y, *, BM=32, BN=64, STAGES=3):
    s = px.shared((STAGES, BM, BN), px.f32)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    n = px.cdiv(X.shape[0], BM)
    rank = px.cluster.rank()
    with px.warps(4, 1):
        slot = px.ring(STAGES)
        for k in range(n):
            empty[slot.stage].wait(slot.parity ^ 1)
            with full[slot.stage].transaction():
                if rank == 0:
                    px.tma.load(X[k * BM : k * BM + BM, 0:BN], s[slot.stage], full[slot.stage], multicast=3)
            slot.advance()
    with px.warps(0, 4):
        slot = px.ring(STAGES)
        for k in range(n):
            full[slot.stage].wait(slot.parity)
            px.tma.store(s[slot.stage], Y[rank, k * BM : k * BM + BM, 0:BN])
            px.tma.commit()
            px.tma.wait(0, read=True)
            empty[slot.stage].arrive(ctas=3)
            slot.advance()


@pytest.mark.parametrize("rows", [1, 32, 100, 1000])
def test_a_multicast_ring(rows: int) -> None:
    x = ramp(rows, 64)
    y = torch.zeros(2, rows, 64, device="cuda")
    ring[2](x, y)
    assert torch.equal(y[0], x) and torch.equal(y[1], x)


@px.kernel(cluster=4)
def ping(Y):
    bar = px.barrier(count=4)
    rank = px.cluster.rank()
    bar.arrive(ctas=1 << ((rank + 1) % 4))
    bar.arrive(ctas=0b1111 ^ (1 << ((rank + 1) % 4)))
    bar.wait(0)
    px.store(Y[px.block_id(0)], 1 + rank)


def test_arrivals_in_other_ctas() -> None:
    y = torch.zeros(8, dtype=torch.int32, device="cuda")
    ping[8](y)
    assert y.tolist() == [1, 2, 3, 4, 1, 2, 3, 4]


# A trap ends the context, so what a stuck kernel reports is seen in a process of its own.

MAIN = """
import sys
import torch
import phalanx as px


{kernel}


try:
    kernel[3](torch.zeros(4, device="cuda"))
except px.Error as error:
    print(error)
    sys.exit(3)
"""


def report_of(kernel: str, folder: Path) -> str:
    script = folder / "stuck.py"
    script.write_text(MAIN.format(kernel=kernel))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stdout + done.stderr
    return done.stdout


STUCK = """
@px.kernel(warps=2, watchdog=True)
def kernel(X):
    bar = px.barrier(4, count=1)
    with px.warps(1, 1):
        bar[2].wait(0)
"""


def test_a_wait_that_never_ends_is_reported(tmp_path: Path) -> None:
    text = report_of(STUCK, tmp_path)
    assert "bar[2] for parity 0" in text
    assert "bar[2].wait(0)" in text
    assert "warp 1" in text


WRONG = """
@px.kernel
def kernel(X):
    px.device_assert(px.block_id(0) != 2, "block two is bad")
"""


def test_a_failed_assertion_is_reported(tmp_path: Path) -> None:
    text = report_of(WRONG, tmp_path)
    assert "block two is bad" in text
    assert "CTA (2, 0, 0)" in text


FALSE = """
@px.kernel(watchdog=True)
def kernel(X):
    px.assume(px.block_id(0) != 1)
"""


def test_a_false_assumption_of_a_watched_kernel_is_reported(tmp_path: Path) -> None:
    text = report_of(FALSE, tmp_path)
    assert "what px.assume says is false" in text
    assert "CTA (1, 0, 0)" in text


@pytest.mark.parametrize(
    "load, store", [("evict_last", "evict_first"), ("evict_first", "evict_normal"), ("evict_first 4/16", "evict_last 8/16")]
)
def test_cache_hints_change_no_result(load: str, store: str) -> None:
    x, y = ramp(64, 64), torch.ones(64, 192, device="cuda")
    hinted[8](x, y, LOAD=load, STORE=store)
    torch.cuda.synchronize()
    assert torch.equal(y[:, :64], x)
    assert torch.equal(y[:, 64:128], x + 1)
    assert torch.equal(y[::8, 128:], x[::8])
