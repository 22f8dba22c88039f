"""An element of memory stands for its value wherever a number or a scalar is asked for."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx import language

I = np.array([2, 1, 3, 4], np.int32)
X = np.arange(16, dtype=np.float32).reshape(4, 4)


@px.kernel(warps=1)
def counts(X, I, Y):
    b = px.barrier(count=2)
    b.arrive(I[0])
    b.wait(I[1] - 1)
    own = px.barrier(init=False)
    own.init(I[1])
    px.fence.barrier_init()
    px.sync()
    own.arrive()
    own.wait(0)
    px.store(Y[0, 0], 1.0)


@px.kernel(warps=1)
def byte_counts(X, I, Y):
    s = px.shared((4,), px.f32)
    b = px.barrier(2, count=1)
    b[0].expect_tx(I[3] * 4)
    px.tma.load(X[0, 0:4], s, b[0])
    b[0].arrive()
    b[0].wait(0)
    px.store(Y[0, 0:4], px.load(s))
    b[I[1]].arrive_and_expect_tx(I[3] - 4)
    b[1].wait(0)


@px.kernel(warps=1)
def places(X, I, Y):
    px.store(Y[0:1, 0:4], px.load(X[I[0] : I[0] + 1, 0:4]))
    px.store(Y[1:2, 0:4], px.load(X.tile((I[1], 0), (1, 4))))
    px.store(Y[I[0], I[1]], X[I[1], I[0]])
    i = px.shared((4,), px.i32)
    px.store(i, px.load(I[0:4]))
    px.sync()
    px.store(Y[3:4, 0:2], px.load(X[i[1] : i[1] + i[0] - i[0] + 1, i[1] : i[1] + 2]))


@px.kernel(warps=1)
def values(X, I, Y):
    px.store(Y[0, 0], X[1, 2].to(px.i32).to(px.f32))
    px.store(Y[0, 1:3], px.full((2,), X[3, 3]))
    px.store(Y[1:2, 0:1], px.load(X[9:10, 0:1], fill=X[0, 1]))
    if (I[0], 1) == (2, I[1]):
        px.store(Y[2, 0], 9.0)
    for k in range(I[0]):
        px.store(Y[3, k], px.cdiv(I[3], I[0]).to(px.f32))


EXPECTED = {
    "counts": {(0, 0): 1},
    "byte_counts": {(0, c): c for c in range(4)},
    "places": {**{(0, c): 8 + c for c in range(4)}, **{(1, c): 4 + c for c in range(4)}, (2, 1): 6, (3, 0): 5, (3, 1): 6},
    "values": {(0, 0): 6, (0, 1): 15, (0, 2): 15, (1, 0): 1, (2, 0): 9, (3, 0): 2, (3, 1): 2},
}


@pytest.mark.parametrize("kernel", [counts, byte_counts, places, values], ids=lambda k: k.name)
def test_elements_are_read_where_integers_are_asked_for(kernel: Any) -> None:
    y = np.zeros_like(X)
    kernel[1](X, I, y)
    want = np.zeros_like(X)
    for place, number in EXPECTED[kernel.name].items():
        want[place] = number
    np.testing.assert_array_equal(y, want)
    assert px.check(kernel[1], X, I, np.zeros_like(X)).ok


def test_an_element_is_read_once_in_a_slice_and_again_after_a_write() -> None:
    @px.func
    def bump(I):
        px.store(I[0], 3)
        return 1

    @px.kernel(warps=1)
    def changed(X, I, Y):
        px.store(Y[0:1, 0:4], px.load(X[I[0] : I[0] + bump(I), 0:4]))  # the same element, read before the store
        px.store(Y[1:2, 0:4], px.load(X[I[0] : I[0] + 1, 0:4]))

    i, y = I.copy(), np.zeros_like(X)
    changed[1](X, i, y)
    np.testing.assert_array_equal(y[:2], X[[2, 3]])

    @px.kernel(warps=1)
    def between(X, I, Y):
        px.store(Y[0:1, 0:4], px.load(X[I[0] : bump(I) + I[0], 0:4]))

    with pytest.raises(px.Error, match="stop minus start does not simplify"):
        between[1](X, I.copy(), y)


def test_what_a_requirement_gives_back_is_used() -> None:
    """`require_*` gives a value back, read and checked: a call whose result is dropped loses it. `check_*` gives none."""
    files = {file: ast.parse(file.read_text()) for file in sorted(Path(language.__path__[0]).rglob("*.py"))}
    silent = [
        f"{file.name}:{node.lineno}"
        for file, tree in files.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("require_")
        if node.returns is None or (isinstance(node.returns, ast.Constant) and node.returns.value is None)
    ]
    dropped = [
        f"{file.name}:{node.lineno}"
        for file, tree in files.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        if node.value.func.id.lstrip("_").startswith("require_")
    ]
    assert dropped == [] and silent == []
