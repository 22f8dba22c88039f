"""Whether it pays to combine, on chip, rows that are added to the same one: `scatter_add_rows` with indices that repeat.

    python -m benchmarks.rows.duplicates --json duplicates.json

on an H200. Indices are drawn evenly from many rows ("even"), as often as words are used ("words": the row of rank r with a
probability of 1 / r), or name a single row ("one"). Beside what the library chooses, which sends every row to L2 by itself,
and, where indices are even, torch's `index_add_`, stands `TileConfig(64, 64, combined=True)`: of 64 rows those of one index
are added by the tensor cores, and one sum leaves the SM.

The two numbers: every row is read once, and its place read and written, 3 x bytes over 4.3 TB/s, unless L2 holds it; a
sum of 64 rows is 128 operations for each element, over 800 TFLOP/s. `error`: the largest distance from sums in 64 bits,
relative to the largest sum; L2 adds in the type of the rows, bf16.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchmarks.common import machine
from benchmarks.common.device import TorchDevice
from phalanx.kernels.gather import TileConfig, scatter_add_rows
from phalanx.runtime.device.timing import MODES, take_turns

WIDTHS = (16, 64, 128, 200, 512, 1024, 4096)
WORDS, NBYTES = 50_000, 1 << 28
DEVICE = "cuda"


def combined(columns: int) -> TileConfig:
    """Tiles whose rows of one index are added first, no wider than rows are, or 64 or 128 columns of them."""
    return TileConfig(64, next((width for width in (16, 32, 64) if columns <= width), 64 if columns <= 512 else 128), True)


def indices(kind: str, count: int, rows: int) -> Any:
    """So many indices below `rows`."""
    generator = torch.Generator(device=DEVICE).manual_seed(count)
    if kind == "even":
        return torch.randint(0, rows, (count,), device=DEVICE, generator=generator)
    if kind == "one":
        return torch.full((count,), rows // 2, device=DEVICE, dtype=torch.int64)
    words = min(rows, WORDS)
    even = torch.rand(count, device=DEVICE, generator=generator, dtype=torch.float64)
    rank = (words**even).long().clamp(1, words) - 1
    return torch.randperm(rows, device=DEVICE, generator=generator)[:words][rank]


def measure(columns: int, kind: str, nbytes: int, rounds: int, rest: float) -> dict[str, Any]:
    """Times of a width and a kind of indices, and how far from the sum each result is."""
    count = nbytes // (2 * columns)
    idx, x = indices(kind, count, 2 * count), torch.randn(count, columns, device=DEVICE, dtype=torch.bfloat16)
    ways: dict[str, Callable[..., Any]] = {
        "library": scatter_add_rows,
        "combined": lambda x, idx, out: scatter_add_rows(x, idx, out, config=combined(columns)),
    }
    if kind == "even":  # a row that repeats a million times would take torch seconds
        ways["torch"] = lambda x, idx, out: out.index_add_(0, idx, x)
    want, hot = torch.zeros(columns, device=DEVICE, dtype=torch.float64), idx.mode().values
    want += x[idx == hot].double().sum(0)
    errors, runs = {}, {}
    for name, way in ways.items():
        out = torch.zeros(2 * count, columns, device=DEVICE, dtype=torch.bfloat16)
        errors[name] = float((way(x, idx, out)[hot].double() - want).abs().max() / want.abs().max())
        runs[name] = lambda way=way, out=out: way(x, idx, out)
    times = take_turns(runs, TorchDevice().milliseconds, replace(MODES["burst"], rest_s=rest), rounds=rounds)
    us = {name: 1e3 * statistics.median(took) for name, took in times.items()}
    said = ", ".join(f"{name} {took:7.1f} us (error {errors[name]:.0e})" for name, took in us.items())
    print(f"{count:>8} x {columns:<5} {kind:5}: {said}", flush=True)
    return {"rows": count, "columns": columns, "indices": kind, "us": us, "error": errors}


def main() -> None:
    parser = machine.arguments(__doc__, 3)
    parser.add_argument("--bytes", type=int, default=NBYTES, help="of the rows that are added")
    parser.add_argument("--rest", type=float, default=0.03, help="seconds before a burst")
    given = parser.parse_args()
    cases = [(columns, kind) for columns in WIDTHS for kind in ("even", "words", "one")]
    machine.save(given.json, {"rows": [measure(*case, given.bytes, given.rounds, given.rest) for case in cases]})


if __name__ == "__main__":
    main()
