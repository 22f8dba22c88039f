"""Compiles what drawn calls will launch, by several processes at once: `anywhere.py` then finds it in the cache.

    python -m benchmarks.drawn.compile --op matmul --seed 0 --count 60 --share 0 15

compiles every fifteenth kernel, from the first on: those of products without a call, others by a call of the library with
operands of that shape in which nothing was written, whose launches are captured and never run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

import phalanx as px
from benchmarks.drawn.draws import DRAWS, Case, drawn, seed_of
from phalanx.kernels.products.matmul_config import Problem, choose, split_choice
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm
from phalanx.kernels.products.split_ring import split_ring

PRODUCTS = ("matmul", "batched", "few_rows", "fp8")
TYPES = {"bf16": px.bf16, "f16": px.f16, "f8e4m3": px.f8e4m3}


def problem_of(case: Case) -> Problem:
    """The product as the library sees it; operands and results are contiguous, or the transpose of what is."""
    form = case.traits.get("form", "a @ b" if case.op == "batched" else "a @ b.T")
    by_k = not form.startswith("a.T"), form.endswith("b.T")
    m, n, k = case.size("m", "n", "k")
    itemsize, fused = 1 if case.dtype == "f8e4m3" else 2, bool(case.traits.get("bias"))
    return Problem(m, n, k, case.sizes.get("batch", 1), itemsize, by_k=by_k, fused=fused)


def compile_case(case: Case) -> str:
    """Compiles the kernel of a case; gives what it is."""
    problem, kind = problem_of(case), TYPES[case.dtype]
    m, n, k, batched = problem.m, problem.n, problem.k, problem.batch > 1
    lead = (problem.batch,) if batched else ()
    result = px.bf16 if case.dtype == "f8e4m3" else kind
    a = px.spec((*lead, m, k) if problem.by_k[0] else (*lead, k, m), kind)
    b = px.spec((*lead, n, k) if problem.by_k[1] else (*lead, k, n), kind)
    c, by_k = px.spec((*lead, m, n), result), problem.by_k
    bias = px.spec((n,), kind) if case.traits.get("bias") else None
    device = px.device()
    split = split_choice(problem, device)
    if split is not None:
        side, config = split
        few, many, flipped = (m, n, False) if side == "rows" else (n, m, True)
        if flipped:
            a, b, by_k = b, a, by_k[::-1]
        px.compile(
            split_ring[config.grid(few, many)], a, b, c, bias or c, arch="sm_90a", ROWS=by_k[1], A_ROWS=by_k[0],
            FLIPPED=flipped, WHOLE=True, BIASED=bias is not None, BIAS_OF_ROWS=flipped, ACTIVATION=None,
            config=config,
        )
        return f"{side} {config}"
    chosen = choose(problem, device)
    if chosen.swapped:
        a, b, by_k = b, a, by_k[::-1]
    one: Any = px.spec((1,), px.f32) if case.dtype == "f8e4m3" else None
    cm, cn = chosen.cluster
    sums = chosen.left_sums(problem, device)
    px.compile(
        matmul_tiles[cm * chosen.launched(problem, device), cn], a, b, c, bias, one, one, None,
        px.spec((sums,), px.f32) if sums else None, arch="sm_90a", config=chosen,
        form=ProductForm(by_k[0], by_k[1], bias_kind=None if bias is None else "row"),
    )
    return str(chosen)


def prepare(case: Case) -> None:
    """Calls the library as the case does, with operands of any values, so that all it compiles is on disk and in memory.

    Its launches are captured and never run: another process may be timing the GPU.
    """
    import torch

    from benchmarks.drawn.contests import untouched
    from benchmarks.drawn.models import CONTESTS

    with untouched():
        contest = CONTESTS[case.op](case)
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="relaxed"):
            contest.ours()
    except RuntimeError as problem:  # then the first call that is timed does what is left
        print(f"{case}: not captured: {str(problem).splitlines()[0]}", flush=True)
    del contest
    torch.cuda.empty_cache()


def compile_all(ops: list[str], seeds: list[str], count: int) -> None:
    """Compiles the kernels of all cases by as many processes as there are processors."""
    shares = max(1, min(15, (os.cpu_count() or 2) - 1))
    command = [sys.executable, "-m", "benchmarks.drawn.compile"]
    command += ["--op", *ops, "--seed", *seeds, "--count", str(count), "--share"]
    processes = [subprocess.Popen([*command, str(share), str(shares)]) for share in range(shares)]
    for process in processes:
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", nargs="+", default=["matmul"], choices=list(DRAWS))
    parser.add_argument("--seed", nargs="+", default=["0"])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1))
    given = parser.parse_args()
    cases = [case for op in given.op for seed in given.seed for case in drawn(op, seed_of(seed), given.count)]
    share, shares = given.share
    for case in cases[share::shares]:
        try:
            (compile_case if case.op in PRODUCTS else prepare)(case)
        except Exception as problem:
            print(f"{case}: {type(problem).__name__}: {str(problem).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
