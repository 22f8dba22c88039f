"""What boxes of arrays take of L2, and what edges cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

import phalanx as px
from phalanx.machines.rates import rates_of
from phalanx.runtime.timeline.tracing import trace_on
from phalanx.sim.timeline.lines import of_rows
from phalanx.sim.timeline.units import Sm, between

H200 = rates_of("h200")


@pytest.mark.parametrize(
    ("begin", "pitch", "run", "cost"),
    [
        (0, 0, 128, 128), (0, 0, 256, 256),  # whole lines cost what they have
        (32, 0, 128, 192), (16, 0, 128, 208),  # a sector within a line, and within a sector
        (0, 32, 128, 176), (0, 0, 32, 80),
    ],
)  # fmt: skip
def test_rows_that_begin_within_a_line_cost_more(begin: int, pitch: int, run: int, cost: float) -> None:
    assert of_rows(begin, pitch, run, 4) == cost


def test_few_sms_get_more_than_a_part_and_no_more_than_their_way() -> None:
    assert between(30, 120, 1.0) == 30 and between(30, 120, 0.0) == 120
    assert 30 < between(30, 120, 0.5) < 60 and between(30, 20, 0.5) == 20
    rates = [Sm(H200, crowd).hbm_rate * crowd for crowd in (1, 66, 132)]
    assert rates == sorted(rates) and Sm(H200, 1).hbm_rate <= H200.hbm_sm_rate


@px.kernel(warps=1)
def read(X, *, BM=64, STEPS=64):
    tile, full = px.shared((BM, 64), X.dtype), px.barrier()
    m = px.block_id(0) * BM
    for i in range(STEPS):
        with full.transaction():
            px.tma.load(X[m : m + BM, i * 64 : i * 64 + 64], tile, full)
        full.wait(i & 1)


def cycles(rows: int, columns: int, **numbers: float) -> float:
    return trace_on(replace(H200, **numbers), read[2], (px.spec((rows, columns), px.bf16),), {}).cycles  # type: ignore[arg-type]


def test_the_last_tile_holds_up_its_wave_by_its_zeros() -> None:
    whole, edge = cycles(128, 4096), cycles(65, 4096)
    slow = cycles(65, 4096, zero_rate=H200.zero_rate / 2)
    assert whole < edge < slow
    assert slow - edge == pytest.approx(64 * 63 * 128 / H200.zero_rate, rel=0.25)
    assert cycles(128, 4096, zero_rate=1.0) == whole


def test_rows_off_their_lines_take_longer() -> None:
    lines, off = (cycles(128, 4096 + more, l2_rate=4.0, l2_sm_rate=4.0) for more in (64, 16))
    assert 1.2 < off / lines < 1.6
