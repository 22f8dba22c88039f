"""JAX: arrays as arguments of kernels, and exported functions within jax.jit, against the stub driver on a CPU."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from export.outside import parameter_bytes, ran_outside
from export.replay import exported
from export.stub import COMPILER, MISSING
from export.test_export import scale
from export.test_functions import SMALL
from phalanx.errors import Error
from phalanx.runtime.exporting.interfaces import write_interfaces

jax = pytest.importorskip("jax", reason="no jax: pip install jax")
jnp = jax.numpy
needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)


@pytest.fixture(autouse=True)
def on_cpu() -> Any:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def test_arrays_are_arguments() -> None:
    x = jnp.arange(64 * 64, dtype=jnp.float32).reshape(64, 64)
    y = np.zeros((64, 64), np.float32)
    scale[1, 1](x, y, 2.0)
    assert np.array_equal(y, np.asarray(x) * 2)
    z = jnp.empty((64, 64), jnp.float32)
    scale[1, 1](x, z, 3.0)
    assert np.array_equal(np.asarray(z), np.asarray(x) * 3)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_types_that_numpy_lacks(name: str) -> None:
    x = jnp.arange(64 * 64).reshape(64, 64).astype(name)
    y = np.zeros((64, 64), np.float32)
    scale[1, 1](x, y, 1.0)
    assert np.array_equal(y, np.asarray(x).astype(np.float32))


def test_what_is_refused() -> None:
    x = jnp.ones((64, 64), jnp.float32)
    with pytest.raises(Error, match="a result can't be made as a ArrayImpl"):
        px.kernels.softmax(x)
    bf16 = jnp.ones((64, 64), jnp.bfloat16)
    with pytest.raises(Error, match="out is a JAX array"):
        px.kernels.matmul(bf16, bf16, out=bf16)
    with pytest.raises(Error, match=r"can't be launched within jax.jit|can't be a run-time argument"):
        jax.jit(lambda each: scale[1, 1](each, each, 2.0))(x)


def launched(folder: Path, made: Any, text: str, programs: Any) -> list[dict[str, Any]]:
    """The launches of a program that imports the exported module and runs it on a CPU, where XLA has no streams."""
    write_interfaces(folder, made, ("jax",), ["-DPX_WITHOUT_STREAM"])
    start = f"import json\nimport jax\nimport jax.numpy as jnp\nimport {made.name}_jax as exported\n"
    start += "exported.register('cpu')\n"
    calls = ran_outside(folder, start + text, parameter_bytes(programs))
    return [call for call in calls if call["call"] in ("launch", "error")]


@needs_compiler
def test_a_function_in_jit(tmp_path: Path) -> None:
    a, b = px.spec(("m", 64), px.bf16), px.spec((64, "n"), px.bf16)
    made = exported(tmp_path, px.kernels.matmul, a, b, sizes={"m": 256, "n": 256}, config=SMALL)
    calls = launched(
        tmp_path, made, """
@jax.jit
def product(a, b):
    return exported.matmul(a * 2, b) + 1

found = product(jnp.ones((100, 64), jnp.bfloat16), jnp.ones((64, 72), jnp.bfloat16)).block_until_ready()
assert found.shape == (100, 72) and found.dtype == jnp.bfloat16, found
try:
    jax.jit(exported.matmul)(jnp.ones((100, 64), jnp.bfloat16), jnp.ones((64, 73), jnp.bfloat16)).block_until_ready()
except Exception as error:
    print(json.dumps({"call": "error", "text": str(error)}), flush=True)
try:
    jax.jit(exported.matmul)(jnp.ones((100, 64), jnp.float32), jnp.ones((64, 72), jnp.bfloat16)).block_until_ready()
except Exception as error:
    print(json.dumps({"call": "error", "text": str(error)}), flush=True)
""",
        [program for each in made.programs for program in each],
    )  # fmt: skip
    launch, strides, dtype = calls
    assert launch["grid"] == [4, 1, 1]
    slots = made.programs[launch["program"]][0].signature.slots
    shapes = [struct.unpack(slot.format, bytes.fromhex(text))[1:] for slot, text in zip(slots, launch["parameters"])]
    assert shapes == [(64, 1, 100, 64), (72, 1, 64, 72), (72, 1, 100, 72)]
    assert "the strides of an array are not as exported" in strides["text"]
    assert "matmul: a is no bf16 (m, 64)" in dtype["text"]


@needs_compiler
def test_a_function_that_writes_to_nothing_else(tmp_path: Path) -> None:
    x, w = px.spec(("rows", 256), px.bf16), px.spec((256,), px.bf16)
    made = exported(tmp_path, px.kernels.rms_norm, x, w, 1e-6, sizes={"rows": 64})
    calls = launched(
        tmp_path, made, """
x, w = jnp.ones((37, 256), jnp.bfloat16), jnp.ones((256,), jnp.bfloat16)
jax.jit(lambda x, w: exported.rms_norm(x, w, eps=0.25))(x, w).block_until_ready()
""",
        [program for each in made.programs for program in each],
    )  # fmt: skip
    (launch,) = calls
    assert struct.pack("<f", 0.25).hex() in launch["parameters"]
