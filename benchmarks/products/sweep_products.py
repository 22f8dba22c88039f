"""Times many configurations of drawn products on a GPU: what `fit_h200.py` fits the model of `machines/h200.py` to.

    python -m benchmarks.products.sweep_products --op matmul batched --seed 100 101 --count 20 --per 14 --json sweep.json

Shapes are those of `drawn/draws.py`; choose seeds that nobody judges by. Configurations of a shape are the best ones by
the model in use and the best one of every kind (height of the tile, swapped or not, cluster), at most `--per` of them; where
one side has few rows, also some of the kernel that splits K. Kernels are compiled by processes of their own first, and every
result is compared with torch's before it is timed.

Times are medians of `--repeats` blocks of 2 ms, below 0.1 ms of CUDA graphs of 10 launches each, torch's before and after
ours. Nothing rests between blocks: what counts is who is faster, not by how much the clock fell.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import phalanx as px
from benchmarks.common import machine
from benchmarks.drawn.draws import Case, drawn, seed_of
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, candidates, choose, suited
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm
from phalanx.kernels.products.split_config import SplitConfig, predicted
from phalanx.kernels.products.split_config import candidates as split_candidates
from phalanx.kernels.products.split_ring import split_ring
from phalanx.kernels.products.tile_model import config_at, costs_of, predicted_parted, predicted_tiles, tabled
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device

CARD = Device(H200.name, "sm_90a", H200.sms, H200.l2_bytes, H200.shared_bytes(), None)
WITHIN = 1.7
"""Configurations that the model thinks are slower than the best by more than that are left out."""
NEW = 1.1
"""A configuration that no shape before has had counts as so much slower: every one is a kernel to compile."""
PARTED = 4
"""Configurations of a shape whose last tiles are cut along K."""
MOST_SPLIT_ROWS = 1024
TYPES = {"bf16": px.bf16, "f16": px.f16, "f8e4m3": px.f8e4m3}
Config = MatmulConfig | SplitConfig


@dataclass(frozen=True)
class Product:
    """A drawn product as a kernel sees it."""

    name: str
    problem: Problem
    dtype: str
    form: str
    cold: bool = False

    @classmethod
    def of(cls, case: Case) -> Product:
        sizes = case.sizes
        form = case.traits.get("form", "a @ b.T" if case.op in ("fp8", "few_rows") else "a @ b")
        by_k = not form.startswith("a.T"), form.endswith("b.T")
        narrow = case.dtype == "f8e4m3"
        problem = Problem(
            sizes["m"], sizes["n"], sizes["k"], sizes.get("batch", 1), 1 if narrow else 2, by_k=by_k,
        )
        return cls(f"{case.op}: {case}", problem, "bf16" if case.dtype == "f16" else case.dtype, form, case.op == "few_rows")


def tile_configs(problem: Problem, most: int, compiled: set[Any], key: Callable[[MatmulConfig], Any]) -> list[MatmulConfig]:
    """The chosen one, the best half by the model, then the best of every kind; rather what others have compiled."""
    configs = list(candidates(problem))
    costs = costs_of(problem)
    took = dict(zip(configs, map(float, predicted_tiles(tabled(configs, CARD, costs), problem, CARD, costs))))
    asked = {config: took[config] * (1.0 if key(config) in compiled else NEW) for config in configs}
    order = sorted(asked, key=lambda config: asked[config])
    alike: dict[Any, MatmulConfig] = {}  # as many tiles of the same height: the narrowest do the least
    for config in order:
        alike.setdefault((config.bm, config.swapped, config.cluster, config.tiles(problem)), config)
    near = [config for config in alike.values() if took[config] <= WITHIN * took[order[0]]]
    kinds: dict[Any, MatmulConfig] = {}
    for config in near:
        kinds.setdefault((config.bm, config.swapped, config.cluster), config)
    whole = dict.fromkeys([*near[: most // 4], *kinds.values()])
    found = dict.fromkeys([choose(problem, CARD), *list(whole)[: most // 2], *part_configs(problem), *whole])
    return list(dict.fromkeys(suited(config, problem, CARD) for config in found))[:most]


def part_configs(problem: Problem, most: int = PARTED) -> list[MatmulConfig]:
    """The best ones whose last tiles are cut along K, one of each number of tiles of a height and of parts."""
    predicted_ones = predicted_parted(problem, CARD)
    if predicted_ones is None:
        return []
    table, took = predicted_ones
    found: dict[Any, MatmulConfig] = {}
    for index in np.argsort(took, kind="stable"):
        if len(found) == most or not took[index] <= WITHIN * took.min() < np.inf:
            break
        config = config_at(table, int(index))
        found.setdefault((config.bm, config.swapped, config.cluster, config.tiles(problem), config.split), config)
    return list(found.values())


def split_configs(problem: Problem) -> Iterator[tuple[str, SplitConfig]]:
    """Configurations of the kernel that splits K, for the side that has few rows."""
    if problem.batch > 1 or problem.itemsize != 2:
        return
    for side, few, many, by_k in (
        ("rows", problem.m, problem.n, problem.by_k[0]), ("columns", problem.n, problem.m, problem.by_k[1]),
    ):
        if few > MOST_SPLIT_ROWS or few > many:
            continue
        took = {config: predicted(config, few, many, problem.k) for config in split_candidates(few, problem.k, by_k)}
        order = sorted(took, key=lambda config: took[config])
        kinds: dict[Any, SplitConfig] = {}
        for config in order:
            kinds.setdefault((config.split, config.bn), config)
        for config in list(kinds.values())[:2]:
            yield side, config


def jobs_of(products: list[Product], most: int) -> list[list[tuple[str, Config]]]:
    """The configurations of each product, and which kernel they are of."""
    compiled: set[Any] = set()
    found: list[list[tuple[str, Config]]] = []
    for product in products:
        tiles = tile_configs(product.problem, most, compiled, partial(compile_key, product, "tiles"))
        found.append([*(("tiles", config) for config in tiles), *split_configs(product.problem)])
        compiled |= {compile_key(product, kind, config) for kind, config in found[-1]}
    return found


def compile_key(product: Product, kind: str, config: Config) -> Any:
    """What decides the kernel: two shapes with the same key share it."""
    return kind, config, product.problem.by_k, product.problem.batch > 1, product.dtype


def kind_of(kind: str, config: Config) -> Any:
    """The first configuration of each such kind runs with its waits bounded first."""
    return kind, config.bm, getattr(config, "swapped", None)


def compile_one(product: Product, kind: str, config: Config, watchdog: bool = False) -> str:
    """Fills the compiler's cache; gives what went wrong."""
    problem, dtype = product.problem, TYPES[product.dtype]
    m, n, k, batched = problem.m, problem.n, problem.k, problem.batch > 1
    lead = (problem.batch,) if batched else ()
    a = px.spec((*lead, m, k) if problem.by_k[0] else (*lead, k, m), dtype)
    b = px.spec((*lead, n, k) if problem.by_k[1] else (*lead, k, n), dtype)
    by_k = problem.by_k
    try:
        if isinstance(config, MatmulConfig):
            if config.swapped:
                a, b, by_k = b, a, by_k[::-1]
            one = px.spec((1,), px.f32) if product.dtype == "f8e4m3" else None
            sums = config.left_sums(problem, CARD)
            made = px.compile(
                matmul_tiles[config.cluster], a, b, px.spec((*lead, m, n), px.bf16), None, one, one, None,
                px.spec((sums,), px.f32) if sums else None, arch="sm_90a",
                watchdog=watchdog, config=config, form=ProductForm(*by_k),
            )
        else:
            if kind == "columns":
                a, b, by_k = b, a, by_k[::-1]
            c = px.spec((m, n), px.bf16)
            made = px.compile(
                split_ring[config.grid(m, n)], a, b, c, c, arch="sm_90a", ROWS=by_k[1], A_ROWS=by_k[0],
                FLIPPED=kind == "columns", BIAS_OF_ROWS=False, WHOLE=True, BIASED=False, ACTIVATION=None,
                config=config,
            )
        return f"{made.spills} bytes spilled" if made.spills else ""
    except Exception as problem_found:
        return f"{type(problem_found).__name__}: {str(problem_found).splitlines()[0]}"


def compile_share(products: list[Product], most: int, share: int, shares: int) -> None:
    """Compiles every `shares`th kernel, and prints what went wrong."""
    keys: dict[Any, tuple[Product, str, Config, bool]] = {}
    for product, jobs in zip(products, jobs_of(products, most)):
        for kind, config in jobs:
            if kind == "tiles":
                keys.setdefault(kind_of(kind, config), (product, kind, config, True))
            keys.setdefault(compile_key(product, kind, config), (product, kind, config, False))
    for product, kind, config, watchdog in list(keys.values())[share::shares]:
        problem = compile_one(product, kind, config, watchdog)
        if problem:
            print(f"{kind} {config}: {problem}", flush=True)


class Clock:
    """Torch tensors of a product, and times of calls on them."""

    def __init__(self, product: Product, repeats: int) -> None:
        import torch

        self.torch, self.product, self.repeats = torch, product, repeats
        problem = product.problem
        m, n, k = problem.m, problem.n, problem.k
        lead = (problem.batch,) if problem.batch > 1 else ()
        kind = torch.float8_e4m3fn if product.dtype == "f8e4m3" else torch.bfloat16

        def normal(*shape: int) -> Any:
            return torch.randn(*lead, *shape, device="cuda", dtype=torch.float32).to(kind)

        self.a = normal(m, k) if problem.by_k[0] else normal(k, m).mT
        self.b = normal(n, k).mT if problem.by_k[1] else normal(k, n)
        self.out = torch.empty(*lead, m, n, device="cuda", dtype=torch.bfloat16)
        self.other = torch.empty_like(self.out)
        self.one = torch.ones((), device="cuda")
        self.flush = torch.empty(256 << 20, device="cuda", dtype=torch.int8) if product.cold else None
        self.theirs()

    def theirs(self) -> None:
        if self.product.dtype == "f8e4m3":
            self.other = self.torch._scaled_mm(
                self.a, self.b, self.one, self.one, out_dtype=self.torch.bfloat16, use_fast_accum=True
            )
        else:
            self.torch.matmul(self.a, self.b, out=self.other)

    def ours(self, kind: str, config: Config) -> Callable[[], Any]:
        if kind == "tiles":
            scales = {"scale_a": self.one, "scale_b": self.one} if self.product.dtype == "f8e4m3" else {}
            return lambda: px.kernels.matmul(self.a, self.b, out=self.out, config=config, **scales)
        if kind == "rows":
            return lambda: px.kernels.split_k_matmul(self.a, self.b, out=self.out, config=config)
        return lambda: px.kernels.split_k_matmul(self.b.mT, self.a.mT, out=self.out.mT, config=config)

    def error(self, run: Callable[[], Any], watched: bool) -> float:
        from phalanx.runtime.launch.watchdog import bounded_waits

        self.out.fill_(float("nan"))
        if watched:
            with bounded_waits():
                run()
        else:
            run()
        self.torch.cuda.synchronize()
        return float((self.out - self.other).abs().max() / self.other.abs().max())

    def block(self, run: Callable[[], Any], calls: int) -> float:
        torch = self.torch
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if self.flush is not None:
            took = []
            for _ in range(calls):
                self.flush.fill_(1)
                start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                run()
                stop.record()
                took.append((start, stop))
            torch.cuda.synchronize()
            return statistics.median(begin.elapsed_time(end) for begin, end in took)
        start.record()
        for _ in range(calls):
            run()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) / calls

    def milliseconds(self, run: Callable[[], Any]) -> float:
        """The median of blocks."""

        run()
        if self.flush is not None:
            return statistics.median(self.block(run, 10) for _ in range(self.repeats))
        per, took = 1, self.block(run, 2)
        if took < 0.1:
            run, per = machine.graphed(run, 10), 10
            run()
            took = self.block(run, 1)
        calls = max(1, round(2.0 / took))
        return statistics.median(self.block(run, calls) for _ in range(self.repeats)) / per


def measure(
    product: Product, jobs: list[tuple[str, Config]], repeats: int, watched: set[Any], until: float
) -> dict[str, Any]:
    clock = Clock(product, repeats)
    before = clock.milliseconds(clock.theirs)
    rows = []
    for kind, config in jobs:
        if time.perf_counter() > until:
            break
        row: dict[str, Any] = {"kind": kind, "config": vars(config)}
        try:
            run = clock.ours(kind, config)
            first = kind == "tiles" and kind_of(kind, config) not in watched
            watched.add(kind_of(kind, config))
            wrong = clock.error(run, first)
            if wrong <= 0.02:
                row["us"] = 1e3 * clock.milliseconds(run)
            else:
                row["problem"] = f"wrong by {wrong}"
        except Exception as problem:
            traceback.print_exc(limit=1)
            row["problem"] = f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
        rows.append(row)
    after = clock.milliseconds(clock.theirs)
    return {
        "name": product.name, "problem": vars(product.problem), "dtype": product.dtype, "cold": product.cold,
        "torch_us": 1e3 * min(before, after), "torch_both": [1e3 * before, 1e3 * after], "rows": rows,
    }


def shown(row: dict[str, Any]) -> str:
    """A configuration in a few characters."""
    config = row["config"]
    marks = "s" if config.get("swapped") else ""
    marks += f"/{config['split']}" if config.get("split", 1) > 1 else ""
    return f"{row['kind'][0]} {config['bm']}x{config['bn']}{marks} {config.get('cluster', '')}"


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--op", nargs="+", default=["matmul"], choices=["matmul", "batched", "few_rows", "fp8"])
    parser.add_argument("--seed", nargs="+", default=["100"])
    parser.add_argument("--count", type=int, nargs="+", default=[20], help="of each seed; one number for each operation")
    parser.add_argument("--at", nargs="*", default=[], help="further products: M,N,K or, of a B as it is, M,N,K,b")
    parser.add_argument("--per", type=int, default=14)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="for the measurements")
    parser.add_argument("--compile", type=int, nargs=2, help="for itself: compile this share of so many")
    given = parser.parse_args()
    counts = itertools.chain(given.count, itertools.repeat(given.count[-1]))
    products: list[Product] = []
    for at in given.at:
        m, n, k, *form = at.split(",")
        by_k = ("a.T" not in form, "b" not in form)
        problem = Problem(int(m), int(n), int(k), by_k=by_k)
        products.append(Product(f"at: m {m}, n {n}, k {k}, bf16, {form}", problem, "bf16", ""))
    products += [
        Product.of(case) for op, count in zip(given.op, counts) for seed in given.seed
        for case in drawn(op, seed_of(seed), count)
    ]
    if given.compile:
        compile_share(products, given.per, *given.compile)
        return
    began = time.perf_counter()
    workers = max(1, min(15, (os.cpu_count() or 2) - 1))
    command = [sys.executable, "-m", "benchmarks.products.sweep_products", *sys.argv[1:], "--compile"]
    shares = [subprocess.Popen([*command, str(share), str(workers)]) for share in range(workers)]
    for share in shares:
        share.wait()
    print(f"compiled in {time.perf_counter() - began:.0f} s", flush=True)
    import torch

    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    until = time.perf_counter() + given.seconds
    found: list[dict[str, Any]] = []
    watched: set[Any] = set()
    for product, jobs in zip(products, jobs_of(products, given.per)):
        if time.perf_counter() > until:
            print("the rest is left out, no time")
            break
        try:
            found.append(measure(product, jobs, given.repeats, watched, until))
        except Exception:
            traceback.print_exc(limit=2)
            continue
        torch.cuda.empty_cache()
        mine = sorted((row for row in found[-1]["rows"] if "us" in row), key=lambda row: row["us"])
        told = [f"{shown(row)} {found[-1]['torch_us'] / row['us']:.3f}" for row in mine[:3]]
        chosen = next((row for row in found[-1]["rows"] if "us" in row), None)
        first = found[-1]["torch_us"] / chosen["us"] if chosen else float("nan")
        print(f"{product.name} | torch {found[-1]['torch_us']:.1f} us, first {first:.3f} | {'; '.join(told)}", flush=True)
        for row in found[-1]["rows"]:
            if "problem" in row:
                print(f"    {row['kind']} {row['config']}: {row['problem']}")
        machine.save(given.json, {"products": found})


if __name__ == "__main__":
    main()
