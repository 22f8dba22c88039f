"""Block-scaled formats as operators: `quantize` and `pack_scales`. They have no gradients."""

from __future__ import annotations

from typing import Any

from phalanx import kernels
from phalanx.torch.library import operator, ops
from phalanx.torch.straight import straight


@operator("quantize(Tensor x, str format, float tensor_scale=1.0) -> (Tensor, Tensor)")
def _quantize(x: Any, format: str, tensor_scale: float = 1.0) -> Any:
    return kernels.quantize(x, format, tensor_scale=tensor_scale)


@operator("pack_scales(Tensor scales) -> Tensor")
def _pack_scales(scales: Any) -> Any:
    return kernels.pack_scales(scales)


@operator("pack_scales_out(Tensor scales, Tensor(a!) out) -> ()")
def _pack_scales_out(scales: Any, out: Any) -> None:
    kernels.pack_scales(scales, out=out)


@straight(kernels.quantize, "x")
def quantize(x: Any, format: str, *, tensor_scale: float = 1.0) -> tuple[Any, Any]:
    """`px.kernels.quantize`, for eager and compiled code. Example: ``codes, scales = px.torch.quantize(x, "mxfp8")``."""
    codes, scales = ops.quantize(x, format, tensor_scale)
    return codes, scales


@straight(kernels.pack_scales, "scales", "out")
def pack_scales(scales: Any, *, out: Any = None) -> Any:
    """`px.kernels.pack_scales`, for eager and compiled code. Example: ``blocks = px.torch.pack_scales(scales)``."""
    if out is None:
        return ops.pack_scales(scales)
    ops.pack_scales_out(scales, out)
    return out
