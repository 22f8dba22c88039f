"""The stream on which a launch goes: the current one of the library that an array belongs to."""

from __future__ import annotations

import functools
import sys
from typing import Any

from phalanx.runtime.device.arrays import ArgumentKind, kind_of


def current_stream(x: Any) -> int:
    """The CUDA stream (a CUstream as a number) that work on the array `x` belongs to; 0 is the default."""
    kind = kind_of(x)
    if kind is ArgumentKind.TORCH:
        return torch_current_stream()(x.get_device())
    if kind is ArgumentKind.CUPY:
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    if kind is ArgumentKind.CUDA_INTERFACE:
        return x.__cuda_array_interface__.get("stream") or 0
    if kind is ArgumentKind.PACKED:
        return current_stream(x.data)
    return 0


@functools.cache
def torch_current_stream() -> Any:
    """torch's function from a device number to its current stream; torch must be loaded."""
    return sys.modules["torch"]._C._cuda_getCurrentRawStream
