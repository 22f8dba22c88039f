"""All GPU tests side by side: collected, dealt to processes, and one summary with card, driver, date and commit.

    PYTHONPATH=src python benchmarks/gpu_tests.py --jobs 14 --limit 400 --out gpu_tests.txt

Most of a GPU test is the compiler's time, so that as many processes as there are cores share the one GPU well. No plug-in of
pytest is needed. A process that is not done by the limit is ended, and its tests count as not run. Exit code 1 where a
test failed or did not run.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.common.machine import stamp

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def collected(chosen: list[str], keyword: str) -> list[str]:
    """The names of all tests, file after file."""
    command = [*PYTEST, "--collect-only", *(["-k", keyword] if keyword else []), *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = [line for line in done.stdout.splitlines() if "::" in line]
    if not names:
        sys.exit(done.stdout + done.stderr)
    return names


def dealt(names: list[str], jobs: int) -> list[list[str]]:
    """The tests as hands of cards: neighbours, which take about as long, go to different processes."""
    return [hand for hand in (names[n::jobs] for n in range(jobs)) if hand]


def run_all(hands: list[list[str]], limit: float, folder: Path) -> list[str]:
    """What each process printed."""
    running = []
    for number, hand in enumerate(hands):
        log = folder / f"hand{number}.txt"
        arguments = folder / f"hand{number}.args"
        arguments.write_text("\n".join(hand))
        with log.open("w") as file:
            command = [*PYTEST, "-vv", "--tb=short", f"@{arguments}"]
            running.append((subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT), log))
    end = time.monotonic() + limit
    for process, _ in running:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return [log.read_text() for _, log in running]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests/gpu"])
    parser.add_argument("-k", dest="keyword", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--limit", type=float, default=500, help="seconds")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    start = time.monotonic()
    names = collected(given.tests, given.keyword)
    with tempfile.TemporaryDirectory() as folder:
        texts = run_all(dealt(names, given.jobs), given.limit, Path(folder))
    outcomes: dict[str, str] = {}
    for text in texts:
        for line in text.splitlines():
            found = re.match(r"(tests/\S+?::.*?) (PASSED|FAILED|ERROR|SKIPPED)", line)
            if found:
                outcomes[found[1]] = found[2].lower()
    by_file: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name in names:
        by_file[name.partition("::")[0]][outcomes.get(name, "not run")] += 1
    machine = stamp()
    where = f"{machine.get('card', 'no GPU')}, driver {machine.get('driver')}, {machine['date']}, commit {machine['commit']}"
    lines = [f"{where}: {len(names)} tests in {time.monotonic() - start:.0f} s, {given.jobs} processes"]
    for file, counts in by_file.items():
        lines.append(f"{Path(file).name:32}" + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    bad = [name for name in names if outcomes.get(name) not in ("passed", "skipped")]
    lines += [f"{outcomes.get(name, 'not run')}: {name}" for name in bad[:60]]
    summary = "\n".join(lines)
    if given.out:
        given.out.write_text(summary + "\n")
        given.out.with_suffix(".log").write_text("\n\n".join(texts))
    print(summary)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
