"""Contests of `anywhere.py` for what models do besides products and rows: experts, caches, rows that are fused, gradients.

`CONTESTS` has these and those of `drawn/contests.py`. Torch's ways are what it has for the purpose; where it has nothing,
a copy of as many bytes stands there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy, rms_norm, scaled_dot_product_attention

import phalanx as px
from benchmarks.drawn import contests as base
from benchmarks.drawn.contests import Contest, normal, rows_of_groups
from benchmarks.drawn.draws import EXPERT_ROWS, FUSED, NORMS_BACKWARD, Case
from phalanx.kernels.rowwise.norms_backward import layer_norm_backward, rms_norm_backward


def split_contest(case: Case) -> Contest:
    m, n, k = case.size("m", "n", "k")
    x, w = normal(m, k), normal(n, k)
    way = {"matmul": lambda: torch.matmul(x, w.T)}
    return Contest(lambda: px.kernels.split_k_matmul(x, w.T), way, 2.0 * m * n * k, 2.0 * (m * n + m * k + n * k))


def experts_contest(case: Case) -> Contest:
    """Rows sorted by expert, those of tokens that an index names, or added to them with a gate for each."""
    groups, rows, n, k, tokens = case.size("groups", "rows", "n", "k", "tokens")
    given, ends, call = rows_of_groups(case)
    w = normal(groups, n, k)
    flops, nbytes = 2.0 * rows * n * k, 2.0 * (rows * k + groups * n * k + rows * n)
    generator = torch.Generator(device=base.DEVICE).manual_seed(case.sizes["seed"])
    index = torch.randint(0, tokens, (rows,), device=base.DEVICE, generator=generator)
    library = px.kernels
    if case.op == "moe_gather_matmul":
        x = normal(tokens, k)
        way = {"index_select, grouped_mm": lambda: call(x.index_select(0, index), w.mT, offs=ends)}
        return Contest(lambda: library.moe_gather_matmul(x, index, w, given), way, flops, nbytes)
    x = normal(rows, k)
    if case.op == "moe_matmul":
        way = {"grouped_mm": lambda: call(x, w.mT, offs=ends)}
        return Contest(lambda: library.moe_matmul(x, w, given), way, flops, nbytes)
    gates = normal(rows, dtype="f32")
    sums, others = (torch.zeros(tokens, n, device=base.DEVICE, dtype=torch.float32) for _ in range(2))
    way = {"grouped_mm, index_add_": lambda: others.index_add_(0, index, call(x, w.mT, offs=ends) * gates[:, None])}
    return Contest(lambda: library.moe_matmul_scatter(x, w, given, index, gates, sums), way, flops, nbytes + 4.0 * rows * n)


def fused_contest(case: Case) -> Contest:
    """Rows to which something is added, of which something is masked, or whose place the gradient of a loss takes."""
    rows, columns = case.size("rows", "columns")
    x, library = normal(rows, columns, dtype=case.dtype), px.kernels
    if case.op == "add_rms_norm":
        weight, mine, other = normal(columns, dtype=case.dtype), normal(rows, columns, dtype=case.dtype), torch.empty_like(x)
        other.copy_(mine)
        way = {"add_, rms_norm": lambda: rms_norm(other.add_(x), (columns,), weight, 1e-6)}
        return Contest(lambda: library.add_rms_norm(x, mine, weight), way, 0.0, 4.0 * x.nbytes)
    if case.op == "masked_softmax":
        keep = torch.rand((1 if case.traits["mask"] == "one" else rows, columns), device=base.DEVICE) < 0.8
        keep[:, 0] = True
        way = {"masked_fill, softmax": lambda: torch.softmax((x * 0.125).masked_fill(~keep, float("-inf")), -1)}
        return Contest(lambda: library.softmax(x, scale=0.125, mask=keep), way, 0.0, 2.0 * x.nbytes + keep.nbytes)
    target, mine = torch.randint(0, columns, (rows,), device=base.DEVICE), x.clone()
    x.requires_grad_()

    def theirs() -> Any:
        loss = cross_entropy(x, target)
        torch.autograd.grad(loss, x)
        return loss.detach()

    way = {"cross_entropy and its gradient": theirs}
    return Contest(lambda: library.cross_entropy(mine, target, gradient=True), way, 0.0, 2.0 * x.nbytes)


def norms_backward_contest(case: Case) -> Contest:
    """Gradients of x and of the weights, of which those of x are compared."""
    rows, columns = case.size("rows", "columns")
    d, x = (normal(rows, columns, dtype=case.dtype) for _ in range(2))
    weight, bias = (normal(columns, dtype=case.dtype) for _ in range(2))
    aten, nbytes = torch.ops.aten, 3.0 * x.nbytes
    if case.op == "rms_norm_backward":
        scales = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
        if hasattr(aten, "_fused_rms_norm_backward"):
            way = {"backward": lambda: aten._fused_rms_norm_backward(d, x, (columns,), scales, weight, (True, True))[0]}
        else:
            way = {"copy": lambda: d.copy_(x)}
        return Contest(lambda: rms_norm_backward(d, x, weight)[0], way, 0.0, nbytes)
    means, scales = aten.native_layer_norm(x, (columns,), weight, bias, 1e-5)[1:]
    return Contest(
        lambda: layer_norm_backward(d, x, weight, bias=bias)[0],
        {"backward": lambda: aten.native_layer_norm_backward(d, x, (columns,), means, scales, weight, bias, (True,) * 3)[0]},
        0.0, nbytes,
    )  # fmt: skip


def decode_contest(case: Case) -> Contest:
    batch, tokens, kv_heads, group, dim = case.size("batch", "tokens", "kv_heads", "group", "dim")
    q = normal(batch, 1, kv_heads * group, dim)
    k, v = (normal(batch, tokens, kv_heads, dim) for _ in range(2))
    lengths = torch.full((batch,), tokens, device=base.DEVICE, dtype=torch.int32)

    def theirs() -> Any:
        q_, k_, v_ = (x.transpose(1, 2) for x in (q, k, v))
        return scaled_dot_product_attention(q_, k_, v_, enable_gqa=group > 1).transpose(1, 2)

    flops, nbytes = 4.0 * batch * tokens * kv_heads * group * dim, float(k.nbytes + v.nbytes)
    way = {"scaled_dot_product_attention": theirs}
    return Contest(lambda: px.kernels.attention_decode(q, k, v, lengths), way, flops, nbytes)


def sparse_contest(case: Case) -> Contest:
    """Beside gathering the keys of each query first, and attending to these."""
    queries, tokens, named, heads, dim = case.size("queries", "tokens", "named", "heads", "dim")
    generator = torch.Generator(device=base.DEVICE).manual_seed(case.sizes["seed"])
    q, (k, v) = normal(1, queries, heads, dim), (normal(1, tokens, 1, dim) for _ in range(2))
    lists = torch.randint(0, tokens, (1, queries, 1, named), device=base.DEVICE, generator=generator, dtype=torch.int32)
    rows = lists.reshape(-1)

    def theirs() -> Any:
        kv = (x.reshape(tokens, dim).index_select(0, rows).reshape(queries, 1, named, dim) for x in (k, v))
        return scaled_dot_product_attention(q.reshape(queries, 1, heads, dim), *kv).reshape(q.shape)

    return Contest(
        lambda: px.kernels.sparse_attention(q, k, v, lists), {"index_select, attention": theirs},
        4.0 * queries * heads * named * dim, 4.0 * len(rows) * dim,
    )  # fmt: skip


def compact_contest(case: Case) -> Contest:
    """In place; torch's way is a gather into another array, since no sequence may be read where it was written."""
    batch, tokens, heads, dim, kept = case.size("batch", "tokens", "heads", "dim", "kept")
    generator = torch.Generator().manual_seed(case.sizes["seed"])
    keep = torch.stack([torch.randperm(tokens, generator=generator)[:kept].sort().values for _ in range(batch)])
    keep, cache = keep.to(base.DEVICE, torch.int32), normal(batch, tokens, heads, dim)
    wide, other = keep.long()[:, :, None, None].expand(batch, kept, heads, dim), cache.clone()
    nbytes = 4.0 * keep.numel() * heads * dim

    def ours() -> Any:
        px.kernels.kv_compact(cache, keep, inplace=True)
        return cache[:, :kept]

    return Contest(ours, {"gather": lambda: torch.gather(other, 1, wide)}, 0.0, nbytes)


def quantize_contest(case: Case) -> Contest:
    """Beside a copy of as many bytes: torch has no such function."""
    rows, columns = case.size("rows", "columns")
    x, written = normal(rows, columns), 1.0 if case.traits["format"] == "mxfp8" else 0.5
    copy, part = torch.empty_like(x), slice(0, max(1, round(rows * (2 + written) / 4)))
    return Contest(
        lambda: px.kernels.quantize(x, case.traits["format"])[1].view(torch.uint8),
        {"copy of as many bytes": lambda: copy[part].copy_(x[part])}, 0.0, (1 + written / 2) * x.nbytes,
    )  # fmt: skip


def scales_contest(case: Case) -> Contest:
    rows, blocks = case.size("rows", "blocks")
    x = torch.randint(100, 140, (rows, blocks), device=base.DEVICE, dtype=torch.uint8)
    scales, copy = x.view(torch.float8_e8m0fnu), torch.empty_like(x)
    return Contest(
        lambda: px.kernels.pack_scales(scales).view(torch.uint8), {"copy": lambda: copy.copy_(x)}, 0.0, 2.0 * x.nbytes
    )  # fmt: skip


CONTESTS: dict[str, Callable[[Case], Contest]] = {
    **base.CONTESTS,
    "split_k_matmul": split_contest,
    **dict.fromkeys(EXPERT_ROWS, experts_contest),
    **dict.fromkeys(FUSED, fused_contest),
    **dict.fromkeys(NORMS_BACKWARD, norms_backward_contest),
    "attention_decode": decode_contest,
    "sparse_attention": sparse_contest,
    "kv_compact": compact_contest,
    "quantize": quantize_contest,
    "pack_scales": scales_contest,
}
