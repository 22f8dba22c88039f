"""The loader that `px.export` writes: it asks cuda-bindings for what the C launcher asks the driver for."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import phalanx as px
from export.outside import parameter_bytes, ran_outside
from export.stub import COMPILER, MISSING
from export.test_export import copy_tiles, scale, squares
from export.test_functions import SMALL

NUMBER, ADDRESS = ctypes.c_int, ctypes.c_void_p
WIDE, NARROW = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
ENCODE = ctypes.CFUNCTYPE(
    NUMBER, ADDRESS, NUMBER, ctypes.c_uint32, ADDRESS, WIDE, WIDE, NARROW, NARROW, NUMBER, NUMBER, NUMBER, NUMBER
)
"""cuTensorMapEncodeTiled."""


class Result(IntEnum):
    """As much of `CUresult`."""

    CUDA_SUCCESS = 0


class Recorder(SimpleNamespace):
    """A value with attributes that may be set and read."""


class Driver(ModuleType):
    """As much of `cuda.bindings.driver` as the loader uses; launches are remembered with their parameters."""

    CUresult, CUstream = Result, int

    def __init__(self, sizes: list[int]) -> None:
        super().__init__("driver")
        self.sizes, self.launches, self.maps, self.attributes = sizes, [], [], []
        self.capability = (9, 0)
        self.encode = ENCODE(self.encoded)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("CU") and name[2].islower() and name.endswith(("_attribute", "ID", "Interleave")):
            return type(name, (), {"__getattr__": lambda self, item: item})()
        raise AttributeError(name)

    def CUlaunchConfig(self) -> Recorder:
        return Recorder()

    def CUlaunchAttribute(self) -> Recorder:
        return Recorder(value=Recorder(clusterDim=Recorder()))

    def cuCtxGetDevice(self) -> tuple[int, int]:
        return 0, 0

    def cuDeviceGetAttribute(self, name: str, device: int) -> tuple[int, int]:
        return 0, {"MAJOR": self.capability[0], "MINOR": self.capability[1]}.get(name.rpartition("_")[2], 132)

    def cuModuleLoadData(self, image: bytes) -> tuple[int, int]:
        assert image[:4] == b"\x7fELF"
        return 0, 1

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[int, bytes]:
        return 0, name

    def cuFuncSetAttribute(self, *what: Any) -> tuple[int]:
        self.attributes.append(what)
        return (0,)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *what: Any) -> tuple[int, int]:
        return 0, 2

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[int, Any, int]:
        assert (name, version, flags) == (b"cuTensorMapEncodeTiled", 12000, 0)
        return 0, ctypes.cast(self.encode, ctypes.c_void_p).value, 0

    def encoded(self, made: int, kind: int, rank: int, address: int, dims: Any, strides: Any, *rest: Any) -> int:
        assert made % 64 == 0
        self.maps.append((kind, rank, address, dims[:rank], strides[: rank - 1]))
        ctypes.c_char.from_address(made).value = len(self.maps)
        return 0

    def cuLaunchKernelEx(self, config: Any, function: Any, parameters: int, extra: int) -> tuple[int]:
        addresses = (ctypes.c_void_p * len(self.sizes)).from_address(parameters)
        packed = [ctypes.string_at(address, size) for address, size in zip(addresses, self.sizes, strict=True)]
        self.launches.append((config, function, packed))
        return (0,)


def loaded(made: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Driver]:
    """The written file as a module, on a driver that remembers."""
    signature = made.compiled[0].signature
    driver = Driver([struct.calcsize(slot.format) for slot in signature.slots] + [8] * len(signature.tensor_maps))
    bindings = ModuleType("cuda.bindings")
    bindings.driver = driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    spec = importlib.util.spec_from_file_location(f"exported_{made.name}", made.folder / f"{made.name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, driver


def test_arrays_scalars_and_the_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = px.spec(("m", "n"), px.f32)
    made = px.export(scale[lambda m, n, BM, BN: (px.cdiv(m, BM), px.cdiv(n, BN))], matrix, matrix, 2.0, to=tmp_path)
    module, driver = loaded(made, monkeypatch)
    launch = module.load()
    launch(0x10000, 0x20000, 0.5, sizes={"m": 100, "n": 200}, strides={"Y": (512, 1)}, stream=7)
    ((config, function, packed),) = driver.launches
    assert (config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.hStream) == (2, 4, 1, 128, 7)
    assert function == b"scale_kernel"
    assert packed[0] == struct.pack("<Qqqii", 0x10000, 200, 1, 100, 200)
    assert packed[1] == struct.pack("<Qqqii", 0x20000, 512, 1, 100, 200)
    assert packed[2] == struct.pack("<f", 0.5)
    for wrong in (
        lambda: launch(0x10000, 0x20000, 0.5, sizes={"m": 100}),
        lambda: launch(0x10008, 0x20000, 0.5, sizes={"m": 100, "n": 200}),
        lambda: launch(0x10000, 0x20000, 0.5, sizes={"m": 100, "n": 201}),
        lambda: launch(0x10000, 0x20000, 0.5, sizes={"m": 100, "n": 200}, strides={"X": (1, 100)}),
        lambda: launch(0, 0x20000, 0.5, sizes={"m": 100, "n": 200}),
    ):
        with pytest.raises(ValueError, match=r"scale|X"):
            wrong()
    launch(0, 0, 0.5, sizes={"m": 0, "n": 200})
    assert len(driver.launches) == 1


def test_descriptors_and_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = px.spec(("batch", "m", 200), px.bf16)
    made = px.export(copy_tiles[lambda m, batch: (px.cdiv(m, 128) * 2, batch)], batch, batch, to=tmp_path)
    module, driver = loaded(made, monkeypatch)
    module.load()(0x10000, 0x20000, sizes={"batch": 3, "m": 100}, strides={"Y": (100000, 256, 1)})
    assert [found[2:5] for found in driver.maps] == [
        (0x10000, [200, 100, 3], [400, 40000]), (0x20000, [200, 100, 3], [512, 200000]),
    ]  # fmt: skip
    ((config, _, packed),) = driver.launches
    assert [part[0] for part in packed[2:]] == [1, 2]
    dims = config.attrs[0].value.clusterDim
    assert (dims.x, dims.y, dims.z) == (2, 1, 1)


def test_as_many_as_fit_and_other_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = px.spec(("m",), px.f32)
    made = px.export(squares[px.auto], vector, vector, to=tmp_path)
    module, driver = loaded(made, monkeypatch)
    module.load()(0x1000, 0x2000, sizes={"m": 9})
    assert driver.launches[0][0].gridDimX == 264
    driver.capability = (8, 0)
    with pytest.raises(ValueError, match="was exported for sm_90a, not for sm_80"):
        module.load()


def test_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = px.spec(("m", 64), px.bf16), px.spec((64, "n"), px.bf16)
    made = px.export(px.kernels.matmul, a, b, to=tmp_path, sizes={"m": 256, "n": 256}, config=SMALL)
    module, driver = loaded(made, monkeypatch)
    launch = module.load()
    launch(0x10000, 0x20000, 0x30000, sizes={"m": 100, "n": 72}, strides={"a": (128, 1)}, stream=5)
    ((config, _, packed),) = driver.launches
    assert ((config.gridDimX, config.gridDimY), config.hStream) == ((4, 1), 5)
    slots = made.compiled[0].signature.slots
    places = [(0x10000, 128, 1, 100, 64), (0x20000, 72, 1, 64, 72), (0x30000, 72, 1, 100, 72)]
    assert packed[:3] == [struct.pack(slot.format, *place) for slot, place in zip(slots, places)]
    launch(0, 0x20000, 0x30000, sizes={"m": 0, "n": 72})
    for wrong in (
        lambda: launch(0x10000, 0x20000, 0x30000, sizes={"m": 100, "n": 73}),
        lambda: launch(0x10008, 0x20000, 0x30000, sizes={"m": 100, "n": 72}),
        lambda: launch(0x10000, 0x20000, 0x30008, sizes={"m": 100, "n": 72}),
        lambda: launch(0x10000, 0x20000, sizes={"m": 100, "n": 72}),
        lambda: launch(0, 0x20000, 0x30000, sizes={"m": 100, "n": 72}),
    ):
        with pytest.raises(ValueError, match="matmul"):
            wrong()
    assert len(driver.launches) == 1


@pytest.mark.long
def test_a_function_with_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    q = px.spec(("batch", 2, "length", 64), px.bf16)
    made = px.export(px.kernels.attention, q, q, q, causal=True, to=tmp_path, sizes={"batch": 2, "length": 512})
    module, driver = loaded(made, monkeypatch)
    launch = module.load()
    places, sizes = (0x10000, 0x20000, 0x30000, 0x40000), {"batch": 1, "length": 100}
    assert launch.workspace_bytes(*places, sizes=sizes) == launch.manifest["zeroed_bytes"] > 0
    launch(*places, sizes=sizes, workspace=0x50000)
    signature = made.compiled[0].signature
    counters = struct.pack(signature.slots[-1].format, 0x50000, 1, signature.counters)
    assert driver.launches[0][2][len(signature.slots) - 1] == counters
    for workspace in (None, 0x50010):
        with pytest.raises(ValueError, match="workspace"):
            launch(*places, sizes=sizes, workspace=workspace)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_it_needs_cuda_bindings_alone(tmp_path: Path) -> None:
    """The package itself, and no other one, with a driver that checks and writes down what it is asked for."""
    batch = px.spec(("batch", "m", 64), px.bf16)
    made = px.export(copy_tiles[lambda m, batch: (px.cdiv(m, 128) * 2, batch)], batch, batch, to=tmp_path)
    calls = ran_outside(
        tmp_path,
        """
from copy_tiles import load
load()(0x10000, 0x20000, sizes={"batch": 3, "m": 100}, stream=7)
""",
        parameter_bytes(made.compiled), bindings_alone=True,
    )  # fmt: skip
    assert [call["call"] for call in calls] == ["load", "kernel", "map", "map", "launch"]
    assert [call["dims"] for call in calls[2:4]] == [[64, 100, 3]] * 2
    launch = calls[-1]
    assert (launch["grid"], launch["stream"], launch["attributes"]) == ([2, 3, 1], 7, [[4, 2, 1, 1]])
