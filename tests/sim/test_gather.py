"""Rows by index in the simulator: against NumPy, and clean under the checks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px

DTYPES = [ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, np.int8]


@px.kernel(warps=2)
def by_four(X, I, Y, *, K, COL=0):
    s, bar = px.shared((4, K), X.dtype), px.barrier()
    i = px.block_id(0) * 4
    with bar.transaction():
        px.tma.gather4(X, (I[i], I[i + 1], I[i + 2], I[i + 3]), COL, s, bar)
    bar.wait(0)
    px.store(Y[i : i + 4, 0:K], px.load(s))


@px.kernel(warps=2)
def by_slice(X, I, Y, *, R, K, COL=0):
    s, bar = px.shared((R, K), X.dtype), px.barrier()
    i = px.block_id(0) * R
    with bar.transaction():
        px.tma.gather(X, I[i : i + R], COL, s, bar)
    bar.wait(0)
    px.store(Y[i : i + R, 0:K], px.load(s))


@px.kernel(warps=2)
def back(X, I, Y, *, R, K, COL=0):
    s, bar = px.shared((R, K), X.dtype), px.barrier()
    i = px.block_id(0) * R
    with bar.transaction():
        px.tma.load(X[i : i + R, 0:K], s, bar)
    bar.wait(0)
    px.tma.scatter(s, I[i : i + R], COL, Y)
    px.tma.commit()
    px.tma.wait(0)


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-7, 8, shape).astype(dtype)


def indices(kind: str, n: int, rows: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return {
        "random": rng.integers(0, rows, n),
        "repeated": rng.integers(0, 2, n),
        "sorted": np.sort(rng.integers(0, rows, n)),
        "outside": rng.integers(-rows, 2 * rows, n),
        "far": rng.choice([0, 2**31 - 1, -(2**31), 2**32 + 1, -1, rows, rows - 1], n),
    }[kind].astype(np.int64)


def gathered(x: np.ndarray, rows: np.ndarray, column: int, k: int) -> np.ndarray:
    out = np.zeros((len(rows), k), x.dtype)
    for i, row in enumerate(rows.tolist()):
        if 0 <= row < len(x):
            part = x[row, column : column + k]
            out[i, : len(part)] = part
    return out


KINDS = ["random", "repeated", "sorted", "outside", "far"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_against_numpy(dtype: Any, kind: str) -> None:
    x, rows = random((24, 96), dtype), indices(kind, 16, 24)
    y = random((16, 64), dtype, 9)
    by_four[4](x, rows, y, K=64, COL=32)
    assert np.array_equal(y, gathered(x, rows, 32, 64))
    for size in (4, 16):
        y = random((16, 64), dtype, 9)
        by_slice[16 // size](x, rows, y, R=size, K=64, COL=64)
        assert np.array_equal(y, gathered(x, rows, 64, 64)), "columns beyond the row are zeros"


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_against_numpy(dtype: Any) -> None:
    x = random((16, 32), dtype)
    rows = np.array([3, 9, -1, 0, 11, 40, 7, 8, 2, 5, 1, 10, -5, 20, 4, 6], np.int32)
    y = random((12, 96), dtype, 5)
    expected = y.copy()
    for i, row in enumerate(rows.tolist()):
        if 0 <= row < 12:
            expected[row, 64:96] = x[i]
    back[2](x, rows, y, R=8, K=32, COL=64)
    assert np.array_equal(y, expected)


def test_rows_beyond_the_index_array_are_no_rows() -> None:
    x, rows = random((24, 32), np.float32), np.arange(10, dtype=np.int32)
    y = random((16, 32), np.float32, 3)
    by_slice[2](x, rows, y, R=8, K=32)
    assert np.array_equal(y, gathered(x, np.r_[rows, -np.ones(6, int)], 0, 32))
    y = random((16, 32), np.float32, 3)
    by_four[4](x, rows, y, K=32)
    assert np.array_equal(y, gathered(x, np.r_[rows, -np.ones(6, int)], 0, 32))
    target = np.zeros((24, 32), np.float32)
    back[2](y, rows, target, R=8, K=32)
    assert np.array_equal(target[:10], y[:10]) and not target[10:].any()


@px.kernel(warps=4, cluster=2)
def shared_by_two(X, I, Y, *, R=8, K=64):
    """Each CTA gathers half of the rows for both; everybody waits for all of them."""
    s, bar = px.shared((R, K), X.dtype), px.barrier()
    half = R // 2
    top = px.cluster.rank() * half
    px.cluster.sync()
    with bar.transaction():
        px.tma.gather(X, I[top : top + half], 0, s[top : top + half], bar, multicast=0b11)
    bar.wait(0)
    px.store(Y[px.block_id(0) * R : px.block_id(0) * R + R, 0:K], px.load(s))


def test_multicast_gather_fills_both_ctas() -> None:
    x, rows = random((24, 64), np.float32), np.array([5, 5, -1, 23, 24, 0, 7, 2])
    y = random((16, 64), np.float32, 2)
    shared_by_two[2](x, rows, y)
    expected = gathered(x, rows, 0, 64)
    assert np.array_equal(y[:8], expected) and np.array_equal(y[8:], expected)
    assert px.check(shared_by_two[2], x, rows, y).ok


@px.kernel(warps=4, cluster=2)
def gathered_by_a_pair(X, I, Y, *, R=8, K=64):
    """Each CTA gathers rows of its own; their bytes are the even one's, which alone waits."""
    s, bar = px.shared((2 * R, K), X.dtype), px.barrier()
    top, rank = px.block_id(0) * 2 * R, px.cluster.rank()
    with bar.transaction():
        px.tma.gather(X, I[top : top + R], 0, s[0:R], bar, two_cta=True)
        for m in px.static_range(R, 2 * R, 4):
            four = (I[top + m], I[top + m + 1], I[top + m + 2], I[top + m + 3])
            px.tma.gather4(X, four, 0, s[m : m + 4], bar, two_cta=True)
    if rank == 0:
        bar.wait(0)
    px.cluster.sync()
    px.store(Y[top : top + 2 * R, 0:K], px.load(s))


def test_a_pairs_gathers_complete_on_the_even_ctas_barrier() -> None:
    x, rows = random((24, 64), np.float32), np.random.default_rng(3).integers(-3, 27, 32)
    y = np.zeros((32, 64), np.float32)
    gathered_by_a_pair[2](x, rows, y)
    assert np.array_equal(y, gathered(x, rows, 0, 64))
    assert px.check(gathered_by_a_pair[2], x, rows, y).ok


def test_a_pairs_gather_that_the_odd_cta_waits_for_never_comes() -> None:
    @px.kernel(warps=4, cluster=2)
    def both_wait(X, I, Y, *, R=8, K=64):
        s, bar = px.shared((R, K), X.dtype), px.barrier(count=1)
        top = px.block_id(0) * R
        bar.arrive_and_expect_tx(s.nbytes)
        px.tma.gather(X, I[top : top + R], 0, s, bar, two_cta=True)
        bar.wait(0)
        px.store(Y[top : top + R, 0:K], px.load(s))

    x, rows = random((24, 64), np.float32), np.arange(16)
    report = px.check(both_wait[2], x, rows, np.zeros((16, 64), np.float32))
    assert {finding.kind for finding in report.findings} & {"deadlock", "tx-mismatch"}, report


@px.kernel(warps=2)
def all_forms(X, I, Y, *, K=32):
    """Rows as a tuple of eight, as a tile that was computed, as elements of shared memory."""
    s, bar = px.shared((3, 8, K), X.dtype), px.barrier()
    table = px.shared(8, px.i32)
    px.store(table, px.load(I[0:8]))
    with bar.transaction():
        px.tma.gather(X, (7, 6, 5, 4, 3, 2, 1, I[0]), 0, s[0], bar)
        px.tma.gather(X, px.arange(8) * 2 + 1, 0, s[1], bar)
        px.tma.gather(X, table[0:8], 0, s[2], bar)
    bar.wait(0)
    for part in px.static_range(3):
        px.store(Y[part * 8 : part * 8 + 8, 0:K], px.load(s[part]))


def test_rows_can_be_named_in_many_ways() -> None:
    x, rows = random((24, 32), np.float32), indices("outside", 8, 24).astype(np.int32)
    y = np.zeros((24, 32), np.float32)
    all_forms[1](x, rows, y)
    expected = np.r_[[7, 6, 5, 4, 3, 2, 1, rows[0]], np.arange(8) * 2 + 1, rows]
    assert np.array_equal(y, gathered(x, expected, 0, 32))
    assert px.check(all_forms[1], x, rows, y).ok


@pytest.mark.parametrize("kind", ["random", "outside"])
def test_copies_by_rows_are_clean(kind: str) -> None:
    x, rows, y = random((24, 64), np.float32), indices(kind, 16, 24), np.zeros((16, 64), np.float32)
    assert px.check(by_four[4], x, rows, y, K=64).ok
    assert px.check(by_slice[2], x, rows, y, R=8, K=64).ok
    assert px.check(back[2], y, np.random.default_rng(0).permutation(24)[:16], x, R=8, K=64).ok


def test_a_row_twice_in_one_scatter_is_a_race() -> None:
    x, y = random((8, 64), np.float32), np.zeros((24, 64), np.float32)
    report = px.check(back[1], x, np.array([1, 2, 3, 4, 5, 6, 2, 7]), y, R=8, K=64)
    assert [finding.kind for finding in report.findings] == ["race"]
    assert "stores twice to row 2 of Y[rows, 0:64]" in report.findings[0].message
    assert px.check(back[1], x, np.array([1, 2, 3, 4, -1, -1, 30, 30]), y, R=8, K=64).ok, "no rows, no clash"


def test_two_scatters_of_one_row_are_a_race() -> None:
    x, y = random((16, 64), np.float32), np.zeros((24, 64), np.float32)
    rows = np.r_[np.arange(8), [7, 20, 21, 22, 16, 17, 18, 19]]
    report = px.check(back[2], x, rows, y, R=8, K=64)
    assert [finding.kind for finding in report.findings] == ["race"]
    assert "both name row 7" in report.findings[0].notes


@px.kernel(warps=1)
def too_few_bytes(X, I, Y, *, BYTES):
    s, bar = px.shared((4, 32), X.dtype), px.barrier()
    bar.arrive_and_expect_tx(BYTES)
    px.tma.gather4(X, (I[0], I[1], I[2], I[3]), 0, s, bar)
    bar.wait(0)
    px.store(Y[0:4, 0:32], px.load(s))


def test_rows_outside_count_their_bytes() -> None:
    x, rows, y = random((24, 32), np.float32), np.array([-1, 24, 0, 99]), np.zeros((4, 32), np.float32)
    assert px.check(too_few_bytes[1], x, rows, y, BYTES=512).ok
    assert not px.check(too_few_bytes[1], x, rows, y, BYTES=128).ok


def test_rows_outside_are_a_note_of_the_report() -> None:
    x, y = random((24, 32), np.float32), np.zeros((4, 32), np.float32)
    report = px.check(by_four[1], x, np.array([-1, 24, 0, 99]), y, K=32)
    assert report.ok and len(report.notes) == 1
    assert report.notes[0].endswith("px.tma.gather4 named 3 rows outside X: they load as zeros")
    assert f"note: {report.notes[0]}" in str(report)
    report = px.check(by_slice[1], x, np.array([5, 24, 0, 1]), y, R=4, K=32)
    assert report.notes[0].endswith("1 row outside X: it loads as zeros")
    x = random((8, 64), np.float32)
    report = px.check(back[1], x, np.array([1, 2, 3, 4, -1, -1, 30, 7]), np.zeros((24, 64), np.float32), R=8, K=64)
    assert report.notes[0].endswith("px.tma.scatter named 3 rows outside Y: they are not stored")
    assert px.check(by_four[1], x, np.arange(4), y, K=32).notes == []
