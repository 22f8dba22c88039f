"""One launch with everything but its pointers settled: its own parameter buffer and configuration, ready for the driver."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from phalanx.cuda.abi import TENSOR_MAP_BYTES
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.arrays import torch_current_stream

if TYPE_CHECKING:
    from phalanx.runtime.launch.launcher import Launcher

Place = tuple[int, int, Sequence[tuple[int, int, Any]]]
"""A pointer's source, the word it is in, and the descriptors of its array: first and last byte, and maps by address."""


class PreparedLaunch:
    """A launch of torch tensors that repeats with other pointers; `Launcher.prepare` makes one.

    Called with a tuple of pointers, of which each array of the kernel takes the one that `places` names. Nothing is
    looked at: whoever calls it knows that dtypes, shapes, strides, alignments and the device are as they were. It runs on
    torch's current stream of the device. Any thread may call it.
    """

    __slots__ = (
        "_address", "_bytes", "_config", "_enqueue", "_function", "_launcher", "_lock", "_parameters",
        "_parameters_address", "_places", "_pointers", "_storage", "_stream", "_stream_of", "_words",
    )  # fmt: skip

    def __init__(self, launcher: Launcher, config: cuda.LaunchConfig, image: bytes, places: Sequence[Place]) -> None:
        self._launcher = launcher  # keeps the module loaded, and what `config` points to
        self._lock = threading.Lock()
        self._config = config
        self._address = ctypes.addressof(config)
        self._stream = config.stream or 0
        self._storage = (ctypes.c_char * (len(image) + TENSOR_MAP_BYTES))()
        start = -ctypes.addressof(self._storage) % TENSOR_MAP_BYTES  # as descriptors must lie
        base = ctypes.addressof(self._storage) + start
        self._bytes = memoryview(self._storage).cast("B")[start : start + len(image)]
        self._bytes[:] = image
        self._words = self._bytes[: len(image) // 8 * 8].cast("Q")
        addresses = [base + offset for offset in launcher.signature.layout.all]
        self._parameters = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self._parameters_address = ctypes.addressof(self._parameters)
        self._places = tuple(places)
        self._pointers: tuple[int, ...] | None = None
        self._stream_of = torch_current_stream()
        self._function = launcher.function
        self._enqueue = launcher.driver.function("cuLaunchKernelEx")

    def __call__(self, pointers: tuple[int, ...]) -> None:
        with self._lock:
            if pointers != self._pointers:
                self._write(pointers)
            stream = self._stream_of(self._launcher.device)
            if stream != self._stream:
                self._config.stream = self._stream = stream
            status = self._enqueue(self._address, self._function, self._parameters_address, None)
            if status:
                self._launcher.retry(status, self._address, self._parameters_address)

    def _write(self, pointers: tuple[int, ...]) -> None:
        former, self._pointers = self._pointers, None  # if a descriptor fails, the next launch writes all of them again
        words, image = self._words, self._bytes
        for source, word, maps in self._places:
            pointer = pointers[source]
            if former is None or pointer != former[source]:
                words[word] = pointer
                for start, end, by_address in maps:
                    image[start:end] = by_address[pointer]
        self._pointers = pointers
