"""`python -m fuzz KIND --count N --seed S`: random cases of a kind with progress; exit code 1 where one went wrong.

Cases are numbered by their seeds, S to S + N - 1. A run that was interrupted says with which `--seed` it goes on; a case
that went wrong is written to a file, and runs again alone with its seed and `--count 1`.
"""

from __future__ import annotations

import argparse
import collections
import math
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fuzz.batches import batches, outcomes
from fuzz.outcomes import Options, Outcome

KINDS = {
    "tiles": "random tile kernels: simulator, text on the host, GPU",
    "choreography": "random rings, multicasts, pushes, reductions, products: simulator, checks, GPU",
    "role_copies": "the choreographies with alike roles, as copies and one by one: counts, checks, results, mistakes",
    "tensor": "random products on Blackwell's tensor cores: simulator, checks, text on the host, mistakes",
    "pipelines": "random loops that pipeline themselves: as written, pipelined, by NumPy, checks, GPU",
    "flights": "random products of operands made in registers under others in flight: simulator, checks, code, host, GPU",
    "signals": "random programs of barriers: checks against exploration of every order",
    "handovers": "random programs of commits, polls, atomics and counters: checks against exploration of every order",
    "sources": "mutated sources of valid kernels: clean errors, findings or success",
}


EVERY = 20
"""Seconds between two words on how far a run is, where nobody looks at a bar."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS), help="\n".join(f"{k}: {v}" for k, v in KINDS.items()))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--gpu", action="store_true", help="run on the GPU too")
    parser.add_argument("--no-host", action="store_true", help="leave out the text on the host")
    parser.add_argument("--sanitize", action="store_true", help="the text on the host under the sanitizers of the compiler")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no case begins after so many")
    parser.add_argument("--folder", type=Path, help="where cases that went wrong are written")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="phalanx-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    options = Options(given.gpu, not given.no_host, given.sanitize, folder)

    console = Console(stderr=True)
    seen: collections.Counter[str] = collections.Counter()
    wrong: list[Outcome] = []
    reached, start = given.seed, time.monotonic()
    told = start
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(given.kind, total=given.count)
            for batch in outcomes(batches(given.kind, given.seed, given.count, options), given.jobs, given.seconds):
                for outcome in batch:
                    seen[outcome.verdict] += 1
                    reached = outcome.seed + 1
                    if outcome.problem is not None:
                        wrong.append(outcome)
                        (folder / f"{given.kind}-{outcome.seed}.txt").write_text(outcome.problem)
                        progress.print(f"seed {outcome.seed}: {outcome.problem.splitlines()[0]}")
                progress.update(task, completed=reached - given.seed)
                if not console.is_terminal and time.monotonic() > told + EVERY:
                    told = time.monotonic()
                    print(f"{given.kind}: up to seed {reached - 1}, {len(wrong)} went wrong", flush=True)
    except KeyboardInterrupt:
        pass
    if left := given.seed + given.count - reached:
        console.print(f"stopped; goes on with --seed {reached} --count {left}")
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in seen.most_common())
    took = time.monotonic() - start
    print(f"{given.kind}: seeds {given.seed} to {reached - 1} in {took:.0f} s: {verdicts}; {len(wrong)} went wrong")
    if wrong:
        print(f"seeds {' '.join(str(outcome.seed) for outcome in wrong[:40])}; their stories are in {folder}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
