"""`make demo`: one kernel (a ring of stages, two roles, a cluster of 2 with multicast) checked, simulated, compiled, run."""

from __future__ import annotations

import time

import numpy as np
from common import checked, gpu_mover
from multicast_copy import example
from rich.console import Console
from rich.table import Table

import phalanx as px


def main() -> None:
    console = Console()
    case = example(np.random.default_rng(0))
    console.print("[bold]multicast_copy[/bold]: two roles, a ring of 4 stages, multicast to a cluster of 2\n")

    start = time.perf_counter()
    report = px.check(case.launch, *case.args, **case.constants)
    report.raise_if_found()
    console.print(f"checked     {str(report).strip()}, in {1e3 * (time.perf_counter() - start):.0f} ms")

    start = time.perf_counter()
    case.run()
    console.print(f"simulated   right against NumPy, bit by bit, in {1e3 * (time.perf_counter() - start):.0f} ms")

    table = Table("target", "cubin", "registers", "spilled", "shared memory", "time")
    for arch in ("sm_90a", "sm_100a"):
        start = time.perf_counter()
        made = px.compile(case.launch, *case.args, arch=arch, **case.constants)
        spent = "from the cache" if made.from_cache else f"{time.perf_counter() - start:.2f} s"
        sizes = (f"{len(made.cubin)} bytes", str(made.registers), str(made.spills), f"{made.shared_bytes} bytes")
        table.add_row(arch, *sizes, spent)
    console.print("compiled")
    console.print(table)

    mover = gpu_mover()
    if mover is None:
        console.print("no GPU here (or no torch or CuPy to hold arrays): not run on one")
    else:
        case.run(*mover)
        console.print(f"ran on {px.device().name}: right against NumPy, bit by bit")

    console.print("\nThe count of every barrier and the bytes of every phase were worked out by the compiler:")
    for line in made.ir.splitlines():
        if "mbarrier.init" in line or "arrive_expect_tx" in line or "tma.load" in line or "mbarrier.arrive " in line:
            console.print("  " + line.strip(), highlight=False, markup=False, soft_wrap=True)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main()
