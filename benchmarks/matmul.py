"""The library's matmul against cuBLAS (through torch), alternating in one process: what it is called with in practice.

Sections: `shapes` (the six large ones, C = A @ B.T), `forms` (the four ways to lie in memory), `epilogues` (bias with relu
or gelu, against torch's fused product where it has one, else two kernels), `batches`, `others` (small and odd sizes),
`fp8` (against `torch._scaled_mm(use_fast_accum=True)`, both with their errors against the f32 product). Blocks of 10 ms
back to back, so that both share a warm, power-limited card; a ratio is torch's time over ours in the same round, the
table shows medians. 2 M N K operations against about 800 TFLOP/s (bf16) or 1,500 (fp8) that an H200 sustains.

`--sweep` instead measures configurations of one type, best first; `--sweep bf16 --at 2048,2048,2048`.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder last: its copy.py must not hide Python's

import argparse
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import torch
from gemm import SHAPES, geometric_mean, measure

from phalanx.kernels.matmul import CopyWarning, matmul
from phalanx.kernels.matmul_config import MatmulConfig, Problem, choose, complete

BLOCK_MS = 10.0
BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn


def randoms(*shape: int, dtype: Any = BF16) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def errors(got: Any, want: Any) -> tuple[float, float]:
    """The largest error relative to the largest element, and the root mean square relative to the root mean square."""
    difference = (got.float() - want).abs()
    return float(difference.max() / want.abs().max()), float(difference.square().mean().sqrt() / want.square().mean().sqrt())


def product(a: Any, b: Any) -> Any:
    return a.float() @ b.float()


class Row:
    """One line of a table: a name, the operations, what torch does, what we do, and the right result."""

    def __init__(self, name: str, flops: float, theirs: Callable[[], Any], ours: Callable[[], Any], want: Any) -> None:
        self.name, self.flops, self.theirs, self.ours, self.want = name, flops, theirs, ours, want


def shapes() -> Iterator[Row]:
    for m, n, k in SHAPES:
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
    "shapes": shapes, "forms": forms, "epilogues": epilogues, "batches": batches, "others": others, "fp8": fp8,
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
            times = measure({"torch": row.theirs, "phalanx": row.ours}, BLOCK_MS, 0.0, rounds)
            ratios = [theirs / ours for theirs, ours in zip(times["torch"], times["phalanx"])]
            entry |= {"ms": times, "ratio": statistics.median(ratios)}
            entry["tflops"] = {who: row.flops / statistics.median(took) / 1e9 for who, took in times.items()}
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


# Configurations.


def variations(problem: Problem) -> Iterator[MatmulConfig]:
    """What the heuristic would choose, and what else might be better: tiles, clusters, stages, groups, parts."""
    seen = set()
    chosen = choose(problem)
    base = complete(problem, 128, 256, 2, (2, 1))
    wide = [
        complete(problem, bm, bn, groups, cluster)
        for bm, bn, groups in ((128, 256, 2), (256, 128, 2), (128, 192, 2), (128, 128, 2))
        for cluster in ((2, 1), (1, 2), (1, 1), (2, 2), (4, 1), (1, 4))
    ]
    tuned = [
        MatmulConfig(**{**vars(base), **change})
        for change in (
            {"stages": 3}, {"group": 2}, {"group": 4}, {"group": 16}, {"group": 32}, {"parts": 4}, {"parts": 8},
            {"stages": 3, "parts": 1},
        )
    ]
    for config in (chosen, base, *tuned, *wide):
        if config not in seen:
            seen.add(config)
            yield config


class Sweep:
    """Random operands of one shape and type, and what torch does with them."""

    def __init__(self, dtype: str, m: int, n: int, k: int) -> None:
        self.shape, self.dtype, self.options = (m, n, k), dtype, {}
        if dtype == "fp8":
            (self.a, scale_a), (self.b, scale_b) = quantised(m, k), quantised(n, k)
            self.options = {"scale_a": scale_a, "scale_b": scale_b}
            self.want = scaled_product(self.a, self.b.T, **self.options)
        else:
            self.a, self.b = randoms(m, k), randoms(n, k)
            self.want = product(self.a, self.b.T)

    def torch(self) -> Any:
        if self.dtype == "fp8":
            return torch._scaled_mm(self.a, self.b.T, out_dtype=BF16, use_fast_accum=True, **self.options)
        return torch.matmul(self.a, self.b.T)

    def measure(self, config: MatmulConfig) -> dict[str, Any]:
        entry: dict[str, Any] = {"shape": list(self.shape), "dtype": self.dtype, "config": vars(config)}
        try:
            ours = lambda: matmul(self.a, self.b.T, config=config, **self.options)  # noqa: E731
            worst, _ = errors(ours(), self.want)
            assert worst <= 0.01, f"error {worst}"
            times = measure({"torch": self.torch, "phalanx": ours}, BLOCK_MS, 0.0, 5)
            entry["ratio"] = statistics.median(theirs / mine for theirs, mine in zip(times["torch"], times["phalanx"]))
            m, n, k = self.shape
            entry["tflops"] = 2 * m * n * k / statistics.median(times["phalanx"]) / 1e9
        except Exception as problem:
            entry["problem"] = f"{type(problem).__name__}: {problem}".splitlines()[0]
        return entry


def sweep(dtype: str, shapes: list[tuple[int, int, int]], seconds: float) -> list[dict[str, Any]]:
    """Each configuration against torch, in the same rounds; the first shape decides which are tried."""
    began = time.perf_counter()
    cases = [Sweep(dtype, *shape) for shape in shapes]
    rows = []
    for config in variations(Problem(*shapes[0], itemsize=cases[0].a.element_size())):
        if time.perf_counter() - began > seconds:
            print("the rest is left out: no time")
            break
        rows += [case.measure(config) for case in cases]
    rows.sort(key=lambda row: (row["shape"], -row.get("ratio", 0)))
    for shape in shapes:
        print(f"\n{dtype} {' x '.join(map(str, shape))}: ratio to torch, TFLOP/s")
        for row in (row for row in rows if row["shape"] == list(shape)):
            c = row["config"]
            tile = f"{c['bm']} x {c['bn']}, stages {c['stages']}, cluster {c['cluster']}"
            outcome = f"{row['ratio']:6.3f} {row['tflops']:6.0f}" if "ratio" in row else row["problem"][:90]
            rest = f"group {c['group']}, parts {c['parts']}"
            print(f"{tile:42} {rest:18} {outcome}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="*", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sweep", nargs="?", const="fp8", choices=["fp8", "bf16"])
    parser.add_argument("--at", nargs="*", default=["4096,4096,4096", "8192,8192,8192"], help="M,N,K of the sweep")
    parser.add_argument("--seconds", type=float, default=80.0, help="for the whole sweep")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    warnings.simplefilter("ignore", CopyWarning)
    rows: list[dict[str, Any]] = []
    if options.sweep:
        rows = sweep(options.sweep, [tuple(map(int, at.split(","))) for at in options.at], options.seconds)
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
