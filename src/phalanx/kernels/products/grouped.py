"""Products of groups of rows, each with its own weights: whole tiles leave by TMA, the last of a group row by row.

Rows are sorted by group. A table, made on the device, says for each tile of the output to which group it belongs, where
it begins and where the group ends; a cluster works on one tile of one group at a time.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import FLOATS, has_work, info_of, is_among, refused, require_config
from phalanx.kernels.products.activations import ACTIVATIONS, activate
from phalanx.kernels.products.fetching import peers
from phalanx.kernels.products.group_model import (
    expected_tiles,
    few_rows_config,
    few_rows_microseconds,
    ring_microseconds,
)
from phalanx.kernels.products.group_tiles import clusters_at_once, most_tiles, operands_of, planned, sizes_of, stored_result
from phalanx.kernels.products.grouped_blackwell import choose_grouped_blackwell, launch_groups
from phalanx.kernels.products.grouped_split import launch_few_rows
from phalanx.kernels.products.matmul_blackwell_config import BlackwellConfig
from phalanx.kernels.products.orders import grouped
from phalanx.kernels.products.split_config import SplitConfig
from phalanx.kernels.products.sums import sum_stages
from phalanx.kernels.products.targets import target_of
from phalanx.machines.h200 import H200
from phalanx.runtime.launch.replay import remembered
from phalanx.runtime.symbolic.choices import chosen_at_example, chosen_by_sizes
from phalanx.runtime.symbolic.numbers import is_exported

WEIGHT_BYTES = 2
EPILOGUE_COLUMNS = 16
"""Columns that pass through an epilogue at a time: their f32 values are held beside the accumulator."""


@px.kernel(warps=12, cluster=lambda CM, CN: (CM, CN), exit_sync=False, pdl=True)
def grouped_ring(
    A, W, Y, TABLE, BIAS, *, BM=128, BN=256, BK=64, CM=1, CN=2, STAGES=4, BAND=1, PARTS=2, BIASED=False, ACTIVATION=None,
    TURNED=False,
):
    """Y[i] = A[i] @ W[g].T for the rows i of every group g, CM x BM rows by CN x BN columns a cluster.

    With TURNED, for CM = 1, A[i] @ W[g]: the weights lie along the columns of the result, as those of a gradient do.
    The ring is no `px.pipe`, for the reason that `matmul_tiles.Tiles` gives.
    """
    x = px.cluster.rank(0)
    y = px.cluster.rank(1)
    same_rows, same_columns = peers(x, y, CM, CN)
    # Step 1: shared memory, and the tiles of this cluster.
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BK, BN) if TURNED else (STAGES, BN, BK), W.dtype)
    out = px.shared((2, BM // 2, BN // PARTS), Y.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    wait_for_prior_launch()
    steps = px.cdiv(A.shape[1], BK)
    rows = px.load(TABLE[3, 0])
    columns = px.cdiv(W.shape[2 if TURNED else 1], CN * BN)
    first = px.cluster.id()
    step = px.num_blocks(0) * px.num_blocks(1) // (CM * CN)
    ring = px.ring(STAGES)

    # Step 2: a warpgroup brings rows and weights of tile after tile.
    with px.warps(0, 4, regs=40):
        high = BM // CN
        wide = BN // CM  # this CTA's share of the tile's rows and columns
        for tile in range(first, rows * columns, step):
            i, j = grouped(tile, rows, columns, BAND)
            group = px.load(TABLE[0, i])
            m = px.load(TABLE[1, i]) + x * BM + y * high
            n = (j * CN + y) * BN + x * wide
            for k in range(0, steps * BK, BK):
                s = ring.stage
                empty[s].wait(ring.parity ^ 1)
                with full[s].transaction():
                    px.tma.load(
                        A[m : m + high, k : k + BK], a[s][y * high : y * high + high], full[s],
                        multicast=same_rows if CN > 1 else None,
                    )
                    if TURNED:
                        px.tma.load(W[group, k : k + BK, n : n + BN], b[s], full[s])
                    else:
                        px.tma.load(
                            W[group, n : n + wide, k : k + BK], b[s][x * wide : x * wide + wide], full[s],
                            multicast=same_columns if CM > 1 else None,
                        )
                ring.advance()
        for _ in range(STAGES):  # the peers' last releases have arrived: no CTA leaves while a signal is on its way to it
            empty[ring.stage].wait(ring.parity ^ 1)
            ring.advance()

    # Step 3: two warpgroups multiply; results leave in parts beside the next tile's first copies.
    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=232):
            top = c * BM // 2
            height = BM // 2
            width = BN // PARTS
            for tile in range(first, rows * columns, step):
                i, j = grouped(tile, rows, columns, BAND)
                m = px.load(TABLE[1, i]) + x * BM + top
                n = (j * CN + y) * BN
                end = px.load(TABLE[2, i])
                if m < end:
                    acc = sum_stages(a, b, full, empty, ring, steps, top, height, same_rows, same_columns, TURNED)
                    for part in px.static_range(0, BN, width):
                        px.tma.wait(0, read=True)  # the part before has left the buffer
                        piece = EPILOGUE_COLUMNS if BIASED or ACTIVATION is not None else width
                        for q in px.static_range(0, width, piece):
                            result = acc[:, part + q : part + q + piece]
                            if BIASED:
                                bias = px.load(BIAS[px.load(TABLE[0, i]), n + part + q : n + part + q + piece])
                                result = result + bias.to(px.f32).reshape(1, piece)
                            px.store(out[c][:, q : q + piece], activate(result, ACTIVATION, Y.dtype == px.bf16).to(Y.dtype))
                        px.fence.async_proxy()
                        if m + height <= end:
                            px.tma.store(out[c], Y[m : m + height, n + part : n + part + width])
                        else:  # the next group's rows are not this tile's to write
                            place = m + px.arange(height)
                            px.tma.scatter(out[c], px.where(place < end, place, -1), n + part, Y)
                        px.tma.commit()
                else:  # no row of the group: the stages pass by
                    for _ in range(steps):
                        full[ring.stage].wait(ring.parity)
                        empty[ring.stage].arrive(ctas=same_rows | same_columns)
                        ring.advance()
            px.tma.wait(0, read=True)


@frozen
class GroupedConfig:
    """A CTA computes tiles of `bm` x `bn`; clusters of `cm` x `cn` share rows of the weights and of x."""

    bm: int = 128
    bn: int = 256
    cm: int = 1
    cn: int = 2
    stages: int = 4
    band: int = 1
    parts: int = 2
    bk: int = 64

    def constants(self) -> dict[str, int]:
        """The kernel's constants of the same names, in capitals. All callers get the same dict, and must not change it."""
        return _constants(self)


SHARED_ROWS, SHARED_WEIGHTS = GroupedConfig(), GroupedConfig(cm=2, cn=1)
"""Configurations by what the two CTAs of a cluster share: rows of A, or weights."""


@cache
def _constants(config: GroupedConfig) -> dict[str, int]:
    return {name.upper(): value for name, value in asdict(config).items()}


NARROW = GroupedConfig(bn=128, stages=5, parts=1)
"""Twice as many tiles, for twice as many SMs."""


@chosen_at_example
def choose_grouped(rows: int, groups: int, n: int, k: int) -> GroupedConfig | SplitConfig:
    """The configuration for `rows` rows in `groups` groups, `n` columns and products along `k`.

    Tiles follow each other along the columns. Two CTAs of a cluster take two column tiles of the same rows, which wastes
    least at the end of a group, as long as L2 keeps a group's weights (for 4,096 x 4,096 1.07 times as fast as the other
    way). Larger weights are shared: the two take two row tiles of the same columns (for 14,336 x 4,096 1.19 times as
    fast). Few groups of few rows have too few such tiles: narrower ones, or those of `grouped_split_ring`, which has a
    `SplitConfig`, are taken where `group_model` gives them less time; not in exports, whose K may be too short to be split.
    Anyone may call it; no hardware is involved. Example: ``choose_grouped(2048, 32, 4096, 4096).cn == 2``.
    """
    card = H200.groups
    if not is_exported() and are_few(rows, groups, n, k):
        found = _choose_few(-(-rows // ROWS_APART) * ROWS_APART, groups, n, k)
        if found is not None:
            return found
    if n <= 256 or (rows >= card.middle_rows * groups and WEIGHT_BYTES * n * k > card.kept_bytes):
        return SHARED_WEIGHTS
    return SHARED_ROWS


def are_few(rows: int, groups: int, n: int, k: int) -> bool:
    """Whether a product has so few rows, for so many weights, that the time in which these come is what counts."""
    card = H200.groups
    return 0 < rows <= card.few_rows and WEIGHT_BYTES * groups * n * k >= card.least_bytes


ROWS_APART = 16
"""Rows in all that differ by less have one choice."""


@chosen_by_sizes
@cache
def _choose_few(rows: int, groups: int, n: int, k: int) -> GroupedConfig | SplitConfig | None:
    """The configuration for few rows, if it is not the usual one."""
    card = H200.groups
    waves = expected_tiles(rows, groups, SHARED_ROWS.bm) * px.cdiv(n, 2 * SHARED_ROWS.bn) / H200.clusters_at_once[2]
    if waves > card.most_waves:
        return None
    usual = ring_microseconds(rows, groups, n, k, SHARED_ROWS.bn)
    narrow = ring_microseconds(rows, groups, n, k, NARROW.bn)
    few = few_rows_config(rows, groups, n, k)
    took = few_rows_microseconds(rows, groups, n, k, few)
    if min(narrow, took) > card.margin * usual:
        return None
    return NARROW if narrow <= took else few


@remembered("x", "w", "group_sizes", "bias", "out", writes={"out": "out is not None"})
def grouped_matmul(
    x: Any, w: Any, group_sizes: Any, *, bias: Any = None, activation: str | None = None, out: Any = None,
    config: GroupedConfig | SplitConfig | BlackwellConfig | None = None, arch: str | None = None,
) -> Any:
    """Row i of the result is ``activation(x[i] @ w[g].T + bias[g])``, g the group of row i.

    The first group_sizes[0] rows are group 0, the next group_sizes[1] group 1, and so on; sizes may be 0, and rows
    behind the last group are left as they are. `x` (rows, K) and `w` (groups, N, K) bf16 or f16; `group_sizes` a list
    of ints or an i32 or i64 array on their device (not read by the host: nothing waits for the GPU); `bias` (groups, N)
    of any float type; `activation` "relu", "gelu", "gelu_tanh" or "silu". Sums are f32. `config` overrides the choice of
    `choose_grouped`, on Blackwell of `choose_grouped_blackwell`. sm_90a, or sm_100a and its kin (compiled and simulated,
    never run there), or the simulator, of the target that `arch` names. Example:
    ``y = grouped_matmul(x_sorted, w, [1000, 0, 24])``.
    """
    rows, weights = operands_of("x", x, w)
    height, k = rows.shape
    groups, n = weights.shape[:2]
    if not is_among(activation, ACTIVATIONS):
        raise refused(f"unknown activation {activation!r}", f"use one of {', '.join(map(str, ACTIVATIONS[1:]))}, or None")
    if bias is not None and info_of("bias", bias, FLOATS).shape != (groups, n):
        raise refused(f"bias has shape {tuple(bias.shape)}", f"pass one number per group and column: {(groups, n)}")
    sizes = sizes_of(group_sizes, groups, height, x)
    out = stored_result(x, out, (height, n), rows.dtype_name)
    if not has_work(height, groups, n):
        return out
    require_config(config, GroupedConfig, SplitConfig, BlackwellConfig)
    target = target_of(rows, arch, blackwell=isinstance(config, BlackwellConfig))
    if target.blackwell:
        cut = require_config(config, BlackwellConfig) or choose_grouped_blackwell(height, groups, n)
        launch_groups(x, None, w, out, sizes, height, cut, bias=bias, ACTIVATION=activation, **target.named)
        return out
    settings = require_config(config, GroupedConfig, SplitConfig) or choose_grouped(height, groups, n, k)
    if isinstance(settings, SplitConfig):
        launch_few_rows(x, w, out, sizes, settings, bias, activation, target.named)
        return out
    tall = settings.cm * settings.bm
    wide = settings.cn * settings.bn
    size = settings.cm * settings.cn
    table = planned(sizes, x, height, groups, tall)
    clusters = min(clusters_at_once(x, size), most_tiles(height, groups, tall) * px.cdiv(n, wide))
    grouped_ring[settings.cm * clusters, settings.cn](
        x, w, out, table, table if bias is None else bias, BIASED=bias is not None, ACTIVATION=activation,
        **settings.constants(), **target.named,
    )
    return out
