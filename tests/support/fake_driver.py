"""A CUDA driver made of Python, so that what goes to the GPU, and what comes back wrong, can be looked at without one."""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from phalanx.runtime.device import driver as cuda
from phalanx.runtime.launch import memory, watchdog


def plain_argument(given: Any) -> Any:
    """An argument of the driver that may be C's already, as a number."""
    if hasattr(given, "_obj"):  # what `ctypes.byref` gives
        return ctypes.cast(given, ctypes.c_void_p).value
    return getattr(given, "value", given)


def described(kind: int, rank: int, pointer: int, dims: bytes, strides: bytes, *rest: Any) -> bytes:
    """A descriptor with a field for each number, and all else in fields of their own: the address, words of strides in units
    of 16 bytes, four bits of each that are left, words of sizes less one."""
    steps = struct.unpack(f"<{rank - 1}Q", strides)
    left = sum(step >> 36 << 4 * number for number, step in enumerate(steps))
    digest = hashlib.sha512(repr((kind, rank, rest)).encode()).digest()
    words = [step >> 4 & 0xFFFFFFFF for step in steps] + [0] * (5 - rank)
    sizes = [size - 1 for size in struct.unpack(f"<{rank}Q", dims)] + [0] * (5 - rank)
    return struct.pack("<Q4s4II5I64s12x", pointer, digest[:4], *words, left, *sizes, digest)


def told_of(*arguments: Any) -> tuple[int, tuple[Any, ...]]:
    """Where a descriptor is to be encoded, and what `described` takes of it."""
    out, kind, rank, pointer, *arrays = map(plain_argument, arguments)
    sizes = 8 * rank, 8 * (rank - 1), 4 * rank, 4 * rank  # of strides one less is read
    for place, size in enumerate(sizes):
        held = arrays[place]
        arrays[place] = held[:size] if isinstance(held, bytes) else ctypes.string_at(held, size)
    return out, (kind, rank, pointer, *arrays)


def encode_described(*arguments: Any) -> int:
    """The driver's function, for descriptors as `described` lays them out."""
    out, told = told_of(*arguments)
    ctypes.memmove(out, described(*told), 128)
    return 0


class Launch:
    """One cuLaunchKernelEx as the driver saw it."""

    def __init__(self, config: int, function: int, parameters: int) -> None:
        c = cuda.LaunchConfig.from_address(config)
        self.grid, self.block = tuple(c.grid), tuple(c.block)
        self.shared_bytes, self.stream, self.function = c.shared_bytes, c.stream or 0, function
        self.attributes = [
            (a.id, tuple(a.value[:3]))
            for a in (cuda.LaunchAttribute * c.attribute_count).from_address(c.attributes or 0)
        ] if c.attribute_count else []  # fmt: skip
        self._parameters = parameters

    def address(self, number: int) -> int:
        return (ctypes.c_void_p * (number + 1)).from_address(self._parameters)[number] or 0

    def parameter(self, number: int, nbytes: int) -> bytes:
        """The bytes of a parameter; only valid until the next launch."""
        return ctypes.string_at(self.address(number), nbytes)


class FakeLibrary:
    """Enough of libcuda: counts calls, remembers launches and descriptors, fails on request."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.launches: list[Launch] = []
        self.encoded: list[dict[str, Any]] = []
        self.failures: dict[str, list[int]] = {}
        self.context = 1000
        self.capturing: set[int] = set()
        self.allocated = self.events = 0
        self.recorded: dict[int, float] = {}
        self._keep: list[Any] = []
        for name, arguments in cuda.PROTOTYPES.items():
            function = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(self._implementation(name))
            self._keep.append(function)
            setattr(self, name, function)

    def _implementation(self, name: str) -> Any:
        def run(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            if self.failures.get(name):
                return self.failures[name].pop(0)
            handler = getattr(self, "_" + name, None)
            if handler is not None:
                handler(*arguments)
            return 0

        return run

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    @staticmethod
    def _write_pointer(address: int, value: int) -> None:
        ctypes.c_void_p.from_address(address).value = value

    @staticmethod
    def _write_int(address: int, value: int) -> None:
        ctypes.c_int.from_address(address).value = value

    def _cuGetErrorName(self, status: int, out: int) -> None:
        self._text = ctypes.c_char_p(b"CUDA_ERROR_NUMBER_%d" % status)
        self._write_pointer(out, ctypes.cast(self._text, ctypes.c_void_p).value or 0)

    def _cuGetErrorString(self, status: int, out: int) -> None:
        self._explanation = ctypes.c_char_p(b"something about %d" % status)
        self._write_pointer(out, ctypes.cast(self._explanation, ctypes.c_void_p).value or 0)

    def _cuDeviceGetCount(self, out: int) -> None:
        self._write_int(out, 2)

    def _cuDriverGetVersion(self, out: int) -> None:
        self._write_int(out, 13040)

    def _cuDeviceGet(self, out: int, ordinal: int) -> None:
        self._write_int(out, ordinal)

    def _cuDeviceGetName(self, out: int, size: int, device: int) -> None:
        ctypes.memmove(out, b"Fake GPU\0", 9)

    def _cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> None:
        values = {16: 132, 38: 60 << 20, 75: 9, 76: 0, 81: 233472, 97: 232448, 120: 1}
        self._write_int(out, values[attribute])

    def _cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        self._write_pointer(out, 1000 + device)

    def _cuCtxGetCurrent(self, out: int) -> None:
        self._write_pointer(out, self.context)

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.context = context

    def _cuModuleLoadData(self, out: int, image: int) -> None:
        self._write_pointer(out, 2000)

    def _cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        self._write_pointer(out, 3000)

    def _cuOccupancyMaxActiveClusters(self, out: int, function: int, config: int) -> None:
        self._write_int(out, 66)

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out: int, *_: Any) -> None:
        self._write_int(out, 2)

    def _cuPointerGetAttribute(self, out: int, attribute: int, pointer: int) -> None:
        self._write_int(out, 1 if pointer >= 1 << 40 else 0)

    def _cuFuncGetAttribute(self, out: int, attribute: int, function: int) -> None:
        self._write_int(out, 40)

    def _cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: int | None) -> None:
        assert extra is None
        self.launches.append(Launch(config, function, parameters))

    def _cuStreamIsCapturing(self, stream: int | None, out: int) -> None:
        self._write_int(out, (stream or 0) in self.capturing)

    def _cuStreamCreate(self, out: int, flags: int) -> None:
        self._write_pointer(out, 5000)

    def _cuMemAlloc_v2(self, out: int, nbytes: int) -> None:
        self.allocated += nbytes + 256
        self._write_pointer(out, (1 << 32) + self.allocated // 256 * 256)

    def _cuMemHostAlloc(self, out: int, nbytes: int, flags: int) -> None:
        memory = (ctypes.c_char * nbytes)()
        self._keep.append(memory)
        self._write_pointer(out, ctypes.addressof(memory))

    def _cuMemHostGetDevicePointer_v2(self, out: int, host: int, flags: int) -> None:
        self._write_pointer(out, host)

    def _cuEventCreate(self, out: int, flags: int) -> None:
        self.events += 1
        self._write_pointer(out, 5000 + self.events)

    def _cuEventRecord(self, event: int, stream: int | None) -> None:
        """The clock of this GPU: a launch takes a millisecond for each CTA along its first axis."""
        self.recorded[event] = sum(launch.grid[0] for launch in self.launches)

    def _cuEventElapsedTime(self, out: int, start: int, stop: int) -> None:
        ctypes.c_float.from_address(out).value = self.recorded[stop] - self.recorded[start]

    def _cuTensorMapEncodeTiled(self, out: int, *arguments: Any) -> None:
        dtype, rank, pointer, dims, strides, box, steps, interleave, swizzle, promotion, fill = arguments
        assert out % 64 == 0
        self.encoded.append(
            {
                "dtype": dtype,
                "pointer": pointer,
                "dims": list((ctypes.c_uint64 * rank).from_address(dims)),
                "byte_strides": list((ctypes.c_uint64 * (rank - 1)).from_address(strides)),
                "box": list((ctypes.c_uint32 * rank).from_address(box)),
                "steps": list((ctypes.c_uint32 * rank).from_address(steps)),
                "enums": (interleave, swizzle, promotion, fill),
            }
        )
        ctypes.memset(out, len(self.encoded), 128)

    def _cuTensorMapEncodeIm2col(self, out: int, *arguments: Any) -> None:
        dtype, rank, pointer, dims, strides, lower, upper, channels, pixels, steps, *enums = arguments
        assert out % 64 == 0
        self.encoded.append(
            {
                "dtype": dtype,
                "pointer": pointer,
                "dims": list((ctypes.c_uint64 * rank).from_address(dims)),
                "byte_strides": list((ctypes.c_uint64 * (rank - 1)).from_address(strides)),
                "corners": [list((ctypes.c_int32 * (rank - 2)).from_address(corner)) for corner in (lower, upper)],
                "patches": (channels, pixels),
                "steps": list((ctypes.c_uint32 * rank).from_address(steps)),
                "enums": tuple(enums),
            }
        )
        ctypes.memset(out, len(self.encoded), 128)


class OnGpu:
    """An array of f32 that says it lies on the GPU."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": "<f4", "data": (1 << 16, False), "version": 3}


@contextmanager
def fake_gpu(library: Any = None, **failures: list[int]) -> Iterator[Any]:
    """Launches go to a fake driver, whose calls fail as told; what was launched is forgotten after."""
    library = FakeLibrary() if library is None else library

    made: list[cuda.Driver] = []

    def get_driver() -> cuda.Driver:
        if not made:
            made.append(cuda.Driver(library))
        return made[0]

    memory.forget()
    library.failures = failures
    try:
        with patch.object(cuda, "get_driver", get_driver), patch.object(watchdog, "_BUFFERS", {}):
            yield library
    finally:
        memory.forget()
