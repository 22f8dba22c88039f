"""A small GPT for `train_gpt.py` and `serve.py`: shared queries, RMSNorm, SwiGLU, rotary positions, optional experts.

The model asks an object of functions for its heavy operations: `Ours` has those of `px.torch`, `Plain` torch's own. Ours
adds the residual within the product before it. SwiGLU's product, the rotation and the casts of weights are torch's code,
which Inductor fuses on either side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

import phalanx as px
from phalanx.torch.nn import rotated, rotations


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model. `experts` 0 is a plain SwiGLU; else each token has `top` of them."""

    vocab: int = 32768
    layers: int = 16
    dim: int = 2048
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 64
    hidden: int = 8192
    length: int = 8192
    experts: int = 0
    top: int = 2


TINY = Sizes(vocab=64, layers=1, dim=32, heads=2, kv_heads=1, head_dim=64, hidden=48, length=24)
SMALL = Sizes(vocab=4096, layers=4, dim=512, heads=8, kv_heads=2, head_dim=64, hidden=1408, length=512)
CARD = Sizes()
"""The sizes of a published model of a billion parameters."""


class MixedLinear(torch.autograd.Function):
    """``x @ w.T``, and a residual where there is one, for activations of bf16 and weights of f32.

    The product that gives the gradient of the weights writes it in f32: sums that were f32 all along are not rounded to
    bf16 in between, and nothing has to be cast.
    """

    @staticmethod
    def forward(ctx, x, w, residual):
        rows, half = x.flatten(0, -2), w.to(x.dtype)
        ctx.save_for_backward(rows, half)
        y = px.torch.matmul(rows, half.T, None if residual is None else residual.flatten(0, -2))
        return y.unflatten(0, x.shape[:-1])

    @staticmethod
    def backward(ctx, d):
        rows, half = ctx.saved_tensors
        of_rows = d.flatten(0, -2)
        dx = px.torch.matmul(of_rows, half).unflatten(0, d.shape[:-1])
        dw = px.torch.matmul(of_rows.T, rows, out_dtype=torch.float32)
        return dx, dw, d if ctx.needs_input_grad[2] else None


class Ours:
    """The heavy operations by `px.torch`."""

    @staticmethod
    def linear(x, w, residual=None):
        return MixedLinear.apply(x, w, residual)

    @staticmethod
    def norm(x, w):
        return px.torch.rms_norm(x, w, 1e-6)

    @staticmethod
    def attention(q, k, v):
        return px.torch.attention(q, k, v, causal=True)

    embedding = staticmethod(px.torch.embedding)
    cross_entropy = staticmethod(px.torch.cross_entropy)

    @staticmethod
    def experts(x, tokens, gates, counts, up, down):
        gate, value = px.torch.moe_gather_matmul(x, tokens, up, counts).chunk(2, -1)
        y = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        return px.torch.moe_matmul_scatter(F.silu(gate) * value, down, counts, tokens, gates, y).to(x.dtype)


class Plain:
    """The same by torch alone."""

    @staticmethod
    def linear(x, w, residual=None):
        y = F.linear(x, w.to(x.dtype))
        return y if residual is None else residual + y

    @staticmethod
    def norm(x, w):
        return F.rms_norm(x, w.shape, w.to(x.dtype), 1e-6)

    @staticmethod
    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])

    @staticmethod
    def embedding(w, ids):
        return F.embedding(ids, w)

    @staticmethod
    def cross_entropy(logits, targets):
        return F.cross_entropy(logits.float(), targets)

    @staticmethod
    def experts(x, tokens, gates, counts, up, down):
        y, start = torch.zeros(x.shape, dtype=torch.float32, device=x.device), 0
        for expert, count in enumerate(counts.tolist()):
            rows = tokens[start : start + count]
            gate, value = (x[rows] @ up[expert].T).chunk(2, -1)
            part = (F.silu(gate) * value) @ down[expert].T
            y = y.index_add(0, rows, part.float() * gates[start : start + count, None])
            start += count
        return y.to(x.dtype)


class Block(torch.nn.Module):
    """Attention and SwiGLU, or experts, each behind a norm and beside a residual."""

    def __init__(self, sizes: Sizes, functions: type) -> None:
        super().__init__()
        self.sizes, self.f = sizes, functions
        width = (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim
        self.norm1, self.norm2 = (torch.nn.Parameter(torch.ones(sizes.dim)) for _ in range(2))
        self.qkv, self.out = weight(width, sizes.dim), weight(sizes.dim, sizes.heads * sizes.head_dim, scale=sizes.layers)
        many = (sizes.experts,) if sizes.experts else ()
        self.up = weight(*many, 2 * sizes.hidden, sizes.dim)
        self.down = weight(*many, sizes.dim, sizes.hidden, scale=sizes.layers)
        self.router = weight(sizes.experts, sizes.dim) if sizes.experts else None

    def heads(self, x, rope):
        """Queries, keys and values of `x`, (batch, heads, length, head_dim), rotated."""
        sizes = self.sizes
        made = self.f.linear(self.f.norm(x, self.norm1), self.qkv).unflatten(-1, (-1, sizes.head_dim))
        q, k, v = made.split((sizes.heads, sizes.kv_heads, sizes.kv_heads), -2)
        rope = [part[:, None] for part in rope]  # the same for all heads of a position
        return tuple(part.transpose(1, 2) for part in (rotated(q, *rope), rotated(k, *rope), v))

    def rest(self, x, attended):
        """What follows attention, whose result is (batch, heads, length, head_dim)."""
        x = self.f.linear(attended.transpose(1, 2).flatten(-2), self.out, x)
        y = self.f.norm(x, self.norm2)
        return x + self.mixture(y) if self.sizes.experts else self.swiglu(y, x)

    def swiglu(self, y, x):
        gate, value = self.f.linear(y, self.up).chunk(2, -1)
        return self.f.linear(F.silu(gate) * value, self.down, x)

    def mixture(self, y):
        rows = y.reshape(-1, y.shape[-1])
        scores, chosen = F.linear(rows.float(), self.router).topk(self.sizes.top, -1)
        experts, order = chosen.reshape(-1).sort(stable=True)
        counts = F.one_hot(experts, self.sizes.experts).sum(0).to(torch.int32)
        gates, weights = scores.softmax(-1).reshape(-1)[order], (self.up.to(y.dtype), self.down.to(y.dtype))
        return self.f.experts(rows, order // self.sizes.top, gates, counts, *weights).reshape(y.shape)

    def forward(self, x, rope):
        return self.rest(x, self.f.attention(*self.heads(x, rope)))


class GPT(torch.nn.Module):
    """Weights are f32 and cast to bf16 where they are used: the optimiser steps in f32."""

    def __init__(self, sizes: Sizes, functions: type = Ours) -> None:
        super().__init__()
        self.sizes, self.f = sizes, functions
        self.table, self.head = weight(sizes.vocab, sizes.dim), weight(sizes.vocab, sizes.dim)
        self.blocks = torch.nn.ModuleList(Block(sizes, functions) for _ in range(sizes.layers))
        self.norm = torch.nn.Parameter(torch.ones(sizes.dim))
        for name, table in zip(("cos", "sin"), rotations(sizes.length, sizes.head_dim)):
            self.register_buffer(name, table, persistent=False)

    def hidden(self, tokens):
        """The last hidden states, (batch, length, dim)."""
        x = self.f.embedding(self.table.to(torch.bfloat16), tokens)
        rope = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, rope)
        return self.f.norm(x, self.norm)

    def logits(self, x):
        return self.f.linear(x, self.head)

    def forward(self, tokens):
        """The loss of predicting each token from those before it."""
        x = self.hidden(tokens[:, :-1])
        return self.f.cross_entropy(self.logits(x).flatten(0, 1), tokens[:, 1:].flatten())


def weight(*shape: int, scale: int = 0) -> torch.nn.Parameter:
    """A weight matrix, or one for each expert; those that end in a residual begin smaller with the depth."""
    return torch.nn.Parameter(torch.randn(shape) * 0.02 / max(1, 2 * scale) ** 0.5)


class Text:
    """Text that nobody wrote: sentences of made-up words, in which each word has a few likely successors."""

    def __init__(self, vocab: int, successors: int = 16, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.next = rng.integers(0, vocab, (vocab, successors))
        rates = 1.0 / np.arange(1, successors + 1)
        self.rates = np.cumsum(rates / rates.sum())
        self.vocab, self.rng = vocab, rng

    def batch(self, rows: int, length: int) -> np.ndarray:
        """Tokens, (rows, length): each row is a walk from a random word on."""
        tokens = np.empty((rows, length), np.int64)
        tokens[:, 0] = self.rng.integers(0, self.vocab, rows)
        draws = np.searchsorted(self.rates, self.rng.random((rows, length))).clip(max=len(self.rates) - 1)
        for place in range(1, length):
            tokens[:, place] = self.next[tokens[:, place - 1], draws[:, place]]
        return tokens

    def words(self, tokens) -> str:
        """Tokens as words of two to three syllables."""
        onsets, vowels = "bdfgklmnprstvz", "aeiou"
        parts = [a + b for a in onsets for b in vowels]
        return " ".join("".join(parts[int(t) // len(parts) ** n % len(parts)] for n in range(3)) for t in tokens)
