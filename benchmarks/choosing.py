"""How well the model of time chooses: recorded configurations of products, ranked as `px.choose` ranks candidates.

    python -m benchmarks.choosing                         60 drawn problems of the sweeps: some minutes on two cores
    python -m benchmarks.choosing --seed 7 --count 200 --out choosing.json

First the rungs of examples/gemm and examples/attention, and the configurations of the ring copy. Then problems drawn
from `benchmarks/results/sweep_*.json`: bf16 products whose tiles were measured in four or more configurations on an
H200, in bursts, most of them because another model called them promising. No constant was fitted to these. For each
problem: Spearman's rank correlation of modelled and measured times, and how fast the configuration that the model takes
is beside the quickest one measured. A draw at random, and the first one recorded, stand beside.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import phalanx as px
from benchmarks import EXAMPLES, timeline
from benchmarks.timeline import RESULTS, correlation, launched, product_call

LEAST = 4
"""Configurations of a problem that is ranked."""


def problems(files: str = "sweep_*.json") -> list[dict[str, Any]]:
    """The recorded problems: what was multiplied, and the time of each configuration, in microseconds."""
    from phalanx.kernels.products.matmul_config import MatmulConfig

    known = {field.name for field in fields(MatmulConfig)}
    found = []
    for file in sorted(RESULTS.glob(files)):
        for product in json.loads(file.read_text())["products"]:
            problem = product["problem"]
            if problem.get("itemsize", 2) != 2 or problem.get("batch", 1) > 1 or product.get("cold") or problem.get("fused"):
                continue
            rows = [row for row in product["rows"] if row["kind"] == "tiles" and "us" in row and set(row["config"]) <= known]
            if len(rows) >= LEAST:
                found.append({"file": file.stem, "problem": problem, "rows": rows})
    return found


@dataclass
class Modelled:
    """What stands for a trace where the time alone is asked."""

    microseconds: float


def quick(bound: Any, *args: Any, **constants: Any) -> Modelled:
    """The time of a launch as candidates are timed: by a few rounds of each loop."""
    from phalanx.runtime.choosing.estimates import estimate, planned
    from phalanx.runtime.launch.auto_grid import leaves_grid
    from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise

    kernel, grid = bound.kernel, bound.grid
    arguments = read_arguments(kernel, args)
    made = specialise(kernel, arguments, kernel.bind_constants(constants))
    dims: Any = made.fitting(grid, arguments, numbers=True) if leaves_grid(grid) else None
    if dims is None:
        dims = normalise_grid(kernel, grid, made.constants)
    return Modelled(estimate(planned(made, made.default_arch), dims, arguments).microseconds)


def modelled(problem: dict[str, Any], given: dict[str, Any]) -> float:
    """Microseconds of a product of the library in a configuration."""
    from phalanx.kernels.products.matmul_config import MatmulConfig

    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    config = MatmulConfig(**fields)
    launches = launched(lambda library, torch: product_call(library, torch, problem, config))
    return sum(quick(bound, *args, **constants).microseconds for bound, args, constants in launches)


def ladders() -> list[dict[str, Any]]:
    """Problems of the ladders and of the ring copy: rungs, and configurations, in bursts."""
    found: dict[str, dict[str, Any]] = {}
    with patch.object(px, "trace", quick):
        for cases in (timeline.gemm_ladder, timeline.attention_ladder, timeline.ring_copies):
            for case in cases():
                row = found.setdefault(case.problem, {"file": case.kind, "problem": case.problem, "pairs": []})
                row["pairs"].append((case.measured, case.trace().microseconds))
    return list(found.values())


def ranked(case: dict[str, Any]) -> dict[str, Any] | None:
    """One problem: what the model says of each configuration, and what its choice loses."""
    pairs = []
    for row in case["rows"]:
        try:
            pairs.append((float(row["us"]), modelled(case["problem"], row["config"])))
        except px.Error as problem:
            print(f"{case['problem']}: {row['config']}: {problem.message}", flush=True)
    return judged({"file": case["file"], "problem": case["problem"], "pairs": pairs})


def judged(row: dict[str, Any]) -> dict[str, Any] | None:
    """A problem with its figures; None where there is too little to rank."""
    pairs = row["pairs"]
    if len(pairs) < 2 or len({measured for measured, _ in pairs}) < 2:
        return None
    best = min(measured for measured, _ in pairs)
    taken = min(pairs, key=lambda pair: pair[1])[0]
    alike = len({guess for _, guess in pairs}) < 2
    return {
        **row, "correlation": 0.0 if alike else correlation(pairs), "speed": best / taken,
        "random": statistics.fmean(best / measured for measured, _ in pairs), "first": best / pairs[0][0],
    }  # fmt: skip


def told(rows: list[dict[str, Any]]) -> str:
    """The figures of all problems."""
    speeds = sorted(row["speed"] for row in rows)
    errors = [abs(guess / measured - 1) for row in rows for measured, guess in row["pairs"]]
    return "\n".join((
        f"{len(rows)} problems, {sum(len(row['pairs']) for row in rows)} configurations",
        f"rank correlation within a problem: mean {statistics.fmean(row['correlation'] for row in rows):.2f}, "
        f"median {statistics.median(row['correlation'] for row in rows):.2f}",
        f"speed of the model's choice, of the best: mean {statistics.fmean(speeds):.3f}, "
        f"median {statistics.median(speeds):.3f}, worst {speeds[0]:.3f}",
        f"of one at random: {statistics.fmean(row['random'] for row in rows):.3f}; "
        f"of the first recorded: {statistics.fmean(row['first'] for row in rows):.3f}",
        f"error of a time: mean {statistics.fmean(errors):.1%}, median {statistics.median(errors):.1%}",
    ))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60, help="problems that are drawn")
    parser.add_argument("--out", type=Path, help="write the problems there, as JSON")
    given = parser.parse_args()
    sys.path[:0] = [str(EXAMPLES), str(RESULTS.parents[1] / "tests")]
    every = problems()
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    rows = []
    began = time.perf_counter()
    rungs = [row for row in map(judged, ladders()) if row is not None]
    for row in rungs:
        print(f"{row['problem']:24} {row['correlation']:6.2f} {row['speed']:6.3f}", flush=True)
    print(told(rungs), "\n")
    for case in drawn:
        found = ranked(case)
        if found is not None:
            rows.append(found)
            m, n, k = (found["problem"][name] for name in "mnk")
            print(f"{m:6} {n:6} {k:6}     {found['correlation']:6.2f} {found['speed']:6.3f}", flush=True)
    print(told(rows))
    print(f"{(time.perf_counter() - began) / max(1, sum(len(row['pairs']) for row in rows)):.2f} s a configuration")
    if given.out:
        given.out.write_text(json.dumps({"seed": given.seed, "of": len(every), "ladders": rungs, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
