"""`px.ptx`: what the simulator computes for it, what is compiled, and who may send it where."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px

BF16 = ml_dtypes.bfloat16


def both(a: Any, b: Any) -> tuple[Any, Any]:
    return a + b, a - b


def fused(a: Any, b: Any, c: Any) -> Any:
    return np.float32(a) * np.float32(b) + np.float32(c)


def low_byte(x: Any) -> Any:
    return x ^ np.uint8(255)


@px.kernel(warps=2)
def exponentials(X, Y):
    x = px.load(X[0:64, 0:48])
    px.store(Y[0:64, 0:48], px.ptx("ex2.approx.ftz.f32 $0, $1;", (x,), px.f32, sim=np.exp2))


@px.kernel(warps=1)
def sums(X, Y, n):
    """Two results, an operand that broadcasts, a number and a scalar; registers of one's own."""
    text = "{ .reg .s32 t; add.s32 t, $2, $3; mov.s32 $0, t; sub.s32 $1, $2, $3; }"
    a, b = px.ptx(text, (px.load(X[0:16, 0:8]), px.load(X[0:1, 0:8])), (px.i32, px.i32), sim=both)
    px.store(Y[0, 0:16, 0:8], a)
    px.store(Y[1, 0:16, 0:8], b)
    large = px.ptx("max.s32 $0, $1, $2;", (n, 7), px.i32, sim=np.maximum)
    px.store(Y[2, 0, 0], large)
    px.store(Y[2, 1, 0], px.ptx("mov.s32 $0, 5;", (), px.i32, sim=five))


def five() -> int:
    return 5


@px.kernel(warps=1)
def pairs(X, Y, c, *, N=24):
    """Two elements in a register: also where a thread holds an odd number of them, and for a scalar."""
    x = px.load(X[0:N])
    shift = c.to(px.bf16)
    px.store(Y[0:N], px.ptx("fma.rn.bf16x2 $0, $1, $2, $3;", (x, x, shift), px.bf16, sim=fused, pack=2))
    px.store(Y[N], px.ptx("fma.rn.bf16x2 $0, $1, $2, $3;", (shift, shift, shift), px.bf16, sim=fused, pack=2))


@px.kernel(warps=1)
def bytes_in_registers(X, Y, P):
    x = px.load(X[0:32])
    px.store(Y[0:32], px.ptx("xor.b32 $0, $1, 255;", (x,), px.u8, sim=low_byte))
    flipped = px.ptx("xor.b32 $0, $1, 1;", (px.load(P[0:32]),), px.bool, sim=np.logical_not)
    px.store(P[0:32], flipped)


def test_tiles() -> None:
    x = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
    y = np.zeros_like(x)
    exponentials[1](x, y)
    assert np.array_equal(y, np.exp2(x)) and px.check(exponentials[1], x, y).ok


def test_several_results_and_scalars() -> None:
    x, y = np.arange(128, dtype=np.int32).reshape(16, 8), np.zeros((3, 16, 8), np.int32)
    sums[1](x, y, 3)
    assert np.array_equal(y[0], x + x[:1]) and np.array_equal(y[1], x - x[:1]) and y[2, :2, 0].tolist() == [7, 5]


def test_packed_elements_are_what_they_are_apart() -> None:
    x, y = np.arange(24).astype(BF16), np.zeros(25, BF16)
    pairs[1](x, y, 2.0)
    assert np.array_equal(y[:24], (np.arange(24.0) ** 2 + 2).astype(BF16)) and y[24] == 6


def test_elements_of_a_byte() -> None:
    x, y, p = np.arange(32).astype(np.uint8), np.zeros(32, np.uint8), np.arange(32) % 3 == 0
    bytes_in_registers[1](x, y, p)
    assert np.array_equal(y, 255 - x) and np.array_equal(p, np.arange(32) % 3 != 0)


def test_the_text_is_compiled_and_the_function_is_not() -> None:
    """Kernels that differ in sim= alone are one to the compiler."""

    def other(x: Any) -> Any:
        return x

    def listing(function: Any) -> str:
        @px.kernel(warps=1)
        def kernel(X):
            px.store(X[0:32], px.ptx("ex2.approx.ftz.f32 $0, $1;", (px.load(X[0:32]),), px.f32, sim=function))

        made = px.compile(kernel[1], px.spec((32,), px.f32))
        assert made.ptx.count("ex2.approx.ftz.f32") == 1
        return made.ir

    assert listing(other) == listing(np.exp2)
    assert 'ptx text="ex2.approx.ftz.f32 $0, $1;"' in listing(other)


def test_another_function_is_another_kernel_to_the_simulator() -> None:
    global _changing
    out = np.zeros(4, np.float32)
    changing[1](out)
    assert out.tolist() == [2.0] * 4

    def four(x: Any) -> Any:
        return x + 4

    before, _changing = _changing, four
    try:
        changing[1](out)
        assert out.tolist() == [6.0] * 4
    finally:
        _changing = before


def _changing(x: Any) -> Any:
    return x + 2


@px.kernel(warps=1)
def changing(X):
    px.store(X[0:4], px.ptx("add.f32 $0, $1, 0f40000000;", (px.load(X[0:4]),), px.f32, sim=_changing))


def test_a_function_that_can_not_travel_stays_at_home() -> None:
    def here(x: Any) -> Any:
        return x

    @px.kernel(warps=1)
    def local(X):
        px.store(X[0:4], px.ptx("mov.f32 $0, $1;", (px.load(X[0:4]),), px.f32, sim=here))

    x = np.zeros(4, np.float32)
    assert px.check(local[1], x, schedules=8).ok and px.explore(local[1], x).ok
    with ThreadPoolExecutor(1) as pool, pytest.raises(px.Error, match="can't be sent to another process"):
        px.check(local[1], x, schedules=3, executor=pool)
