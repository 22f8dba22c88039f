"""How `px.kernels.matmul` cuts a product into tiles on Blackwell: pairs of CTAs for large ones, single CTAs for small ones.

Nobody has measured this: there was no such card. The choice follows from rates that are published: a CTA's tensor core
multiplies 128 rows by 2 columns of 32 bytes a cycle, shared memory gives it 128 bytes in that time. The rest is a guess, and
says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.archs import ARCHS
from phalanx.ir.tensor_kinds import STEP_BYTES
from phalanx.kernels.products.matmul_blackwell import out_buffers
from phalanx.kernels.products.matmul_cuts import (
    MAX_STAGES,
    PANEL,
    RESERVED_BYTES,
    ROW_PADDING,
    SCALE_BYTES,
    STAGE_ROW_BYTES,
    Problem,
)
from phalanx.runtime.device.devices import Device
from phalanx.runtime.symbolic.choices import chosen_at_example, chosen_by_sizes

ROWS = 128
"""Rows of a CTA's tile: all lanes of tensor memory."""
COLUMNS = 512
"""Columns of tensor memory."""
ROOM = ARCHS["sm_100a"].shared_limit - RESERVED_BYTES
BLOCK_BYTES = 512
"""The scales of 128 rows x 4 blocks along K."""
BLOCK_SCALES = 4
PART_ROW_BYTES = 128
"""Bytes of a row of the part that the epilogue stores at a time: a row of the widest swizzle."""

COLUMNS_A_CYCLE = 2
"""Columns of 128 rows that a tensor core multiplies by 32 bytes of K in a cycle."""
SHARED_RATE = 128
"""Bytes a cycle that the operands of a product are read with. Each CTA of a pair reads its half of B for both."""
EPILOGUE_CYCLES = 8
"""A guess: of a column of a tile, on its way from tensor memory to the result."""
MARGIN = 0.9
"""A guess, too: the first tile asks least of L2, another has to be quicker than this share of its time."""
GROUPED_ROWS = 2048
"""Rows of the result that are worked on at a time, for the sake of L2: as on Hopper."""

TILES = ((2, 256), (2, 128), (1, 256), (1, 128), (1, 64))
"""CTAs that multiply together, and columns, of the tiles that are compared; the first one is the default."""


@frozen
class BlackwellConfig:
    """How a product is cut on Blackwell. `ctas` CTAs, 1 or 2, multiply 128 rows each by `bn` columns, `bk` of K in a stage.

    `cluster` such units along M and N share operands; `accumulators` of them are in tensor memory; `group` rows of clusters
    are worked on at a time; a tile is stored in `parts`. Example: ``matmul(a, b, config=BlackwellConfig(bn=128))``.
    """

    bn: int = 256
    bk: int = 64
    stages: int = 6
    ctas: int = 2
    cluster: tuple[int, int] = (1, 1)
    accumulators: int = 2
    group: int = 8
    parts: int = 4

    @property
    def size(self) -> int:
        """CTAs of a cluster."""
        return self.ctas * self.cluster[0] * self.cluster[1]

    def constants(self) -> dict[str, BlackwellConfig]:
        """The constant of the kernel `matmul_blackwell` that says how the product is cut."""
        return {"config": self}

    def tiles(self, problem: Problem) -> int:
        """How many tiles, each of a whole cluster, the product has."""
        rows = ceil(problem.m / (ROWS * self.ctas * self.cluster[0]))
        return rows * ceil(problem.n / (self.bn * self.cluster[1])) * problem.batch

    def clusters(self, device: Device) -> int:
        """How many clusters of this size run at once on a device."""
        return max(1, device.clusters(self.size))

    def grid(self, problem: Problem, device: Device) -> int:
        """CTAs of a launch: of as many clusters as run at once, or as there are tiles."""
        return self.size * min(self.clusters(device), self.tiles(problem))


def depth(problem: Problem) -> int:
    """Elements of K in a stage: 128 bytes."""
    return STAGE_ROW_BYTES // problem.itemsize * problem.per_byte


def scale_columns(problem: Problem, bn: int, bk: int) -> int:
    """Columns of tensor memory that the block scales of a stage take, one for each 128 rows and block along K."""
    return (1 + ceil(bn / ROWS)) * bk // problem.block if problem.block else 0


def stage_bytes(problem: Problem, bn: int, ctas: int, bk: int) -> int:
    """Shared memory of a stage: rows of A, this CTA's columns of B, and the block scales of both."""
    operands = (ROWS + bn // ctas) * bk * problem.itemsize // problem.per_byte
    return operands + scale_columns(problem, bn, bk) // BLOCK_SCALES * BLOCK_BYTES


def epilogue_bytes(problem: Problem, bn: int, parts: int) -> int:
    """Shared memory of an epilogue that stores in so many parts."""
    width = bn // parts
    total = ROWS * width * problem.out_itemsize * out_buffers(parts) if problem.staged else 0
    if not problem.staged:
        total += ROWS * (width * problem.out_itemsize + ROW_PADDING)
    total += SCALE_BYTES * (ROWS + 2 * width)  # scales of rows and columns, a bias for the columns
    return total + (ROWS * (width * problem.matrix + ROW_PADDING) if problem.matrix else 0)


def complete(problem: Problem, ctas: int, bn: int) -> BlackwellConfig:
    """The configuration with these tiles: two accumulators if tensor memory has room, as many stages as fit."""
    bk = depth(problem)
    parts = max(1, bn * problem.out_itemsize // PART_ROW_BYTES)
    left = ROOM - epilogue_bytes(problem, bn, parts)
    stages = min(MAX_STAGES, left // stage_bytes(problem, bn, ctas, bk))
    scales = scale_columns(problem, bn, bk)
    accumulators = 1 if scales and 2 * bn >= COLUMNS else 2
    if scales:
        stages = min(stages, (COLUMNS - accumulators * bn) // scales)
    return BlackwellConfig(bn, bk, stages, ctas, (1, 1), accumulators, GROUPED_ROWS // (ROWS * ctas), parts)


def candidates(problem: Problem) -> Iterator[BlackwellConfig]:
    """The configurations that the product allows."""
    for ctas, bn in TILES:
        wasted = ctas == 2 and problem.m <= ROWS
        if not wasted and not (problem.block and bn % ROWS) and not _cuts_panels(problem, bn // ctas):
            yield complete(problem, ctas, bn)


def _cuts_panels(problem: Problem, columns: int) -> bool:
    return not problem.by_k[1] and columns % PANEL != 0


def cycles(problem: Problem, config: BlackwellConfig, device: Device) -> float:
    """Cycles that a product takes by the rates above, if its operands are where they are needed in time."""
    loaded = (ROWS + config.bn / config.ctas) * STEP_BYTES / SHARED_RATE
    step = max(config.bn / COLUMNS_A_CYCLE, loaded)
    products = ceil(problem.k * problem.itemsize / problem.per_byte / STEP_BYTES) * step
    epilogue = config.bn * EPILOGUE_CYCLES
    waves = ceil(config.tiles(problem) / config.clusters(device))
    if config.accumulators == 1:
        return waves * (products + epilogue)
    return waves * max(products, epilogue) + min(products, epilogue)  # a tile is stored while the next is multiplied


@chosen_at_example
@chosen_by_sizes
@lru_cache(maxsize=1024)
def choose_blackwell(problem: Problem, device: Device) -> BlackwellConfig:
    """The configuration for a product on Blackwell, by `cycles`: simple reasoning, which nobody has measured.

    Large products are pairs of CTAs with 256 x 256 results; where that leaves SMs without work, tiles get smaller. With
    block scales 256 columns leave room for one accumulator, so that the epilogue is not hidden: short products take 128.
    Anyone may call it; no hardware is involved. Example: ``choose_blackwell(Problem(4096, 4096, 4096), device).ctas == 2``.
    """
    taken = {config: cycles(problem, config, device) for config in candidates(problem)}
    default = next(iter(taken))
    best = min(taken, key=lambda config: taken[config])
    return best if taken[best] < MARGIN * taken[default] else default


def require_fits_blackwell(config: Any, problem: Problem) -> None:
    """Refuses a configuration given by hand that the kernel can't use; the `px.Error` says why."""
    if not isinstance(config, BlackwellConfig):
        raise Error(
            f"config is a {type(config).__name__}, and the product is one of Blackwell", location=caller_location(),
            remedy="pass config=phalanx.kernels.products.matmul_blackwell_config.BlackwellConfig(bn=128)",
        )
    broken = _broken(config, problem)
    if broken:
        raise Error(
            f"a configuration that matmul can't use: {broken}", location=caller_location(),
            remedy="leave config= out, or start from matmul_blackwell_config.choose_blackwell(Problem(m, n, k), device)",
        )


def _broken(config: BlackwellConfig, problem: Problem) -> str:
    """What is wrong with a configuration; nothing: an empty text."""
    bn = config.bn
    cm, cn = config.cluster
    step = depth(problem)
    if config.ctas not in (1, 2):
        return f"ctas={config.ctas}: a CTA multiplies alone, or two do together"
    if not 16 <= bn <= 256 or bn % (16 * config.ctas):
        return f"bn={bn} is not a multiple of {16 * config.ctas} up to 256"
    if problem.block and bn % ROWS:
        return f"bn={bn} is not a multiple of {ROWS}: block scales come for as many columns"
    if config.bk <= 0 or config.bk % step:
        return f"bk={config.bk} is not a multiple of {step}, which are {STAGE_ROW_BYTES} bytes"
    if config.parts < 1 or bn % config.parts or bn // config.parts % 8:
        return f"bn={bn} is not {config.parts} parts of a multiple of 8 columns"
    if config.stages < 2 or config.group < 1 or config.accumulators < 1:
        return (
            f"stages={config.stages}, group={config.group}, accumulators={config.accumulators}: there are at least "
            "2 stages, 1 row of clusters and 1 accumulator"
        )
    if cm < 1 or cn < 1 or config.size > 16:
        return f"a cluster of {cm} x {cn} units of {config.ctas}, which has 1 to 16 CTAs"
    if ROWS % (8 * cn) or bn // config.ctas % (8 * cm):
        return f"{cn} units do not share {ROWS} rows, or {cm} do not share {bn // config.ctas} columns, in multiples of 8"
    rows_cut = not problem.by_k[0] and ROWS // cn % PANEL
    if rows_cut or _cuts_panels(problem, bn // config.ctas // cm):
        return f"a share of an operand that is not contiguous along K is not a multiple of {PANEL}"
    columns = config.accumulators * bn + config.stages * scale_columns(problem, bn, config.bk)
    if columns > COLUMNS:
        return f"{config.accumulators} accumulators and the scales take {columns} columns of tensor memory's {COLUMNS}"
    stage = stage_bytes(problem, bn, config.ctas, config.bk)
    room = ROOM - epilogue_bytes(problem, bn, config.parts)
    if config.stages * stage > room:
        return f"{config.stages} stages of {stage:,} bytes do not fit the {max(room, 0):,} that the epilogue leaves"
    return ""
