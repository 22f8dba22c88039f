"""A picture of drawn calls: for each operation and regime a dot for every shape, a bar at the geometric mean.

    python -m benchmarks.drawn.plot --out benchmarks/results/drawn.svg

of the files of `judge.py`, which `--folder` names, the kept ones by default.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from benchmarks.common.plots import pyplot
from benchmarks.judge import ASKED, DRAWN, HERE
from phalanx.runtime.device.timing import geometric_mean

COLOURS = {"burst": "#b2182b", "steady": "#105ba4", "cold": "#009e73"}
SHOWN = 0.75, 4.0
"""Ratios are drawn within these, on a logarithmic axis; what lies beyond stands at the edge."""


def plot(rows: list[dict[str, Any]], commits: list[str], target: Path) -> None:
    """Draws a line of dots for each operation in a regime, in the order in which `judge.py` asks for them."""
    plt = pyplot()
    lines = [(asked.op, asked.mode) for asked in ASKED]
    found = {line: [row["ratio"] for row in rows if (row["op"], row["mode"]) == line and "ratio" in row] for line in lines}
    lines = [line for line in lines if found[line]][::-1]
    figure, axes = plt.subplots(figsize=(11, 0.36 * len(lines) + 1.3), layout="constrained")
    axes.axvline(1.0, color="#767676", linewidth=1)
    jitter = random.Random(0)
    for place, (op, mode) in enumerate(lines):
        ratios = [min(max(ratio, SHOWN[0]), SHOWN[1]) for ratio in found[op, mode]]
        heights = [place + jitter.uniform(-0.25, 0.25) for _ in ratios]
        axes.plot(ratios, heights, "o", color=COLOURS[mode], markersize=2.5, alpha=0.6)
        mean = geometric_mean(found[op, mode])
        axes.plot([mean, mean], [place - 0.4, place + 0.4], color="#000000", linewidth=1.5)
        said = f"{mean:.2f}, lowest {min(found[op, mode]):.2f}, of {len(ratios)}"
        axes.annotate(said, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    axes.set_xscale("log")
    ticks = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(SHOWN[0] * 0.98, SHOWN[1] * 1.02)
    axes.set_yticks(range(len(lines)), [f"{op}, {mode}" for op, mode in lines], fontsize=8)
    said = "speed relative to torch's fastest way, or (rows) to the device copy; geometric mean: the bar"
    axes.set_xlabel(said, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"Drawn shapes, one NVIDIA H200, commit {', '.join(commits)}", fontsize=10)
    figure.savefig(target, **({"metadata": {"Date": None}} if target.suffix == ".svg" else {"dpi": 110}))
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, required=True, help="a picture, by its ending .svg or .png")
    given = parser.parse_args()
    files = [given.folder / f"anywhere_{part}.json" for part in DRAWN]
    data = [json.loads(file.read_text()) for file in files if file.exists()]
    rows = [row for each in data for row in each["rows"]]
    plot(rows, list(dict.fromkeys(each["machine"]["commit"] for each in data)), given.out)


if __name__ == "__main__":
    main()
