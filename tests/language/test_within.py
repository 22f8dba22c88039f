"""Views of which a part is there, and loads that begin at any element: meaning, findings, listings, text."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support import host_cuda
from support.host_cluster import run_cluster


@px.kernel(warps=2)
def add_one(F, G, columns, fill, *, W=512):
    """Rows of one run of memory, each by a CTA, from the last vector before it on."""
    start = px.block_id(0) * columns
    first = start // 8 * 8
    for part in range(px.cdiv(columns + 7, W)):
        at = first + part * W
        x = px.load(F[at : at + W].within(start, start + columns), fill=fill)
        px.store(G[at : at + W].within(start, start + columns), px.where(x == fill, -1.0, x.to(px.f32) + 1.0).to(G.dtype))


@px.kernel(warps=1)
def reach(F, G, low, high, *, W=64):
    px.store(G[0:W], px.load(F[0:W].within(low, high), fill=7.0))


@px.kernel(warps=2)
def moved(W, Y, start, *, N=512):
    px.store(Y[0:N], px.load(W[start : start + N], fill=7, shifted=True))


def run_of_rows(columns: int, dtype: type) -> np.ndarray:
    return (np.arange(5 * columns) % 89).astype(dtype)


@pytest.mark.parametrize("columns", (1, 7, 8, 531, 1300))
@pytest.mark.parametrize("dtype", (np.float32, ml_dtypes.bfloat16))
def test_rows_that_begin_anywhere(columns: int, dtype: type) -> None:
    x = run_of_rows(columns, dtype)
    y = np.full_like(x, 100)
    px.check(add_one[5], x, y, columns, -5.0).raise_if_found()
    add_one[5](x, y, columns, -5.0)
    assert (y.astype(np.float32) == x.astype(np.float32) + 1).all()


@pytest.mark.parametrize("low, high", ((3, 9), (-4, 5), (60, 99), (9, 9), (20, 4), (-9, -2), (70, 80)))
def test_what_is_not_there_is_filled(low: int, high: int) -> None:
    x, y = np.arange(50, dtype=np.float32), np.zeros(64, np.float32)
    reach[1](x, y, low, high)
    want = np.full(64, 7.0)
    here = slice(max(low, 0), max(0, min(high, 50)))
    want[here] = x[here]
    assert (y == want).all()


@px.kernel(warps=2)
def add_one_to_vectors(F, G, columns, *, W=512, ASSUMED=False):
    """The vectors of rows of one run of memory that are all of one row."""
    start = px.block_id(0) * columns
    first, last = (start + 7) // 8 * 8, (start + columns) // 8 * 8
    if ASSUMED:
        px.assume(first >= 0)
        px.assume(first <= last)
        px.assume(last <= G.shape[0])
    for part in range(px.cdiv(columns, W)):
        at = first + part * W
        px.store(G[at : at + W].within(first, last), px.load(F[at : at + W]) + 1.0)


@pytest.mark.parametrize("assumed", (False, True))
@pytest.mark.parametrize("columns", (8, 23, 531))
def test_ends_that_cut_no_vector(columns: int, assumed: bool) -> None:
    x = run_of_rows(columns, np.float32)
    want = x.copy()
    for row in range(5):
        want[-(-row * columns // 8) * 8 : (row + 1) * columns // 8 * 8] += 1
    for run in ("simulator", "text"):
        y = x.copy()
        if run == "simulator":
            add_one_to_vectors[5](x, y, columns, ASSUMED=assumed)
        elif host_cuda.COMPILER is not None:
            run_cluster(add_one_to_vectors, 5, x, y, columns, ASSUMED=assumed)
        else:
            continue
        assert (y == want).all(), run


def test_text_of_ends_that_cut_no_vector() -> None:
    x = px.spec((5000,), px.f32)
    for assumed in (False, True):
        text = px.compile(add_one_to_vectors[5], x, x, 23, arch="sm_90a", ASSUMED=assumed).source
        assert ("store_part<" in text) != assumed, "asked at run time, unless it is known"


def test_parts_that_overlap_are_a_race() -> None:
    @px.kernel(warps=1)
    def cover(G, columns, more, *, W=256):
        start = px.block_id(0) * columns
        px.store(G[start : start + W].within(start, start + columns + more), 1.0)

    y = np.zeros(400, np.float32)
    assert px.check(cover[3], y, 100, 0).ok
    assert [finding.kind for finding in px.check(cover[3], y, 100, 1).findings] == ["race"]


def test_the_listing_shows_the_part() -> None:
    spec = px.spec((5001,), px.bf16)
    made = px.compile(add_one[5], spec, spec, 1001, -5.0, arch="sm_90a")
    assert "load F[%at:+512].within(%start, %" in made.ir
    assert "st.global.v4.b32" in made.ptx or "st.global.v4.u32" in made.ptx


@pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)
@pytest.mark.parametrize("columns, dtype", ((531, ml_dtypes.bfloat16), (277, np.float32)))
def test_text_of_parts(columns: int, dtype: type) -> None:
    x = run_of_rows(columns, dtype)
    y = np.full_like(x, 100)
    run_cluster(add_one, 5, x, y, columns, -5.0)
    assert (y.astype(np.float32) == x.astype(np.float32) + 1).all()


@pytest.mark.parametrize(
    "dtype, count",
    [
        (np.float32, 512), (ml_dtypes.bfloat16, 512), (ml_dtypes.bfloat16, 256), (np.float16, 128), (np.uint8, 512),
        (np.int8, 256), (ml_dtypes.float8_e4m3fn, 256), (np.float32, 64),
    ],
)  # fmt: skip
def test_shifted_loads(dtype: type, count: int) -> None:
    """Vectors of 16, 8 and 4 bytes in each of 64 threads, and single elements."""
    w, fill = (np.arange(905) % 101 % (100 if np.dtype(dtype).itemsize > 1 else 9)).astype(dtype), 7
    for start in (-530, -5, 0, 1, 2, 3, 6, 8, 377, 390, 904, 1300):
        want = np.full(count, float(fill))
        inside = [place for place in range(count) if 0 <= start + place < 905]
        want[inside] = w[[start + place for place in inside]]
        y = np.zeros(count, dtype)
        moved[1](w, y, start, N=count)
        assert (y.astype(np.float32) == want).all(), start
        if host_cuda.COMPILER is not None:
            y[:] = 0
            run_cluster(moved, 1, w, y, start, N=count)
            assert (y.astype(np.float32) == want).all(), start


@pytest.mark.parametrize("count, words", ((512, r"\.v4"), (256, r"\.v2"), (128, r"\.[bsu]32")))
def test_shifted_loads_read_vectors(count: int, words: str) -> None:
    made = px.compile(moved[1], px.spec((5001,), px.bf16), px.spec((count,), px.bf16), 3, arch="sm_90a", N=count)
    assert "shf.r" in made.ptx and len(re.findall(rf"ld\.global{words}", made.ptx)) >= 2


def test_atomics_take_parts() -> None:
    @px.kernel(warps=1)
    def count(G, low, high, *, W=64):
        px.atomic_add(G[0:W].within(low, high), 1.0)

    y = np.zeros(50, np.float32)
    count[3](y, 5, 60)
    assert (y == np.where(np.arange(50) >= 5, 3, 0)).all()
    made = px.compile(count[3], px.spec((5001,), px.f32), 5, 60, arch="sm_90a")
    assert "red." in made.ptx
