"""What tiles of a product take at the least: bounds of the model's times that cost a tenth of asking it.

The model of tiles takes more than a hundred operations on arrays of all configurations of a table. What each takes at the
least is known by a few: its waves of products, what L2 brings, HBM's time beside. So those are left out first that can't
be the quickest, and the model is asked for the others. The answer is that of asking for all: a bound is below the model's
time, whatever the costs (`tests/kernels/test_tile_bounds.py` draws some).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.kernels.products.matmul_cuts import Problem, steps_of
from phalanx.kernels.products.tile_model import (
    MOST_TOGETHER,
    Sizes,
    TileTable,
    beside,
    counting_outside,
    eighth_power,
    fourth_power,
    row_bytes,
)
from phalanx.machines.h200 import H200
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import Device

SLACK = 1 + 1e-9
"""What rounding may add to a bound, and more."""


@frozen
class Bounds:
    """A table, and what bounds of its times are made of, with an element for each configuration.

    A cluster covers `along_m` x `along_n` of the product as it is asked for, and fetches `rows_of_a` and `rows_of_b` of its
    operands in a step; `shares_a` and `shares_b`: it shares them with others. Up to `alone_m` rows or `alone_n` columns some
    of its CTAs have nothing to do. `least_hbm` is the least of the table's `hbm_time`. `loads` has what `loading` gave.
    """

    table: TileTable
    along_m: Any
    along_n: Any
    rows_of_a: Any
    rows_of_b: Any
    shares_a: Any
    shares_b: Any
    alone_m: Any
    alone_n: Any
    least_hbm: float
    loads: dict[tuple[float, float], tuple[Any, Any]]

    def tiles(self, problem: Problem, sizes: Sizes) -> Any:
        """How many there are in each configuration, of products of these sizes that are else like `problem`."""
        tiles = np.ceil(sizes.m / self.along_m) * np.ceil(problem.n / self.along_n)
        return tiles if problem.batch == 1 else tiles * problem.batch

    def loading(self, a_row: float, b_row: float, device: Device, costs: TileCosts) -> tuple[Any, Any]:
        """Cycles of a step at least, and those of what L2 brings while all SMs ask; rows of operands count so many bytes."""
        found = self.loads.get((a_row, b_row))
        if found is None:
            table = self.table
            least = MOST_TOGETHER ** -max(costs.read_together, costs.read_together_broken)
            fetched = self.rows_of_a * np.where(self.shares_a, a_row, least * a_row)
            fetched = fetched + self.rows_of_b * np.where(self.shares_b, b_row, least * b_row)
            alone = np.maximum(table.tensor, fetched / costs.l2_rate_alone)
            found = alone, fetched * (table.ctas * table.slots / (costs.l2_rate * device.sms))
            self.loads[a_row, b_row] = found
        return found


def bounds_of(table: TileTable, by_k: tuple[bool, bool]) -> Bounds:
    """What bounds of a table are made of, for operands that lie so."""
    turned = table.swapped
    panels = np.where(turned, not by_k[0], not by_k[1])
    column_share = np.where(panels, table.panel_share, table.column_share)
    alone_m, alone_n = (np.where(turned, *alone) for alone in (
        (table.alone_wide, table.alone_high), (table.alone_high, table.alone_wide)
    ))
    return Bounds(
        table, np.where(turned, table.wide, table.high), np.where(turned, table.high, table.wide),
        np.where(turned, column_share, table.row_share), np.where(turned, table.row_share, column_share),
        alone_n > 0, alone_m > 0, alone_m, alone_n, float(table.hbm_time.min()), {},
    )


def least_working(
    bounds: Bounds, problem: Problem, device: Device, costs: TileCosts, missed: Any, tiles: Any, split: Any
) -> Any:
    """Cycles that tiles work at least, `tiles` of them for each configuration, the last ones in `split` parts of K; L2 has
    not the part `missed` of a product's bytes.

    A wave takes its steps and an epilogue; a step takes at least its products, what L2 needs for what it brings to all
    that are busy, and its part of the time that a stage is on its way. Sums of parts are stored and added.
    """
    table = bounds.table
    steps = steps_of(problem)
    filled = tiles / bounds.table.slots
    full = np.floor(filled)
    waves = full + np.ceil(steps / split) / steps
    a_row, b_row = (_least_row(along, problem, costs) for along in problem.by_k)
    least, loads = bounds.loading(a_row, b_row, device, costs)
    latency = (costs.latency + costs.latency_missed * missed) / table.asked_ahead
    body = np.maximum(np.maximum(least, loads * np.minimum(filled * split, 1.0)), latency)
    sums = table.results * split * (4 / costs.sums_rate)
    return waves * steps * (body + table.step) + (full + 1) * table.ending + sums


def least_times(bounds: Bounds, problem: Problem, device: Device, costs: TileCosts, sizes: Sizes) -> Any:
    """What the model gives each configuration of a table at least, in microseconds, for products of these sizes that are
    else like `problem`, and whose K is not cut. What leaves CTAs without work takes forever, as it does for the model.
    """
    table = bounds.table
    steps = steps_of(problem)
    tiles = bounds.tiles(problem, sizes)
    filled = tiles / table.slots
    a_row, b_row = (_least_row(along, problem, costs) for along in problem.by_k)
    least, loads = bounds.loading(a_row, b_row, device, costs)
    latency = (costs.latency + costs.latency_missed * np.min(sizes.missed)) / table.asked_ahead
    body = np.maximum(beside(eighth_power(least), eighth_power(latency)), loads * np.minimum(filled, 1.0))
    cycles = np.ceil(filled) * (steps * (table.step + body) + table.ending) - table.ending
    streamed = _least_streamed(bounds, sizes, costs)
    working = np.sqrt(np.sqrt(fourth_power(cycles / costs.clock) + fourth_power(streamed)))
    factors = table.counted / SLACK
    if steps < costs.uneven_steps:
        factors = factors * (1 + (1 - steps / costs.uneven_steps) * table.uneven)
    took = (working + (costs.launch + table.ending / costs.clock)) * factors
    took = took * counting_outside(tiles * (table.area / sizes.results), costs)
    return np.where((sizes.m <= bounds.alone_m) | (sizes.n <= bounds.alone_n), np.inf, took)


def _least_row(along: bool, problem: Problem, costs: TileCosts) -> float:
    """What a row of a stage counts at least, in bytes: across K, wherever it begins."""
    if along:
        return row_bytes(problem.k, problem.itemsize, costs)
    return min(row_bytes(size, 1, costs) for size in (H200.line_bytes, H200.sector_bytes, 1))


def working_below(bounds: Bounds, sizes: Sizes, costs: TileCosts, took: Any) -> Any:
    """How many cycles tiles may work at most if a product is to take no longer than `took`: HBM works beside them."""
    left = (np.maximum(0.0, took - costs.launch) * SLACK) ** 4 - _least_streamed(bounds, sizes, costs) ** 4
    return np.maximum(0.0, left) ** 0.25 * (costs.clock * SLACK)


def _least_streamed(bounds: Bounds, sizes: Sizes, costs: TileCosts) -> Any:
    """Microseconds that HBM takes at the least."""
    asked = sizes.read - sizes.larger * sizes.kept
    return (asked * sizes.missed + sizes.written) / costs.hbm * bounds.least_hbm
