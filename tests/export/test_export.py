"""`px.export`: what the C launcher asks of a driver is what Phalanx's own launch asks, and what it refuses."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from export.stub import COMPILER, HERE, MISSING, known, run
from phalanx.cuda.abi import ArraySlot
from phalanx.errors import Error
from phalanx.runtime.device.arrays import ArrayInfo, dense_strides
from phalanx.runtime.device.tensormap import DATA_TYPES, L2_PROMOTIONS, SWIZZLES, geometry
from phalanx.runtime.exporting.c_parts import c_text
from phalanx.runtime.exporting.export import Exported

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
STREAM = 0x5000


@px.kernel(warps=4)
def scale(X, Y, alpha, *, BM=64, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]) * alpha)


@px.kernel(warps=4, cluster=2)
def copy_tiles(X, Y, *, BM=64, BN=64):
    """By TMA, with rows of a batch that a descriptor of rank 3 has."""
    s = px.shared((BM, BN), X.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(X[px.block_id(1), px.block_id(0) * BM : px.block_id(0) * BM + BM, 0:BN], s, full)
    full.wait(0)
    px.tma.store(s, Y[px.block_id(1), px.block_id(0) * BM : px.block_id(0) * BM + BM, 0:BN])
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=1)
def squares(X, Y, *, BM=16, SCHEDULE="static"):
    for t in px.persistent(px.cdiv(X.shape[0], BM), schedule=SCHEDULE):
        x = px.load(X[t * BM : t * BM + BM])
        px.store(Y[t * BM : t * BM + BM], x * x)


@px.kernel(warps=4)
def codes(X, Y, *, BM=16):
    """Two f4e2m1 to a byte, which the kernel and the descriptor see as bytes."""
    s = px.shared((BM, 64), X.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(X[px.block_id(0) * BM : px.block_id(0) * BM + BM, 0:64], s, full)
    full.wait(0)
    px.store(Y[px.block_id(0) * BM : px.block_id(0) * BM + BM, 0:64], px.load(s).to(px.f32))


@px.kernel(warps=4)
def doubled(X, Y, *, BM=16):
    for m in px.pipelined(range(0, X.shape[0], BM)):
        px.store(Y[m : m + BM, 0:64], px.load(X[m : m + BM, 0:64]) * 2.0)


def main_of(made: Exported, calls: list[str], before: str = "") -> str:
    """A program that makes these calls; statuses are printed as lines of their own."""
    codes = {f"{made.name}_{each.arch}": each.signature for each in made.compiled}
    calling = "".join(
        f'  {{ int status = {call}; printf("{{\\"call\\": \\"status\\", \\"value\\": %d, \\"text\\": \\"%s\\"}}\\n", '
        f"status, {made.name}_message(status)); }}\n"
        for call in calls
    )
    stream = f"  CUstream stream = (CUstream){STREAM:#x};\n"
    return f"{known(codes)}int main(void) {{\n{stream}  stub_know();\n{before}{calling}  return 0;\n}}\n"


def packed(slot: Any, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> str:
    """A parameter as Phalanx's launcher packs it."""
    assert isinstance(slot, ArraySlot)
    return struct.pack(slot.format, pointer, *(strides or dense_strides(shape)), *shape).hex()


def asked(calls: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [call for call in calls if call["call"] == kind]


def as_driver_sees(made: Exported, number: int, info: ArrayInfo) -> dict[str, Any]:
    """The arguments of cuTensorMapEncodeTiled for a descriptor of an array, by Phalanx's own launch."""
    found = geometry(made.compiled[0].signature.tensor_maps[number], info.dtype_name, info.shape, info.strides)
    modes = [0, SWIZZLES[found.swizzle], L2_PROMOTIONS[found.l2_promotion], int(found.fill_nan)]
    return {
        "call": "map", "type": DATA_TYPES[found.dtype], "address": info.pointer, "dims": list(found.dims),
        "strides": list(found.byte_strides), "box": list(found.box), "steps": [1] * len(found.dims), "modes": modes,
    }  # fmt: skip


def test_a_kernel_with_named_sizes(tmp_path: Path) -> None:
    matrix = px.spec(("m", "n"), px.f32)
    made = px.export(scale[lambda m, n, BM, BN: (px.cdiv(m, BM), px.cdiv(n, BN))], matrix, matrix, 2.0, to=tmp_path)
    before = "  const int64_t wide[] = {512, 1}, across[] = {1, 512}, odd[] = {201, 1};\n"
    calls = run(
        tmp_path, "scale",
        main_of(
            made,
            [
                "scale(stream, 100, 200, 0x10000, NULL, 0x20000, wide, 0.5f)",
                "scale(stream, 7, 64, 0x10000, wide, 0x20000, NULL, 2.0f)",
                "scale(stream, 0, 200, 0x10000, NULL, 0, NULL, 0.5f)",
                "scale(stream, 100, 200, 0, NULL, 0x20000, wide, 0.5f)",
                "scale(stream, -1, 200, 0x10000, NULL, 0x20000, wide, 0.5f)",
                "scale(stream, 100, 200, 0x10000, across, 0x20000, wide, 0.5f)",
                "scale(stream, 100, 201, 0x10000, odd, 0x20000, wide, 0.5f)",
                "scale(stream, 100, 200, 0x10008, NULL, 0x20000, wide, 0.5f)",
            ],
            before,
        ),
    )  # fmt: skip
    assert [call["value"] for call in asked(calls, "status")] == [0, 0, 0, -1, -2, -3, -3, -4]
    assert asked(calls, "status")[3]["text"] == "an array is NULL"
    assert len(asked(calls, "load")) == 1
    assert asked(calls, "kernel") == [{"call": "kernel", "name": "scale_kernel"}]
    first, second = asked(calls, "launch")
    x, y, _ = made.compiled[0].signature.slots
    assert first["parameters"] == [
        packed(x, 0x10000, (100, 200)), packed(y, 0x20000, (100, 200), (512, 1)), struct.pack("<f", 0.5).hex(),
    ]  # fmt: skip
    assert (first["grid"], first["block"], first["stream"]) == ([2, 4, 1], [128, 1, 1], STREAM)
    assert (second["grid"], second["attributes"]) == ([1, 1, 1], [])


def test_descriptors_and_clusters(tmp_path: Path) -> None:
    batch = px.spec(("batch", "m", 200), px.bf16)
    made = px.export(copy_tiles[lambda m, batch: (px.cdiv(m, 128) * 2, batch)], batch, batch, to=tmp_path)
    before = "  const int64_t apart[] = {100000, 256, 1}, odd[] = {100000, 255, 1};\n"
    calls = run(
        tmp_path, "copy_tiles",
        main_of(
            made,
            [
                "copy_tiles(stream, 3, 100, 0x10000, NULL, 0x20000, apart)",
                "copy_tiles(stream, 1, 1, 0x10000, NULL, 0x20000, NULL)",
                "copy_tiles(stream, 3, 100, 0x10000, odd, 0x20000, NULL)",
            ],
            before,
        ),
    )  # fmt: skip
    assert [call["value"] for call in asked(calls, "status")] == [0, 0, -3]
    first, _ = asked(calls, "launch")
    assert (first["grid"], first["attributes"]) == ([2, 3, 1], [[4, 2, 1, 1]])
    dense, apart = (20000, 200, 1), (100000, 256, 1)
    shape = (3, 100, 200)
    infos = [ArrayInfo("cuda", 0, place, shape, steps, "bf16") for place, steps in ((0x10000, dense), (0x20000, apart))]
    one = [ArrayInfo("cuda", 0, pointer, (1, 1, 200), (200, 200, 1), "bf16") for pointer in (0x10000, 0x20000)]
    maps = asked(calls, "map")
    assert [{k: v for k, v in found.items() if k != "number"} for found in maps] == [
        as_driver_sees(made, n % 2, info) for n, info in enumerate([*infos, *one])
    ]
    numbers = [int.from_bytes(bytes.fromhex(text)[:8], "little") for text in first["parameters"][2:]]
    assert numbers == [0, 1]


def test_as_many_clusters_as_fit(tmp_path: Path) -> None:
    vector = px.spec(("m",), px.f32)
    made = px.export(squares[px.auto], vector, vector, to=tmp_path)
    calls = run(tmp_path, "squares", main_of(made, ["squares(stream, 9, 0x1000, NULL, 0x2000, NULL)"] * 2))
    assert len(asked(calls, "blocks")) == 1
    assert [call["grid"] for call in asked(calls, "launch")] == [[264, 1, 1]] * 2


def test_counters_are_in_the_workspace(tmp_path: Path) -> None:
    vector = px.spec(("m",), px.f32)
    made = px.export(squares[px.auto], vector, vector, to=tmp_path, name="drawn", SCHEDULE="counter")
    given = [f"drawn(stream, 9, 0x1000, NULL, 0x2000, NULL, {space}, &bytes)" for space in ("0", "0x3000", "0x3010")]
    given.append("drawn(stream, 9, 0x1000, NULL, 0x2000, NULL, 0x3000, NULL)")
    calls = run(tmp_path, "drawn", main_of(made, given, "  int64_t bytes = 0;\n"))
    assert [call["value"] for call in asked(calls, "status")] == [0, 0, -8, -1]
    signature = made.compiled[0].signature
    (launch,) = asked(calls, "launch")
    assert launch["parameters"][2] == packed(signature.slots[2], 0x3000, (signature.counters,))
    assert "Its first 256 bytes are 0 before the first call" in (tmp_path / "drawn.h").read_text()


def test_elements_that_share_bytes(tmp_path: Path) -> None:
    made = px.export(codes[lambda m: px.cdiv(m, 16)], px.spec(("m", 64), px.f4e2m1), px.spec(("m", 64), px.f32), to=tmp_path)
    calls = run(tmp_path, "codes", main_of(made, ["codes(stream, 40, 0x1000, NULL, 0x2000, NULL)"]))
    x, y = made.compiled[0].signature.slots
    (launch,) = asked(calls, "launch")
    assert launch["grid"] == [3, 1, 1]
    assert launch["parameters"][:2] == [packed(x, 0x1000, (40, 32)), packed(y, 0x2000, (40, 64))]
    (found,) = asked(calls, "map")
    assert (found["type"], found["dims"], found["strides"]) == (0, [32, 40], [32])


def test_arrays_that_share_memory_with_one_that_is_read_ahead(tmp_path: Path) -> None:
    matrix = px.spec(("m", 64), px.f32)
    made = px.export(doubled[1], matrix, matrix, to=tmp_path)
    places = [(0x10000, 0x20000), (0x10000, 0x12800), (0x10000, 0x127F0), (0x10000, 0x10000)]
    calls = run(tmp_path, "doubled", main_of(made, [f"doubled(stream, 40, {x:#x}, NULL, {y:#x}, NULL)" for x, y in places]))
    assert [call["value"] for call in asked(calls, "status")] == [0, 0, -7, -7]
    assert "X and Y share no memory" in (tmp_path / "doubled.h").read_text()


def test_other_devices_and_no_context(tmp_path: Path) -> None:
    vector = px.spec((64, 64), px.f32)
    made = px.export(scale[1], vector, vector, 2.0, to=tmp_path, arch=["sm_90a", "sm_100f"])
    call = "scale(stream, 0x10000, NULL, 0x20000, NULL, 1.0f)"
    for before, status in (
        ("  stub_major = 8;\n", -5), ("  stub_minor = 1;\n", -5), ("  stub_major = 10; stub_minor = 3;\n", 0),
        ("  stub_context = 0;\n", 201),
    ):  # fmt: skip
        calls = run(tmp_path, "scale", main_of(made, [call], before))
        assert [each["value"] for each in asked(calls, "status")] == [status]


CMAKE = """
cmake_minimum_required(VERSION 3.17)
project(caller C)
list(APPEND CMAKE_MODULE_PATH "${{CMAKE_SOURCE_DIR}}")
add_subdirectory(exported)
add_executable(program main.c "{stub}/driver.c")
target_include_directories(program PRIVATE "{stub}")
target_link_libraries(program PRIVATE scale)
"""
TOOLKIT = """
add_library(CUDA::cuda_driver INTERFACE IMPORTED)
target_include_directories(CUDA::cuda_driver INTERFACE "${CMAKE_SOURCE_DIR}")
set(CUDAToolkit_FOUND TRUE)
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake on PATH")
def test_the_snippet_for_cmake(tmp_path: Path) -> None:
    """A project that adds the folder gets a program; the toolkit that it finds is the stub."""
    matrix = px.spec(("m", 64), px.f32)
    folder = tmp_path / "exported"
    made = px.export(scale[lambda m, BM: (px.cdiv(m, BM), 1)], matrix, matrix, 2.0, to=folder)
    files = {
        "CMakeLists.txt": CMAKE.format(stub=HERE), "FindCUDAToolkit.cmake": TOOLKIT, "cuda.h": c_text("cuda.h"),
        "main.c": '#include "scale.h"\n#include "stub.h"\n#include <stdio.h>\n'
        + main_of(made, ["scale(stream, 100, 0x10000, NULL, 0x20000, NULL, 0.5f)"]),
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    build = tmp_path / "build"
    steps = ["cmake", "-S", str(tmp_path), "-B", str(build)], ["cmake", "--build", str(build)], [str(build / "program")]
    for command in steps:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert [call["grid"] for call in asked(calls, "launch")] == [[2, 1, 1]]


def test_the_manifest(tmp_path: Path) -> None:
    matrix = px.spec(("m", 64), px.f32)
    made = px.export(scale[lambda m: (px.cdiv(m, 64), 1)], matrix, matrix, 2.0, to=tmp_path, arch="sm_90a")
    told = json.loads((tmp_path / "scale.json").read_text())
    assert told["sizes"] == ["m"]
    (end,) = told["ends"]
    assert end["launches"][0]["grid"] == ["(-(-m // 64))", "1", "1"]
    assert [item["kind"] for item in told["parameters"]] == ["array", "array", "scalar"]
    assert (tmp_path / told["programs"][0]["targets"]["sm_90a"]["cubin"]).read_bytes() == made.compiled[0].cubin
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(made.files)


@px.kernel(warps=1)
def asserts(X):
    px.device_assert(X[0] > 0, "positive")


@px.kernel(warps=1)
def brings_patches(X):
    tile, bar = px.shared((16, 32), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(X.im2col(0, (0, 0), 0, (16, 32), kernel=3), tile, bar)
    bar.wait(0)


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda to: px.export(brings_patches[1], px.spec((1, 8, 8, 32), px.f32), to=to),
            "a kernel that copies patches of a convolution of 'X' can't be exported",
        ),
        (lambda to: px.export(scale, to=to), "px.export takes a kernel with its grid"),
        (lambda to: px.export(asserts[1], px.spec(4, px.f32), to=to), "kernel 'asserts' has px.device_assert"),
        (lambda to: px.export(squares[lambda m: min(m, 4)], *[px.spec(("m",), px.f32)] * 2, to=to), "a grid decides by m"),
        (lambda to: px.export(scale[1], *[px.spec(("X", 4), px.f32)] * 2, 1.0, to=to), "in C, where it stands for two"),
        (lambda to: px.export(scale[1], *[px.spec((4, 4), px.f32)] * 2, 1.0, to=to, name="for"), "can't be the name of a C"),
        (lambda to: px.export(scale[1], *[px.spec((4, 4), px.f32)] * 2, 1.0, to=to, arch=[]), "px.export has no target"),
        (lambda to: px.spec(("a b", 4), px.f32), "px.spec has a size with the name 'a b'"),
    ],
)
def test_what_is_refused(make: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        make(tmp_path)
    assert text in str(caught.value)
    assert caught.value.remedy
