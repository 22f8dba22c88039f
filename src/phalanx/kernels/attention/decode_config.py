"""How `attention_decode` spreads a call: how many CTAs share a sequence, and how deep their rings are."""

from __future__ import annotations

from functools import cache

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.attention.decode_terms import ROWS
from phalanx.machines.h200 import H200

CLUSTERS = (1, 2, 3, 4, 6, 8, 12, 16)
FEWEST_BLOCKS = 4
"""Blocks of keys that a CTA of a cluster has at least: with fewer, beginning and joining takes longer than reading."""


@frozen
class DecodeConfig:
    """How keys travel: `cluster` CTAs share those of a sequence, each through rings of `stages` blocks of `block` keys.

    A copy brings `box` tokens; `ctas` CTAs share an SM.
    """

    cluster: int
    stages: int
    block: int = 64
    box: int = 16
    ctas: int = 2

    def constants(self) -> dict[str, int]:
        """The kernel's constants."""
        return {"C": self.cluster, "STAGES": self.stages, "BN": self.block, "BOX": self.box, "CTAS": self.ctas}


def ring_stages(size: int, v_size: int, block: int, ctas: int, item: int = 2) -> int:
    """Blocks of keys and of values that fit beside the queries into the share of an SM that a CTA has."""
    barriers_and_sums = 1024 if ctas > 1 else 2048
    room = H200.shared_bytes(ctas) - barriers_and_sums - 2 * ROWS * size
    return min(8, room // (item * block * (size + v_size)))


@cache
def choose_decode(units: int, capacity: int, size: int, v_size: int, page: int = 0) -> DecodeConfig:
    """The configuration for `units` pairs of a sequence and 64 rows of queries of a KV head, of up to `capacity` tokens.

    Memory is the limit, and half of the SMs read as fast as all of them, as long as each has some 100 KB on its way. So
    clusters are as large as they can be with all units at work at once; where there are more units than CTAs fit on the
    card, each is one CTA's, and sequences of different lengths even out. Two CTAs share an SM where their rings hold at
    least two blocks. Anyone may call it; no hardware is involved. Example: ``choose_decode(512, 8192, 128, 128).cluster == 1``.
    """
    block = 64
    ctas = 2 if ring_stages(size, v_size, block, 2) >= 2 else 1
    blocks = px.cdiv(capacity, block)
    fitting = [
        c for c in CLUSTERS
        if c == 1 or (units <= px.device().clusters(px.cdiv(c, ctas)) and blocks >= c * FEWEST_BLOCKS)
    ]
    box = min(page, 16) if page else 16
    return DecodeConfig(max(fitting), ring_stages(size, v_size, block, ctas), block, box, ctas)
