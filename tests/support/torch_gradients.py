"""Calls of `px.torch` with gradients, and what they compute in any type: for f64, and on any device."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

import phalanx as px
from support.torch_operators import HALF, SIZES, experts, heads, here, indices, numbers, order, sizes

UNITS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-22}


class Case(NamedTuple):
    """A call of ours, the same in any type, and the tensors, of which those with gradients come first."""

    ours: Callable[..., Any]
    reference: Callable[..., Any]
    tensors: Callable[[], tuple[Any, ...]]
    allowed: float = 6.0
    """Roundings of the type, beside the largest gradient."""


def grouped(x: Any, w: Any, bias: Any = None, activation: Any = None) -> Any:
    """The grouped product, group after group."""
    parts, start = [], 0
    for group, size in enumerate(SIZES):
        y = x[start : start + size] @ w[group].T + (0 if bias is None else bias[group])
        parts.append(F.gelu(y) if activation else y)
        start += size
    return torch.cat(parts)


def scattered(h: Any, w: Any, weight: Any, out: Any) -> Any:
    return out.index_add(0, order(), grouped(h, w) * weight[:, None])


def norm(x: Any, w: Any, eps: float = 1e-6) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


def attended(
    q: Any, k: Any, v: Any, bias: Any = None, causal: bool = True, left: int | None = None, cap: float | None = None
) -> Any:
    """Attention: the last query stands beside the last key; `left` keys before its own are seen, and capped scores."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = scores if cap is None else cap * (scores / cap).tanh()
    scores = scores if bias is None else scores + bias
    queries, keys = (torch.arange(x.shape[2], device=q.device) for x in (q, k))
    behind = keys[None, :] - queries[:, None] - (k.shape[2] - q.shape[2])
    hidden = torch.zeros_like(behind, dtype=torch.bool)
    hidden = hidden | (behind > 0) if causal else hidden
    hidden = hidden if left is None else hidden | (behind < -left)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


BEGINS = (0, 9, 9, 20)
"""Where packed sequences begin: one of them is empty."""


def begins() -> Any:
    return indices(*BEGINS, dtype=torch.int32)


def attended_apart(q: Any, k: Any, v: Any) -> Any:
    """Attention of packed sequences, (total, heads, dim), one after the other."""
    parts = []
    for first, last in pairwise(BEGINS):
        each = [x[first:last].transpose(0, 1)[None] for x in (q, k, v)]
        parts.append(attended(*each)[0].transpose(0, 1))
    return torch.cat(parts)


def sum_and_norm(x: Any, residual: Any, w: Any) -> Any:
    """What `add_rms_norm` gives, and what it leaves in the residual, which both have gradients."""
    total = residual * 1
    return px.torch.add_rms_norm(x, total, w) + total


def kept() -> Any:
    """A mask for (3, 40)."""
    return here(torch.arange(120).reshape(3, 40) % 3 > 0)


def activation_case(name: str, reference: Callable[..., Any]) -> Case:
    return Case(
        lambda a, b, c: px.torch.matmul(a, b.T, c, name), lambda a, b, c: reference(a @ b.T + c),
        lambda: (numbers(9, 24), numbers(16, 24), numbers(16, seed=3)), allowed=12,
    )


TARGETS = (3, -100, 39)
F32 = torch.float32
AS_TF32 = 4 * 2.0**12
"""Roundings of f32 in some of tf32."""
CASES = {
    "softmax": Case(px.torch.softmax, lambda x: x.softmax(-1), lambda: (numbers(3, 40, dtype=F32),)),
    "softmax of long rows": Case(px.torch.softmax, lambda x: x.softmax(-1), lambda: (numbers(2, 1100, dtype=F32),)),
    "softmax with a scale and a mask": Case(
        lambda x: px.torch.softmax(x, scale=0.5, mask=kept()),
        lambda x: (x * 0.5).masked_fill(~kept(), float("-inf")).softmax(-1), lambda: (numbers(3, 40, dtype=F32),),
    ),
    "log_softmax with a scale": Case(
        lambda x: px.torch.log_softmax(x, scale=0.5), lambda x: (x * 0.5).log_softmax(-1),
        lambda: (numbers(3, 40, dtype=F32),),
    ),
    "log_softmax": Case(px.torch.log_softmax, lambda x: x.log_softmax(-1), lambda: (numbers(2, 3, 40, dtype=F32),)),
    "rms_norm": Case(px.torch.rms_norm, norm, lambda: (numbers(5, 40, dtype=F32), numbers(40, dtype=F32))),
    "rms_norm of bf16": Case(px.torch.rms_norm, norm, lambda: (numbers(5, 40), numbers(40, dtype=F32))),
    "rms_norm without weight": Case(
        px.torch.rms_norm, lambda x: norm(x, 1.0), lambda: (numbers(5, 40, dtype=F32),)
    ),
    "add_rms_norm": Case(
        sum_and_norm, lambda x, r, w: norm(x + r, w) + x + r,
        lambda: (numbers(5, 40, dtype=F32), numbers(5, 40, dtype=F32, seed=1), numbers(40, dtype=F32)),
    ),
    "layer_norm without bias": Case(
        px.torch.layer_norm, lambda x, w: F.layer_norm(x, x.shape[-1:], w), lambda: (numbers(5, 40), numbers(40)),
    ),
    "layer_norm": Case(
        px.torch.layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda: (numbers(5, 40, dtype=F32), numbers(40, dtype=F32), numbers(40, dtype=F32, seed=1)),
    ),
    "layer_norm of long rows": Case(
        px.torch.layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda: (numbers(9, 1100, dtype=F32), numbers(1100, dtype=F32), numbers(1100, dtype=F32, seed=1)),
    ),
    "cross_entropy": Case(
        lambda x: px.torch.cross_entropy(x, indices(*TARGETS)), lambda x: F.cross_entropy(x, indices(*TARGETS)),
        lambda: (numbers(3, 40, dtype=F32),),
    ),
    "cross_entropy of bf16": Case(
        lambda x: px.torch.cross_entropy(x, indices(*TARGETS)), lambda x: F.cross_entropy(x, indices(*TARGETS)),
        lambda: (numbers(3, 40),),
    ),
    "cross_entropy summed": Case(
        lambda x: px.torch.cross_entropy(x, indices(*TARGETS), reduction="sum"),
        lambda x: F.cross_entropy(x, indices(*TARGETS), reduction="sum"), lambda: (numbers(3, 40, dtype=F32),),
    ),
    "cross_entropy row by row": Case(
        lambda x: px.torch.cross_entropy(x, indices(*TARGETS), reduction="none"),
        lambda x: F.cross_entropy(x, indices(*TARGETS), reduction="none"), lambda: (numbers(3, 40, dtype=F32),),
    ),
    "embedding": Case(
        lambda w: px.torch.embedding(w, indices(0, 5, 0, 2).reshape(2, 2)),
        lambda w: w[indices(0, 5, 0, 2).reshape(2, 2)], lambda: (numbers(6, 40),),
    ),
    "gather_rows": Case(
        lambda x: px.torch.gather_rows(x, indices(0, 5, 0, 2)), lambda x: x[indices(0, 5, 0, 2)],
        lambda: (numbers(6, 40),),
    ),
    "gather_rows with one that is not there": Case(
        lambda x: px.torch.gather_rows(x, indices(0, 5, -1, 2)),
        lambda x: torch.cat((x[indices(0, 5)], x[:1] * 0, x[indices(2)])), lambda: (numbers(6, 40),),
    ),
    "gather_rows into an array": Case(
        lambda x: px.torch.gather_rows(x, indices(0, 5, 0), out=here(torch.ones(3, 40, dtype=HALF))),
        lambda x: x[indices(0, 5, 0)], lambda: (numbers(6, 40),),
    ),
    "scatter_rows": Case(
        lambda x, y: px.torch.scatter_rows(x, indices(4, 0), y * 1), lambda x, y: y.index_copy(0, indices(4, 0), x),
        lambda: (numbers(2, 40), numbers(6, 40)),
    ),
    "scatter_add_rows": Case(
        lambda x, y: px.torch.scatter_add_rows(x, indices(4, 4), y * 1), lambda x, y: y.index_add(0, indices(4, 4), x),
        lambda: (numbers(2, 40), numbers(6, 40)),
    ),
    "matmul": Case(px.torch.matmul, torch.matmul, lambda: (numbers(9, 24), numbers(24, 16))),
    "matmul of batches": Case(px.torch.matmul, torch.matmul, lambda: (numbers(2, 3, 8, 24), numbers(3, 24, 16))),
    "matmul of rows": Case(
        lambda a, b, c: px.torch.matmul(a, b.T, c), lambda a, b, c: a @ b.T + c,
        lambda: (numbers(2, 8, 24), numbers(16, 24), numbers(16, dtype=F32)),
    ),
    "matmul with a matrix": Case(
        lambda a, b, c: px.torch.matmul(a, b, c), lambda a, b, c: a @ b + c,
        lambda: (numbers(8, 24), numbers(24, 16), numbers(8, 16, dtype=F32)),
    ),
    "matmul of f32 as tf32": Case(
        lambda a, b, c: px.torch.matmul(a, b.T, c, "silu", tf32=True), lambda a, b, c: F.silu(a @ b.T + c),
        lambda: (numbers(9, 24, dtype=F32), numbers(16, 24, dtype=F32), numbers(16, dtype=F32)), allowed=AS_TF32,
    ),
    "matmul of vectors": Case(px.torch.matmul, torch.matmul, lambda: (numbers(24), numbers(24, 16))),
    "matmul with relu": activation_case("relu", F.relu),
    "matmul with gelu": activation_case("gelu", F.gelu),
    "matmul with gelu_tanh": activation_case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
    "matmul with silu": activation_case("silu", F.silu),
    "matmul operator with an activation": Case(
        lambda a, b, c: torch.ops.phalanx.matmul(a, b, c, "silu"), lambda a, b, c: F.silu(a @ b + c),
        lambda: (numbers(8, 24), numbers(24, 16), numbers(16)), allowed=12,
    ),
    "matmul into an array": Case(
        lambda a, b: px.torch.matmul(a, b, None, None, here(torch.ones(9, 16, dtype=HALF))), torch.matmul,
        lambda: (numbers(9, 24), numbers(24, 16)),
    ),
    "split_k_matmul with bias and activation": Case(
        lambda a, b, c: px.torch.split_k_matmul(a, b.T, c, "silu"), lambda a, b, c: F.silu(a @ b.T + c),
        lambda: (numbers(9, 24), numbers(16, 24), numbers(16, seed=3)), allowed=12,
    ),
    "split_k_matmul": Case(
        lambda a, b: px.torch.split_k_matmul(a, b.T), lambda a, b: a @ b.T, lambda: (numbers(9, 24), numbers(16, 24))
    ),
    "grouped_matmul": Case(
        lambda x, w, b: px.torch.grouped_matmul(x, w, sizes(), bias=b, activation="gelu"),
        lambda x, w, b: grouped(x, w, b, "gelu"), lambda: (numbers(12, 24), experts(), numbers(3, 16)), allowed=12,
    ),
    "grouped_matmul of fewer rows than there are": Case(
        lambda x, w: px.torch.grouped_matmul(x, w, sizes())[:12], lambda x, w: grouped(x, w),
        lambda: (numbers(15, 24), experts()),
    ),
    "moe_gather_matmul": Case(
        lambda x, w: px.torch.moe_gather_matmul(x, order(), w, list(SIZES)), lambda x, w: grouped(x[order()], w),
        lambda: (numbers(5, 24), experts()),
    ),
    "moe_matmul": Case(
        lambda x, w: px.torch.moe_matmul(x, w, sizes()), grouped, lambda: (numbers(12, 24), experts())
    ),
    "moe_matmul_scatter": Case(
        lambda h, w, g, y: px.torch.moe_matmul_scatter(h, w, sizes(), order(), g, y * 1), scattered,
        lambda: (numbers(12, 24), experts(), numbers(12, dtype=F32), numbers(5, 16, dtype=F32)),
    ),
    "attention": Case(
        lambda q, k, v: px.torch.attention(q, k, v, causal=True), attended,
        lambda: (heads(20), heads(20, 1, seed=1), heads(20, 1, seed=2)),
    ),
    "attention operator without sums": Case(
        lambda q, k, v: torch.ops.phalanx.attention(q, k, v, True)[0], attended,
        lambda: (heads(20), heads(20, 1, seed=1), heads(20, 1, seed=2)),
    ),
    "attention of f16": Case(
        px.torch.attention, lambda q, k, v: attended(q, k, v, causal=False),
        lambda: tuple(heads(20, seed=n).to(torch.float16) for n in range(3)),
    ),
    "attention of fewer queries than keys": Case(
        lambda q, k, v: px.torch.attention(q, k, v, causal=True), attended,
        lambda: (heads(7), heads(20, 1, seed=1), heads(20, 1, seed=2)),
    ),
    "attention with a window and a cap": Case(
        lambda q, k, v: px.torch.attention(q, k, v, causal=True, window=(5, -1), softcap=2.0),
        lambda q, k, v: attended(q, k, v, left=5, cap=2.0), lambda: (heads(20), heads(20, seed=1), heads(20, seed=2)),
    ),
    "attention of packed sequences": Case(
        lambda q, k, v: px.torch.attention(q, k, v, causal=True, cu_seqlens_q=begins(), cu_seqlens_k=begins()),
        attended_apart, lambda: (numbers(20, 2, 64), numbers(20, 1, 64, seed=1), numbers(20, 1, 64, seed=2)),
    ),
    "attention with a bias": Case(
        lambda q, k, v, b: px.torch.attention(q, k, v, bias=b), lambda q, k, v, b: attended(q, k, v, b, False),
        lambda: (heads(20), heads(20, seed=1), heads(20, seed=2), numbers(1, 1, 20, 20, dtype=F32)),
    ),
}  # fmt: skip


def doubles(tensors: tuple[Any, ...]) -> list[Any]:
    return [x.double().requires_grad_() for x in tensors]


def verify(case: Case) -> None:
    """Compares the gradients of our call with those of the reference in f64."""
    tensors = case.tensors()
    wide, own = doubles(tensors), [x.clone().requires_grad_() for x in tensors]
    expected, y = case.reference(*wide), case.ours(*own)
    assert y.shape == expected.shape
    d = numbers(*y.shape, dtype=y.dtype, seed=5)
    for x, exact, ours in zip(own, torch.autograd.grad(expected, wide, d.double()), torch.autograd.grad(y, own, d)):
        assert (ours.shape, ours.dtype) == (x.shape, x.dtype)
        unit = max(UNITS[x.dtype], UNITS[HALF] if HALF in {t.dtype for t in tensors} else 0)
        error = (ours.double() - exact).abs().max() / exact.abs().max()
        assert error < case.allowed * unit, float(error / unit)
