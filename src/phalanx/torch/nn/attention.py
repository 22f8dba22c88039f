"""Attention with its projections: queries that share keys and values, rotated by their positions."""

from __future__ import annotations

from typing import Any

import torch

from phalanx.torch.attention import attention
from phalanx.torch.nn.linear import Linear


def rotations(positions: Any, dim: int, base: float = 10000.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of RoPE, (positions, dim / 2) f32: what `Attention` takes as `rope`.

    `positions` is a number of them, from 0 on, or a tensor. Example: ``cos, sin = rotations(1024, 64)``.
    """
    places = positions if isinstance(positions, torch.Tensor) else torch.arange(positions)
    rates = base ** (-torch.arange(0, dim, 2, dtype=torch.float32, device=places.device) / dim)
    angles = places.to(torch.float32)[..., None] * rates
    return angles.cos(), angles.sin()


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """The halves of the last axis of `x` rotated against each other, in f32: torch's own operations, which Inductor fuses.

    `cos` and `sin` have one row per position, along the last axis but one of `x`. Example: ``q = rotated(q, cos, sin)``.
    """
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Attention(torch.nn.Module):
    """Causal self-attention of (batch, length, dim): projections, rotation, attention and projection.

    `heads` query heads share `kv_heads` heads of keys and values. `head_dim`, by default ``dim // heads``, is one that
    `attention` takes. bf16 or f16, or any type under autocast. `forward(x, rope)` takes `rotations`, or None.
    Example: ``px.torch.nn.Attention(512, 8, kv_heads=2)``.
    """

    def __init__(
        self, dim: int, heads: int, kv_heads: int | None = None, *, head_dim: int | None = None, causal: bool = True,
        bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads or heads, causal
        self.head_dim = head_dim or dim // heads
        width = (heads + 2 * self.kv_heads) * self.head_dim
        self.qkv = Linear(dim, width, bias, device, dtype)
        self.out = Linear(heads * self.head_dim, dim, bias, device, dtype)

    def split(self, x: Any) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values of `x`, each (batch, length, heads, head_dim)."""
        sizes = (self.heads, self.kv_heads, self.kv_heads)
        made = self.qkv(x).unflatten(-1, (sum(sizes), self.head_dim))
        return made.split(sizes, -2)

    def forward(self, x: Any, rope: Any = None) -> Any:
        q, k, v = self.split(x)
        if rope is not None:  # before the axes change places, so that results lie as the projection behind wants them
            turned = [part.unsqueeze(-2) for part in rope]
            q, k = rotated(q, *turned), rotated(k, *turned)
        y = attention(*(part.transpose(1, 2) for part in (q, k, v)), causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(-2))
