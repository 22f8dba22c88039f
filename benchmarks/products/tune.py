"""Searches the settings of the last rungs of the GEMM ladder with `px.tune`, shape by shape, on a GPU.

The two numbers are those of `gemm.py`: 2 M N K operations against about 800 TFLOP/s, bytes that none of the shapes is
limited by. Candidates take turns in blocks of 20 ms (`--mode steady`: each alone; `--mode burst`: 6 ms after a rest);
each is compared with an f32 product.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from benchmarks.common.machine import arguments, save
from benchmarks.products.contenders import Rung
from benchmarks.products.shapes import LARGE, Shape, read_shapes
from phalanx.runtime.device.timing import MODES

SHARED_BYTES = 227 << 10


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The f32 product, rounded as C is."""
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(c.dtype)


def settings(rung: str) -> Iterator[dict[str, int]]:
    """Settings of a rung whose stages and output buffer fit into shared memory."""
    clusters = ((1, 1), (2, 1), (1, 2), (2, 2)) if rung == "v7" else ((0, 0),)
    for (cm, cn), bn, stages, group, parts in itertools.product(clusters, (256, 192), (3, 4, 5), (4, 8, 16), (1, 2, 4)):
        taken = stages * (128 + bn) * 64 * 2 + 128 * bn // parts * 2
        if taken > SHARED_BYTES - 1024:
            continue
        found = {"BN": bn, "STAGES": stages, "GROUP": group, "PARTS": parts}
        yield {"CM": cm, "CN": cn, **found} if cm else found


def grid_of(rung: Rung, shape: Shape, **constants: int) -> Any:
    """The grid that the rung launches with these settings."""
    return rung.module.launch(*shape.sizes, **constants).grid


def main() -> None:
    parser = arguments(__doc__, 5)
    parser.add_argument("--rung", default="v7", choices=("v6", "v7"))
    parser.add_argument("--shapes", type=Path, help="a file of shapes (see benchmarks/shapes)")
    parser.add_argument("--mode", default="turns", choices=list(MODES))
    parser.add_argument("--only", nargs="*", default=[], help="settings to hold fixed: BN=256 STAGES=4")
    parser.add_argument("--force", action="store_true", help="search again what the cache has")
    given = parser.parse_args()
    fixed = {name: int(value) for name, value in (item.split("=") for item in given.only)}
    configs = [c for c in settings(given.rung) if all(c[name] == value for name, value in fixed.items())]
    rung = Rung(given.rung)
    rows: list[dict[str, Any]] = []
    for shape in LARGE if given.shapes is None else read_shapes(given.shapes):
        m, n, k = shape.sizes
        args = (px.spec((m, k), px.bf16), px.spec((n, k), px.bf16), px.spec((m, n), px.bf16))
        kernel = rung.bound(m, n, k).kernel

        tuned = px.tune(
            kernel, configs, args, grid=partial(grid_of, rung, shape), reference=product, mode=given.mode,
            rounds=given.rounds, force=given.force,
        )
        print(f"{shape}, {given.mode}")
        print(tuned, flush=True)
        for row in tuned.table:
            tflops = 2 * m * n * k / row.ms / 1e9 if row.ms else None
            found = {"shape": [m, n, k], "config": row.config, "ms": row.ms, "tflops": tflops}
            rows.append({**found, "status": row.status, "note": row.note})
    save(given.json, {"rung": given.rung, "mode": given.mode, "rows": rows})


if __name__ == "__main__":
    main()
