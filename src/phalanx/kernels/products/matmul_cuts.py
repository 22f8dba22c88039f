"""How `px.kernels.matmul` may cut a product into tiles, and what a configuration has to hold to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from math import ceil

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.archs import SHARED_LIMIT
from phalanx.ir.ops.tma import HINTED_PARTS
from phalanx.kernels.products.keeping import streaming_hint
from phalanx.runtime.device.devices import Device

RESERVED_BYTES = 1024
"""Shared memory for barriers, alignment, and what vectors of the epilogue pass through; twice as much with a bias,
as `reserved_bytes` says."""
STAGE_ROW_BYTES = 128
"""Bytes of K that a stage holds of each row: a row of the widest swizzle."""
MAX_STAGES = 8
"""Most stages of the rings that are compared."""
DEEPEST = 10
"""Stages of a ring that had `MAX_STAGES`, where there is room: with nothing in L2, and where weights stream past it,
launches take up to 7% less, others as long as before; with 13 or 16 small ones take up to 7% more (`sweep_few.json`)."""
ENOUGH_STAGES = 4
"""A ring keeps at least this many stages where a tile is stored in one part."""
PART_BYTES = 36 * 1024
"""Shared memory that the epilogue may use."""
WIDTHS = (128, 64, 32)
"""Columns of a part of the epilogue: more would need more registers than there are."""
SPLIT_WIDTHS = (64, 32, 16)
"""Columns of a part of the epilogue where the sums of several parts of K are added up."""
MOST_SPLIT_RESULTS = 128 * 176
"""Results of one warpgroup that leave registers for those of other parts."""
MOST_SPLIT_TURNED_BY_THREE = 64 * 184
"""Results, beside sums of other parts, of one of three warpgroups, which turns them on their way to the store."""
MOST_SPLIT_PARTS = 6
"""Parts of the epilogue in which three warpgroups add up sums beside a bias: seven of 16 columns spill."""
MOST_COUNTED = 396
"""Warpgroups whose parts of K may be counted: of tiles that are fewer than the SMs, three each at most."""
SCALE_BYTES = 4
"""Size of an f32."""
MOST_GROUPS = 3
"""Warpgroups that multiply, each with columns' scales of its own."""
ROW_PADDING = 16
"""Bytes that are added to a row where a tile changes its layout through shared memory."""

HEIGHTS = ((128, 2), (256, 2), (192, 3), (64, 1))
"""Rows of a tile, and the warpgroups that multiply them; the default first."""
MOST_RESULTS = {1: 64 * 256, 2: 128 * 192, 3: 64 * 192}
"""Results of one warpgroup that its registers hold, by the warpgroups that multiply."""
MOST_BESIDE_ROWS = 64 * 256
"""Results of one warpgroup where a bias has rows, of which a part waits in registers."""
MOST_BESIDE_SCALES = 128 * 160
"""Results of one warpgroup where rows or columns have scales."""
WIDTHS_BY_ELEMENTS = 16, 8
"""Columns of a part of results that threads store themselves, one by one: `_spills_by_elements` says where."""
MOST_HELD = {1: 224 * 128, 2: 224 * 128, 3: 150 * 128}
"""Sums, and results on their way to the store, that a warpgroup's registers hold."""
MOST_TURNED = 32 * 128
"""Results of a part that is turned on its way to the store, behind a bias or an activation."""
PLAIN_WIDTHS = (256, 224, 192, 160, *range(128, 15, -8))
"""Columns of a tile, the default first: what cuts into parts of 32, or is stored in one."""
FITTED_WIDTHS = (136, 144, 152, 168, 176, 184, 200, 208, 216)
"""Columns of a tile that is as wide as the result, or half of it: up to 15% of a product that HBM limits is what
wider tiles lose, which have no room for a fourth stage, or two side by side (`sweep_narrow.json`)."""
FITTED = {1: (128, 2, (1, 2, 4)), 2: (256, 2, (1,))}
"""Their rows, warpgroups and CTAs along M that share columns, by how many lie side by side: of 13 products taller ones are
2 to 18% slower side by side with none, lower ones up to 30% slower in pairs (`sweep_narrow.json`)."""
SWAPPED_WIDTHS = tuple(range(16, 257, 8))
"""Rows of a swapped tile, which are the columns of the tensor cores."""
CLUSTERS = ((2, 1), (1, 2), (1, 1), (2, 2), (4, 1), (1, 4))
CLUSTERS_OF_FIRST = ((1, 2), (2, 1), (1, 1), (2, 2), (4, 1), (1, 4))
"""The clusters of the first tile. CTAs that share rows of A fetch more than those that share columns of B, 320 lines a step
instead of 256, and yet are 0.3% faster over six large products, 2% in bursts at 2048 x 2048 x 16384."""
LEAST_SHARED = 4
"""Rows or columns that CTAs of a cluster share in whole multiples. The swizzle's pattern has 8, but follows the address, so
that a share may begin within it. `least_shared` says where such shares are looked at: 8192 x 8192 x 8192 in pairs of
256 x 184 is 1.0% faster than without clusters (`energy.txt`)."""
LARGE_TILE = 128 * 256
"""Results of the first tile."""
PANEL = 64
"""Elements of 16 bits in a row of the widest swizzle: what lies across K comes in panels; the last may be narrower."""


@frozen
class MatmulConfig:
    """How a product is cut. A CTA computes `bm` x `bn` at a time with `groups` warpgroups, `bk` along K in a stage.

    `cluster` CTAs along M and N share operands; `group` rows of clusters are worked on at a time, which decides what L2
    holds; a tile is stored in `parts`. `swapped`: all this is said of the transposed product, so that `bm` counts columns
    of the result and `bn` its rows, of which there may be any multiple of 8. `streamed` is the operand that L2 need not
    keep, "rows" or "columns" of the product that is multiplied, but for `kept` sixteenths of it. `trimmed`: whether its
    rows, and its columns, come in pieces of 64, none of which is fetched from outside the array. `split`: K of the tiles
    that fill no wave is cut into as many parts, for different clusters.
    Example: ``matmul(a, b, config=MatmulConfig(128, 128, stages=6, parts=1))``.
    """

    bm: int = 128
    bn: int = 256
    bk: int = 64
    stages: int = 4
    cluster: tuple[int, int] = (1, 2)
    group: int = 16
    parts: int = 2
    groups: int = 2
    swapped: bool = False
    streamed: str | None = None
    trimmed: tuple[bool, bool] = (False, False)
    split: int = 1
    kept: int = 0

    @property
    def hint(self) -> str:
        """What L2 is told of the operand that is `streamed`."""
        return streaming_hint(self.kept)

    def constants(self) -> dict[str, MatmulConfig]:
        """The constant of the kernel `matmul_tiles` that says how the product is cut."""
        return {"config": self}

    def tiles(self, problem: Problem) -> int:
        """How many tiles, each of a whole cluster, the product has."""
        m, n = (problem.n, problem.m) if self.swapped else (problem.m, problem.n)
        return ceil(m / (self.bm * self.cluster[0])) * ceil(n / (self.bn * self.cluster[1])) * problem.batch

    def covered(self, problem: Problem) -> float:
        """How many times the results of a product all tiles together have: 1 if none of them has any outside."""
        area = self.bm * self.bn * self.cluster[0] * self.cluster[1]
        return self.tiles(problem) * area / (problem.m * problem.n * problem.batch)

    def clusters(self, device: Device) -> int:
        """How many clusters of this size run at once on a device."""
        return max(1, device.clusters(self.cluster[0] * self.cluster[1]))

    def cut_tiles(self, problem: Problem, device: Device) -> int:
        """How many of the tiles are cut into parts of K: those that fill no wave, if they are not too many to be counted."""
        left = self.tiles(problem) % self.clusters(device) if self.split > 1 else 0
        return left if left * self.cluster[0] * self.cluster[1] * self.groups <= MOST_COUNTED else 0

    def launched(self, problem: Problem, device: Device) -> int:
        """How many clusters have something to do."""
        return min(self.clusters(device), self.tiles(problem) + (self.split - 1) * self.cut_tiles(problem, device))

    def left_sums(self, problem: Problem, device: Device) -> int:
        """Sums that parts of tiles leave in global memory."""
        cm, cn = self.cluster
        return self.cut_tiles(problem, device) * self.split * cm * cn * self.bm * self.bn


@frozen
class Problem:
    """A product as the heuristic sees it: `batch` products of (m, k) and (k, n), and what the epilogue holds.

    `by_k` says for each operand whether it is contiguous along K. `matrix` is the size of an element of a bias with a
    row for each row of the result, else 0; `staged`: the result leaves by TMA stores;
    `vectors`: there are scales of rows or columns, which pass through shared memory. `per_byte` operands share
    `itemsize` bytes; `block` of them along K share a scale, 0: none do. `fused`: a bias or an activation follows.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    itemsize: int = 2
    out_itemsize: int = 2
    by_k: tuple[bool, bool] = (True, True)
    matrix: int = 0
    staged: bool = True
    vectors: bool = False
    per_byte: int = 1
    block: int = 0
    fused: bool = False

    def turned(self) -> Problem:
        """The transposed product."""
        return replace(self, m=self.n, n=self.m, by_k=self.by_k[::-1])

    def in_eights(self) -> Problem:
        """The product with M and N rounded up to multiples of 8, except where that would change a row of memory.

        Sides of tiles are multiples of 8, so that there are as many: sizes that differ by less than that have one choice.
        """
        m = -(-self.m // 8) * 8 if self.by_k[0] else self.m
        n = -(-self.n // 8) * 8 if self.by_k[1] else self.n
        # Whether they were such multiples already is not compared: that would be two ways of a plan.
        return self if m is self.m and n is self.n else Problem(
            m, n, self.k, self.batch, self.itemsize, self.out_itemsize, self.by_k, self.matrix, self.staged, self.vectors,
            self.per_byte, self.block, self.fused,
        )

    def kind(self) -> Problem:
        """The product without its sizes: equal for products that allow the same configurations."""
        return Problem(
            0, 0, 0, 1, self.itemsize, self.out_itemsize, self.by_k, self.matrix, self.staged, self.vectors, self.per_byte,
            self.block, self.fused,
        )


def epilogue_bytes(problem: Problem, bm: int, width: int) -> int:
    """Shared memory of an epilogue that works on `width` columns at a time."""
    total = bm * width * problem.out_itemsize + (0 if problem.staged else bm * ROW_PADDING)
    total += SCALE_BYTES * (bm + MOST_GROUPS * width) if problem.vectors else 0
    return total + (bm * (width * problem.matrix + ROW_PADDING) if problem.matrix else 0)


def reserved_bytes(problem: Problem) -> int:
    """Shared memory that stages and the epilogue leave: a bias of swapped tiles has an element for each row of
    each warpgroup."""
    return 2 * RESERVED_BYTES if problem.fused else RESERVED_BYTES


def complete(
    problem: Problem, bm: int, bn: int, groups: int, cluster: tuple[int, int], swapped: bool = False
) -> MatmulConfig:
    """The configuration with these tiles: as few parts as room and four stages allow, as many stages as fit."""
    bk = STAGE_ROW_BYTES // problem.itemsize
    stage = stage_bytes(problem, bm, bn, swapped)
    room = SHARED_LIMIT - reserved_bytes(problem)
    width = bn
    high = bm // groups
    fused = problem.fused or problem.vectors
    most = MOST_HELD[groups] - (high * bn if fused else 0)  # of a part, beside the sums that wait
    if swapped and fused:
        most = min(most, MOST_TURNED)
    tight = room - epilogue_bytes(problem, bm, bn) < ENOUGH_STAGES * stage or high * bn > most
    if tight or (not swapped and bn > max(WIDTHS)):
        fitting = [
            width for width in WIDTHS
            if (swapped or bn % width == 0) and epilogue_bytes(problem, bm, width) <= PART_BYTES and high * width <= most
        ] or [WIDTHS[-1] if swapped else bn]
        enough = (width for width in fitting if room - epilogue_bytes(problem, bm, width) >= ENOUGH_STAGES * stage)
        width = min(bn, next(enough, fitting[0]))
    if not problem.staged and _spills_by_elements(problem, high, bn, groups):
        width = next(width for width in WIDTHS_BY_ELEMENTS if bn % width == 0)
    stages = min(MAX_STAGES, (room - epilogue_bytes(problem, bm, width)) // stage)
    group = max(1, 2048 // (bm * cluster[0]))
    return MatmulConfig(bm, bn, bk, stages, cluster, group, ceil(bn / width), groups, swapped)


def _spills_by_elements(problem: Problem, high: int, bn: int, groups: int) -> bool:
    """Whether results that threads store themselves, one by one, would spill in parts of 32 columns and more: up to 2 KB a
    thread, where a warpgroup has more than 64 rows, or beside a bias with rows."""
    if high > 64:
        return bn > (80 if problem.matrix else 96)
    return bool(problem.matrix) and groups != 2 and bn > 96


def stored_whole(config: MatmulConfig, problem: Problem) -> MatmulConfig:
    """The configuration that stores a tile in one part, where its ring still holds more than the steps of a tile.

    Parts make room for more stages. Along so short a K stages bring nothing more, and each part costs a wait.
    """
    held = config.bm // config.groups * config.bn
    if config.parts == 1 or held > MOST_HELD[config.groups] or problem.fused or problem.vectors or not problem.staged:
        return config
    stage = stage_bytes(problem, config.bm, config.bn, config.swapped)
    room = SHARED_LIMIT - reserved_bytes(problem) - epilogue_bytes(problem, config.bm, config.bn)
    stages = min(MAX_STAGES, room // stage)
    return replace(config, parts=1, stages=stages) if stages > steps_of(problem) else config


def deepened(config: MatmulConfig, problem: Problem) -> MatmulConfig:
    """The configuration with a ring of up to `DEEPEST` stages."""
    if config.stages != MAX_STAGES:
        return config
    stage = stage_bytes(problem, config.bm, config.bn, config.swapped)
    used = reserved_bytes(problem) + epilogue_bytes(problem, config.bm, part_width(config.bn, config.parts, config.swapped))
    return replace(config, stages=max(MAX_STAGES, min(DEEPEST, (SHARED_LIMIT - used) // stage)))


def with_parts(config: MatmulConfig, problem: Problem, split: int) -> MatmulConfig | None:
    """The configuration with K cut into `split` parts; None where it can't be.

    Sums of other parts are added a power of two of columns at a time, for which there have to be registers.
    """
    bm = config.bm
    bn = config.bn
    groups = config.groups
    most = MOST_SPLIT_TURNED_BY_THREE if groups == 3 and config.swapped else MOST_SPLIT_RESULTS
    if bm // groups * bn > most:
        return None
    beside = 3 if problem.fused or problem.vectors else 2
    for width in SPLIT_WIDTHS:
        if bm // groups * (bn + beside * width) <= MOST_HELD[groups] and width <= bn and (config.swapped or bn % width == 0):
            break
    else:
        return None
    if groups == 3 and problem.fused and ceil(bn / width) > MOST_SPLIT_PARTS:
        return None
    stage = stage_bytes(problem, bm, bn, config.swapped)
    stages = min(MAX_STAGES, (SHARED_LIMIT - reserved_bytes(problem) - epilogue_bytes(problem, bm, width)) // stage)
    return replace(config, split=split, parts=ceil(bn / width), stages=stages) if stages >= 3 else None


def part_width(bn: int, parts: int, swapped: bool) -> int:
    """Columns of a part, as `matmul_tiles.part_width` says."""
    return 1 << (ceil(bn / parts) - 1).bit_length() if swapped and parts > 1 else ceil(bn / parts)


def whole_panels(columns: int) -> int:
    """Columns that a stage has room for, of an operand that lies across K, as `matmul_tiles.whole_panels` says."""
    return ceil(columns / PANEL) * PANEL


def held_columns(problem: Problem, bn: int, swapped: bool) -> int:
    """Columns of a stage of a tile that there is room for: as many as are fetched and multiplied, or whole panels."""
    by_k = problem.by_k[0 if swapped else 1]
    return bn if by_k else whole_panels(bn)


def stage_bytes(problem: Problem, bm: int, bn: int, swapped: bool) -> int:
    """Bytes of shared memory that a stage of both operands takes, for tiles of `bm` rows and `bn` columns."""
    return (bm + held_columns(problem, bn, swapped)) * STAGE_ROW_BYTES


def steps_of(problem: Problem) -> int:
    """The steps along K of a tile."""
    return -(-problem.k * problem.itemsize // STAGE_ROW_BYTES)


def tile_sizes(problem: Problem) -> Iterator[tuple[int, int, int, bool]]:
    """Rows, columns and warpgroups of the tiles that are compared, and whether they are those of the transposed product."""
    for swapped in (False, True) if problem.staged and not problem.matrix else (False,):
        for width in SWAPPED_WIDTHS if swapped else PLAIN_WIDTHS:
            for bm, groups in HEIGHTS:
                beside = MOST_BESIDE_ROWS if problem.matrix else MOST_BESIDE_SCALES if problem.vectors else MOST_RESULTS[2]
                most = min(MOST_RESULTS[groups], beside)
                if bm // groups * width <= most:
                    yield bm, width, groups, swapped


def least_shared(seen: Problem, results: int, cluster: tuple[int, int]) -> int:
    """Columns that CTAs share in whole multiples, in tiles with so many results of a product as it is multiplied."""
    return LEAST_SHARED if results > LARGE_TILE and cluster == (2, 1) and seen.by_k[1] and seen.itemsize == 2 else 8


def possible(problem: Problem) -> Iterator[MatmulConfig]:
    """The configurations that a product of this kind allows, whatever its sizes, the default first."""
    for number, (bm, bn, groups, swapped) in enumerate(tile_sizes(problem)):
        seen = problem.turned() if swapped else problem
        for cm, cn in CLUSTERS if number else CLUSTERS_OF_FIRST:
            if seen.by_k[1] and bn % (least_shared(seen, bm * bn, (cm, cn)) * cm):
                continue
            config = complete(problem, bm, bn, groups, (cm, cn), swapped)
            if config.stages >= 3:
                yield config


def fitted_width(problem: Problem) -> tuple[int, int] | None:
    """Columns of tiles that fit the result, and how many of them lie side by side; None where there are none such.

    Of 16-bit operands, with nothing in the epilogue that has rows: such tiles are stored in parts that are no power of two.
    """
    across = 1 if problem.n <= FITTED_WIDTHS[-1] else 2
    width = -(-problem.n // (8 * across)) * 8
    plain = problem.itemsize == 2 and problem.staged and not problem.matrix and not problem.vectors
    return (width, across) if plain and width in FITTED_WIDTHS else None


def fitted(problem: Problem, width: int, across: int) -> Iterator[MatmulConfig]:
    """Configurations with tiles so wide, stored as a whole, and in even parts where that leaves room for more stages.

    136 columns have no even parts: some of these tiles are wider by eight.
    """
    if width == FITTED_WIDTHS[0]:
        yield from fitted(problem, FITTED_WIDTHS[1], across)
    bm, groups, clusters = FITTED[across]
    high = bm // groups
    bk = STAGE_ROW_BYTES // problem.itemsize
    if high * width > MOST_RESULTS[groups]:
        return
    stage = stage_bytes(problem, bm, width, False)
    for cm in clusters:
        if problem.by_k[1] and width % (LEAST_SHARED * cm):
            continue
        found = 2  # stages: fewer than three are too few
        for parts in (parts for parts in range(1, 6) if width % (8 * parts) == 0):
            held = high * width // parts + (high * width if problem.fused else 0)
            room = SHARED_LIMIT - reserved_bytes(problem) - epilogue_bytes(problem, bm, width // parts)
            stages = min(MAX_STAGES, room // stage)
            if stages > found and held <= MOST_HELD[groups]:
                found = stages
                yield MatmulConfig(bm, width, bk, stages, (cm, across), max(1, 2048 // (bm * cm)), parts, groups)


def candidates(problem: Problem) -> Iterator[MatmulConfig]:
    """The possible configurations that give every CTA of a cluster something to do."""
    width = fitted_width(problem)
    for config in chain(possible(problem), fitted(problem, *width) if width else ()):
        seen = problem.turned() if config.swapped else problem
        cm, cn = config.cluster
        if not ((cm > 1 and seen.m <= config.bm) or (cn > 1 and seen.n <= config.bn)):
            yield config


def require_fits(config: MatmulConfig, problem: Problem) -> None:
    """Refuses a configuration given by hand that the kernel can't use; the `px.Error` says why."""
    if not isinstance(config, MatmulConfig):
        raise Error(
            f"config is a {type(config).__name__}, not a MatmulConfig", location=caller_location(),
            remedy="pass config=phalanx.kernels.products.matmul_config.MatmulConfig(bm=128, bn=128, stages=4)",
        )
    bm = config.bm
    bn = config.bn
    groups = config.groups
    cm, cn = config.cluster
    step = STAGE_ROW_BYTES // problem.itemsize
    multiple = 8
    seen = problem.turned() if config.swapped else problem
    width = part_width(bn, config.parts, config.swapped) if config.parts > 0 else 0
    broken = ""
    high = bm // max(1, groups)
    if groups not in (1, 2, 3) or high % 64 or high * groups % bm:
        broken = f"bm={bm} is not a multiple of 64 rows for each of {groups} warpgroups (1 to 3)"
    elif not multiple <= bn <= 256 or bn % multiple:
        broken = f"bn={bn} is not a multiple of {multiple} from {multiple} to 256"
    elif high * bn > MOST_RESULTS[groups]:
        broken = f"{high} x {bn} results a warpgroup do not fit its registers, which hold {MOST_RESULTS[groups]:,}"
    elif config.swapped and (problem.matrix or not problem.staged):
        broken = "swapped tiles take no bias with rows, and a result whose rows begin at multiples of 16 bytes"
    elif config.bk <= 0 or config.bk % step:
        broken = f"bk={config.bk} is not a multiple of {step}, which are {STAGE_ROW_BYTES} bytes"
    elif width == 0 or ceil(bn / width) != config.parts or (bn % width and not config.swapped) or width % 8:
        broken = f"bn={bn} is not {config.parts} parts of a multiple of 8 columns"
    elif config.stages < 2 or config.group < 1:
        broken = f"stages={config.stages} and group={config.group}: there are at least 2 stages and 1 row of clusters"
    elif cm < 1 or cn < 1 or cm * cn > 16:
        broken = f"a cluster of {cm} x {cn}, which has 1 to 16 CTAs"
    elif (seen.by_k[0] and bm % (LEAST_SHARED * cn)) or (seen.by_k[1] and bn % (LEAST_SHARED * cm)):
        broken = f"{cn} CTAs do not share {bm} rows, or {cm} do not share {bn} columns, in multiples of {LEAST_SHARED}"
    elif any(
        not by_k and size % (ctas * PANEL) and config.bk % ctas for by_k, size, ctas in zip(seen.by_k, (bm, bn), (cn, cm))
    ):
        share = f"a cluster of {cm} x {cn} shares"
        broken = f"{share} neither panels of {PANEL} of an operand across K nor bk={config.bk} rows of K"
    elif config.streamed not in (None, "rows", "columns"):
        broken = f'streamed={config.streamed!r}: A\'s "rows", B\'s "columns" or neither (None) may pass L2 by'
    elif not 0 <= config.kept < HINTED_PARTS or (config.kept and config.streamed is None):
        most = HINTED_PARTS - 1
        broken = f"kept={config.kept} with streamed={config.streamed!r}: 0 to {most} parts of what is streamed stay"
    elif config.split < 1 or config.split > max(1, ceil(problem.k / config.bk)):
        broken = f"split={config.split}: K is cut into 1 to {max(1, ceil(problem.k / config.bk))} parts of at least bk"
    elif config.parts > 1 and width & (width - 1) and (problem.matrix or not problem.staged):
        broken = f"parts of {width} columns beside a bias with rows, or without TMA stores: these are powers of two"
    elif config.split > 1 and width & (width - 1):
        broken = f"split={config.split} with parts of {width} columns, which is no power of two"
    else:
        stage = (bm + held_columns(problem, bn, config.swapped)) * config.bk * problem.itemsize
        room = SHARED_LIMIT - epilogue_bytes(problem, high * groups, width)
        if config.stages * stage > room:
            broken = f"{config.stages} stages of {stage:,} bytes do not fit the {max(room, 0):,} that the epilogue leaves"
    if broken:
        raise Error(
            f"a configuration that matmul can't use: {broken}", location=caller_location(),
            remedy="leave config= out, or start from phalanx.kernels.products.matmul_config.choose(Problem(m, n, k))",
        )
