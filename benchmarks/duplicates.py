"""Whether it pays to combine, on chip, rows that are added to the same one: `scatter_add_rows` with indices that repeat.

    python benchmarks/duplicates.py --json duplicates.json

on an H200. Indices are drawn evenly from many rows ("even"), as often as words are used ("words": the row of rank r with a
probability of 1 / r), or name a single row ("one"). Beside the library, which sends every row to L2 by itself, and torch's
`index_add_`, stands `sum_tiles`: of 64 rows those of one index are added by the tensor cores, and one sum leaves the SM.
(It says what there is to gain, and is nothing for a library: what is no number spreads to the tile's other rows.)

The two numbers: every row is read once, and its place read and written, 3 x bytes over 4.3 TB/s, unless L2 holds it; a
sum of 64 rows is 128 operations for each element, over 800 TFLOP/s. `error`: the largest distance from sums in 64 bits,
relative to the largest sum; L2 adds in the type of the rows, bf16.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src")]

import machine  # noqa: E402
import torch  # noqa: E402

import phalanx as px  # noqa: E402
from phalanx.kernels.gather import scatter_add_rows, tile_place  # noqa: E402
from phalanx.kernels.launches import wait_for_prior_launch  # noqa: E402
from phalanx.runtime.device.timing import MODES, take_turns  # noqa: E402

WIDTHS = (64, 128, 200, 512, 1024, 4096)
ROWS, COLUMNS, WORDS, NBYTES = 64, 128, 50_000, 1 << 28
DEVICE = "cuda"


@px.kernel(warps=4, pdl=True)
def sum_tiles(X, I, Y, *, BM=ROWS, BN=COLUMNS):
    """Y[I[i]] += X[i]: rows of a tile that have one index are added first, as a product by ones and zeros."""
    named, part = px.shared((BM, BM), X.dtype), px.shared((BM, BN), X.dtype)
    wait_for_prior_launch()
    m, n = tile_place(X.shape[1], BM, BN)
    rows, values, place = px.load(I[m : m + BM], fill=-1), px.load(X[m : m + BM, n : n + BN]), px.arange(BM)
    same = rows.reshape(BM, 1) == rows.reshape(1, BM)
    again = px.any(same & (place.reshape(1, BM) < place.reshape(BM, 1)), axis=1)
    if px.any(again & (rows >= 0)):
        px.store(named, px.where(same, 1.0, 0.0).to(X.dtype))
        px.store(part, values)
        px.fence.async_proxy()
        px.sync()
        sums = px.empty((BM, BN), px.f32)
        px.wgmma(named, part, sums, accumulate=False)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.atomic_add(Y[px.where(again, -1, rows), n : n + BN], sums.to(X.dtype))
    else:
        px.atomic_add(Y[rows, n : n + BN], values)


def add_combined(x: Any, idx: Any, out: Any) -> Any:
    """`scatter_add_rows` by `sum_tiles`."""
    count, columns = x.shape
    width = next((width for width in (64, COLUMNS) if columns <= width), COLUMNS)
    sum_tiles[px.cdiv(count, ROWS) * px.cdiv(columns, width)](x, idx, out, BN=width)
    return out


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
    ways = {"library": scatter_add_rows, "combined": add_combined, "torch": lambda x, idx, out: out.index_add_(0, idx, x)}
    want, hot = torch.zeros(columns, device=DEVICE, dtype=torch.float64), idx.mode().values
    want += x[idx == hot].double().sum(0)
    errors, runs = {}, {}
    for name, way in ways.items():
        out = torch.zeros(2 * count, columns, device=DEVICE, dtype=torch.bfloat16)
        errors[name] = float((way(x, idx, out)[hot].double() - want).abs().max() / want.abs().max())
        runs[name] = lambda way=way, out=out: way(x, idx, out)
    times = take_turns(runs, machine.milliseconds, replace(MODES["burst"], rest_s=rest), rounds=rounds)
    us = {name: 1e3 * statistics.median(took) for name, took in times.items()}
    said = ", ".join(f"{name} {took:7.1f} us (error {errors[name]:.0e})" for name, took in us.items())
    print(f"{count:>8} x {columns:<5} {kind:5}: {said}", flush=True)
    return {"rows": count, "columns": columns, "indices": kind, "us": us, "error": errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=NBYTES, help="of the rows that are added")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rest", type=float, default=0.03, help="seconds before a burst")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cases = [(columns, kind) for columns in WIDTHS for kind in ("even", "words", "one")]
    machine.save(given.json, {"rows": [measure(*case, given.bytes, given.rounds, given.rest) for case in cases]})


if __name__ == "__main__":
    main()
