"""The first product of a mixture of experts on a GPU: gathered into the operand, or index_select, then the same.

    python -m benchmarks.products.moe --json moe.json
    python -m benchmarks.products.moe --seed 4101 --count 32 --json drawn.json    # drawn products, in all ways

The two numbers: 2 x rows x N x K floating-point operations; and the gathered copy of the rows, 2 x rows x K x 2
bytes, that the fused form does not move. Alternating in one process.

Of drawn products: rows by index in each step ("by index", and "by 32 bits"), gathered before ("first"), the same with the
kernel of `grouped_matmul` ("grouped"), torch's `index_select` and grouped product, in bursts. It says which of the first two
the library takes, and what that loses.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from typing import Any

import torch

from benchmarks.common import machine
from benchmarks.common.device import TorchDevice
from benchmarks.common.machine import Run, medians
from benchmarks.drawn.anywhere import GRAPHED, SHORT
from benchmarks.drawn.contests import rows_of_groups
from benchmarks.drawn.draws import Case, drawn, seed_of
from phalanx.kernels.gather import gather_rows
from phalanx.kernels.products.grouped import grouped_matmul
from phalanx.kernels.products.moe import gathers_first, moe_gather_matmul, moe_matmul
from phalanx.runtime.device.timing import MODES, geometric_mean, take_turns

TOKENS, K, EXPERTS, CHOSEN = 16384, 4096, 8, 2
WAYS = "first", "by index"
"""Of drawn products, those between which the library chooses."""


def measure(n: int, rounds: int) -> dict[str, object]:
    x = torch.randn(TOKENS, K, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(EXPERTS, n, K, device="cuda", dtype=torch.bfloat16)
    chosen = torch.rand(TOKENS, EXPERTS, device="cuda").topk(CHOSEN).indices.reshape(-1)
    order = chosen.argsort(stable=True)
    idx, sizes = (order // CHOSEN).to(torch.int32), chosen.bincount(minlength=EXPERTS).to(torch.int32)
    rows = len(idx)
    out, other, part = (torch.empty(rows, c, device="cuda", dtype=torch.bfloat16) for c in (n, n, K))
    moe_gather_matmul(x, idx, w, sizes, out=out)
    moe_matmul(torch.index_select(x, 0, idx), w, sizes, out=other)
    assert torch.equal(out, other)
    starts = sizes.cumsum(0).tolist()
    first = (x[idx[: starts[0]].long()].float() @ w[0].float().T).bfloat16()
    torch.testing.assert_close(out[: starts[0]], first, rtol=2e-2, atol=1.0)

    def ours() -> None:
        moe_gather_matmul(x, idx, w, sizes, out=out)

    def selected() -> None:
        torch.index_select(x, 0, idx, out=part)
        moe_matmul(part, w, sizes, out=other)

    def moved() -> None:
        gather_rows(x, idx, out=part)
        moe_matmul(part, w, sizes, out=other)

    def sorted_already() -> None:
        moe_matmul(part, w, sizes, out=other)

    runs: dict[str, Run] = {"gathered": ours, "index_select": selected, "gather_rows": moved, "sorted": sorted_already}
    times = medians(runs, rounds, 10)
    tflops = {name: 2e-9 * rows * n * K / time for name, time in times.items()}
    ratio = times["index_select"] / times["gathered"]
    print(f"{rows} x {K} into {n}: " + ", ".join(f"{k} {v:.0f}" for k, v in tflops.items()) + f" TFLOP/s; {ratio:.3f}x")
    return {"rows": rows, "n": n, "k": K, "experts": EXPERTS, "tflops": tflops, "ratio": ratio}


def measure_drawn(case: Case, rounds: int, rest: float) -> dict[str, Any]:
    """A drawn product in each way, with which of the first two the library takes."""
    groups, rows, n, k, tokens = case.size("groups", "rows", "n", "k", "tokens")
    sizes, ends, call = rows_of_groups(case)
    x, w = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((tokens, k), (groups, n, k)))
    idx = torch.randint(0, tokens, (rows,), device="cuda")
    narrow, device = idx.to(torch.int32), TorchDevice()
    runs: dict[str, Run] = {
        "by index": lambda: moe_gather_matmul(x, idx, w, sizes, BM=128),
        "by 32 bits": lambda: moe_gather_matmul(x, narrow, w, sizes, BM=128),
        "first": lambda: moe_matmul(gather_rows(x, idx), w, sizes),
        "grouped": lambda: grouped_matmul(gather_rows(x, idx), w, sizes),
        "torch": lambda: call(x.index_select(0, idx), w.mT, offs=ends),
    }
    want = runs["torch"]()
    for name, run in runs.items():
        torch.testing.assert_close(run(), want, rtol=2e-2, atol=1.0, msg=lambda said, name=name: f"{case}, {name}: {said}")
    per = GRAPHED if device.milliseconds(runs["first"], 5) < SHORT else 1
    if per > 1:
        runs = {name: machine.graphed(run, per) for name, run in runs.items()}
    times = take_turns(runs, device.milliseconds, replace(MODES["burst"], rest_s=rest), rounds=rounds)
    us = {name: 1e3 * statistics.median(took) / per for name, took in times.items()}
    first = gathers_first(rows, groups, n, k)
    chosen = us["first" if first else "by index"]
    said = ", ".join(f"{name} {took:.0f}" for name, took in us.items())
    print(f"{case}: {said} us; takes {'first' if first else 'by index'}, {us['torch'] / chosen:.3f} of torch", flush=True)
    return {"case": str(case), "sizes": case.sizes, "us": us, "first": first, "ratio": us["torch"] / chosen}


def drawn_products(options: argparse.Namespace) -> dict[str, Any]:
    """The drawn products, and what the choice loses beside the better one of its two ways."""
    cases = drawn("moe_gather_matmul", seed_of(options.seed), options.count)
    rows = [measure_drawn(case, options.rounds, options.rest) for case in cases]
    lost = [row["us"]["first" if row["first"] else "by index"] / min(row["us"][way] for way in WAYS) for row in rows]
    print(f"{geometric_mean(lost):.3f} of the time of {' or '.join(WAYS)}, whichever is quicker; {max(lost):.3f} at most")
    return {"rows": rows}


def main() -> None:
    parser = machine.arguments(__doc__, 7)
    parser.add_argument("--seed", help="of drawn products, which then are measured instead")
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--rest", type=float, default=0.03, help="seconds before a burst")
    options = parser.parse_args()
    found = drawn_products(options) if options.seed else {"rows": [measure(n, options.rounds) for n in (1024, 2048)]}
    machine.save(options.json, found)


if __name__ == "__main__":
    main()
