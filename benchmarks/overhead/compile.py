"""How long a kernel takes from Python source to machine code: cold, and from the disk cache. Needs no GPU.

Imports and NVRTC's own loading are not counted. The two numbers: NVRTC alone needs 0.05 to 0.3 s for such texts, and is
the floor of a cold compile; reading a kernel into IR (a few ms) is the floor of a cached one, whose key is the IR.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from typing import Any

from benchmarks import EXAMPLES as FOLDER
from benchmarks.common import machine

sys.path[:0] = [str(FOLDER), str(FOLDER / "gemm")]

import numpy as np

EXAMPLES = ("vector_add", "softmax", "transpose", "tma_copy", "ring_copy", "multicast_copy", "cluster_exchange", "pipe_copy")
RUNGS = tuple(f"v{number}" for number in range(8))
"""Of the GEMM ladder, for the target that has wgmma."""
TARGETS = {**dict.fromkeys(EXAMPLES, ("sm_90a", "sm_100a")), **dict.fromkeys(RUNGS, ("sm_90a",))}


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PHALANX_CACHE_DIR"] = folder
        import phalanx as px
        from phalanx.cuda.nvrtc import compile_cuda
        from phalanx.runtime import compiled
        from phalanx.runtime.launch import memory

        compile_cuda('extern "C" __global__ void warm() {}', "sm_90a")  # loads NVRTC
        for name, archs in TARGETS.items():
            case = importlib.import_module(name).example(np.random.default_rng(0))
            for arch in archs:
                cold: list[float] = []
                cached: list[float] = []
                for _ in range(options.repeats):
                    for times, fresh in ((cold, True), (cached, False)):
                        if fresh:
                            compiled.disk_cache().clear()
                        memory.forget()
                        start = time.perf_counter()
                        made = px.compile(case.launch, *case.args, arch=arch, **case.constants)
                        times.append(time.perf_counter() - start)
                        assert made.from_cache is not fresh
                middle = len(cold) // 2
                rows.append((name, arch, sorted(cold)[middle], sorted(cached)[middle], made.registers, made.spills))
    print(f"{'example':18} {'arch':8} {'cold ms':>8} {'cached ms':>10} {'registers':>10} {'spills':>7}")
    for name, arch, cold_s, cached_s, registers, spills in rows:
        print(f"{name:18} {arch:8} {1e3 * cold_s:8.0f} {1e3 * cached_s:10.1f} {registers:10} {spills:7}")
    for what, names, limit, cached_limit in (("examples", EXAMPLES, 1.0, " (target 20 ms)"), ("rungs", RUNGS, 1.2, "")):
        cold_s, cached_s = (max(row[place] for row in rows if row[0] in names) for place in (2, 3))
        from_disk = f"from the disk cache {1e3 * cached_s:.1f} ms{cached_limit}"
        print(f"{what}, worst: cold {cold_s:.2f} s (target {limit} s), {from_disk}")
    keys = ("example", "arch", "cold_s", "cached_s", "registers", "spills")
    machine.save(options.json, {"rows": [dict(zip(keys, row)) for row in rows]})


if __name__ == "__main__":
    main()
