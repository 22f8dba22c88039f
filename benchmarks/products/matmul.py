"""The library's matmul against cuBLAS (through torch), alternating in one process: what it is called with in practice.

Sections: `shapes` (the six large ones, C = A @ B.T), `forms` (the four ways to lie in memory), `epilogues` (bias with relu
or gelu, against torch's fused product where it has one, else two kernels), `batches`, `others` (small and odd sizes),
`fp8` (against `torch._scaled_mm(use_fast_accum=True)`, both with their errors against the f32 product). Blocks of 10 ms
back to back, so that both share a warm, power-limited card; a ratio is torch's time over ours in the same round, the
table shows medians. 2 M N K operations against about 800 TFLOP/s (bf16) or 1,500 (fp8) that an H200 sustains.

A call of a small product takes the host longer than the kernel takes the GPU. So products below `SMALL` operations are
measured twice: by calls, and by replays of a CUDA graph of `GRAPHED` calls, which shows the kernels alone; `host` is what
a call costs in Python. The section `few_rows` has products that split K where `matmul_config.split_side` says so, and the
best tiles beside them.

`--sweep` instead measures configurations of one type, best first, by graphs, all compiled side by side before:
`--sweep bf16 --at 2048,2048,2048 1000,5000,2048 1024,1024,1024 512,512,512`; `64:512,512,512` is a batch.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

import phalanx as px
from benchmarks.common import machine
from benchmarks.common.device import TorchDevice
from benchmarks.products.shapes import LARGE
from phalanx.kernels.products.matmul import CopyWarning, matmul
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, candidates, choose, microseconds, split_side
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.runtime.device.timing import Mode, geometric_mean, take_turns

BLOCK_MS = 10.0
GRAPHED = 20
SMALL = 6e10
BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn


def measure(contenders: dict[str, Callable[[], Any]], block_ms: float, rounds: int) -> dict[str, list[float]]:
    """Milliseconds per contender and round, in blocks of so many."""
    return take_turns(contenders, TorchDevice().milliseconds, Mode("block", block_ms, 0.0, rounds))


def randoms(*shape: int, dtype: Any = BF16) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def errors(got: Any, want: Any) -> tuple[float, float]:
    """The largest error relative to the largest element, and the root mean square relative to the root mean square."""
    difference = (got.float() - want).abs()
    return float(difference.max() / want.abs().max()), float(difference.square().mean().sqrt() / want.square().mean().sqrt())


def product(a: Any, b: Any) -> Any:
    return a.float() @ b.float()


class Row:
    """One line of a table: a name, the operations, what torch does, what we do, the right result, and other ways of ours."""

    def __init__(
        self, name: str, flops: float, theirs: Callable[[], Any], ours: Callable[[], Any], want: Any,
        others: dict[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.name, self.flops, self.theirs, self.ours, self.want = name, flops, theirs, ours, want
        self.others = others or {}


def kernel_times(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of one launch without the host, the runs taking turns."""
    times = measure({name: machine.graphed(run, GRAPHED) for name, run in runs.items()}, BLOCK_MS / 2, rounds)
    return {name: [took / GRAPHED for took in found] for name, found in times.items()}


def host_microseconds(run: Callable[[], Any], calls: int = 200) -> float:
    """What a call costs the host; the GPU's queue takes them all."""
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            run()
        best = min(best, time.perf_counter() - began)
    torch.cuda.synchronize()
    return 1e6 * best / calls


def shapes() -> Iterator[Row]:
    for m, n, k in (shape.sizes for shape in LARGE):
        a, b, c = randoms(m, k), randoms(n, k).T, torch.empty(m, n, device="cuda", dtype=BF16)
        yield Row(
            f"{m} x {n} x {k}", 2 * m * n * k, lambda a=a, b=b, c=c: torch.matmul(a, b, out=c),
            lambda a=a, b=b, c=c: matmul(a, b, out=c), product(a, b),
        )


def forms() -> Iterator[Row]:
    for size in (4096, 8192):
        for name in ("a @ b.T", "a @ b", "a.T @ b", "a.T @ b.T"):
            a, b = randoms(size, size), randoms(size, size)
            a, b = a.T if "a.T" in name else a, b.T if "b.T" in name else b
            c = torch.empty(size, size, device="cuda", dtype=BF16)
            yield Row(
                f"{name}, {size}", 2 * size**3, lambda a=a, b=b, c=c: torch.matmul(a, b, out=c),
                lambda a=a, b=b, c=c: matmul(a, b, out=c), product(a, b),
            )


def epilogues() -> Iterator[Row]:
    functional = torch.nn.functional
    for m, n, k in ((8192, 8192, 2048), (4096, 14336, 4096)):
        x, w, bias = randoms(m, k), randoms(n, k) * k**-0.5, randoms(n)
        plain = product(x, w.T) + bias.float()
        what = f"{m} x {n} x {k}"
        flops = 2 * m * n * k
        yield Row(
            f"bias, {what}", flops, lambda x=x, w=w, bias=bias: functional.linear(x, w, bias),
            lambda x=x, w=w, bias=bias: matmul(x, w.T, bias), plain,
        )
        yield Row(
            f"bias, relu, {what}", flops,
            lambda x=x, w=w, bias=bias: torch._addmm_activation(bias, x, w.T, use_gelu=False),
            lambda x=x, w=w, bias=bias: matmul(x, w.T, bias, "relu"), torch.relu(plain),
        )
        yield Row(
            f"bias, gelu_tanh, {what}", flops,
            lambda x=x, w=w, bias=bias: torch._addmm_activation(bias, x, w.T, use_gelu=True),
            lambda x=x, w=w, bias=bias: matmul(x, w.T, bias, "gelu_tanh"), functional.gelu(plain, approximate="tanh"),
        )
        yield Row(
            f"bias, gelu, {what}", flops, lambda x=x, w=w, bias=bias: functional.gelu(functional.linear(x, w, bias)),
            lambda x=x, w=w, bias=bias: matmul(x, w.T, bias, "gelu"), functional.gelu(plain),
        )
        yield Row(
            f"silu, {what}", flops, lambda x=x, w=w: functional.silu(functional.linear(x, w)),
            lambda x=x, w=w: matmul(x, w.T, activation="silu"), functional.silu(plain - bias.float()),
        )
        residual = randoms(m, n)
        yield Row(
            f"residual, {what}", flops, lambda x=x, w=w, residual=residual: torch.addmm(residual, x, w.T),
            lambda x=x, w=w, residual=residual: matmul(x, w.T, residual), plain - bias.float() + residual.float(),
        )


def batches() -> Iterator[Row]:
    for count, m, n, k in ((8, 2048, 2048, 2048), (32, 1024, 1024, 1024), (64, 512, 512, 512), (128, 256, 256, 1024)):
        a, b = randoms(count, m, k), randoms(count, k, n)
        c = torch.empty(count, m, n, device="cuda", dtype=BF16)
        yield Row(
            f"{count} of {m} x {n} x {k}", 2 * count * m * n * k, lambda a=a, b=b, c=c: torch.bmm(a, b, out=c),
            lambda a=a, b=b, c=c: matmul(a, b, out=c), product(a, b),
        )


def others() -> Iterator[Row]:
    for m, n, k in (
        (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (3000, 3000, 3000), (1000, 5000, 2048), (4096, 4096, 128),
        (4097, 4097, 4097), (16384, 128, 4096),
    ):  # fmt: skip
        a, b = randoms(m, k), randoms(n, k).T
        c = torch.empty(m, n, device="cuda", dtype=BF16)
        yield Row(
            f"{m} x {n} x {k}", 2 * m * n * k, lambda a=a, b=b, c=c: torch.matmul(a, b, out=c),
            lambda a=a, b=b, c=c: matmul(a, b, out=c), product(a, b),
        )


def few_rows() -> Iterator[Row]:
    for m, n, k in (
        (1, 4096, 4096), (16, 8192, 8192), (64, 8192, 8192), (128, 4096, 14336), (256, 4096, 4096), (512, 4096, 4096),
        (4096, 64, 14336),
    ):  # fmt: skip
        a, b = randoms(m, k), randoms(n, k).T
        c = torch.empty(m, n, device="cuda", dtype=BF16)
        side = split_side(Problem(m, n, k))
        tiles = choose(Problem(m, n, k))
        yield Row(
            f"{m} x {n} x {k} ({'split ' + side if side else 'tiles'})", 2 * m * n * k,
            lambda a=a, b=b, c=c: torch.matmul(a, b, out=c), lambda a=a, b=b, c=c: matmul(a, b, out=c), product(a, b),
            {"tiles": lambda a=a, b=b, c=c, tiles=tiles: matmul(a, b, out=c, config=tiles)} if side else None,
        )


def quantised(*shape: int) -> tuple[Any, Any]:
    """Normal numbers as e4m3 that fill its range, and the scale that brings them back."""
    x = randoms(*shape, dtype=torch.float32)
    scale = x.abs().max() / 448.0
    return (x / scale).to(E4M3), scale.reshape(1)


def scaled_product(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
    return product(a, b) * scale_a * scale_b


def fp8() -> Iterator[Row]:
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 2048)):
        (a, scale_a), (b, scale_b) = quantised(m, k), quantised(n, k)
        options = {"scale_a": scale_a, "scale_b": scale_b}
        yield Row(
            f"per tensor, {m} x {n} x {k}", 2 * m * n * k,
            lambda a=a, b=b, o=options: torch._scaled_mm(a, b.T, out_dtype=BF16, use_fast_accum=True, **o),
            lambda a=a, b=b, o=options: matmul(a, b.T, **o), scaled_product(a, b.T, **options),
        )
        if m != n or k != m:
            continue
        vectors = {"scale_a": scale_a.expand(m, 1).contiguous(), "scale_b": scale_b.expand(1, n).contiguous()}
        yield Row(
            f"per row, {m} x {n} x {k}", 2 * m * n * k,
            lambda a=a, b=b, o=vectors: torch._scaled_mm(a, b.T, out_dtype=BF16, use_fast_accum=True, **o),
            lambda a=a, b=b, o=vectors: matmul(a, b.T, **o), scaled_product(a, b.T, **options),
        )


SECTIONS: dict[str, Callable[[], Iterator[Row]]] = {
    "shapes": shapes, "forms": forms, "epilogues": epilogues, "batches": batches, "others": others, "few_rows": few_rows,
    "fp8": fp8,
}  # fmt: skip


def run_section(name: str, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for row in SECTIONS[name]():
        entry: dict[str, Any] = {"section": name, "name": row.name}
        try:
            entry["errors"] = {"torch": errors(row.theirs(), row.want), "phalanx": errors(row.ours(), row.want)}
            row.want = None
            if not entry["errors"]["phalanx"][0] <= max(0.01, 2 * entry["errors"]["torch"][0]):
                raise AssertionError(f"errors {entry['errors']}")
            times = measure({"torch": row.theirs, "phalanx": row.ours}, BLOCK_MS, rounds)
            ratios = [theirs / ours for theirs, ours in zip(times["torch"], times["phalanx"])]
            entry |= {"ms": times, "ratio": statistics.median(ratios)}
            entry["tflops"] = {who: row.flops / statistics.median(took) / 1e9 for who, took in times.items()}
            if row.flops < SMALL:
                runs = {"torch": row.theirs, "phalanx": row.ours, **row.others}
                alone = kernel_times(runs, rounds)
                entry["kernel_us"] = {who: 1e3 * statistics.median(took) for who, took in alone.items()}
                ratios = [theirs / ours for theirs, ours in zip(alone["torch"], alone["phalanx"])]
                entry["kernel_ratio"] = statistics.median(ratios)
                entry["host_us"] = {"torch": host_microseconds(row.theirs), "phalanx": host_microseconds(row.ours)}
        except Exception as problem:
            entry["problem"] = f"{type(problem).__name__}: {problem}".splitlines()[0]
            traceback.print_exc(limit=2)
        rows.append(entry)
    return rows


def report(rows: list[dict[str, Any]]) -> None:
    for section in dict.fromkeys(row["section"] for row in rows):
        print(f"\n{section:34} {'torch':>7} {'phalanx':>8} TFLOP/s {'ratio':>6}   largest and rms error, torch | phalanx")
        mine = [row for row in rows if row["section"] == section]
        for row in mine:
            if "problem" in row:
                print(f"{row['name']:34} LEFT OUT: {row['problem'][:120]}")
                continue
            speed, wrong = row["tflops"], row["errors"]
            shown = " | ".join(f"{wrong[who][0]:.1e} {wrong[who][1]:.1e}" for who in ("torch", "phalanx"))
            print(f"{row['name']:34} {speed['torch']:7.0f} {speed['phalanx']:8.0f} {row['ratio']:14.3f}   {shown}")
        print(f"{'geometric mean':34} {geometric_mean([row['ratio'] for row in mine if 'ratio' in row]):31.3f}")
        alone = [row for row in mine if "kernel_us" in row]
        if alone:
            print(f"{section}, small ones: microseconds of the kernel alone (graph), ratio; of the host for a call")
        for row in alone:
            kernels = ", ".join(f"{who} {took:.1f}" for who, took in row["kernel_us"].items())
            host = ", ".join(f"{who} {took:.1f}" for who, took in row["host_us"].items())
            print(f"{row['name']:34} {kernels}: {row['kernel_ratio']:.3f}   host {host}")


# Configurations.


Shape = tuple[int, int, int, int]
"""Matrices of a batch, M, N, K."""


def read_shape(text: str) -> Shape:
    """`M,N,K`, or `B:M,N,K`."""
    batch, _, sizes = text.rpartition(":")
    m, n, k = map(int, sizes.split(","))
    return int(batch or 1), m, n, k


def problem_of(dtype: str, shape: Shape) -> Problem:
    batch, m, n, k = shape
    return Problem(m, n, k, batch, itemsize=1 if dtype == "fp8" else 2)


def variations(problem: Problem) -> list[MatmulConfig]:
    """What the heuristic knows, best first by its model, then what else might be better: stages, groups, parts."""
    on = px.device()
    known = sorted(candidates(problem), key=lambda config: microseconds(problem, config, on))
    base = next(candidates(problem))
    chosen = choose(problem)
    tuned = [
        MatmulConfig(**{**vars(config), **change})
        for config, changes in (
            (chosen, ({"stages": chosen.stages - 1}, {"group": max(1, chosen.group // 2)}, {"group": 2 * chosen.group})),
            (base, ({"stages": 3}, {"group": 2}, {"group": 4}, {"group": 16}, {"parts": 4}, {"stages": 3, "parts": 1})),
        )
        for change in changes
    ]
    return list(dict.fromkeys((chosen, *known[:14], *tuned, *known[14:])))


def compile_one(job: tuple[str, Shape, MatmulConfig]) -> str:
    """Fills the compiler's cache; runs in a process of its own. Gives what went wrong."""
    dtype, (batch, m, n, k), config = job
    lead, kind = (batch,) if batch > 1 else (), px.f8e4m3 if dtype == "fp8" else px.bf16
    one = px.spec((1,), px.f32) if dtype == "fp8" else None
    sums = px.spec((1 << 24,), px.f32) if config.split > 1 else None
    try:
        made = px.compile(
            matmul_tiles[config.cluster], px.spec((*lead, m, k), kind), px.spec((*lead, n, k), kind),
            px.spec((*lead, m, n), px.bf16), None, one, one, None, sums, arch="sm_90a",
            config=config,
        )
        return f"{made.spills} bytes spilled" if made.spills else ""
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem).splitlines()[0]}"


class Sweep:
    """Random operands of one shape and type, and what torch does with them."""

    def __init__(self, dtype: str, shape: Shape) -> None:
        batch, m, n, k = shape
        lead = (batch,) if batch > 1 else ()
        self.shape, self.dtype, self.options = shape, dtype, {}
        self.c = torch.empty(*lead, m, n, device="cuda", dtype=BF16)
        if dtype == "fp8":
            (self.a, scale_a), (self.b, scale_b) = quantised(*lead, m, k), quantised(*lead, n, k)
            self.options = {"scale_a": scale_a, "scale_b": scale_b}
            self.want = scaled_product(self.a, self.b.mT, **self.options)
        else:
            self.a, self.b = randoms(*lead, m, k), randoms(*lead, n, k)
            self.want = product(self.a, self.b.mT)

    def torch(self) -> Any:
        if self.dtype == "fp8":
            return torch._scaled_mm(self.a, self.b.mT, out_dtype=BF16, use_fast_accum=True, **self.options)
        return torch.matmul(self.a, self.b.mT, out=self.c)

    def measure(self, config: MatmulConfig) -> dict[str, Any]:
        problem = problem_of(self.dtype, self.shape)
        entry: dict[str, Any] = {"shape": list(self.shape), "dtype": self.dtype, "config": vars(config)}
        entry["model_us"] = microseconds(problem, config, px.device())
        try:
            ours = lambda: matmul(self.a, self.b.mT, out=self.c, config=config, **self.options)  # noqa: E731
            self.c.fill_(float("nan"))
            worst, _ = errors(ours(), self.want)
            assert worst <= 0.01, f"error {worst}"
            times = kernel_times({"torch": self.torch, "phalanx": ours}, 3)
            entry["ratio"] = statistics.median(theirs / mine for theirs, mine in zip(times["torch"], times["phalanx"]))
            entry["us"] = 1e3 * statistics.median(times["phalanx"])
            batch, m, n, k = self.shape
            entry["tflops"] = 2e-6 * batch * m * n * k / entry["us"]
        except Exception as problem_found:
            entry["problem"] = f"{type(problem_found).__name__}: {problem_found}".splitlines()[0]
        return entry


def sweep(dtype: str, shapes: list[Shape], seconds: float) -> list[dict[str, Any]]:
    """Each shape's configurations against torch, in the same rounds, kernels alone; each shape gets its part of the time."""
    began = time.perf_counter()
    jobs = [(dtype, shape, config) for shape in shapes for config in variations(problem_of(dtype, shape))]
    different = {(config, shape[0] > 1): (dtype, shape, config) for dtype, shape, config in jobs}
    workers = max(1, min(14, (os.cpu_count() or 2) - 1))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        problems = dict(zip(different, pool.map(compile_one, different.values())))
    print(f"{len(different)} configurations compiled in {time.perf_counter() - began:.0f} s", flush=True)
    rows = []
    for number, shape in enumerate(shapes):
        case = Sweep(dtype, shape)
        until = time.perf_counter() + (began + seconds - time.perf_counter()) / (len(shapes) - number)
        for config in variations(problem_of(dtype, shape)):
            if time.perf_counter() > until:
                print(f"{shape}: the rest is left out, no time")
                break
            problem = problems[config, shape[0] > 1]
            if problem:
                print(f"{shape}, {config}: LEFT OUT, {problem}")
            else:
                rows.append(case.measure(config))
        del case
        chosen = vars(choose(problem_of(dtype, shape)))
        mine = sorted((row for row in rows if row["shape"] == list(shape)), key=lambda row: -row.get("ratio", 0))
        batch, m, n, k = shape
        print(f"\n{dtype} {f'{batch} of ' if batch > 1 else ''}{m} x {n} x {k}, kernels alone: ratio to torch, us, TFLOP/s")
        for row in mine:
            c = row["config"]
            tile = f"{c['bm']} x {c['bn']}, stages {c['stages']}, cluster {c['cluster']}"
            rest = f"group {c['group']}, parts {c['parts']}"
            told = row["problem"][:90] if "problem" in row else f"{row['ratio']:6.3f} {row['us']:8.1f} {row['tflops']:6.0f}"
            mark = " <- chosen" if c == chosen else ""
            print(f"{tile:42} {rest:18} {told}  model {row['model_us']:.1f} us{mark}", flush=True)
    return rows


def main() -> None:
    parser = machine.arguments(__doc__, 7)
    parser.add_argument("--sections", nargs="*", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--sweep", nargs="?", const="fp8", choices=["fp8", "bf16"])
    parser.add_argument("--at", nargs="*", default=["4096,4096,4096", "8192,8192,8192"], help="M,N,K, or B:M,N,K")
    parser.add_argument("--seconds", type=float, default=50.0, help="for the whole sweep")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    warnings.simplefilter("ignore", CopyWarning)
    rows: list[dict[str, Any]] = []
    if options.sweep:
        rows = sweep(options.sweep, [read_shape(at) for at in options.at], options.seconds)
        machine.save(options.json, {"rows": rows})
        return
    for section in options.sections:
        began = time.perf_counter()
        rows += run_section(section, options.rounds)
        print(f"{section}: {time.perf_counter() - began:.0f} s", flush=True)
    machine.save(options.json, {"rows": rows})
    report(rows)


if __name__ == "__main__":
    main()
