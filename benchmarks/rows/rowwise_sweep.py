"""Configurations of softmax and the norms against the device copy, on a GPU: which one `choose` should give.

All of them are compiled first, in parallel and into the cache. Then every one is compared with torch in f32, over the
whole matrix, and measured in short turns with the copy of the same matrix; the best are measured again in longer ones.
One line per configuration, the best last; the two stages show in the column "turns".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from os import cpu_count
from typing import Any

import phalanx as px
from benchmarks.common import machine
from benchmarks.common.machine import alternate
from benchmarks.rows.rowwise import SIZES
from phalanx.kernels.rowwise.norms import layer_norm_rows, rms_norm_rows
from phalanx.kernels.rowwise.row_config import LIMITS, MAX_CLUSTER, VECTOR_BYTES, RowConfig, choose
from phalanx.kernels.rowwise.softmax import softmax_rows

KINDS = ("softmax", "rms_norm", "layer_norm")
VECTORS = {"softmax": 0, "rms_norm": 1, "layer_norm": 2}  # weights and biases
EPS = 1e-6
ARCH = "sm_90a"
SM_REGISTERS = 65536
SHORT, LONG = (3, 2.0), (5, 8.0)  # turns of each contender, and milliseconds a turn
FINALISTS = 6


def shown(config: RowConfig) -> str:
    """A configuration in one word per property; what is off is left out."""
    shape = f"rows C{config.cluster} W{config.warps} R{config.rows} P{config.parts} B{config.per_sm}"
    return " ".join([shape, *(name for name in ("once", "ahead") if getattr(config, name))])


@dataclass(frozen=True)
class Trial:
    """One configuration of one kernel for one matrix."""

    kind: str
    rows: int
    columns: int
    config: RowConfig

    @property
    def text(self) -> str:
        return shown(self.config)


# ---------------------------------------------------------------------- what is tried


def spread_rows(kind: str, columns: int, itemsize: int) -> Iterator[RowConfig]:
    """Rows in registers: the chosen one, then other clusters, threads and numbers of CTAs on an SM."""
    vector = VECTOR_BYTES // itemsize
    chosen = choose(columns, itemsize, weighted=kind == "rms_norm", centered=kind == "layer_norm")
    yield chosen
    warp = 32 * vector
    if columns <= 16 * warp:  # a warp to a row
        for n in (4, 8):
            yield RowConfig(1, n, n, warp, px.cdiv(columns, warp), per_sm=20 // n)
    for cluster in (chosen.cluster, 2 * chosen.cluster, chosen.cluster // 2, 4 * chosen.cluster):
        for threads in (512, 256, 1024, 128):
            parts = px.cdiv(columns, cluster * threads * vector) if cluster else 0
            if not 2 <= parts <= 16 or cluster > MAX_CLUSTER:
                continue
            most = min(SM_REGISTERS // (threads * (32 + 4 * parts)), 2048 // threads)
            for per_sm in dict.fromkeys((most, most * 3 // 4)):
                if per_sm:
                    yield RowConfig(cluster, threads // 32, 1, threads * vector, parts, per_sm=per_sm)


def row_trials(kind: str, columns: int, itemsize: int) -> Iterator[RowConfig]:
    """Each with its flags as `choose` would set them, and with one of them the other way."""
    has_ahead = VECTORS[kind] > 0
    for plain in spread_rows(kind, columns, itemsize):
        config = replace(plain, once=plain.cluster >= LIMITS.streamed_from, ahead=has_ahead and plain.parts <= LIMITS.ahead)
        yield config
        yield replace(config, once=not config.once)
        if has_ahead and plain.parts <= 2 * LIMITS.ahead:
            yield replace(config, ahead=not config.ahead)


def trials(kind: str, rows: int, columns: int, itemsize: int = 2) -> list[Trial]:
    """The configurations of one kernel and matrix, each once, the likely ones first."""
    return [Trial(kind, rows, columns, config) for config in dict.fromkeys(row_trials(kind, columns, itemsize))]


# ---------------------------------------------------------------------- compiling


def build(trial: Trial) -> str:
    """Compiles into the cache, exactly as the launch will ask for it; what is wrong with the result, or nothing."""
    x, w = px.spec((trial.rows, trial.columns), px.bf16), px.spec((trial.columns,), px.bf16)
    config = trial.config
    constants: dict[str, Any] = dict(config.constants())
    centered, masked = trial.kind == "layer_norm", config.columns != trial.columns
    launch: Any
    args: tuple[Any, ...]
    if trial.kind == "softmax":
        launch, args = softmax_rows[config.grid(trial.rows)], (x, None, x, None, None, None, None)
        constants |= {"LOG": False}
    elif centered:
        launch, args = layer_norm_rows[config.grid(trial.rows)], (x, w, w, x, EPS, None)
        constants |= {"AHEAD": config.ahead, "MASKED": masked}
    else:
        launch, args = rms_norm_rows[config.grid(trial.rows)], (x, None, w, x, EPS, None)
        constants |= {"AHEAD": config.ahead}
    try:
        made = px.compile(launch, *args, arch=ARCH, **constants)
    except px.Error as problem:
        return str(problem).splitlines()[0]
    return f"{made.spills} bytes spilled" if made.spills else ""


def build_all(all_trials: list[Trial], workers: int) -> dict[Trial, str]:
    """In processes of their own, made before this one touches the GPU."""
    start = time.perf_counter()
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        verdicts = dict(zip(all_trials, pool.map(build, all_trials, chunksize=2), strict=True))
    good = sum(not verdict for verdict in verdicts.values())
    print(f"{good} of {len(all_trials)} configurations compiled, {time.perf_counter() - start:.0f} s", flush=True)
    return verdicts


# ---------------------------------------------------------------------- measuring


class Matrix:
    """Input, copy and reference of one kernel and shape."""

    def __init__(self, kind: str, rows: int, columns: int) -> None:
        import torch

        torch.manual_seed(1)
        self.torch, self.kind = torch, kind
        self.x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(columns, device="cuda", dtype=torch.bfloat16)
        self.b = torch.randn(columns, device="cuda", dtype=torch.bfloat16)
        self.copied = torch.empty_like(self.x)
        self.step = max(1, (1 << 26) // columns)
        self.want = torch.cat([self.reference(part.float()) for part in self.x.split(self.step)])

    def reference(self, x: Any) -> Any:
        if self.kind == "softmax":
            return self.torch.softmax(x, -1).bfloat16()
        if self.kind == "layer_norm":
            shape = (x.shape[1],)
            return self.torch.nn.functional.layer_norm(x, shape, self.w.float(), self.b.float(), EPS).bfloat16()
        scale = self.torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)
        return (x * scale * self.w.float()).bfloat16()

    def copy(self) -> None:
        self.copied.copy_(self.x)

    def run(self, config: RowConfig) -> Any:
        if self.kind == "softmax":
            return px.kernels.softmax(self.x, config=config)
        if self.kind == "layer_norm":
            return px.kernels.layer_norm(self.x, self.w, self.b, EPS, config=config)
        return px.kernels.rms_norm(self.x, self.w, EPS, config=config)

    def is_right(self, config: RowConfig) -> bool:
        """Every element within one rounding of the reference, which has one of its own.

        What is subtracted from something as large (a mean, a bias) leaves an error of f32 besides.
        """
        y = self.run(config)
        least = 1e-5 if self.kind == "layer_norm" else 1e-30
        return all(
            bool(((a.float() - b.float()).abs() <= b.float().abs() * 2**-7 + least).all())
            for a, b in zip(y.split(self.step), self.want.split(self.step), strict=True)
        )


def share(matrix: Matrix, config: RowConfig, rounds: int, budget_ms: float) -> float:
    times = alternate({"copy": matrix.copy, "ours": lambda: matrix.run(config)}, rounds, budget_ms)
    return times["copy"] / times["ours"]


def sweep(kind: str, rows: int, columns: int, todo: list[Trial], deadline: float) -> list[dict[str, Any]]:
    """All that fit the time, then the best again; the results, best last."""
    matrix = Matrix(kind, rows, columns)
    results: list[dict[str, Any]] = []
    late = 0
    for trial in todo:
        if time.perf_counter() > deadline:
            late += 1
            continue
        row: dict[str, Any] = {"config": trial.text, "fields": asdict(trial.config), "turns": "short", "share": 0.0}
        try:
            if matrix.is_right(trial.config):
                row["share"] = share(matrix, trial.config, *SHORT)
            else:
                row["failed"] = "wrong result"
        except px.Error as problem:
            row["failed"] = str(problem).splitlines()[0]
        results.append(row | {"trial": trial})
    results.sort(key=lambda row: row["share"])
    for row in results[-FINALISTS:]:
        if "failed" not in row:
            row["share"], row["turns"] = share(matrix, row["trial"].config, *LONG), "long"
    results.sort(key=lambda row: (row["turns"] == "long", row["share"]))
    for row in results:
        del row["trial"]
    if late:
        print(f"{kind} {rows} x {columns}: no time for {late} more")
    return results


def report(kind: str, rows: int, columns: int, results: list[dict[str, Any]]) -> None:
    for row in results:
        print(f"{kind:9}{rows:>6} x {columns:<7}{row['share']:6.3f} {row['turns']:5} {row['config']}  "
              f"{row.get('failed', '')}", flush=True)  # fmt: skip


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--kernel", nargs="*", choices=KINDS, default=KINDS[:2])
    parser.add_argument("--columns", nargs="*", type=int, help="of the sizes, these alone")
    parser.add_argument("--seconds", type=float, default=170.0, help="in all; what is left for each matrix is shared")
    parser.add_argument("--most", type=int, default=90, help="configurations of a kernel and matrix")
    parser.add_argument("--workers", type=int, default=cpu_count() or 2, help="processes that compile")
    parser.add_argument("--compile-only", action="store_true", help="without a GPU: what compiles, and what spills")
    options = parser.parse_args()
    end = time.perf_counter() + options.seconds
    works = [
        (kind, *size) for size in SIZES for kind in options.kernel if not options.columns or size[1] in options.columns
    ]
    tried = {work: trials(*work)[: options.most] for work in works}
    verdicts = build_all([trial for some in tried.values() for trial in some], options.workers)
    if options.compile_only:
        for trial, verdict in verdicts.items():
            print(f"{trial.kind:9}{trial.columns:>7} {trial.text}  {verdict}")
        return
    import torch

    found: list[dict[str, Any]] = []
    for number, (work, some) in enumerate(tried.items()):
        now = time.perf_counter()
        deadline = now + (end - now) / (len(works) - number)
        results = sweep(*work, [trial for trial in some if not verdicts[trial]], deadline)
        report(*work, results)
        kind, rows, columns = work
        found.append({"kernel": kind, "shape": [rows, columns], "results": results[::-1]})
        machine.save(options.json, {"sweeps": found})
        torch.cuda.empty_cache()
    print(f"{options.seconds - (end - time.perf_counter()):.0f} s in all; the best of each:")
    for one in found:
        best = one["results"][0] if one["results"] else {"share": 0.0, "config": "none"}
        print(f"{one['kernel']:9}{one['shape'][0]:>6} x {one['shape'][1]:<7}{best['share']:6.3f} {best['config']}")


if __name__ == "__main__":
    main()
