"""The gradients of the library's attention against cuDNN's (torch's SDPA, that backend forced), bf16, random normal inputs.

    python -m benchmarks.attention.backward                       the ten rows of attention.py
    python -m benchmarks.attention.backward --rows 1,9 --config queries=64,stages=3 --config early=0
    python -m benchmarks.attention.backward --seed 7 --count 20   shapes that are drawn, those that both can do

Regimes, checks and rounds as in `forward.py`. Both begin with results and logarithms of a forward pass of their own; ours
is three launches (rows before, products, rows after). cuDNN's is called through ``torch.autograd.grad`` on a retained graph.
5 products of 2 dim operations for each pair of a query and a key that attend to each other, also where `--deterministic`
takes seven. The two numbers: operations over 660 to 800 TFLOP/s, and what is read and written before and after the
products, 14 bytes for each element of the queries, over 4.2 TB/s: 5% of the time at 4,096 keys.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.attention.forward import TABLE, Case, drawn, inputs, measure, save, settle, side_by_side
from benchmarks.common import machine
from phalanx.kernels.attention.backward import attention_backward
from phalanx.kernels.attention.backward_config import TOGETHER, BackwardConfig
from phalanx.kernels.attention.forward import attention
from phalanx.runtime.device.timing import geometric_mean

Run = Callable[[], Any]


def flops(case: Case) -> float:
    return 2.5 * case.flops()


def peer(case: Case, q: Any, k: Any, v: Any, do: Any) -> Run:
    """cuDNN's gradients; heads that share keys get copies of them, where it does not take them as they are."""
    group = case.heads // case.kv_heads
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        o = scaled_dot_product_attention(q, k, v, is_causal=case.causal, enable_gqa=group > 1)
    return lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)


def exact(case: Case, do: Any, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """The gradients of the last head of keys of the last batch in float64."""
    group = case.heads // case.kv_heads
    key, value = k[-1, -1].double(), v[-1, -1].double()
    dq, dk, dv = [], torch.zeros_like(key), torch.zeros_like(value)
    for head in range(case.heads - group, case.heads):
        query, grad = q[-1, head].double(), do[-1, head].double()
        s = query @ key.T * case.dim**-0.5
        row = torch.arange(s.shape[0], device="cuda")[:, None] + s.shape[1] - s.shape[0]
        if case.causal:
            s.masked_fill_(torch.arange(s.shape[1], device="cuda")[None] > row, -float("inf"))
        p = torch.nan_to_num(torch.softmax(s, -1))
        dp = grad @ value.T
        ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * case.dim**-0.5
        dq.append(ds @ key)
        dk += ds.T @ query
        dv += p.T @ grad
    return torch.stack(dq), dk, dv


def errors_of(case: Case, got: tuple[Any, ...], want: tuple[Any, ...]) -> list[float]:
    """Relative errors of dq, dk and dv."""
    group = case.heads // case.kv_heads
    parts = got[0][-1, case.heads - group :], got[1][-1, -1], got[2][-1, -1]
    return [float((part.double() - exactly).norm() / exactly.norm()) for part, exactly in zip(parts, want)]


def one_case(case: Case, configs: dict[str, BackwardConfig | None], options: argparse.Namespace) -> dict[str, Any]:
    """Errors, times and ratios of one row, printed as they come."""
    torch.manual_seed(0)
    q, k, v, called = inputs(case)
    do = torch.randn_like(q)
    o, lse = attention(q, k, v, lse=True, **called)
    contenders: dict[str, Run] = {"cuDNN": peer(case, q, k, v, do)}
    for label, config in configs.items():
        contenders[label] = lambda config=config: attention_backward(
            do, q, k, v, o, lse, config=config, deterministic=options.deterministic, **called
        )
    want = exact(case, do, q, k, v)
    errors = {}
    for label, call in list(contenders.items()):
        got = call()
        settle(f"{label} of {case}")
        errors[label] = errors_of(case, got, want)
        if label in configs and any(ours > 1.3 * theirs for ours, theirs in zip(errors[label], errors["cuDNN"])):
            print(f"{case}: {label} has the errors {errors[label]}, cuDNN {errors['cuDNN']}: not timed", flush=True)
            del contenders[label]
    del want
    times = measure(contenders, options.rounds, regimes_of(options))
    for label, found in times.items():
        shown = " ".join(f"{error:.5f}" for error in errors[label])
        parts = [f"{case!s:36} {label:28} errors {shown}"]
        for regime, ms in found.items():
            speed, ratio = flops(case) / ms / 1e9, times["cuDNN"][regime] / ms
            parts.append(f"{regime} {ms * 1e3:8.1f} us {speed:6.1f} TFLOP/s {ratio:.3f}")
        print(" | ".join(parts), flush=True)
    return {"case": str(case), "flops": flops(case), "ms": times, "errors": errors}


def regimes_of(options: argparse.Namespace) -> tuple[str, ...]:
    return ("burst",) if options.burst else ("burst", "steady")


def read_config(text: str) -> BackwardConfig:
    """``queries=64,stages=3,early=0``: what is not named has the class's default."""
    given = dict(part.split("=") for part in text.split(","))
    kinds: dict[str, Callable[[str], Any]] = {name: lambda x: bool(int(x)) for name in ("early", "ahead", "apart")}
    return BackwardConfig(**{key: kinds.get(key, int)(value) for key, value in given.items()})


def compiled(case: Case, config: BackwardConfig | None, deterministic: bool) -> None:
    """One small call of the same kind, in a process of its own: the kernels are in the cache on disk then."""
    size = 256 + (case.keys % 128 != 0)
    small = Case(1, case.heads // case.kv_heads, 1, size, size, case.dim, case.causal)
    q, k, v, options = inputs(small)
    saved = attention(q, k, v, lse=True, **options)
    attention_backward(q, q, k, v, *saved, config=config, deterministic=deterministic, **options)
    settle(f"a small call like {case}")


def compile_all(cases: list[Case], configs: dict[str, BackwardConfig | None], deterministic: bool) -> None:
    """All kernels side by side, so that the card does not wait for one after another."""
    kinds = {(case.dim, case.causal, case.keys % 128 != 0): case for case in cases}
    side_by_side(compiled, [(case, config, deterministic) for case in kinds.values() for config in configs.values()])


def main() -> None:
    parser = machine.arguments(__doc__, 5)
    parser.add_argument("--rows", help="of the table, from 1 on: 1,5")
    parser.add_argument("--config", action="append", default=[], help="queries=64,stages=3: instead of the library's choice")
    parser.add_argument("--seed", type=int, help="draw shapes instead")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--burst", action="store_true", help="bursts only")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no further row is begun")
    parser.add_argument("--deterministic", action="store_true", help="ours in one order; cuDNN's as it is")
    folder = os.environ.get("OUT")
    parser.set_defaults(json=None if folder is None else Path(folder, "attention_backward.json"))
    options = parser.parse_args()
    cases = TABLE if options.seed is None else drawn(options.seed, options.count)
    if options.rows:
        cases = [cases[int(number) - 1] for number in options.rows.split(",")]
    cases = [case for case in cases if case.dim <= TOGETHER and not case.window and not case.lengths]
    configs: dict[str, Any] = {text: read_config(text) for text in options.config} or {"phalanx": None}
    compile_all(cases, configs, options.deterministic)
    results, began = [], time.time()
    for case in cases:
        if time.time() - began < options.limit:
            results.append(one_case(case, configs, options))
            save(options, results)
    for label in configs:
        for regime in regimes_of(options):
            ratios = [row["ms"]["cuDNN"][regime] / row["ms"][label][regime] for row in results if label in row["ms"]]
            if ratios:
                mean, worst = geometric_mean(ratios), min(ratios)
                print(f"{label} {regime}: geometric mean {mean:.3f}, worst {worst:.3f} of {len(ratios)}")


if __name__ == "__main__":
    main()
