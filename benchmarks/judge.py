"""What is asked of shapes that nobody chose, line by line, beside what was measured.

    python benchmarks/judge.py                                   of the files in benchmarks/results
    python benchmarks/judge.py --folder out --run                on an H200: measures all of it first, some 25 minutes
    python benchmarks/judge.py --folder out --run matmul fp8     these parts alone; the table has what the folder has

Shapes are drawn from the seeds 0, 1, 2 and the first eight digits of the commit that is measured (`PHALANX_COMMIT` where
there is no repository): its author can't have fitted anything to them. A later commit has other shapes, so that all of it is
measured again; below the table stand the commits that its files are of. The exit code is 1 unless every line is met.

A ratio is the time of the fastest of torch's ways, of cuBLAS or of a device copy over ours; `anywhere.py`, `gemm.py` and
`host_calls.py` say how each is measured. Those of few rows have nothing in L2.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.common.machine import BEHIND, commit
from benchmarks.drawn.draws import INDICES, ROWS
from phalanx.runtime.device.timing import geometric_mean

HERE = Path(__file__).resolve().parent
DRAWN = ("matmul", "steady1", "steady2", "fp8", "grouped", "gathered", "batched", "few_rows", "rows", "index")
"""Of `anywhere_*.json`. Where they are kept, steady cases stand with the others of `matmul`."""
REPEATED, MOST_REPEATED, NEW, RUNS = 1.0, 1.4, 60.0, 5
"""A repeated call in torch's time, in the mean and at the most; microseconds of one with a new shape; in so many runs."""


@dataclass(frozen=True)
class Asked:
    """A line: so many cases of an operation in a regime, their geometric mean and the worst at least, and the share below
    0.95 at most. What has fewer columns than `columns` counts in the mean alone."""

    op: str
    mode: str
    cases: int
    mean: float
    worst: float | None = None
    behind: float | None = None
    columns: int = 0


GATHERED = "moe_gather_matmul"
"""Rows by index are gathered first by torch, which then has `grouped_mm`."""
ASKED = (
    Asked("matmul", "burst", 240, 1.04, 0.85, 0.05),
    Asked("matmul", "steady", 240, 1.02, 0.85, 0.05),
    *(Asked(op, "burst", 32, 1.03, 0.85) for op in ("fp8", "grouped", GATHERED, "batched")),
    Asked("few_rows", "cold", 60, 1.10, 0.93),
    *(Asked(op, "burst", 20, 0.90, 0.80, columns=256) for op in ROWS[:4]),
    Asked("cross_entropy", "burst", 20, 0.85),
    *(Asked(op, "burst", 20, 1.05, 0.98) for op in INDICES[:2]),
    *(Asked(op, "burst", 20, 1.5, 1.0) for op in INDICES[2:]),
)
LARGE, ROUNDS = Asked("six large", "steady", 6, 1.015, 0.99), 15
"""`px.kernels.matmul` against cuBLAS, the medians of at least so many rounds."""


@dataclass(frozen=True)
class Verdict:
    """A line as it is shown; `found` is what was measured, each figure with what is asked of it."""

    title: str
    found: str
    said: str


def verdict(asked: Asked, rows: list[dict[str, Any]]) -> Verdict:
    """What the rows of an operation in a regime show."""
    title = f"{asked.op}, {asked.mode}"
    wrong = sum("ratio" not in row for row in rows)
    if wrong:
        return Verdict(title, f"{wrong} of {len(rows)} cases have a wrong result", "WRONG")
    if len(rows) < asked.cases:
        return Verdict(title, f"{len(rows)} of {asked.cases} cases", "missing")
    ratios = [row["ratio"] for row in rows]
    mean = geometric_mean(ratios)
    met, shown = [mean >= asked.mean], [f"mean {mean:.3f} (asked {asked.mean})"]
    counted = [row["ratio"] for row in rows if row.get("sizes", {}).get("columns", asked.columns) >= asked.columns]
    least = f"lowest {min(counted):.3f}"
    if asked.worst is not None:
        met.append(min(counted) >= asked.worst)
        least += f" (asked {asked.worst})"
    shown.append(least)
    if asked.behind is not None:
        share = sum(ratio < BEHIND for ratio in ratios) / len(ratios)
        met.append(share <= asked.behind)
        shown.append(f"{share:.1%} below {BEHIND} (asked {asked.behind:.0%})")
    return Verdict(f"{title}, {len(rows)}", ", ".join(shown), "met" if all(met) else "SHORT")


def host_verdicts(runs: list[dict[str, dict[str, Any]]]) -> Iterator[Verdict]:
    """What files of `host_calls.py` show: of each function the median over runs, since a host's clock swings by half."""
    functions = [name for name in runs[0] if all(name in each for each in runs)] if runs else []
    ratios = {name: medians(runs, name, "ratio") for name in functions if "ratio" in runs[0][name]}
    fresh = {name: medians(runs, name, "new_us") for name in functions}
    if not ratios:
        yield Verdict("host", "no run beside torch", "missing")
        return
    said = "missing" if len(runs) < RUNS else "met"
    counted = f"{len(runs)} runs" + ("" if said == "met" else f" of {RUNS}")
    mean, most = geometric_mean(list(ratios.values())), max(ratios, key=lambda name: ratios[name])
    found = f"mean {mean:.2f} of torch's time (asked {REPEATED}), {most} {ratios[most]:.2f} (asked {MOST_REPEATED})"
    short = mean > REPEATED or ratios[most] > MOST_REPEATED
    yield Verdict("host, repeated", f"{found}, {counted}", "SHORT" if short else said)
    slowest = max(fresh, key=lambda name: fresh[name])
    each = ", ".join(f"{run[slowest]['new_us']:.1f}" for run in runs)
    middle = statistics.median(fresh.values())
    found = f"{slowest} {fresh[slowest]:.1f} us (asked {NEW:.0f}; {each}), {middle:.1f} the median one"
    short = fresh[slowest] > NEW and said == "met"  # too few runs say nothing where it is close
    yield Verdict("host, new shapes", f"{found}, {counted}", "SHORT" if short else said)


def medians(runs: list[dict[str, dict[str, Any]]], name: str, field: str) -> float:
    """The median over runs of a figure of a function."""
    return statistics.median([run[name][field] for run in runs])


def judge(folder: Path) -> tuple[list[Verdict], dict[str, list[str]]]:
    """All lines, and the commits that their files are of."""
    drawn_files = [folder / f"anywhere_{part}.json" for part in DRAWN]
    files = [*drawn_files, folder / "gemm_steady.json", *sorted(folder.glob("host_calls*.json"))]
    used = {path.stem: json.loads(path.read_text()) for path in files if path.exists()}
    drawn = [row for path in drawn_files if path.stem in used for row in used[path.stem]["rows"]]
    found = [verdict(asked, [row for row in drawn if (row["op"], row["mode"]) == (asked.op, asked.mode)]) for asked in ASKED]
    large = [row for row in used.get("gemm_steady", {"rows": []})["rows"] if row["contender"] == "matmul"]
    found.append(verdict(LARGE, [row for row in large if row["mode"] == "steady" and len(row["ms"]) >= ROUNDS]))
    found += host_verdicts([data["calls"] for name, data in used.items() if name.startswith("host_calls")])
    commits: dict[str, list[str]] = {}
    for name, data in used.items():
        commits.setdefault(data["machine"]["commit"], []).append(name)
    return found, commits


def commands(folder: Path, seed: str) -> dict[str, list[str]]:
    """The command of each part, which writes a file of the folder."""
    every = ["0", "1", "2", seed]

    def anywhere(name: str, ops: tuple[str, ...], seeds: list[str], count: int, *more: str) -> list[str]:
        drawn = ["--op", *ops, "--seed", *seeds, "--count", str(count), "--processes", "15"]
        return ["drawn.anywhere", *drawn, *more, "--json", str(folder / f"anywhere_{name}.json")]

    burst, steady = ("--modes", "burst", "--rest", "0.03"), ("--modes", "steady", "--rounds", "2")
    large = ["--rungs", "matmul", "--burst-rungs", "matmul", "--peers", "cublas", "--modes", "steady"]
    return {
        "matmul": anywhere("matmul", ("matmul",), every, 60, *burst),
        "few_rows": anywhere("few_rows", ("few_rows",), every, 15, "--modes", "cold"),
        **{op: anywhere(op, (op,), every, 8, *burst) for op in ("fp8", "grouped", "batched")},
        "gathered": anywhere("gathered", (GATHERED,), every, 8, *burst),
        "rows": anywhere("rows", ROWS, [seed], 20, *burst),
        "index": anywhere("index", INDICES, [seed], 20, *burst),
        **{f"host{n}": ["host_calls", "--json", str(folder / f"host_calls_run{n}.json")] for n in range(1, RUNS + 1)},
        "large": ["products.gemm", *large, "--steady-rounds", str(ROUNDS), "--json", str(folder / "gemm_steady.json")],
        "steady1": anywhere("steady1", ("matmul",), every[:2], 60, *steady),
        "steady2": anywhere("steady2", ("matmul",), every[2:], 60, *steady),
    }


def digits_of(named: str) -> str:
    """The first eight hexadecimal digits of a commit, which are a seed; `SystemExit` where it is known by fewer."""
    found = re.match("[0-9a-f]{8}", named)
    if found is None:
        sys.exit(f"the commit is known as {named!r}; eight digits of it are a seed: PHALANX_COMMIT=$(git rev-parse HEAD)")
    return found[0]


def run(folder: Path, parts: list[str]) -> None:
    """Measures the parts one after another; what each prints goes into a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    known = commands(folder.resolve(), digits_of(commit()))
    for number, part in enumerate(parts or known):
        script, *options = known[part]
        print(f"{part}, {number + 1} of {len(parts or known)}: {script}", flush=True)
        start = time.monotonic()
        with (folder / f"{part}.log").open("w") as log:
            command = [sys.executable, "-m", f"benchmarks.{script}", *options]
            status = subprocess.run(command, cwd=HERE.parent, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
        failed = f", exit code {status}: see {log.name}" if status else ""
        print(f"    {time.monotonic() - start:.0f} s{failed}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the results; those that are kept, if not given")
    parser.add_argument("--run", nargs="*", choices=list(commands(Path(), "0")), help="measure these parts first, or all")
    given = parser.parse_args()
    if given.run is not None:
        if given.folder is None:
            parser.error("--run needs --folder, where its results go: those that are kept are not written over")
        run(given.folder, given.run)
    found, commits = judge(given.folder or HERE / "results")
    for line in found:
        print(f"{line.title:30} {line.said:8} {line.found}")
    for named, files in commits.items():
        print(f"{named}: {', '.join(files)}")
    return 0 if all(line.said == "met" for line in found) else 1


if __name__ == "__main__":
    sys.exit(main())
