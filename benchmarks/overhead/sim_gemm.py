"""What simulating a GEMM costs: rung v4 (clusters, multicast, roles) against one NumPy f32 product, one BLAS thread
for both; with `--ladder blackwell` rung v5 of that one (pairs, launch control).

"checked" is one run with checks. `px.check` makes further ones where something might go otherwise in another order.

The two numbers: 1024^3 is 2.1 GFLOP, about 15 ms of one core; the simulator does the same products in 512 pieces of
128 x 256 x 64 and widens bf16 to f32 on the way, so that a ratio of about 2 is its floor.
"""

from __future__ import annotations

import os
import sys

from benchmarks import EXAMPLES

LADDER, RUNG = ("blackwell", "v5") if "blackwell" in sys.argv else ("gemm", "v4")
TARGETS = {"gemm": {"simulated": 10, "px.check": 20}, "blackwell": {"checked": 10}}[LADDER]
sys.path += [str(EXAMPLES / LADDER), str(EXAMPLES)]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import importlib
import statistics
import time
from typing import Any

import numpy as np

import phalanx as px
from benchmarks.common import machine
from phalanx.runtime.checking import copies_of, run_checked
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise
from phalanx.sim.scheduler import Schedule


def seconds(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--ladder", choices=["gemm", "blackwell"], default="gemm")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    n = options.size
    case = importlib.import_module(RUNG).example(np.random.default_rng(0), n, n, n)
    case.run()
    args = copies_of(case.args)
    kernel = case.launch.kernel
    constants = kernel.bind_constants(case.constants)
    function = specialise(kernel, read_arguments(kernel, tuple(args)), constants).prepared
    grid = normalise_grid(kernel, case.launch.grid, constants)
    x = np.random.default_rng(0).standard_normal((n, n), np.float32)
    y = np.ascontiguousarray(x.T)
    runs = {
        "simulated": lambda: case.launch(*args, **case.constants),
        "checked": lambda: run_checked(function, grid, args, Schedule("late")),
        "px.check": lambda: px.check(case.launch, *args, schedules=1, **case.constants),
    }
    floors: list[float] = []
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repeats):  # alternating, so that a busy machine disturbs all of them
        floors.append(seconds(lambda: x @ y))
        for name, run in runs.items():
            took[name].append(seconds(run))
    ratios = {name: statistics.median(mine / floor for mine, floor in zip(took[name], floors)) for name in runs}
    print(f"{'NumPy f32 product':20} {1e3 * min(floors):8.1f} ms")
    for name in runs:
        target = f"   (target: at most {TARGETS[name]})" if name in TARGETS else ""
        print(f"{RUNG + ' ' + name:20} {1e3 * min(took[name]):8.1f} ms   ratio {ratios[name]:.1f}{target}")
    machine.save(options.json, {"ladder": LADDER, "size": n, "floor_s": floors, "seconds": took, "ratios": ratios})


if __name__ == "__main__":
    main()
