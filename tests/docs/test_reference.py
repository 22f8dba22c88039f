"""The examples of the reference: kernels take those of what kernels call, and all others run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.language.reader.reading import read_kernel
from support.reference_examples import BEFORE, Example, examples, kernel_of, types_of

EXAMPLES = list(examples())
BF16 = ml_dtypes.bfloat16


def of_pages(*pages: str) -> list[Any]:
    return [pytest.param(each, id=each.name) for each in EXAMPLES if each.page in pages]


def test_what_is_known_of_examples_is_of_some() -> None:
    names = {each.name for each in EXAMPLES} | {each.page for each in EXAMPLES}
    assert {*BEFORE, *ARRAYS, *OUTSIDE} <= names


@pytest.mark.parametrize("example", of_pages(*BEFORE))
def test_a_kernel_takes_it(example: Example, tmp_path: Path) -> None:
    """What an instruction of it asks for, beside names: as many arguments, of these shapes and types, in this order."""
    file = tmp_path / "kernel.py"
    file.write_text(kernel_of(example))
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert read_kernel(module.example, types_of(example), {}).function.name == "example"


def numbers(*shape: int, dtype: Any = BF16) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32).astype(dtype)


def vector(*values: int, dtype: Any = np.int32) -> np.ndarray:
    return np.array(values, dtype)


def heads() -> dict[str, Any]:
    return {name: numbers(1, 2, 24, 64) for name in ("q", "k", "v", "do")}


ORDER = vector(3, 1, 0, 2, 2, 0, 1, 3, 4, 0, 1, 2)
COUNTS = vector(5, 0, 7)
ROWS = {"x": numbers(5, 64), "residual": numbers(5, 64), "w": numbers(64), "b": numbers(64)}
ARRAYS: dict[str, Any] = {
    # The names in the examples of the library.
    "library": ROWS, "px.kernels.attention": heads(), "px.kernels.attention_backward": heads(),
    "px.kernels.attention_decode": {
        "q": numbers(2, 1, 2, 64), "k_cache": numbers(4, 16, 1, 64), "v_cache": numbers(4, 16, 1, 64),
        "lengths": vector(17, 9), "table": vector(0, 2, 3, 1).reshape(2, 2),
    },
    "px.kernels.cross_entropy": {"logits": numbers(3, 40, dtype=np.float32), "targets": vector(3, 1, 39)},
    "px.kernels.embedding": {"table": numbers(6, 40), "tokens": vector(0, 5, 1, 2).reshape(2, 2)},
    "px.kernels.gather_rows": {"x": numbers(6, 40), "idx": vector(0, 5, 2)},
    "px.kernels.grouped_matmul": {"x_sorted": numbers(1024, 16), "w": numbers(3, 8, 16)},
    "px.kernels.kv_compact": {"cache": numbers(2, 6, 2, 16), "keep": vector(0, 3, 5, 1, 2, 4).reshape(2, 3)},
    "px.kernels.matmul": {"x": numbers(9, 24), "w": numbers(16, 24), "bias": numbers(16)},
    "px.kernels.moe_gather_matmul": {"x": numbers(5, 24), "order": ORDER, "w1": numbers(3, 16, 24), "counts": COUNTS},
    "px.kernels.moe_matmul": {"x_sorted": numbers(12, 24), "w": numbers(3, 16, 24), "counts": COUNTS},
    "px.kernels.moe_matmul_scatter": {
        "h": numbers(12, 24), "w2": numbers(3, 16, 24), "counts": COUNTS, "order": ORDER,
        "gates": numbers(12, dtype=np.float32), "y": numbers(5, 16, dtype=np.float32),
    },
    "px.kernels.pack_scales": {"scales": np.abs(numbers(5, 4)).astype(ml_dtypes.float8_e8m0fnu)},
    "px.kernels.scatter_add_rows": {"grad": numbers(3, 40), "ids": vector(4, 0, 4), "table_grad": numbers(6, 40)},
    "px.kernels.scatter_rows": {"x": numbers(3, 40), "idx": vector(4, 0, 5), "out": numbers(6, 40)},
    "px.kernels.softmax": {"scores": numbers(3, 40), "keep": np.arange(120).reshape(3, 40) % 3 > 0},
    "px.kernels.sparse_attention": {
        "q": numbers(1, 4, 2, 64), "k": numbers(1, 40, 1, 64), "v": numbers(1, 40, 1, 64),
        "indices": np.tile(vector(3, 5, 39, -1), (1, 4, 1, 1)),
    },
    "px.kernels.split_k_matmul": {"x": numbers(9, 24), "weight": numbers(16, 24), "bias": numbers(16)},
}  # fmt: skip


@pytest.mark.share(5)
@pytest.mark.parametrize("example", of_pages("library"))
def test_it_runs_in_the_simulator(example: Example) -> None:
    functions = {name: getattr(px.kernels, name) for name in px.kernels.__all__}
    names = {"px": px, **functions, **ARRAYS.get(example.name, ARRAYS["library"])}
    before = dict(names)
    exec(example.code, names)
    made = [x for name, x in names.items() if isinstance(x, np.ndarray) and x is not before.get(name)]
    assert all(x.size for x in made)


COPY = """
import numpy as np
import phalanx as px


@px.kernel(warps=1)
def copy(X, Y, *, BM=64, STAGES=2):
    m = px.block_id(0) * BM
    px.store(Y[m : m + BM, 0:8], px.load(X[m : m + BM, 0:8]))


@px.kernel(warps=2)
def ring(X, Y, *, STAGES=2):
    m = px.block_id(0) * 8
    px.store(Y[m : m + 8, 0:8], px.load(X[m : m + 8, 0:8]))


@px.kernel(warps=4)
def scale(X, alpha, *, BM=64):
    m = px.block_id(0) * BM
    px.store(X[m : m + BM, 0:64], px.load(X[m : m + BM, 0:64]) * alpha)


@px.kernel(warps=1)
def dequantize(X, Y):
    px.store(Y[0:8, 0:32], px.load(X[0:8, 0:32]).to(px.f32))


def clock(run, config):
    run()
    return 1.0 / config["BM"]


kernel = copy
x, y = np.ones((4096, 8), np.float32), np.zeros((4096, 8), np.float32)
"""
OUTSIDE: dict[str, str] = {
    # What stands before an example, beside some kernels and arrays.
    "px.packed": "codes, out = np.zeros((8, 16), np.uint8), np.zeros((8, 32), np.float32)\n",
    "px.explore": "x, y = x[:16], y[:16]\n",
    "px.tune": "import functools\npx.tune = functools.partial(px.tune, measure=clock, isolate=False)\n",
    "px.bench": "from types import SimpleNamespace\n"
    "px.bench = lambda f, *x, nbytes, against: SimpleNamespace(ms=1.0, gbs=nbytes, ratios=against)\n",
    "px.device": "class px:\n    device = lambda: px\n    sms = 64\n\n\nkernel = {64: print}\n",
}  # fmt: skip


@pytest.mark.parametrize("example", of_pages("outside"))
def test_it_runs_outside_of_kernels(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock of ours where a GPU would be one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(px, "tune", px.tune)
    monkeypatch.setattr(px, "bench", px.bench)
    file = tmp_path / "example.py"
    file.write_text(COPY + OUTSIDE.get(example.name, "") + example.code)
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": "__main__"})
