"""A cost model of the tiles of a product, for all configurations at once: what `matmul_config.choose` decides by.

The cycles of a tile are those of its steps along K, in which tensor cores and L2 both work, and of its epilogue. A product
takes as many waves as its tiles fill clusters, each as long as one tile; up to the last epilogues it takes at least as long
as its bytes take from and to HBM. Where two things limit it at once, both show (`beside`). What the model knows of a card
is in `phalanx.machines`.

All configurations that a kind of product allows (how operands lie, sizes of elements, what the epilogue holds) are one
table of arrays, made once: a new shape costs some hundred operations on arrays, not a thousand calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.ops import wgmma
from phalanx.ir.ops.tma import HINTED_PARTS
from phalanx.kernels.products.keeping import kept_parts
from phalanx.kernels.products.matmul_cuts import (
    MAX_STAGES,
    PANEL,
    STAGE_ROW_BYTES,
    MatmulConfig,
    Problem,
    fitted,
    fitted_width,
    possible,
    steps_of,
    whole_panels,
    with_parts,
)
from phalanx.machines.h200 import H200
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import Device

MOST_TOGETHER = 256
"""Clusters that ask for a line at about the same time, at most: no card has more."""


@frozen
class TileTable:
    """Configurations as arrays with an element for each: what does not depend on the sizes of a product.

    `high` and `wide` are what a cluster covers of the product that it multiplies, `swapped` whether that is the transposed
    one; up to `alone_high` and
    `alone_wide` of it some CTAs have nothing to do. `band` rows of clusters are worked on at a time; L2 puts requests of at
    most `asking_rows` clusters for the same rows together, of `asking_columns` for the same columns. `row_share` and
    `column_share` are the rows and columns that a CTA fetches of it in a step, `panel_share` what columns count as that come
    in panels, `row_sharers` and `column_sharers` how many CTAs fetch as many, which all of them get; `row_zeros` and
    `column_zeros` the cycles of each that is not there. `columns` is what a CTA multiplies, `asked_ahead` the stages that
    are on their way, `streamed` whether L2 is told not to keep an operand; `tensor` are the cycles of a step's products,
    `step` what comes on top, `ending` those of an epilogue. `results` are a CTA's of a tile, `split` the parts of K of
    those that fill no wave; `hbm_time` is what HBM takes longer or shorter. `starts` is where the second tile's panels
    begin, as `_begins` counts it.
    `lacking_rows` and `lacking_columns`: its CTAs have not as many whole panels each, but for one that two lack, where these
    lie across K.
    `counted` is what the time of a configuration counts, `kept` the part of a streamed operand that L2 keeps all the same,
    `area` the results of the tiles of a cluster, `uneven` what they take longer, along no K at all, for how they end.
    """

    configs: tuple[MatmulConfig, ...]
    swapped: Any
    high: Any
    wide: Any
    band: Any
    asking_rows: Any
    asking_columns: Any
    alone_high: Any
    alone_wide: Any
    ctas: Any
    slots: Any
    row_share: Any
    column_share: Any
    panel_share: Any
    row_sharers: Any
    column_sharers: Any
    row_zeros: Any
    column_zeros: Any
    columns: Any
    asked_ahead: Any
    streamed: Any
    tensor: Any
    step: Any
    ending: Any
    results: Any
    split: Any
    hbm_time: Any
    starts: Any
    lacking_rows: Any
    lacking_columns: Any
    counted: Any
    kept: Any
    area: Any
    uneven: Any

    def at(self, rows: Any, **others: Any) -> TileTable:
        """Some of its rows, without their configurations; `others` are columns in the place of its own."""
        taken = {name: values[rows] for name, values in vars(self).items() if name != "configs"}
        return TileTable(configs=(), **{**taken, **others})


def tabled(configs: Iterable[MatmulConfig], device: Device, costs: TileCosts) -> TileTable:
    """The table of some configurations, for a device with these costs."""
    found = tuple(configs)
    bm, bn, cm, cn, parts, stages, turned, band = np.array(
        [(c.bm, c.bn, *c.cluster, c.parts, c.stages, c.swapped, c.group) for c in found], np.float64
    ).T
    swapped = turned.astype(bool)
    ctas = cm * cn
    products = bm / wgmma.ROWS * (STAGE_ROW_BYTES // wgmma.STEP_BYTES)
    read = (wgmma.ROWS + bn) * wgmma.STEP_BYTES
    step = np.where(ctas > 2, costs.step_in_four, np.where(ctas > 1, costs.step_in_pair, 0.0))
    panels = np.array([whole_panels(c.bn) for c in found], np.float64)
    rows_zeros, columns_zeros = (
        STAGE_ROW_BYTES / np.where(sharers > 1, costs.zero_fill_shared, costs.zero_fill) for sharers in (cn, cm)
    )
    return TileTable(
        configs=found,
        swapped=swapped,
        high=bm * cm,
        wide=bn * cn,
        band=band,
        asking_rows=np.where(cn > 1, 1.0, MOST_TOGETHER),
        asking_columns=np.where(cm > 1, 1.0, np.minimum(band, MOST_TOGETHER)),
        alone_high=np.where(cm > 1, bm, 0),
        alone_wide=np.where(cn > 1, bn, 0),
        ctas=ctas,
        slots=np.array([max(1, device.clusters(int(size))) for size in ctas], np.float64),
        row_share=bm / cn,
        column_share=bn / cm,
        panel_share=(bn + costs.narrow_panels * (panels - bn)) / cm,
        row_sharers=cn,
        column_sharers=cm,
        row_zeros=rows_zeros,
        column_zeros=columns_zeros,
        columns=bn,
        asked_ahead=np.minimum(stages, MAX_STAGES) - costs.held_stages,
        streamed=np.array([c.streamed is not None for c in found]),
        tensor=products * np.maximum(bn / H200.wgmma_columns, read / H200.shared_rate),
        step=step + np.where(cm > 1, costs.step_shared_columns, 0.0),
        ending=costs.epilogue + bm * bn / costs.epilogue_rate + costs.further_part * (parts - 1),
        results=bm * bn,
        split=np.array([c.split for c in found], np.float64),
        hbm_time=np.where(ctas > 2, costs.hbm_in_four, 1.0),
        starts=np.array([_begins(c.bn * STAGE_ROW_BYTES // c.bk) for c in found]),
        lacking_rows=bm % (cn * PANEL) > 0,
        lacking_columns=-bn % (cm * PANEL) > np.where(cm > 1, PANEL, 0),
        counted=np.where(ctas > 1, 1.0, costs.alone_factor),
        kept=np.array([c.kept / HINTED_PARTS for c in found]),
        area=bm * cm * bn * cn,
        uneven=_uneven(bn, swapped, costs),
    )


@lru_cache(maxsize=64)
def _together(exponent: float) -> Any:
    """What a byte counts, by how many ask for it at about the same time."""
    return np.maximum(np.arange(MOST_TOGETHER + 1), 1.0) ** -exponent


def eighth_power(x: Any) -> Any:
    x2 = x * x
    x4 = x2 * x2
    return x4 * x4


def fourth_power(x: Any) -> Any:
    x2 = x * x
    return x2 * x2


def _remainder(x: Any, divisor: Any) -> Any:
    """``x % divisor`` of whole numbers, which takes NumPy three times as long."""
    return x - np.floor(x / divisor) * divisor


def beside(*powers: Any) -> Any:
    """Things that go on at once, from the eighth powers of their times: as long as the longest takes, or somewhat longer."""
    total = powers[0]
    for power in powers[1:]:
        total = total + power
    return np.sqrt(np.sqrt(np.sqrt(total)))


def costs_of(problem: Problem) -> TileCosts:
    """What is known of the card for products of this size."""
    results = problem.m * problem.n * problem.batch
    if results <= H200.few_results:
        return H200.few_tiles
    if problem.itemsize != 2:
        return H200.short_tiles if steps_of(problem) <= H200.short_steps else H200.large_tiles
    return H200.middle_tiles if results * problem.k <= H200.middle_products else H200.large_tiles


def moved_bytes(problem: Problem) -> tuple[int, int]:
    """What a product reads and what it writes, each operand and the result once."""
    m = problem.m
    n = problem.n
    k = problem.k
    batch = problem.batch
    return batch * k * (m + n) * problem.itemsize, batch * m * n * problem.out_itemsize


def streaming_readers(problem: Problem, costs: TileCosts) -> int:
    """How many tiles may read the larger operand of a product if L2 need not keep it; 0: it is to be kept in any case.

    A product that fits L2 may find its operands there. Matrices of a batch follow each other: each is read by one tile.
    """
    if sum(moved_bytes(problem)) < costs.streamed_from:
        return 0
    return costs.streamed_readers if problem.batch == 1 else 1


@frozen
class Sizes:
    """What the model asks of the sizes of a product; arrays for several products that differ in their rows alone.

    `m` and `n` are rows and columns, `results` all of them; `wide`: there are no fewer columns than rows. `read` and
    `written` are its bytes, `larger` those of its larger operand, `missed` the part of them that L2 has not. `readers` is
    what `streaming_readers` says, `kept` the part that L2 keeps of an operand that it need not keep. Rows of a stage of A
    and B count `a_row` and `b_row` bytes; across K the operands' rows begin as `a_begins` and `b_begins` count it.
    """

    m: Any
    n: Any
    results: Any
    wide: Any
    read: Any
    written: Any
    larger: Any
    missed: Any
    readers: Any
    kept: Any
    a_row: Any
    b_row: Any
    a_begins: Any
    b_begins: Any

    def at(self, places: Any) -> Sizes:
        """The sizes of the products at `places`; of one product alone, its own."""
        return self if isinstance(self.m, float) else Sizes(*[values[places] for values in vars(self).values()])

    @property
    def columns(self) -> Sizes:
        """The sizes as column vectors: what is computed of them and a table's rows has a row for each product."""
        return self.at((slice(None), None))


def sizes_of(problem: Problem, costs: TileCosts, found: float = 0.5) -> Sizes:
    """The sizes of one product; `found`: the part of its launches that find in L2 what another like it has left there."""
    m = problem.m
    n = problem.n
    k = problem.k
    itemsize = problem.itemsize
    read, written = moved_bytes(problem)
    larger = problem.batch * k * max(m, n) * itemsize
    a_row, b_row = (row_bytes(k if along else size, itemsize, costs) for along, size in zip(problem.by_k, (m, n)))
    return Sizes(
        float(m), float(n), m * n * problem.batch, n >= m, read, written, larger,
        1 - found * (1 - min(1.0, (read + written) / costs.kept_bytes)), streaming_readers(problem, costs),
        kept_parts(larger, written) / HINTED_PARTS, a_row, b_row, _begins(m * itemsize), _begins(n * itemsize),
    )


def sizes_of_all(problems: Sequence[Problem], costs: TileCosts) -> Sizes:
    """The sizes of several products, or of one."""
    found = [sizes_of(problem, costs) for problem in problems]
    return found[0] if len(found) == 1 else Sizes(*map(np.array, zip(*[vars(sizes).values() for sizes in found])))


def predicted_tiles(
    table: TileTable, problem: Problem, device: Device, costs: TileCosts, *, suits: bool = True, keeps: bool = True,
    sizes: Sizes | None = None,
) -> Any:
    """Microseconds that the model thinks a product takes in each configuration of a table, behind another launch.

    `suits`: L2 is told what it need not keep, and what lies all outside an array is not asked for, as `matmul_config.suited`
    has it; else as the configurations themselves say, with zeros for all that is not there. `keeps`: so is what L2 keeps of
    an operand that it need not keep; else that is as the configurations say. `sizes` are those of other products, which
    differ from `problem` in their rows alone: as columns, of each in all configurations, or one for each configuration.
    """
    k = problem.k
    batch = problem.batch
    itemsize = problem.itemsize
    sizes = sizes_of(problem, costs) if sizes is None else sizes
    m = sizes.m
    n = sizes.n
    read = sizes.read
    written = sizes.written
    larger = sizes.larger
    missed = sizes.missed
    down = np.where(table.swapped, n, m)
    across = np.where(table.swapped, m, n)
    rows = np.ceil(down / table.high)
    columns = np.ceil(across / table.wide)
    tiles = rows * columns * batch
    steps = steps_of(problem)
    splits = bool(table.split.max() > 1)
    if splits:
        full = np.floor(tiles / table.slots)
        units = full * table.slots + (tiles - full * table.slots) * table.split
        waves = full + np.ceil((units - full * table.slots) / table.slots) * np.ceil(steps / table.split) / steps
    else:
        units = tiles
        waves = np.ceil(tiles / table.slots)
    at_once = np.minimum(units, table.slots)
    busy = at_once * table.ctas
    unasked = device.sms / np.minimum(device.sms, busy)
    # SMs that do not ask leave the others more of L2, but not all of theirs.
    rate = np.minimum(costs.l2_rate_alone, costs.l2_rate * np.sqrt(unasked))
    by_panels = np.where(table.swapped, not problem.by_k[0], not problem.by_k[1])
    column_share = np.where(by_panels, table.panel_share, table.column_share)
    row = np.where(table.swapped, sizes.b_row, sizes.a_row)
    column = np.where(table.swapped, sizes.a_row, sizes.b_row)
    if not all(problem.by_k):  # panels of tiles that do not begin at a line take two, wherever rows begin
        worst = np.maximum(table.starts, np.where(table.swapped, sizes.a_begins, sizes.b_begins))
        column = np.where(by_panels & (across > table.columns), np.array(_of_pieces(costs))[worst], column)
    # Rows that begin at no line arrive in more pieces, at each of those that share them.
    rows_there = table.row_share * table.row_sharers
    columns_there = column_share * table.column_sharers
    delivered = (rows_there * row + columns_there * column) / costs.delivered_rate
    if costs.read_together:
        # L2 brings a line once for several CTAs that ask for it at about the same time, unless each asks for some at once.
        asking = np.minimum(columns, np.ceil(at_once / np.minimum(rows, table.band)))
        ask_rows = np.minimum(asking, table.asking_rows).astype(np.intp)
        ask_columns = np.minimum(rows, table.asking_columns).astype(np.intp)
        whole = _begins(k * itemsize) == 0
        of_a, of_b = (
            _together(costs.read_together if along and whole else costs.read_together_broken) for along in problem.by_k
        )
        if of_a is of_b:
            row = row * of_a[ask_rows]
            column = column * of_a[ask_columns]
        else:
            row = row * np.where(table.swapped, of_b[ask_rows], of_a[ask_rows])
            column = column * np.where(table.swapped, of_a[ask_columns], of_b[ask_columns])
    loads = (table.row_share * row + column_share * column) / rate
    latency = (costs.latency + costs.latency_missed * missed) / table.asked_ahead
    all_there = eighth_power(table.tensor) + eighth_power(loads) + eighth_power(latency) + eighth_power(delivered)
    body = beside(all_there)
    # Of the last tiles: rows and columns that are not there, and so come as zeros.
    no_rows = rows * table.high - down
    no_columns = columns * table.wide - across
    if suits:
        no_rows = _remainder(no_rows, PANEL)
        no_columns = np.where(no_columns < PANEL, no_columns, PANEL / 2)
        if not all(problem.by_k):
            partly = _remainder(-across, table.columns)
            no_columns = np.where(by_panels, np.minimum(partly, _remainder(partly - table.columns, PANEL)), no_columns)
    no_rows = np.minimum(table.row_share, no_rows)
    no_columns = np.minimum(column_share, no_columns)
    there = loads - (no_rows * row + no_columns * column) / rate
    last = there + no_rows * table.row_zeros + no_columns * table.column_zeros
    held_up = steps * (beside(all_there, eighth_power(last)) - body) * (no_rows + no_columns > 0)
    ending = table.ending
    cycles = waves * steps * (table.step + body) + (np.ceil(units / table.slots) - 1) * ending
    if splits:
        held_up = held_up / table.split
        sums = 4 * table.results * table.split / costs.sums_rate
        ending = ending + np.where(table.split > 1, costs.split + sums, 0.0)
    cycles = cycles + held_up
    readers = np.where(table.swapped == sizes.wide, columns, rows)
    streams = (readers <= sizes.readers) if suits else table.streamed
    kept = larger * missed * np.where(streams, sizes.kept if keeps else table.kept, 0.0)
    from_hbm = (read * missed + written - kept) / costs.hbm * table.hbm_time * (1 + costs.hbm_unasked * (unasked - 1))
    idle = (down <= table.alone_high) | (across <= table.alone_wide)
    # Behind the last step nothing is left to be fetched: the last epilogue comes on top.
    working = np.sqrt(np.sqrt(fourth_power(cycles / costs.clock) + fourth_power(from_hbm)))
    took = costs.launch + working + ending / costs.clock
    if steps < costs.uneven_steps:
        took = took * (1 + (1 - steps / costs.uneven_steps) * table.uneven)
    took = took * counting_outside(tiles * table.area / sizes.results, costs)
    return np.where(idle, np.inf, took * table.counted)


def counting_outside(covered: Any, costs: TileCosts) -> Any:
    """How many times its microseconds a choice counts for tiles that have `covered` times as many results as the product."""
    return 1 + costs.wasted * (covered - 1)


def _uneven(width: Any, swapped: Any, costs: TileCosts) -> Any:
    """What tiles of these widths take longer, along no K at all, for how they end."""
    broken = costs.broken_lines * (~swapped & (width % PANEL > 0))
    return broken + costs.turned_tiles * swapped


def _begins(offset: int) -> int:
    """Where something begins that lies so many bytes behind a line of L2: 0 at a line, 1 at a sector, 2 elsewhere."""
    return 0 if offset % H200.line_bytes == 0 else 1 if offset % H200.sector_bytes == 0 else 2


def _of_pieces(costs: TileCosts) -> tuple[float, float, float]:
    """What a row of a stage counts, in bytes, by where pieces begin."""
    return STAGE_ROW_BYTES * 1.0, STAGE_ROW_BYTES * costs.unaligned_factor, STAGE_ROW_BYTES * costs.odd_factor


def row_bytes(size: int, itemsize: int, costs: TileCosts) -> float:
    """Bytes that a row of a stage counts, of an array whose rows have `size` elements."""
    return _of_pieces(costs)[_begins(size * itemsize)]


@lru_cache(maxsize=256)
def table_for(problem: Problem, device: Device, costs: TileCosts) -> TileTable:
    """The table of all configurations that a kind of product allows: `problem` is one of its kind, without sizes."""
    near = (config for config in possible(problem) if max(config.cluster) <= costs.longest_row)
    return tabled(near, device, costs)


@lru_cache(maxsize=256)
def parted_table_for(problem: Problem, device: Device, costs: TileCosts) -> TileTable:
    """The table of configurations whose last tiles are cut along K; into how many parts, a product's sizes decide."""
    whole = table_for(problem, device, costs).configs
    few = (config for config in whole if config.cluster[0] * config.cluster[1] <= costs.most_sharing)
    parted = (with_parts(config, problem, 2) for config in few)
    return tabled((config for config in parted if config is not None), device, costs)


def _lacks_panels(problem: Problem, costs: TileCosts) -> bool:
    """Whether what lacks panels is not allowed: along so short a K results take most of the time."""
    return steps_of(problem) < costs.lacking_steps and not all(problem.by_k)


def _lacking(table: TileTable, by_k: tuple[bool, bool]) -> Any:
    """Marks the configurations of a table that lack panels of operands that lie so."""
    rows, columns = (np.where(table.swapped, *lies) for lies in (by_k[::-1], by_k))
    return (table.lacking_rows & ~rows) | (table.lacking_columns & ~columns)


@lru_cache(maxsize=256)
def fitted_table_for(
    problem: Problem, width: int, across: int, device: Device, costs: TileCosts
) -> tuple[TileTable, int, Any]:
    """The table of a kind of product with tiles behind it whose width fits the result: one table costs one prediction.

    How many come before these, and which of all are not stored in more parts than others that fit.
    """
    general = table_for(problem, device, costs)
    found = tuple(fitted(problem, width, across))
    if not found:
        return general, len(general.configs), None
    fitting = tabled(found, device, costs)
    fitting = replace(fitting, uneven=costs.turned_tiles * fitting.swapped)  # where they end, the result does, too
    names = (each.name for each in fields(general) if each.name != "configs")
    joined = {name: np.concatenate((getattr(general, name), getattr(fitting, name))) for name in names}
    parts = np.array([config.parts for config in found])
    few = np.concatenate((np.ones(len(general.configs), bool), parts == parts.min()))
    return TileTable(configs=general.configs + found, **joined), len(general.configs), few


Comparison = tuple[Problem, tuple[int, int] | None, bool, bool, Device, TileCosts]
"""What decides which configurations a product is compared in: its kind, the width of tiles that fit it, whether K is too
short for more parts than are needed, and for what lacks panels; the device and its costs."""


def comparison(problem: Problem, device: Device) -> Comparison:
    """What decides of a product's configurations."""
    costs = costs_of(problem)
    short = steps_of(problem) <= H200.fitted.whole_steps
    return problem.kind(), fitted_width(problem), short, _lacks_panels(problem, costs), device, costs


@lru_cache(maxsize=512)
def compared(
    kind: Problem, width: tuple[int, int] | None, short: bool, lacking: bool, device: Device, costs: TileCosts
) -> tuple[TileTable, int, Any]:
    """The configurations without parts of K, how many of them are for any width, and which of all are allowed. Behind the
    former come those whose tiles are as wide as the result, or half of it, unless K is too short for halves.

    Along a short K those that are stored in more parts are not allowed: what more stages would bring is less than what the
    parts cost. Nor are, of those for any width, what lacks panels.
    """
    if width is None or (width[1] > 1 and short):
        table = table_for(kind, device, costs)
        few = None
        count = len(table.configs)
    else:
        table, count, few = fitted_table_for(kind, *width, device, costs)
    allowed = np.ones(len(table.configs), bool)
    if lacking:
        allowed[:count] = ~_lacking(table, kind.by_k)[:count]
    if short and few is not None:
        allowed &= few
    return table, count, allowed


def predicted_with_fitted(problem: Problem, device: Device) -> tuple[TileTable, Any, int]:
    """The configurations of `compared`, the microseconds that the model gives each, and how many are for any width. What is
    not allowed takes forever."""
    table, count, allowed = compared(*comparison(problem, device))
    return table, np.where(allowed, predicted_tiles(table, problem, device, costs_of(problem)), np.inf), count


def _tiles(table: TileTable, problem: Problem, sizes: Sizes | None = None) -> Any:
    """How many tiles, each of a whole cluster, a product has in each configuration of a table."""
    m, n = (problem.m, problem.n) if sizes is None else (sizes.m, sizes.n)
    down = np.where(table.swapped, n, m)
    across = np.where(table.swapped, m, n)
    return np.ceil(down / table.high) * np.ceil(across / table.wide) * problem.batch


def predicted_parted(problem: Problem, device: Device) -> tuple[TileTable, Any] | None:
    """Like `predicted_tiles`, with K cut into as many parts as fill a wave; None where parts would be too short.

    What has no such number takes forever.
    """
    costs = costs_of(problem)
    longest = longest_split(problem, costs)
    if longest < 2:
        return None
    table = parted_table_for(problem.kind(), device, costs)
    parts = parts_of(table, _tiles(table, problem), longest)
    table = replace(table, split=np.maximum(parts, 1))
    return table, np.where(parts < 2, np.inf, predicted_tiles(table, problem, device, costs))


def longest_split(problem: Problem, costs: TileCosts) -> int:
    """Into how many parts of K the last tiles of a product may be cut at most; fewer than 2: not at all."""
    if problem.m * problem.n * problem.batch > costs.split_results:
        return 0
    longest = steps_of(problem) // costs.shortest_part
    return min(longest, int(costs.most_parts)) if longest >= 2 else 0


def parts_of(table: TileTable, tiles: Any, longest: Any) -> Any:
    """As many parts as make the tiles that fill no wave fill one, for so many tiles of each configuration; 0 if none are
    left."""
    left = tiles % table.slots
    return np.where(left == 0, 0.0, np.minimum(np.floor(table.slots / np.maximum(left, 1)), longest))


def config_at(table: TileTable, row: int) -> MatmulConfig:
    """A configuration of a table, with its parts."""
    config = table.configs[row]
    parts = int(table.split[row])
    return config if config.split == parts else replace(config, split=parts)


def busy_microseconds(problem: Problem, device: Device) -> float:
    """What a product takes at least: the time of its multiplications if no SM ever waits, or of its bytes."""
    costs = costs_of(problem)
    nbytes = sum(moved_bytes(problem))
    return max(_multiplying(problem, device, costs), min(1.0, nbytes / costs.kept_bytes) * nbytes / costs.hbm)


def _multiplying(problem: Problem, device: Device, costs: TileCosts) -> float:
    """The time of a product's multiplications if no tensor core ever waits."""
    rate = wgmma.ROWS * H200.wgmma_columns * wgmma.STEP_BYTES / problem.itemsize * device.sms * costs.clock
    return problem.batch * problem.m * problem.n * problem.k / rate


def cold_microseconds(problem: Problem, warm: float, config: MatmulConfig) -> float:
    """What a product takes with nothing in L2, of which one behind another like it takes `warm` microseconds.

    Stages that L2 had now come from HBM, later: where a ring is short, tiles wait for them. What L2 is to keep, as `config`
    has it, pushes out more of what was written there before.
    """
    costs = costs_of(problem)
    nbytes = sum(moved_bytes(problem))
    larger = max(problem.m, problem.n) * problem.k * problem.batch * problem.itemsize
    passing = larger * (1 - config.kept / HINTED_PARTS) if config.streamed is not None else 0.0
    counted = nbytes + costs.cold_pushes * min(nbytes - passing, H200.written_bytes)
    took = float((warm**8 + (counted / H200.split.hbm) ** 8) ** 0.125)  # what was measured with nothing in L2
    later = costs.latency_missed * (1 - min(1.0, nbytes / costs.kept_bytes)) / (config.stages - costs.held_stages)
    waits = costs.cold_waits * steps_of(problem) / config.split * later / costs.clock
    return took + waits + costs.cold + (costs.cold_parts if config.split > 1 else 0.0)
