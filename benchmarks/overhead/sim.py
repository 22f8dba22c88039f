"""What simulating costs: the ring-buffered TMA copy against `np.copyto` tile by tile, in one process and thread.

The two numbers: 4096 x 4096 f32 is 64 MiB read and 64 MiB written; `np.copyto` over the same 64 x 64 tiles is the floor,
since the simulator moves every tile twice (global to shared, shared to global) and interprets about a dozen instructions
a tile on top.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks import EXAMPLES
from benchmarks.common import machine

sys.path.insert(0, str(EXAMPLES))

from ring_copy import ring_copy


def median_seconds(run: object, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--tile", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    n, t = options.size, options.tile
    x = np.random.default_rng(0).standard_normal((n, n), np.float32)
    y = np.zeros_like(x)

    def copy_tiles() -> None:
        for i in range(0, n, t):
            for j in range(0, n, t):
                np.copyto(y[i : i + t, j : j + t], x[i : i + t, j : j + t])

    launch = ring_copy[132]

    def simulate() -> None:
        launch(x, y, BM=t, BN=t)

    simulate()
    assert np.array_equal(x, y)
    ratios, floors, ours = [], [], []
    for _ in range(options.repeats):  # alternating, so that a busy machine disturbs both
        floors.append(median_seconds(copy_tiles, 3))
        ours.append(median_seconds(simulate, 1))
        ratios.append(ours[-1] / floors[-1])
    ratio = sorted(ratios)[len(ratios) // 2]
    tiles = (n // t) ** 2
    print(f"np.copyto by tiles   {1e3 * min(floors):8.1f} ms   {1e6 * min(floors) / tiles:6.2f} us a tile")
    print(f"simulated ring copy  {1e3 * min(ours):8.1f} ms   {1e6 * min(ours) / tiles:6.2f} us a tile")
    print(f"ratio (median of {len(ratios)})  {ratio:.1f}   (target: at most 25)")
    machine.save(options.json, {"size": n, "tile": t, "floor_s": floors, "simulated_s": ours, "ratio": ratio})


if __name__ == "__main__":
    main()
