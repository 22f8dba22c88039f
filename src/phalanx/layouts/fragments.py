"""Register layouts that the tensor cores dictate."""

from __future__ import annotations

from functools import lru_cache

from .bits import is_power_of_two, log2, next_power_of_two
from .linear import LinearLayout
from .registers import RegisterLayout, padded

WARPGROUP = 4  # warps
WGMMA_ROWS = 64


FRAGMENT_LANES = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
"""What the lanes of a warp hold of an accumulator: two neighbours of row lane / 4."""


def is_fragment(layout: RegisterLayout) -> bool:
    """Whether a tile lies in registers as the tensor cores leave it."""
    return layout.rank == 2 and dict(layout.linear.bases)["lane"] == FRAGMENT_LANES


@lru_cache(maxsize=256)
def wgmma_accumulator(m: int, n: int, warps: int, along: str = "m") -> RegisterLayout:
    """The accumulator of `wgmma.mma_async.m64nN` (sm_90a), with M spread over the warpgroups, or N (`along` "n").

    Within a warpgroup, thread t (w = t / 32, l = t % 32) holds in register i the element
    row = 16 w + l / 4 + 8 ((i / 2) % 2), col = 8 (i / 4) + 2 (l % 4) + i % 2: n / 2 registers per 64 rows.
    Warpgroup g has rows 64 g .. 64 g + 63; further multiples of 64 rows follow in higher registers. Along N it has
    columns w g .. w g + w - 1 of all rows, where w, the columns of each, is a power of two. An f16 accumulator has two
    neighbours, i and i + 1, in each 32-bit register.

    Example: `wgmma_accumulator(128, 256, warps=8)` has 128 elements per thread.
    """
    if along == "n":
        return _wgmma_columns(m, n, warps)
    if warps % WARPGROUP:
        raise ValueError(f"wgmma runs on whole warpgroups of 4 warps, not on {warps} warps")
    if m % WGMMA_ROWS or m <= 0:
        raise ValueError(f"a wgmma accumulator has a multiple of 64 rows, not {m}")
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"wgmma needs N in 8..256, a multiple of 8, not {n}")
    groups, tiles = warps // WARPGROUP, m // WGMMA_ROWS
    if tiles % groups or (tiles != groups and not is_power_of_two(groups)):
        raise ValueError(f"{m} rows can't be spread evenly over {groups} warpgroups in steps of 64")
    shape = (m, n)
    rows, columns = padded(shape)
    group_bits = log2(next_power_of_two(groups))
    tile_bits = log2(rows // WGMMA_ROWS)
    linear = LinearLayout.make(
        {
            "register": [
                (0, 1),
                (8, 0),
                *((0, 8 << b) for b in range(log2(columns // 8))),
                *((WGMMA_ROWS << b, 0) for b in range(group_bits, tile_bits)),
            ],
            "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
            "warp": [(16, 0), (32, 0), *((WGMMA_ROWS << b, 0) for b in range(group_bits))],
        },
        (rows, columns),
    )
    return RegisterLayout(linear, shape, warps)


def _wgmma_columns(m: int, n: int, warps: int) -> RegisterLayout:
    """The accumulator with N spread over the warpgroups: each has all rows of its columns."""
    groups = warps // WARPGROUP
    if n % groups or not is_power_of_two(n // groups):
        raise ValueError(f"{n} columns can't be spread over {groups} warpgroups in equal powers of two")
    width = n // groups
    one = wgmma_accumulator(m, width, WARPGROUP)
    bases = dict(one.linear.bases)
    group_bits = log2(next_power_of_two(groups))
    linear = LinearLayout.make(
        {
            "register": list(bases["register"]),
            "lane": list(bases["lane"]),
            "warp": [*bases["warp"], *((0, width << b) for b in range(group_bits))],
        },
        padded((m, n)),
    )
    return RegisterLayout(linear, (m, n), warps)
