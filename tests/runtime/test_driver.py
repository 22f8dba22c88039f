"""The driver layer on a fake library, and its C structs against NVIDIA's own bindings."""

from __future__ import annotations

import ast
import ctypes
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import Error
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device import statuses


def test_missing_library_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "LIBRARY_NAMES", ("libno-such-cuda.so",))
    cuda.get_driver.cache_clear()
    try:
        with pytest.raises(Error) as error:
            cuda.get_driver()
        assert not cuda.has_gpu()
    finally:
        cuda.get_driver.cache_clear()
    assert isinstance(error.value, cuda.DriverError)
    assert error.value.name == "CUDA_ERROR_NO_DRIVER"
    assert "libcuda.so.1 is not on this machine" in str(error.value)
    assert "pass NumPy arrays to simulate" in str(error.value)


def test_failed_call_carries_name_and_text(library: Any, driver: cuda.Driver) -> None:
    library.failures["cuCtxSynchronize"] = [719]
    with pytest.raises(cuda.DriverError) as error:
        driver.synchronize()
    assert error.value.name == "CUDA_ERROR_NUMBER_719"
    assert error.value.text == "something about 719"
    assert error.value.message == "cuCtxSynchronize: CUDA_ERROR_NUMBER_719 (something about 719)"


def test_every_status_has_a_remedy(driver: cuda.Driver) -> None:
    for status in (*statuses.STATUSES.values(), 777):
        remedy = driver.error(status, "cuInit").remedy
        assert remedy and len(remedy) < 150 and remedy[-1] != ".", status
    assert set(statuses.REMEDIES) == set(statuses.STATUSES)
    assert driver.error(2, "cuMemAlloc_v2").remedy == statuses.REMEDIES["out_of_memory"]


def test_every_error_of_the_runtime_has_a_remedy() -> None:
    """Also those that nothing here provokes; an assertion of the user's own says itself what is wrong."""
    bare = [
        f"{file.name}:{call.lineno}"
        for file in sorted(Path(cuda.__file__).parents[1].rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("Error", "DriverError")
        if not any(k.arg == "remedy" or (k.arg == "kind" and ast.unparse(k.value) == "'assert'") for k in call.keywords)
    ]
    assert bare == []


def test_a_driver_too_old_to_name_its_errors() -> None:
    class Old:
        cuInit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(lambda _: 100)

    with pytest.raises(cuda.DriverError) as error:
        cuda.Driver(Old())
    assert error.value.message == "cuInit: CUDA_ERROR_100 (unknown error)"


def test_old_driver_without_a_call() -> None:
    class Old:
        cuInit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(lambda _: 0)

    with pytest.raises(cuda.DriverError, match="has no cuCtxSynchronize"):
        cuda.Driver(Old()).synchronize()


def test_device_description(driver: cuda.Driver) -> None:
    info = driver.device(1)
    assert info == cuda.DeviceInfo(1, "Fake GPU", (9, 0), 132, 60 << 20, 233472, 232448, True)
    assert info.arch == "sm_90a"
    assert driver.version() == (13, 4)
    assert driver.device_count() == 2


def test_context_is_changed_and_restored(library: Any, driver: cuda.Driver) -> None:
    with driver.context(0):
        assert library.context == 1000
    assert "cuCtxSetCurrent" not in library.names()
    with pytest.raises(RuntimeError), driver.context(1):
        assert library.context == 1001
        raise RuntimeError
    assert library.context == 1000


def test_thread_without_context_keeps_the_new_one(library: Any, driver: cuda.Driver) -> None:
    library.context = 0
    with driver.context(1):
        pass
    assert library.context == 1001


def test_loading_relaxes_stream_capture(library: Any, driver: cuda.Driver) -> None:
    assert driver.load_function(0, b"cubin", "kernel") == (2000, 3000)
    names = library.names()
    around = [n for n, name in enumerate(names) if name == "cuThreadExchangeStreamCaptureMode"]
    assert len(around) == 2
    assert around[0] < names.index("cuModuleLoadData") < around[1]


def test_structs_have_the_layout_of_the_header() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    theirs = bindings.CUlaunchConfig()
    theirs.gridDimX, theirs.gridDimY, theirs.gridDimZ = 1, 2, 3
    theirs.blockDimX, theirs.blockDimY, theirs.blockDimZ = 4, 5, 6
    theirs.sharedMemBytes, theirs.hStream = 7, bindings.CUstream(8)
    cluster = bindings.CUlaunchAttribute()
    cluster.id = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = 2, 3, 4
    serial = bindings.CUlaunchAttribute()
    serial.id = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    serial.value.programmaticStreamSerializationAllowed = 1
    theirs.attrs, theirs.numAttrs = [cluster, serial], 2

    config = cuda.LaunchConfig.from_address(int(theirs.getPtr()))
    assert tuple(config.grid) == (1, 2, 3)
    assert tuple(config.block) == (4, 5, 6)
    assert (config.shared_bytes, config.stream, config.attribute_count) == (7, 8, 2)
    first, second = (cuda.LaunchAttribute * 2).from_address(config.attributes)
    assert (first.id, tuple(first.value[:3])) == (cuda.ATTRIBUTE_CLUSTER_DIMENSION, (2, 3, 4))
    assert (second.id, second.value[0]) == (cuda.ATTRIBUTE_PROGRAMMATIC_SERIALIZATION, 1)


def test_enumerators_are_the_header_s() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    function, device = bindings.CUfunction_attribute, bindings.CUdevice_attribute
    ours = cuda._FUNCTION_ATTRIBUTES
    assert ours["max_dynamic_shared_bytes"] == function.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert ours["non_portable_cluster_size"] == function.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    assert ours["registers"] == function.CU_FUNC_ATTRIBUTE_NUM_REGS
    assert ours["local_bytes"] == function.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
    ours = cuda._DEVICE_ATTRIBUTES
    assert ours["sm_count"] == device.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    assert ours["shared_bytes_per_block"] == device.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    assert ours["shared_bytes_per_sm"] == device.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    assert ours["major"] == device.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    assert ours["minor"] == device.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
    assert ours["cluster_launch"] == device.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
    assert ours["l2_bytes"] == device.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
    result = bindings.CUresult
    named = {name: getattr(result, f"CUDA_ERROR_{name.upper()}").value for name in statuses.STATUSES}
    assert named == statuses.STATUSES
    assert result.CUDA_ERROR_INVALID_CONTEXT == cuda.INVALID_CONTEXT
    assert result.CUDA_ERROR_INVALID_HANDLE == cuda.INVALID_HANDLE
    ordinal = bindings.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    assert ordinal == cuda._POINTER_DEVICE_ORDINAL
