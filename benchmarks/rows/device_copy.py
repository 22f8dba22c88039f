"""The ring-buffered TMA copy against torch's device copy, on a GPU, alternating in one process.

The two numbers: the copy reads and writes every byte once, so its floor is 2 x bytes over the memory's bandwidth (torch's
own copy, measured beside, is the ceiling we compare with); there is no arithmetic.
"""

from __future__ import annotations

import sys

from benchmarks import EXAMPLES
from benchmarks.common import machine

sys.path.insert(0, str(EXAMPLES))

import torch
from ring_copy import ring_copy

import phalanx as px

SIZES = ((4096, 4096), (16384, 16384), (32768, 16384))
CONFIGS = (
    {"BM": 64, "BN": 64, "STAGES": 4},
    {"BM": 32, "BN": 128, "STAGES": 4},
    {"BM": 64, "BN": 128, "STAGES": 3},
    {"BM": 64, "BN": 128, "STAGES": 6},
    {"BM": 16, "BN": 256, "STAGES": 6},
    {"BM": 32, "BN": 256, "STAGES": 3},
    {"BM": 32, "BN": 256, "STAGES": 6},
)


def main() -> None:
    parser = machine.arguments(__doc__, 7)
    options = parser.parse_args()
    results = []
    print(f"{'shape':>16} {'config':40} {'ours GB/s':>10} {'torch GB/s':>11} {'ratio':>6}")
    for rows, columns in SIZES:
        x = torch.randn(rows, columns, device="cuda")
        y = torch.empty_like(x)
        moved = 2 * x.nbytes
        repeats = max(3, int(2e10 / moved))
        best = None
        for config in CONFIGS:
            tile = 4 * config["BM"] * config["BN"] * config["STAGES"]
            for per_sm in {1, max(1, min(4, 220_000 // (tile + 1024)))}:
                grid = px.device().sms * per_sm

                def ours(grid: int = grid, config: dict = config, x: torch.Tensor = x, y: torch.Tensor = y) -> None:
                    ring_copy[grid](x, y, **config)

                def theirs_once(x: torch.Tensor = x, y: torch.Tensor = y) -> None:
                    y.copy_(x)

                y.fill_(float("nan"))
                ours()
                torch.cuda.synchronize()
                assert torch.equal(x, y), (config, "wrong result")
                ratios, mine, theirs = [], [], []
                for _ in range(options.rounds):
                    theirs.append(machine.milliseconds(theirs_once, repeats))
                    mine.append(machine.milliseconds(ours, repeats))
                    ratios.append(theirs[-1] / mine[-1])
                middle = options.rounds // 2
                row = {
                    "shape": [rows, columns], "config": {**config, "CTAS_PER_SM": per_sm},
                    "ours_gbs": moved / sorted(mine)[middle] / 1e6, "torch_gbs": moved / sorted(theirs)[middle] / 1e6,
                    "ratio": sorted(ratios)[middle],
                }
                results.append(row)
                if best is None or row["ratio"] > best["ratio"]:
                    best = row
        assert best is not None
        print(
            f"{rows:>7} x {columns:<6} {best['config']!s:40.75} {best['ours_gbs']:10.0f} {best['torch_gbs']:11.0f} "
            f"{best['ratio']:6.3f}"
        )
    machine.save(options.json, {"rows": results})


if __name__ == "__main__":
    main()
