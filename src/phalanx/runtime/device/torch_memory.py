"""Memory of torch's allocator without a tensor around it: for what passes between the launches of one call."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.runtime.device.streams import torch_current_stream

PART = 512
"""Arrays that are taken together begin at multiples of this many bytes, as torch's own do."""


class TorchMemory:
    """What launches of one call write and read on a GPU, and nobody else sees. For any thread.

    A tensor takes torch several microseconds to make, most of them for what Python sees of it. What `take` gives is
    memory of the current stream: given back as soon as all is launched, it is next used by what comes later there. Torch
    allocates on the current device; on another one, and where it has no such functions, a tensor holds the memory.

    `take` gives the address of so many bytes, 0 of none, which begin at a multiple of 16; `give` gives them back, once all
    that uses them is launched. Both are functions with names of their own: they are called between launches.

    `empty` makes a tensor on the current device, of tuples of sizes and strides and of a type, as torch's own compiled
    programs do: it takes a third of what `torch.empty_strided` takes, whose arguments may be anything. None where torch has
    no such function. `current` gives the current device; where that is the memory's own, `allocate` of bytes and a stream
    does what `take` does, and `delete` of what is not 0 what `give` does. `alone`: it always is, there is no other.
    """

    __slots__ = ("allocate", "alone", "current", "delete", "empty", "give", "take")

    def __init__(self, torch: Any, device: int) -> None:
        stream_of, inner = torch_current_stream(), torch._C
        allocate = getattr(inner, "_cuda_cudaCachingAllocator_raw_alloc", None)
        delete = getattr(inner, "_cuda_cudaCachingAllocator_raw_delete", None)
        current = getattr(inner, "_cuda_getDevice", None)
        raw = None not in (allocate, delete, current)
        count = getattr(inner, "_cuda_getDeviceCount", None)
        self.alone = alone = raw and count is not None and count() == 1
        held: dict[int, Any] = {}

        def take(nbytes: int) -> int:
            pointer: int
            if alone or (raw and current() == device):  # type: ignore[misc]
                pointer = allocate(nbytes, stream_of(device))  # type: ignore[misc]
                return pointer
            made = torch.empty((nbytes,), dtype=torch.uint8, device=device)
            pointer = made.data_ptr()
            held[pointer] = made
            return pointer

        def give(pointer: int) -> None:
            if pointer and (not held or held.pop(pointer, None) is None):
                delete(pointer)  # type: ignore[misc]

        self.take, self.give = take, give
        self.current: Any = current
        self.allocate, self.delete = (allocate, delete) if raw else (None, None)
        self.empty = None if current is None else _quick_empty(torch)


def _quick_empty(torch: Any) -> Callable[[tuple[int, ...], tuple[int, ...], Any], Any] | None:
    """Torch's function, which is nobody's promise: only if it makes what it is taken for."""
    try:
        empty: Callable[..., Any] = torch._C._dynamo.guards._empty_strided_cuda
        made = empty((3, 2), (1, 4), torch.bfloat16)
        right = (tuple(made.shape), made.stride(), made.dtype) == ((3, 2), (1, 4), torch.bfloat16)
        return empty if right and made.get_device() == torch._C._cuda_getDevice() else None
    except Exception:
        return None


def taken_together(sizes: Sequence[int]) -> tuple[int, list[int]]:
    """How many bytes some arrays of so many bytes take that are taken at once, and where each of them starts."""
    rooms = [-(-nbytes // PART) * PART for nbytes in sizes[:-1]]
    return sum(rooms) + sizes[-1], list(itertools.accumulate(rooms, initial=0))


def tensor_maker(dtype: Any, torch_device: Any, device: int) -> Callable[[tuple[int, ...], tuple[int, ...]], Any]:
    """What makes a tensor of torch's type on a device, of its sizes and strides."""
    memory, strided = torch_memory(device), sys.modules["torch"].empty_strided
    empty, current = memory.empty, memory.current
    if empty is not None and memory.alone:
        return lambda shape, strides: empty(shape, strides, dtype)

    def make(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        if empty is not None and current() == device:
            return empty(shape, strides, dtype)
        return strided(shape, strides, dtype=dtype, device=torch_device)

    return make


def bound_maker(
    dtype: Any, torch_device: Any, device: int, geometry: tuple[tuple[int, ...], tuple[int, ...]]
) -> Callable[[], Any]:
    """What makes a tensor of one geometry: its sizes and strides."""
    memory = torch_memory(device)
    if memory.empty is not None and memory.alone:
        return functools.partial(memory.empty, *geometry, dtype)
    return functools.partial(tensor_maker(dtype, torch_device, device), *geometry)


def torch_memory(device: int) -> TorchMemory:
    """The memory of a GPU; torch must be loaded."""
    return _memory(sys.modules["torch"], device)


@functools.cache
def _memory(torch: Any, device: int) -> TorchMemory:
    return TorchMemory(torch, device)
