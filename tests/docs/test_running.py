"""The page on arguments, launches and targets: its code runs, and its tables are true."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.launch.dispatch import BoundLaunch
from support.doc_pages import Page


@pytest.fixture(scope="module")
def names(page: Page, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return page.names(tmp_path_factory.mktemp("page"))


def test_none_leaves_an_array_out(names: dict[str, Any]) -> None:
    assert (names["with_bias"] == 2 + names["bias"]).all() and (names["y"] == 2).all()
    assert px.check(names["scale_rows"][4], names["x"], None, names["y"], 2.0).ok


def test_a_range_is_a_value(names: dict[str, Any]) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(2, np.float32)
    names["sums"][1](x, y, 64)
    assert y.tolist() == [x.sum(), x[:16].sum() + x[32:48].sum()]


def test_the_fields_of_a_compiled_kernel_are_listed(page: Page) -> None:
    table = page.text[page.text.index("| field |") : page.text.index("The disk cache")]
    listed = set(re.findall(r"`\.(\w+)`", table))
    hidden = {"signature", "sites", "addresses_cluster"}
    assert listed == {field.name for field in fields(Compiled)} - hidden


@px.kernel(warps=1)
def apply(X, Y, *, WHAT):
    x = px.load(X[0:32])
    if WHAT == "exp2":
        x = px.exp2(x)
    elif WHAT == "exp":
        x = px.exp(x)
    elif WHAT == "log2":
        x = px.log2(x)
    elif WHAT == "rsqrt":
        x = px.rsqrt(x)
    px.store(Y[0:32], x)


def test_costs() -> None:
    vector = px.spec((32,), px.f32)
    lines = {
        what: len(re.findall(r"^\t[a-z@]", px.compile(apply[1], vector, vector, WHAT=what).ptx, re.MULTILINE))
        for what in ("nothing", "exp2", "rsqrt", "exp", "log2")
    }
    costs = {what: count - lines["nothing"] for what, count in lines.items()}
    assert costs["exp2"] == costs["rsqrt"] == 1
    assert 10 <= costs["exp"] <= 20 and 25 <= costs["log2"] <= 45


@px.kernel(warps=4)
def product(A, B, C):
    a, b, bar = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(A[0:64, 0:64], a, bar)
        px.tma.load(B[0:64, 0:64], b, bar)
    bar.wait(0)
    px.store(C[0:64, 0:64], px.dot(a, b.T, px.zeros((64, 64), px.f32)))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_products_by_target(arch: str) -> None:
    operand, result = px.spec((64, 64), px.bf16), px.spec((64, 64), px.f32)
    made = px.compile(product[1], operand, operand, result, arch=arch)
    products = {"sm_90a": "wgmma.mma_async", "sm_100a": "tcgen05.mma", "sm_120a": "mma.sync"}
    assert [name for name, product in products.items() if product in made.ptx] == [arch]


def array(*shape: int, dtype: Any = ml_dtypes.bfloat16) -> np.ndarray:
    return np.zeros(shape, dtype)


INDICES = np.zeros(64, np.int32)
HEADS = array(1, 2, 2, 64)
LSE = np.zeros((1, 2, 2), np.float32)
ROWS: dict[str, Any] = {
    "softmax": lambda: px.kernels.softmax(array(64, 1000)),
    "log_softmax": lambda: px.kernels.log_softmax(array(64, 1000)),
    "rms_norm": lambda: px.kernels.rms_norm(array(64, 1000), array(1000)),
    "add_rms_norm": lambda: px.kernels.add_rms_norm(array(64, 1000), array(64, 1000), array(1000)),
    "layer_norm": lambda: px.kernels.layer_norm(array(64, 1000), array(1000), array(1000)),
    "cross_entropy": lambda: px.kernels.cross_entropy(array(64, 1000), INDICES),
    "gather_rows": lambda: px.kernels.gather_rows(array(64, 64), INDICES),
    "scatter_rows": lambda: px.kernels.scatter_rows(array(64, 64), INDICES, array(64, 64)),
    "scatter_add_rows": lambda: px.kernels.scatter_add_rows(array(64, 64), INDICES, array(64, 64)),
    "embedding": lambda: px.kernels.embedding(array(64, 64), INDICES),
    "pack_scales": lambda: px.kernels.pack_scales(array(128, 64, dtype=ml_dtypes.float8_e8m0fnu)),
    "quantize": lambda: px.kernels.quantize(array(128, 64), "nvfp4"),
    "kv_compact": lambda: px.kernels.kv_compact(array(2, 8, 64), INDICES[:4]),
}
PRODUCTS: dict[str, Any] = {
    "matmul": lambda: px.kernels.matmul(array(512, 512), array(512, 512)),
    "split_k_matmul": lambda: px.kernels.split_k_matmul(array(8, 512), array(512, 512)),
    "grouped_matmul": lambda: px.kernels.grouped_matmul(array(64, 64), array(1, 64, 64), [64]),
    "moe_matmul": lambda: px.kernels.moe_matmul(array(64, 64), array(1, 64, 64), [64]),
    "moe_gather_matmul": lambda: px.kernels.moe_gather_matmul(array(64, 64), INDICES, array(1, 64, 64), [64]),
    "moe_matmul_scatter": lambda: px.kernels.moe_matmul_scatter(
        array(64, 64), array(1, 64, 64), [64], INDICES, array(64, dtype=np.float32), array(64, 64)
    ),
    "attention": lambda: px.kernels.attention(HEADS, HEADS, HEADS),
    "attention_backward": lambda: px.kernels.attention_backward(HEADS, HEADS, HEADS, HEADS, HEADS, LSE),
    "attention_decode": lambda: px.kernels.attention_decode(HEADS[:, :1], HEADS, HEADS, INDICES[:1]),
    "sparse_attention": lambda: px.kernels.sparse_attention(HEADS, HEADS, HEADS, INDICES[:4].reshape(1, 2, 1, 2)),
}


@pytest.fixture
def compile_only(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Launches become compilations for a target, which the test names as `target["arch"]`."""
    target: dict[str, str] = {}

    def compiled(self: BoundLaunch, *args: Any, **constants: Any) -> None:
        px.compile(self, *args, arch=target["arch"], **constants)

    monkeypatch.setattr(BoundLaunch, "__call__", compiled)
    return target


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ["sm_100a", pytest.param("sm_120a", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ROWS)
def test_rows_compile_for_blackwell(compile_only: dict[str, str], name: str, arch: str) -> None:
    compile_only["arch"] = arch
    ROWS[name]()


@pytest.mark.share(7)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_the_library_are_hoppers(compile_only: dict[str, str], name: str) -> None:
    compile_only["arch"] = "sm_100a"
    with pytest.raises(px.Error, match="sm_100a has no wgmma"):
        PRODUCTS[name]()


def test_the_table_speaks_of_the_whole_library() -> None:
    assert {*ROWS, *PRODUCTS} == set(px.kernels.__all__)
