"""Fits what whole kernels reach of a card's measured rates: `machines/h200_corrections.json`, without a GPU.

    python -m benchmarks.fit_time            prints the factors, beside those in use
    python -m benchmarks.fit_time --write    writes the file

A probe of `phalanx calibrate` reaches a rate with nothing else going on; a kernel reaches less of it, for what the model
leaves out: clocks that fall with power, dependences between instructions, registers. One factor for each such rate, each
fitted to recorded launches of its own (`benchmarks.timeline.FITTED`, which judges leave out), until none changes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.timeline import EXAMPLES, FITTED, KINDS, Case
from phalanx.machines.rates import FOLDER, measured_rates, rates_of, text_of

CARD = "h200"
FILE = FOLDER / f"{CARD}_corrections.json"
DECIDED_BY = {"tensor_rate": ("gemm v6 4096,4096,4096",), "issue_share": ("attention v0 full", "attention v1 full")}
"""Rates with a factor, and the launches that decide it: those that the rate bounds."""
LEAST, MOST = 0.3, 1.2
NEAR = 0.005
ROUNDS = 2


def cases_named(names: Sequence[str]) -> list[Case]:
    """Recorded launches by their names."""
    return [case for kind in ("gemm", "attention", "copy") for case in KINDS[kind]() if case.name in names]


def off(cases: Sequence[Case], factors: dict[str, float], folder: Path) -> float:
    """The mean of the logarithms of modelled over measured times, with these factors."""
    kept = json.loads(FILE.read_text())["factors"]
    card = measured_rates(CARD)
    changes: dict[str, Any] = {name: getattr(card, name) * value / kept.get(name, 1) for name, value in factors.items()}
    path = folder / ("_".join(f"{value:.5f}" for value in factors.values()) + ".json")
    path.write_text(text_of(replace(card, **changes)))
    os.environ["PHALANX_CARD"] = str(path)
    return math.fsum(math.log(case.trace().microseconds / case.measured) for case in cases) / len(cases)


def fitted(name: str, factors: dict[str, float], folder: Path) -> float:
    """The factor of one rate at which its launches take as long as they were measured, by halving."""
    cases = cases_named(DECIDED_BY[name])
    least, most = LEAST, MOST
    while most / least > 1 + NEAR:
        middle = math.sqrt(least * most)
        if off(cases, {**factors, name: middle}, folder) > 0:
            least = middle
        else:
            most = middle
    return round(math.sqrt(least * most), 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the file")
    given = parser.parse_args()
    sys.path[:0] = [str(EXAMPLES), str(Path(__file__).resolve().parents[1] / "tests")]
    kept = json.loads(FILE.read_text())["factors"]
    factors = dict(kept)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            before = dict(factors)
            for name in DECIDED_BY:
                factors[name] = fitted(name, factors, Path(folder))
                print(f"{name:16} {factors[name]:.3f} (in use: {kept.get(name, 1):.3f})", flush=True)
            if all(abs(factors[name] / before.get(name, 1) - 1) < 2 * NEAR for name in factors):
                break
    if given.write:
        source = f"python -m benchmarks.fit_time: {', '.join(FITTED)}"
        FILE.write_text(json.dumps({"source": source, "factors": factors}, indent=2) + "\n")
        rates_of.cache_clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
