"""Which kernel multiplies, and how it cuts the product: `choose` among tiles, `split_side` between tiles and split K."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from phalanx.kernels.products.matmul_cuts import PAIRS, MatmulConfig, Problem, candidates, complete, require_fits
from phalanx.kernels.products.split_config import MOST_ROWS, SplitConfig, best_split
from phalanx.kernels.products.tile_model import cycles_of, table_for, tabled
from phalanx.machines.h200 import H200
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import Device
from phalanx.runtime.device.devices import device as default_device


def cycles(problem: Problem, config: MatmulConfig, device: Device, costs: TileCosts = H200.tiles) -> float:
    """Cycles that the model thinks the product takes with one configuration, on a card with these costs."""
    return float(cycles_of(tabled([config], device, costs), problem, device, costs)[0])


@lru_cache(maxsize=1024)
def choose(problem: Problem, device: Device | None = None) -> MatmulConfig:
    """The configuration for a product: the default, unless the model thinks another is quicker by a margin.

    The default is a pair of CTAs with the first tile, the pair that fills fewer waves: 8192 x 11008 are 22 waves of
    (1, 2), since 43 columns of tiles do not come in pairs, and 21 of (2, 1). Both are well measured, so no margin is asked.
    Anyone may call it; no hardware is involved. Example: ``choose(Problem(4096, 4096, 4096)).bn == 256``.
    """
    on = device or default_device()
    table = table_for(problem.kind(), on)
    taken = cycles_of(table, problem, on)
    best = int(np.argmin(taken))
    default = int(np.argmin(taken[: len(PAIRS)]))  # the pairs of the first tile come first
    return table.configs[best if taken[best] < H200.tiles.margin * taken[default] else default]


def microseconds(problem: Problem, config: MatmulConfig, device: Device) -> float:
    """What a product takes that finds nothing in L2, as `split_config.predicted` says it of its own kernel.

    The cycles of its tiles, or its bytes from and to HBM. Where there are fewer tiles than SMs, each SM's share of the
    larger operand is the limit.
    """
    card = H200.split
    operands = problem.batch * problem.k * (problem.m + problem.n) * problem.itemsize
    moved = operands + problem.batch * problem.m * problem.n * problem.out_itemsize
    ctas = min(device.sms, config.tiles(problem) * config.cluster[0] * config.cluster[1])
    streamed = problem.batch * problem.k * max(problem.m, problem.n) * problem.itemsize / ctas
    waves = (cycles(problem, config, device) - H200.tiles.launch) / H200.clock
    return card.fixed + max(waves, moved / card.hbm, streamed / card.hbm_sm)


@lru_cache(maxsize=1024)
def split_choice(problem: Problem, device: Device | None = None) -> tuple[str, SplitConfig] | None:
    """Which side of a product has so few rows or columns that the kernel that splits K is the quicker one, and how.

    "rows": C = A @ B by `split_k_matmul(a, b)`; "columns": the transposed product, by `split_k_matmul(b.T, a.T)`; None:
    tiles. `H200.split_rows` and `H200.split_columns` are the rules of the two sides. A side qualifies if it has at most
    `most` rows or columns of 16 bits, and the other operand has at least `H200.streamed_bytes`. Up to `few` rows or columns
    are split; else the models decide: split if its predicted time is at most `allowed` times that of the best tiles.
    Anyone may call it; no hardware is involved. Example: ``split_choice(Problem(64, 8192, 8192))[0] == "rows"``.
    """
    if problem.batch != 1 or problem.itemsize != 2:
        return None
    on = device or default_device()
    tiles = None
    for side, rule, few, many, by_k in (
        ("rows", H200.split_rows, problem.m, problem.n, problem.by_k[0]),
        ("columns", H200.split_columns, problem.n, problem.m, problem.by_k[1]),
    ):
        if few > min(rule.most, MOST_ROWS, many) or many * problem.k * problem.itemsize < H200.streamed_bytes:
            continue
        config, took = best_split(few, many, problem.k, by_k)
        if few <= rule.few:
            return side, config
        tiles = microseconds(problem, choose(problem, on), on) if tiles is None else tiles
        if took + rule.stored * few * many <= rule.allowed * tiles:
            return side, config
    return None


def split_side(problem: Problem, device: Device | None = None) -> str | None:
    """Which side of a product `split_choice` splits: "rows", "columns" or None."""
    found = split_choice(problem, device)
    return None if found is None else found[0]


__all__ = [
    "MatmulConfig", "Problem", "candidates", "choose", "complete", "cycles", "microseconds", "require_fits", "split_choice",
    "split_side",
]
