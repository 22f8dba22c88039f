"""Products of 32 groups of uneven size against a loop of cuBLAS and torch's grouped product, alternating, bf16.

The two numbers: 2 x rows x N x K operations over about 700 TFLOP/s (power-limited); and the weights, 2 groups N K bytes
over 4.2 TB/s, which are read once if every group's tiles run together. Tiles of 128 rows compute what lies behind a
group's end too: with 512 rows a group that is an eighth.

Every configuration runs with bounded waits first, the chosen one before all others: one that hangs is reported and left
out. What is right is then timed.
"""

from __future__ import annotations

import argparse
import statistics
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.common import machine
from phalanx.kernels.products.grouped import GroupedConfig, choose_grouped, grouped_matmul
from phalanx.kernels.products.moe import moe_matmul
from phalanx.runtime.device.timing import Mode, take_turns
from phalanx.runtime.launch.watchdog import bounded_waits

GROUPS = 32
SHAPES = ((16384, 4096, 14336), (16384, 14336, 4096), (16384, 4096, 4096), (65536, 4096, 2048), (2048, 4096, 4096))
"""Rows, N, K."""
SWEEP = (
    *(GroupedConfig(band=band) for band in (1, 2, 4, 8, 16)),
    *(GroupedConfig(cm=2, cn=1, band=band) for band in (1, 2, 4, 8)),
    GroupedConfig(cm=1, cn=1), GroupedConfig(bn=128, stages=6, parts=1),
)
Run = Callable[[], Any]


def uneven(rows: int) -> list[int]:
    """Sizes from 0 to about four times the mean, the same on every run."""
    generator = torch.Generator().manual_seed(0)
    share = torch.rand(GROUPS, generator=generator) ** 2
    share[5] = 0.0
    sizes = (share / share.sum() * rows).floor().int().tolist()
    sizes[0] += rows - sum(sizes)
    return sizes


def torch_grouped(x: Any, w: Any, sizes: list[int]) -> Run | None:
    """torch's grouped product, where this version has one that takes these operands."""
    ends = torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)
    weights = w.transpose(1, 2)
    for place, name in ((torch.nn.functional, "grouped_mm"), (torch, "_grouped_mm")):
        call = getattr(place, name, None)
        if call is None:
            continue
        try:
            call(x, weights, offs=ends)
            torch.cuda.synchronize()
            return lambda: call(x, weights, offs=ends)
        except Exception:
            traceback.print_exc(limit=1)
    return None


def error_of(run: Run, out: Any, want: Any) -> float:
    """The largest difference, relative to the largest element."""
    out.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    return float((out.float() - want).abs().max() / want.abs().max())


def measure(rows: int, n: int, k: int, options: argparse.Namespace) -> dict[str, Any]:
    sizes = uneven(rows)
    x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(GROUPS, n, k, device="cuda", dtype=torch.bfloat16)
    out, other = (torch.empty(rows, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    given = torch.tensor(sizes, device="cuda", dtype=torch.int32)
    split = zip(torch.split(x, sizes), w, torch.split(other, sizes))
    parts = [part for part in split if len(part[0])]

    def loop() -> None:
        for rows_of, weights, result in parts:
            torch.matmul(rows_of, weights.T, out=result)

    loop()
    chosen = choose_grouped(rows, GROUPS, n, k)
    configs = {"ours": chosen}
    if options.sweep:
        configs |= {" ".join(f"{k}={v}" for k, v in asdict(c).items()): c for c in SWEEP if c != chosen}
    runs: dict[str, Run] = {"cublas loop": loop}
    want = other.float()
    for name, config in configs.items():
        run = lambda config=config: grouped_matmul(x, w, given, out=out, config=config)  # noqa: E731
        try:
            with bounded_waits():
                error = error_of(run, out, want)
            error = max(error, error_of(run, out, want))
            if not error <= 0.01:
                raise AssertionError(f"relative error {error}")
            runs[name] = run
        except Exception:
            print(f"{rows} x {n} x {k}, {name}: LEFT OUT", flush=True)
            traceback.print_exc(limit=2)
    del want
    runs["moe_matmul"] = lambda: moe_matmul(x, w, given, out=out)
    theirs = torch_grouped(x, w, sizes)
    if theirs is not None:
        runs["torch grouped"] = theirs
    times = take_turns(runs, machine.milliseconds, Mode("block", options.block, 0.0, options.rounds))
    result: dict[str, Any] = {"rows": rows, "n": n, "k": k, "sizes": sizes, "config": asdict(chosen)}
    result["tflops"] = {name: 2e-9 * rows * n * k / statistics.median(took) for name, took in times.items()}
    result["ratios"] = {
        name: statistics.median(a / b for a, b in zip(took, times["ours"])) for name, took in times.items() if name != "ours"
    } if "ours" in times else {}
    speeds = "; ".join(f"{name} {speed:.0f}" for name, speed in result["tflops"].items())
    print(f"{rows} rows, {n} x {k}: {speeds}", flush=True)
    return result


def main() -> None:
    parser = machine.arguments(__doc__, 7)
    parser.add_argument("--block", type=float, default=20.0, help="milliseconds that each runs at a time")
    parser.add_argument("--sweep", action="store_true", help="other configurations too")
    options = parser.parse_args()
    rows = [measure(*shape, options) for shape in SHAPES]
    machine.save(options.json, {"groups": GROUPS, "rows": rows})
    print(f"\n{'rows, N, K':>22} {'TFLOP/s':>8} {'to cuBLAS loop':>15} {'to torch grouped':>17} {'to moe_matmul':>14}")
    for row in rows:
        shape = f"{row['rows']}, {row['n']}, {row['k']}"
        found = [row["ratios"].get(name, float("nan")) for name in ("cublas loop", "torch grouped", "moe_matmul")]
        print(f"{shape:>22} {row['tflops'].get('ours', 0):8.0f} {found[0]:15.3f} {found[1]:17.3f} {found[2]:14.3f}")


if __name__ == "__main__":
    main()
