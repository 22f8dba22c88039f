"""The CUDA driver through ctypes: only the calls Phalanx makes, loaded when the first one is made.

ctypes because a launch then costs two microseconds of Python, not ten, and because it needs no package.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.runtime.device.statuses import STATUSES, remedy_for

_int, _uint, _size, _ptr = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p

# The C prototypes; all return a CUresult. Pointers to results, handles and device pointers are plain
# addresses.
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_uint,),
    "cuDriverGetVersion": (_ptr,),
    "cuGetErrorName": (_int, _ptr),
    "cuGetErrorString": (_int, _ptr),
    "cuDeviceGetCount": (_ptr,),
    "cuDeviceGet": (_ptr, _int),
    "cuDeviceGetName": (_ptr, _int, _int),
    "cuDeviceGetPCIBusId": (_ptr, _int, _int),
    "cuDeviceGetAttribute": (_ptr, _int, _int),
    "cuDevicePrimaryCtxRetain": (_ptr, _int),
    "cuCtxGetCurrent": (_ptr,),
    "cuCtxSetCurrent": (_ptr,),
    "cuCtxSynchronize": (),
    "cuStreamSynchronize": (_ptr,),
    "cuStreamCreate": (_ptr, _uint),
    "cuStreamDestroy_v2": (_ptr,),
    "cuStreamIsCapturing": (_ptr, _ptr),
    "cuThreadExchangeStreamCaptureMode": (_ptr,),
    "cuModuleLoadData": (_ptr, _ptr),
    "cuModuleUnload": (_ptr,),
    "cuModuleGetFunction": (_ptr, _ptr, ctypes.c_char_p),
    "cuFuncSetAttribute": (_ptr, _int, _int),
    "cuFuncGetAttribute": (_ptr, _int, _ptr),
    "cuOccupancyMaxActiveClusters": (_ptr, _ptr, _ptr),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_ptr, _ptr, _int, _size),
    "cuLaunchKernelEx": (_ptr, _ptr, _ptr, _ptr),
    "cuTensorMapEncodeTiled": (_ptr, _int, _uint, _ptr, _ptr, _ptr, _ptr, _ptr, _int, _int, _int, _int),
    "cuTensorMapEncodeIm2col": (
        _ptr, _int, _uint, _ptr, _ptr, _ptr, _ptr, _ptr, _uint, _uint, _ptr, _int, _int, _int, _int,
    ),
    "cuPointerGetAttribute": (_ptr, _int, _ptr),
    "cuMemAlloc_v2": (_ptr, _size),
    "cuMemFree_v2": (_ptr,),
    "cuMemsetD8_v2": (_ptr, ctypes.c_ubyte, _size),
    "cuMemsetD8Async": (_ptr, ctypes.c_ubyte, _size, _ptr),
    "cuMemcpyHtoD_v2": (_ptr, _ptr, _size),
    "cuMemcpyDtoH_v2": (_ptr, _ptr, _size),
    "cuMemHostAlloc": (_ptr, _size, _uint),
    "cuMemHostGetDevicePointer_v2": (_ptr, _ptr, _uint),
    "cuMemFreeHost": (_ptr,),
    "cuEventCreate": (_ptr, _uint),
    "cuEventRecord": (_ptr, _ptr),
    "cuEventSynchronize": (_ptr,),
    "cuEventElapsedTime": (_ptr, _ptr, _ptr),
}

# Enumerators of cuda.h.
INVALID_CONTEXT, INVALID_HANDLE = STATUSES["invalid_context"], STATUSES["invalid_handle"]
_CAPTURE_RELAXED = 2
_STREAM_NON_BLOCKING = 1
_POINTER_DEVICE_ORDINAL = 9
_HOST_PORTABLE, _HOST_MAPPED = 1, 2
_FUNCTION: Any = type(ctypes.CFUNCTYPE(ctypes.c_int)()).__mro__[1]  # what all functions of ctypes are
_FUNCTION_ATTRIBUTES = {
    "max_threads": 0,
    "static_shared_bytes": 1,
    "local_bytes": 3,
    "registers": 4,
    "max_dynamic_shared_bytes": 8,
    "non_portable_cluster_size": 14,
}
_DEVICE_ATTRIBUTES = {
    "sm_count": 16,
    "l2_bytes": 38,
    "major": 75,
    "minor": 76,
    "shared_bytes_per_sm": 81,
    "shared_bytes_per_block": 97,  # the opt-in maximum
    "cluster_launch": 120,
}
ATTRIBUTE_COOPERATIVE = 2
ATTRIBUTE_CLUSTER_DIMENSION = 4
ATTRIBUTE_PROGRAMMATIC_SERIALIZATION = 6


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: an id and a 64-byte union, of which three words are enough here."""

    _fields_ = [("id", _int), ("padding", _int), ("value", _uint * 16)]


class LaunchConfig(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = [
        ("grid", _uint * 3),
        ("block", _uint * 3),
        ("shared_bytes", _uint),
        ("stream", _ptr),
        ("attributes", _ptr),
        ("attribute_count", _uint),
    ]


class DriverError(Error):
    """A CUDA driver call failed. `name` is the driver's code ("CUDA_ERROR_..."), `text` its explanation."""

    def __init__(self, name: str, text: str, *, call: str = "", remedy: str) -> None:
        super().__init__(f"{call + ': ' if call else ''}{name} ({text})", remedy=remedy)
        self.name = name
        self.text = text


@frozen
class DeviceInfo:
    """What a CUDA device is."""

    ordinal: int
    name: str
    capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    has_clusters: bool

    @property
    def arch(self) -> str:
        """The target to compile for, such as "sm_90a"."""
        major, minor = self.capability
        return f"sm_{major}{minor}a"


class HostBuffer:
    """Pinned host memory that kernels can write. After a kernel has trapped it can still be read."""

    def __init__(self, driver: Driver, nbytes: int) -> None:
        self._driver = driver
        host, device = _ptr(), _ptr()
        driver.call("cuMemHostAlloc", ctypes.byref(host), nbytes, _HOST_PORTABLE | _HOST_MAPPED)
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        self.nbytes = nbytes
        self.host_pointer = host.value or 0
        self.device_pointer = device.value or 0
        self.memory = memoryview((ctypes.c_ubyte * nbytes).from_address(self.host_pointer)).cast("B")
        self.clear()

    def clear(self) -> None:
        """Set all bytes to 0."""
        ctypes.memset(self.host_pointer, 0, self.nbytes)

    def free(self) -> None:
        """Give the memory back; the buffer must not be used after this."""
        self.memory.release()
        self._driver.call("cuMemFreeHost", self.host_pointer)


def pointer_argument(address: int) -> Any:
    """An address as functions of C take it soonest, again and again: nothing is made or converted when they are called."""
    return ctypes.byref(ctypes.c_char.from_address(address))


class Driver:
    """The driver's calls on one loaded library. `get_driver()` gives the process's one."""

    def __init__(self, library: Any) -> None:
        self.functions: dict[str, Any] = {}
        for name, arguments in PROTOTYPES.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                continue  # an older driver; the error comes when the call is needed
            function.argtypes, function.restype = arguments, _int
            self.functions[name] = function
        self._contexts: dict[int, int] = {}
        self._count: int | None = None
        self.kept: dict[Any, Any] = {}  # what others found out about its devices, which do not change
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Make one call; anything but success is a DriverError."""
        status = self.function(name)(*arguments)
        if status:
            raise self.error(status, name)

    def function(self, name: str) -> Any:
        """A function of the driver; a DriverError where it is too old to have it."""
        found = self.functions.get(name)
        if found is None:
            raise DriverError("CUDA_ERROR_NOT_FOUND", f"this CUDA driver has no {name}", remedy="update the driver")
        return found

    def untyped(self, name: str) -> Any:
        """A function of the driver that takes C's arguments, instances of ctypes of the very types, as they are.

        So are what `pointer_argument` gives, and integers of 32 bits.
        """
        found = self.function(name)
        address = ctypes.cast(found, ctypes.c_void_p).value if isinstance(found, _FUNCTION) else None
        return found if address is None else ctypes.CFUNCTYPE(_int)(address)

    def error(self, status: int, call: str) -> DriverError:
        """The exception for a status that a call returned."""
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        for function, out in (("cuGetErrorName", name), ("cuGetErrorString", text)):
            if function in self.functions:
                self.functions[function](status, ctypes.byref(out))
        return DriverError(
            (name.value or b"CUDA_ERROR_%d" % status).decode(),
            (text.value or b"unknown error").decode(),
            call=call,
            remedy=remedy_for(status),
        )

    def version(self) -> tuple[int, int]:
        """The CUDA version the driver supports, such as (13, 0)."""
        number = self._integer("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def device_count(self) -> int:
        """How many CUDA devices this process sees."""
        if self._count is None:
            self._count = self._integer("cuDeviceGetCount")
        return self._count

    @functools.cache  # noqa: B019  (there is one driver per process)
    def device(self, ordinal: int) -> DeviceInfo:
        """What device `ordinal` is."""
        handle = self._integer("cuDeviceGet", ordinal)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), handle)
        values = {
            key: self._integer("cuDeviceGetAttribute", number, handle)
            for key, number in _DEVICE_ATTRIBUTES.items()
        }
        return DeviceInfo(
            ordinal=ordinal,
            name=name.value.decode(),
            capability=(values["major"], values["minor"]),
            sm_count=values["sm_count"],
            l2_bytes=values["l2_bytes"],
            shared_bytes_per_sm=values["shared_bytes_per_sm"],
            shared_bytes_per_block=values["shared_bytes_per_block"],
            has_clusters=bool(values["cluster_launch"]),
        )

    def bus_id(self, ordinal: int) -> str:
        """Where device `ordinal` is plugged in, as other libraries of the driver name it: "00000000:1B:00.0"."""
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, len(text), self._integer("cuDeviceGet", ordinal))
        return text.value.decode()

    def primary_context(self, device: int) -> int:
        """The device's primary context (the one torch and CuPy use), retained for good."""
        context = self._contexts.get(device)
        if context is None:
            handle = self._integer("cuDeviceGet", device)
            context = self._contexts[device] = self._pointer("cuDevicePrimaryCtxRetain", handle)
        return context

    @contextlib.contextmanager
    def context(self, device: int) -> Iterator[None]:
        """Make the device's primary context current, and the former one again at the end."""
        wanted = self.primary_context(device)
        former = self._pointer("cuCtxGetCurrent")
        if former == wanted:
            yield
            return
        self.call("cuCtxSetCurrent", wanted)
        try:
            yield
        finally:
            # A thread that had no context keeps this one: its next launch then needs no detour.
            if former:
                self.call("cuCtxSetCurrent", former)

    def load_function(self, device: int, cubin: bytes, name: str) -> tuple[int, int]:
        """Load a cubin; gives the module and its kernel `name`. Allowed while a graph is captured."""
        with self.context(device), self._relaxed_capture():
            module = self._pointer("cuModuleLoadData", cubin)
            return module, self._pointer("cuModuleGetFunction", module, name.encode())

    def set_function_attribute(self, function: int, name: str, value: int) -> None:
        """Set "max_dynamic_shared_bytes" or "non_portable_cluster_size" of a kernel."""
        self.call("cuFuncSetAttribute", function, _FUNCTION_ATTRIBUTES[name], value)

    def function_attribute(self, function: int, name: str) -> int:
        """Read an attribute of a kernel: "registers", "local_bytes", "static_shared_bytes" ..."""
        value = _int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), _FUNCTION_ATTRIBUTES[name], function)
        return value.value

    def max_active_clusters(self, function: int, config: LaunchConfig) -> int:
        """How many clusters of such a launch fit on the device at once."""
        return self._integer("cuOccupancyMaxActiveClusters", function, ctypes.byref(config))

    def max_active_blocks(self, function: int, threads: int, shared_bytes: int) -> int:
        """How many CTAs of a launch without clusters fit on one SM."""
        return self._integer("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared_bytes)

    def device_of_pointer(self, pointer: int) -> int:
        """The device that a CUDA pointer belongs to."""
        return self._integer("cuPointerGetAttribute", _POINTER_DEVICE_ORDINAL, pointer)

    def allocate(self, nbytes: int) -> int:
        """Device memory in the current context, set to 0."""
        pointer = self._pointer("cuMemAlloc_v2", nbytes)
        self.call("cuMemsetD8_v2", pointer, 0, nbytes)
        return pointer

    def allocate_zeros(self, nbytes: int) -> int:
        """Device memory in the current context that is 0 when this returns, for any stream.

        Allowed while a graph is captured, and seen by no capture: a stream of its own sets it to 0.
        """
        with self._relaxed_capture():
            pointer = self._pointer("cuMemAlloc_v2", nbytes)
            stream = self._pointer("cuStreamCreate", _STREAM_NON_BLOCKING)
            self.fill_later(pointer, 0, nbytes, stream)
            self.synchronize(stream)
            self.call("cuStreamDestroy_v2", stream)
        return pointer

    def free(self, pointer: int) -> None:
        """Give back what `allocate` gave."""
        self.call("cuMemFree_v2", pointer)

    def copy_to_host(self, destination: int, source: int, nbytes: int) -> None:
        """Copy device memory to host memory; blocks."""
        self.call("cuMemcpyDtoH_v2", destination, source, nbytes)

    def copy_to_device(self, destination: int, source: int, nbytes: int) -> None:
        """Copy host memory to device memory; blocks."""
        self.call("cuMemcpyHtoD_v2", destination, source, nbytes)

    def fill_later(self, pointer: int, value: int, nbytes: int, stream: int = 0) -> None:
        """Set device memory to a byte, in the order of a stream."""
        self.call("cuMemsetD8Async", pointer, value, nbytes, stream)

    def event(self) -> int:
        """An event of the current context that takes times."""
        return self._pointer("cuEventCreate", 0)

    def record(self, event: int, stream: int = 0) -> None:
        """Put an event behind the work of a stream."""
        self.call("cuEventRecord", event, stream)

    def elapsed_ms(self, start: int, stop: int) -> float:
        """Milliseconds between two events; waits for the second."""
        self.call("cuEventSynchronize", stop)
        result = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(result), start, stop)
        return result.value

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for a stream, or for all of the current context."""
        if stream is None:
            self.call("cuCtxSynchronize")
        else:
            self.call("cuStreamSynchronize", stream)

    @contextlib.contextmanager
    def _relaxed_capture(self) -> Iterator[None]:
        """Loading a module may allocate, which a stream capture elsewhere in this thread would forbid."""
        mode = _int(_CAPTURE_RELAXED)
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def _integer(self, name: str, *arguments: Any) -> int:
        result = _int()
        self.call(name, ctypes.byref(result), *arguments)
        return result.value

    def _pointer(self, name: str, *arguments: Any) -> int:
        result = _ptr()
        self.call(name, ctypes.byref(result), *arguments)
        return result.value or 0


LIBRARY_NAMES = ("libcuda.so.1", "libcuda.so")


@functools.cache
def get_driver() -> Driver:
    """The process's driver; a DriverError says what is missing where there is none."""
    for name in LIBRARY_NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return Driver(library)
    raise DriverError(
        "CUDA_ERROR_NO_DRIVER",
        "libcuda.so.1 is not on this machine",
        remedy="run on a machine with an NVIDIA GPU and its driver, or pass NumPy arrays to simulate",
    )


def has_gpu() -> bool:
    """Whether this machine has a CUDA driver and a device."""
    try:
        return get_driver().device_count() > 0
    except DriverError:
        return False
