"""Exported kernels on a GPU: from a C program, and by the loader, with the results of Phalanx's own launch."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from export.test_export import copy_tiles, scale, squares

torch = pytest.importorskip("torch")
COMPILER = shutil.which("gcc") or shutil.which("cc")
HEADERS = [path for path in (Path("/usr/local/cuda/include"), Path("/usr/include")) if (path / "cuda.h").exists()]


def built(made: Any) -> Any:
    """The exported function as a shared library, with NVIDIA's own header and driver."""
    if COMPILER is None or not HEADERS:
        pytest.skip("no C compiler, or no cuda.h of a CUDA toolkit")
    library = made.folder / "exported.so"
    files = [str(made.folder / f"{made.name}.c"), str(made.folder / f"{made.name}_code.c")]
    done = subprocess.run(
        [COMPILER, "-std=c11", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", f"-I{HEADERS[0]}", *files, "-l:libcuda.so.1",
         "-lpthread", "-o", str(library)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return getattr(ctypes.CDLL(str(library)), made.name)


def loader(made: Any) -> Any:
    spec = importlib.util.spec_from_file_location(f"exported_{made.name}", made.folder / f"{made.name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def pointer(x: Any) -> ctypes.c_uint64:
    return ctypes.c_uint64(x.data_ptr())


def stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def test_a_kernel_without_descriptors(tmp_path: Path) -> None:
    matrix = px.spec(("m", "n"), px.f32)
    made = px.export(scale[lambda m, n, BM, BN: (px.cdiv(m, BM), px.cdiv(n, BN))], matrix, matrix, 2.0, to=tmp_path)
    x = torch.randn(100, 200, device="cuda")
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    call = built(made)
    sizes = ctypes.c_int64(100), ctypes.c_int64(200)
    assert call(stream(), *sizes, pointer(x), None, pointer(y), None, ctypes.c_float(0.5)) == 0
    loader(made)(x, z, 0.5, sizes={"m": 100, "n": 200}, stream=torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(y, x * 0.5)
    assert torch.equal(z, x * 0.5)
    assert call(stream(), *sizes, ctypes.c_uint64(0), None, pointer(y), None, ctypes.c_float(0.5)) == -1


def test_a_kernel_with_descriptors_and_clusters(tmp_path: Path) -> None:
    batch = px.spec(("batch", "m", 64), px.bf16)
    made = px.export(copy_tiles[lambda m, batch: (px.cdiv(m, 128) * 2, batch)], batch, batch, to=tmp_path)
    x = torch.randn(3, 100, 64, device="cuda").bfloat16()
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    sizes = ctypes.c_int64(3), ctypes.c_int64(100)
    assert built(made)(stream(), *sizes, pointer(x), None, pointer(y), None) == 0
    loader(made)(x, z, sizes={"batch": 3, "m": 100}, stream=torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(y, x)
    assert torch.equal(z, x)


def test_as_many_clusters_as_fit(tmp_path: Path) -> None:
    vector = px.spec(("m",), px.f32)
    made = px.export(squares[px.auto], vector, vector, to=tmp_path)
    x = torch.randn(100_000, device="cuda")
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    assert built(made)(stream(), ctypes.c_int64(x.numel()), pointer(x), None, pointer(y), None) == 0
    loader(made)(x, z, sizes={"m": x.numel()}, stream=torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(y, x * x)
    assert torch.equal(z, x * x)
