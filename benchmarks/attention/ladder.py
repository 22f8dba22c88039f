"""The rungs of examples/attention/ on a GPU, beside the library's attention and cuDNN (through torch): TFLOP/s in bursts.

    python -m benchmarks.attention.ladder --out attention_ladder.json

Heads of 128, 64 of them with 4,096 queries and keys each, full and causal, bf16, random normal inputs; medians of rounds.
Results are compared with cuDNN's before anything is timed.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import phalanx as px
from benchmarks import EXAMPLES
from benchmarks.attention.forward import TABLE, Case, inputs, measure, peer, settle, side_by_side
from benchmarks.common import machine
from phalanx.kernels.attention.forward import attention

FOLDER = EXAMPLES / "attention"
ROWS = {"v0": 64, "v1": 128, "v2": 128, "v3": 128, "v4": 192}
"""Queries of a tile; v4 has a CTA for each SM at most, the others one for each tile."""
ALLOWED = 0.01
"""The relative difference from cuDNN's result: both are rounded to bf16."""


def rung(name: str, q: Any, k: Any, v: Any, causal: bool) -> Callable[[], Any]:
    """A call of that rung, which gives its result."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    kernel = getattr(importlib.import_module(name), f"attention_{name}")
    length, dim = q.shape[2:]
    flat = [x.reshape(-1, length, dim) for x in (q, k, v)]
    heads, out = flat[0].shape[0], torch.empty_like(flat[0])
    tiles = heads * px.cdiv(length, ROWS[name])
    grid = min(tiles, px.device(0).sms) if name == "v4" else tiles
    scale = math.log2(math.e) / math.sqrt(dim)

    def call() -> Any:
        kernel[grid](*flat, out, scale, D=dim, CAUSAL=causal)
        return out.reshape(q.shape)

    return call


def compiled(name: str, causal: bool) -> None:
    """One small call in a process of its own: the kernel is in the cache on disk then."""
    q, k, v, _ = inputs(Case(1, 1, 1, 256, 256, 128, causal))
    rung(name, q, k, v, causal)()
    settle(f"a small call of {name}")


def main() -> None:
    parser = machine.arguments(__doc__, 5)
    folder = os.environ.get("OUT")
    parser.set_defaults(json=None if folder is None else Path(folder, "attention_ladder.json"))
    options = parser.parse_args()
    side_by_side(compiled, [(name, causal) for name in ROWS for causal in (False, True)])
    found = []
    for case in (TABLE[0], TABLE[4]):
        torch.manual_seed(0)
        q, k, v, called = inputs(case)
        label, run = peer(case, q, k, v, called)
        contenders = {name: rung(name, q, k, v, case.causal) for name in ROWS}
        contenders["px.kernels.attention"] = lambda q=q, k=k, v=v, called=called: attention(q, k, v, **called)
        contenders[label] = run
        want = run().float()
        for name, call in contenders.items():
            got = call()
            settle(f"{name} of {case}")
            difference = float((got.float() - want).norm() / want.norm())
            assert difference < ALLOWED, (name, difference)
        times = measure(contenders, options.rounds, ("burst",))
        speeds = {name: case.flops() / ms["burst"] / 1e9 for name, ms in times.items()}
        print(f"{case}: " + ", ".join(f"{name} {speed:.0f}" for name, speed in speeds.items()) + " TFLOP/s", flush=True)
        found.append({"case": str(case), "ms": times, "tflops": speeds})
        if options.json is not None:
            machine.save(options.json, {"rows": found, "rounds": options.rounds})


if __name__ == "__main__":
    main()
