"""Products with few rows against cuBLAS (through torch), with L2 flushed before each launch, and warm; alternating.

The two numbers of a shape: the weights' bytes (2 N K) over HBM's 4.2 TB/s are the floor where M is small; and 2 M N K
operations over about 800 TFLOP/s, which comes near it at M = 256.

Cold: a buffer of 256 MB is written before each launch, and only the product is timed, by events around it; the host
is ahead, because the flush takes longer than a launch. Warm: the same with a pause instead of the flush. In each round
every contender runs once, in another order each time; the table shows medians, and the median of the ratios within
rounds. `--sweep` measures the configurations of the split with the best predictions, ways to share the memory of the
first between its rings, and variants; then variants of the fastest ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import statistics
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any

import phalanx as px
from benchmarks.common import machine
from phalanx.ir.archs import SHARED_LIMIT
from phalanx.kernels.products.split_config import SplitConfig, candidates, choose_split, predicted
from phalanx.kernels.products.split_ring import split_ring
from phalanx.runtime.device.timing import Run, in_turns, median_ratio
from phalanx.runtime.launch.dispatch import BoundLaunch

SHAPES = ((64, 8192, 8192), (128, 4096, 14336), (256, 4096, 4096))
MORE_SHAPES = (
    *((m, size, size) for size in (4096, 8192) for m in (1, 16, 32, 512)),
    (8, 14336, 4096), (32, 4096, 14336), (128, 4096, 4096), (128, 8192, 8192), (256, 8192, 8192), (256, 4096, 14336),
    *((m, n, k) for m in (20, 48, 100, 129, 160, 200) for n, k in ((4096, 14336), (8192, 8192))),
)
FLUSH_BYTES = 256 << 20
PAUSE_CYCLES = 200_000
AHEAD = 8
TOLERANCE = 0.01
Shape = tuple[int, int, int]


def short(config: SplitConfig) -> str:
    """A configuration in one word per setting that differs from the plainest."""
    text = f"{config.bm}x{config.bn} s{config.split} st{config.stages}"
    marks = (
        (config.bk != 64, f"bk{config.bk}"), (config.cn > 1, f"cn{config.cn}"), (config.cm > 1, f"cm{config.cm}"),
        (config.ahead, f"ahead{config.ahead}"),
        (config.groups != 2, f"g{config.groups}"),
        (config.pieces != config.split, f"p{config.pieces}"),
        (config.reuse, "reuse"),
    )
    return " ".join([text, *(word for here, word in marks if here)])


def bound(config: SplitConfig, shape: Shape, watched: bool = False) -> BoundLaunch:
    kernel = dataclasses.replace(split_ring, watchdog=True) if watched else split_ring
    return BoundLaunch(kernel, config.grid(shape[0], shape[1]))


def compile_one(job: tuple[SplitConfig, Shape, bool]) -> str:
    """Fills the compiler's cache; runs in a process of its own. Gives what went wrong."""
    config, shape, watched = job
    m, n, k = shape
    spec = px.spec
    try:
        made = px.compile(
            bound(config, shape, watched), spec((m, k), px.bf16), spec((n, k), px.bf16), spec((m, n), px.bf16),
            spec((m, n), px.bf16), arch="sm_90a", ROWS=True, WHOLE=True, BIASED=False, ACTIVATION=None,
            config=config,
        )
        return f"{made.spills} spills" if made.spills else ""
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem).splitlines()[0]}"


class Product:
    """One shape with its operands, torch's product, and ours in any configuration."""

    def __init__(self, shape: Shape) -> None:
        import torch

        m, n, k = self.shape = shape
        generator = torch.Generator(device="cuda").manual_seed(0)
        self.a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16, generator=generator)
        self.b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16, generator=generator)
        self.c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        self.want = self.a.float() @ self.b.float().T
        self.scale = self.want.abs().max()

    def torch(self) -> Run:
        import torch

        return lambda: torch.matmul(self.a, self.b.T, out=self.c)

    def ours(self, config: SplitConfig, watched: bool = False) -> Run:
        launch = bound(config, self.shape, watched)
        constants = {"ROWS": True, "WHOLE": True, "BIASED": False, "ACTIVATION": None, "config": config}
        a, b, c = self.a, self.b, self.c
        return lambda: launch(a, b, c, c, **constants)

    def error(self, run: Run) -> float:
        """The largest error relative to the largest element of the f32 product."""
        import torch

        self.c.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        return float((self.c.float() - self.want).abs().max() / self.scale)


def microseconds(contenders: dict[str, Run], prepare: Run, rounds: int) -> dict[str, list[float]]:
    """Times per contender and round. The host runs ahead of the GPU, but not by more than `AHEAD` rounds."""
    import torch

    for run in contenders.values():
        run()
    torch.cuda.synchronize()
    launches = itertools.count(1)

    def launch(name: str) -> tuple[Any, Any]:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        prepare()
        start.record()
        contenders[name]()
        stop.record()
        if next(launches) % (AHEAD * len(contenders)) == 0:
            torch.cuda.synchronize()
        return start, stop

    events = in_turns(list(contenders), rounds, launch)
    torch.cuda.synchronize()
    return {name: [1e3 * start.elapsed_time(stop) for start, stop in found] for name, found in events.items()}


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        self.options = options
        self.swept: list[dict[str, Any]] = []
        self.buffer = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self.flush: Run = self.buffer.zero_
        self.pause: Run = lambda: torch.cuda._sleep(PAUSE_CYCLES)
        context = multiprocessing.get_context("spawn")  # never fork a process that has a GPU open
        self.pool = ProcessPoolExecutor(max(1, min(14, (os.cpu_count() or 2) - 1)), mp_context=context)

    def usable(self, product: Product, configs: list[SplitConfig]) -> list[SplitConfig]:
        """Those that compile without spills and are right; all are compiled first, side by side.

        One of each choreography runs with bounded waits before any other of it: one that hangs is reported, no more.
        """
        watched: dict[tuple[Any, ...], SplitConfig] = {}
        for config in configs:
            kind = config.split, config.cn, config.cm, config.pieces, config.reuse, config.ahead > 0
            watched.setdefault(kind, config)
        bounded = set(watched.values())
        jobs = [(config, product.shape, False) for config in configs]
        jobs += [(config, product.shape, True) for config in bounded]
        problems = dict(zip(jobs, self.pool.map(compile_one, jobs)))
        found = []
        for config in configs:
            problem = problems[config, product.shape, False] or problems.get((config, product.shape, True), "")
            if not problem:
                try:
                    ways = (True, False) if config in bounded else (False,)
                    error = max(product.error(product.ours(config, way)) for way in ways)
                    problem = "" if error <= TOLERANCE else f"relative error {error}"
                except Exception as raised:
                    traceback.print_exc(limit=3)
                    problem = f"{type(raised).__name__}"
            if problem:
                print(f"  {short(config)}: LEFT OUT, {problem}", flush=True)
            else:
                found.append(config)
        return found

    def compare(self, product: Product, configs: list[SplitConfig], rounds: int, cold: bool) -> dict[str, list[float]]:
        runs = {"cublas": product.torch(), **{short(config): product.ours(config) for config in configs}}
        return microseconds(runs, self.flush if cold else self.pause, rounds)

    def sweep(self, product: Product) -> SplitConfig:
        """Prints the table of one shape, and gives the fastest configuration."""
        shape = product.shape
        best: dict[SplitConfig, float] = {}
        every = dict.fromkeys(candidates(shape[0], shape[2]))
        near = sorted(every, key=lambda c: predicted(c, *shape))[: self.options.configs]
        near += rings(near[0])
        near += [c for leader in near[: self.options.first_leaders] for c in variants(leader) if c not in near]
        for configs in (near, None):
            if configs is None:
                fastest = sorted(best, key=lambda c: best[c])[: self.options.leaders]
                configs = [c for leader in fastest for c in variants(leader) if c not in best]
            configs = self.usable(product, list(dict.fromkeys(configs)))
            times = self.compare(product, configs, self.options.sweep_rounds, cold=True)
            best |= {config: statistics.median(times[short(config)]) for config in configs}
            theirs = statistics.median(times["cublas"])
        print(f"\n{shape}, cold: cuBLAS {theirs:.1f} us; {len(best)} configurations, microseconds (predicted), ratio")
        for config in sorted(best, key=lambda c: best[c])[: self.options.shown]:
            told = f"{best[config]:7.1f} ({predicted(config, *shape):5.1f}) {theirs / best[config]:6.3f}"
            print(f"  {short(config):42} {told}", flush=True)
        for config, us in best.items():
            self.swept.append({"shape": shape, "config": dataclasses.asdict(config), "us": us, "cublas_us": theirs})
        return min(best, key=lambda c: best[c])


def variants(config: SplitConfig) -> list[SplitConfig]:
    """Changes of one setting, and of several that may go together."""
    finer, coarser = replace(config, bk=64, stages=config.stages * 2), replace(config, bk=128, stages=config.stages // 2)
    other = finer if config.bk == 128 else coarser
    found = [
        replace(config, stages=config.stages - 1), other, replace(other, stages=other.stages + 1),
    ]
    if config.bn >= 128:
        found.append(replace(config, groups=1 if config.bn == 128 and config.bm <= 64 else config.bn // 64))
    if config.split > 1 and not config.reuse:
        found.append(replace(config, reuse=True, stages=config.stages + 1))
    return [c for c in found if c.shared_bytes <= SHARED_LIMIT and c.stages >= 2]


def rings(config: SplitConfig) -> list[SplitConfig]:
    """Ways to share the memory between A, of which so many columns are in its ring, and the weights."""
    found = []
    for bk, columns in product((64, 128), (256, 384, 512)):
        depth = columns // bk
        if depth < 3:
            continue
        made = [replace(config, bk=bk, stages=stages, ahead=stages - depth) for stages in range(3, 25)]
        found += [c for c in made if c.shared_bytes <= SHARED_LIMIT][-1:]
    return found


def main() -> None:
    parser = machine.arguments(__doc__, 100)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--configs", type=int, default=12, help="of the sweep, per shape, before variants")
    parser.add_argument("--leaders", type=int, default=2, help="whose variants are measured too")
    parser.add_argument("--first-leaders", type=int, default=2, help="by prediction, whose variants are measured first")
    parser.add_argument("--sweep-rounds", type=int, default=40)
    parser.add_argument("--shown", type=int, default=20)
    parser.add_argument("--more", action="store_true", help="other shapes too")
    options = parser.parse_args()
    began = time.perf_counter()
    bench = Bench(options)
    print("clusters at once, by size:", {size: px.device().clusters(size) for size in (1, 2, 3, 4, 6, 8)})
    rows: list[dict[str, Any]] = []
    for shape in (*SHAPES, *(MORE_SHAPES if options.more else ())):
        product = Product(shape)
        configs = {"chosen": choose_split(*shape)}
        if options.sweep and shape in SHAPES:
            configs["fastest"] = bench.sweep(product)
        kept = bench.usable(product, list(dict.fromkeys(configs.values())))
        for cold in (True, False):
            times = bench.compare(product, kept, options.rounds, cold)
            for name, config in configs.items():
                if config not in kept:
                    continue
                took, theirs = statistics.median(times[short(config)]), statistics.median(times["cublas"])
                rows.append(
                    {
                        "shape": shape, "cold": cold, "which": name, "config": dataclasses.asdict(config), "us": took,
                        "cublas_us": theirs, "ratio": median_ratio(times["cublas"], times[short(config)]),
                        "gbs": 2e-3 * (shape[1] * shape[2] + shape[0] * shape[2] + shape[0] * shape[1]) / took,
                        "predicted_us": predicted(config, *shape),
                    }
                )
        del product
    machine.save(options.json, {"rows": rows, "swept": bench.swept})
    print(f"\n{'M x N x K':>20} {'':5} {'':8} {'us':>7} {'GB/s':>6} {'cuBLAS':>7} {'ratio':>6}  configuration")
    for row in rows:
        text = f"{' x '.join(map(str, row['shape'])):>20} {'cold' if row['cold'] else 'warm':5} {row['which']:8}"
        figures = f"{row['us']:7.1f} {row['gbs']:6.0f} {row['cublas_us']:7.1f} {row['ratio']:6.3f}"
        print(f"{text} {figures}  {short(SplitConfig(**row['config']))}")
    print(f"{time.perf_counter() - began:.0f} s in all")
    bench.pool.shutdown(wait=False)


if __name__ == "__main__":
    main()
