"""Shapes that nobody chose: draws calls of a library function and times them against the fastest of torch's ways.

    python benchmarks/anywhere.py --op matmul --seed 0 --count 60 --modes burst steady

`anywhere_draws.py` says what is drawn. Every call is first compared with torch's result; a wrong one has no time. A ratio is
the time of the fastest of torch's ways over ours, the median over rounds of each; the table gives the geometric mean, the
five worst and the share below 0.95. Calls below `SHORT` ms are timed as CUDA graphs, since a host needs longer for a launch
than they take.

The two numbers of a case are in its row: operations over time, and bytes (each operand read once, the result written once)
over time; an H200 gives about 800 TFLOP/s in bf16 at the boost clock and 4.3 TB/s.
"""

from __future__ import annotations

import argparse
import statistics
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import machine
import torch
from anywhere_compile import compile_all
from anywhere_draws import DRAWS, Case, drawn, seed_of

import phalanx as px
from phalanx.runtime.device.timing import MODES, geometric_mean, take_turns
from phalanx.tools.bench.device import TorchDevice

Run = Callable[[], Any]
SHORT = 0.1
GRAPHED = 20
BEHIND = 0.95
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn}


@dataclass
class Contest:
    """Our call, torch's ways to do the same, the two numbers, and how far results may be apart."""

    ours: Run
    theirs: dict[str, Run]
    flops: float
    nbytes: float
    tolerance: float = 0.02


def normal(*shape: int, dtype: str = "bf16") -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(TYPES[dtype])


def matmul_contest(case: Case) -> Contest:
    batch, m, n, k = case.size("batch", "m", "n", "k")
    form = case.traits.get("form", "a @ b")
    lead = (batch,) if batch > 1 else ()
    a = normal(*lead, k, m, dtype=case.dtype).mT if form.startswith("a.T") else normal(*lead, m, k, dtype=case.dtype)
    b = normal(*lead, n, k, dtype=case.dtype).mT if form.endswith("b.T") else normal(*lead, k, n, dtype=case.dtype)
    out, other = (torch.empty(*lead, m, n, device="cuda", dtype=a.dtype) for _ in range(2))
    flops, nbytes = 2.0 * batch * m * n * k, 2.0 * batch * (m * n + m * k + n * k)
    if case.traits.get("bias"):
        bias = normal(n, dtype=case.dtype)
        way = {"addmm": lambda: torch.addmm(bias, a, b, out=other)}
        return Contest(lambda: px.kernels.matmul(a, b, bias, out=out), way, flops, nbytes)
    return Contest(
        lambda: px.kernels.matmul(a, b, out=out), {"matmul": lambda: torch.matmul(a, b, out=other)}, flops, nbytes,
    )


def few_rows_contest(case: Case) -> Contest:
    m, n, k = case.size("m", "n", "k")
    x, w = normal(m, k), normal(n, k)
    out, other = (torch.empty(m, n, device="cuda", dtype=x.dtype) for _ in range(2))
    return Contest(
        lambda: px.kernels.matmul(x, w.T, out=out), {"matmul": lambda: torch.matmul(x, w.T, out=other)},
        2.0 * m * n * k, 2.0 * (m * n + m * k + n * k),
    )


def fp8_contest(case: Case) -> Contest:
    m, n, k = case.size("m", "n", "k")
    x, w = normal(m, k, dtype="f8e4m3"), normal(n, k, dtype="f8e4m3")
    one, other = torch.ones((), device="cuda"), torch.ones((), device="cuda")
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return Contest(
        lambda: px.kernels.matmul(x, w.T, scale_a=one, scale_b=other, out=out),
        {"_scaled_mm": lambda: torch._scaled_mm(x, w.T, one, other, out_dtype=torch.bfloat16, use_fast_accum=True)},
        2.0 * m * n * k, m * k + n * k + 2.0 * m * n,
    )


def grouped_contest(case: Case) -> Contest:
    groups, rows, n, k, seed = case.size("groups", "rows", "n", "k", "seed")
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(groups, generator=generator) ** 2
    sizes = (share / share.sum() * rows).floor().int()
    sizes[0] += rows - int(sizes.sum())
    x, w = normal(rows, k), normal(groups, n, k)
    out = torch.empty(rows, n, device="cuda", dtype=x.dtype)
    given, ends = sizes.cuda(), sizes.cuda().cumsum(0).to(torch.int32)
    call = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    return Contest(
        lambda: px.kernels.grouped_matmul(x, w, given, out=out), {"grouped_mm": lambda: call(x, w.mT, offs=ends)},
        2.0 * rows * n * k, 2.0 * (rows * k + groups * n * k + rows * n),
    )


def rows_contest(case: Case) -> Contest:
    """Against the device copy of the matrix, whose bandwidth is what there is; cross_entropy reads only."""
    rows, columns = case.size("rows", "columns")
    x = normal(rows, columns, dtype=case.dtype)
    copy = torch.empty_like(x)
    weight, bias = normal(columns, dtype=case.dtype), normal(columns, dtype=case.dtype)
    library = px.kernels
    if case.op == "cross_entropy":
        target = torch.randint(0, columns, (rows,), device="cuda")
        half = slice(0, max(1, rows // 2))  # as many bytes as a read of all: a copy reads and writes
        way = {"copy of half": lambda: copy[half].copy_(x[half])}
        return Contest(lambda: library.cross_entropy(x, target), way, 0.0, float(x.nbytes))
    calls: dict[str, Run] = {
        "softmax": lambda: library.softmax(x),
        "log_softmax": lambda: library.log_softmax(x),
        "rms_norm": lambda: library.rms_norm(x, weight),
        "layer_norm": lambda: library.layer_norm(x, weight, bias),
    }
    return Contest(calls[case.op], {"copy": lambda: copy.copy_(x)}, 0.0, 2.0 * x.nbytes)


def indexed_contest(case: Case) -> Contest:
    rows, moved, columns, seed = case.size("rows", "moved", "columns", "seed")
    generator = torch.Generator(device="cuda").manual_seed(seed)
    x, part = normal(rows, columns), normal(moved, columns)
    library = px.kernels
    nbytes = 2.0 * part.nbytes
    if case.op in ("gather_rows", "embedding"):
        index = torch.randint(0, rows, (moved,), device="cuda", generator=generator)
        call = (lambda: library.gather_rows(x, index)) if case.op == "gather_rows" else (lambda: library.embedding(x, index))
        return Contest(call, {"index_select": lambda: torch.index_select(x, 0, index)}, 0.0, nbytes)
    if case.op == "scatter_rows":
        index = torch.randperm(rows, device="cuda", generator=generator)[:moved]
        way = {"index_copy_": lambda: x.index_copy_(0, index, part)}
        return Contest(lambda: library.scatter_rows(part, index, x), way, 0.0, nbytes)
    index = torch.randint(0, rows, (moved,), device="cuda", generator=generator)
    sums, others = torch.zeros_like(x), torch.zeros_like(x)
    return Contest(
        lambda: library.scatter_add_rows(part, index, sums), {"index_add_": lambda: others.index_add_(0, index, part)},
        0.0, nbytes * 1.5,
    )


CONTESTS: dict[str, Callable[[Case], Contest]] = {
    "matmul": matmul_contest, "batched": matmul_contest, "few_rows": few_rows_contest, "fp8": fp8_contest,
    "grouped": grouped_contest,
    **{op: rows_contest for op in ("softmax", "log_softmax", "rms_norm", "layer_norm", "cross_entropy")},
    **{op: indexed_contest for op in ("gather_rows", "embedding", "scatter_rows", "scatter_add_rows")},
}  # fmt: skip


def distance(contest: Contest) -> float:
    """How far our first result is from torch's, relative to its largest element; 0 beside a copy, unless it is no number."""
    name, theirs = next(iter(contest.theirs.items()))
    mine = contest.ours()
    if name.startswith("copy"):
        torch.cuda.synchronize()
        return 0.0 if bool(torch.isfinite(mine.float()).all()) else float("inf")
    want = theirs()
    torch.cuda.synchronize()
    step = 1 << 26
    mine, want = mine.reshape(-1), want.reshape(-1)
    largest = max(float(want[i : i + step].float().abs().max()) for i in range(0, want.numel(), step))
    starts = range(0, want.numel(), step)
    parts = (float((mine[i : i + step].float() - want[i : i + step].float()).abs().max()) for i in starts)
    return max(parts) / max(largest, 1e-30)


def measure(case: Case, modes: list[str], rounds: int | None, rest: float | None) -> list[dict[str, Any]]:
    """A row for each mode, or one that says what went wrong."""
    contest = CONTESTS[case.op](case)
    error = distance(contest)
    if not error <= contest.tolerance:
        return [{"case": str(case), "mode": mode, "wrong": error} for mode in modes]
    device = TorchDevice()
    runs: dict[str, Run] = {"ours": contest.ours, **contest.theirs}
    rows = []
    for mode in modes:
        cold, per, timed = MODES[mode].flushes, 1, runs
        if not cold and device.milliseconds(contest.ours, 5) < SHORT:
            timed, per = {name: machine.graphed(run, GRAPHED) for name, run in runs.items()}, GRAPHED
        clock = device.cold_milliseconds if cold else device.milliseconds
        regime = MODES[mode] if rest is None or not MODES[mode].rest_s else replace(MODES[mode], rest_s=rest)
        times = take_turns(timed, clock, regime, rounds=rounds)
        middle = {name: statistics.median(took) / per for name, took in times.items()}
        fastest = min(contest.theirs, key=lambda name: middle[name])
        ms = middle["ours"]
        rows.append({
            "case": str(case), "sizes": case.sizes, "dtype": case.dtype, "mode": mode, "ms": ms,
            "ratio": middle[fastest] / ms, "against": fastest, "tflops": contest.flops / ms / 1e9,
            "gbs": contest.nbytes / ms / 1e6, "error": error,
        })
    return rows


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """For each mode: the geometric mean, the worst five, the share below 0.95, and what went wrong."""
    lines = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        mine = sorted((row for row in rows if row["mode"] == mode and "ratio" in row), key=lambda row: row["ratio"])
        if mine:
            ratios = [row["ratio"] for row in mine]
            behind = sum(ratio < BEHIND for ratio in ratios) / len(ratios)
            lines.append(
                f"{mode}: {len(mine)} cases, geometric mean {geometric_mean(ratios):.3f}, worst {ratios[0]:.3f}, "
                f"{behind:.0%} below {BEHIND}"
            )
            lines += [f"    {row['ratio']:.3f}  {row['case']}  ({1e3 * row['ms']:.1f} us)" for row in mine[:5]]
        lines += [f"    WRONG  {row['case']}: {row['wrong']}" for row in rows if row["mode"] == mode and "wrong" in row]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", nargs="+", default=["matmul"], choices=list(DRAWS))
    parser.add_argument("--seed", nargs="+", default=["0"], help="numbers, or hexadecimal digits of a commit")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--modes", nargs="+", default=["burst", "steady"], choices=list(MODES))
    parser.add_argument("--rounds", type=int, help="of every mode; its own number by default")
    parser.add_argument("--rest", type=float, help="seconds before a block, where the mode rests")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # copies of operands that lie badly are part of the time
    compile_all(given.op, given.seed, given.count)
    rows: list[dict[str, Any]] = []
    for op in given.op:
        mine: list[dict[str, Any]] = []
        for seed in given.seed:
            for number, case in enumerate(drawn(op, seed_of(seed), given.count)):
                try:
                    found = measure(case, given.modes, given.rounds, given.rest)
                except Exception as problem:
                    traceback.print_exc(limit=2)
                    found = [{"case": str(case), "mode": mode, "wrong": repr(problem)[:200]} for mode in given.modes]
                torch.cuda.empty_cache()
                mine += [{"op": op, "seed": seed, "number": number, **row} for row in found]
                shown = ", ".join(f"{row['mode']} {row.get('ratio', float('nan')):.3f}" for row in found)
                print(f"{op} {seed}/{number}: {case}: {shown}", flush=True)
                machine.save(given.json, {"rows": [*rows, *mine]})
        rows += mine
    for op in given.op:
        print(f"\n{op}, seeds {', '.join(given.seed)}")
        print("\n".join(summary([row for row in rows if row["op"] == op])))


if __name__ == "__main__":
    main()
