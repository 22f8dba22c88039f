"""Row-wise kernels against torch and torch.compile, on a GPU, in one process, taking turns.

The two numbers: softmax and the norms read and write every element once, so their floor is the device copy's time for
the same matrix, measured beside them; the arithmetic (two exponentials per element of a softmax) takes 0.6 of
that time. Cross entropy reads every element once and writes nothing of that size.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import torch

import phalanx as px
from benchmarks.common import machine
from benchmarks.common.machine import Run, alternate

KINDS = ("softmax", "rms_norm", "layer_norm", "cross_entropy")
TARGETS = ("softmax", "rms_norm")
SIZES = ((32768, 4096), (16384, 16384), (8192, 65536), (4096, 131072), (2048, 262144))
TITLES = (("ours GB/s", 9), ("copy", 8), ("share", 6), ("torch", 8), ("compile", 8), ("ratio", 6), ("error", 6))
EPS = 1e-6


class Work:
    """One kernel on one matrix: ours, torch's, and how many bytes it must move."""

    def __init__(self, kind: str, rows: int, columns: int, dtype: torch.dtype) -> None:
        torch.manual_seed(1)
        self.kind, self.rows, self.columns = kind, rows, columns
        self.x = torch.randn(rows, columns, device="cuda", dtype=dtype)
        self.w = torch.randn(columns, device="cuda", dtype=dtype)
        self.b = torch.randn(columns, device="cuda", dtype=dtype)
        self.targets = torch.randint(0, columns, (rows,), device="cuda")
        self.bytes = self.x.nbytes * (1 if kind == "cross_entropy" else 2)

    def ours(self) -> Any:
        kernels = px.kernels
        if self.kind == "softmax":
            return kernels.softmax(self.x)
        if self.kind == "rms_norm":
            return kernels.rms_norm(self.x, self.w, EPS)
        if self.kind == "layer_norm":
            return kernels.layer_norm(self.x, self.w, self.b, EPS)
        return kernels.cross_entropy(self.x, self.targets, reduction="none")

    def function(self) -> Callable[..., Any]:
        """Torch's, of tensors alone, so that it can be compiled."""
        shape = (self.columns,)
        functional = torch.nn.functional
        if self.kind == "softmax":
            return lambda x, w, b, t: torch.softmax(x, -1)
        if self.kind == "rms_norm":
            return lambda x, w, b, t: functional.rms_norm(x, shape, w, EPS)
        if self.kind == "layer_norm":
            return lambda x, w, b, t: functional.layer_norm(x, shape, w, b, EPS)
        return lambda x, w, b, t: functional.cross_entropy(x, t, reduction="none")

    def torch(self, compiled: bool) -> Run:
        function = self.function()
        if compiled:
            torch._dynamo.reset()
            function = torch.compile(function, dynamic=False)
        return lambda: function(self.x, self.w, self.b, self.targets)

    def error(self) -> float:
        """The largest error of a sample of rows against f64, in units of the element type's rounding."""
        step = max(1, self.rows // 16)
        mine = self.ours()[::step].double()
        x = self.x[::step].double()
        want = self.function()(x, self.w.double(), self.b.double(), self.targets[::step])
        unit = torch.finfo(torch.float32 if self.kind == "cross_entropy" else self.x.dtype).eps
        if not torch.isfinite(mine).all():
            return math.inf
        return float(((mine - want).abs() / (want.abs() + want.abs().mean())).max() / unit)


def measure(work: Work, options: argparse.Namespace, budget_ms: float) -> dict[str, Any]:
    y = torch.empty_like(work.x)
    runs: dict[str, Run] = {"copy": lambda: y.copy_(work.x), "ours": work.ours, "torch": work.torch(False)}
    if not options.no_compile:
        runs["compile"] = work.torch(True)
    error = work.error()
    times = alternate(runs, options.rounds, budget_ms)
    peers = {name: times[name] for name in ("torch", "compile") if name in times}
    row: dict[str, Any] = {
        "kernel": work.kind, "shape": [work.rows, work.columns], "error": error,
        **{f"{name}_gbs": work.bytes / ms / 1e6 for name, ms in times.items() if name != "copy"},
        "copy_gbs": 2 * work.x.nbytes / times["copy"] / 1e6,
        "ratio": min(peers.values()) / times["ours"],
    }
    row["share"] = row["ours_gbs"] / row["copy_gbs"]
    return row


def report(row: dict[str, Any]) -> None:
    peers = " ".join(f"{row.get(f'{name}_gbs', math.nan):8.0f}" for name in ("torch", "compile"))
    print(
        f"{row['kernel']:14}{row['shape'][0]:>6} x {row['shape'][1]:<7}{row['ours_gbs']:8.0f} {row['copy_gbs']:8.0f} "
        f"{row['share']:6.3f} {peers} {row['ratio']:6.2f} {row['error']:6.2f}", flush=True,
    )


def main() -> None:
    parser = machine.arguments(__doc__, 0)
    parser.add_argument("--quick", action="store_true", help="softmax and rms_norm alone, short turns: under 90 s")
    parser.add_argument("--kernels", nargs="*", default=None, help=f"of {', '.join(KINDS)}")
    parser.add_argument("--columns", nargs="*", type=int, help="of the sizes, these alone")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    options.rounds = options.rounds or (5 if options.quick else 9)
    kinds = options.kernels or (TARGETS if options.quick else KINDS)
    start = time.perf_counter()
    titles = " ".join(f"{name:>{n}}" for name, n in TITLES)
    print(f"{'kernel':14}{'shape':>16}{titles}")
    rows = []
    for kind in kinds:
        mine = []
        for count, columns in SIZES:
            if options.columns and columns not in options.columns:
                continue
            work = Work(kind, count, columns, getattr(torch, options.dtype))
            mine.append(measure(work, options, 6.0 if options.quick else 20.0))
            report(mine[-1])
            del work
            torch.cuda.empty_cache()
        mean = math.exp(sum(math.log(row["share"]) for row in mine) / len(mine))
        lowest = min(row["share"] for row in mine)
        print(f"{kind:14}share of the copy: lowest {lowest:.3f}, geometric mean {mean:.3f}", flush=True)
        rows += mine
    print(f"{time.perf_counter() - start:.0f} s in all")
    machine.save(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
