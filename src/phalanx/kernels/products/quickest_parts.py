"""The quickest configuration with parts of K, if it beats a time that is known: most often none does.

The model of tiles takes more than a hundred operations on arrays of all configurations of a table. What each takes at the
least is known by a few: its waves of products, what L2 brings, HBM's time beside. So those are left out first that can't
stay below the time to beat, and the model is asked for the others. The answer is that of asking for all: a bound is below
the model's time, whatever the costs (`tests/kernels/test_quickest_parts.py` draws some).
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.ops.tma import HINTED_PARTS
from phalanx.kernels.products.keeping import kept_parts
from phalanx.kernels.products.matmul_cuts import MatmulConfig, Problem
from phalanx.kernels.products.tile_model import (
    MOST_TOGETHER,
    TileTable,
    costs_of,
    longest_split,
    moved_bytes,
    parted_table_for,
    parts_of,
    predicted_tiles,
    row_bytes,
    steps_of,
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
    operands in a step; `shares_a` and `shares_b`: it shares them with others. `least_hbm` is the least of the table's
    `hbm_time`. `loads` has what `loading` gave.
    """

    table: TileTable
    along_m: Any
    along_n: Any
    rows_of_a: Any
    rows_of_b: Any
    shares_a: Any
    shares_b: Any
    least_hbm: float
    loads: dict[tuple[float, float], tuple[Any, Any]]

    def tiles(self, problem: Problem) -> Any:
        """How many there are in each configuration."""
        tiles = np.ceil(problem.m / self.along_m) * np.ceil(problem.n / self.along_n)
        return tiles if problem.batch == 1 else tiles * problem.batch

    def loading(self, a_row: float, b_row: float, device: Device, costs: TileCosts) -> tuple[Any, Any]:
        """Cycles of a step at least, and those of what L2 brings while all SMs ask; rows of operands count so many bytes."""
        found = self.loads.get((a_row, b_row))
        if found is None:
            together = costs.read_together, costs.read_together_unaligned, costs.read_together_across
            table, least = self.table, MOST_TOGETHER ** -max(together)
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
    return Bounds(
        table, np.where(turned, table.wide, table.high), np.where(turned, table.high, table.wide),
        np.where(turned, column_share, table.row_share), np.where(turned, table.row_share, column_share),
        np.where(turned, table.alone_high, table.alone_wide) > 0, np.where(turned, table.alone_wide, table.alone_high) > 0,
        float(table.hbm_time.min()), {},
    )


@lru_cache(maxsize=256)
def _bounds(kind: Problem, device: Device, costs: TileCosts) -> Bounds:
    return bounds_of(parted_table_for(kind, device, costs), kind.by_k)


def least_working(bounds: Bounds, problem: Problem, device: Device, costs: TileCosts, tiles: Any, split: Any) -> Any:
    """Cycles that tiles work at least, `tiles` of them for each configuration, the last ones in `split` parts of K.

    A wave takes its steps and an epilogue; a step takes at least its products, what L2 needs for what it brings to all
    that are busy, and its part of the time that a stage is on its way. Sums of parts are stored and added.
    """
    table, steps, filled = bounds.table, steps_of(problem), tiles / bounds.table.slots
    full = np.floor(filled)
    waves = full + np.ceil(steps / split) / steps
    a_row, b_row = (_least_row(along, problem, costs) for along in problem.by_k)
    least, loads = bounds.loading(a_row, b_row, device, costs)
    latency = (costs.latency + costs.latency_missed * _bytes(problem, costs)[2]) / table.asked_ahead
    body = np.maximum(np.maximum(least, loads * np.minimum(filled * split, 1.0)), latency)
    sums = table.results * (4 / costs.sums_stored + (split - 1) * (4 / costs.sums_added))
    return waves * steps * (body + table.step) + (full + 1) * table.ending + sums


def _least_row(along: bool, problem: Problem, costs: TileCosts) -> float:
    """What a row of a stage counts at least, in bytes: across K, wherever it begins."""
    if along:
        return row_bytes(True, problem.k, problem.itemsize, costs)
    return min(row_bytes(False, size, 1, costs) for size in (H200.line_bytes, H200.sector_bytes, 1))


def working_below(bounds: Bounds, problem: Problem, costs: TileCosts, took: float) -> float:
    """How many cycles tiles may work at most if a product is to take no longer than `took`: HBM works beside them."""
    read, written, missed = _bytes(problem, costs)
    larger = problem.batch * problem.k * max(problem.m, problem.n) * problem.itemsize
    asked = read - larger * kept_parts(larger, written) / HINTED_PARTS
    power = 8 if costs.sharpness == 8 else 4
    streamed = (asked * missed + written) / max(costs.hbm, costs.hbm_streamed) * bounds.least_hbm
    left = ((took - costs.launch) * SLACK) ** power - streamed**power if took > costs.launch else 0.0
    return max(0.0, left) ** (1 / power) * (costs.clock * SLACK)


def _bytes(problem: Problem, costs: TileCosts) -> tuple[int, int, float]:
    """What a product reads and writes, and which part of it L2 has not."""
    read, written = moved_bytes(problem)
    return read, written, min(1.0, (read + written) / costs.kept_bytes)


def quickest_parted(problem: Problem, device: Device, below: float) -> tuple[MatmulConfig, float] | None:
    """The quickest configuration with parts of K, and its microseconds, if these are fewer than `below`; else None."""
    costs = costs_of(problem)
    longest = longest_split(problem, costs)
    if longest < 2:
        return None
    bounds = _bounds(problem.kind(), device, costs)
    table, tiles = bounds.table, bounds.tiles(problem)
    parts = parts_of(table, tiles, longest)
    working = least_working(bounds, problem, device, costs, tiles, np.maximum(parts, 1))
    rows = np.flatnonzero((parts >= 2) & (working <= working_below(bounds, problem, costs, below)))
    if not len(rows):
        return None
    columns = {each.name: getattr(table, each.name)[rows] for each in fields(table) if each.name != "configs"}
    some = TileTable(configs=(), **{**columns, "split": parts[rows]})
    took = predicted_tiles(some, problem, device, costs)
    place = int(np.argmin(took))
    if took[place] >= below:
        return None
    row = int(rows[place])
    return replace(table.configs[row], split=int(parts[row])), float(took[place])


__all__ = ["Bounds", "bounds_of", "least_working", "quickest_parted", "working_below"]
