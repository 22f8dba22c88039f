"""A cost model of the tiles of a product, for all configurations at once: what `matmul_config.choose` decides by.

The cycles of a tile are those of its steps along K, each as long as the slowest of tensor cores, shared memory and L2
takes, and of its epilogue. A product takes as many waves as its tiles fill clusters, each as long as one tile, but at least
as long as its bytes take from and to HBM. What the model knows of a card is in `phalanx.machines`.

All configurations that a kind of product allows (how operands lie, sizes of elements, what the epilogue holds) are one
table of arrays, made once: a new shape costs some thirty operations on arrays, not a thousand calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.ops import wgmma
from phalanx.kernels.products.matmul_cuts import STAGE_ROW_BYTES, MatmulConfig, Problem, possible
from phalanx.machines.h200 import H200
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import Device


@frozen
class TileTable:
    """Configurations as arrays with an element for each: what does not depend on the sizes of a product.

    `high` and `wide` are what a cluster covers of the product that it multiplies, `swapped` whether that is the transposed
    one; `a_share` and `b_share` rows of the operands that a CTA fetches in a step; `tensor` cycles of a step's products;
    `ending` those of an epilogue; `sharing` CTAs of an SM.
    """

    configs: tuple[MatmulConfig, ...]
    swapped: Any
    bm: Any
    bn: Any
    high: Any
    wide: Any
    ctas: Any
    slots: Any
    m_share: Any
    n_share: Any
    tensor: Any
    ending: Any
    sharing: Any


def tabled(configs: Iterable[MatmulConfig], device: Device, costs: TileCosts) -> TileTable:
    """The table of some configurations, for a device with these costs."""
    found = tuple(configs)
    bm, bn, cm, cn, groups, parts, swapped, sharing = np.array(
        [(c.bm, c.bn, *c.cluster, c.groups, c.parts, c.swapped, c.ctas) for c in found], np.int64
    ).T
    ctas = cm * cn
    at_once = {size: max(1, device.clusters(int(size))) for size in np.unique(ctas)}
    slots = np.array([at_once[size] for size in ctas], np.int64)
    products = bm // wgmma.ROWS * STAGE_ROW_BYTES // wgmma.STEP_BYTES
    one = np.maximum(bn / costs.wgmma_columns, (wgmma.ROWS + bn) * wgmma.STEP_BYTES / costs.shared_rate)
    tensor = products * one * np.where(groups * sharing == 1, costs.single_group_factor, 1.0)
    ending = costs.epilogue + bm * bn / costs.epilogue_rate + costs.extra_part * np.maximum(0, parts - 2)
    rows, columns = bm / cn, bn / cm
    return TileTable(
        found, swapped.astype(bool), bm, bn, bm * cm, bn * cn, ctas, slots,
        np.where(swapped, columns, rows), np.where(swapped, rows, columns), tensor, ending, sharing,
    )


def cycles_of(table: TileTable, problem: Problem, device: Device, costs: TileCosts = H200.tiles) -> Any:
    """Cycles that the model thinks a product takes in each configuration of a table."""
    m, n, k, batch, itemsize = problem.m, problem.n, problem.k, problem.batch, problem.itemsize
    down, across = np.where(table.swapped, n, m), np.where(table.swapped, m, n)
    rows, columns = -(-down // table.high), -(-across // table.wide)
    tiles = rows * columns * batch
    busy = np.minimum(tiles, table.slots) * table.ctas
    line = H200.line_bytes
    a_cost = STAGE_ROW_BYTES * (costs.unaligned_factor if (k if problem.by_k[0] else m) * itemsize % line else 1.0)
    b_cost = STAGE_ROW_BYTES * (costs.unaligned_factor if (k if problem.by_k[1] else n) * itemsize % line else 1.0)
    rate = np.minimum(costs.l2_rate_alone, costs.l2_rate * device.sms / busy)
    fetched = (table.m_share * a_cost + table.n_share * b_cost) / rate
    steps = -(-k * itemsize // STAGE_ROW_BYTES)
    products = steps * (costs.step + np.maximum(table.tensor, fetched))
    waves = -(-tiles // table.slots)
    # Of two CTAs on an SM one stores while the other multiplies: an epilogue shows at the end alone.
    stored = np.where(table.sharing == 2, np.maximum(table.ending, waves * (table.ending - products)), waves * table.ending)
    return costs.launch + waves * products + stored


@lru_cache(maxsize=256)
def table_for(problem: Problem, device: Device, costs: TileCosts = H200.tiles) -> TileTable:
    """The table of all configurations that a kind of product allows: `problem` is one of its kind, without sizes."""
    return tabled(possible(problem), device, costs)
