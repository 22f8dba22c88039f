"""What single choices are worth on the GPU, each against its plain alternative in the same process, alternating.

- orders: the last rung of the GEMM ladder with its tiles row by row, in groups of 8 rows, along a Hilbert curve.
- accumulators: the same persistent product with f32 and with f16 accumulators (f16 in and out).
- instructions: a ring of TMA stages consumed by `wgmma` (warps 4 to 7) and by `mma.sync` (warps 1 to 4).
- launches: a chain of 200 small kernels, one after the other and overlapping (`pdl=True`).

Operations are 2 M N K against a ceiling of about 800 TFLOP/s on an H200 (mma.sync reaches about 60 % of it on Hopper);
a launch of the chain moves 2 x 4 bytes an element, 1 MB, and is bound by latency. In each round every contender runs
a block, in another order each time; the table has medians over rounds of the times, and of the ratio to the first
contender in the same round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import EXAMPLES

sys.path[:0] = [str(EXAMPLES / "gemm"), str(EXAMPLES)]

import torch
import v7

import phalanx as px
from benchmarks.common import machine
from phalanx.kernels.products.orders import by_rows, grouped, hilbert
from phalanx.runtime.device.timing import in_turns, median_ratio

Contenders = dict[str, Callable[[], None]]


@px.func
def fill(ring, full, empty, A, B, a, b, m, n):
    """The producer's part of one tile of C: all of K for the rows of A from `m` and those of B from `n`."""
    BM, BN, BK = a.shape[1], b.shape[1], a.shape[2]
    for k in range(px.cdiv(A.shape[1], BK)):
        empty[ring.stage].wait(ring.parity ^ 1)
        with full[ring.stage].transaction():
            px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a[ring.stage], full[ring.stage])
            px.tma.load(B[n : n + BN, k * BK : k * BK + BK], b[ring.stage], full[ring.stage])
        ring.advance()


@px.kernel(warps=12)
def accumulate(A, B, C, *, ACC=px.f32, BM=128, BN=256, BK=64, STAGES=px.auto, GROUP=8):
    """C = A @ B.T with the accumulator's type as a constant."""
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    out = px.shared((BM, 64), C.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    ring = px.ring(STAGES)
    with px.warps(0, 4, regs=40):
        for tile in range(px.block_id(0), rows * columns, px.num_blocks(0)):
            i, j = grouped(tile, rows, columns, GROUP)
            fill(ring, full, empty, A, B, a, b, i * BM, j * BN)
    with px.warps(4, 8, regs=232):
        for tile in range(px.block_id(0), rows * columns, px.num_blocks(0)):
            i, j = grouped(tile, rows, columns, GROUP)
            acc = px.empty((BM, BN), ACC)
            last = 0
            for k in range(steps):
                full[ring.stage].wait(ring.parity)
                px.wgmma(a[ring.stage], b[ring.stage].T, acc, accumulate=k > 0)
                px.wgmma_commit()
                px.wgmma_wait(1)
                if k > 0:
                    empty[last].arrive()
                last = ring.stage
                ring.advance()
            px.wgmma_wait(0)
            empty[last].arrive()
            for part in px.static_range(0, BN, 64):
                px.tma.wait(0, read=True)
                px.store(out, acc[:, part : part + 64].to(C.dtype))
                px.fence.async_proxy()
                px.tma.store(out, C[i * BM : i * BM + BM, j * BN + part : j * BN + part + 64])
                px.tma.commit()
        px.tma.wait(0)


@px.kernel(warps=8)
def synchronous(A, B, C, *, FIRST=4, BM=128, BN=128, BK=64, STAGES=4):
    """px.dot of four warps: `wgmma` where they are a warpgroup (FIRST=4), else `mma.sync`."""
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    steps = px.cdiv(A.shape[1], BK)
    ring = px.ring(STAGES)
    with px.warps(0, 1):
        fill(ring, full, empty, A, B, a, b, m, n)
    with px.warps(FIRST, 4):
        acc = px.zeros((BM, BN), px.f32)
        for _ in range(steps):
            full[ring.stage].wait(ring.parity)
            acc = px.dot(a[ring.stage], b[ring.stage].T, acc)
            empty[ring.stage].arrive()
            ring.advance()
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


def add_one(X, Y, *, BLOCK=1024):
    i = px.block_id(0) * BLOCK
    px.wait_prior()
    x = px.load(X[i : i + BLOCK])
    px.launch_dependents()
    px.store(Y[i : i + BLOCK], x + 1.0)


ADD_ONE: dict[str, Any] = {"one after the other": px.kernel(add_one), "overlapping": px.kernel(pdl=True)(add_one)}


@px.func
def rows_order(t, rows, columns, group):
    return by_rows(t, rows, columns)


@px.func
def hilbert_order(t, rows, columns, group):
    return hilbert(t, rows, columns)


def operands(m: int, n: int, k: int, dtype: Any) -> tuple[Any, Any, Any]:
    generator = torch.Generator(device="cuda").manual_seed(0)
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.float32, generator=generator).to(dtype) for rows in (m, n))
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=dtype)


def verify(name: str, args: tuple[Any, Any, Any], tolerance: float) -> None:
    a, b, c = args
    want = a.float() @ b.float().T
    off = float((c.float() - want).abs().max() / want.abs().max())
    assert off < tolerance, f"{name} is {off:.2g} off"


def orders(m: int, n: int, k: int) -> Contenders:
    args = operands(m, n, k, torch.bfloat16)
    launch = v7.launch(m, n, k)

    def run(order: Any) -> Callable[[], None]:
        def go() -> None:
            v7.grouped = order  # a captured name: the kernel is read anew for each, once
            launch(*args)

        return go

    found = {name: run(order) for name, order in (("grouped", grouped), ("rows", rows_order), ("hilbert", hilbert_order))}
    for name, go in found.items():
        args[2].fill_(float("nan"))
        go()
        verify(name, args, 0.01)
    return found


def accumulators(m: int, n: int, k: int) -> Contenders:
    args = operands(m, n, k, torch.float16)
    grid = min(px.device().sms, px.cdiv(m, 128) * px.cdiv(n, 256))
    found: Contenders = {}
    for name, dtype, tolerance in (("f32", px.f32, 0.01), ("f16", px.f16, 0.1)):
        found[name] = lambda dtype=dtype: accumulate[grid](*args, ACC=dtype)  # type: ignore[misc]
        args[2].fill_(float("nan"))
        found[name]()
        verify(name, args, tolerance)
    return found


def instructions(m: int, n: int, k: int) -> Contenders:
    args = operands(m, n, k, torch.bfloat16)
    grid = (px.cdiv(m, 128), px.cdiv(n, 128))
    found: Contenders = {}
    for name, first in (("wgmma", 4), ("mma.sync", 1)):
        found[name] = lambda first=first: synchronous[grid](*args, FIRST=first)  # type: ignore[misc]
        args[2].fill_(float("nan"))
        found[name]()
        verify(name, args, 0.01)
    return found


def launches(blocks: int = 128, count: int = 200) -> Contenders:
    found: Contenders = {}
    for name, kernel in ADD_ONE.items():
        x = torch.zeros(1024 * blocks, device="cuda")
        y = torch.empty_like(x)
        pairs = [kernel[blocks], (x, y), (y, x)]
        kernel[blocks](x, y)
        kernel[blocks](y, x)
        assert (x == 2).all(), name
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(count):
                pairs[0](*pairs[1 + i % 2])
        found[name] = graph.replay
        x.zero_()
        graph.replay()
        assert (x == count).all(), name
    return found


def measure(contenders: Contenders, rounds: int, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of one call, per round."""
    for go in contenders.values():
        go()

    def block(name: str) -> float:
        contenders[name]()  # a kernel whose captured names changed is read anew: before the clock runs
        return machine.milliseconds(contenders[name], repeats)

    return in_turns(list(contenders), rounds, block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases: list[tuple[str, Callable[[], Contenders], int, float]] = []
    for size in (4096, 8192):
        work = 2.0 * size**3
        cases.append((f"orders {size}^3", lambda size=size: orders(size, size, size), 10, work))  # type: ignore[misc]
        cases.append((f"accumulators {size}^3", lambda size=size: accumulators(size, size, size), 10, work))  # type: ignore[misc]
    cases.append(("instructions 4096^3", lambda: instructions(4096, 4096, 4096), 10, 2.0 * 4096**3))
    cases.append(("200 launches", launches, 10, 0.0))
    results: dict[str, Any] = {}
    lines = []
    for name, prepare, repeats, work in cases:
        times = measure(prepare(), options.rounds, repeats)
        plain = next(iter(times.values()))
        for contender, found in times.items():
            middle = statistics.median(found)
            ratio = median_ratio(plain, found)
            results.setdefault(name, {})[contender] = {"ms": middle, "ratio": ratio}
            speed = f"{work / middle / 1e9:7.0f} TFLOP/s" if work else ""
            lines.append(f"{name:24} {contender:20} {middle:8.3f} ms  {ratio:5.3f}  {speed}")
    machine.save(options.json, {"benchmark": "tensor cores", "results": results})
    print("\n".join(lines))


if __name__ == "__main__":
    main()
