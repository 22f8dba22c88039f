"""A small call of every operator of `phalanx.torch`: arguments in the order of its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

HALF = torch.bfloat16
_PLACE = ["cpu"]


@contextmanager
def on(device: str) -> Iterator[None]:
    """Within it tensors are made on this device."""
    _PLACE.append(device)
    try:
        yield
    finally:
        _PLACE.pop()


def here(x: torch.Tensor) -> torch.Tensor:
    """A tensor on the device where tensors are made."""
    return x.to(_PLACE[-1])


def numbers(*shape: int, dtype: torch.dtype = HALF, seed: int = 0) -> torch.Tensor:
    """Normal numbers of a seed."""
    return here(torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype))


def indices(*values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """A vector of indices."""
    return here(torch.tensor(values, dtype=dtype))


def heads(length: int, count: int = 2, dim: int = 64, seed: int = 0) -> torch.Tensor:
    """Queries, keys or values of one sequence."""
    return numbers(1, count, length, dim, seed=seed)


def forward_of_attention() -> tuple[torch.Tensor, ...]:
    q, k, v = heads(24), heads(24, 1, seed=1), heads(24, 1, seed=2)
    o, lse = torch.ops.phalanx.attention(q, k, v, True, None, None, None, None, None, True)
    return heads(24, seed=3), q, k, v, o, lse


SIZES = (5, 0, 7)


def sizes() -> torch.Tensor:
    return indices(*SIZES, dtype=torch.int32)


def experts(n: int = 16, k: int = 24) -> torch.Tensor:
    return numbers(3, n, k, seed=9)


def order() -> torch.Tensor:
    return indices(3, 1, 0, 2, 2, 0, 1, 3, 4, 0, 1, 2)


CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "softmax": lambda: (numbers(3, 40),),
    "log_softmax": lambda: (numbers(3, 40),),
    "softmax_backward": lambda: (numbers(3, 40), numbers(3, 40, seed=1).softmax(-1), False),
    "rms_norm": lambda: (numbers(3, 40), numbers(40, dtype=torch.float32), 1e-6),
    "rms_norm_backward": lambda: (numbers(3, 40), numbers(3, 40, seed=1), numbers(40), 1e-6, True),
    "add_rms_norm": lambda: (numbers(3, 40), numbers(3, 40, seed=1), numbers(40, dtype=torch.float32), 1e-6),
    "layer_norm": lambda: (numbers(3, 40), numbers(40), numbers(40, seed=1), 1e-5),
    "layer_norm_backward": lambda: (numbers(3, 40), numbers(3, 40, seed=1), numbers(40), numbers(40), 1e-5, True),
    "cross_entropy": lambda: (numbers(3, 40), indices(3, -100, 39), "mean", -100),
    "cross_entropy_backward": lambda: (numbers(3, dtype=torch.float32), numbers(3, 40), indices(3, -100, 39), -100),
    "gather_rows": lambda: (numbers(6, 40), indices(0, 5, -1, 2)),
    "gather_rows_out": lambda: (numbers(6, 40), indices(0, 5, -1, 2), numbers(4, 40)),
    "gather_backward": lambda: (numbers(4, 40), indices(0, 5, -1, 5), 6),
    "embedding": lambda: (numbers(6, 40), indices(0, 5, 1, 2).reshape(2, 2)),
    "scatter_rows": lambda: (numbers(3, 40), indices(4, 0, 9), numbers(6, 40)),
    "scatter_add_rows": lambda: (numbers(3, 40), indices(4, 0, 9), numbers(6, 40)),
    "scattered_rows": lambda: (numbers(3, 40), indices(4, 0, 9), numbers(6, 40)),
    "scattered_add_rows": lambda: (numbers(3, 40), indices(4, 4, 9), numbers(6, 40)),
    "kv_compact": lambda: (numbers(2, 6, 2, 16), indices(0, 3, 5, 1, 2, 4).reshape(2, 3)),
    "kv_compact_": lambda: (numbers(2, 6, 2, 16), indices(0, 3, 5, 1, 2, 4).reshape(2, 3)),
    "quantize": lambda: (numbers(5, 64), "mxfp8", 1.0),
    "pack_scales": lambda: (numbers(5, 4).abs().to(torch.float8_e4m3fn),),
    "pack_scales_out": lambda: (
        numbers(5, 4).abs().to(torch.float8_e4m3fn), here(torch.zeros(1, 1, 32, 4, 4).to(torch.float8_e4m3fn))
    ),
    "activated": lambda: (numbers(3, 40), "gelu"),
    "activation_backward": lambda: (numbers(3, 40), numbers(3, 40, seed=1), "silu"),
    "column_sums": lambda: (numbers(5, 40), torch.float32),
    "matmul": lambda: (numbers(9, 24), numbers(16, 24).T, numbers(16, seed=3), "silu"),
    "matmul_out": lambda: (numbers(9, 24), numbers(16, 24).T, numbers(9, 16), numbers(16, seed=3), "relu"),
    "split_k_matmul": lambda: (numbers(9, 24), numbers(16, 24).T, numbers(16, seed=3), "relu"),
    "split_k_matmul_out": lambda: (numbers(9, 24), numbers(16, 24).T, numbers(9, 16), numbers(16, seed=3), None),
    "grouped_matmul": lambda: (numbers(12, 24), experts(), sizes(), numbers(3, 16), "gelu"),
    "grouped_matmul_out": lambda: (numbers(12, 24), experts(), sizes(), numbers(12, 16), numbers(3, 16), None),
    "grouped_rows_backward": lambda: (numbers(12, 16), experts(), sizes()),
    "grouped_weights_backward": lambda: (numbers(12, 16), numbers(5, 24), sizes(), order()),
    "grouped_biases_backward": lambda: (numbers(12, 16), sizes(), torch.float32),
    "moe_rows_backward": lambda: (numbers(12, 16), experts(), sizes(), order(), 5),
    "scaled_rows": lambda: (numbers(12, 16), numbers(12, dtype=torch.float32), numbers(12, 16, seed=2)),
    "moe_gather_matmul": lambda: (numbers(5, 24), order(), experts(), sizes()),
    "moe_matmul": lambda: (numbers(12, 24), experts(), sizes()),
    "moe_matmul_scatter": lambda: (
        numbers(12, 24), experts(), sizes(), order(), numbers(12, dtype=torch.float32), here(torch.zeros(5, 16))
    ),
    "moe_matmul_scattered": lambda: (
        numbers(12, 24), experts(), sizes(), order(), numbers(12, dtype=torch.float32), here(torch.zeros(5, 16))
    ),
    "attention": lambda: (heads(24), heads(24, 1, seed=1), heads(24, 1, seed=2), True),
    "attention_backward": lambda: (*forward_of_attention(), True),
    "attention_decode": lambda: (
        numbers(2, 1, 2, 64), numbers(4, 16, 1, 64), numbers(4, 16, 1, 64, seed=1), indices(17, 9, dtype=torch.int32),
        indices(0, 2, 3, 1, dtype=torch.int32).reshape(2, 2),
    ),
    "sparse_attention": lambda: (
        numbers(1, 4, 2, 64), numbers(1, 40, 1, 64), numbers(1, 40, 1, 64, seed=1),
        indices(3, 5, 39, -1).expand(1, 4, 1, 4).contiguous(),
    ),
}  # fmt: skip
"""Rows behind the last group are nobody's to write: here the groups have all rows."""
