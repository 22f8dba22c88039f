"""The first product of a mixture of experts on a GPU: gathered into the operand, or index_select, then the same.

The two numbers: 2 x rows x N x K floating-point operations; and the gathered copy of the rows, 2 x rows x K x 2
bytes, that the fused form does not move. Alternating in one process.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import machine
import torch
from gather import Run, medians

from phalanx.kernels.gather import gather_rows
from phalanx.kernels.products.moe import moe_gather_matmul, moe_matmul

TOKENS, K, EXPERTS, CHOSEN = 16384, 4096, 8, 2


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    machine.save(options.json, {"rows": [measure(n, options.rounds) for n in (1024, 2048)]})


if __name__ == "__main__":
    main()
