"""A few rounds of each loop, and the closed form made of them, beside whole runs of the model."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.archs import arch_of
from phalanx.machines.rates import rates_of
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise
from phalanx.runtime.timeline.places import places_of
from phalanx.sim.timeline.clock import clocked
from phalanx.sim.timeline.closed import Stale
from phalanx.sim.timeline.glimpse import glimpse

ARCH = arch_of("sm_90a")
RATES = rates_of("sm_90a")


@px.kernel(warps=8)
def product(A, B, C, *, BM=128, BN=128, BK=64):
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    for t in px.persistent(rows * columns):
        m, n = t // columns * BM, t % columns * BN
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK)):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


@px.kernel(warps=4)
def triangle(X, Y, *, BM=64, BN=64):
    """CTAs that differ: later ones have longer rows. One fits on an SM."""
    m = px.block_id(0) * BM
    room = px.shared((448, BN), px.f32)
    px.store(room, px.zeros((448, BN), px.f32))
    total = px.load(room[0:BM])
    for n in range(0, m + BM, BN):
        total = total + px.exp(px.load(X[m : m + BM, n : n + BN]))
    px.store(Y[m : m + BM, 0:BN], total)


@px.kernel(warps=4)
def counted(X, N, Y):
    """A loop whose length is data."""
    total = px.zeros((64, 64), px.f32)
    for n in range(N[0]):
        total = total + px.load(X[0:64, 64 * n : 64 * n + 64])
    px.store(Y[0:64, 0:64], total)


class Modelled:
    """A launch on the model."""

    def __init__(self, kernel: Any, grid: Any, *args: Any) -> None:
        arguments = read_arguments(kernel, args)
        made = specialise(kernel, arguments, kernel.bind_constants({}))
        self.function = made.prepared_for(ARCH)
        self.places = places_of(self.function, ARCH, RATES)
        fitting = self.places.groups * self.places.held
        self.grid = made.fitting(grid, arguments, numbers=True).of(fitting) if grid is px.auto else None
        if self.grid is None:
            self.grid = normalise_grid(kernel, grid, made.constants)
        self.args = [np.zeros(arg.shape, arg.dtype.numpy) if not isinstance(arg, np.ndarray) else arg for arg in args]
        self.sizes = [arg.shape for arg in args]

    def whole(self) -> float:
        """The cycles of the whole run."""
        return clocked(self.function, self.grid, self.args, RATES, self.places)[1]

    def glimpse(self) -> Any:
        """The cycles by a few rounds, and the closed form."""
        return glimpse(self.function, self.grid, self.args, RATES, self.places)

    def closed(self, form: Any) -> float:
        """The cycles by the closed form of another launch."""
        return form.launch(self.grid, self.sizes, self.args, self.places)


def products(m: int, n: int, k: int) -> Modelled:
    return Modelled(product, px.auto, px.spec((m, k), px.bf16), px.spec((n, k), px.bf16), px.spec((m, n), px.bf16))


def test_a_few_rounds_stand_for_all_and_give_other_sizes() -> None:
    first = products(2048, 2048, 2048)
    cycles, form = first.glimpse()
    assert cycles == pytest.approx(first.whole(), rel=0.03)
    assert first.closed(form) == pytest.approx(cycles, rel=0.03)
    for sizes in ((2048, 2048, 8192), (4096, 4096, 2048), (1024, 2048, 1024)):
        other = products(*sizes)
        assert other.closed(form) == pytest.approx(other.glimpse()[0], rel=0.05), sizes


def test_five_hundred_closed_forms_take_milliseconds() -> None:
    launch = products(2048, 2048, 2048)
    _, form = launch.glimpse()

    def took() -> float:
        began = perf_counter()
        for _ in range(500):
            launch.closed(form)
        return perf_counter() - began

    assert min(took() for _ in range(5)) < 0.1, "20 ms is the aim; 8 ms on an idle core"


def test_ctas_that_differ() -> None:
    array = px.spec((64 * 2640, 64), px.f32)
    launch = Modelled(triangle, 2640, array, array)
    cycles, form = launch.glimpse()
    assert form.depends and launch.closed(form) == pytest.approx(cycles, rel=0.1)
    shorter = Modelled(triangle, 1980, array, array)
    assert shorter.closed(form) == pytest.approx(shorter.glimpse()[0], rel=0.1)


def test_loops_by_data_have_no_closed_form() -> None:
    x, y = np.zeros((64, 64 * 256), np.float32), np.zeros((64, 64), np.float32)
    long, short = (Modelled(counted, 1, x, np.array([count], np.int32), y).glimpse() for count in (200, 20))
    assert long[1] is None and long[0] > 5 * short[0]


def test_a_loop_that_was_short_is_looked_at_again() -> None:
    _, form = products(2048, 2048, 128).glimpse()
    with pytest.raises(Stale):
        products(2048, 2048, 2048).closed(form)
