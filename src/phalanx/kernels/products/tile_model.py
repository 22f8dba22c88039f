"""A cost model of the tiles of a product, for all configurations at once: what `matmul_config.choose` decides by.

The cycles of a tile are those of its steps along K, in which tensor cores and L2 both work, and of its epilogue. A product
takes as many waves as its tiles fill clusters, each as long as one tile; it takes at least as long as its bytes take from
and to HBM. Where two things limit it at once, both show (`_beside`). What the model knows of a card is in
`phalanx.machines`.

All configurations that a kind of product allows (how operands lie, sizes of elements, what the epilogue holds) are one
table of arrays, made once: a new shape costs some fifty operations on arrays, not a thousand calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.ops import wgmma
from phalanx.kernels.products.matmul_cuts import STAGE_ROW_BYTES, MatmulConfig, Problem, possible, whole_panels
from phalanx.machines.h200 import H200
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import Device


@frozen
class TileTable:
    """Configurations as arrays with an element for each: what does not depend on the sizes of a product.

    `high` and `wide` are what a cluster covers of the product that it multiplies, `swapped` whether that is the transposed
    one; up to `alone_high` and `alone_wide` of it some CTAs have nothing to do. `row_share` and `column_share` are the rows
    and columns that a CTA fetches of it in a step, `panel_share` the columns where they come in panels; `tensor` the cycles of a step's products, `step` what comes on top, `ending` those of an epilogue.
    """

    configs: tuple[MatmulConfig, ...]
    swapped: Any
    high: Any
    wide: Any
    alone_high: Any
    alone_wide: Any
    ctas: Any
    slots: Any
    row_share: Any
    column_share: Any
    panel_share: Any
    tensor: Any
    step: Any
    ending: Any


def tabled(configs: Iterable[MatmulConfig], device: Device, costs: TileCosts) -> TileTable:
    """The table of some configurations, for a device with these costs."""
    found = tuple(configs)
    bm, bn, cm, cn, groups, parts, turned = np.array(
        [(c.bm, c.bn, *c.cluster, c.groups, c.parts, c.swapped) for c in found], np.float64
    ).T
    swapped, ctas = turned.astype(bool), cm * cn
    slots = np.array([max(1, device.clusters(int(size))) for size in ctas], np.float64)
    products = bm / wgmma.ROWS * (STAGE_ROW_BYTES // wgmma.STEP_BYTES)
    one = np.maximum(bn / costs.wgmma_columns, (wgmma.ROWS + bn) * wgmma.STEP_BYTES / costs.shared_rate)
    tensor = products * one * np.where(groups == 1, costs.single_group_factor, 1.0)
    step = costs.step + np.where(ctas > 2, costs.step_in_four, np.where(ctas > 1, costs.step_in_pair, 0.0))
    ending = costs.epilogue + bm * bn / costs.epilogue_rate + costs.extra_part * np.maximum(0, parts - 2)
    panels = np.array([whole_panels(c.bn, c.cluster[0]) for c in found], np.float64)
    return TileTable(
        found, swapped, bm * cm, bn * cn, np.where(cm > 1, bm, 0), np.where(cn > 1, bn, 0), ctas, slots, bm / cn, bn / cm,
        panels / cm, tensor, step, ending,
    )


def _beside(x: Any, y: Any) -> Any:
    """Two things that go on at once: as long as the longer takes, or somewhat longer where both take about as long."""
    x2, y2 = x * x, y * y
    x4, y4 = x2 * x2, y2 * y2
    return np.sqrt(np.sqrt(np.sqrt(x4 * x4 + y4 * y4)))


def predicted_tiles(table: TileTable, problem: Problem, device: Device, costs: TileCosts = H200.tiles) -> Any:
    """Microseconds that the model thinks a product takes in each configuration of a table, behind another like it."""
    m, n, k, batch, itemsize = problem.m, problem.n, problem.k, problem.batch, problem.itemsize
    down, across = np.where(table.swapped, n, m), np.where(table.swapped, m, n)
    rows, columns = np.ceil(down / table.high), np.ceil(across / table.wide)
    tiles = rows * columns * batch
    busy = np.minimum(tiles, table.slots) * table.ctas
    odd = k * itemsize % H200.line_bytes != 0
    rate = np.minimum(costs.l2_rate_alone, costs.l2_rate * device.sms / busy)
    a_row, b_row = (
        STAGE_ROW_BYTES * (costs.across_factor if not along else costs.unaligned_factor if odd else 1.0)
        for along in problem.by_k
    )
    by_k_of_columns = np.where(table.swapped, problem.by_k[0], problem.by_k[1])
    column_share = np.where(by_k_of_columns, table.column_share, table.panel_share)
    row, column = np.where(table.swapped, b_row, a_row), np.where(table.swapped, a_row, b_row)
    body = _beside(table.tensor, (table.row_share * row + column_share * column) / rate)
    steps = -(-k * itemsize // STAGE_ROW_BYTES)
    missing = np.maximum(
        np.minimum(table.row_share, rows * table.high - down), np.minimum(column_share, columns * table.wide - across)
    )
    held_up = costs.ragged_factor * steps * np.maximum(0.0, missing * (STAGE_ROW_BYTES / costs.zero_fill) - body)
    waves = np.ceil(tiles / table.slots)
    cycles = waves * (steps * (table.step + body) + table.ending) + held_up
    larger = batch * k * max(m, n) * itemsize
    read, written = batch * k * (m + n) * itemsize, batch * m * n * problem.out_itemsize
    missed = min(1.0, (read + written) / costs.kept_bytes)
    alone = larger * missed / costs.hbm_sm / np.minimum(device.sms, busy)
    streamed = np.maximum((read * missed + written) / costs.hbm, alone)
    idle = (down <= table.alone_high) | (across <= table.alone_wide)
    return np.where(idle, np.inf, costs.launch + _beside(cycles / costs.clock, streamed))


@lru_cache(maxsize=256)
def table_for(problem: Problem, device: Device, costs: TileCosts = H200.tiles) -> TileTable:
    """The table of all configurations that a kind of product allows: `problem` is one of its kind, without sizes."""
    return tabled(possible(problem), device, costs)
