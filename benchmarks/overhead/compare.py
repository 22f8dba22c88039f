"""Two checkouts against each other: what import, simulating, checking, compiling and launching cost, before and after.

    python -m benchmarks.overhead.compare ../before . --rounds 15

Every measurement is a fresh process with that checkout's own script and `src` (`import`: a process that imports NumPy, then
phalanx). In each round both run, in turns first; a figure is the median over the rounds, a ratio is the second checkout's
median over the first's, and of several figures of one script their geometric mean and the largest are shown. Each
process also tells the processor time that it took, which a busy machine disturbs less than its clock. `launch` needs a GPU.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.common import machine

IMPORT = """
import json, sys, time
import numpy
wall, cpu = time.perf_counter(), time.process_time()
import phalanx
json.dump({"import_s": time.perf_counter() - wall, "import_cpu_s": time.process_time() - cpu}, open(sys.argv[2], "w"))
"""
SCRIPTS: dict[str, list[str]] = {
    "import": ["-c", IMPORT],
    "sim": ["-m", "benchmarks.overhead.sim", "--repeats", "3"],
    "check": [
        "-m", "benchmarks.overhead.check", "softmax", "tma_copy", "cluster_exchange", "gemm/v3", "gemm/v6", "--repeats", "1",
    ],
    "compile": ["-m", "benchmarks.overhead.compile", "--repeats", "1"],
    "launch": ["-m", "benchmarks.overhead.launch", "--rounds", "9"],
}
"""Arguments of Python, to which `--json FILE` is added."""


def figures(found: Any, name: str = "") -> dict[str, float]:
    """The times of a results file, by their paths: keys that end with `_s` or stand under `median_us`."""
    if isinstance(found, dict):
        return {path: value for key, inner in found.items() for path, value in figures(inner, f"{name}/{key}").items()}
    last = name.rpartition("/")[2]
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return {path: value for n, row in enumerate(found) for path, value in figures(row, f"{name}/{n}").items()}
    if last.endswith("_s") and "floor" not in last:
        return {name: min(found) if isinstance(found, list) else float(found)}
    if "/median_us/phalanx" in name:
        return {name: float(found)}
    return {}


def run(checkout: Path, arguments: list[str], folder: Path) -> dict[str, float]:
    """One fresh process: what its script measured, and the processor time of the whole process."""
    file = folder / "result.json"
    cache = folder / f"cache-{checkout.resolve().name}"  # kernels are compiled anew only where the script asks for it
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src"), "PHALANX_CACHE_DIR": str(cache)}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "pyc")  # as after an installation: files are compiled once
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["OPENBLAS_NUM_THREADS"] = "1"  # threads that wait for work count as processor time
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments, "--json", str(file)], cwd=checkout, env=environment, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**figures(json.loads(file.read_text())), "processor time of the process": spent}


def main() -> None:
    parser = machine.arguments(__doc__, 15)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--scripts", nargs="*", default=["import", "sim", "check", "compile"], choices=list(SCRIPTS))
    options = parser.parse_args()
    kept: dict[str, list[list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as name:
        rounds = [(script, n) for n in range(options.rounds) for script in options.scripts]
        for script, n in track(rounds, "rounds"):
            pair: list[dict[str, float]] = [{}, {}]
            for side in ((0, 1), (1, 0))[n % 2]:
                pair[side] = run((options.before, options.after)[side], SCRIPTS[script], Path(name))
            kept.setdefault(script, []).append(pair)
    table = Table("script", "figures", "geometric mean", "largest", "which", "processor time")
    results = {}
    for script, pairs in kept.items():
        medians = [{path: statistics.median(pair[side][path] for pair in pairs) for path in pairs[0][0]} for side in (0, 1)]
        ratios = {path: medians[1][path] / medians[0][path] for path in medians[0]}
        spent = ratios.pop("processor time of the process")
        worst = max(ratios, key=lambda path: ratios[path])
        mean = statistics.geometric_mean(ratios.values())
        table.add_row(script, str(len(ratios)), f"{mean:.3f}", f"{ratios[worst]:.3f}", worst, f"{spent:.3f}")
        shown = {"ratio": mean, "largest": ratios[worst], "which": worst, "processor_time": spent}
        results[script] = {**shown, "ratios": ratios}
    Console(width=140).print(table)
    if options.json:
        options.json.write_text(json.dumps({"rounds": options.rounds, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
