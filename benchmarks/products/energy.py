"""Where the joules of large products go: configurations of `px.kernels.matmul` beside cuBLAS, each alone at the power limit.

    python -m benchmarks.products.energy --shapes benchmarks/shapes/large.txt --seconds 110 --json energy.json
    python -m benchmarks.products.energy --fit energy.json

An H200 runs a large product of random numbers at its power limit, so its time is its energy over 700 W. The script measures
both, and clock and FLOP per cycle per SM, for tiles, clusters and orders of tiles (`VARIANTS`), then for other numbers
in the same kernel (`PATTERNS`): what is not arithmetic is what a configuration can save.

The numbers of a configuration (`traffic`), counted, not measured: bytes from L2 (a multicast counts once), bytes that arrive
in shared memory (it counts for each CTA), bytes that tensor cores read from there, and bytes from HBM by an L2 that forgets
what was used longest ago. `--fit` brings measured joules and these together: picojoules a byte, by least squares over the
configurations of every shape.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from benchmarks.common.machine import arguments, load, save
from benchmarks.products.shapes import LARGE, Shape, read_shapes
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, choose
from phalanx.kernels.products.matmul_cuts import STAGE_ROW_BYTES, complete, require_fits
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.orders import grouped
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device
from phalanx.runtime.device.power import Meter, NoMeter, Reading, median_reading
from phalanx.runtime.device.timing import Mode, take_turns

CARD = Device(H200.name, "sm_90a", H200.sms, H200.l2_bytes, H200.shared_bytes(), None)
STEADY = Mode("steady", 600.0, 0.0, 2, alone_ms=200.0)
"""All contenders are at the power limit, so that a fifth of a second settles the clock; energy is read over the rest."""
KEPT = 45e6
"""Bytes of operands that L2 is taken to hold."""
PIECE_K, PIECE_ROWS = 1024, 64
"""What L2 holds of an operand, in pieces of so many elements along K and rows."""
BASELINE = "cuBLAS"
Way = Callable[[Any, Any, Any], Any]
"""A product of the first operand and the transposed second one, into the third."""


def variants(shape: Shape) -> dict[str, MatmulConfig]:
    """Configurations by what they differ in; those that leave SMs idle for long are left out."""
    problem = Problem(*shape.sizes)
    found = {"chosen": choose(problem, CARD)}
    for bm, bn, swapped in ((128, 256, False), (256, 128, False), (256, 176, True), (256, 184, True), (256, 192, False)):
        for cluster in ((1, 1), (1, 2), (2, 1), (2, 2)):
            config = complete(problem, bm, bn, 2, cluster, swapped)
            waves = config.tiles(problem) / config.clusters(CARD)
            if waves / np.ceil(waves) > 0.88:
                found[name_of(config)] = config
    first = complete(problem, 128, 256, 2, (1, 2))
    for config in (replace(first, group=8), replace(first, group=32), replace(first, stages=3)):
        found[name_of(config)] = config
    return found


def name_of(config: MatmulConfig) -> str:
    cm, cn = config.cluster
    turned = "T" if config.swapped else ""
    return f"{config.bm} x {config.bn}{turned}, {cm} x {cn}, stages {config.stages}, group {config.group}"


# What a configuration moves ------------------------------------------------------------------------------------------


def traffic(problem: Problem, config: MatmulConfig) -> dict[str, float]:
    """Gigabytes of a launch: from L2, into shared memory, from there into tensor cores, from and to HBM."""
    seen, (cm, cn) = problem.turned() if config.swapped else problem, config.cluster
    ctas = config.tiles(problem) * cm * cn
    steps = -(-problem.k * problem.itemsize // STAGE_ROW_BYTES) * STAGE_ROW_BYTES
    l2 = ctas * (config.bm / cn + config.bn / cm) * steps
    arrived = ctas * (config.bm + config.bn) * steps
    shared = ctas * config.bm / 64 * (64 + config.bn) * steps
    written = seen.m * seen.n * problem.out_itemsize
    hbm = hbm_reads(seen, config) + written
    return {"l2": l2 / 1e9, "arrived": arrived / 1e9, "shared": shared / 1e9, "hbm": hbm / 1e9}


def waves(seen: Problem, config: MatmulConfig) -> Iterator[tuple[set[int], set[int]]]:
    """The pieces of rows and of columns that each wave of clusters reads."""
    high, wide = config.bm * config.cluster[0], config.bn * config.cluster[1]
    rows, columns = -(-seen.m // high), -(-seen.n // wide)
    tiles, at_once = rows * columns, config.clusters(CARD)
    for start in range(0, tiles, at_once):
        places = [grouped(tile, rows, columns, config.group) for tile in range(start, min(tiles, start + at_once))]
        yield (
            pieces({int(i) for i, _ in places}, high, seen.m), pieces({int(j) for _, j in places}, wide, seen.n),
        )


def pieces(blocks: set[int], size: int, extent: int) -> set[int]:
    """The pieces of `PIECE_ROWS` that blocks of some size touch."""
    return {
        piece
        for block in blocks
        for piece in range(block * size // PIECE_ROWS, -(-min(extent, (block + 1) * size) // PIECE_ROWS))
    }


def hbm_reads(seen: Problem, config: MatmulConfig, launches: int = 2) -> float:
    """Bytes that the last of some equal launches reads from HBM; the tiles of a wave go along K together."""
    held: OrderedDict[tuple[str, int, int], None] = OrderedDict()
    along = -(-seen.k // PIECE_K)
    size = PIECE_ROWS * seen.k / along * seen.itemsize
    missed = 0.0
    order = list(waves(seen, config))
    for _ in range(launches):
        missed = 0.0
        for rows, columns in order:
            for k in range(along):
                for key in (*(("a", row, k) for row in sorted(rows)), *(("b", column, k) for column in sorted(columns))):
                    if key in held:
                        held.move_to_end(key)
                        continue
                    missed += size
                    held[key] = None
                    if len(held) * size > KEPT:
                        held.popitem(last=False)
    return missed


# Measuring -----------------------------------------------------------------------------------------------------------


def compile_one(job: tuple[Shape, MatmulConfig]) -> str:
    """Fills the compiler's cache; gives what went wrong."""
    shape, config = job
    m, n, k = shape.sizes
    a, b = px.spec((m, k), px.bf16), px.spec((n, k), px.bf16)
    try:
        require_fits(config, Problem(m, n, k))
        arrays = *((b, a) if config.swapped else (a, b)), px.spec((m, n), px.bf16)
        sums = px.spec((max(1, config.left_sums(Problem(m, n, k), CARD)),), px.f32) if config.split > 1 else None
        absent = [None] * (len(matmul_tiles.parameters) - len(arrays) - 1)  # bias, scales
        made = px.compile(matmul_tiles[config.cluster], *arrays, *absent, sums, arch="sm_90a", config=config)
        return f"{made.spills} bytes spilled" if made.spills else ""
    except px.Error as problem:
        return str(problem).splitlines()[0]


def compiled(jobs: Sequence[tuple[Shape, MatmulConfig]]) -> dict[MatmulConfig, str]:
    """What is wrong with each configuration, compiled by several processes; the sizes of a product are no part of it."""
    different = {config: (shape, config) for shape, config in jobs}
    workers = max(1, min(16, os.cpu_count() or 2))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(different, pool.map(compile_one, different.values())))


PATTERNS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda x: x,
    "normal, half of them zero": lambda x: x.mul_(x.abs() > 0.6745),
    "normal, sorted along K": lambda x: x.copy_(x.sort(dim=1).values),
    "integers from -3 to 3": lambda x: x.mul_(1.5).round_().clamp_(-3, 3),
    "ones": lambda x: x.fill_(1),
    "zeros": lambda x: x.zero_(),
}
"""Numbers in the operands, made of normal ones."""


class Bench:
    """A card, its meter if it has one, and the rows so far."""

    def __init__(self, seconds: float, json: Path | None) -> None:
        from benchmarks.common.device import TorchDevice

        self.device, self.json, self.ends = TorchDevice(), json, time.monotonic() + seconds
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.meter: Meter | None = None
        try:
            self.meter = self.device.meter()
            self.say(f"power limit {self.meter.limit()} W, at rest {self.meter.watts()} W")
        except NoMeter as reason:
            self.say(f"no power, energy or clock: {reason}")

    def say(self, text: str) -> None:
        self.notes.append(text)
        print(text, flush=True)

    def save(self) -> None:
        save(self.json, {"notes": self.notes, "rows": self.rows})

    def steady(self, runs: dict[str, Callable[[], Any]], seconds: float, most: int) -> dict[str, tuple[list[float], Any]]:
        """Milliseconds and readings of each, in as many rounds as there is time for."""
        one = 1e-3 * (STEADY.block_ms + STEADY.alone_ms) * 1.03
        rounds = min(most, int(seconds / (one * len(runs))))
        if not rounds:
            return {}
        drawn: dict[str, list[Reading]] = {name: [] for name in runs}
        times = take_turns(
            runs, self.device.milliseconds, STEADY, rounds=rounds, meter=self.meter,
            observe=lambda name, reading: drawn[name].append(reading),
        )
        return {name: (took, median_reading(drawn[name])) for name, took in times.items()}

    def compare(self, shape: Shape, ways: dict[str, Way], seconds: float, rounds: int) -> list[dict[str, Any]]:
        """The rows of one shape, computed in several ways beside cuBLAS; none where there is no time left."""
        torch = self.device.torch
        m, n, k = shape.sizes
        a, b, c = self.device.operands(m, n, k)
        want = self.device.product(a, b)
        runs: dict[str, Callable[[], Any]] = {BASELINE: lambda: torch.matmul(a, b.T, out=c)}
        for name, way in ways.items():
            run = lambda way=way: way(a, b, c)  # noqa: E731
            self.device.blank(c)
            run()
            error = self.device.difference(c, want)
            if error <= 0.01:
                runs[name] = run
            else:
                self.say(f"{shape}: {name} LEFT OUT: error {error}")
        del want
        found = self.steady(runs, seconds, rounds)
        if not found:
            self.say(f"{shape}: no time left")
        rows: list[dict[str, Any]] = []
        for name, (took, reading) in found.items():
            rows.append({"shape": [m, n, k], "variant": name, "ms": took})
            if reading is not None:
                rate = reading.flops_per_cycle(2 * m * n * k, statistics.median(took), self.device.sms)
                rows[-1] |= {**asdict(reading), "flop_per_cycle_per_sm": rate}
        self.rows += rows
        return rows

    def product(self, shape: Shape, configs: dict[str, MatmulConfig], seconds: float, rounds: int) -> None:
        """One shape in all its configurations, beside cuBLAS."""
        ways: dict[str, Way] = {
            name: lambda a, b, c, config=config: px.kernels.matmul(a, b.T, out=c, config=config)
            for name, config in configs.items()
        }  # fmt: skip
        rows = self.compare(shape, ways, seconds, rounds)
        if not rows:
            return
        for row in rows:
            config = configs.get(row["variant"])
            moved = {} if config is None else traffic(Problem(*shape.sizes), config)
            row |= {"config": None if config is None else asdict(config), **moved}
        print("\n".join(table(self.rows, list(shape.sizes))), flush=True)
        self.save()

    def pattern(self, name: str, shape: Shape) -> None:
        """One shape in the configuration of the library, on other numbers."""
        m, n, k = shape.sizes
        a, b, c = self.device.operands(m, n, k)
        for operand in (a, b):
            PATTERNS[name](operand)
        found = self.steady({name: lambda: px.kernels.matmul(a, b.T, out=c)}, self.ends - time.monotonic(), 1)
        for took, reading in found.values():
            drawn = {} if reading is None else asdict(reading)
            self.rows.append({"pattern": name, "shape": [m, n, k], "ms": took, **drawn})
            self.say(f"{name:28} {2 * m * n * k / took[0] / 1e9:5.0f} TFLOP/s {reading}")
        self.save()


def table(rows: Sequence[dict[str, Any]], shape: list[int]) -> list[str]:
    """The configurations of a shape, fastest first: speed and joules against cuBLAS's, and what they move."""
    mine = [row for row in rows if row.get("shape") == shape and "variant" in row]
    base = next(row for row in mine if row["variant"] == BASELINE)
    where = " x ".join(map(str, shape))
    head = f"{where}, steady: speed over cuBLAS's, J of a launch over its, W, MHz, FLOP/cycle/SM; GB from L2, arrived, HBM"
    lines = ["", head]
    for row in sorted(mine, key=lambda row: statistics.median(row["ms"])):
        line = f"{row['variant']:44} {statistics.median(base['ms']) / statistics.median(row['ms']):6.3f}"
        if row.get("joules") and base.get("joules"):
            line += f" {row['joules'] / base['joules']:6.3f} {row['watts']:4.0f} {row['megahertz'] or 0:5.0f}"
            line += f" {row['flop_per_cycle_per_sm'] or 0:5.0f}"
        if row["config"] is not None:
            line += f"   {row['l2']:6.2f} {row['arrived']:6.2f} {row['hbm']:5.2f}"
        lines.append(line)
    return lines


# Where the joules go -------------------------------------------------------------------------------------------------


def fit(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Picojoules of a multiplication with what belongs to it, and of a byte of each kind: least squares over shapes.

    Of the joules of a launch a part goes with time (leakage, memory at rest), which the fit can't tell from the others,
    since all run at one power: it is spread over them.
    """
    mine = [row for row in rows if row.get("joules") and row.get("config")]
    if len(mine) <= len(KINDS) + 1:
        return [f"{len(mine)} rows with joules and a configuration: too few for a fit of {len(KINDS) + 1} numbers"]
    macs = np.array([np.prod([float(size) for size in row["shape"]]) for row in mine])
    columns = np.array([[1.0, *(1e9 * row[kind] / mac for kind in KINDS)] for row, mac in zip(mine, macs)])
    joules = np.array([row["joules"] for row in mine]) / macs
    found, *_ = np.linalg.lstsq(columns, joules, rcond=None)
    off = columns @ found / joules - 1
    lines = [f"{len(mine)} rows, off by {np.sqrt(np.mean(off**2)):.2%} (root mean square), {np.abs(off).max():.2%} at most"]
    names = ("multiply and add", *(f"byte {KINDS[kind]}" for kind in KINDS))
    for name, each, share in zip(names, found, columns.mean(axis=0) * found / joules.mean()):
        lines.append(f"{1e12 * each:8.2f} pJ a {name:40} {share:6.1%} of the energy")
    return lines


KINDS = {"l2": "from L2", "arrived": "into shared memory", "hbm": "from or to HBM"}


def main() -> None:
    parser = arguments(__doc__, STEADY.rounds)
    parser.add_argument("--shapes", type=Path, help="a file with M N K per line; the six large ones without it")
    parser.add_argument("--seconds", type=float, default=240.0, help="of measuring")
    parser.add_argument("--fit", type=Path, nargs="*", help="results of earlier runs: nothing is measured")
    given = parser.parse_args()
    if given.fit:
        print("\n".join(fit([row for path in given.fit for row in load(path)["rows"]])))
        return
    shapes = LARGE if given.shapes is None else read_shapes(given.shapes)
    problems = compiled([(shape, config) for shape in shapes for config in variants(shape).values()])
    bench = Bench(given.seconds, given.json)
    for number, shape in enumerate(shapes):
        configs = {name: config for name, config in variants(shape).items() if not problems[config]}
        share = (bench.ends - time.monotonic()) * 0.95 / (len(shapes) - number)
        bench.product(shape, configs, share, given.rounds)
    for name in PATTERNS:
        bench.pattern(name, max(shapes, key=lambda shape: shape.m * shape.n * shape.k))
    bench.save()
    if bench.meter is not None:
        print("\n".join(fit(json.loads(json.dumps(bench.rows)))))


if __name__ == "__main__":
    main()
