"""The library's attention against cuDNN (through torch's SDPA, that backend forced), bf16, random normal inputs.

    python -m benchmarks.attention.forward                       the ten rows that the design names
    python -m benchmarks.attention.forward --rows 1,5 --config keys=80,groups=3 --config keys=96,groups=2,regs=240
    python -m benchmarks.attention.forward --seed 7 --count 20   shapes that are drawn: grouped heads, odd lengths, windows

Two regimes, never mixed, as `runtime/device/timing.py` defines them: *burst* and *steady*, medians of the rounds. Results
are compared with those of float64 on a few heads before anything is timed, and outputs must be the same bit by bit when
a call is repeated. 2 (dim + value_dim) operations for each pair of a query and a key that attend to each other; an H200
sustains 660 to 800 TFLOP/s. Where cuDNN through torch has no such attention (windows, packed sequences), the peer is
FlexAttention, compiled, or torch's own of packed sequences. Where the card tells its clock, steady figures also come as
operations per cycle and SM, of which the tensor cores do at most 4,096. `--beside FILE` adds a contender: a Python file with
``bind(q, k, v, out, causal)`` that gives a function to run.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import multiprocessing
import os
import random
import runpy
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.common import machine
from benchmarks.common.device import TorchDevice
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.kernels.attention.forward import attention
from phalanx.runtime.device.power import NoMeter, Reading
from phalanx.runtime.device.timing import MODES, geometric_mean, take_turns

Run = Callable[[], Any]
MOST_A_CYCLE = 4096
"""Operations that the tensor cores of an SM of sm_90 do in a cycle."""


@dataclass(frozen=True)
class Case:
    """One attention: lengths of packed sequences, if there are any, are in `lengths`."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    causal: bool = False
    window: tuple[int, int] | None = None
    lengths: tuple[int, ...] = ()

    def __str__(self) -> str:
        heads = f"{self.heads}" + (f"/{self.kv_heads}" if self.kv_heads != self.heads else "")
        length = f"{self.queries}" + (f"x{self.keys}" if self.keys != self.queries else "")
        mask = ("causal" if self.causal else "full") + (f" window {self.window}" if self.window else "")
        return f"{self.batch},{heads},{length} d{self.dim} {mask}" + (f" packed {len(self.lengths)}" if self.lengths else "")

    def pairs(self) -> int:
        """Queries and keys of one head that attend to each other."""
        total = 0
        for queries, keys in [(n, n) for n in self.lengths] or [(self.queries, self.keys)] * self.batch:
            row = torch.arange(queries, dtype=torch.int64) + keys - queries
            left, right = self.window or (-1, -1)
            begin = (row - left).clamp(min=0) if left >= 0 else torch.zeros_like(row)
            ahead = 0 if self.causal else right
            end = (row + ahead + 1).clamp(max=keys) if self.causal or right >= 0 else torch.full_like(row, keys)
            total += int((end - begin).clamp(min=0).sum())
        return total

    def flops(self) -> float:
        return 4.0 * self.heads * self.dim * self.pairs()


TABLE = [
    Case(4, 16, 16, 4096, 4096, 128), Case(1, 16, 16, 16384, 16384, 128), Case(8, 16, 16, 2048, 2048, 128),
    Case(2, 16, 16, 8192, 8192, 128), Case(4, 16, 16, 4096, 4096, 128, True), Case(2, 16, 16, 8192, 8192, 128, True),
    Case(1, 16, 16, 16384, 16384, 128, True), Case(8, 16, 16, 2048, 2048, 128, True), Case(4, 32, 32, 4096, 4096, 64),
    Case(4, 32, 32, 4096, 4096, 64, True),
]  # fmt: skip


def drawn(seed: int, count: int) -> list[Case]:
    """Shapes that nobody chose: about 16,384 tokens of 2,048 features each."""
    rng = random.Random(seed)
    cases = []
    for _ in range(count):
        dim = rng.choice((64, 64, 96, 128, 128, 128, 192, 256))
        heads = max(4, 2048 // dim)
        group = rng.choice((1, 1, 2, 4, heads))
        kv_heads = heads // group if heads % group == 0 else heads
        queries = rng.randrange(300, 9000)
        batch = max(1, 16384 // queries)
        causal = rng.random() < 0.5
        keys = queries if causal or rng.random() < 0.7 else rng.randrange(300, 9000)
        window: tuple[int, int] | None = None
        lengths: tuple[int, ...] = ()
        kind = rng.random()
        if kind < 0.15:
            window = (rng.randrange(64, 2048), 0 if causal else rng.randrange(0, 1024))
        elif kind < 0.3:
            lengths = tuple(rng.randrange(50, 4000) for _ in range(rng.randrange(2, 9)))
            batch, queries, keys = 1, sum(lengths), sum(lengths)
        cases.append(Case(batch, heads, kv_heads, queries, keys, dim, causal, window, lengths))
    return cases


def inputs(case: Case) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Queries, keys, values, and the options of our call."""
    options: dict[str, Any] = {"causal": case.causal, "window": case.window}
    shapes = [(case.batch, heads, n, case.dim) for heads, n in
              ((case.heads, case.queries), (case.kv_heads, case.keys), (case.kv_heads, case.keys))]  # fmt: skip
    if case.lengths:
        starts = torch.tensor([0, *case.lengths], dtype=torch.int32).cumsum(0).to(torch.int32).cuda()
        options |= {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
        shapes = [(n, heads, dim) for _, heads, n, dim in shapes]
    q, k, v = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
    return q, k, v, options


def peer(case: Case, q: Any, k: Any, v: Any, options: dict[str, Any]) -> tuple[str, Run]:
    """Who can do the same, by name, and how it is called."""
    group = case.heads // case.kv_heads
    if case.lengths:
        from torch.nn.attention.varlen import varlen_attn

        if group > 1:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        starts, most = options["cu_seqlens_q"], max(case.lengths)
        named = "is_causal" in inspect.signature(varlen_attn).parameters
        mask: dict[str, Any] = {"is_causal": case.causal} if named else {"window_size": (-1, 0 if case.causal else -1)}
        return "varlen_attn", lambda: varlen_attn(q, k, v, starts, starts, most, most, **mask)
    if case.window:
        return "flex", flex(case, q, k, v, group)

    def cudnn(grouped: bool, k: Any = k, v: Any = v) -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=case.causal, enable_gqa=grouped)

    if group > 1:
        try:
            cudnn(True)
            return "cuDNN", lambda: cudnn(True)
        except RuntimeError:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    return "cuDNN", lambda: cudnn(False, k, v)


def flex(case: Case, q: Any, k: Any, v: Any, group: int) -> Run:
    """FlexAttention with a mask of blocks for a window."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    assert case.window is not None
    (left, right), shift = case.window, case.keys - case.queries
    ahead = 0 if case.causal else right

    def inside(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j >= i + shift - left) & (j <= i + shift + ahead)

    mask = create_block_mask(inside, None, None, case.queries, case.keys, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(q, k, v, block_mask=mask, enable_gqa=group > 1)


def exact(case: Case, q: Any, k: Any, v: Any, head: int) -> Any:
    """One head (of the first sequence) in float64."""
    group = case.heads // case.kv_heads
    if case.lengths:
        n = case.lengths[0]
        q, k, v = q[:n, head], k[:n, head // group], v[:n, head // group]
    else:
        q, k, v = q[0, head], k[0, head // group], v[0, head // group]
    s = (q.double() @ k.double().T) * case.dim**-0.5
    row = torch.arange(s.shape[0], device="cuda")[:, None] + s.shape[1] - s.shape[0]
    column = torch.arange(s.shape[1], device="cuda")[None]
    left, right = case.window or (-1, -1)
    ahead = 0 if case.causal else right
    if left >= 0:
        s.masked_fill_(column < row - left, -float("inf"))
    if case.causal or right >= 0:
        s.masked_fill_(column > row + ahead, -float("inf"))
    return torch.nan_to_num(torch.softmax(s, -1)) @ v.double()


def exact_ends(case: Case, q: Any, k: Any, v: Any) -> dict[int, Any]:
    """The first and the last head in float64."""
    return {head: exact(case, q, k, v, head) for head in (0, case.heads - 1)}


def error(case: Case, got: Any, wanted: dict[int, Any]) -> float:
    """The largest relative error of these heads against float64."""
    worst = 0.0
    for head, want in wanted.items():
        part = got[: case.lengths[0], head] if case.lengths else got[0, head]
        worst = max(worst, float((part.double() - want).norm() / want.norm()))
    return worst


def settle(what: str, limit_s: float = 20.0) -> None:
    """Waits for the GPU, and gives up on a kernel that hangs."""
    event, began = torch.cuda.Event(), time.time()
    event.record()
    while not event.query():
        if time.time() - began > limit_s:
            print(f"HANG in {what}", flush=True)
            os._exit(3)
        time.sleep(0.001)


def measure(
    contenders: dict[str, Run], rounds: int, regimes: tuple[str, ...], clocks: dict[str, list[float]] | None = None
) -> dict[str, dict[str, float]]:
    """The median milliseconds of each contender in each regime; `clocks` gets the megahertz of each steady block."""
    found: dict[str, dict[str, float]] = {name: {} for name in contenders}
    device = TorchDevice()
    clock = device.milliseconds  # with a head start: what the host needs for the first call is not the GPU's time
    meter = None
    with contextlib.suppress(NoMeter):
        meter = None if clocks is None else device.meter()

    def observe(name: str, reading: Reading) -> None:
        if reading.megahertz and clocks is not None:
            clocks.setdefault(name, []).append(reading.megahertz)

    for regime in regimes:
        read = meter if regime == "steady" else None
        taken = take_turns(contenders, clock, MODES[regime], rounds=rounds, meter=read, observe=observe)
        for name, times in taken.items():
            found[name][regime] = statistics.median(times)
    return found


def one_case(case: Case, configs: dict[str, AttentionConfig | None], options: argparse.Namespace) -> dict[str, Any]:
    """Errors, times and ratios of one row, printed as they come."""
    torch.manual_seed(0)
    q, k, v, called = inputs(case)
    name, run = peer(case, q, k, v, called)
    contenders: dict[str, Run] = {name: run}
    for label, config in configs.items():
        contenders[label] = lambda config=config: attention(q, k, v, config=config, **called)
    if options.beside is not None and not case.lengths and case.heads == case.kv_heads and not case.window:
        out = torch.empty_like(q)
        bound = runpy.run_path(str(options.beside))["bind"](q, k, v, out, case.causal)
        contenders["beside"] = lambda: (bound(), out)[1]
    errors, wanted = {}, exact_ends(case, q, k, v)
    for label, call in list(contenders.items()):
        got = call()
        settle(f"{label} of {case}")
        errors[label] = error(case, got, wanted)
        if label in configs and not torch.equal(got, call()):
            print(f"{case}: {label} differs when it is repeated", flush=True)
        if label in configs and not errors[label] <= 1.3 * errors[name] + 1e-4:
            print(f"{case}: {label} has the error {errors[label]:.5f}, {name} {errors[name]:.5f}: not timed", flush=True)
            del contenders[label]
    del wanted
    clocks: dict[str, list[float]] = {}
    times = measure(contenders, options.rounds, regimes_of(options), clocks)
    cycles = {label: per_cycle(case, times[label]["steady"], found) for label, found in clocks.items()}
    for label, found in times.items():
        parts = [f"{case!s:44} {label:28} error {errors[label]:.5f}"]
        for regime, ms in found.items():
            speed, ratio = case.flops() / ms / 1e9, times[name][regime] / ms
            parts.append(f"{regime} {ms * 1e3:8.1f} us {speed:6.1f} TFLOP/s {ratio:.3f}")
        if label in cycles:
            parts.append(f"{cycles[label]:.0f} a cycle and SM, {cycles[label] / MOST_A_CYCLE:.3f}")
        print(" | ".join(parts), flush=True)
    return {
        "case": str(case), "flops": case.flops(), "peer": name, "ms": times, "errors": errors, "flops_per_cycle": cycles,
    }  # fmt: skip


def per_cycle(case: Case, ms: float, megahertz: list[float]) -> float:
    """Operations per cycle and SM, at the median of the clocks."""
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    return case.flops() / (ms * 1e-3 * statistics.median(megahertz) * 1e6 * sms)


def regimes_of(options: argparse.Namespace) -> tuple[str, ...]:
    return ("burst",) if options.burst else ("burst", "steady")


def read_config(text: str) -> AttentionConfig:
    """``keys=80,groups=3,slack=0``: what is not named has the class's default."""
    given = dict(part.split("=") for part in text.split(","))
    fields: dict[str, Any] = {key: (float if key == "slack" else int)(value) for key, value in given.items()}
    return AttentionConfig(**fields)


def compiled(case: Case, config: AttentionConfig | None) -> None:
    """One small call of the same kind, in a process of its own: the kernel is in the cache on disk then."""
    lengths = (70, 60) if case.lengths else ()
    size = 130 if lengths else 96
    small = Case(1, case.heads // case.kv_heads, 1, size, size, case.dim, case.causal, case.window, lengths)
    q, k, v, options = inputs(small)
    attention(q, k, v, config=config, **options)
    settle(f"a small call like {case}")


def compiled_peer(case: Case) -> None:
    """One call of FlexAttention, in a process of its own: torch keeps on disk what it compiled for these sizes."""
    q, k, v, options = inputs(case)
    peer(case, q, k, v, options)[1]()
    settle(f"the peer of {case}")


def compile_all(cases: list[Case], configs: dict[str, AttentionConfig | None]) -> None:
    """All kernels side by side, so that the card does not wait for one after another."""
    kinds = {(c.dim, c.causal, bool(c.window), bool(c.lengths), c.window and c.window[1] < 0): c for c in cases}
    wanted: list[tuple[Any, ...]] = [(compiled, case, config) for case in kinds.values() for config in configs.values()]
    side_by_side(call, [*((compiled_peer, case) for case in cases if case.window), *wanted])


def call(work: Callable[..., Any], *given: Any) -> None:
    """Calls a function; what it refuses is said when its turn comes."""
    with contextlib.suppress(Exception):
        work(*given)


def side_by_side(work: Callable[..., Any], wanted: list[tuple[Any, ...]]) -> None:
    """Calls `work` with each of these arguments, in as many processes as there are cores."""
    workers = min(len(wanted), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(work, *given) for given in wanted]:
            done.result()


def main() -> None:
    parser = machine.arguments(__doc__, 5)
    parser.add_argument("--rows", help="of the table, from 1 on: 1,5")
    parser.add_argument("--config", action="append", default=[], help="keys=80,groups=3: instead of the library's choice")
    parser.add_argument("--seed", type=int, help="draw shapes instead")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--burst", action="store_true", help="bursts only")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no further row is begun")
    parser.add_argument("--beside", type=Path)
    folder = os.environ.get("OUT")
    parser.set_defaults(json=None if folder is None else Path(folder, "attention.json"))
    options = parser.parse_args()
    cases = TABLE if options.seed is None else drawn(options.seed, options.count)
    if options.rows:
        cases = [cases[int(number) - 1] for number in options.rows.split(",")]
    configs: dict[str, Any] = {text: read_config(text) for text in options.config} or {"phalanx": None}
    compile_all(cases, configs)
    results, began = [], time.time()
    for case in cases:
        if time.time() - began >= options.limit:
            print(f"{case}: no time is left", flush=True)
            continue
        try:
            results.append(one_case(case, configs, options))
        except Exception as wrong:  # a peer that can't: the other rows go on
            print(f"{case}: {type(wrong).__name__}: {str(wrong)[:300]}", flush=True)
        save(options, results)
    for label in configs:
        for regime in regimes_of(options):
            ratios = [row["ms"][row["peer"]][regime] / row["ms"][label][regime] for row in results if label in row["ms"]]
            if ratios:
                below = sum(ratio < 0.95 for ratio in ratios) / len(ratios)
                print(
                    f"{label} {regime}: geometric mean {geometric_mean(ratios):.3f}, worst {min(ratios):.3f}, "
                    f"below 0.95: {below:.0%} of {len(ratios)}"
                )


def save(options: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """Writes what there is, after each row: a run that is ended keeps it."""
    if options.json is not None:
        machine.save(options.json, {"rows": results, "seed": options.seed})


if __name__ == "__main__":
    main()
