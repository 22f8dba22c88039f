"""Every rung of the GEMM ladder, px.kernels.matmul, Triton and TileLang against cuBLAS (through torch), in one
process, bf16, C = A @ B.T; a hand-written kernel besides.

    python -m benchmarks.products.gemm --modes steady --rungs matmul --out results/gemm.json --plot results/gemm.svg

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

import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.device import TorchDevice
from benchmarks.common.machine import arguments, save, stamp
from benchmarks.common.plots import pyplot
from benchmarks.products.contenders import OURS, Contender, Missing, ours
from benchmarks.products.peers import BASELINE, PEERS, peer
from benchmarks.products.plot import plot_gemm
from benchmarks.products.shapes import LARGE, Shape, read_shapes
from phalanx.errors import Error
from phalanx.runtime.device.power import Meter, NoMeter, Reading, median_reading
from phalanx.runtime.device.timing import MODES, Run, geometric_mean, median_ratio, mode_named, take_turns

BURST_OURS = ("v5", "v6", "v7", "matmul", "reference")
CHECKS = ((512, 1024, 512), (768, 512, 1088), (2304, 2560, 192))
"""Shapes that each contender must get right first: whole tiles, and edges."""
TOLERANCE = 0.01
DEFAULT_MODES = ("steady", "burst", "turns")
ROUNDS = 31
"""In turns. On a card at its power limit, blocks of one kernel differ by 5%: a median of half as many is off by 1%."""


@dataclass
class Options:
    """What is measured."""

    shapes: Sequence[Shape] = LARGE
    rungs: Sequence[str] = OURS
    burst_rungs: Sequence[str] = BURST_OURS
    peers: Sequence[str] = PEERS
    modes: Sequence[str] = DEFAULT_MODES
    rounds: int = ROUNDS
    burst_rounds: int = MODES["burst"].rounds
    steady_rounds: int = MODES["steady"].rounds
    others: Sequence[Callable[[], Contender]] = ()
    """Makers of further contenders."""

    def __post_init__(self) -> None:
        for mode in self.modes:
            mode_named(mode, "benchmarks.products.gemm")
        for name in self.peers:
            if name not in PEERS:
                raise Error(
                    f"there is no peer {name!r}", remedy=f"the peers are {', '.join(PEERS)}"
                )

    def rounds_of(self, mode: str) -> int:
        """How many blocks of each contender are timed."""
        return {"burst": self.burst_rounds, "steady": self.steady_rounds}.get(mode, self.rounds)

    def takes_part(self, name: str, mode: str) -> bool:
        """Slow rungs are left out of bursts and of steady runs, which take long; peers never are."""
        return mode not in ("burst", "steady") or name in PEERS or name.partition(":")[0] in self.burst_rungs


@dataclass
class GemmBench:
    """One run of the benchmark on a device; `say` prints a line of progress."""

    options: Options
    device: Any
    say: Callable[[str], None] = lambda line: print(line, flush=True)
    rest: Callable[[float], None] = time.sleep
    errors: dict[str, float | str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    entries: dict[str, Contender] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    meter: Meter | None = None

    def begin(self) -> None:
        """Who takes part, and what reads the power, before anything is measured."""
        self.admit()
        if any(MODES[mode].alone_ms for mode in self.options.modes):
            try:
                self.meter = self.device.meter()
            except NoMeter as reason:
                self.note(f"no power, energy or clock: {reason}")

    def run(self) -> dict[str, Any]:
        """The content of a results file."""
        self.begin()
        for mode in self.options.modes:
            for shape in self.options.shapes:
                self.measure(mode, shape)
        return self.results

    @property
    def results(self) -> dict[str, Any]:
        """What was found so far."""
        return {"errors": self.errors, "notes": self.notes, "rows": self.rows}

    # Who takes part ----------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Checks each contender; one that is missing or wrong is noted and left out. cuBLAS is what ratios are against."""
        options = self.options
        others = [name for name in options.peers if name != BASELINE]
        timer = self.device.milliseconds
        makers: list[tuple[str, Callable[[], Contender]]] = [
            (BASELINE, partial(peer, BASELINE, timer)),
            *((text, partial(ours, text)) for text in options.rungs),
            *((name, partial(peer, name, timer)) for name in others),
        ]
        makers += [("", maker) for maker in options.others]
        for name, make in makers:
            began = time.perf_counter()
            try:
                entry = make()
                name = entry.name
                error = self.check(entry)
            except Missing as missing:
                self.note(f"{name}: not measured: {missing}")
                continue
            except Exception as problem:
                first = str(problem).strip().splitlines()[:1] or [type(problem).__name__]
                self.errors[name or "other"] = f"{type(problem).__name__}: {first[0]}"
                self.note(f"{name or 'other'}: LEFT OUT: {first[0]}")
                if not isinstance(problem, Error):
                    traceback.print_exc(limit=3)
                continue
            self.entries[name] = entry
            if name != BASELINE:
                self.errors[name] = error
            took = time.perf_counter() - began
            self.say(f"{name}: right, largest relative error {error:.1e}, {took:.1f} s")
        if BASELINE not in self.entries:
            raise Error(
                "cuBLAS could not be measured, and ratios are taken against it",
                details="\n".join(self.notes), remedy="check torch and the GPU",
            )

    def note(self, text: str) -> None:
        """Keeps a remark for the results, and says it."""
        self.notes.append(text)
        self.say(text)

    def check(self, entry: Contender) -> float:
        """The largest error over the shapes of `CHECKS` (or its own); first with bounded waits, then twice without."""
        worst = 0.0
        for m, n, k in getattr(entry, "checks", CHECKS):
            if not entry.fits(m, n, k):
                continue
            a, b, c = self.device.operands(m, n, k)
            want = self.device.product(a, b)
            watched = entry.watched(a, b, c)
            if watched is not None:  # first: preparing a launch may search settings, which launches too
                worst = max(worst, self.error_of(watched, c, want, Shape(m, n, k)))
            run = entry.launch(a, b, c)
            for _ in range(2):
                worst = max(worst, self.error_of(run, c, want, Shape(m, n, k)))
        return worst

    def error_of(self, run: Run, c: Any, want: Any, shape: Shape) -> float:
        """The largest relative error of one run; too large a one is an AssertionError."""
        self.device.blank(c)
        run()
        self.device.synchronize()
        error = self.device.difference(c, want)
        if not error <= TOLERANCE:
            raise AssertionError(f"relative error {error:.3g} for {shape}, {TOLERANCE} is allowed")
        return error

    # Measuring ---------------------------------------------------------------------------------------------

    def measure(self, mode: str, shape: Shape) -> None:
        """All contenders on one shape, in one regime; where it is long enough, with what each drew."""
        a, b, c = self.device.operands(*shape.sizes)
        want = self.device.product(a, b)
        runs: dict[str, Run] = {}
        errors: dict[str, float] = {}
        for name, entry in self.entries.items():
            wanted = name == BASELINE or (self.options.takes_part(name, mode) and shape.runs(name))
            if not wanted or not entry.fits(*shape.sizes):
                continue
            try:
                run = entry.launch(a, b, c)
                errors[name] = self.error_of(run, c, want, shape)
                runs[name] = run
            except Exception as problem:
                first = str(problem).strip().splitlines()[:1] or [type(problem).__name__]
                self.note(f"{mode} {shape}: {name} LEFT OUT: {first[0]}")
        del want
        if BASELINE not in runs:
            return
        timer = self.device.cold_milliseconds if MODES[mode].flushes else self.device.milliseconds
        drawn: dict[str, list[Reading]] = {name: [] for name in runs}
        try:
            times = take_turns(
                runs, timer, MODES[mode], rounds=self.options.rounds_of(mode), rest=self.rest,
                meter=self.meter if MODES[mode].alone_ms else None,
                observe=lambda name, reading: drawn[name].append(reading),
            )
        except Exception as problem:
            self.note(f"{mode} {shape}: LEFT OUT: {problem}")
            return
        m, n, k = shape.sizes
        for name, took in times.items():
            middle = statistics.median(took)
            ratio = median_ratio(times[BASELINE], took)
            self.rows.append(
                {
                    "mode": mode, "shape": [m, n, k], "contender": name, "ms": took, "tflops": 2 * m * n * k / middle / 1e9,
                    "ratio": ratio, "error": errors[name],
                    **drawn_by(drawn[name], 2 * m * n * k, middle, self.device.sms),
                }
            )
        shown = ", ".join(f"{row['contender']} {row['ratio']:.3f}" for row in self.rows[-len(times) :])
        self.say(f"{mode} {shape}: {shown}")
        del a, b, c, runs
        self.device.release()


def drawn_by(readings: Sequence[Reading], flops: float, milliseconds: float, sms: int) -> dict[str, float | None]:
    """What a row says of energy: medians over blocks and FLOP per cycle per SM; nothing without a meter."""
    typical = median_reading(readings)
    if typical is None:
        return {}
    return {**asdict(typical), "flop_per_cycle_per_sm": typical.flops_per_cycle(flops, milliseconds, sms)}


def energy_table(rows: Sequence[dict[str, Any]], mode: str) -> list[str]:
    """Joules of a launch, watts, megahertz and FLOP per cycle per SM, where they were read."""
    mine = [row for row in rows if row["mode"] == mode and row.get("joules") is not None]
    if not mine:
        return []
    baseline = {tuple(row["shape"]): row["joules"] for row in mine if row["contender"] == BASELINE}
    lines = [
        "", f"{mode}: energy of a launch (ratio to cuBLAS's), power, SM clock, FLOP per cycle per SM (4,096 is bf16's peak)"
    ]
    for row in mine:
        where = " x ".join(map(str, row["shape"]))
        theirs = baseline.get(tuple(row["shape"]))
        beside = f"{row['joules'] / theirs:.3f}" if theirs else "-"
        lines.append(
            f"{where:>20} {row['contender'][-14:]:>15} {row['joules']:8.4f} J ({beside}) {row['watts'] or 0:6.0f} W"
            f" {row['megahertz'] or 0:6.0f} MHz {row['flop_per_cycle_per_sm'] or 0:7.0f}"
        )
    return lines


def table(rows: Sequence[dict[str, Any]], mode: str) -> list[str]:
    """TFLOP/s (ratio to cuBLAS) per shape and contender, and geometric means."""
    mine = [row for row in rows if row["mode"] == mode]
    if not mine:
        return []
    names = list(dict.fromkeys(row["contender"] for row in mine))
    shapes = list(dict.fromkeys(tuple(row["shape"]) for row in mine))
    lines = ["", f"{mode}: TFLOP/s (ratio to cuBLAS)"]
    lines.append(f"{'M x N x K':>20}" + "".join(f"{name[-14:]:>15}" for name in names))
    for shape in shapes:
        line = f"{' x '.join(map(str, shape)):>20}"
        for name in names:
            found = [row for row in mine if tuple(row["shape"]) == shape and row["contender"] == name]
            line += f"{found[0]['tflops']:7.0f} ({found[0]['ratio']:.3f})" if found else f"{'-':>15}"
        lines.append(line)
    line = f"{'geometric mean':>20}"
    for name in names:
        line += f"{geometric_mean([row['ratio'] for row in mine if row['contender'] == name]):15.3f}"
    return [*lines, line]


def words(given: Sequence[str]) -> list[str]:
    """`a,b c` as a list; a comma inside the constants of a rung (`v6:STAGES=3,GROUP=4`) stays in it."""
    found: list[str] = []
    for part in " ".join(given).replace(" ", ",").split(","):
        if "=" in part and ":" not in part and found:
            found[-1] += f",{part}"
        elif part:
            found.append(part)
    return found


def reference(path: Path) -> Contender:
    """The hand-written kernel of a file."""
    from benchmarks.products.peers.reference import Reference

    return Reference(path)


def main(command: list[str] | None = None) -> None:
    parser = arguments(__doc__, ROUNDS)
    parser.add_argument("--shapes", type=Path, help="a file with M N K per line, CSV or JSON (see benchmarks/shapes)")
    parser.add_argument("--modes", nargs="*", default=DEFAULT_MODES, help="steady, burst, turns, cold")
    parser.add_argument("--rungs", nargs="*", default=OURS, help="v6, v6:STAGES=3,GROUP=4, or matmul")
    parser.add_argument("--burst-rungs", nargs="*", default=BURST_OURS, help="those of them that run steady and in bursts")
    parser.add_argument("--peers", nargs="*", default=PEERS, help="the others; cuBLAS is always there")
    parser.add_argument("--burst-rounds", type=int, default=MODES["burst"].rounds)
    parser.add_argument("--steady-rounds", type=int, default=MODES["steady"].rounds)
    parser.add_argument("--reference", type=Path, help="a hand-written kernel to compare with (see peers/reference.py)")
    parser.add_argument("--plot", type=Path, nargs="*", default=[], help="pictures to draw: gemm.png gemm.svg")
    given = parser.parse_args(command)
    if given.json is not None and given.json.suffix != ".json":  # a folder
        given.json, given.plot = given.json / "gemm.json", [given.json / "gemm.png", given.json / "gemm.svg"]
    options = Options(
        LARGE if given.shapes is None else read_shapes(given.shapes), words(given.rungs), words(given.burst_rungs),
        words(given.peers), words(given.modes), given.rounds, given.burst_rounds, given.steady_rounds,
        others=[lambda: reference(given.reference)] if given.reference is not None else [],
    )
    if given.plot:
        pyplot()  # before the minutes of measuring, not after
    results = GemmBench(options, TorchDevice()).run()
    save(given.json, results)
    if given.plot:
        plot_gemm({"machine": stamp(), **results}, given.plot)
    for mode in options.modes:
        print("\n".join(table(results["rows"], mode) + energy_table(results["rows"], mode)))


if __name__ == "__main__":
    try:
        main()
    except Error as error:
        print(error, file=sys.stderr)
        sys.exit(2)
