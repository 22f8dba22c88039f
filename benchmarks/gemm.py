"""Every rung of the GEMM ladder, px.kernels.matmul, Triton and TileLang against cuBLAS (through torch), in one
process, bf16, C = A @ B.T; the same as `phalanx bench gemm`, and a hand-written kernel besides.

The two numbers of a shape: 2 M N K operations against a ceiling of about 800 TFLOP/s on an H200 (989 at the boost
clock, less where power limits it), and (M K + N K + M N) x 2 bytes against 4.8 TB/s, which none of these shapes comes
near.

Regimes: "steady" runs each contender alone for 0.3 s and then times it for 0.35 s, with the energy of a launch, power and
clock beside it; "burst" runs blocks of 6 ms after a rest of 0.25 s, at the boost clock; "turns" runs blocks of 20 ms back
to back, where a contender pays for its neighbour's power; on request "cold", where L2 is flushed before each launch and
launches are timed one by one. In each round every contender runs once; a ratio is cuBLAS's time over the contender's in
the same round, and the table shows medians over rounds. Results are
compared with an f32 product first, each of our kernels once with its waits bounded, so that one that hangs is reported
and left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from phalanx.errors import Error
from phalanx.runtime.device.timing import MODES
from phalanx.tools.bench.contenders import OURS
from phalanx.tools.bench.device import TorchDevice
from phalanx.tools.bench.gemm import BURST_OURS, DEFAULT_MODES, ROUNDS, GemmBench, Options, energy_table, table
from phalanx.tools.bench.peers import PEERS
from phalanx.tools.bench.plot import plot_gemm
from phalanx.tools.bench.results import save, stamp
from phalanx.tools.bench.shapes import LARGE, read_shapes


def reference(path: Path):
    from reference_gemm import Reference

    return Reference(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rungs", nargs="*", default=list(OURS), help="v6, v6:STAGES=3,GROUP=4, or matmul")
    parser.add_argument("--burst-rungs", nargs="*", default=list(BURST_OURS))
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--reference", type=Path, help="a hand-written kernel to compare with (see reference_gemm.py)")
    parser.add_argument("--shapes", type=Path, help="a file with M N K per line, CSV or JSON (see benchmarks/shapes)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--burst-rounds", type=int, default=MODES["burst"].rounds)
    parser.add_argument("--steady-rounds", type=int, default=MODES["steady"].rounds)
    parser.add_argument("--modes", nargs="*", default=list(DEFAULT_MODES), choices=list(MODES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, nargs="*", default=[], help="pictures to draw: gemm.png gemm.svg")
    given = parser.parse_args()
    shapes = LARGE if given.shapes is None else read_shapes(given.shapes)
    others = [lambda: reference(given.reference)] if given.reference is not None else []
    options = Options(
        shapes, given.rungs, given.burst_rungs, given.peers, given.modes, given.rounds, given.burst_rounds,
        given.steady_rounds, Path(__file__).resolve().parent.parent / "examples" / "gemm", others,
    )
    results = GemmBench(options, TorchDevice()).run()
    save(given.json, results)
    if given.plot:
        plot_gemm({"machine": stamp(), **results}, given.plot)
    for mode in given.modes:
        print("\n".join(table(results["rows"], mode) + energy_table(results["rows"], mode)))


if __name__ == "__main__":
    try:
        main()
    except Error as error:
        sys.exit(str(error))
