"""The text of functions of tiles beyond arithmetic: what compiles, and what it takes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import FROM_NUMPY
from support.case_table import CASES, family
from support.tile_cases import aligned  # noqa: F401  fills the table

FAMILIES = ("argmin", "truth", "fma", "skipped", "round", "isnan", "bitcast", "axes", "affine", "fold", "scan", "topk")


def first_of(name: str) -> str:
    return next(case for case in CASES if family(case) == name)


def compiled(name: str) -> px.Compiled:
    """A case of the table for a Hopper GPU, from the shapes of its arguments."""
    case = CASES[name]
    args = [
        px.spec(a.shape, FROM_NUMPY[a.dtype]) if isinstance(a, np.ndarray) else a
        for a in case.args(np.random.default_rng(0))
    ]
    return px.compile(case.kernel[case.grid], *args, arch="sm_90a", **case.constants)


@pytest.mark.share(14)
@pytest.mark.parametrize("name", [*map(first_of, FAMILIES), "fma-float16", "fma-bfloat16", "affine-24x40-axis0-w6"])
def test_compiles(name: str) -> None:
    assert compiled(name).ptx


@pytest.mark.share(2)
@pytest.mark.parametrize(("kind", "instruction"), [
    ("float32", "fma.rn.f32"), ("float64", "fma.rn.f64"), ("float16", "fma.rn.f16"), ("bfloat16", "fma.rn.bf16"),
])
def test_fused_products_are_one_instruction(kind: str, instruction: str) -> None:
    assert instruction in compiled(f"fma-{kind}").ptx


def test_ones_are_skipped_by_the_vote_of_a_warp() -> None:
    """One for each of the four products that may be left out."""
    assert compiled("skipped-64x64-float32").ptx.count("vote.sync.any.pred") == 4


def test_rounding_is_one_instruction() -> None:
    ptx = compiled("round-float32").ptx
    assert "cvt.rni.f32.f32" in ptx and "cvt.rzi.f32.f32" in ptx


def exchanges(kernel, *specs, **constants) -> tuple[int, int]:
    """Shuffles and barriers of the threads, without the shuffle that finds the warp's number."""
    ptx = px.compile(kernel[1], *specs, arch="sm_90a", **constants).ptx
    return len(re.findall(r"\bshfl\.sync", ptx)) - 1, len(re.findall(r"\bbar(?:rier)?\.sync", ptx))


@px.kernel(warps=lambda W: W)
def running_sums(X, Y, *, N, W):
    px.store(Y[0:N], px.cumsum(px.load(X[0:N]), 0))


@pytest.mark.share(2)
@pytest.mark.parametrize(("warps", "shuffles"), [(4, 40), (8, 20), (16, 10)])
def test_running_sums_of_4096(warps: int, shuffles: int) -> None:
    """Five shuffles for each vector that a thread loads, and one exchange between the warps."""
    specs = px.spec((4096,), px.f32), px.spec((4096,), px.f32)
    assert exchanges(running_sums, *specs, N=4096, W=warps) == (shuffles, 1)


@px.kernel(warps=4)
def made_in_registers(Y, *, N=4096):
    x = px.cumsum(px.keep(px.arange(N)), 0)
    px.store(Y[0], px.max(x))


def test_running_sums_of_neighbours_in_a_thread() -> None:
    """Where no memory asks for another layout, a thread has neighbours: five shuffles, and none for the maximum."""
    shuffles, barriers = exchanges(made_in_registers, px.spec((1,), px.i32))
    assert (shuffles, barriers) == (5, 1 + 2)


@px.func
def product(a, b):
    return a * b


@px.kernel(warps=4)
def products(X, Y, *, N=1024):
    px.store(Y[0], px.reduce(px.load(X[0:N]), 0, product))


def test_the_listing_shows_the_function() -> None:
    ir = px.compile(products[1], px.spec((1024,), px.f32), px.spec((1,), px.f32), arch="sm_90a").ir
    start = ir.index("reduce_by")
    assert re.search(r"product\(%a: f32, %b: f32\):\n\s+%\w+: f32 = mul %a, %b.*\n\s+gives %\w+\n", ir[start:])


@px.kernel(warps=1)
def rest(X, Y, *, N, FN="mod"):
    x = px.load(X[0:32, 0:N])
    px.store(Y[0:32, 0:N], x % x.permute(0, 1) if FN == "mod" else x // 3 if FN == "floordiv" else px.sin(x))


@pytest.mark.parametrize("dtype", [px.f64, px.f32, px.bf16])
@pytest.mark.parametrize("fn, name", [("mod", "float_mod"), ("floordiv", "float_floor_div"), ("sin", "called_sin")])
def test_long_functions_are_written_once(fn: str, name: str, dtype: Any) -> None:
    """One is some hundred instructions: for each element of a tile, they take the compiler minutes."""
    few, many = (px.compile(rest[1], *[px.spec((32, n), dtype)] * 2, N=n, FN=fn, arch="sm_90a") for n in (16, 64))
    assert "call.uni" in many.ptx and f"__noinline__ {'double' if dtype is px.f64 else 'float'} {name}" in many.source
    assert len(many.ptx) < 5 * len(few.ptx) and many.ptx.count("call.uni") >= 64


@px.kernel(warps=1)
def quotients(X, D, Y, *, N):
    x, d = px.load(X[0:32, 0:N]), px.load(D[0:32, 0:N])
    px.store(Y[0:32, 0:N], x // d + x % d)


@pytest.mark.parametrize("dtype", [px.i64, px.u64])
def test_divisions_of_64_bits_are_written_once(dtype: Any) -> None:
    few, many = (px.compile(quotients[1], *[px.spec((32, n), dtype)] * 3, N=n, arch="sm_90a") for n in (4, 64))
    assert "__noinline__" not in few.source
    assert all(f"__noinline__ T called_floor_{name}" in many.source for name in ("div", "mod"))
    assert len(re.findall(r"\b(?:div|rem)\.", many.ptx)) <= 8 and many.ptx.count("call.uni") >= 128
    rest_of_three = px.compile(rest[1], *[px.spec((32, 64), dtype)] * 2, N=64, FN="floordiv", arch="sm_90a")
    assert "__noinline__" not in rest_of_three.source, "by a constant it is a product"


def test_few_of_them_are_written_out() -> None:
    assert "called_sin" not in px.compile(rest[1], *[px.spec((32, 4), px.f32)] * 2, N=4, FN="sin", arch="sm_90a").source
