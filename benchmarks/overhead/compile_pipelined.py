"""What a cold compile of loops that pipeline themselves takes. Needs no GPU; CPU time, so that others may be busy.

Of each kernel of `examples/simple`: the whole compile, from Python source to machine code; in it NVRTC, and how often it
ran (again where it moved registers of products in flight, or found too few); the pass that writes the loops, each time
that it ran (again where rings did not fit, or the copy engine refused); and with it what was prepared of kernels that it
then wrote another way.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import EXAMPLES
from benchmarks.common import machine

sys.path[:0] = [str(EXAMPLES / "simple"), str(EXAMPLES)]
NAMES = (
    "matmul", "attention", "grouped_matmul", "convolution", "norm_matmul", "block_scaled", "dequantised", "state_space",
    "delta_rule",
)  # fmt: skip
HOPPER_ALONE = ("dequantised", "delta_rule")
"""Kernels whose tiles fill registers that other targets need for products."""
ARCHS = ("sm_90a", "sm_100a", "sm_120a")


class Watch:
    """Seconds of CPU in some functions, call by call."""

    def __init__(self) -> None:
        self.calls: dict[str, list[float]] = {}

    def on(self, module: Any, name: str) -> None:
        """Takes the time of a function of a module from now on."""
        function: Callable[..., Any] = getattr(module, name)

        def timed(*args: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **named)
            finally:
                self.calls.setdefault(name, []).append(time.process_time() - start)

        setattr(module, name, timed)


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PHALANX_CACHE_DIR"] = folder
        import phalanx as px
        from benchmarks.common.machine import save
        from phalanx.cuda import nvrtc, prepare
        from phalanx.cuda.lower import lower
        from phalanx.runtime import compiled
        from phalanx.runtime.launch import memory

        nvrtc.compile_cuda('extern "C" __global__ void warm() {}', "sm_90a")  # loads NVRTC
        watch = Watch()
        for module, name in ((prepare, "write_loops"), (prepare, "_prepare_products"), (lower, "ring_problem")):
            watch.on(module, name)
        watch.on(nvrtc, "compile_cuda")
        head = f"{'example':16} {'arch':8} {'cold ms':>8} {'NVRTC ms':>8} {'times':>5} {'rest ms':>8}"
        print(f"{head} {'pass ms':>8} {'share':>6} {'runs':>5} {'share of all':>12}")
        for name in NAMES:
            case = importlib.import_module(name).example(np.random.default_rng(0))
            for arch in ARCHS[:1] if name in HOPPER_ALONE else ARCHS:
                found = []
                for _ in range(options.repeats):
                    compiled.disk_cache().clear()
                    memory.forget()
                    watch.calls.clear()
                    start = time.process_time()
                    made = px.compile(case.launch, *case.args, arch=arch, **case.constants)
                    whole = time.process_time() - start
                    assert not made.from_cache
                    mine = sum(watch.calls["write_loops"])
                    again = sum(watch.calls["_prepare_products"][:-1]) + sum(watch.calls["ring_problem"])
                    found.append((whole, sum(watch.calls["compile_cuda"]), mine, mine + again))
                runs, times = len(watch.calls["write_loops"]), len(watch.calls["compile_cuda"])
                whole, assembled, mine, all_of_it = sorted(found)[len(found) // 2]
                rows.append({
                    "example": name, "arch": arch, "cold_s": whole, "nvrtc_s": assembled, "nvrtc_runs": times,
                    "pass_s": mine, "with_again_s": all_of_it, "runs": runs,
                })  # fmt: skip
                parts = f"{1e3 * assembled:8.0f} {times:5} {1e3 * (whole - assembled):8.0f} {1e3 * mine:8.0f}"
                shares = f"{mine / whole:6.1%} {runs:5} {all_of_it / whole:12.1%}"
                print(f"{name:16} {arch:8} {1e3 * whole:8.0f} {parts} {shares}", flush=True)
    for key in ("pass_s", "with_again_s"):
        taken = [row[key] / row["cold_s"] for row in rows]
        print(f"{key}: {sum(taken) / len(taken):.1%} on average, at most {max(taken):.1%}")
    save(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
