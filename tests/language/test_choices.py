"""Choices by constants, divisions that nobody asks for, long chains, products inside a transaction."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import TileType
from phalanx.language.reader.reading import read_kernel
from phalanx.runtime.launch.specialise import read_arguments


def stored_type(kernel: Any, *args: Any, **constants: Any) -> Any:
    """The type of what the first store writes."""
    types = tuple(argument.type for argument in read_arguments(kernel, args))
    function = read_kernel(kernel, types, kernel.bind_constants(constants)).function
    return next(op.value.type for op in function.walk() if op.mnemonic == "store")  # type: ignore[attr-defined]


@px.kernel(warps=1)
def chosen(X, I, Y, n, *, WHICH=None):
    a, b = px.load(I[0:8]), px.load(X[0:8])
    cond = n > 0 if WHICH is None else WHICH
    y = px.where(cond, a, b) / 2
    px.store(Y[0:8], y)


@pytest.mark.parametrize("which", [True, False])
def test_where_promotes_alike_for_constants_and_at_run_time(which: bool) -> None:
    x, i = np.linspace(0, 1, 8, dtype=np.float32), np.arange(8, dtype=np.int32)
    results = [np.zeros(8, np.float32) for _ in range(2)]
    chosen[1](x, i, results[0], int(which))
    chosen[1](x, i, results[1], 0, WHICH=which)
    np.testing.assert_array_equal(*results)

    @px.kernel(warps=1)
    def mixed(I, Y):
        px.store(Y[0:8], px.where(True, px.load(I[0:8]), 0.5))  # f32 for any condition: no narrowing to i32 memory

    assert stored_type(mixed, i, results[0]) == TileType((8,), px.f32)


def test_where_by_a_constant_broadcasts() -> None:
    @px.kernel(warps=1)
    def wide(X, Y):
        px.store(Y[0:2, 0:8], px.where(True, px.load(X[0:8]), px.zeros((2, 1))))
        px.store(Y[2:3, 0:8], px.where(False, px.load(X[0:8]), 7.0).reshape(1, 8))

    x, y = np.arange(8, dtype=np.float32), np.zeros((3, 8), np.float32)
    wide[1](x, y)
    np.testing.assert_array_equal(y, np.stack([x, x, np.full(8, 7, np.float32)]))


def test_a_division_on_the_side_that_is_not_taken_does_not_run() -> None:
    @px.kernel(warps=1)
    def guarded(OUT, n):
        px.store(OUT[0], 12 // n if n != 0 else -1)
        if n != 0 and 12 % n == 0:
            px.store(OUT[1], 1)

    for n, want in ((0, [-1, 0]), (4, [3, 1]), (5, [2, 0])):
        out = np.zeros(2, np.int32)
        guarded[1](out, n)
        assert out.tolist() == want
        assert px.check(guarded[1], out, n).ok


def test_divisions_by_zero_are_findings() -> None:
    @px.kernel(warps=1)
    def divides(I, OUT, *, FILL):
        px.store(OUT[0:8], 7 // px.load(I[0:8], fill=FILL))

    i, out = np.arange(1, 6, dtype=np.int32), np.zeros(8, np.int32)  # three lanes are beyond its end
    assert px.check(divides[1], i, out, FILL=1).ok
    (finding,) = px.check(divides[1], i, out, FILL=0).findings
    assert finding.kind == "division-by-zero" and "3 of 8 elements" in finding.message


def test_a_long_sum_is_not_deep(tmp_path: Any) -> None:
    path = tmp_path / "long_sum.py"
    terms = " + ".join(["n"] * 900)
    path.write_text(f"import phalanx as px\n\n\n@px.kernel(warps=1)\ndef total(OUT, n):\n    px.store(OUT[0], {terms})\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    out = np.zeros(1, np.int32)
    names["total"][1](out, 2)
    assert out[0] == 1800


@pytest.mark.parametrize("waits", [True, False])
def test_products_inside_a_transaction_in_a_loop(waits: bool) -> None:
    """The accumulator leaves the block: the wait of the product defines a new version of it."""

    @px.kernel(warps=4)
    def product(A, B, C, *, DOT):
        a, b = px.shared((64, 64), px.bf16), px.shared((64, 64), px.bf16)
        px.store(a, px.load(A[0:64, 0:64]))
        px.store(b, px.load(B[0:64, 0:64]))
        px.fence.async_proxy()
        s = px.shared((2, 64, 64), px.bf16)
        full = px.barrier(2)
        acc = px.zeros((64, 64), px.f32)
        for t in range(2):
            with full[t].transaction():
                px.tma.load(A[0:64, 0:64], s[t], full[t])
                if DOT:
                    acc = px.dot(a, b.T, acc)
                else:
                    px.wgmma(a, b.T, acc)
                    px.wgmma_commit()
                    px.wgmma_wait(0)
            full[t].wait(0)
        px.store(C[0:64, 0:64], acc)

    rng = np.random.default_rng(0)
    x, y = (rng.integers(-2, 3, (64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    product[1](x, y, c, DOT=waits)
    np.testing.assert_array_equal(c, 2 * (x.astype(np.float32) @ y.astype(np.float32).T))
    assert px.check(product[1], x, y, c, DOT=waits).ok
