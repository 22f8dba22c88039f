"""`px.kernels.matmul` with the weights of real models, beside cuBLAS (through torch), at 16 heights from 1 to 8,192 rows.

    PYTHONPATH=src python benchmarks/layers.py --processes 15 --json layers.json

`LAYERS` are (N, K) of published models that no configuration was fitted to: none is among `drawn.draws.MODELS`, in
`benchmarks/shapes` or among `FITTED`, which `--fitted` takes in their place. A product is ``x @ w.T``, bf16, as a linear
layer has it. Weights are cold: each launch takes another copy of them, so many that L2 holds none when its turn comes
again. Launches are CUDA graphs, timed in blocks that alternate with torch's in another order each round; a ratio is the
median over rounds of torch's time over ours, above 1 where ours is faster. A result that is off by more than `TOLERANCE`
has no ratio.

`--only` takes layers by a part of their names, `--rows` other heights. `--batched` times the products of attention, of
which each matrix is small. `--also FILE` times further configurations beside the choice, one in a line of JSON:
{"shape": [m, n, k], "batch": 1, "kind": "tiles" or "split", "config": {"bm": 64, ...}}; then only the shapes of that file
are timed, unless `--layers` is given, too. `--processes` compile beforehand.

The two numbers of a line: bytes (each operand read once, the result written once) over time, of which an H200 gives about
4.3 TB/s, and operations over time, about 800 TFLOP/s in bf16 at the boost clock.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import phalanx as px
from benchmarks.common import machine
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, choose, split_choice
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.split_config import SplitConfig
from phalanx.kernels.products.split_ring import split_ring
from phalanx.runtime.device.timing import geometric_mean

LAYERS = {
    "Qwen2.5-1.5B gate_up": (17920, 1536), "Qwen2.5-1.5B down": (1536, 8960), "Qwen2.5-3B gate_up": (22016, 2048),
    "Qwen2.5-3B down": (2048, 11008), "Qwen2.5-14B qkv": (7168, 5120), "Qwen2.5-14B gate_up": (27648, 5120),
    "Qwen2.5-32B down": (5120, 27648), "Qwen2.5-72B down": (8192, 29568), "Qwen3-4B gate_up": (19456, 2560),
    "Qwen3-4B down": (2560, 9728), "Qwen3-32B qkv": (10240, 5120), "Llama-3.2-3B qkv": (5120, 3072),
    "Llama-3.2-3B gate_up": (16384, 3072), "Gemma-2-9B qkv": (8192, 3584), "Gemma-2-27B o": (4608, 4096),
    "Gemma-2-27B down": (4608, 36864), "Gemma-3-4B down": (2560, 10240), "Gemma-3-12B gate_up": (30720, 3840),
    "Mistral-Small-24B o": (5120, 4096), "Mistral-Small-24B down": (5120, 32768), "Yi-34B qkv": (9216, 7168),
    "Granite-3-8B down": (4096, 12800), "StarCoder2-15B down": (6144, 24576), "InternLM2-20B qkv": (8192, 6144),
    "Kimi-K2 o": (7168, 8192), "FLUX.1 linear2": (3072, 15360), "ViT-bigG up": (8192, 1664),
    "Whisper-large up": (5120, 1280), "BERT-large down": (1024, 4096), "StarCoder2-15B qkv": (7168, 6144),
}  # fmt: skip
"""(N, K) of weights by the model and the layer; gate and up, and queries, keys and values, are one matrix each. Nothing was
fitted to these."""
FITTED = {
    "Qwen2.5-7B qkv": (4608, 3584), "Qwen2.5-7B gate_up": (37888, 3584), "Qwen2.5-7B down": (3584, 18944),
    "Qwen3-8B gate_up": (24576, 4096), "Qwen3-8B down": (4096, 12288), "Qwen3-14B gate_up": (34816, 5120),
    "Qwen3-14B down": (5120, 17408), "Qwen3-32B o": (5120, 8192), "Qwen3-32B down": (5120, 25600),
    "Gemma-2-9B o": (3584, 4096), "Gemma-3-12B down": (3840, 15360), "Gemma-3-27B gate_up": (43008, 5376),
    "Gemma-3-27B down": (5376, 21504), "Phi-4 qkv": (7680, 5120), "Phi-4 down": (5120, 17920),
    "Phi-3-mini qkv": (9216, 3072), "Mistral-Nemo qkv": (6144, 5120), "Mistral-Nemo down": (5120, 14336),
    "Yi-34B down": (7168, 20480), "GLM-4-9B down": (4096, 13696), "Command-R gate_up": (45056, 8192),
    "Llama-3.2-1B gate_up": (16384, 2048), "Llama-3.2-1B down": (2048, 8192), "InternLM2-20B down": (6144, 16384),
    "DeepSeek-V3 kv_b": (32768, 512), "gpt-oss qkv": (5120, 2880), "Falcon-7B up": (18176, 4544),
    "SigLIP-so400m up": (4304, 1152), "Whisper-large down": (1280, 5120), "BERT-large up": (4096, 1024),
}  # fmt: skip
"""Layers whose times were looked at while choices were changed."""
HEIGHTS = (1, 2, 4, 7, 16, 33, 48, 64, 100, 200, 333, 512, 1000, 2048, 4096, 8192)
BATCHED = (
    (640, 1024, 1024, 128), (64, 2048, 2048, 128), (320, 768, 768, 128), (192, 1536, 1536, 128), (1536, 384, 384, 128),
    (128, 1100, 1100, 128), (40, 4096, 4096, 128), (256, 1024, 1024, 80), (96, 1280, 1280, 64), (192, 1024, 1024, 192),
)  # fmt: skip
"""(batch, M, N, K) of queries by keys; the operands lie along K. Nothing was fitted to these."""
FITTED_BATCHED = (
    (1024, 1024, 1024, 128), (1024, 512, 512, 128), (512, 1024, 1024, 64), (256, 2048, 2048, 128), (128, 1000, 1000, 128),
    (768, 256, 256, 64), (96, 1024, 1024, 96), (256, 1024, 1024, 256), (512, 1024, 128, 1024), (320, 576, 576, 72),
)  # fmt: skip
"""Products of attention, one of scores by values among them, whose times were looked at while choices were changed."""
ROTATED = 320 << 20
"""Bytes of weights that launches take in rotation, at least: several times what L2 holds."""
MOST_COPIES = 256
BLOCK_MS = 3.0
TOLERANCE = 0.01
CHECKED_ROWS = 64
"""Rows of a result that are compared, from each end."""


@dataclass(frozen=True)
class Case:
    """A product, and what it is a product of; `also` are further configurations to time."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    also: tuple[MatmulConfig | SplitConfig, ...] = ()

    @property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, self.batch)

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> float:
        return 2.0 * self.batch * (self.m * self.n + self.m * self.k + self.n * self.k)

    def __str__(self) -> str:
        lead = f"{self.batch} x " if self.batch > 1 else ""
        return f"{self.name}, {lead}{self.m} x {self.n} x {self.k}"


def short(config: MatmulConfig | SplitConfig | None) -> str:
    """A configuration in a few words."""
    if config is None:
        return "chosen"
    if isinstance(config, SplitConfig):
        text = f"split {config.bm}x{config.bn} s{config.split} st{config.stages}{-config.ahead:+d} bk{config.bk}"
        return text + f"{' cn2' * (config.cn > 1)}{' cm2' * (config.cm > 1)}{' reuse' * config.reuse} g{config.groups}"
    cm, cn = config.cluster
    text = f"tiles {config.bm}x{config.bn} {cm}x{cn} st{config.stages} p{config.parts} g{config.groups} o{config.group}"
    marks = (
        (config.swapped, "swapped"), (config.split > 1, f"s{config.split}"),
        (config.streamed, f"streamed {config.kept}"), (any(config.trimmed), "trimmed"),
    )
    return " ".join([text, *(word for here, word in marks if here)])


def chosen(case: Case) -> MatmulConfig | SplitConfig:
    """What the library chooses."""
    split = split_choice(case.problem, px.device()) if case.batch == 1 else None
    return choose(case.problem, px.device()) if split is None else split[1]


# Compiling --------------------------------------------------------------------------------------------------------


def compile_one(case: Case, config: MatmulConfig | SplitConfig) -> None:
    """Puts the kernel of a configuration on disk."""
    lead = (case.batch,) if case.batch > 1 else ()
    a, b = px.spec((*lead, case.m, case.k), px.bf16), px.spec((*lead, case.n, case.k), px.bf16)
    c = px.spec((*lead, case.m, case.n), px.bf16)
    if isinstance(config, SplitConfig):
        flipped = case.m > case.n
        few, many = (case.n, case.m) if flipped else (case.m, case.n)
        operands = (b, a) if flipped else (a, b)
        px.compile(
            split_ring[config.grid(few, many)], *operands, c, c, arch="sm_90a", ROWS=True, A_ROWS=True, FLIPPED=flipped,
            WHOLE=True, BIASED=False, BIAS_OF_ROWS=flipped, ACTIVATION=None, config=config,
        )
        return
    operands, (cm, cn), device = (b, a) if config.swapped else (a, b), config.cluster, px.device()
    sums = config.left_sums(case.problem, device)
    px.compile(
        matmul_tiles[cm * config.launched(case.problem, device), cn], *operands, c, None, None, None, None,
        px.spec((sums,), px.f32) if sums else None, arch="sm_90a", config=config,
    )  # fmt: skip


def compile_share(jobs: Sequence[tuple[Case, MatmulConfig | SplitConfig]]) -> list[str]:
    """Compiles some configurations; runs in a process of its own. Gives what went wrong."""
    problems = []
    for case, config in jobs:
        try:
            compile_one(case, config)
        except Exception as problem:
            problems.append(f"{case}, {short(config)}: {type(problem).__name__}: {str(problem).splitlines()[0]}")
    return problems


def compile_all(cases: Sequence[Case], processes: int) -> None:
    """Compiles each kernel once: sizes are no part of one."""
    jobs: dict[Any, tuple[Case, MatmulConfig | SplitConfig]] = {}
    for case in cases:
        for config in (chosen(case), *case.also):
            jobs.setdefault((str(config.constants()), type(config), case.batch > 1, case.m > case.n), (case, config))
    listed = list(jobs.values())
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for problems in pool.imap_unordered(compile_share, [listed[number::processes] for number in range(processes)]):
            for problem in problems:
                print(problem, flush=True)
    print(f"{len(listed)} kernels", flush=True)


# Timing -----------------------------------------------------------------------------------------------------------


class Operands:
    """What the cases of a layer share: copies of its weights, and rows."""

    def __init__(self, case: Case, most_rows: int) -> None:
        import torch

        generator = torch.Generator(device="cuda").manual_seed(0)
        lead, make = (case.batch,) if case.batch > 1 else (), {"device": "cuda", "dtype": torch.bfloat16}
        self.rows = torch.empty((*lead, most_rows, case.k), **make).normal_(generator=generator)
        first = torch.empty((*lead, case.n, case.k), **make).normal_(generator=generator)
        nbytes = first.nbytes + (self.rows.nbytes if lead else 0)
        copies = max(1 if lead else 2, min(MOST_COPIES, -(-ROTATED // nbytes)))
        self.weights = [first, *(first.clone() for _ in range(copies - 1))]

    def x(self, m: int) -> Any:
        return self.rows[..., :m, :]


def graphed(run: Callable[[Any], Any], weights: Sequence[Any], launches: int) -> Callable[[], Any]:
    """So many launches with the weights in rotation as one CUDA graph."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(weights[0])
        run(weights[-1])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(launches):
            run(weights[number % len(weights)])
    return graph.replay


def difference(got: Any, want: Any) -> float:
    """The largest error in the first and the last rows, relative to the largest element there."""
    worst = 0.0
    for rows in (slice(None, CHECKED_ROWS), slice(-CHECKED_ROWS, None)):
        mine, theirs = got[..., rows, :].float(), want[..., rows, :].float()
        worst = max(worst, float((mine - theirs).abs().max() / theirs.abs().max()))
    return worst if worst == worst else float("inf")


def measure(case: Case, operands: Operands, rounds: int) -> dict[str, Any]:
    """Microseconds of every way to a product, and the ratios to torch's."""
    import torch

    x, weights = operands.x(case.m), operands.weights
    ways: dict[str, Callable[[Any], Any]] = {"torch": lambda w: torch.matmul(x, w.mT)}
    for config in (None, *case.also):
        ways[short(config)] = lambda w, config=config: px.kernels.matmul(x, w.mT, config=config)
    want = ways["torch"](weights[0])
    runs, wrong = {}, {}
    once = machine.milliseconds(lambda: ways["torch"](weights[-1]), 2)
    launches = len(weights) * max(1, round(min(40, BLOCK_MS / once) / len(weights)))
    for name, way in ways.items():
        try:
            error = 0.0 if name == "torch" else difference(way(weights[0]), want)
            if error > TOLERANCE:
                wrong[name] = f"off by {error:.2g}"
                continue
            runs[name] = graphed(way, weights, launches)
        except Exception as problem:
            wrong[name] = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
    for run in runs.values():
        run()
    repeats = max(1, round(BLOCK_MS / (once * launches)))
    order, rng = list(runs), random.Random(case.m)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            times[name].append(1e3 * machine.milliseconds(runs[name], repeats) / launches)
    middle = {name: statistics.median(took) for name, took in times.items()}
    ratios = {
        name: statistics.median(theirs / mine for theirs, mine in zip(times["torch"], took, strict=True))
        for name, took in times.items() if name != "torch"
    }  # fmt: skip
    return {
        "layer": case.name, "shape": [case.m, case.n, case.k], "batch": case.batch, "choice": short(chosen(case)),
        "us": middle, "ratios": ratios, "wrong": wrong,
    }


def shown(case: Case, row: dict[str, Any]) -> list[str]:
    """The lines of a case: one for the choice, and one for each further configuration."""
    lines = []
    for name, ratio in row["ratios"].items():
        us, what = row["us"][name], row["choice"] if name == "chosen" else name
        rates = f"{case.nbytes / us / 1e3:5.0f} GB/s {case.flops / us / 1e6:4.0f} TFLOP/s"
        mark = "" if name == "chosen" else "  also "
        lines.append(f"{mark}{case!s:48} {ratio:6.3f} {us:9.1f} us, torch {row['us']['torch']:9.1f}  {rates}  {what}")
    return lines + [f"{case}: {name}: {why}" for name, why in row["wrong"].items()]


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures that are asked for, of what the library chose."""
    found = sorted((row["ratios"]["chosen"], row["layer"], row["shape"]) for row in rows if "chosen" in row["ratios"])
    ratios = [ratio for ratio, *_ in found]
    if not ratios:
        return {}
    wrong = sum("chosen" in row["wrong"] for row in rows)
    return {
        "cases": len(ratios), "geometric_mean": geometric_mean(ratios), "worst": found[0], "below_0.93":
        sum(ratio < 0.93 for ratio in ratios), "below_0.97": sum(ratio < 0.97 for ratio in ratios), "wrong": wrong,
    }  # fmt: skip


def read_also(file: Path) -> list[Case]:
    """The cases of a file of configurations."""
    found: dict[tuple[Any, ...], Case] = {}
    for line in file.read_text().splitlines():
        if not line.strip():
            continue
        given = json.loads(line)
        fields, kind = dict(given["config"]), SplitConfig if given["kind"] == "split" else MatmulConfig
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        key = (*given["shape"], given.get("batch", 1))
        case = found.setdefault(key, Case(given.get("name", "also"), *key))
        found[key] = replace(case, also=(*case.also, kind(**fields)))
    return list(found.values())


def cases_of(given: argparse.Namespace) -> list[Case]:
    cases = read_also(given.also) if given.also else []
    known = {(case.m, case.n, case.k, case.batch) for case in cases}
    layers, batched = (FITTED, FITTED_BATCHED) if given.fitted else (LAYERS, BATCHED)
    if given.batched:
        cases += [Case("scores", m, n, k, batch) for batch, m, n, k in batched if (m, n, k, batch) not in known]
    if given.layers or not cases:
        names = [name for name in layers if not given.only or any(part.lower() in name.lower() for part in given.only)]
        weights = [(name, *layers[name]) for name in names]
        cases += [Case(name, m, n, k) for name, n, k in weights for m in given.rows if (m, n, k, 1) not in known]
    return cases


def groups_of(cases: Iterable[Case]) -> dict[tuple[int, ...], list[Case]]:
    """Cases by the weights that they share."""
    found: dict[tuple[int, ...], list[Case]] = {}
    for case in cases:
        key = (case.n, case.k, case.batch) if case.batch == 1 else (case.n, case.k, case.batch, case.m)
        found.setdefault(key, []).append(case)
    return found


def main() -> None:
    parser = machine.arguments(__doc__, 5)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of layers")
    parser.add_argument("--rows", type=int, nargs="*", default=HEIGHTS)
    parser.add_argument("--batched", action="store_true")
    parser.add_argument("--fitted", action="store_true", help="the layers and batches that choices were fitted to")
    parser.add_argument("--layers", action="store_true", help="the layers as well, where others are asked for")
    parser.add_argument("--also", type=Path, help="a file of further configurations")
    parser.add_argument("--processes", type=int, default=0, help="how many compile beforehand")
    parser.add_argument("--compile", action="store_true", help="only compile")
    parser.add_argument("--seconds", type=float, default=1e9, help="after so long no further case begins")
    given = parser.parse_args()
    started, cases, rows = time.monotonic(), cases_of(given), []
    if given.processes or given.compile:
        compile_all(cases, given.processes or 1)
        print(f"compiled after {time.monotonic() - started:.0f} s", flush=True)
    if given.compile:
        return
    import torch

    try:
        for shared in groups_of(cases).values():
            if time.monotonic() - started > given.seconds:
                break
            operands = Operands(shared[0], max(case.m for case in shared))
            for case in shared:
                row = measure(case, operands, given.rounds)
                rows.append(row)
                print("\n".join(shown(case, row)), flush=True)
            del operands
            torch.cuda.empty_cache()
    finally:
        machine.save(given.json, {"layers": rows, "summary": summary(rows)})
    left = len(cases) - len(rows)
    print(f"{time.monotonic() - started:.0f} s{f'; {left} cases left' if left else ''}")
    found = {name: f"{value:.3f}" if isinstance(value, float) else value for name, value in summary(rows).items()}
    print(", ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
