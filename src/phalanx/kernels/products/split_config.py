"""How `split_k_matmul` spreads a product, and who decides: a model of a launch that comes alone, behind launches over other
operands, or behind another one like it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

import phalanx as px
from phalanx.frozen import frozen
from phalanx.ir.ops.tma import HINTED_PARTS
from phalanx.kernels.products.by_rows import EIGHT, ByRows
from phalanx.kernels.products.keeping import kept_parts, streaming_hint
from phalanx.kernels.products.matmul_cuts import PANEL, Problem, whole_panels
from phalanx.kernels.products.split_ring import ROWS_AT_ONCE
from phalanx.machines.h200 import H200
from phalanx.machines.model import SplitCosts
from phalanx.runtime.device.devices import Device
from phalanx.runtime.symbolic.choices import chosen_at_example, chosen_by_sizes

MOST_ROWS = 512
"""Rows of A that the kernel takes, at most."""


@frozen
class SplitConfig:
    """How a product is spread: a CTA makes partial sums of a tile of `bm` rows of A by `bn` rows of the weights.

    `split` CTAs of a cluster share K, `cn` column tiles share what they load of A, `cm` row tiles what they load of B.
    The tile's rows are summed up in `pieces`, in turn by the CTAs of the split. The ring of the weights has `stages`,
    that of A `ahead` fewer (or more, below 0). `reuse`: partial sums land in the memory of A's ring, after a signal that it
    is free. `across`: rows of A lie across K, so that the ring of A holds whole panels of them, of which only `bm` are
    multiplied. `kept`: so many sixteenths of the weights L2 is not told to let go first.
    """

    bm: int
    bn: int
    split: int
    stages: int
    bk: int = 64
    cn: int = 1
    cm: int = 1
    groups: int = 2
    pieces: int = 1
    reuse: bool = False
    ahead: int = 0
    across: bool = False
    kept: int = 0

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.split * self.cn * self.cm

    @property
    def weight_bytes(self) -> int:
        """Shared memory of the ring of weights."""
        return 2 * self.bk * self.bn * self.stages

    @property
    def held(self) -> int:
        """Rows of A that a stage of its ring has room for."""
        return whole_panels(self.bm) if self.across else self.bm

    @property
    def row_bytes(self) -> int:
        """Shared memory of the ring of A."""
        return 2 * self.bk * self.held * (self.stages - self.ahead)

    @property
    def summed_rows(self) -> int:
        """Rows of a tile that one CTA of the split sums up, at most."""
        return self.bm // self.pieces * px.cdiv(self.pieces, self.split)

    @property
    def inbox_bytes(self) -> int:
        """Shared memory for the partial sums that the other CTAs of the split send to one of them."""
        return 4 * (self.split - 1) * self.bn * self.summed_rows

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA, at most."""
        return self.bytes_with_rings(self.weight_bytes, self.row_bytes)

    def bytes_with_rings(self, weight_bytes: int, row_bytes: int) -> int:
        """Shared memory of a CTA whose rings have these bytes.

        Barriers and padding are counted with 1 KB; the rings and the inbox follow, then what the epilogue exchanges
        between threads, and what it holds of an f32 result beyond the memory of the weights.
        """
        inbox = self.inbox_bytes
        landing = max(0, inbox - row_bytes) if self.reuse else inbox
        return 1024 + 2 * ROWS_AT_ONCE * self.bn + max(weight_bytes, 4 * self.bn * self.summed_rows) + row_bytes + landing

    @property
    def hint(self) -> str:
        """What L2 is told of the weights."""
        return streaming_hint(self.kept)

    def constants(self) -> dict[str, SplitConfig]:
        """The constant of the kernels that split K."""
        return {"config": self}

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        """CTAs for a product of `m` rows and `n` columns: whole clusters along each axis."""
        return (
            self.split, px.cdiv(px.cdiv(n, self.bn), self.cn) * self.cn, px.cdiv(px.cdiv(m, self.bm), self.cm) * self.cm
        )


HEIGHTS = (8, 16, 24, *range(32, 257, 16))
"""Rows of a tile: the copy engine fills in those that are not there, at a seventh of the speed at which it loads others; but
every height is a kernel to compile."""
DEEP_HEIGHTS = tuple(range(48, 257, 16))
"""Rows of a tile where K is long: with tiles of few heights too few CTAs would have something to do."""
DEEP_WIDTHS = {64: 1, 128: 2, 192: 3}
"""Columns of their tiles, and the warpgroups that multiply them."""
DEEP_MOST_TALL = 160
"""Rows of a tile of three warpgroups: more need more registers than they have."""
DEEP_PIECES = 24
"""Pieces in which they are summed up, at most: with 32 they take seven seconds to compile."""
SHORT_RING = 320
"""Steps along K that a ring of weights holds: with fewer, weights that lie across K come late."""
MANY_ROWS, FEW_MISSING = 256, 8
"""Beyond so many rows a tile of which more than so many are not there takes longer than the model knows of: 419 x 2048 x
7168 in tiles of 112, 128 and 240 rows 28, 37 and 40 us instead of 21 to 25, but 512 rows in tiles of 128 no longer."""
SHARED_BY_CTAS = {ctas: H200.shared_bytes(ctas) for ctas in (1, 2)}
"""Shared memory of a CTA that has an SM to itself, and of one that shares it with another."""


@frozen
class SplitTable:
    """Configurations as arrays with an element for each: what does not depend on the sizes of a product.

    `cluster` are the CTAs of a cluster, of which an SM holds `per_sm`; it covers `high` rows and `wide` columns. A CTA
    fetches `weights` rows of them in a step, and has `ring` steps on their way. `summed` are the
    microseconds of a launch and of partial sums, `multiplied` those of a column of K of a tile, `ending` those of its
    results, by the state of L2 (`STATES`); `kept` the part of the weights that L2 is told to keep.
    """

    configs: tuple[SplitConfig, ...]
    fields: Any
    cluster: Any
    per_sm: Any
    high: Any
    wide: Any
    weights: Any
    ring: Any
    summed: tuple[Any, ...]
    multiplied: tuple[Any, ...]
    ending: tuple[Any, ...]
    kept: Any


BEHIND_OTHERS = replace(H200.warm_split, kept_from=1, kept_bytes=2, finds_kept=0.0)
"""The costs of a launch behind others: like those of one behind another like it, but L2 holds nothing of its operands."""
STATES = H200.split, BEHIND_OTHERS, H200.warm_split
"""How a launch may begin: alone, with nothing in L2; behind launches over other operands; or behind another one like it."""
SHARES = 1, 2, 1
"""How much each of these counts: of four launches so many."""
Times = tuple[float, ...]
"""Microseconds of a launch in each of these states."""


def tabled(configs: tuple[SplitConfig, ...], states: tuple[SplitCosts, ...] = STATES) -> SplitTable:
    """The table of some configurations."""
    fields = np.array([(c.bm, c.bn, c.split, c.stages, c.bk, c.cn, c.cm) for c in configs], np.float64).T
    bm, bn, split, stages, bk, cn, cm = fields
    groups, reuse = np.array([(c.groups, c.reuse) for c in configs], np.int64).T
    small = bm * bn // (64 * groups) <= 128  # so few sums that two CTAs have registers for them
    sharing = small & np.array([c.shared_bytes <= SHARED_BY_CTAS[2] for c in configs])
    inbox = np.array([c.inbox_bytes for c in configs], np.int64)
    summed = []
    multiplied = []
    ending = []
    for costs in states:
        sums = np.where(split > 1, inbox / costs.peer + costs.signal * (1 + reuse), 0.0)
        summed.append(costs.fixed + sums + np.where(cn * cm > 1, costs.sharing, 0.0))
        multiplied.append(2 * bm * bn / costs.tensor * np.where(groups == 1, costs.single_group_factor, 1.0))
        ending.append(bm * bn / costs.stored)
    return SplitTable(
        configs, fields, np.array([c.cluster for c in configs]), np.where(sharing, 2.0, 1.0), bm * cm, bn * cn, bn / cm,
        bk * stages, tuple(summed), tuple(multiplied), tuple(ending),
        np.array([c.kept / HINTED_PARTS for c in configs]),
    )


def predicted_all(
    table: SplitTable, m: int, n: int, k: int, by_k: tuple[bool, bool] = (True, True),
    states: tuple[SplitCosts, ...] = STATES, device: Device | None = None, *, suits: bool = False,
) -> Any:
    """Microseconds of a launch for each way in which it may begin, and in each configuration of a table, on a card with
    these costs.

    The slowest of six streams (operands from HBM to all SMs, weights to one, as many as the rings can hold, operands from L2
    to all SMs and, with rows that are not there, to one, products), times the waves of clusters, each with its results; then
    the partial sums from SM to SM, and the signals around them. `by_k`: whether A and the weights lie along K. `suits`: L2
    is told to keep as much of the weights as `suited` has it; else as the configurations themselves say.
    """
    bm, bn, split, _, bk, cn, _ = table.fields
    readers = np.ceil(m / table.high)
    columns = np.ceil(n / table.wide)
    weights = table.weights
    tiles = readers * columns
    at_once = _at_once(device or px.device())[table.cluster]
    waves = np.ceil(tiles / (at_once * table.per_sm))
    doubled = np.where(tiles > waves * at_once, 2.0, 1.0)  # on some SM
    part = np.ceil(np.ceil(k / bk) / split) * bk
    # Of the last tiles: rows of A, and rows of the weights, that are not there.
    missing = np.minimum(bm, readers * table.high - m) + np.minimum(weights, columns * table.wide - n)
    # Rows of A that column tiles share save L2 nothing that shows: 160 x 8192 x 8192 takes 51 us so, and 44 without.
    streamed = 2 * part * doubled
    nbytes = 2 * (k * (m + n) + m * n)
    times = np.empty((6, len(states), len(bm)))
    rest = np.empty((len(states), len(bm)))
    once = 1 / waves
    both = streamed * weights
    held = part / table.ring
    shared = table.cluster * tiles * part / waves
    again = (readers - 1) * once
    multiplied = part * doubled
    kept = _kept(m, n, k) / HINTED_PARTS if suits else table.kept
    for state, costs in enumerate(states):
        missed = min(1.0, max(0.0, nbytes - costs.kept_from) / (costs.kept_bytes - costs.kept_from))
        row, weight = (_line_factor(along, k if along else size, costs) for along, size in zip(by_k, (m, n)))
        from_hbm = 2 * n * k * missed * (1 + (costs.pushes - costs.finds_kept) * kept) / costs.hbm
        rows_from_hbm = 2 * m * k * missed / costs.hbm
        short = costs.short_rows_factor if not by_k[0] and PANEL < m < 2 * PANEL else 1.0
        of_row = short * row / costs.l2_sm
        of_weight = weight / costs.l2_sm
        of_missing = 1 / costs.zero_fill - 1 / costs.l2_sm
        # Rows that begin at no line take more requests, of which each of `cn` CTAs makes its part.
        row = short * np.maximum(row / cn, min(row, 1.0 if by_k[0] else costs.across_factor))
        times[:, state] = (
            (from_hbm + rows_from_hbm) * once + (costs.reread_factor * from_hbm) * again,
            both * (missed / costs.hbm_sm),
            held * (costs.latency + costs.latency_missed * missed),
            shared * (weights * (weight * 2 / costs.l2) + bm * (row * 2 / costs.l2)),
            streamed * (bn * of_weight + bm * of_row + missing * of_missing),
            multiplied * table.multiplied[state],
        )
        rest[state] = waves * doubled * table.ending[state] + (waves - 1) * costs.restart + table.summed[state]
    # Things that go on at once: as long as the longest takes, or somewhat longer.
    times *= times
    times *= times
    for state, costs in enumerate(states):
        powers = times[:, state]
        total = np.sqrt((powers * powers).sum(axis=0)) if costs.sharpness == 8 else powers.sum(axis=0)
        rest[state] += np.sqrt(np.sqrt(total)) * waves
    return rest


def _kept(m: int, n: int, k: int) -> int:
    """Sixteenths of the weights that L2 is to keep for a launch like this one: none where it keeps them all."""
    return kept_parts(2 * n * k, 2 * m * n) if 2 * (k * (m + n) + m * n) >= H200.few_tiles.streamed_from else 0


def _line_factor(along: bool, size: int, costs: SplitCosts) -> float:
    """What a byte of an operand counts that lies along K or across it, in rows of `size` elements of 16 bits."""
    pitch = 2 * size
    factors = 1.0, costs.unaligned_factor, costs.odd_factor
    factor = factors[0 if pitch % H200.line_bytes == 0 else 1 if pitch % H200.sector_bytes == 0 else 2]
    return factor if along else factor * costs.across_factor


def predicted(config: SplitConfig, m: int, n: int, k: int) -> float:
    """Microseconds of one configuration, with nothing in L2."""
    return float(predicted_all(tabled((config,)), m, n, k)[0][0])


@cache
def _at_once(device: Device) -> Any:
    """Clusters that run at once, by the CTAs of one."""
    return np.array([0, *(device.clusters(size) for size in range(1, 17))])


def candidates(m: int, k: int, a_rows: bool = True) -> Iterator[SplitConfig]:
    """Configurations worth comparing for a product with `m` rows, which lie along K or (not `a_rows`) across it."""
    for config in table_for(m, a_rows).configs:
        if config.split <= px.cdiv(k, config.bk):
            yield config


def table_for(m: int, a_rows: bool = True, deep: bool = False) -> SplitTable:
    """The table of all configurations for so many rows; `deep`: of products along a long K."""
    if deep:
        tallest = DEEP_HEIGHTS[-1]
        lowest = DEEP_HEIGHTS[0]
        shares = (px.cdiv(m, count) for count in range(px.cdiv(m, tallest), px.cdiv(m, lowest) + 1))
        heights = dict.fromkeys(next(height for height in DEEP_HEIGHTS if height >= share) for share in shares)
        return _deep_part(a_rows, _step(m), tuple(heights))
    counts = range(px.cdiv(m, 256), px.cdiv(m, 128) + 1)
    heights = dict.fromkeys(_height(px.cdiv(m, count)) for count in counts)
    return _table(tuple((bm, m > bm) for bm in heights), _step(m), a_rows)


def _step(m: int) -> int:
    """Columns of K in a stage: 128 halve the signals where HBM is the limit, 64 keep tensor cores busy where they are it."""
    return 128 if m <= 128 else 64


@cache
def _table(heights: tuple[tuple[int, bool], ...], bk: int, a_rows: bool) -> SplitTable:
    """All configurations with tiles of these heights, of which there is one or (True) several; preferred ones first.

    A product is always in flight when a stage is released.
    """
    made = []
    for (bm, several), bn, split, cn, cm in product(heights, (64, 128, 256), (1, 2, 3, 4, 6, 8), (1, 2), (1, 2)):
        if bn * bm > 128 * 256 or split * cn * cm > 8 or (a_rows and bm % (8 * cn)):
            continue
        if (cm > 1 and not several) or (not a_rows and cn > 1 and bm <= PANEL):
            continue
        plain = SplitConfig(
            bm, bn, split, 2, bk=bk, cn=cn, cm=cm, groups=1 if bn == 64 else 2, pieces=_pieces(bm, split),
            across=not a_rows,
        )
        for ctas, reuse in product(SHARED_BY_CTAS, (False, True) if split > 1 else (False,)):
            found = with_rings(replace(plain, reuse=reuse), ctas)
            if found is not None:
                made.append(found)
    return tabled(tuple(sorted(made, key=lambda config: (config.cluster, config.reuse, -config.weight_bytes))))


@cache
def _deep_table(a_rows: bool, bk: int) -> SplitTable:
    """All configurations for products along a long K, of any height: K is split as often as fills the SMs."""
    made = []
    for bm, (bn, groups), split, cn, cm in product(DEEP_HEIGHTS, DEEP_WIDTHS.items(), range(2, 9), (1, 2), (1, 2)):
        if split * cn * cm > 8 or bm * bn > 128 * 256 or (groups > 2 and bm > DEEP_MOST_TALL):
            continue
        if a_rows and bm % (8 * cn):
            continue
        pieces = _pieces(bm, split, DEEP_PIECES)
        plain = SplitConfig(bm, bn, split, 2, bk, cn, cm, groups, pieces, across=not a_rows)
        kinds = (with_rings(replace(plain, reuse=reuse), 1) for reuse in (False, True))
        made += [found for found in kinds if found is not None]
    return tabled(tuple(made))


@cache
def _deep_part(a_rows: bool, bk: int, heights: tuple[int, ...]) -> SplitTable:
    """The part of the table whose tiles have these heights: others have more rows that are not there."""
    table = _deep_table(a_rows, bk)
    places = np.flatnonzero(np.isin(table.fields[0], heights))
    values = ("cluster", "per_sm", "high", "wide", "weights", "ring", "kept")
    taken = {name: getattr(table, name)[places] for name in values}
    for name in ("summed", "multiplied", "ending"):
        taken[name] = tuple(of_state[places] for of_state in getattr(table, name))
    return SplitTable(tuple(table.configs[place] for place in places), table.fields[:, places], **taken)


def _height(m: int) -> int:
    return next(height for height in HEIGHTS if height >= m)


def _pieces(bm: int, split: int, most: int = 256) -> int:
    """Into how many pieces, powers of two of at least 8 rows, a tile is cut so that its CTAs sum up about as much each."""
    widths = [width for width in (128, 64, 32, 16, 8) if bm % width == 0 and bm <= width * most] if split > 1 else [bm]
    return bm // min(widths, key=lambda width: width * px.cdiv(bm // width, split))


@cache
def with_rings(config: SplitConfig, ctas: int) -> SplitConfig | None:
    """The configuration with rings that fit `ctas` times on an SM; None if they would be too short to hide a load's latency.

    Measured (15 shapes, cold): 112 KB of the weights, which come from HBM, or 96 beside 128 rows of A
    (`H200.split.weights_in_flight`). More in flight pushes more out of L2, and what was written there takes HBM's time on
    its way out. A, which comes from L2, has what is left, up to 640 columns.
    """
    card = H200.split
    shortest = max(3, (192 if ctas > 1 else 256) // config.bk)  # one is multiplied, one released, one on its way
    beside_rows = config.bm > 64 and config.bn == 64
    in_flight = (card.weights_in_flight_beside_rows if beside_rows else card.weights_in_flight) // ctas
    longest = max(shortest, px.cdiv(in_flight, 2 * config.bk * config.bn))
    of_weights = config.weight_bytes // config.stages
    of_rows = config.row_bytes // (config.stages - config.ahead)
    for stages, depth in product(range(longest, shortest - 1, -1), range(640 // config.bk, shortest - 1, -1)):
        if config.bytes_with_rings(of_weights * stages, of_rows * depth) <= SHARED_BY_CTAS[ctas]:
            return replace(config, stages=stages, ahead=stages - depth)
    return None


@chosen_at_example
def choose_split(m: int, n: int, k: int, a_rows: bool = True, b_rows: bool = True) -> SplitConfig:
    """The configuration for a product of (m, k) by (k, n), of `candidates` the one that `best_either_way` takes.

    In words: K split so far that the CTAs cover the SMs, and no further, since partial sums travel at a tenth of the
    speed of the operands; row tiles share the weights they read.
    Anyone may call it; no hardware is involved. Example: ``choose_split(64, 8192, 8192).split == 1``.
    """
    steps = px.cdiv(k, 64) * 64  # along K: those with as many have one choice, but that rows of whole lines are their own
    problem = Problem(m, n, k if k == steps else steps - 8, by_k=(a_rows, b_rows))
    return _choose_split(replace(problem, m=px.cdiv(m, 8) * 8) if a_rows else problem)


@chosen_by_sizes
def _choose_split(problem: Problem) -> SplitConfig:
    return CHOSEN.of(problem, px.device())


def _best_splits(problems: Sequence[Problem], device: Device) -> list[SplitConfig]:
    return [best_either_way(problem.m, problem.n, problem.k, *problem.by_k, device)[0] for problem in problems]


CHOSEN: ByRows[SplitConfig] = ByRows(_best_splits, MOST_ROWS // EIGHT)
"""The choices that were made, to look them up."""


def best_either_way(
    m: int, n: int, k: int, a_rows: bool, b_rows: bool, device: Device, deep: bool = False
) -> tuple[SplitConfig, Times]:
    """The configuration for a launch of which nobody knows how it begins, and its times in each state: that with the least
    product of them. `deep`: of those for products along a long K."""
    table = table_for(m, a_rows, deep)
    times = predicted_all(table, m, n, k, (a_rows, b_rows), device=device, suits=True)
    if not deep:
        times *= _allowed(table, m, k, b_rows)
    best = int(np.argmin(counted(times)))
    return suited(table.configs[best], m, n, k), tuple(map(float, times[:, best]))


def counted(times: Any) -> Any:
    """What a choice makes least: the product of the times in all states, as often as each counts."""
    alone, behind_others, behind_one_like_it = times
    first, second, third = SHARES
    return alone**first * behind_others**second * behind_one_like_it**third


def feeds_memory(config: SplitConfig, m: int, n: int) -> bool:
    """Whether the SMs that take part can ask for weights as fast as HBM brings them."""
    costs = BEHIND_OTHERS
    ctas = config.cluster * px.cdiv(m, config.bm * config.cm) * px.cdiv(n, config.bn * config.cn)
    return min(ctas, H200.sms) * costs.hbm_sm >= costs.hbm


def suited(config: SplitConfig, m: int, n: int, k: int) -> SplitConfig:
    """The configuration with what the sizes of a product decide: how much of its weights L2 keeps for a launch like it."""
    kept = _kept(m, n, k)
    return replace(config, kept=kept) if kept else config


def _allowed(table: SplitTable, m: int, k: int, b_rows: bool) -> Any:
    """What the times of a table count: 1, infinity where K is too short, more where a ring is, nobody shares panels or many
    rows are not there."""
    split = table.fields[2]
    bk = table.fields[4]
    cn = table.fields[5]
    factors = np.where(split > np.ceil(k / bk), np.inf, 1.0)
    if table.configs[0].across and PANEL < m < 2 * PANEL:
        factors[cn == 1] *= H200.split.alone_across_factor
    if not b_rows and m > 128:  # 192 x 5120 x 13824 with four stages: 78 us instead of the 46 that the model knows of
        factors[table.ring < SHORT_RING] *= H200.split.short_ring_factor
    if m > MANY_ROWS:
        factors[np.ceil(m / table.high) * table.high - m > FEW_MISSING] *= H200.split.missing_rows_factor
    return factors
