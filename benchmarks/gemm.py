"""Every rung of the GEMM ladder against cuBLAS (through torch), alternating in one process, bf16, C = A @ B.T.

The two numbers of a shape: 2 M N K operations against a ceiling of about 800 TFLOP/s on an H200 (989 at the boost
clock, less where power limits it), and (M K + N K + M N) x 2 bytes against 4.8 TB/s, which none of these shapes comes
near.

Two regimes: "sustained" runs blocks of 20 ms back to back, so that all contenders share a warm, power-limited card;
"burst" runs blocks of 6 ms after a rest of 0.25 s, at the boost clock. In each round every contender runs once; a
ratio is cuBLAS's time over the contender's in the same round, and the table shows medians over rounds. Results are
compared with an f32 product first, each kernel once with its waits bounded, so that one that hangs is reported and
left out.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder last: its copy.py must not hide Python's

import argparse
import dataclasses
import importlib
import math
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "examples" / "gemm"), str(HERE.parent / "examples")]

import machine  # noqa: E402
import torch  # noqa: E402

from phalanx.runtime.dispatch import BoundLaunch  # noqa: E402

SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 4096, 14336),
    (2048, 2048, 16384),
    (8192, 8192, 2048),
    (16384, 4096, 4096),
)
RUNGS = ("v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7")
BURST_RUNGS = ("v5", "v6", "v7", "reference")
CHECKS = ((512, 1024, 512), (768, 512, 1088), (2304, 2560, 192))
TOLERANCE = 0.01


def operands(m: int, n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16, generator=generator)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16, generator=generator)
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)


def difference(a: Any, b: Any, c: Any) -> float:
    """The largest error, relative to the largest element of the f32 product."""
    want = a.float() @ b.float().T
    error = (c.float() - want).abs().max() / want.abs().max()
    return float(error)


class Rung:
    """A rung of the ladder with constants of its own, as a contender."""

    def __init__(self, text: str) -> None:
        """`v6` or `v6:STAGES=3,GROUP=4`."""
        self.name = text
        rung, _, settings = text.partition(":")
        self.module = importlib.import_module(rung)
        self.constants = {k: int(v) for k, v in (part.split("=") for part in settings.split(",") if part)}

    def bound(self, m: int, n: int, k: int) -> BoundLaunch:
        return self.module.launch(m, n, k, **self.constants)

    def launch(self, a: Any, b: Any, c: Any) -> Callable[[], None]:
        bound = self.bound(a.shape[0], b.shape[0], a.shape[1])
        return lambda: bound(a, b, c, **self.constants)

    def check(self) -> float:
        """The largest error over the shapes of `CHECKS`; first with bounded waits."""
        worst = 0.0
        for m, n, k in CHECKS:
            a, b, c = operands(m, n, k)
            bound = self.bound(m, n, k)
            watched = BoundLaunch(dataclasses.replace(bound.kernel, watchdog=True), bound.grid)
            for launch in (watched, bound, bound):
                c.fill_(float("nan"))
                launch(a, b, c, **self.constants)
                torch.cuda.synchronize()
                error = difference(a, b, c)
                if not error <= TOLERANCE:
                    raise AssertionError(f"relative error {error} for {m} x {n} x {k}")
                worst = max(worst, error)
        return worst


def milliseconds(run: Callable[[], None], repeats: int) -> float:
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / repeats


def measure(
    contenders: dict[str, Callable[[], None]], block_ms: float, rest_s: float, rounds: int
) -> dict[str, list[float]]:
    """Times in ms per contender and round. Each round runs all of them, beginning with another one each time."""
    names = list(contenders)
    repeats = {}
    for name in names:
        contenders[name]()
        torch.cuda.synchronize()
        repeats[name] = max(1, round(block_ms / max(1e-3, milliseconds(contenders[name], 3))))
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for step in range(len(names)):
            name = names[(turn + step) % len(names)]
            if rest_s:
                time.sleep(rest_s)
            times[name].append(milliseconds(contenders[name], repeats[name]))
    return times


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rungs", nargs="*", default=list(RUNGS), help="v6, or v6:STAGES=3,GROUP=4")
    parser.add_argument("--burst-rungs", nargs="*", default=list(BURST_RUNGS))
    parser.add_argument("--reference", type=Path, help="a hand-written kernel to compare with (see reference_gemm.py)")
    parser.add_argument("--shapes", type=Path, help="a file with M N K per line")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst-rounds", type=int, default=5)
    parser.add_argument("--modes", nargs="*", default=["sustained", "burst"], choices=["sustained", "burst"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shapes = SHAPES
    if options.shapes is not None:
        lines = options.shapes.read_text().splitlines()
        shapes = tuple(tuple(map(int, line.split())) for line in lines if line.strip())
    torch.backends.cuda.matmul.allow_tf32 = False

    errors: dict[str, float | str] = {}
    entries: dict[str, Any] = {}
    for text in options.rungs:
        began = time.perf_counter()
        try:
            rung = Rung(text)
            errors[text] = rung.check()
            entries[text] = rung
            took = time.perf_counter() - began
            print(f"{text}: right, largest relative error {errors[text]:.1e}, {took:.1f} s", flush=True)
        except Exception as problem:
            errors[text] = f"{type(problem).__name__}: {problem}"
            print(f"{text}: LEFT OUT", flush=True)
            traceback.print_exc(limit=3)
    if options.reference is not None:
        try:
            from reference_gemm import Reference

            reference = Reference(options.reference)
            a, b, c = operands(1024, 1024, 512)
            reference.launch(a, b, c)()
            torch.cuda.synchronize()
            errors["reference"] = difference(a, b, c)
            assert float(errors["reference"]) <= TOLERANCE, errors["reference"]
            entries["reference"] = reference
            print(f"reference: right, largest relative error {errors['reference']:.1e}", flush=True)
        except Exception:
            print("reference: LEFT OUT", flush=True)
            traceback.print_exc(limit=3)

    rows: list[dict[str, Any]] = []
    for mode in options.modes:
        names = [n for n in entries if mode == "sustained" or n.partition(":")[0] in options.burst_rungs]
        block, rest, rounds = (20.0, 0.0, options.rounds) if mode == "sustained" else (6.0, 0.25, options.burst_rounds)
        for m, n, k in shapes:
            a, b, c = operands(m, n, k)
            contenders: dict[str, Callable[[], None]] = {"cublas": lambda a=a, b=b, c=c: torch.matmul(a, b.T, out=c)}
            for name in names:
                entry = entries[name]
                if name == "reference" and not entry.fits(m, n, k):
                    continue
                contenders[name] = entry.launch(a, b, c)
            try:
                times = measure(contenders, block, rest, rounds)
            except Exception:
                print(f"{mode} {m} x {n} x {k}: LEFT OUT", flush=True)
                traceback.print_exc(limit=3)
                continue
            for name, took in times.items():
                ratios = [theirs / ours for theirs, ours in zip(times["cublas"], took)]
                rows.append(
                    {
                        "mode": mode, "shape": [m, n, k], "contender": name, "ms": took,
                        "tflops": 2 * m * n * k / statistics.median(took) / 1e9, "ratio": statistics.median(ratios),
                    }
                )
            del a, b, c, contenders
    machine.save(options.json, {"errors": errors, "rows": rows})
    report(rows, options.modes)


def report(rows: list[dict[str, Any]], modes: list[str]) -> None:
    """TFLOP/s (ratio to cuBLAS) per shape and contender, and geometric means."""
    for mode in modes:
        mine = [row for row in rows if row["mode"] == mode]
        if not mine:
            continue
        names = list(dict.fromkeys(row["contender"] for row in mine))
        shapes = list(dict.fromkeys(tuple(row["shape"]) for row in mine))
        print(f"\n{mode}: TFLOP/s (ratio to cuBLAS)")
        print(f"{'M x N x K':>20}" + "".join(f"{name[-14:]:>15}" for name in names))
        for shape in shapes:
            line = f"{' x '.join(map(str, shape)):>20}"
            for name in names:
                found = [r for r in mine if tuple(r["shape"]) == shape and r["contender"] == name]
                line += f"{found[0]['tflops']:7.0f} ({found[0]['ratio']:.3f})" if found else f"{'-':>15}"
            print(line)
        line = f"{'geometric mean':>20}"
        for name in names:
            line += f"{geometric_mean([r['ratio'] for r in mine if r['contender'] == name]):15.3f}"
        print(line)


if __name__ == "__main__":
    main()
