"""How rows are dealt to shares of all SMs (`ShareConfig`), who decides (`choose_shares`), and the launch.

`shares.py` has the kernel.
"""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import Any

import numpy as np

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.matrices import empty
from phalanx.kernels.rowwise.grid_rows import for_all_sms
from phalanx.kernels.rowwise.row_config import LIMITS, VECTOR_BYTES
from phalanx.kernels.rowwise.stream_config import REGISTERS, VECTORS, WARPGROUP
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.symbolic.choices import chosen_by_sizes, not_chosen_in_exports

LANES = 32
LINE_BYTES = H200.line_bytes
MOST_WARPS = 15
"""Most warps of a CTA that compute. With the one that fills the ring and those that exchange what is known, each thread then
has 96 registers."""
WARPS, PIECES = np.arange(9, MOST_WARPS + 1)[:, None], np.array((1, 2, 3, 5))
"""Candidates of `fitting`: axis 1 of its arrays is the number of warps, axis 2 that of pieces; axis 0 is the share."""
MOST_MOVED = 16
"""Vectors of a thread that are moved in shared memory: with more, of weights and biases together, registers spill."""
SIMULATED_GROUPS = 2
"""Groups in the simulator."""


@frozen
class ShareConfig:
    """How rows are dealt.

    - `share` CTAs have a row; `warps` of each compute, with `parts` vectors of a slice, and of weights, in each thread.
    - A slice comes in `pieces`, of which the ring has `stages`.
    - `delay`: so many rows later the result of a row is stored.
    """

    share: int
    warps: int
    parts: int
    stages: int
    delay: int = 2
    pieces: int = 1

    def span(self, itemsize: int) -> int:
        """Elements of the longest slice."""
        return LANES * self.warps * self.parts * VECTOR_BYTES // itemsize

    def lined(self, columns: int, itemsize: int) -> bool:
        """Whether copies begin at lines and not where slices do: not where all of them begin there."""
        part = share_slice(columns, VECTOR_BYTES // itemsize, self.share)
        return bool(columns * itemsize % LINE_BYTES or part * itemsize % LINE_BYTES)


@chosen_by_sizes
@cache
def choose_shares(columns: int, itemsize: int, kind: str, sms: int) -> ShareConfig | None:
    """The share of so many SMs that has a row of `columns` elements, or None where others are faster.

    Measured on an H200, of the device copy, against what was chosen before: layer_norm of 438,648 f32 0.88 and 0.77, of
    1,954,984 0.82 and 0.54, of 117,645 0.84 and 0.76, of 669,696 bf16 0.89 and 0.80, of 146,784 0.87 and 0.82; rms_norm of
    1,980,288 bf16 0.88 and 0.78, of 1,069,608 f32 0.88 and 0.80. Others lose: layer_norm of 293,016 f32 0.85 and 0.86, of
    88,445 bf16 0.75 and 0.78; rms_norm of 486,848 f32 0.82 and 0.91. Anyone may call it; no hardware is involved.
    Example: ``choose_shares(640000, 2, "layer_norm", 132).share == 44``.
    """
    row = columns * itemsize
    ranges = LIMITS.shares[kind][itemsize, row % VECTOR_BYTES == 0]
    return fitting(columns, itemsize, VECTORS[kind], sms) if any(low <= row < high for low, high in ranges) else None


def fitting(columns: int, itemsize: int, vectors: int, sms: int) -> ShareConfig | None:
    """The configuration for such rows, wherever it pays; None where registers have no room for so many vectors of weights.

    Slices are as long as `LIMITS.share_slices` says, or longer, where all SMs have a row. Of all that are, the one that
    leaves the least places of warps empty, and the least SMs idle. Other things count as if so much were empty: warps that
    are missing, pieces, a ring with no room for two rows on their way, long slices, short ones of many SMs, or of rows that
    begin anywhere, and weights that are loaded again for other classes of rows. Anyone may call it; no hardware is involved.
    Example: ``fitting(640000, 2, 2, 132).delay == 3``.
    """
    shortest, long, longest = LIMITS.share_slices
    vector, period = VECTOR_BYTES // itemsize, VECTOR_BYTES // gcd(columns * itemsize, VECTOR_BYTES)
    every = np.arange(1, sms + 1)
    slices = share_slice(columns, vector, every) * itemsize
    whole = bool(slices[-1] > long)  # then all SMs may have a row, in long slices
    looked_at = (shortest <= slices) & (slices <= longest)
    looked_at[-1] |= whole
    share, part = every[looked_at][:, None, None], slices[looked_at][:, None, None]
    groups, many, alone = sms // share, 2 * share > sms, (share == sms) & whole
    idle, warps, pieces = sms / (groups * share), WARPS, PIECES if whole else PIECES[..., :1]
    delay = np.where(alone, 2, np.where(many, 4, 3) if vectors == 2 else 3)
    held = -(-part // (LANES * VECTOR_BYTES * warps))  # vectors of a thread
    parts = -(-held // pieces) * pieces
    span = LANES * VECTOR_BYTES * warps * parts
    moved = np.where((period > 1) & (vectors * parts <= MOST_MOVED), (LANES + 1) * VECTOR_BYTES * warps, 0)
    stages = np.minimum((LIMITS.share_room - moved) * pieces // (span + LINE_BYTES * pieces), MOST_WARPS * pieces)
    registers = REGISTERS // (LANES * WARPGROUP) // -(-(warps + delay + 2) // WARPGROUP) // 8 * 8
    needed = 4 * vectors * parts + np.where(alone, *LIMITS.share_registers[itemsize > 2][::-1])
    fits = ((pieces == 1) | alone) & (needed <= registers) & (stages >= (delay + 1) * pieces)
    if not fits.any():
        return None
    besides = 0.02 * vectors * (period - 1) / groups + 0.03 * (part > long) + 0.15 * (many & (part < LIMITS.share_least))
    wasted = idle**2
    if period > 1 and (vectors, itemsize) == (2, 2):  # what `rows_odd_slices.txt` was measured of
        besides, wasted = besides + 2e-5 * np.maximum(0, LIMITS.share_short - part), idle**1.5
    missing = np.where(alone, 0.002, 0.015) * (MOST_WARPS - warps) + 0.1 * np.maximum(0.0, delay + 2 - stages / pieces)
    empty = span / part * wasted + besides + 0.001 * (pieces - 1) + missing
    best = np.unravel_index(np.where(fits, empty, np.inf).argmin(), fits.shape)
    numbers = (np.broadcast_to(each, fits.shape)[best] for each in (share, warps, parts, stages, delay, pieces))
    return ShareConfig(*map(int, numbers))


@not_chosen_in_exports
def shares_for(rows: Any, kind: str, *vectors: Any) -> ShareConfig | None:
    """The share for the rows of a matrix of the GPU that is a run of memory, where that pays; None: none.

    Every group has some rows, so that those are on their way while it begins. Weights of another type would take other
    registers. Exports have no such launches: they would ask for as many SMs wherever they run.
    """
    info = for_all_sms(rows, vectors)
    if info is None:
        return None
    sms = px.device(info.device).sms
    config = choose_shares(info.shape[1], rows.dtype.itemsize, kind, sms)
    few = config is not None and config.share < sms and info.shape[0] * config.share < LIMITS.share_rows * sms
    return None if few else config


@px.func
def share_slice(columns, VEC, SHARE):
    """Elements of a CTA's slice of a row, wherever it begins in a vector: whole sectors of L2."""
    return px.cdiv(columns + VEC - 1, 2 * VEC * SHARE) * (2 * VEC)


@px.func
def most_rows(rows, PERIOD, groups):
    """The rows of a group, at most."""
    return px.cdiv(px.cdiv(rows, PERIOD) * PERIOD, groups)


def launch_shares(
    kernel: Any, config: ShareConfig, args: tuple[Any, ...], constants: dict[str, Any], rows: int, columns: int
) -> None:
    """Runs the kernel of `shares.py` on whole groups of SMs: `args` are the run of memory with the rows, and what follows
    up to their columns."""
    run, info = args[0], describe(args[0])
    assert info is not None
    itemsize = run.dtype.itemsize
    vector = VECTOR_BYTES // itemsize
    if share_slice(columns, vector, config.share) > config.span(itemsize):
        raise Error(
            f"{config.warps} warps with {config.parts} vectors a thread in each of {config.share} CTAs have no room for "
            f"rows of {columns} elements",
            location=caller_location(),
            remedy="let parts be more, or share",
        )
    if config.stages < (config.delay + 1) * config.pieces:
        raise Error(
            f"a ring of {config.stages} stages for {config.delay + 1} rows of {config.pieces} pieces",
            location=caller_location(),
            remedy=f"let stages be {(config.delay + 1) * config.pieces} at least: so many wait for what is known of a row",
        )
    sms = px.device(info.device).sms if info.kind == "cuda" else SIMULATED_GROUPS * config.share
    groups = min(sms // config.share, rows)
    slots, period = px.cdiv(config.share, LANES) * LANES, vector // gcd(columns, vector)
    words = empty(run, (groups * most_rows(rows, period, groups) * slots,), "i64")
    constants = {"config": config, **constants, "SLOTS": slots, "PERIOD": period}
    constants["LINED"] = config.lined(columns, itemsize)
    kernel[groups * config.share](*args, rows, words, **constants)
