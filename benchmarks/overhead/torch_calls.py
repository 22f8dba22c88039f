"""What a call costs the host by each way that leads to a launch: px.kernels, px.torch, torch.ops, with a gradient, compiled.

    python -m benchmarks.overhead.torch_calls --out torch_calls.json

Microseconds of the host for a small call on a GPU, the best of several rounds, all ways in turns. `px.torch` is to be within
1 us of `px.kernels`. Without a GPU there is nothing to launch, and the script says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import phalanx as px
from benchmarks.common import machine

ROUNDS, CALLS = 30, 200


def microseconds(run: Callable[[], Any]) -> float:
    """The host's time of a call, queued behind others: the device is never waited for inside."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        run()
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * spent / CALLS


def ways(name: str, *args: Any, **options: Any) -> dict[str, Callable[[], Any]]:
    """The ways of one function; the last ones record a gradient and go through a compiled graph."""
    ours, theirs, op = getattr(px.torch, name), getattr(px.kernels, name), getattr(torch.ops.phalanx, name)
    tracked = [x.clone().requires_grad_() if isinstance(x, torch.Tensor) else x for x in args]
    compiled = torch.compile(lambda *given: ours(*given, **options), fullgraph=True)
    return {
        "px.kernels": lambda: theirs(*args, **options),
        "px.torch": lambda: ours(*args, **options),
        "torch.ops": lambda: op(*args, *options.values()),
        "recorded": lambda: ours(*tracked, **options),
        "both ways": _both_ways(lambda: ours(*tracked, **options)),
        "compiled": lambda: compiled(*args),
    }


def _both_ways(run: Callable[[], Any]) -> Callable[[], Any]:
    """A recorded call, and the gradients of its arguments."""
    gradient = torch.ones_like(run())
    return lambda: run().backward(gradient)


def torch_products(x: Any, w: Any) -> dict[str, Callable[[], Any]]:
    """A product by torch's own function."""
    a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
    return {
        "torch": lambda: x @ w,
        "torch, recorded": lambda: a @ b,
        "torch, both ways": _both_ways(lambda: a @ b),
    }


def main() -> None:
    parser = machine.arguments(__doc__)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here: a call would be a run of the simulator")
        return
    x = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    cases = {
        "softmax": ways("softmax", x), "rms_norm": ways("rms_norm", x, x[0].clone()),
        "matmul": {**ways("matmul", x, w.T), **torch_products(x, w.T)},
    }
    rows: dict[str, Any] = {}
    for name, runs in cases.items():
        best = dict.fromkeys(runs, float("inf"))
        for run in runs.values():
            run()
        for _ in range(ROUNDS):
            for way, run in runs.items():
                best[way] = min(best[way], microseconds(run))
        rows[name] = best
        print(f"{name:>10}: " + ", ".join(f"{way} {spent:.2f} us" for way, spent in best.items()), flush=True)
    machine.save(given.json, {"microseconds": rows})


if __name__ == "__main__":
    main()
