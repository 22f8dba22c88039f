"""A mixture of experts whose rows are gathered into the first product and scattered out of the second."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from phalanx.torch.grouped import moe_gather_matmul, moe_matmul_scatter
from phalanx.torch.nn.linear import Linear


class MoE(torch.nn.Module):
    """``sum of gate * (silu(x @ w1) * (x @ w3)) @ w2`` over the `top` experts of each token, for x (..., dim).

    The gates are the softmax of the chosen experts' scores. Tokens are sorted by expert by index alone: `moe_gather_matmul`
    reads them where they are, `moe_matmul_scatter` adds the results where they belong, in f32. No host waits for the sizes
    of the groups. bf16 or f16, or any type under autocast; `dim` and `hidden` are multiples of 8.
    Example: ``px.torch.nn.MoE(512, 1024, experts=8, top=2)``.
    """

    def __init__(
        self, dim: int, hidden: int, experts: int, top: int = 2, *, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.experts, self.top = experts, top
        made = {"device": device, "dtype": dtype}
        self.router = Linear(dim, experts, False, device, dtype)
        self.up = torch.nn.Parameter(torch.empty(experts, 2 * hidden, dim, **made))
        self.down = torch.nn.Parameter(torch.empty(experts, dim, hidden, **made))
        for weights, fan_in in ((self.up, dim), (self.down, hidden)):
            torch.nn.init.uniform_(weights, -(fan_in**-0.5), fan_in**-0.5)

    def forward(self, x: Any) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        scores, chosen = self.router(rows).float().topk(self.top, -1)
        gates = scores.softmax(-1).reshape(-1)
        sorted_experts, order = chosen.reshape(-1).sort(stable=True)
        counts = functional.one_hot(sorted_experts, self.experts).sum(0).to(torch.int32)
        tokens = order // self.top
        h = moe_gather_matmul(rows, tokens, self.up, counts)
        gate, up = h.chunk(2, -1)
        y = torch.zeros(rows.shape, dtype=torch.float32, device=rows.device)
        y = moe_matmul_scatter(functional.silu(gate) * up, self.down, counts, tokens, gates[order], y)
        return y.to(h.dtype).reshape(x.shape)
