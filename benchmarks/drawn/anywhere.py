"""Shapes that nobody chose: draws calls of a library function and times them against the fastest of torch's ways.

    python -m benchmarks.drawn.anywhere --op matmul --seed 0 --count 60 --modes burst steady

`drawn/draws.py` says what is drawn. Every call is first compared with torch's result; a wrong one has no time. A ratio is
the time of the fastest of torch's ways over ours, the median over rounds of each; the table gives the geometric mean, the
five worst and the share below 0.95. Calls below `SHORT` ms are timed as CUDA graphs, since a host needs longer for a launch
than they take; but not beside a copy, which in a graph takes half as long again.

`--processes 15` deals the cases to so many processes: each traces and compiles its own, and one at a time has the GPU, on
which nothing else runs meanwhile but what makes indices. So a table takes little more than the time of its launches.
`--seconds` ends it; cases that are left are missing. Steady, every other case begins with torch's ways.

The two numbers of a case are in its row: operations over time, and bytes (each operand read once, the result written once)
over time; an H200 gives about 800 TFLOP/s in bf16 at the boost clock and 4.3 TB/s.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import machine
from benchmarks.common.device import TorchDevice
from benchmarks.drawn.compile import compile_all, prepare
from benchmarks.drawn.contests import Contest, Run
from benchmarks.drawn.draws import DRAWS, Case, drawn, op_of, seed_of
from benchmarks.drawn.models import CONTESTS
from phalanx.runtime.device.power import Meter, NoMeter, Reading, median_reading
from phalanx.runtime.device.timing import MODES, geometric_mean, take_turns

SHORT = 0.1
GRAPHED = 20


def beside_copy(contest: Contest) -> bool:
    """Whether the other side only moves bytes."""
    return next(iter(contest.theirs)).startswith("copy")


def distance(contest: Contest) -> float:
    """How far our first result is from torch's, relative to its largest element; 0 beside a copy, unless it is no number."""
    theirs = next(iter(contest.theirs.values()))
    mine = contest.ours()
    if beside_copy(contest):
        torch.cuda.synchronize()
        return 0.0 if bool(torch.isfinite(mine.float()).all()) else float("inf")
    want = theirs()
    torch.cuda.synchronize()
    step = 1 << 26
    mine, want = mine.reshape(-1), want.reshape(-1)
    largest = max(float(want[i : i + step].float().abs().max()) for i in range(0, want.numel(), step))
    starts = range(0, want.numel(), step)
    parts = (float((mine[i : i + step].float() - want[i : i + step].float()).abs().max()) for i in starts)
    return max(parts) / max(largest, 1e-30)


def measure(case: Case, modes: list[str], rounds: int | None, rest: float | None, last: bool) -> list[dict[str, Any]]:
    """A row for each mode, or one that says what went wrong; `last`: where each runs alone for long, ours begins behind
    torch's ways, since who runs first finds a cooler card."""
    contest = CONTESTS[case.op](case)
    error = distance(contest)
    if not error <= contest.tolerance:
        return [{"case": str(case), "mode": mode, "wrong": error} for mode in modes]
    device = TorchDevice()
    runs: dict[str, Run] = {"ours": contest.ours, **contest.theirs}
    rows = []
    for mode in modes:
        cold, per, timed = MODES[mode].flushes, 1, runs
        if not cold and not beside_copy(contest) and device.milliseconds(contest.ours, 5) < SHORT:
            timed, per = {name: machine.graphed(run, GRAPHED) for name, run in runs.items()}, GRAPHED
        clock = device.cold_milliseconds if cold else device.milliseconds
        regime = MODES[mode] if rest is None or not MODES[mode].rest_s else replace(MODES[mode], rest_s=rest)
        if regime.alone_ms and last:
            timed = dict(reversed(timed.items()))
        readings: list[tuple[str, Reading]] = []
        meter, unmetered = _meter(device) if regime.alone_ms else (None, {})
        observe = lambda *seen, to=readings: to.append(seen)  # noqa: E731
        times = take_turns(timed, clock, regime, rounds=rounds, meter=meter, observe=observe)
        middle = {name: statistics.median(took) / per for name, took in times.items()}
        fastest = min(contest.theirs, key=lambda name: middle[name])
        ms = middle["ours"]
        rows.append({
            "case": str(case), "sizes": case.sizes, "dtype": case.dtype, "mode": mode, "ms": ms,
            "ratio": middle[fastest] / ms, "against": fastest, "tflops": contest.flops / ms / 1e9,
            "gbs": contest.nbytes / ms / 1e6, "error": error,
            **energy_of(readings, fastest, per, contest.flops, ms, device.sms), **unmetered,
        })
    return rows


def _meter(device: TorchDevice) -> tuple[Meter | None, dict[str, str]]:
    """What reads the card's energy; or why there is none, as a row says it."""
    try:
        return device.meter(), {}
    except NoMeter as reason:
        return None, {"unmetered": str(reason)}


def energy_of(
    readings: list[tuple[str, Reading]], fastest: str, per: int, flops: float, ms: float, sms: int
) -> dict[str, float | None]:
    """What a row says of energy: joules of a call of ours and theirs, watts, clock, FLOP per cycle per SM of ours."""
    ours, theirs = (median_reading([found for who, found in readings if who == name]) for name in ("ours", fastest))
    if ours is None or theirs is None:
        return {}
    return {
        "joules": ours.joules and ours.joules / per, "their_joules": theirs.joules and theirs.joules / per,
        "watts": ours.watts, "megahertz": ours.megahertz,
        "flop_per_cycle_per_sm": ours.flops_per_cycle(flops, ms, sms) if flops else None,
    }


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """For each mode: the geometric mean, the worst five, the share below 0.95, and what went wrong."""
    lines = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        mine = sorted((row for row in rows if row["mode"] == mode and "ratio" in row), key=lambda row: row["ratio"])
        if mine:
            ratios = [row["ratio"] for row in mine]
            behind = sum(ratio < machine.BEHIND for ratio in ratios) / len(ratios)
            lines.append(
                f"{mode}: {len(mine)} cases, geometric mean {geometric_mean(ratios):.3f}, worst {ratios[0]:.3f}, "
                f"{behind:.0%} below {machine.BEHIND}"
            )
            joules = [row["their_joules"] / row["joules"] for row in mine if row.get("joules") and row.get("their_joules")]
            if joules:
                lines.append(f"    energy of torch's way over ours: geometric mean {geometric_mean(joules):.3f}")
            lines += [f"    {row['ratio']:.3f}  {row['case']}  ({1e3 * row['ms']:.1f} us)" for row in mine[:5]]
            reasons = dict.fromkeys(row["unmetered"] for row in mine if "unmetered" in row)
            lines += [f"    no energy: {why}" for why in reasons]
        lines += [f"    WRONG  {row['case']}: {row['wrong']}" for row in rows if row["mode"] == mode and "wrong" in row]
    return lines


def measure_all(given: argparse.Namespace, ends: float) -> list[dict[str, Any]]:
    """The rows of all cases, or of this process's share, which waits for the GPU before each."""
    cases = [
        (op, seed, number, drawn(op, seed_of(seed), number + 1)[number])
        for seed in given.seed
        for number in range(given.count)
        for op in given.op
    ]
    share, shares = given.share
    rows: list[dict[str, Any]] = []
    for op, seed, number, case in cases[share::shares]:
        if time.monotonic() > ends:
            break
        try:
            if given.lock is not None:
                prepare(case)
            with alone(given.lock):
                found = measure(case, given.modes, given.rounds, given.rest, number % 2 > 0)
                torch.cuda.empty_cache()
        except Exception as problem:
            traceback.print_exc(limit=2)
            found = [{"case": str(case), "mode": mode, "wrong": repr(problem)[:200]} for mode in given.modes]
        rows += [{"op": op, "seed": seed, "number": number, **row} for row in found]
        shown = ", ".join(f"{row['mode']} {row.get('ratio', float('nan')):.3f}" for row in found)
        print(f"{op} {seed}/{number}: {case}: {shown}", flush=True)
        if given.lock is None:
            machine.save(given.json, {"rows": rows})
        else:
            given.json.write_text(json.dumps({"rows": rows}))
    return rows


@contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """The GPU for this process alone, among those that ask for the same file."""
    if lock is None:
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            torch.cuda.synchronize()
            fcntl.flock(file, fcntl.LOCK_UN)


def by_processes(given: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of all cases, by several processes with a share each."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.drawn.anywhere"]
        command += ["--op", *given.op, "--seed", *given.seed, "--count", str(given.count)]
        command += ["--modes", *given.modes, "--lock", f"{folder}/lock", "--seconds", str(given.seconds)]
        for option in ("rounds", "rest"):
            if getattr(given, option) is not None:
                command += [f"--{option}", str(getattr(given, option))]
        files = [Path(folder) / f"{share}.json" for share in range(given.processes)]
        processes = [
            subprocess.Popen([*command, "--json", str(file), "--share", str(share), str(given.processes)])
            for share, file in enumerate(files)
        ]
        for process in processes:
            process.wait()
        rows = [row for file in files if file.exists() for row in json.loads(file.read_text())["rows"]]
    return sorted(rows, key=lambda row: (given.op.index(row["op"]), given.seed.index(row["seed"]), row["number"]))


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--op", nargs="+", type=op_of, default=["matmul"], choices=list(DRAWS))
    parser.add_argument("--seed", nargs="+", default=["0"], help="numbers, or hexadecimal digits of a commit")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--modes", nargs="+", default=["burst", "steady"], choices=list(MODES))
    parser.add_argument("--rounds", type=int, help="of every mode; its own number by default")
    parser.add_argument("--rest", type=float, help="seconds before a block, where the mode rests")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no case is begun")
    parser.add_argument("--processes", type=int, default=1, help="that share the cases, and take turns at the GPU")
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1), help=argparse.SUPPRESS)
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # copies of operands that lie badly are part of the time
    if given.processes > 1:
        rows = by_processes(given)
        machine.save(given.json, {"rows": rows})
    else:
        if given.lock is None:
            compile_all(given.op, given.seed, given.count)
        rows = measure_all(given, time.monotonic() + given.seconds)
        if given.lock is not None:
            return
    for op in given.op:
        print(f"\n{op}, seeds {', '.join(given.seed)}")
        print("\n".join(summary([row for row in rows if row["op"] == op])))


if __name__ == "__main__":
    main()
