"""Shapes drawn at random, for `anywhere.py`: what the library may be asked, not what its configurations were made for.

A draw depends on the operation, the seed and its number alone, on every machine; so a seed is a list of shapes that anybody
can have again. Configurations are fitted on some seeds and judged on others.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

MODELS = (
    (4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (28672, 8192), (8192, 28672), (10240, 8192), (5120, 13824),
    (13824, 5120), (5120, 5120), (2560, 2560), (7168, 2048), (2048, 7168), (2112, 7168), (24576, 1536), (7168, 16384),
    (18432, 7168), (3072, 8192), (11008, 4096), (4096, 11008), (151936, 4096), (32000, 4096), (1536, 7168), (2880, 2880),
)  # fmt: skip
"""(N, K) of weights of published models."""
EXPERTS = ((14336, 4096), (4096, 14336), (2048, 7168), (7168, 2048), (1408, 2048), (2880, 2880), (4096, 1536))
"""(N, K) of experts of published models."""
WIDTHS = (64, 128, 256, 512, 768, 1024, 1536, 2048, 2880, 4096, 5120, 7168, 8192, 12288, 16384)
"""Columns of hidden states of published models."""
VOCABULARIES = (32000, 32064, 50257, 50304, 100352, 128256, 129280, 151936, 152064, 200064, 256000)


@dataclass(frozen=True)
class Case:
    """One draw: the operation, its sizes by name, and what else there is to say of the call."""

    op: str
    sizes: dict[str, int]
    dtype: str = "bf16"
    traits: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"{name} {size}" for name, size in self.sizes.items()]
        said += [str(value) for value in (self.dtype, *self.traits.values()) if value not in (None, False)]
        return ", ".join(said)

    def size(self, *names: str) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in names)


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    """Between both, every factor of two as likely as every other."""
    return min(high, max(low, round(math.exp(rng.uniform(math.log(low), math.log(high))))))


def size(rng: random.Random, low: int, high: int, least: int = 1) -> int:
    """Log-uniform, made a multiple of 64, 16 or 8 each time out of four, of `least` always."""
    found = log_uniform(rng, low, high)
    step = max(least, rng.choice((1, 8, 16, 64)))
    return max(least, min(high, max(low, round(found / step) * step)) // least * least)


def draw_matmul(rng: random.Random) -> Case:
    """Half of them weights of models under any number of rows, half of them any three sizes; layouts, biases, batches."""
    while True:
        if rng.random() < 0.5:
            n, k = rng.choice(MODELS)
            m = size(rng, 64, 16384)
        else:
            m, n, k = size(rng, 64, 16384), size(rng, 64, 16384, 8), size(rng, 64, 16384, 8)
        batch = rng.choice((2, 4, 8, 16, 32, 64)) if rng.random() < 0.12 else 1
        if 2e9 <= 2 * batch * m * n * k <= 4e12 and batch * (m * n + m * k + n * k) <= 2e9:
            break
    form = rng.choices(("a @ b.T", "a @ b", "a.T @ b", "a.T @ b.T"), (6, 2, 1, 1))[0]
    if form.startswith("a.T"):
        m = max(8, m // 8 * 8)
    bias = batch == 1 and rng.random() < 0.25
    dtype = "f16" if rng.random() < 0.2 else "bf16"
    return Case("matmul", {"batch": batch, "m": m, "n": n, "k": k}, dtype, {"form": form, "bias": "bias" if bias else None})


def draw_odd_sizes(rng: random.Random) -> Case:
    """Products of any three sizes, among them vocabularies, whose rows need not begin at multiples of 16 bytes."""
    while True:
        m, n, k = (log_uniform(rng, 64, 16384) for _ in range(3))
        if rng.random() < 0.3:
            n = rng.choice(VOCABULARIES)
        elif rng.random() < 0.3:
            k = rng.choice(VOCABULARIES)
        if 2e9 <= 2 * m * n * k <= 4e12 and m * n + m * k + n * k <= 2e9 and (n % 8 or k % 8):
            break
    form = rng.choices(("a @ b.T", "a @ b", "a.T @ b", "a.T @ b.T"), (6, 2, 1, 1))[0]
    return Case("matmul_of_odd_sizes", {"batch": 1, "m": m, "n": n, "k": k}, traits={"form": form, "bias": None})


def draw_batched(rng: random.Random) -> Case:
    """Many small products, among them those of attention heads with a short K."""
    while True:
        batch = rng.choice((4, 8, 16, 32, 48, 64, 96, 128))
        m, n = size(rng, 64, 4096, 8), size(rng, 64, 4096, 8)
        k = rng.choice((64, 96, 128)) if rng.random() < 0.4 else size(rng, 64, 4096, 8)
        if 2e9 <= 2 * batch * m * n * k <= 2e12 and batch * (m * n + m * k + n * k) <= 2e9:
            return Case("batched", {"batch": batch, "m": m, "n": n, "k": k})


def draw_few_rows(rng: random.Random) -> Case:
    """One to 512 rows of a model's weights, which come from memory."""
    n, k = rng.choice(MODELS) if rng.random() < 0.7 else (size(rng, 512, 16384, 8), size(rng, 512, 16384, 8))
    return Case("few_rows", {"m": size(rng, 1, 512), "n": n, "k": k})


def draw_fp8(rng: random.Random) -> Case:
    while True:
        n, k = rng.choice(MODELS) if rng.random() < 0.5 else (size(rng, 128, 16384, 16), size(rng, 128, 16384, 16))
        m = size(rng, 64, 16384, 16)
        if 2e9 <= 2 * m * n * k <= 8e12:
            return Case("fp8", {"m": m, "n": n, "k": k}, "f8e4m3")


def draw_grouped(rng: random.Random) -> Case:
    """Few large experts and many small ones; sizes from 0 to several times the mean."""
    while True:
        groups = rng.choice((4, 8, 16, 32, 64, 128, 256))
        n, k = rng.choice(EXPERTS)
        rows = size(rng, 256, 65536)
        if 5e9 <= 2 * rows * n * k <= 8e12 and groups * n * k <= 8e9:
            return Case("grouped", {"groups": groups, "rows": rows, "n": n, "k": k, "seed": rng.randrange(1 << 16)})


def draw_rows(op: str) -> Callable[[random.Random], Case]:
    """Rows of 32 to 2,000,000 elements, of any number of bytes, in a matrix of 256 MB to 1 GB."""

    def draw(rng: random.Random) -> Case:
        dtype = rng.choice(("bf16", "f32"))
        columns = size(rng, 32, 2_000_000)
        if op.startswith("cross_entropy"):
            columns = rng.choice(VOCABULARIES) if rng.random() < 0.5 else size(rng, 1000, 300_000)
        nbytes = rng.uniform(0.27e9, 1e9)
        rows = max(1, round(nbytes / (columns * (2 if dtype == "bf16" else 4))))
        return Case(op, {"rows": rows, "columns": columns}, dtype)

    return draw


def draw_indexed(op: str) -> Callable[[random.Random], Case]:
    """Rows by index, of 16 bytes to 64 KB, 128 MB to 1 GB of them."""

    def draw(rng: random.Random) -> Case:
        columns = rng.choice(WIDTHS) if rng.random() < 0.4 else size(rng, 8, 32768, 8)
        moved = max(64, round(rng.uniform(0.13e9, 1e9) / (2 * columns)))
        rows = round(moved * rng.uniform(1.2, 3.0))
        return Case(op, {"rows": rows, "moved": moved, "columns": columns, "seed": rng.randrange(1 << 16)})

    return draw


def draw_norm_backward(rng: random.Random) -> Case:
    """Hidden states of any width up to 32,768, those of models among them; 128 MB to 1 GB of gradients."""
    columns = rng.choice(WIDTHS) if rng.random() < 0.4 else size(rng, 32, 32768)
    dtype = rng.choice(("bf16", "f32"))
    rows = max(1, round(rng.uniform(0.13e9, 1e9) / (columns * (2 if dtype == "bf16" else 4))))
    return Case("norm_backward", {"rows": rows, "columns": columns}, dtype)


def draw_expert_rows(rng: random.Random) -> Case:
    """As `draw_grouped`, of rows that tokens have several of: each names as many rows as it has experts."""
    while True:
        found = draw_grouped(rng)
        if found.sizes["rows"] >= 4 * found.sizes["groups"]:
            return Case("moe", {**found.sizes, "tokens": max(1, found.sizes["rows"] // rng.choice((1, 2, 4, 8)))})


def draw_decode(rng: random.Random) -> Case:
    """Sequences that have filled their cache, of 256 tokens to 128K, with 1 to 16 query heads for a KV head."""
    while True:
        batch, tokens = log_uniform(rng, 1, 256), size(rng, 256, 131072)
        kv_heads, group, dim = rng.choice((1, 2, 4, 8, 32)), rng.choice((1, 2, 4, 8, 16)), rng.choice((64, 128))
        if 0.02e9 <= 4 * batch * tokens * kv_heads * dim <= 8e9:
            sizes = {"batch": batch, "tokens": tokens, "kv_heads": kv_heads, "group": group, "dim": dim}
            return Case("attention_decode", sizes)


def draw_sparse(rng: random.Random) -> Case:
    """Lists of 128 to 2,048 tokens for each query, which its 16 to 64 heads share."""
    tokens, named = size(rng, 4096, 65536), rng.choice((128, 256, 512, 1024, 2048))
    queries, heads, seed = size(rng, 64, min(4096, 2**21 // named)), rng.choice((16, 32, 64)), rng.randrange(1 << 16)
    sizes = {"queries": queries, "tokens": tokens, "named": named, "heads": heads, "dim": 128, "seed": seed}
    return Case("sparse_attention", sizes)


def draw_compact(rng: random.Random) -> Case:
    """Caches of 128 MB to 2 GB, of whose tokens a tenth to nine tenths stay."""
    while True:
        batch, tokens = log_uniform(rng, 1, 64), size(rng, 256, 65536)
        heads, dim = rng.choice((1, 2, 4, 8)), rng.choice((64, 128))
        if 0.13e9 <= 2 * batch * tokens * heads * dim <= 2e9:
            kept = max(1, round(tokens * rng.uniform(0.1, 0.9)))
            return Case("kv_compact", {
                "batch": batch, "tokens": tokens, "heads": heads, "dim": dim, "kept": kept, "seed": rng.randrange(1 << 16),
            })


def draw_quantize(rng: random.Random) -> Case:
    """Matrices of 64 MB to 1 GB, in whole blocks of 32 elements."""
    columns = rng.choice(WIDTHS) if rng.random() < 0.5 else size(rng, 64, 32768, 32)
    rows = max(1, round(rng.uniform(0.06e9, 1e9) / (2 * columns)))
    return Case("quantize", {"rows": rows, "columns": columns}, traits={"format": rng.choice(("mxfp8", "mxfp4", "nvfp4"))})


def draw_scales(rng: random.Random) -> Case:
    """Scales of operands of 512 MB and more: one for 32 elements along K."""
    blocks = size(rng, 8, 1024)
    return Case("pack_scales", {"rows": max(1, round(rng.uniform(16e6, 256e6) / blocks)), "blocks": blocks}, "f8e8m0")


def named(op: str, draw: Callable[[random.Random], Case]) -> Callable[[random.Random], Case]:
    """The same draw for an operation that takes the same sizes."""
    return lambda rng: replace(draw(rng), op=op)


def draw_fused_rows(op: str) -> Callable[[random.Random], Case]:
    """As `draw_rows`, with what rows are computed together with."""
    rows = draw_rows(op)

    def draw(rng: random.Random) -> Case:
        return replace(rows(rng), traits={"mask": rng.choice(("one", "each"))} if op == "masked_softmax" else {})

    return draw


ROWS = ("softmax", "log_softmax", "rms_norm", "layer_norm", "cross_entropy")
INDICES = ("gather_rows", "embedding", "scatter_rows", "scatter_add_rows")
FUSED = ("add_rms_norm", "masked_softmax", "cross_entropy_gradient")
NORMS_BACKWARD = ("rms_norm_backward", "layer_norm_backward")
EXPERT_ROWS = ("moe_matmul", "moe_gather_matmul", "moe_matmul_scatter")
DRAWS: dict[str, Callable[[random.Random], Case]] = {
    "matmul": draw_matmul,
    "matmul_of_odd_sizes": draw_odd_sizes,
    "batched": draw_batched,
    "few_rows": draw_few_rows,
    "fp8": draw_fp8,
    "grouped": draw_grouped,
    **{op: draw_rows(op) for op in ROWS},
    **{op: draw_indexed(op) for op in INDICES},
    "split_k_matmul": named("split_k_matmul", draw_few_rows),
    **{op: named(op, draw_expert_rows) for op in EXPERT_ROWS},
    **{op: draw_fused_rows(op) for op in FUSED},
    **{op: named(op, draw_norm_backward) for op in NORMS_BACKWARD},
    "attention_decode": draw_decode,
    "sparse_attention": draw_sparse,
    "kv_compact": draw_compact,
    "quantize": draw_quantize,
    "pack_scales": draw_scales,
}
"""Attention and its gradients are drawn by `attention/forward.py` and `attention/backward.py`."""


SHORT_NAMES = {"gather": "gather_rows", "scatter": "scatter_rows", "scatter_add": "scatter_add_rows"}


def op_of(name: str) -> str:
    """The name of an operation, of which some have a short one."""
    return SHORT_NAMES.get(name, name)


def seed_of(text: str) -> int:
    """A seed as a number, or the first eight hexadecimal digits of a commit."""
    return int(text) if text.isdigit() and len(text) < 8 else int(text[:8], 16)


def drawn(op: str, seed: int, count: int) -> list[Case]:
    """The first `count` shapes of a seed. Each has a generator of its own: a longer list begins with the shorter one."""
    return [DRAWS[op](random.Random(f"{op} {seed} {number}")) for number in range(count)]
