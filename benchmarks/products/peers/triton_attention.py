"""Attention in Triton, the same loop as `examples/simple/attention.py`, with TMA descriptors made on the host.

Import it where Triton is installed only. Lengths are multiples of the tile: descriptors of all heads together know no
edges.
"""

# No postponed annotations: Triton reads them.
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


class Setting(NamedTuple):
    """Queries and keys of a tile, warps, stages."""

    rows: int
    keys: int
    warps: int
    stages: int


SETTINGS = (
    Setting(128, 128, 8, 2), Setting(128, 64, 8, 3), Setting(128, 128, 8, 3), Setting(128, 64, 4, 3), Setting(64, 64, 4, 3),
)  # fmt: skip


@triton.jit
def attention(q_desc, k_desc, v_desc, o_desc, length, scale, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """One CTA for `ROWS` queries of a head."""
    first = tl.program_id(1) * length
    row = first + tl.program_id(0) * ROWS
    q = q_desc.load([row, 0])
    o = tl.zeros((ROWS, D), dtype=tl.float32)
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    for j in tl.range(first, first + length, KEYS):
        k = k_desc.load([j, 0])
        s = tl.dot(q, k.T) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        faded = tl.math.exp2(top - new)
        total = total * faded + tl.sum(p, 1)
        top = new
        v = v_desc.load([j, 0])
        o = tl.dot(p.to(tl.bfloat16), v, o * faded[:, None])
    o_desc.store([row, 0], (o / total[:, None]).to(tl.bfloat16))


def bind(setting: Setting, q: Any, k: Any, v: Any, o: Any) -> Any:
    """A run on (heads, length, dim) with one setting."""
    heads, length, dim = q.shape
    rows, keys, warps, stages = setting
    flat = [x.view(heads * length, dim) for x in (q, k, v, o)]
    descriptors = [TensorDescriptor.from_tensor(x, [n, dim]) for x, n in zip(flat, (rows, keys, keys, rows), strict=True)]
    launch, scale = attention[(length // rows, heads)], 1.4426950408889634 * dim**-0.5
    assert length % rows == 0 and length % keys == 0 and isinstance(q, torch.Tensor)
    return lambda: launch(*descriptors, length, scale, D=dim, ROWS=rows, KEYS=keys, num_warps=warps, num_stages=stages)
