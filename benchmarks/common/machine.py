"""What all benchmarks share: results files that say where they were made, a clock on the GPU, taking turns."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from phalanx.errors import Error
from phalanx.runtime.device.timing import Mode, in_turns, take_turns

Run = Callable[[], Any]
BEHIND = 0.95
"""A drawn shape whose ratio is lower counts as one that falls behind."""


def arguments(about: str | None, rounds: int | None = None) -> argparse.ArgumentParser:
    """A benchmark's options: `--json` (or `--out`) names the results file; `--rounds` is there where a number is given."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", "--out", type=Path, dest="json", help="the results file")
    return parser


def commit() -> str:
    """The commit of the checkout; `PHALANX_COMMIT` where there is no repository (a copied tree)."""
    if os.environ.get("PHALANX_COMMIT"):
        return os.environ["PHALANX_COMMIT"]
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True,
            cwd=ROOT,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def gpu() -> dict[str, Any]:
    """Card and driver, empty without a GPU."""
    try:
        line = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"],
            capture_output=True, text=True, check=True,
        ).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return {}
    name, driver, power = (part.strip() for part in line.split(","))
    return {"card": name, "driver": driver, "power_limit": power}


def stamp() -> dict[str, Any]:
    """Card, driver, date, commit, Python."""
    return {
        **gpu(),
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
    }


def save(path: Path | None, results: dict[str, Any]) -> None:
    """Writes a results file with its stamp."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": stamp(), **results}, indent=1) + "\n")


def load(path: Path) -> dict[str, Any]:
    """A results file with a stamp and rows."""
    try:
        data = json.loads(path.read_text())
        if isinstance(data["machine"], dict) and isinstance(data["rows"], list):
            return data
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise Error(f"{path} is no results file", remedy="name a JSON file that a benchmark wrote")


def milliseconds(run: Run, repeats: int) -> float:
    """Time per run on the GPU, by events around all of them."""
    import torch

    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / repeats


def graphed(run: Run, calls: int) -> Run:
    """So many calls as one CUDA graph, on a card that has seen the call before: launches without the host's time."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    return graph.replay


def medians(runs: dict[str, Run], rounds: int, repeats: int) -> dict[str, float]:
    """The median milliseconds of each, in turns of so many runs, in another order each round.

    A turn is long enough for what its predecessor left in the L2 cache not to matter.
    """
    for run in runs.values():
        run()
    times = in_turns(list(runs), rounds, lambda name: milliseconds(runs[name], repeats))
    return {name: sorted(values)[rounds // 2] for name, values in times.items()}


def alternate(runs: dict[str, Run], rounds: int, budget_ms: float) -> dict[str, float]:
    """The median milliseconds of each, measured in turns of about `budget_ms`."""
    times = take_turns(runs, milliseconds, Mode("block", budget_ms, 0.0, rounds))
    return {name: statistics.median(found) for name, found in times.items()}
