"""What simulating a GEMM costs: rung v4 (clusters, multicast, roles) against one NumPy f32 product, one BLAS thread
for both.

The two numbers: 1024^3 is 2.1 GFLOP, about 15 ms of one core; the simulator does the same products in 512 pieces of
128 x 256 x 64 and widens bf16 to f32 on the way, so that a ratio of about 2 is its floor.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The examples before this folder.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path += [str(HERE), str(HERE.parent / "examples" / "gemm"), str(HERE.parent / "examples")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# ruff: noqa: E402
import argparse
import statistics
import time
from typing import Any

import machine
import numpy as np
import v4

import phalanx as px


def seconds(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n = options.size
    case = v4.example(np.random.default_rng(0), n, n, n)
    case.run()
    args = [np.copy(a) for a in case.args]
    x = np.random.default_rng(0).standard_normal((n, n), np.float32)
    y = np.ascontiguousarray(x.T)
    floors, plain, checked = [], [], []
    for _ in range(options.repeats):  # alternating, so that a busy machine disturbs all of them
        floors.append(seconds(lambda: x @ y))
        plain.append(seconds(lambda: case.launch(*args, **case.constants)))
        checked.append(seconds(lambda: px.check(case.launch, *args, schedules=1, **case.constants)))
    ratios = {
        name: statistics.median(mine / floor for mine, floor in zip(took, floors))
        for name, took in (("checks off", plain), ("checks on", checked))
    }
    print(f"NumPy f32 product    {1e3 * min(floors):8.1f} ms")
    print(f"v4 simulated         {1e3 * min(plain):8.1f} ms   ratio {ratios['checks off']:.1f}   (target: at most 10)")
    print(f"v4, one checked run   {1e3 * min(checked):8.1f} ms   ratio {ratios['checks on']:.1f}   (target: at most 20)")
    machine.save(options.json, {"size": n, "floor_s": floors, "plain_s": plain, "checked_s": checked, "ratios": ratios})


if __name__ == "__main__":
    main()
