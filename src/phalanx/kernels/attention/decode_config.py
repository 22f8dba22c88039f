"""How `attention_decode` spreads a call: how many CTAs share a sequence, and how deep their rings are."""

from __future__ import annotations

from functools import cache

import phalanx as px
from phalanx.frozen import frozen
from phalanx.machines.h200 import H200

CLUSTERS = (1, 2, 3, 4, 6, 8, 12, 16)
FEWEST_BLOCKS = 4
"""Blocks of keys that a CTA of a cluster has at least: with fewer, beginning and joining takes longer than reading."""
BLOCK = 64
"""Keys of a block."""


@frozen
class DecodeConfig:
    """How keys travel: `cluster` CTAs share those of a sequence, each through rings of `stages` blocks of 64 keys.

    A CTA has `rows` rows of queries, 64 or 128, a copy brings `box` tokens, `ctas` CTAs share an SM. With `splits` as many
    clusters share a sequence, and a second kernel joins them through global memory.
    """

    cluster: int
    stages: int
    box: int = BLOCK
    ctas: int = 2
    rows: int = 64
    splits: int = 1

    def constants(self) -> dict[str, int]:
        """The kernel's constants."""
        return {
            "C": self.cluster, "STAGES": self.stages, "BN": BLOCK, "BOX": self.box, "CTAS": self.ctas, "BM": self.rows,
            "SPLITS": self.splits,
        }  # fmt: skip


def ring_stages(rows: int, size: int, v_size: int, ctas: int, item: int = 2) -> int:
    """Blocks of keys and of values that fit beside the queries into the share of an SM that a CTA has.

    Elements of 8 bits become operands in a block of keys and one of values besides.
    """
    barriers_and_sums = 1024 if ctas > 1 else 2048
    wide = 2 * BLOCK * (size + v_size) if item == 1 else 0
    room = H200.shared_bytes(ctas) - barriers_and_sums - 2 * rows * size - wide
    return min(8, room // (item * BLOCK * (size + v_size)))


@cache
def choose_decode(
    batch: int, kv_heads: int, rows: int, capacity: int, size: int, v_size: int, page: int = 0, item: int = 2
) -> DecodeConfig:
    """The configuration for `batch` sequences of up to `capacity` tokens, with `rows` rows of queries for each KV head
    and elements of `item` bytes.

    Memory is the limit, and half of the SMs read as fast as all of them, as long as each has some 100 KB on its way. So
    clusters are as large as they can be with all of them at work at once; where there are more sequences and heads than
    CTAs fit on the card, each is one CTA's, and sequences of different lengths even out. Two CTAs share an SM where their
    rings hold at least two blocks. Anyone may call it; no hardware is involved. Example:
    ``choose_decode(64, 8, 4, 8192, 128, 128).cluster == 1``.
    """
    tile = 64
    ctas = 2 if ring_stages(tile, size, v_size, 2, item) >= 2 else 1
    units, blocks = batch * kv_heads * px.cdiv(rows, tile), px.cdiv(capacity, BLOCK)
    fitting = [
        c for c in CLUSTERS
        if c == 1 or (units <= px.device().clusters(px.cdiv(c, ctas)) and blocks >= c * FEWEST_BLOCKS)
    ]
    stages = ring_stages(tile, size, v_size, ctas, item)
    return DecodeConfig(max(fitting), stages, min(page or BLOCK, BLOCK), ctas, tile)


@cache
def choose_latent(batch: int, rows: int, capacity: int, page: int = 0) -> DecodeConfig:
    """The configuration for latent caches: one CTA of 64 rows on an SM, clusters as large as all of them fit at once.

    Anyone may call it; no hardware is involved. Example: ``choose_latent(128, 128, 4096).cluster == 1``.
    """
    units, blocks = batch * px.cdiv(rows, 64), px.cdiv(capacity, BLOCK)
    fitting = [c for c in CLUSTERS if c == 1 or (units <= px.device().clusters(c) and blocks >= c * FEWEST_BLOCKS)]
    return DecodeConfig(max(fitting), 2, min(page or BLOCK, BLOCK), 1)
