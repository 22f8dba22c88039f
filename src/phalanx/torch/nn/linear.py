"""A linear layer by `px.torch.matmul`."""

from __future__ import annotations

from typing import Any

import torch

from phalanx.torch.products import matmul


class Linear(torch.nn.Linear):
    """``torch.nn.Linear`` whose product, with bias and `activation`, is one kernel of ours; gradients, too.

    Parameters, their names and their initialisation are torch's. `activation` is one of `px.kernels.matmul`'s, or None.
    bf16 or f16, or any type under autocast; f32 where torch allows tf32.
    Example: ``px.torch.nn.Linear(512, 2048, activation="gelu")``.
    """

    activation: str | None = None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None, *,
        activation: str | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, x: Any) -> Any:
        return matmul(x, self.weight.T, self.bias, self.activation)
