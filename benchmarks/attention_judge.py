"""Attention of models that nobody fitted anything to, beside cuDNN and FlashAttention 2 (both through torch's SDPA), bf16.

    python benchmarks/attention_judge.py                                    20 calls of each kind, drawn from the commit
    python benchmarks/attention_judge.py --kinds backward decode --seed 7 --count 40 --json attention_judge.json

Heads, their sizes and masks are those of published models; lengths and batches are drawn, of 4,096 to 32,768 tokens
together. Without `--seed` the draw is seeded by the commit, which its author can't know beforehand. Shapes of the tables
of `attention/forward.py` and `attention/decode.py`, by which kernels were fitted, are drawn again. Whatever is refused or
wrong is a line that says so, and counts as worst.

Forward and backward in bursts: some milliseconds after a rest, in turns, medians of the rounds. Decoding in CUDA graphs,
with more caches than L2 holds. Ratios are times of cuDNN, and of the faster of the two, over ours: above 1 ours is faster.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.attention import decode as caches
from benchmarks.attention import forward as dense
from benchmarks.common import machine
from benchmarks.common.device import TorchDevice
from phalanx.kernels.attention.backward import attention_backward
from phalanx.kernels.attention.decode import attention_decode
from phalanx.kernels.attention.forward import attention
from phalanx.runtime.device.timing import Mode, geometric_mean, take_turns

Run = Callable[[], Any]
PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
BURST = Mode("burst", 6.0, 0.05, 5)
KINDS = ("forward", "backward", "decode")


@dataclass(frozen=True)
class Model:
    """Heads of a published model; `tokens` where all inputs of an encoder have one length, else 0: causal, any length."""

    name: str
    heads: int
    kv_heads: int
    dim: int
    tokens: int = 0


MODELS = (
    Model("Llama 3 8B", 32, 8, 128), Model("Llama 3 70B", 64, 8, 128), Model("Llama 2 13B", 40, 40, 128),
    Model("Qwen 2.5 0.5B", 14, 2, 64), Model("Qwen 2.5 1.5B", 12, 2, 128), Model("Qwen 2.5 7B", 28, 4, 128),
    Model("Qwen 2.5 32B", 40, 8, 128), Model("Gemma 7B", 16, 16, 256), Model("Gemma 2B", 8, 1, 256),
    Model("Gemma 2 9B", 16, 8, 256), Model("Gemma 2 27B", 32, 16, 128), Model("Phi 2", 32, 32, 80),
    Model("Phi 3 mini", 32, 32, 96), Model("Falcon 7B", 71, 1, 64), Model("Falcon 40B", 128, 8, 64),
    Model("GPT-2", 12, 12, 64), Model("GPT-2 XL", 25, 25, 64), Model("GPT-NeoX 20B", 64, 64, 96),
    Model("OPT 2.7B", 32, 32, 80), Model("Yi 34B", 56, 8, 128), Model("Command R+", 96, 8, 128),
    Model("Nemotron 4 340B", 96, 8, 192), Model("StarCoder 2 3B", 24, 2, 128), Model("GPT-J 6B", 16, 16, 256),
    Model("Pythia 1B", 8, 8, 256), Model("BLOOM 3B", 32, 32, 80), Model("ViT-B/16", 12, 12, 64, 197),
    Model("ViT-L/14", 16, 16, 64, 257), Model("ViT-H/14", 16, 16, 80, 257), Model("SigLIP so400m", 16, 16, 72, 729),
    Model("DINOv2 g", 24, 24, 64, 1370), Model("Whisper large", 20, 20, 64, 1500), Model("Flux", 24, 24, 128, 4608),
    Model("SDXL", 10, 10, 64, 4096), Model("Stable Diffusion 1.5", 8, 8, 40, 4096), Model("SD 1.5, inner", 8, 8, 80, 1024),
    Model("SD 1.5, innermost", 8, 8, 160, 256), Model("BERT large", 16, 16, 64, 512),
)  # fmt: skip
LENGTHS = (512, 1024, 2048, 3072, 4096, 6144, 8192, 16384)
TOKENS = (4096, 8192, 16384, 32768)
"""Of all sequences together, forward and backward."""
CACHED = 2 << 30
"""The most bytes of keys and values of a call that decodes."""


@dataclass(frozen=True)
class Call:
    """One call: a model, how many sequences of how many tokens."""

    kind: str
    model: Model
    batch: int
    tokens: int

    @property
    def causal(self) -> bool:
        return self.model.tokens == 0

    def __str__(self) -> str:
        m = self.model
        heads = f"{m.heads}" + (f"/{m.kv_heads}" if m.kv_heads != m.heads else "")
        mask = "" if self.kind == "decode" else " causal" if self.causal else " full"
        return f"{self.kind} {m.name}: {self.batch},{heads},{self.tokens} d{m.dim}{mask}"

    def is_fitted(self) -> bool:
        """Whether kernels were fitted by such a shape."""
        m = self.model
        if self.kind == "decode":
            return (self.batch, m.heads, m.kv_heads, self.tokens, m.dim) in caches.SHAPES
        shape = self.batch, m.heads, m.kv_heads, self.tokens, m.dim, self.causal
        return shape in [(c.batch, c.heads, c.kv_heads, c.queries, c.dim, c.causal) for c in dense.TABLE]


def drawn(kind: str, seed: int | str, count: int) -> list[Call]:
    """So many different calls of a kind."""
    rng, found = random.Random(f"{kind} {seed}"), dict[Call, None]()
    while len(found) < count:
        made = drawn_call(kind, rng)
        if not made.is_fitted():
            found[made] = None
    return list(found)


def drawn_call(kind: str, rng: random.Random) -> Call:
    """One call: lengths are round, or any."""
    models = [model for model in MODELS if kind != "decode" or not model.tokens]
    model = rng.choice(models)
    length = model.tokens or (rng.choice(LENGTHS) if rng.random() < 0.7 else rng.randrange(200, 9000))
    if kind != "decode":
        return Call(kind, model, max(1, rng.choice(TOKENS) // length), length)
    length *= rng.choice((1, 1, 4, 16))
    most = max(1, CACHED // (4 * length * model.kv_heads * model.dim))
    return Call(kind, model, min(rng.choice((1, 1, 2, 4, 8, 16, 32, 64, 128)), most), length)


def random_heads(batch: int, heads: int, tokens: int, dim: int) -> Any:
    """(batch, heads, tokens, dim), which lie in memory as projections leave them: (batch, tokens, heads, dim)."""
    return torch.randn(batch, tokens, heads, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)


def sdpa(backend: Any, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def contenders_of(call: Call) -> tuple[dict[str, Run], Callable[[Any], list[Any]]]:
    """Who takes part in a forward or backward call, and what of a result is compared."""
    m = call.model
    q = random_heads(call.batch, m.heads, call.tokens, m.dim)
    k, v = (random_heads(call.batch, m.kv_heads, call.tokens, m.dim) for _ in range(2))
    runs: dict[str, Run] = {}
    if call.kind == "forward":
        runs["ours"] = lambda: attention(q, k, v, causal=call.causal)
        for name, backend in PEERS.items():
            runs[name] = lambda backend=backend: sdpa(backend, q, k, v, call.causal)
        return runs, lambda got: [got]
    do = torch.randn_like(q)

    def saved() -> Any:
        return attention(q, k, v, causal=call.causal, lse=True)

    o, lse = saved()
    runs["ours"] = lambda: attention_backward(do, q, k, v, o, lse, causal=call.causal)
    for name, backend in PEERS.items():
        given = tuple(x.detach().requires_grad_() for x in (q, k, v))
        try:
            result = sdpa(backend, given[0], given[1], given[2], call.causal)
        except RuntimeError:
            continue
        runs[name] = lambda result=result, given=given: torch.autograd.grad(result, given, do, retain_graph=True)
    return runs, list


def error(got: list[Any], want: list[Any]) -> float:
    """The largest relative difference of some arrays."""
    return max(float((a.float() - b.float()).norm() / b.float().norm().clamp_min(1e-20)) for a, b in zip(got, want))


def judged(call: Call) -> dict[str, Any]:
    """Milliseconds of each contender, and how far ours is from the first peer that can do it."""
    torch.manual_seed(0)
    row: dict[str, Any] = {"case": str(call), "kind": call.kind, "model": asdict(call.model)}
    row |= {"batch": call.batch, "tokens": call.tokens}
    if call.kind == "decode":
        return row | decoded(call)
    runs, parts = contenders_of(call)
    results = {}
    for name in list(runs):
        try:
            results[name] = parts(runs[name]())
        except RuntimeError:
            if name == "ours":
                raise
            del runs[name]
    torch.cuda.synchronize()
    row["error"] = max((error(results["ours"], results[name]) for name in runs if name != "ours"), default=0.0)
    del results
    times = take_turns(runs, TorchDevice().milliseconds, BURST)
    return row | {"ms": {name: sorted(found)[len(found) // 2] for name, found in times.items()}}


def decoded(call: Call) -> dict[str, Any]:
    """The same of a call that decodes, as `attention/decode.py` measures it."""
    m = call.model
    nbytes = 4 * call.batch * call.tokens * m.kv_heads * m.dim
    several = 1 + -(-caches.COLD_BYTES // nbytes)
    q = caches.random(call.batch, 1, m.heads, m.dim)
    shape = call.batch, call.tokens, m.kv_heads, m.dim
    pairs = [(caches.random(*shape), caches.random(*shape)) for _ in range(several)]
    lengths = torch.full((call.batch,), call.tokens, device="cuda", dtype=torch.int32)
    turned = [[x.transpose(1, 2) for x in pair] for pair in pairs]
    runs: dict[str, Callable[[int], Any]] = {"ours": lambda i: attention_decode(q, *pairs[i % several], lengths)}
    got = runs["ours"](0)
    worst = 0.0
    for name, backend in PEERS.items():
        runs[name] = lambda i, backend=backend: sdpa(backend, q.transpose(1, 2), *turned[i % several])
        try:
            worst = max(worst, error([got], [runs[name](0).transpose(1, 2)]))
        except RuntimeError:
            del runs[name]
    times = caches.medians(runs, max(several, min(64, (1 << 30) // nbytes)), 7)
    return {"error": worst, "ms": {name: time / 1e3 for name, time in times.items()}, "bytes": nbytes}


def compile_ahead(calls: Iterable[Call]) -> None:
    """Calls ours once each, side by side: kernels are compiled then."""

    def make(call: Call) -> None:
        try:
            if call.kind == "decode":
                m = call.model
                q = caches.random(call.batch, 1, m.heads, m.dim)
                k = caches.random(call.batch, call.tokens, m.kv_heads, m.dim)
                attention_decode(q, k, k, torch.full((call.batch,), 1, device="cuda", dtype=torch.int32))
            else:
                contenders_of(call)[0]["ours"]()
            torch.cuda.synchronize()
        except Exception:  # said when its turn comes
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, calls))


def told(row: dict[str, Any]) -> str:
    """A line of the table."""
    if "wrong" in row:
        return f"{row['case']:52} {row['wrong']}"
    ms, parts = row["ms"], [f"{row['case']:52} {row['ms']['ours'] * 1e3:9.1f} us, off by {row['error']:.4f}"]
    parts += [f"{name} {ms[name] / ms['ours']:.3f}" for name in PEERS if name in ms]
    if "bytes" in row:
        parts.append(f"{row['bytes'] / ms['ours'] / 1e6:.0f} GB/s")
    return " | ".join(parts)


def ratios_of(rows: list[dict[str, Any]], peers: Iterable[str]) -> list[float]:
    """Of each row the fastest of these peers over ours; 0 of a row that is wrong, none where no peer can do it."""
    found = []
    for row in rows:
        times = [row["ms"][name] for name in peers if name in row.get("ms", {})]
        if "wrong" in row:
            found.append(0.0)
        elif times:
            found.append(min(times) / row["ms"]["ours"])
    return found


def summary(kind: str, rows: list[dict[str, Any]]) -> list[str]:
    """Geometric mean and worst of a kind, against cuDNN and against the faster peer."""
    lines = []
    for label, peers in (("cuDNN", ("cuDNN",)), ("the faster", tuple(PEERS))):
        ratios = ratios_of(rows, peers)
        mean = geometric_mean([max(ratio, 1e-3) for ratio in ratios])
        below = sum(ratio < machine.BEHIND for ratio in ratios)
        lines.append(
            f"{kind}, of {label}: geometric mean {mean:.3f}, worst {min(ratios, default=0.0):.3f}, "
            f"{below} of {len(ratios)} below {machine.BEHIND}"
        )
    return lines


ROUGH = 0.02
"""Two results in bf16 that differ by more than so much of their size: one of them is wrong."""


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seed", help="of the draw; without it the commit's first eight digits")
    parser.add_argument("--count", type=int, default=20, help="calls of each kind")
    options = parser.parse_args()
    seed = options.seed or machine.commit()[:8]
    rows: list[dict[str, Any]] = []
    for kind in options.kinds:
        calls = drawn(kind, seed, options.count)
        compile_ahead(calls)
        for call in calls:
            try:
                row = judged(call)
                if row["error"] > ROUGH:
                    row["wrong"] = f"off by {row['error']:.4f}"
            except Exception as wrong:  # the other rows go on
                row = {"case": str(call), "kind": kind, "wrong": f"{type(wrong).__name__}: {str(wrong)[:200]}"}
            rows.append(row)
            torch.cuda.empty_cache()
            print(told(row), flush=True)
            if options.json is not None:
                machine.save(options.json, {"seed": seed, "rows": rows})
    for kind in options.kinds:
        print("\n".join(summary(kind, [row for row in rows if row["kind"] == kind])))


if __name__ == "__main__":
    main()
