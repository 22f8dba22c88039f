"""Regions outside global arrays: told with `bounds="report"`, masked in silence without it."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import line_of

X = np.ones((100, 64), np.float32)


@px.kernel(warps=4)
def copy(X, Y, *, BM=64):
    m = px.block_id(0) * BM
    tile = px.load(X[m : m + BM, 0:64])  # read
    px.store(Y[m : m + BM, 0:64], tile)  # write


@px.kernel(warps=4)
def by_engine(X, Y, *, BM=64, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a, b = px.shared((BM, BN), X.dtype), px.barrier()
    with b.transaction():
        px.tma.load(X[m : m + BM, n : n + BN], a, b)
    b.wait(0)
    px.tma.store(a, Y[m : m + BM, n : n + BN])
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=1)
def rows(X, I, Y):
    px.store(Y[0:8, 0:64], px.load(X[px.load(I[0:8]), 0:64]))


@px.kernel(warps=1)
def engine_rows(X, I, Y):
    s, b = px.shared((8, 64), X.dtype), px.barrier()
    with b.transaction():
        px.tma.gather(X, px.load(I[0:8]), 0, s, b)
    b.wait(0)
    px.store(Y[0:8, 0:64], px.load(s))


@px.kernel(warps=1)
def one_element(X, Y, n):
    px.store(Y[n, 0], px.load(X[n, 0]))


@px.kernel(warps=1)
def counted(X, n):
    px.atomic_add(X[n, 0], 1.0)


@px.kernel(warps=1)
def said_where_it_ends(X, Y):
    rest = px.load(X[0, 32:96].within(32, 64))
    px.store(Y[0, 32:96].within(32, 64), rest)


def told(bound, *args):
    return px.check(bound, *args, bounds="report").findings


def test_nothing_is_told_unasked():
    assert px.check(copy[2], X, np.zeros_like(X)).ok
    assert px.check(by_engine[2, 2], X, np.zeros_like(X)).ok


def test_nothing_is_told_of_tiles_that_fit():
    x = np.ones((128, 64), np.float32)
    assert not told(copy[2], x, np.zeros_like(x))
    assert not told(by_engine[2, 1], x, np.zeros_like(x))
    assert not told(rows[1], x, np.arange(8, dtype=np.int32), np.zeros_like(x))


def test_a_tile_over_the_edge():
    read, write = told(copy[2], X, np.zeros_like(X))
    assert read.kind == write.kind == "out-of-bounds"
    assert read.location.line == line_of(copy, "read") and write.location.line == line_of(copy, "write")
    assert "px.load reads X[64:128, 0:64], and X has the shape (100, 64)" in read.message
    assert "1,792 of 4,096 elements are outside" in read.message
    assert "are not stored" in write.message and "load as fill" in read.message
    assert read.count == 1 and read.agents[0].cluster == 1


def test_the_region_that_misses_most_is_shown_and_all_are_counted():
    read, write = told(by_engine[2, 2], X, np.zeros_like(X))
    assert read.count == write.count == 3
    assert "X[0:64, 64:128]" in read.message and "all 4,096 elements are outside" in read.message


@pytest.mark.parametrize("kernel", [rows, engine_rows])
def test_rows_by_index(kernel):
    index = np.array([0, 1, -1, 100, 4, 5, 6, 7], np.int32)
    finding, = told(kernel[1], X, index, np.zeros_like(X))
    assert "128 of 512 elements are outside and load as fill" in finding.message
    assert px.check(kernel[1], X, index, np.zeros_like(X)).ok


def test_one_element():
    read, write = told(one_element[1], X, np.zeros_like(X), 100)
    assert "reads X[100, 0], and X has the shape (100, 64): this element is outside and loads as fill" in read.message
    assert "this element is outside and is not stored" in write.message
    finding, = told(counted[1], np.zeros((4, 4), np.float32), 4)
    assert "px.atomic_add updates X[4, 0]" in finding.message and "is left out" in finding.message


def test_a_region_that_says_where_it_ends_is_not_told():
    assert not told(said_where_it_ends[1], X, np.zeros_like(X))


def test_an_array_without_rows():
    finding, *_ = told(rows[1], np.ones((0, 64), np.float32), np.arange(8, dtype=np.int32), np.zeros_like(X))
    assert "all 512 elements are outside" in finding.message


def test_other_findings_and_schedules_are_as_without_it():
    report, plain = px.check(copy[2], X, X[::-1], bounds="report"), px.check(copy[2], X, X[::-1])
    assert [f.kind for f in report.findings if f.kind != "out-of-bounds"] == [f.kind for f in plain.findings]
    assert px.check(copy[2], X, np.zeros_like(X), bounds="report").schedules == ("late", "early", "random, seed 0")
