"""Pipelined loops of arguments that share memory: what is checked is the version of the kernel that a launch takes."""

from __future__ import annotations

import numpy as np

import phalanx as px


@px.kernel(warps=4)
def running_sums(X, O):
    """Each step reads a row and writes one: where the arrays overlap, rows that later steps read."""
    total = px.zeros((64,), px.f32)
    for k in px.pipelined(range(4)):
        total = total + px.load(X[k, 0:64])
        px.store(O[k, 0:64], total)


def overlapping():
    base = np.arange(6 * 64, dtype=np.float32).reshape(6, 64).copy()
    return base, base[0:4], base[2:6]


def test_arguments_that_overlap_are_checked_as_they_are_launched():
    launched, *args = overlapping()
    running_sums[1](*args)
    plain, *args = overlapping()
    running_sums[1](*args, pipelined=False)
    assert (launched == plain).all()
    _, *args = overlapping()
    report = px.check(running_sums[1], *args)
    assert report.ok, report
    assert px.explore(running_sums[1], *args).ok


@px.kernel(warps=4)
def sums_beside_another_cta(X, O):
    """Two CTAs, each with half of the steps: the rows that one writes the other reads."""
    total, half = px.zeros((64,), px.f32), px.block_id(0) * 2
    for k in px.pipelined(range(2)):
        total = total + px.load(X[half + k, 0:64])
        px.store(O[half + k, 0:64], total)


def test_a_race_of_the_plain_version_is_found():
    _, *args = overlapping()
    assert {finding.kind for finding in px.check(sums_beside_another_cta[2], *args).findings} == {"race"}
    x = np.ones((4, 64), np.float32)
    assert px.check(sums_beside_another_cta[2], x, np.zeros_like(x)).ok


@px.kernel(warps=4)
def counted(X, Y):
    """The runtime's own counters share memory with no argument."""
    c = px.counters(1)
    total = px.zeros((64,), px.f32)
    for k in px.pipelined(range(4)):
        total = total + px.load(X[k, 0:64])
    px.store(Y[px.block_id(0), 0:64], total)
    if px.atomic_add(c[0], 1) == 1:
        px.atomic_exch(c[0], 0)


def test_a_kernel_with_counters_is_launched_and_checked():
    x, y = np.ones((4, 64), np.float32), np.zeros((2, 64), np.float32)
    counted[2](x, y)
    assert (y == 4).all()
    assert px.check(counted[2], x, y).ok
