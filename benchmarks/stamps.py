"""What stamps cost, and whether model and GPU agree where agents wait: `px.trace` of real launches, on a GPU.

    python -m benchmarks.stamps                    all cases: under a minute on an H200, model included
    python -m benchmarks.stamps --only v6 --out stamps.json --pages folder

A launch with stamps in four clusters is timed beside the plain one, in bursts, in turns; the ratio of the medians is the
cost; by the stamps of the agent that wrote most, it is the cost of an event. A stamp's own cycles are what the card measured
at the end of each sampled CTA, where no products run. Then the timeline of the launch is laid
beside the model's of the same launch: waits that take at least 5% of an agent's time in one, and less than half of that in
the other, are listed; and results are compared with those of the plain launch, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import phalanx as px
from benchmarks.timeline import module_of
from phalanx.runtime.launch import stamping
from phalanx.runtime.timeline.stamps import sampled, trace_of_stamps

ROUNDS, BURST = 7, 20


@dataclass
class Case:
    """A launch: what makes its arguments, and the call; `modelled`: the same launch on `px.spec`, None for no model."""

    name: str
    make: Callable[[Any], list[Any]]
    call: Callable[..., Any]
    modelled: Callable[[], Any] | None = None


def normal(torch: Any, *shape: int) -> Any:
    """Random numbers in bf16 on the GPU."""
    return torch.randn(shape, device="cuda").to(torch.bfloat16)


def products(torch: Any, m: int, n: int, k: int) -> list[Any]:
    """Operands and result of C = A @ B.T."""
    return [normal(torch, m, k), normal(torch, n, k), torch.zeros((m, n), device="cuda", dtype=torch.bfloat16)]


def specs(*shapes: tuple[int, ...]) -> list[Any]:
    """Arrays in bf16 without data."""
    return [px.spec(shape, px.bf16) for shape in shapes]


def rung(name: str, size: int) -> Case:
    """A rung of examples/gemm on squares."""
    module = module_of("gemm", name)
    shapes = [(size, size)] * 3
    return Case(
        f"{name} {size}", lambda torch: products(torch, size, size, size),
        lambda *args: module.launch(size, size, size)(*args),
        lambda: px.trace(module.launch(size, size, size), *specs(*shapes)),
    )  # fmt: skip


def loop(length: int) -> Case:
    """The attention loop of examples/simple, which pipelines itself."""
    kernel = module_of("simple", "attention").attention
    shapes = [(32, length, 128)] * 4
    return Case(
        f"loop {length}", lambda torch: [normal(torch, *shape) for shape in shapes],
        lambda *args: kernel[px.auto](*args), lambda: px.trace(kernel[px.auto], *specs(*shapes)),
    )  # fmt: skip


def library(size: int) -> list[Case]:
    """`matmul` and `attention` as the library launches them."""
    return [
        Case(
            f"matmul {size}", lambda torch: [normal(torch, size, size), normal(torch, size, size)],
            lambda a, b: px.kernels.matmul(a, b.T),
        ),
        Case(
            f"attention {size}", lambda torch: [normal(torch, 2, size, 16, 128) for _ in range(3)],
            lambda q, k, v: px.kernels.attention(q, k, v),
        ),
    ]  # fmt: skip


def cases() -> list[Case]:
    """All cases: structure at 2048, where the model is soon done, and costs at 4096 as well."""
    return [
        *(rung(name, 2048) for name in ("v2", "v4", "v6")), loop(2048),
        Case("v6 4096", rung("v6", 4096).make, rung("v6", 4096).call), *library(4096),
    ]  # fmt: skip


def captured(call: Callable[[], Any]) -> tuple[Any, Any]:
    """A call with stamps: the launch as a function to repeat, and the stamps of the first."""
    again: list[Callable[[], None]] = []

    def keep(launcher: Any, compiled: Any, grid: Any, values: list[Any], ordinal: int) -> None:
        stamping.run_stamped(launcher, compiled, grid, values, ordinal)
        with launcher.driver.context(ordinal):
            words = stamping.wanted_stamps().runs[-1].words  # type: ignore[union-attr]
            buffer = launcher.driver.allocate_zeros(words.nbytes)
        again.append(lambda: launcher.launch(grid, values, debug=buffer))

    with patch("phalanx.runtime.launch.dispatch.run_stamped", keep), stamping.stamped(4) as taken:
        call()
    (run,), (repeat,) = taken.runs, again
    return repeat, run


def burst(torch: Any, call: Callable[[], Any]) -> float:
    """Microseconds of a call in a burst."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(BURST):
        call()
    last.record()
    last.synchronize()
    return 1e3 * first.elapsed_time(last) / BURST


def outcome(args: list[Any], result: Any) -> Any:
    """What a call has made: its result, or its last argument."""
    return args[-1] if result is None else result


def measured(torch: Any, case: Case, pages: Path | None) -> dict[str, Any]:
    """One case: cost, agreement with the model, results."""
    began = time.perf_counter()
    args = case.make(torch)
    want = outcome(args, case.call(*args)).clone()
    kept: list[Any] = []
    repeat, run = captured(lambda: kept.append(outcome(args, case.call(*args))))
    trace = trace_of_stamps(run, 1980.0)
    plain, stamped = [], []
    for _ in range(ROUNDS):
        plain.append(burst(torch, lambda: case.call(*args)))
        stamped.append(burst(torch, repeat))
    most = max(len(ring) for cta in sampled(run) for ring in cta.rings)
    row: dict[str, Any] = {
        "name": case.name, "plain_us": statistics.median(plain), "stamped_us": statistics.median(stamped),
        "ratio": statistics.median(stamped) / statistics.median(plain), "stamp_cycles": trace.stamp_cycles,
        "mhz": trace.clock, "cycles": trace.cycles, "events": len(trace.events), "lost": trace.lost,
        "right": bool(torch.equal(kept[0], want)), "most": most,
    }  # fmt: skip
    row["event_cycles"] = (row["stamped_us"] - row["plain_us"]) * trace.clock / most
    print(
        f"{case.name:16} {row['plain_us']:9.1f} us plain, {row['stamped_us']:9.1f} stamped ({row['ratio']:.3f}); "
        f"a stamp {trace.stamp_cycles:.0f} cycles, in all {row['event_cycles']:.0f} (of {most:,}); "
        f"{len(trace.events):,} events, {trace.lost} lost; "
        f"{trace.cycles:,.0f} cycles at {trace.clock:,.0f} MHz; results {'equal' if row['right'] else 'DIFFER'}"
    )
    if case.modelled is not None:
        model = case.modelled()
        beside = model.compare(trace)
        row["differing"] = [[each.who, each.line, each.waited_for, each.before, each.after] for each in beside.differing()]
        print("  model, then GPU:", str(beside).replace("\n", "\n  "))
        print(f"  waits that differ: {row['differing'] or 'none'}")
        if pages is not None:
            model.save(pages / f"{case.name.replace(' ', '_')}_model.html")
    else:
        print("  " + "\n  ".join(str(trace).splitlines()[1:]))
    if pages is not None:
        trace.save(pages / f"{case.name.replace(' ', '_')}.html")
    print(f"  ({time.perf_counter() - began:.1f} s)", flush=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="words that begin a case's name")
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON")
    parser.add_argument("--pages", type=Path, help="write the timelines there, as pages")
    given = parser.parse_args()
    import torch

    if given.pages is not None:
        given.pages.mkdir(parents=True, exist_ok=True)
    wanted = [case for case in cases() if not given.only or any(case.name.startswith(word) for word in given.only)]
    rows = []
    for case in wanted:
        try:
            rows.append(measured(torch, case, given.pages))
        except px.Error as problem:
            print(f"{case.name}: {problem}")
    if given.out is not None:
        given.out.write_text(json.dumps({"rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
