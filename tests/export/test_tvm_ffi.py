"""Exports for tvm-ffi and the kernels hub: loaded without Phalanx, on the stub driver, with tensors that are not there."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from export.outside import parameter_bytes, ran_outside
from export.stub import COMPILER, MISSING
from export.test_export import scale, squares
from phalanx.errors import Error
from phalanx.runtime.device.arrays import dense_strides

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
needs_tvm = pytest.mark.skipif(importlib.util.find_spec("tvm_ffi") is None, reason="no tvm_ffi: pip install apache-tvm-ffi")
LOADING = """
import json, tvm_ffi
from fake import Fake

def caught(call):
    try:
        call()
    except Exception as error:
        print(json.dumps({"call": "error", "kind": type(error).__name__, "text": str(error)}), flush=True)
"""


def launches(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call for call in calls if call["call"] == "launch"]


@needs_tvm
def test_a_kernel(tmp_path: Path) -> None:
    matrix = px.spec(("m", 64), px.f32)
    made = px.export(scale[lambda m: (px.cdiv(m, 64), 1)], matrix, matrix, 2.0, to=tmp_path, interfaces="tvm-ffi")
    assert {"scale_tvm_ffi.c", "scale.so"} <= set(made.files)
    calls = ran_outside(
        tmp_path,
        LOADING + f"""
f = tvm_ffi.load_module({str(tmp_path / "scale.so")!r})["scale"]
x, y = Fake(0x10000, (100, 64), "f32"), Fake(0x20000, (100, 64), "f32", (128, 1))
f(x, y, 0.5)
f(x, y, 3)
caught(lambda: f(x, y))
caught(lambda: f(x, Fake(0x20000, (99, 64), "f32"), 0.5))
caught(lambda: f(x, Fake(0x20000, (100, 64), "bf16"), 0.5))
caught(lambda: f(x, Fake(0x20008, (100, 64), "f32"), 0.5))
caught(lambda: f(x, Fake(0x20000, (100, 64), "f32", device=1), 0.5))
caught(lambda: f(x, y, "no"))
""",
        parameter_bytes(made.compiled),
    )
    first, second = launches(calls)
    assert first["grid"] == [2, 1, 1]
    slots = made.compiled[0].signature.slots
    assert first["parameters"] == [
        struct.pack(slots[0].format, 0x10000, *dense_strides((100, 64)), 100, 64).hex(),
        struct.pack(slots[1].format, 0x20000, 128, 1, 100, 64).hex(), struct.pack("<f", 0.5).hex(),
    ]  # fmt: skip
    assert second["parameters"][2] == struct.pack("<f", 3.0).hex()
    errors = [(call["kind"], call["text"]) for call in calls if call["call"] == "error"]
    wrong = "scale: Y is no tensor of f32 with axes (m, 64) on a GPU"
    assert errors == [
        ("TypeError", "scale takes 3 arguments: X, Y, alpha"), ("ValueError", wrong), ("ValueError", wrong),
        ("ValueError", "an array does not begin at a multiple of 16 bytes (32 for padded operands)"), ("ValueError", wrong),
        ("TypeError", "scale: alpha is no number"),
    ]  # fmt: skip


@needs_tvm
def test_counters_and_a_stream(tmp_path: Path) -> None:
    vector = px.spec(("m",), px.f32)
    made = px.export(
        squares[px.auto], vector, vector, to=tmp_path, name="drawn", SCHEDULE="counter", interfaces=["tvm-ffi"]
    )
    calls = ran_outside(
        tmp_path,
        LOADING + f"""
f = tvm_ffi.load_module({str(tmp_path / "drawn.so")!r})["drawn"]
with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), 0x7000):
    f(Fake(0x1000, (9,), "f32"), Fake(0x2000, (9,), "f32"), Fake(0x3000, (4096,), "u8"))
caught(lambda: f(Fake(0x1000, (9,), "f32"), Fake(0x2000, (9,), "f32"), Fake(0x3000, (3,), "u8")))
""",
        parameter_bytes(made.compiled),
    )
    (launch,) = launches(calls)
    assert launch["stream"] == 0x7000
    assert [call["kind"] for call in calls if call["call"] == "error"] == ["ValueError"]


@needs_tvm
def test_a_function_with_a_workspace(tmp_path: Path) -> None:
    q = px.spec(("batch", 2, "length", 64), px.bf16)
    made = px.export(
        px.kernels.attention, q, q, q, causal=True, sizes={"batch": 2, "length": 512}, to=tmp_path, interfaces="tvm-ffi"
    )
    calls = ran_outside(
        tmp_path,
        LOADING + f"""
m = tvm_ffi.load_module({str(tmp_path / "attention.so")!r})
q, k, v, out = (Fake(0x10000 * n, (1, 2, 100, 64), "bf16") for n in (1, 2, 3, 4))
needed = m["attention_workspace"](q, k, v, out)
m["attention"](q, k, v, out, Fake(0x50000, (needed,), "u8"))
caught(lambda: m["attention"](q, k, v, out, Fake(0x50000, (needed - 1,), "u8")))
caught(lambda: m["attention"](q, k, v, Fake(0x40000, (1, 2, 99, 64), "bf16"), Fake(0x50000, (needed,), "u8")))
""",
        parameter_bytes(made.compiled),
    )
    assert len(launches(calls)) == 1
    assert [call["text"] for call in calls if call["call"] == "error"] == [
        "the workspace is too small, or does not begin at a multiple of 256 bytes",
        "attention: out is no tensor of bf16 with axes (batch, 2, length, 64) on a GPU",
    ]


@needs_tvm
def test_the_folders_of_the_hub(tmp_path: Path) -> None:
    kernels = pytest.importorskip("kernels", reason="no package kernels")
    from kernels._rust import Metadata
    from kernels.variants import parse_variant

    matrix = px.spec(("m", 64), px.f32)
    made = px.export(
        scale[lambda m: (px.cdiv(m, 64), 1)], matrix, matrix, 2.0, to=tmp_path, name="scale_rows", interfaces="hub"
    )
    assert kernels.__version__
    (variant,) = (tmp_path / "hub" / "build").iterdir()
    assert parse_variant(variant.name).variant_str == variant.name
    metadata = Metadata.read_from_file(variant / "metadata.json")
    assert (metadata.name.python_name, metadata.backend.archs) == ("scale_rows", ["9.0a"])
    assert all((tmp_path / file).exists() for file in made.files)
    calls = ran_outside(
        tmp_path,
        LOADING + f"""
from pathlib import Path
from kernels.importer import _import_from_path
module = _import_from_path(Path({str(variant)!r}), {{}})
module.scale_rows(Fake(0x10000, (100, 64), "f32"), Fake(0x20000, (100, 64), "f32"), 0.5)
""",
        parameter_bytes(made.compiled),
    )
    assert [launch["grid"] for launch in launches(calls)] == [[2, 1, 1]]


def test_interfaces_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(Error, match="no interface 'dlpack'"):
        px.export(scale[1], *[px.spec((4, 4), px.f32)] * 2, 1.0, to=tmp_path, interfaces="dlpack")


@pytest.mark.skipif(importlib.util.find_spec("tvm_ffi") is not None, reason="tvm_ffi is here")
def test_without_the_package(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        px.export(scale[1], *[px.spec((4, 4), px.f32)] * 2, 1.0, to=tmp_path, interfaces="tvm-ffi")
    assert "needs the package apache-tvm-ffi" in str(caught.value)
    assert caught.value.remedy == 'pip install "phalanx-gpu[tvm-ffi]"'
    assert json.loads((tmp_path / "scale.json").read_text())["name"] == "scale"
