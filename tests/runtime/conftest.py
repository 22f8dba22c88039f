"""A driver and a torch made of Python, so that what goes to the GPU can be looked at without one."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.runtime.cache import DiskCache
from phalanx.runtime.device import arrays, streams
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.tuning import keys
from support.fake_driver import FakeLibrary
from support.fake_torch import DType


@pytest.fixture
def library() -> FakeLibrary:
    return FakeLibrary()


@pytest.fixture
def driver(library: FakeLibrary) -> cuda.Driver:
    return cuda.Driver(library)


class Tensor:
    """What Phalanx asks of a torch tensor."""

    requires_grad = False

    def __init__(
        self,
        pointer: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: str = "float32",
        device: int = 0,
    ) -> None:
        self.pointer, self.shape, self._strides, self._device = pointer, shape, strides, device
        self.dtype = getattr(sys.modules["torch"], dtype)

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def get_device(self) -> int:
        return self._device

    def numel(self) -> int:
        return math.prod(self.shape)


Tensor.__module__ = "torch"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module "torch" with dtypes, a Tensor and a current stream (`streams[device]`)."""
    module: Any = types.ModuleType("torch")
    for name in arrays.DTYPE_NAMES:
        setattr(module, name, DType(name))
    module.complex64 = DType("complex64")
    module.Tensor = Tensor
    module.streams = {0: 0, 1: 0}
    module.counted = []
    module._C = types.SimpleNamespace(
        _cuda_getCurrentRawStream=lambda device: module.streams[device], _increment_version=module.counted.extend
    )
    module.is_grad_enabled = lambda: False
    monkeypatch.setitem(sys.modules, "torch", module)
    caches = (arrays.torch_dtypes, streams.torch_current_stream)
    for cache in caches:
        cache.cache_clear()
    yield module
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def tuning_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    """Searches of one test are not found by the next."""
    mine = DiskCache(tmp_path / "cache")
    monkeypatch.setattr(keys, "disk_cache", lambda: mine)
    return mine


@pytest.fixture
def tuning_gpu(library: Any, driver: cuda.Driver, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fake library behind the driver that tunings measure on."""
    monkeypatch.setattr(cuda, "get_driver", lambda: driver)
    monkeypatch.setattr("phalanx.runtime.launch.watchdog._BUFFERS", {})
    return library
