"""Which kernels of drawn calls spill registers, by the machine code that NVRTC makes of them. Needs no GPU.

    python -m benchmarks.drawn.spills --op matmul softmax --seed 7 --count 40

A kernel that spills moves registers through memory: in an epilogue that costs some per cent, in a loop more than that. Calls
are drawn as for `anywhere.py`, so that nobody chose the configurations that are looked at; each kernel is compiled once. It
prints those that spill, with the first call that launches them; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks import ROOT

sys.path[:0] = [str(ROOT / folder) for folder in ("src", "tests")]

import phalanx as px
from benchmarks.drawn.draws import DRAWS, Case, op_of
from benchmarks.same_launches import Launches, allocate_nothing, call, cases_of


class Spilling(Launches):
    """What calls would launch, each with the bytes that its machine code spills in the place of its text."""

    def told(self, launch: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> str:
        return str(px.compile(launch, *args, arch="sm_90a", **constants).spills)


def spilling(cases: dict[str, Case]) -> tuple[int, list[str]]:
    """How many kernels calls launch, and a line for each that spills, and for each call that fails."""
    from support.fake_torch import fake_torch_gpu

    launches, seen, lines = Spilling(), set[str](), []
    with fake_torch_gpu() as torch:
        allocate_nothing(torch)
        for name, case in cases.items():
            try:
                found = launches.of(lambda case=case: call(case, px.kernels, torch))
            except px.Error as problem:
                lines.append(f"{name}: {problem.message}")
                continue
            for kernel, _, constants, _, spills in found:
                if int(spills) and (line := f"{kernel} {constants}") not in seen:
                    seen.add(line)
                    lines.append(f"{spills:>5} bytes a thread: {line}\n      {name}")
    return len(launches.texts), lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", nargs="+", type=op_of, default=list(DRAWS), choices=list(DRAWS))
    parser.add_argument("--seed", nargs="+", default=["0"])
    parser.add_argument("--count", type=int, default=20, help="cases of each operation and seed")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    failed = False
    with ProcessPoolExecutor(given.jobs) as processes:
        work = [cases_of([op], given.seed, given.count) for op in given.op]
        for op, (kernels, lines) in zip(given.op, processes.map(spilling, work)):
            print(f"{op:22} {kernels:4} kernels, {len(lines)} spill", flush=True)
            for line in lines:
                print(f"    {line}", flush=True)
            failed = failed or bool(lines)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
