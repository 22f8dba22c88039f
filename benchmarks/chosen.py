"""What `px.choose` takes beside what a GPU measures: the short matmul in all combinations of tiles, at several sizes.

    python -m benchmarks.chosen --json chosen.json         under a minute on an H200; no torch needed

Every combination that compiles is measured by `px.tune` on random numbers, in turns; `px.tune(..., on="model")` ranks the
same ones. For each size: the quickest, what the model takes, how much slower that is, and the rank correlation.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import phalanx as px
from benchmarks.timeline import correlation, module_of, product_specs

SIZES = ((4096, 4096, 4096), (8192, 8192, 2048), (1024, 4096, 4096), (2048, 1024, 8192), (300, 4096, 8192))
CANDIDATES = [dict(BM=px.choose(64, 128, 256), BN=px.choose(64, 96, 128, 192, 256))]


def measured(kernel: Any, sizes: tuple[int, int, int], mode: str) -> list[dict[str, Any]]:
    """All combinations at one size: milliseconds measured and modelled."""
    args = product_specs(*sizes)
    found = px.tune(kernel[px.auto], CANDIDATES, args, mode=mode, rounds=5, keep=math.inf, force=True, quiet=True)
    model = px.tune(kernel[px.auto], CANDIDATES, args, on="model", force=True, quiet=True)
    guesses = {json.dumps(row.config): row for row in model.table}
    rows = []
    for row in found.table:
        guess = guesses[json.dumps(row.config)]
        rows.append({
            "config": row.config, "status": row.status, "note": row.note or guess.note, "ms": row.ms,
            "model_ms": guess.ms, "place": [each.config for each in model.table].index(row.config),
        })  # fmt: skip
    return rows


def told(sizes: tuple[int, int, int], rows: list[dict[str, Any]]) -> str:
    """One line on a size, and one for each combination."""
    timed = [row for row in rows if row["ms"] is not None and row["model_ms"] is not None]
    best = min(timed, key=lambda row: row["ms"])
    taken = min(timed, key=lambda row: row["place"])
    rank = correlation([(row["ms"], row["model_ms"]) for row in timed])
    flops = 2 * math.prod(sizes)
    lines = [
        f"{sizes}: best {best['config']} {flops / best['ms'] / 1e9:.0f} TFLOP/s, px.choose takes {taken['config']}: "
        f"{best['ms'] / taken['ms']:.3f} of its speed; rank correlation {rank:.2f}"
    ]
    for row in sorted(rows, key=lambda row: row["ms"] or math.inf):
        figures = " ".join("       -" if row[name] is None else f"{1e3 * row[name]:8.1f}" for name in ("ms", "model_ms"))
        lines.append(f"  {row['config']!s:24} {figures} us  {row['status']} {row['note']}".rstrip())
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="turns", help="a regime of px.tune")
    parser.add_argument("--json", type=Path, help="write the rows there")
    given = parser.parse_args()
    kernel = module_of("simple", "matmul").matmul
    kept = []
    speeds = []
    for sizes in SIZES:
        rows = measured(kernel, sizes, given.mode)
        print(told(sizes, rows), flush=True)
        kept.append({"sizes": sizes, "rows": rows})
        timed = [row for row in rows if row["ms"] is not None and row["model_ms"] is not None]
        speeds.append(min(row["ms"] for row in timed) / min(timed, key=lambda row: row["place"])["ms"])
    print(f"speed of px.choose's combination, of the best: mean {statistics.fmean(speeds):.3f}, worst {min(speeds):.3f}")
    if given.json:
        given.json.write_text(json.dumps({"mode": given.mode, "sizes": kept}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
