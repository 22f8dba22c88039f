"""`px.ptx` as CUDA text: constraints, packed registers, results on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import DType
from sim.test_ptx import BF16, bytes_in_registers, exponentials, pairs, sums
from support import host_cuda
from support.cuda_text import module_of
from support.front import array
from support.host_cuda import HostFailure, run_on_host

on_host = pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)


@px.kernel(warps=1)
def moved(X, Y, *, TEXT, PACK=1):
    px.store(Y[0:64], px.ptx(TEXT, (px.load(X[0:64]),), Y.dtype, pack=PACK))


CONSTRAINTS = [
    (px.f32, "f", "mov.f32"), (px.f64, "d", "mov.f64"), (px.i32, "r", "mov.s32"), (px.u32, "r", "mov.u32"),
    (px.i64, "l", "mov.s64"), (px.u64, "l", "mov.u64"), (px.i16, "h", "mov.s16"), (px.bf16, "h", "mov.b16"),
    (px.f16, "h", "mov.b16"), (px.u8, "r", "mov.b32"), (px.i8, "r", "mov.b32"), (px.f8e4m3, "r", "mov.b32"),
    (px.bool, "r", "mov.b32"),
]  # fmt: skip


@pytest.mark.parametrize("dtype, constraint, text", CONSTRAINTS, ids=lambda item: getattr(item, "name", item))
def test_constraints(dtype: DType, constraint: str, text: str) -> None:
    source = module_of(moved, (array(1, dtype), array(1, dtype)), TEXT=f"{text} $0, $1;").source
    assert f'asm("{text} %0, %1;" : "={constraint}"(r0) : "{constraint}"(' in source
    assert "asm volatile" not in source.split("inline_", 1)[1].split("}")[0]


@pytest.mark.long
@pytest.mark.parametrize("dtype, constraint, text", CONSTRAINTS, ids=lambda item: getattr(item, "name", item))
def test_the_assembler_takes_them(dtype: DType, constraint: str, text: str) -> None:
    px.compile(moved[1], px.spec((64,), dtype), px.spec((64,), dtype), TEXT=f"{text} $0, $1;")


@pytest.mark.parametrize(
    "dtype, constraint, text", [(px.f16, "r", "mov.b32"), (px.i32, "l", "mov.b64"), (px.f32, "l", "mov.b64")]
)
def test_two_elements_in_a_register(dtype: DType, constraint: str, text: str) -> None:
    source = module_of(moved, (array(1, dtype), array(1, dtype)), TEXT=f"{text} $0, $1;", PACK=2).source
    assert f'"={constraint}"(r0) : "{constraint}"(' in source
    px.compile(moved[1], px.spec((64,), dtype), px.spec((64,), dtype), TEXT=f"{text} $0, $1;", PACK=2)


def test_what_the_assembler_refuses_is_an_error_at_its_line() -> None:
    @px.kernel(warps=1)
    def bad(X):
        x = px.ptx("ex2.approx.f32 $0, $1;", (px.load(X[0:32]),), px.f32)
        px.store(X[0:32], px.ptx("ex3.approx.f32 $0, $1;", (x,), px.f32))

    with pytest.raises(px.Error, match=r"the assembler does not take the PTX of px\.ptx: 'ex3") as error:
        px.compile(bad[1], px.spec((32,), px.f32))
    assert "ex3" in error.value.location.text and "Not a name of any known instruction: 'ex3'" in error.value.details


@on_host
def test_results_on_the_cpu() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 48)).astype(np.float32)
    y = np.zeros_like(x)
    run_on_host(exponentials, 1, x, y)
    assert np.allclose(y, np.exp2(x), rtol=1e-6)
    numbers, found, want = rng.integers(-99, 99, (16, 8)).astype(np.int32), *(np.zeros((3, 16, 8), np.int32) for _ in "ab")
    run_on_host(sums, 1, numbers, found, 9)
    sums[1](numbers, want, 9)
    assert np.array_equal(found, want)
    x, y, p = np.arange(32).astype(np.uint8), np.zeros(32, np.uint8), np.arange(32) % 3 == 0
    run_on_host(bytes_in_registers, 1, x, y, p)
    assert np.array_equal(y, 255 - x) and np.array_equal(p, np.arange(32) % 3 != 0)


@on_host
@pytest.mark.parametrize("n", [96, *(pytest.param(n, marks=pytest.mark.long) for n in (24, 32, 64))])
def test_packed_results_on_the_cpu(n: int) -> None:
    """Of 24 and 32 elements a thread has one, of 96 three: the last is computed twice, and kept once."""
    x, y = (np.arange(n) % 13).astype(BF16), np.zeros(n + 1, BF16)
    run_on_host(pairs, 1, x, y, 2.0, N=n)
    want: Any = (np.arange(n) % 13) ** 2 + 2.0
    assert np.array_equal(y[:n], want.astype(BF16)) and y[n] == 6


@on_host
def test_what_the_host_does_not_know_is_refused_by_name() -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(HostFailure, match=r"no host version of .*lg2\.approx\.f32"):
        run_on_host(moved, 1, x, x.copy(), TEXT="lg2.approx.f32 $0, $1;")


@pytest.mark.parametrize(
    "text",
    [
        "ex2.approx.ftz.f32 $0, $1; // base 2", "/* base 2 */ ex2.approx.ftz.f32 $0, $1;\n",
        "{ .reg .b16 low, high; .reg .pred p; mov.b32 {low, high}, $1; setp.gt.f32 p, $1, 0f00000000;\n"
        "  mov.b32 $0, {low, high};\n"
        "  @p ex2.approx.ftz.f32 $0, $1; { .reg .f32 t; mov.f32 t, $0; @!p mov.f32 $0, t; } }",
    ],
)
def test_comments_scopes_and_vectors(text: str) -> None:
    @px.kernel(warps=1)
    def said(X, *, TEXT):
        px.store(X[0:64], px.ptx(TEXT, (px.load(X[0:64]),), px.f32, sim=np.exp2))

    assert "ex2.approx.ftz.f32" in px.compile(said[1], px.spec((64,), px.f32), TEXT=text, arch="sm_90a").ptx
