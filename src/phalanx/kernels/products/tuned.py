"""`config="tune"` of `px.kernels.matmul`: the most promising configurations, measured where the product runs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from phalanx.kernels.matrices import refused
from phalanx.kernels.products.matmul_config import is_wide, suited
from phalanx.kernels.products.matmul_cuts import MatmulConfig, Problem
from phalanx.kernels.products.split_config import MOST_ROWS, SplitConfig, counted, predicted_all, table_for
from phalanx.kernels.products.split_config import suited as split_suited
from phalanx.kernels.products.tile_model import config_at, predicted_parted, predicted_with_fitted
from phalanx.runtime.device.devices import Device
from phalanx.runtime.launch.launch_list import unrecorded
from phalanx.runtime.symbolic.numbers import current_trace
from phalanx.runtime.tuning.search import tune

TILES, PARTED, SPLITS = 12, 4, 3
"""Configurations that are measured: of tiles, of tiles that are cut along K, and of each side that may be split."""
ROUNDS = 3

Config = MatmulConfig | SplitConfig


def promising(problem: Problem, device: Device, splittable: bool) -> list[Config]:
    """The configurations that the models think are the quickest, each number of tiles of one height once."""
    found: dict[Any, Config] = {}
    tiles = predicted_with_fitted(problem, device)[:2]
    for most, predicted in ((TILES, tiles), (TILES + PARTED, predicted_parted(problem, device))):
        if predicted is None:
            continue
        table, took = predicted
        for index in np.argsort(took, kind="stable"):
            if len(found) == most or not np.isfinite(took[index]):
                break
            config = suited(config_at(table, int(index)), problem, device)
            kind = config.bm, config.swapped, config.cluster, config.tiles(problem), config.split
            found.setdefault(kind, config)
    configs = list(found.values())
    few, many = sorted((problem.m, problem.n))
    lies = problem.by_k if problem.m <= problem.n else problem.by_k[::-1]
    deep = is_wide(problem)
    if splittable and problem.batch == 1 and problem.itemsize == 2 and (deep or few <= MOST_ROWS):
        splits = table_for(few, lies[0], deep)
        order = np.argsort(counted(predicted_all(splits, few, many, problem.k, lies)), kind="stable")
        allowed = (splits.configs[index] for index in order)
        possible = [c for c in allowed if c.split <= -(-problem.k // c.bk)][:SPLITS]
        configs += [split_suited(config, few, many, problem.k) for config in possible]
    return configs


def product_with(
    a: Any, b: Any, bias: Any, out: Any, scale_a: Any, scale_b: Any, *, activation: str | None, dtype: str,
    splits_k: bool, **settings: Any
) -> Any:
    """A product in one configuration: what is measured."""
    matmul = sys.modules["phalanx.kernels.products.matmul"].matmul
    config = SplitConfig(**settings) if splits_k else MatmulConfig(**settings)
    kind = dtype if out is None else None
    return matmul(a, b, bias, activation, out, scale_a=scale_a, scale_b=scale_b, out_dtype=kind, config=config, tf32=True)


def measured(
    problem: Problem, device: Device, splittable: bool, arguments: tuple[Any, ...], activation: str | None, dtype: str
) -> Config:
    """The quickest of them, in bursts; a later call, also of another process, finds the answer on disk."""
    if current_trace() is not None:
        raise refused('config="tune" measures on a GPU, and this is no call on one', "pass a configuration, or none")
    configs = promising(problem, device, splittable)
    settings = [
        {"activation": activation, "dtype": dtype, "splits_k": isinstance(config, SplitConfig), **vars(config)}
        for config in configs
    ]
    with unrecorded():
        found = tune(product_with, settings, arguments, mode="burst", rounds=ROUNDS, isolate=False, quiet=True)
    return configs[settings.index(found.best)]
