"""Norms of the last axis by our kernels."""

from __future__ import annotations

from typing import Any

import torch

from phalanx.errors import Error, caller_location
from phalanx.torch.rowwise import layer_norm, rms_norm


def _require_one_axis(shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise Error(
            f"a norm of the last {len(shape)} axes", location=caller_location(), remedy="flatten them: rows are normalised"
        )


class RMSNorm(torch.nn.RMSNorm):
    """``torch.nn.RMSNorm`` of the last axis by our kernels, forward and backward.

    Without `eps` it is the resolution of the argument's type, as torch has it. Example: ``px.torch.nn.RMSNorm(512)``.
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        _require_one_axis(self.normalized_shape)

    def forward(self, x: Any) -> Any:
        return rms_norm(x, self.weight, torch.finfo(x.dtype).eps if self.eps is None else self.eps)


class LayerNorm(torch.nn.LayerNorm):
    """``torch.nn.LayerNorm`` of the last axis by our kernels, forward and backward.

    Example: ``px.torch.nn.LayerNorm(512)``.
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        _require_one_axis(self.normalized_shape)

    def forward(self, x: Any) -> Any:
        return layer_norm(x, self.weight, self.bias, self.eps)
