"""Text at the edges: integers divided by zero, arrays of 2^31 - 1 bytes, rows that end behind a tile, starts anywhere."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import phalanx as px
from support.host_build import RUNNER
from support.host_cuda import COMPILER, module_for, run_on_host

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this machine")


@px.kernel(warps=1)
def divisions(X, Y, Q, R, *, N=32):
    x = px.load(X[0:N])
    y = px.load(Y[0:N])
    px.store(Q[0:N], x // y)
    px.store(R[0:N], x % y)
    px.store(Q[N], px.load(X[1]) // px.load(Y[1]))
    px.store(R[N], px.load(X[1]) % px.load(Y[1]))


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.int64])
def test_an_integer_divided_by_zero_is_zero(dtype: type) -> None:
    """C++ leaves it open: a compiler may drop whatever depends on it."""
    x, y = np.arange(32).astype(dtype), (np.arange(32) % 3 - 1 if dtype != np.uint32 else np.arange(32) % 3).astype(dtype)
    quotients, remainders = np.full(33, 99, dtype), np.full(33, 99, dtype)
    run_on_host(divisions, 1, x, y, quotients, remainders)
    with np.errstate(all="ignore"):
        assert (quotients[:32] == x // y).all() and (remainders[:32] == x % y).all()
    assert (quotients[:32][y == 0] == 0).all() and (remainders[:32][y == 0] == 0).all()
    assert quotients[32] == (0 if y[1] == 0 else x[1] // y[1]) and remainders[32] == (0 if y[1] == 0 else x[1] % y[1])


@px.kernel(warps=1)
def last_tile(X, Y, b, *, N=64):
    o = b * N
    px.store(Y[0:N], px.load(X[o : o + N], fill=7))
    px.store(X[o : o + N], px.load(Y[N : 2 * N]))
    px.store(Y[0:1], px.load(X[o + N + 5 : o + N + 6], fill=9))


@pytest.mark.skipif(bool(RUNNER), reason="arrays of a program of its own go through a file")
def test_an_axis_that_ends_with_the_indices() -> None:
    """The sum of the last tile's start and its extent is no index any more."""
    length = 2**31 - 1
    whole = np.zeros(length + 65, np.uint8)  # nothing is written to most of it, so it takes no memory
    start = -whole.ctypes.data % 16
    array = whole[start : start + length]
    behind = whole[start + length :]
    array[-63:], behind[:] = np.arange(63), 77
    y = np.full(128, 5, np.uint8)
    run_on_host(last_tile, 1, array, y, 2**25 - 1)
    assert (y[1:63] == np.arange(1, 63)).all() and y[63] == 7 and y[0] == 9
    assert (array[-63:] == 5).all() and (behind == 77).all()


@px.kernel(warps=1)
def narrow_rows(X, Y, *, N=48):
    px.store(Y[0:N], px.load(X[0:N]))


def test_no_load_goes_past_a_row_that_ends_behind_the_tile() -> None:
    """Lanes that hold nothing of a tile of 48 would read a vector from 50 on, of which the row has one element."""
    text = module_for(narrow_rows, (np.zeros(51, np.int16), np.zeros(48, np.int16))).source
    assert "if (c0 < 48 && ptx::inside(c0, X.shape[0])) ptx::load_words<2>" in text


@px.kernel(warps=1)
def copies_anywhere(X, S, L, R, T, *, K, M=8, N=128):
    """Loads of boxes and of rows, and a store of boxes, that begin wherever S says."""
    box, row = px.shared((M, N), px.f32), px.shared((N,), px.f32)
    full = px.barrier()
    for i in range(K):
        s = px.load(S[i])
        with full.transaction():
            px.tma.load(X.tile((s, 0), (M, N)), box, full)
            px.tma.load(X[s, 0:N], row, full)
        full.wait(i % 2)
        px.store(L[i, 0:M, 0:N], px.load(box))
        px.store(R[i, 0:N], px.load(row))
        px.sync()
        px.store(box, px.full((M, N), 3.0, px.f32))
        px.sync()
        px.fence.async_proxy()
        px.tma.store(box, T.tile((s, 0), (M, N)))
        px.tma.commit()
        px.tma.wait(0)
        px.sync()


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_copies_that_begin_anywhere_are_the_simulator_s(dtype: type) -> None:
    """A 64-bit start was cut to 32 bits: 2^32 was row 0."""
    near = [0, 4, 12, 16, -3, -8, -9, 2**31 - 4, -(2**31)]
    far = [2**31, 2**32, 2**32 + 4, -(2**32), 2**63 - 1, -(2**63)]
    starts = np.array(near + (far if dtype == np.int64 else []), dtype)
    results = []
    for launch in (copies_anywhere[1], functools.partial(run_on_host, copies_anywhere, 1)):
        x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
        made = [np.zeros((len(starts), 8, 128), np.float32), np.zeros((len(starts), 128), np.float32), np.zeros_like(x)]
        launch(x, starts, *made, K=len(starts))
        results.append(made)
    for simulated, on_host in zip(*results, strict=True):
        assert (simulated == on_host).all()
