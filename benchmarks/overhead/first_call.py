"""How long the first call of a compiled model takes on the CPU, with kernels of ours and without; needs torch, no GPU.

    python -m benchmarks.overhead.first_call --out first_call.json

A model of a linear layer, two functions of `px.kernels` and two kernels that are launched directly, beside one of the same
shape by torch's own functions. Each runs in a process of its own with empty caches: after the imports, torch compiles a
small function (for Inductor this builds its headers), then the model is called for the first time, then with another number
of rows. Figures are seconds of the CPU, children included: other work on the machine changes them less than the time that
passes. Of `--rounds` processes the least counts. Python keeps the bytecode of what it imports, as it does for users.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch

import phalanx as px
from benchmarks import ROOT
from benchmarks.common import machine

BACKENDS = ("eager", "aot_eager", "inductor")
MODELS = ("with kernels of ours", "torch alone")
STEPS = ("torch's start", "first call", "second size")


@px.kernel(warps=4)
def scale_rows(X, Y, factor, *, BM=8, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]) * factor)


@px.kernel(warps=4)
def add(X, Y, number, *, BM=8, COLS=64):
    m = px.block_id(0) * BM
    px.store(Y[m : m + BM, 0:COLS], px.load(X[m : m + BM, 0:COLS]) + number)


class Model(torch.nn.Module):
    """The model; `ours` says by what its four steps behind the linear layer are computed."""

    def __init__(self, ours: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.norm = torch.nn.Parameter(torch.rand(64))
        self.behind = self.by_kernels if ours else self.by_torch

    def forward(self, x: Any) -> Any:
        return self.behind(self.linear(x))

    def by_kernels(self, x: Any) -> Any:
        h = px.kernels.rms_norm(x, self.norm)
        y, z = torch.empty_like(h), torch.empty_like(h)
        scale_rows[px.cdiv(h.shape[0], 8), 1](h, y, 2.0)
        add[px.cdiv(h.shape[0], 8)](torch.relu(y), z, 1)
        return px.kernels.softmax(z) + y

    def by_torch(self, x: Any) -> Any:
        y = torch.nn.functional.rms_norm(x, (64,), self.norm, 1e-6) * 2.0
        return torch.softmax(torch.relu(y) + 1, -1) + y


def spent(run: Any) -> dict[str, float]:
    """Seconds of the CPU, with children that have ended, and of the clock on the wall."""

    def used() -> float:
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))

    before, start = used(), time.perf_counter()
    run()
    return {"cpu_s": used() - before, "wall_s": time.perf_counter() - start}


def measured(backend: str, ours: bool) -> dict[str, Any]:
    """How long each step of one process took, and how many graphs there are; results are those of eager code."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model(ours).requires_grad_(False)
    small = torch.compile(lambda x: (x * 3).softmax(-1) + 1, backend=backend)
    run = torch.compile(model, fullgraph=True, backend=backend)
    first, second = torch.randn(16, 64), torch.randn(9, 64)
    torch._dynamo.mark_dynamic(first, 0)
    times = [spent(lambda: small(torch.randn(16, 32)))]
    torch._dynamo.utils.counters.clear()
    times += [spent(lambda: run(first)), spent(lambda: run(second))]
    for x in (first, second):
        torch.testing.assert_close(run(x), model(x))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return {"steps": dict(zip(STEPS, times, strict=True)), "graphs": graphs}


def in_a_process(backend: str, ours: bool) -> dict[str, Any]:
    """What `measured` gives, from a process of its own with empty caches."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch", "PHALANX_CACHE_DIR": f"{folder}/phalanx"}
        command = [sys.executable, "-m", "benchmarks.overhead.first_call", "--one", backend, str(int(ours))]
        done = subprocess.run(command, env={**kept, **caches}, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def least(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several processes the least of each step, and the most graphs."""
    steps = {step: min((run["steps"][step] for run in runs), key=lambda one: one["cpu_s"]) for step in STEPS}
    return {"steps": steps, "graphs": max(run["graphs"] for run in runs)}


def main() -> None:
    parser = machine.arguments(__doc__, rounds=2)
    parser.add_argument("--one", nargs=2, metavar=("BACKEND", "OURS"), help="measure here, and print JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one[0], given.one[1] == "1")))
        return
    rows: list[dict[str, Any]] = []
    print(f"{'backend':10} {'model':21}" + "".join(f"{step:>15}" for step in STEPS) + "   seconds of the CPU")
    in_a_process(BACKENDS[0], True)  # imports everything once: from here on there is bytecode
    for backend in BACKENDS:
        for model in MODELS:
            row = least([in_a_process(backend, model == MODELS[0]) for _ in range(given.rounds)])
            rows.append({"backend": backend, "model": model, **row})
            figures = "".join(f"{row['steps'][step]['cpu_s']:15.2f}" for step in STEPS)
            print(f"{backend:10} {model:21}{figures}   {row['graphs']} graph", flush=True)
    machine.save(given.json, {"torch": torch.__version__, "rows": rows})


if __name__ == "__main__":
    main()
