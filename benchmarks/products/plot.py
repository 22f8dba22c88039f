"""Plots of GEMM results: TFLOP/s and the ratio to cuBLAS for every shape and contender, a row for each mode.

    python -m benchmarks.products.plot results/gemm.json       # gemm.png and gemm.svg beside it
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.machine import load
from benchmarks.common.plots import pyplot
from benchmarks.products.peers import BASELINE
from phalanx.errors import Error
from phalanx.runtime.device.timing import geometric_mean

COLOURS = {"cublas": "#767676", "triton": "#e69f00", "tilelang": "#009e73", "reference": "#000000", "matmul": "#b2182b"}
LADDER = ("#d6e6f4", "#abcfe6", "#6aaed6", "#3787c0", "#1f6eb3", "#105ba4", "#08488e", "#08306b")


def colour_of(name: str) -> str:
    """Blue from light to dark up the ladder; peers in colours of their own."""
    base = name.partition(":")[0]
    if base in COLOURS:
        return COLOURS[base]
    step = int(base[1:]) if base[:1] == "v" and base[1:].isdigit() else 7
    return LADDER[min(step, len(LADDER) - 1)]


def plot_gemm(data: dict[str, Any], targets: Sequence[Path]) -> None:
    """Draws the rows of a results file into each target, by its ending (.png, .svg)."""
    plt = pyplot()
    modes = list(dict.fromkeys(row["mode"] for row in data["rows"]))
    if not modes:
        raise Error("there are no rows to plot", remedy="measure something first")
    figure, axes = plt.subplots(
        len(modes), 2, figsize=(15, 4.2 * len(modes) + 0.6), squeeze=False, width_ratios=(3, 2), layout="constrained"
    )
    for mode, (left, right) in zip(modes, axes, strict=True):
        rows = [row for row in data["rows"] if row["mode"] == mode]
        _speeds(left, rows, mode)
        _ratios(right, rows)
    machine = data["machine"]
    parts = [machine.get("card"), machine.get("driver") and f"driver {machine['driver']}", machine.get("date")]
    parts.append(machine.get("commit") and f"commit {machine['commit']}")
    figure.suptitle("bf16 GEMM, C = A Bᵀ, random data: " + ", ".join(part for part in parts if part))
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
        options = {"metadata": {"Date": None}} if target.suffix == ".svg" else {"dpi": 110}
        figure.savefig(target, **options)
    plt.close(figure)


def _names(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[tuple[int, ...]]]:
    names = list(dict.fromkeys(row["contender"] for row in rows))
    return names, list(dict.fromkeys(tuple(row["shape"]) for row in rows))


def _speeds(axes: Any, rows: Sequence[dict[str, Any]], mode: str) -> None:
    names, shapes = _names(rows)
    width = 0.84 / len(names)
    for number, name in enumerate(names):
        found = {tuple(row["shape"]): row["tflops"] for row in rows if row["contender"] == name}
        places = [index - 0.42 + (number + 0.5) * width for index, shape in enumerate(shapes) if shape in found]
        heights = [found[shape] for shape in shapes if shape in found]
        axes.bar(places, heights, width, color=colour_of(name), label=name)
    axes.set_xticks(range(len(shapes)), ["\n".join(map(str, shape)) for shape in shapes], fontsize=8)
    axes.set_ylabel("TFLOP/s")
    axes.set_title(mode, loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=min(len(names), 10), fontsize=7, loc="upper left", bbox_to_anchor=(0.12, 1.11), frameon=False)


def _ratios(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    """One line of dots a contender, its geometric mean beside; cuBLAS is the line at 1."""
    names, _ = _names(rows)
    names = [name for name in names if name != BASELINE][::-1]
    axes.axvline(1.0, color=COLOURS[BASELINE], linewidth=1)
    for place, name in enumerate(names):
        found = [row["ratio"] for row in rows if row["contender"] == name]
        axes.plot(found, [place] * len(found), "o", color=colour_of(name), markersize=5, alpha=0.75)
        mean = geometric_mean(found)
        axes.plot([mean, mean], [place - 0.3, place + 0.3], color=colour_of(name), linewidth=2)
        axes.annotate(f"{mean:.3f}", (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("speed relative to cuBLAS: a dot for each shape, a bar at the geometric mean", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def main(command: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a results file of benchmarks.products.gemm")
    parser.add_argument("--out", type=Path, help="the folder of the pictures; the file's own by default")
    given = parser.parse_args(command)
    folder = given.out or given.file.parent
    plot_gemm(load(given.file), [folder / f"{given.file.stem}.png", folder / f"{given.file.stem}.svg"])


if __name__ == "__main__":
    try:
        main()
    except Error as error:
        print(error, file=sys.stderr)
        sys.exit(2)
