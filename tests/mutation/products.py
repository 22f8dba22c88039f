"""Small launches of the library's matrix products, for their mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mutation.launches import Case
from phalanx.kernels.products import grouped, moe, split_k
from phalanx.kernels.products.group_tiles import planned
from phalanx.kernels.products.grouped_backward import group_gradients
from phalanx.kernels.products.grouped_split import grouped_split_ring
from phalanx.kernels.products.matmul_config import MatmulConfig
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm


def experts(*, gathers: bool, scatters: bool) -> Callable[[], Case]:
    """Two experts on one cluster, 3 steps along K through a ring of 2."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        x, w = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((150, 192), (2, 128, 192)))
        table = planned(np.array([100, 50], np.int32), x, 150, 2, 128)
        rows = rng.permutation(150).astype(np.int32)
        y = np.zeros((150, 128), np.float32 if scatters else x.dtype)
        args = [x, rows, w, y, table[:, :3].copy(), np.ones(150, np.float32)]
        constants = {"BM": 128, "BN": 64, "STAGES": 2, "GATHER": gathers, "SCATTER": scatters}
        return Case("expert_ring", moe.expert_ring[2], args, constants)

    return make


def multiplying(by_k: bool, *, scaled: bool = False, **form: Any) -> Callable[[], Case]:
    """Two tiles on one cluster of two, 3 steps along K through a ring of 2; `scaled`: with a bias, and scales of rows and
    columns."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        shapes = ((128, 192), (128, 192)) if by_k else ((192, 128), (192, 128))
        a, b = (rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in shapes)
        c = np.zeros((128, 128), ml_dtypes.bfloat16)
        config = MatmulConfig(64, 64 if by_k else 128, stages=2, cluster=(2, 1), group=1, parts=2, groups=1)
        settings = {**config.constants(), "form": ProductForm(by_k, by_k, **form)}
        vectors = [rng.standard_normal(128, np.float32) for _ in range(3)] if scaled else [None] * 3
        return Case("matmul_tiles", matmul_tiles[2, 1], [a, b, c, *vectors, None, None], settings)

    return make


def multiplying_in_parts() -> Case:
    """Three tiles on two CTAs, of which the last is cut into parts of 2 steps along K, through a ring of 2."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, 256), np.float32).astype(ml_dtypes.bfloat16) for size in (192, 64))
    config = MatmulConfig(64, 64, stages=2, cluster=(1, 1), group=1, parts=2, groups=1, split=2)
    args = [a, b, np.zeros((192, 64), a.dtype), *[None] * 4, np.full(2 * 64 * 64, np.nan, np.float32)]
    return Case("matmul_tiles", matmul_tiles[2, 1], args, config.constants())


def splitting_across() -> Case:
    """Rows that lie across K: two CTAs fetch 32 of a step's 64 rows of K each, a panel and 16 columns of the next."""
    config = split_k.SplitConfig(80, 64, 1, 2, cn=2, groups=1, across=True)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((192, 80), (128, 192)))
    c = np.zeros((80, 128), a.dtype)
    settings = {**config.constants(), "A_ROWS": False}
    return Case("split_ring", split_k.split_ring[config.grid(80, 128)], [a, b, c, c], settings)


def multiplying_across() -> Case:
    """Columns that lie across K and are shared: 32 rows of K from each of two CTAs, a panel and 16 columns of the next."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((128, 192), (192, 80)))
    config = MatmulConfig(64, 80, stages=2, cluster=(2, 1), group=1, parts=1, groups=1)
    c = np.zeros((128, 80), a.dtype)
    settings = {**config.constants(), "form": ProductForm(b_by_k=False)}
    return Case("matmul_tiles", matmul_tiles[2, 1], [a, b, c, None, None, None, None, None], settings)


def splitting(**settings: Any) -> Callable[[], Case]:
    """A tile of 16 or 32 rows and 64 columns, 3 or 4 steps along K for each CTA through rings of 2 or 3."""

    def make() -> Case:
        config = split_k.SplitConfig(**{"bm": 16, "bn": 64, "split": 2, "stages": 2, "groups": 1, "pieces": 2, **settings})
        rng = np.random.default_rng(0)
        rows, columns, steps = config.bm * config.cm, 64 * config.cn, 3 * config.split + 1
        a, b = (rng.integers(-3, 4, (size, 64 * steps)).astype(ml_dtypes.bfloat16) for size in (rows, columns))
        c = np.zeros((rows, columns), a.dtype)
        return Case("split_ring", split_k.split_ring[config.grid(rows, columns)], [a, b, c, c], config.constants())

    return make


def groups(cm: int, cn: int) -> Callable[[], Case]:
    """Three groups, one of them empty, on one cluster that takes several tiles, 3 steps along K through a ring of 2."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        x, w = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((270, 192), (3, 64, 192)))
        table = planned(np.array([200, 0, 70], np.int32), x, 270, 3, 128 * cm)
        config = grouped.GroupedConfig(bn=64, stages=2, cm=cm, cn=cn, band=2)
        args = [x, w, np.zeros((270, 64), x.dtype), table[:, :4].copy(), table]
        return Case("grouped_ring", grouped.grouped_ring[cm, cn], args, config.constants())

    return make


def groups_of_few_rows() -> Case:
    """Three groups, one of them empty, of one and two pieces; two CTAs split K, two share the rows."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((50, 448), (3, 128, 448)))
    config = split_k.SplitConfig(32, 64, 2, 2, cn=2, groups=1, pieces=2)
    table = planned(np.array([30, 0, 16], np.int32), x, 50, 3, config.bm)
    args = [x, w, np.zeros((50, 128), x.dtype), table[:, :4].copy(), table]
    return Case("grouped_split_ring", grouped_split_ring[2, 2, 3], args, config.constants())


def turned_groups() -> Case:
    """As `groups`, with weights that lie along the columns of the result."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((270, 192), (3, 192, 128)))
    table = planned(np.array([200, 0, 70], np.int32), x, 270, 3, 128)
    config = grouped.GroupedConfig(bn=64, stages=2, cm=1, cn=2)
    args = [x, w, np.zeros((270, 128), x.dtype), table[:, :4].copy(), table]
    return Case("grouped_ring", grouped.grouped_ring[1, 2], args, {**config.constants(), "TURNED": True})


def gradients_of_groups() -> Case:
    """A tile of each of two groups, whose last steps end inside of a box, through a ring of 2."""
    rng = np.random.default_rng(0)
    d, x = (rng.integers(-3, 4, (150, columns)).astype(ml_dtypes.bfloat16) for columns in (128, 64))
    args = [d, x, np.array([88, 62], np.int32), np.zeros((2, 128, 64), d.dtype)]
    return Case("group_gradients", group_gradients[1, 1, 2], args, {"GROUPS": 2, "BN": 64, "BK": 32, "STAGES": 2})


PRODUCTS: dict[str, Callable[[], Case]] = {
    "expert_ring, gathering": experts(gathers=True, scatters=False),
    "expert_ring, scattering": experts(gathers=False, scatters=True),
    "matmul_tiles": multiplying(by_k=True),
    "matmul_tiles, in parts": multiplying_in_parts,
    "matmul_tiles, transposed": multiplying(by_k=False, tma_store=False),
    "matmul_tiles, scaled": multiplying(
        by_k=True, scaled=True, bias_kind="row", scale_rows=True, scale_columns=True, activation="relu"
    ),
    "split_ring": splitting(stages=3, ahead=1),
    "split_ring, 3 into the ring": splitting(bm=32, pieces=4, split=3, stages=3, reuse=True),
    "split_ring, sharing": splitting(cn=2),
    "split_ring, across K": splitting_across,
    "matmul_tiles, across K": multiplying_across,
    "grouped_ring, columns": groups(1, 2),
    "grouped_ring, rows": groups(2, 1),
    "grouped_ring, turned": turned_groups,
    "grouped_split_ring": groups_of_few_rows,
    "group_gradients": gradients_of_groups,
}
