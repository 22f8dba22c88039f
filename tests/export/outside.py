"""Processes that load exported libraries without Phalanx, with the stub in the place of the driver."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from export.stub import stub_library

FAKE = r'''
import ctypes

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device", ctypes.c_int), ("ndim", ctypes.c_int),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]

class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

class Fake:
    """A DLPack tensor on a GPU that is not there: nobody reads what it points to."""

    def __init__(self, address, shape, dtype, strides=None, device=2):
        rank = len(shape)
        dense = [1] * rank
        for axis in range(rank - 2, -1, -1):
            dense[axis] = dense[axis + 1] * shape[axis + 1]
        self.shape = (ctypes.c_int64 * rank)(*shape)
        self.strides = (ctypes.c_int64 * rank)(*(strides or dense))
        code, bits = {"bf16": (4, 16), "f32": (2, 32), "u8": (1, 8)}[dtype]
        self.managed = Managed(Tensor(address, device, 0, rank, code, bits, 1, self.shape, self.strides, 0), None, None)
        self.device = device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **options):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor", None)
'''


def ran_outside(
    folder: Path, text: str, bytes_of_parameters: list[list[int]], *, bindings_alone: bool = False
) -> list[dict[str, Any]]:
    """What a Python program that knows nothing of Phalanx asks the stub for; and what it prints as lines of JSON.

    It can import what is installed here, or, `bindings_alone`, cuda-bindings and the standard library.
    """
    beside = folder / "beside"
    beside.mkdir(exist_ok=True)
    stub_library(beside)
    (beside / "fake.py").write_text(FAKE)
    (beside / "program.py").write_text(text + "\nimport sys\nassert 'phalanx' not in sys.modules\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {
        "LD_LIBRARY_PATH": str(beside), "PYTHONPATH": f"{beside}:{folder}", "JAX_PLATFORMS": "cpu",
        "STUB_BYTES": ";".join(",".join(map(str, sizes)) for sizes in bytes_of_parameters),
    }  # fmt: skip
    options = []
    if bindings_alone:
        found = importlib.util.find_spec("cuda.bindings")
        assert found is not None and found.origin is not None
        (beside / "cuda").symlink_to(Path(found.origin).parents[1])
        options = ["-S"]  # no folder of packages
    done = subprocess.run(
        [sys.executable, *options, str(beside / "program.py")], capture_output=True, text=True, check=False, env=environment,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def parameter_bytes(compiled: Any) -> list[list[int]]:
    """The sizes of the parameters of each kernel, in the order in which they are compiled."""
    return [[slot.nbytes for slot in made.signature.slots] + [128] * len(made.signature.tensor_maps) for made in compiled]
