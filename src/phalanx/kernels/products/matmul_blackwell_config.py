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
from phalanx.ir.tensor_kinds import STEP_BYTES
from phalanx.kernels.products.matmul_cuts import PANEL, STAGE_ROW_BYTES, Problem
from phalanx.runtime.device.devices import Device
from phalanx.runtime.symbolic.choices import chosen_at_example, chosen_by_sizes

ROWS = 128
"""Rows of a CTA's tile: all lanes of tensor memory."""
COLUMNS = 512
"""Columns of tensor memory."""

COLUMNS_A_CYCLE = 2
"""Columns of 128 rows that a tensor core multiplies by 32 bytes of K in a cycle."""
SHARED_RATE = 128
"""Bytes a cycle that the operands of a product are read with. Each CTA of a pair reads its half of B for both."""
EPILOGUE_CYCLES = 8
"""A guess: of a column of a tile, on its way from tensor memory to the result."""
MARGIN = 0.9
"""A guess, too: the first tile asks least of L2, another has to be quicker than this share of its time."""
TILES = ((2, 256), (2, 128), (1, 256), (1, 128), (1, 64))
"""CTAs of a cluster along M, and columns, of the tiles that are compared; the first one is the default."""


@frozen
class BlackwellConfig:
    """How a product is cut on Blackwell: tiles of 128 rows by `bn` columns, `bk` of K in a step.

    A cluster has `cluster` of them along M and N, whose CTAs share operands; those that are two by two along M multiply in
    pairs. Example: ``matmul(a, b, config=BlackwellConfig(bn=128))``.
    """

    bn: int = 256
    bk: int = 64
    cluster: tuple[int, int] = (2, 1)

    @property
    def size(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def pair(self) -> int:
        """CTAs that multiply together."""
        return 1 + (self.cluster[0] % 2 == 0)

    def constants(self) -> dict[str, BlackwellConfig]:
        """The constant of the kernel `matmul_blackwell` that says how the product is cut."""
        return {"config": self}

    def tiles(self, problem: Problem) -> int:
        """How many tiles, each of a whole cluster, the product has."""
        rows = ceil(problem.m / (ROWS * self.cluster[0]))
        return rows * ceil(problem.n / (self.bn * self.cluster[1])) * problem.batch

    def clusters(self, device: Device) -> int:
        """How many clusters of this size run at once on a device."""
        return max(1, device.clusters(self.size))

    def grid(self, problem: Problem, device: Device) -> tuple[int, int]:
        """CTAs of a launch: of as many clusters as run at once, or as there are tiles."""
        return self.cluster[0] * min(self.clusters(device), self.tiles(problem)), self.cluster[1]


def depth(problem: Problem) -> int:
    """Elements of K in a stage: 128 bytes."""
    return STAGE_ROW_BYTES // problem.itemsize * problem.per_byte


def candidates(problem: Problem) -> Iterator[BlackwellConfig]:
    """The configurations that the product allows."""
    for rows, bn in TILES:
        wasted = rows == 2 and problem.m <= ROWS
        if not wasted and not (problem.block and bn % ROWS) and not _cuts_panels(problem, bn // rows):
            yield BlackwellConfig(bn, depth(problem), (rows, 1))


def _cuts_panels(problem: Problem, columns: int) -> bool:
    return not problem.by_k[1] and columns % PANEL != 0


def cycles(problem: Problem, config: BlackwellConfig, device: Device) -> float:
    """Cycles that a product takes by the rates above, if its operands are where they are needed in time."""
    loaded = (ROWS + config.bn / config.pair) * STEP_BYTES / SHARED_RATE
    step = max(config.bn / COLUMNS_A_CYCLE, loaded)
    products = ceil(problem.k * problem.itemsize / problem.per_byte / STEP_BYTES) * step
    epilogue = config.bn * EPILOGUE_CYCLES
    waves = ceil(config.tiles(problem) / config.clusters(device))
    if problem.block and 2 * config.bn >= COLUMNS:  # scales leave no room for another accumulator
        return waves * (products + epilogue)
    return waves * max(products, epilogue) + min(products, epilogue)  # a tile is stored while the next is multiplied


@chosen_at_example
@chosen_by_sizes
@lru_cache(maxsize=1024)
def choose_blackwell(problem: Problem, device: Device) -> BlackwellConfig:
    """The configuration for a product on Blackwell, by `cycles`: simple reasoning, which nobody has measured.

    Large products are pairs of CTAs with 256 x 256 results; where that leaves SMs without work, tiles get smaller. With
    block scales 256 columns leave room for one accumulator, so that the epilogue is not hidden: short products take 128.
    Anyone may call it; no hardware is involved. Example: ``choose_blackwell(Problem(4096, 4096, 4096), device).pair == 2``.
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
    if cm < 1 or cn < 1 or config.size > 16:
        return f"a cluster of {cm} x {cn} CTAs, which has 1 to 16"
    if not 16 <= bn <= 256 or bn % (16 * config.pair):
        return f"bn={bn} is not a multiple of {16 * config.pair} up to 256"
    if problem.block and bn % ROWS:
        return f"bn={bn} is not a multiple of {ROWS}: block scales come for as many columns"
    if config.bk <= 0 or config.bk % step:
        return f"bk={config.bk} is not a multiple of {step}, which are {STAGE_ROW_BYTES} bytes"
    if ROWS % (8 * cn) or bn % (8 * cm):
        return f"{cn} CTAs do not share {ROWS} rows, or {cm} do not share {bn} columns, in multiples of 8"
    if _cuts_panels(problem, bn):
        return f"of an operand that is not contiguous along K a tile has a multiple of {PANEL} columns"
    return ""
