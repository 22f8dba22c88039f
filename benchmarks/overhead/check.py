"""What checking costs: every example simulated with and without the checks, under the same schedule, in one process.

The sizes are those at which a plain run takes at least 50 ms; the two are timed in turns, and the ratio is the median
over the turns. Target: at most 3 for every example.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import EXAMPLES
from benchmarks.common import machine

sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "gemm")]

from phalanx.runtime.checking import copies_of, run_checked
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule

SIZES: dict[str, dict[str, int]] = {
    "vector_add": {"n": 12_000_000},
    "softmax": {"rows": 8000, "columns": 1000},
    "transpose": {"rows": 4000, "columns": 4000},
    "tma_copy": {"rows": 4000, "columns": 4000},
    "ring_copy": {"rows": 4000, "columns": 4000, "ctas": 132},
    "multicast_copy": {"rows": 2600, "columns": 2600, "clusters": 66},
    "cluster_exchange": {"rows": 2600, "columns": 2600},
    "pipe_copy": {"rows": 2600, "columns": 2600, "clusters": 66},
    **{f"gemm/v{n}": {"m": 1024, "n": 1024, "k": 1024} for n in range(8)},
}


def seconds(run: Callable[[], Any]) -> float:
    """Of the processor: others on the machine disturb it less."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measure(name: str, schedule: Schedule, repeats: int, sizes: dict[str, int]) -> tuple[float, float, float]:
    """Plain and checked seconds (the fastest), and the median ratio."""
    case = importlib.import_module(name.split("/")[-1]).example(np.random.default_rng(0), **sizes)
    kernel = case.launch.kernel
    constants = kernel.bind_constants(case.constants)
    arguments = read_arguments(kernel, tuple(case.args))
    grid = normalise_grid(kernel, case.launch.grid, constants)
    function = specialise(kernel, arguments, constants).prepared
    args = copies_of(case.args)

    def plain() -> None:
        simulate(function, grid, args, schedule=schedule)

    def checked() -> None:
        assert not run_checked(function, grid, args, schedule)

    plain()
    checked()
    pairs = [(seconds(plain), seconds(checked)) for _ in range(repeats)]
    ratios = sorted(with_checks / without for without, with_checks in pairs)
    return min(p for p, _ in pairs), min(c for _, c in pairs), ratios[len(ratios) // 2]


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("examples", nargs="*", default=list(SIZES))
    parser.add_argument("--schedule", default="late", choices=["late", "early", "random"])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    schedule = Schedule(options.schedule)
    results = {}
    print(f"{'example':18} {'simulated':>11} {'checked':>11} {'ratio':>7}   (target: at most 3)")
    for name in options.examples:
        plain, checked, ratio = measure(name, schedule, options.repeats, SIZES.get(name, {}))
        results[name] = {"simulated_s": plain, "checked_s": checked, "ratio": ratio}
        print(f"{name:18} {1e3 * plain:8.1f} ms {1e3 * checked:8.1f} ms {ratio:7.2f}")
    if options.json:
        machine.save(options.json, {"schedule": options.schedule, "examples": results})


if __name__ == "__main__":
    main()
