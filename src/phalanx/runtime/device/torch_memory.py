"""Memory of torch's allocator without a tensor around it: for what passes between the launches of one call."""

from __future__ import annotations

import functools
import sys
from typing import Any

from phalanx.runtime.device.arrays import torch_current_stream

PART = 512
"""Arrays that are taken together begin at multiples of so many bytes, as torch's own do."""


class TorchMemory:
    """What launches of one call write and read on a GPU, and nobody else sees. For any thread.

    A tensor takes torch several microseconds to make, most of them for what Python sees of it. What `take` gives is
    memory of the current stream: given back as soon as all is launched, it is next used by what comes later there. Torch
    allocates on the current device; on another one, and where it has no such functions, a tensor holds the memory.
    """

    __slots__ = ("_allocate", "_current", "_delete", "_device", "_held", "_stream", "_torch")

    def __init__(self, torch: Any, device: int) -> None:
        self._torch, self._device, self._stream, inner = torch, device, torch_current_stream(), torch._C
        self._allocate = getattr(inner, "_cuda_cudaCachingAllocator_raw_alloc", None)
        self._delete = getattr(inner, "_cuda_cudaCachingAllocator_raw_delete", None)
        self._current = getattr(inner, "_cuda_getDevice", lambda: None)
        self._held: dict[int, Any] = {}

    def take(self, nbytes: int) -> int:
        """The address of so many bytes, 0 of none; they begin at a multiple of 16."""
        if self._allocate is not None and self._delete is not None and self._current() == self._device:
            pointer: int = self._allocate(nbytes, self._stream(self._device))
            return pointer
        made = self._torch.empty((nbytes,), dtype=self._torch.uint8, device=self._device)
        pointer = made.data_ptr()
        self._held[pointer] = made
        return pointer

    def give(self, pointer: int) -> None:
        """Gives back what `take` gave, once all that uses it is launched."""
        if pointer and (not self._held or self._held.pop(pointer, None) is None):
            self._delete(pointer)  # type: ignore[misc]


def torch_memory(device: int) -> TorchMemory:
    """The memory of a GPU; torch must be loaded."""
    return _memory(sys.modules["torch"], device)


@functools.cache
def _memory(torch: Any, device: int) -> TorchMemory:
    return TorchMemory(torch, device)


__all__ = ["PART", "TorchMemory", "torch_memory"]
