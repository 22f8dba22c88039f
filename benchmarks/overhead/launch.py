"""What a launch costs in Python, with six arguments: Phalanx against Triton, alternating in one process, on a GPU.

The kernels do nothing, so the time is the host's. The floor is one driver call (2 to 3 us); cuda-core's bare launch takes
about 0.43 of Triton's.
"""

from __future__ import annotations

import time

import torch
import triton
import triton.language as tl

import phalanx as px
from benchmarks.common import machine


@px.kernel(warps=1)
def ours(X, Y, Z, a, b, c, *, GUARD=-1):
    if a == GUARD:
        px.store(X[0], px.load(Y[0]) + px.load(Z[0]) * b + c)


@triton.jit
def theirs(X, Y, Z, a, b, c, GUARD: tl.constexpr):
    if a == GUARD:
        tl.store(X, tl.load(Y) + tl.load(Z) * b + c)


def microseconds(run: object, launches: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(launches):
        run()  # type: ignore[operator]
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * spent / launches


def main() -> None:
    parser = machine.arguments(__doc__, 31)
    parser.add_argument("--launches", type=int, default=500)
    options = parser.parse_args()
    x, y, z = (torch.randn(1024, device="cuda") for _ in range(3))
    bound = ours[1]

    def run_ours() -> None:
        bound(x, y, z, 3, 2.0, 1.0)

    def run_getitem() -> None:
        ours[1](x, y, z, 3, 2.0, 1.0)

    def run_theirs() -> None:
        theirs[(1,)](x, y, z, 3, 2.0, 1.0, GUARD=-1)

    runs = {"phalanx, kernel[grid](...)": run_getitem, "phalanx, bound once": run_ours, "triton": run_theirs}
    for run in runs.values():
        microseconds(run, 50)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name].append(microseconds(run, options.launches))
    middle = options.rounds // 2
    median = {name: sorted(t)[middle] for name, t in times.items()}
    for name, value in median.items():
        print(f"{name:30} {value:6.2f} us   {value / median['triton']:.3f} of triton")
    machine.save(options.json, {"median_us": median, "ratio": {n: v / median["triton"] for n, v in median.items()}})


if __name__ == "__main__":
    main()
