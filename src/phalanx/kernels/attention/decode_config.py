"""How `attention_decode` spreads a call: how many CTAs share a sequence, and how deep their rings are."""

from __future__ import annotations

from functools import cache

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.attention.arguments import columns_of
from phalanx.machines.h200 import H200
from phalanx.runtime.exporting.choices import chosen_by_sizes

CLUSTERS = (1, 2, 3, 4, 6, 8, 12, 16)
FEWEST_BLOCKS = 4
"""Blocks of keys that a CTA of a cluster has at least: with fewer, beginning and joining takes longer than reading."""
BLOCK = 64
"""Keys of a block."""
BOXES = {64: 32, 128: 8}
"""Tokens of a copy, by rows of queries: the 128-byte halves of a row are asked for in close succession."""
MOST_SPLITS = 16
"""Splits that the second kernel joins as fast as a cluster would have joined some of them before."""
IN_FLIGHT = 64 << 10
"""Bytes of keys and values that are on their way to an SM at once."""
SPLIT_CLUSTER = 8
"""CTAs of a cluster where several share a sequence."""
MOST_SEQUENCES = 1024
"""Sequences over whose lengths one warp sums up to find where its run begins."""
START_US, JOIN_US = 2.0, 2.5
"""Microseconds until a CTA has its first keys and has left its result, and of a second kernel that joins."""
SM_RATE, NARROW_RATE, CARD_RATE = 43e3, 18e3, 4600e3
"""Bytes in a microsecond of an SM that reads alone or converts elements of 8 bits, and of all of an H200."""
WIDEST_RUNS = 128
"""Elements of a value, in runs: more sums and what a run has to remember do not fit into the registers together."""


@frozen
class DecodeConfig:
    """How keys travel: `cluster` CTAs share those of a sequence, each through rings of `stages` blocks of 64 keys.

    A CTA has `rows` rows of queries, 64 or 128, a copy brings `box` tokens, `ctas` CTAs share an SM. With `splits` as many
    clusters share a sequence, and a second kernel joins them through global memory. The rings have memory for `room`
    stages where that is more than they use: then no other CTA comes to their SM.

    With `runs` as many CTAs share the keys of all sequences in equal parts, whatever the lengths (`cluster` and `splits`
    are 1), and the second kernel joins what was cut. A block then has keys of `heads` KV heads, 1 or all of them, 64
    together, and a copy brings `box` of these.
    """

    cluster: int
    stages: int
    box: int = BLOCK
    ctas: int = 2
    rows: int = 64
    splits: int = 1
    room: int = 0
    runs: int = 0
    heads: int = 1

    def constants(self) -> dict[str, int]:
        """The kernel's constants."""
        return {
            "C": self.cluster, "STAGES": self.stages, "BN": BLOCK, "BOX": self.box, "CTAS": self.ctas, "BM": self.rows,
            "SPLITS": self.splits, "ROOM": self.room,
        }  # fmt: skip


def ring_stages(rows: int, size: int, v_size: int, ctas: int, item: int = 2) -> int:
    """Blocks of keys and of values that fit beside the queries into the share of an SM that a CTA has.

    Elements of 8 bits become operands in a block of keys and one of values besides.
    """
    barriers_and_sums = 1024 if ctas > 1 else 2048
    columns = columns_of(size) + columns_of(v_size)
    wide = 2 * BLOCK * columns if item == 1 else 0
    room = H200.shared_bytes(ctas) - barriers_and_sums - 2 * rows * columns_of(size) - wide
    return min(8, room // (item * BLOCK * columns))


def lone_ring(rows: int, size: int, v_size: int, item: int = 2) -> tuple[int, int]:
    """Stages of a ring with about 64 KB on their way, and for how many it has memory, so that no second CTA comes to its SM.

    The memory is fastest with as much: with 192 KB an SM it gives 7% less.
    """
    stage = item * BLOCK * (columns_of(size) + columns_of(v_size))
    stages = max(2, IN_FLIGHT // (item * BLOCK * (size + v_size)))
    return stages, max(stages, (H200.shared_bytes(2) - 2 * rows * columns_of(size)) // stage + 1)


def ctas_on_an_sm(rows: int, size: int, v_size: int, item: int = 2) -> int:
    """Two, where their rings hold at least two blocks each: then one loads and multiplies while the other begins or ends."""
    return 2 if ring_stages(rows, size, v_size, 2, item) >= 2 else 1


def largest_cluster(units: int, capacity: int, ctas: int) -> int:
    """The most CTAs of a cluster with which one for each of `units` fits on the card at once, `ctas` CTAs on an SM.

    Clusters of more than 8 SMs fit as often as those of 16: there is one where 16 SMs are near each other.
    """
    device, blocks = px.device(), px.cdiv(capacity, BLOCK)
    for c in CLUSTERS[:0:-1]:
        sms = -(-c // ctas)
        if blocks >= c * FEWEST_BLOCKS and units <= device.clusters(sms if sms <= 8 else 16):
            return c
    return 1


def spread(units: int, capacity: int, ctas: int, nbytes: int, rate: float) -> tuple[int, int]:
    """How many CTAs of a cluster, and how many clusters, share the keys of each of `units`: those that are done first.

    A CTA reads its share of the `nbytes` of a unit, at the rate at which an SM can or at which the card can, and `ctas` of
    them are on an SM at once. Clusters join what they found by themselves, and are all on the card at once; splits cost a
    launch that joins them, reach every SM, and may come in several turns.
    """
    device, blocks = px.device(), px.cdiv(capacity, BLOCK)
    best, found = (float("inf"), 0), (1, 1)
    for cluster in CLUSTERS:
        sms = -(-cluster // ctas)
        at_once = device.clusters(sms if sms <= 8 else 16) * (ctas if cluster == 1 else 1)
        most = min(blocks // (cluster * FEWEST_BLOCKS), MOST_SPLITS if cluster == 1 else at_once // max(units, 1))
        for splits in range(1, max(1, most if cluster in (1, SPLIT_CLUSTER) else 1) + 1):
            turns = px.cdiv(units * splits, at_once)
            if cluster > 1 and (turns > 1 or blocks < cluster * FEWEST_BLOCKS):
                continue
            each = START_US + nbytes / (cluster * splits) / (rate / ctas)
            time = max(turns * each, START_US + units * nbytes / CARD_RATE) + (JOIN_US if splits > 1 else 0.0)
            idle = -min(units * splits * cluster, device.sms * ctas)  # of equal times that of more CTAs
            if (time, idle) < best:
                best, found = (time, idle), (cluster, splits)
    return found


def fill_card(units: int, capacity: int) -> tuple[int, int]:
    """The same where products are the limit, one CTA on an SM: as many SMs as can be have a part of some unit.

    Unless clusters alone reach three quarters of these: what a second kernel joins costs a launch. Else nine tenths of
    them do, with the fewest splits. Only sizes are tried of which is known how many fit on the card.
    """
    device, blocks = px.device(), px.cdiv(capacity, BLOCK)
    found = [(units, 1, 1)]  # SMs, splits, CTAs of a cluster
    for c in (1, 2, 4, 8, 16):
        most = min(device.clusters(c) // max(units, 1), blocks // (c * FEWEST_BLOCKS))
        found += [(units * c * splits, splits, c) for splits in {1, most} if 1 <= splits <= most]
    sms = max(found)[0]
    alone = [each for each in found if each[1] == 1 and 4 * each[0] >= 3 * sms]
    _, splits, cluster = max(alone) if alone else min((e for e in found if 10 * e[0] >= 9 * sms), key=lambda e: e[1:])
    return cluster, splits


@chosen_by_sizes
@cache
def choose_decode(
    batch: int, kv_heads: int, rows: int, capacity: int, size: int, v_size: int, page: int = 0, item: int = 2
) -> DecodeConfig:
    """The configuration for `batch` sequences of up to `capacity` tokens, with `rows` rows of queries for each KV head
    and elements of `item` bytes.

    Memory is the limit, and fastest with one CTA on an SM that has 64 KB on their way (`lone_ring`), and a stage more of
    pages, which lie anywhere and take longer to come. Clusters or splits share what few sequences and heads have, whichever
    are done first (`spread`); where there are more sequences and heads than SMs, each is one CTA's: a CTA that is done
    makes room for the next, so that sequences of somewhat different lengths even out (`choose_runs` is for others), and so
    do SMs, which reach the memory at speeds that differ by 10%. 8-bit elements are limited by their conversion: two CTAs
    share an SM. With more than 64 rows products are near the limit, too: 128 rows share what is loaded and converted, with
    one more stage on its way, and all SMs are given something (`fill_card`). Anyone may call it; no hardware is involved.
    Example: ``choose_decode(64, 8, 4, 8192, 128, 128).cluster == 1``.
    """
    box, nbytes = min(page or BLOCK, BLOCK), capacity * (size + v_size) * item
    wide = rows > 64 and size <= 128 and v_size <= 128
    if item == 1 and not wide:
        ctas = ctas_on_an_sm(64, size, v_size, item)
        cluster, splits = spread(batch * kv_heads * px.cdiv(rows, 64), capacity, ctas, nbytes, NARROW_RATE)
        return DecodeConfig(cluster, ring_stages(64, size, v_size, ctas, item), box, ctas, 64, splits)
    tile = 128 if wide else 64
    units = batch * kv_heads * px.cdiv(rows, tile)
    if tile > 64:
        cluster, splits = fill_card(units, capacity)
    else:
        cluster, splits = spread(units, capacity, 1, nbytes, SM_RATE)
    if cluster * splits <= MOST_SPLITS and splits > 1:
        cluster, splits = 1, cluster * splits  # joined once, not first in the cluster
    stages, room = lone_ring(tile, size, v_size, item)
    stages = min(stages + (wide or page > 0), ring_stages(tile, size, v_size, 1, item))
    return DecodeConfig(cluster, stages, min(box, BOXES[tile]), 1, tile, splits, max(room, stages))


@chosen_by_sizes
@cache
def choose_runs(
    batch: int, kv_heads: int, rows: int, capacity: int, size: int, v_size: int, page: int = 0, dense: bool = True
) -> DecodeConfig:
    """A configuration for lengths that differ much, with arguments as for `choose_decode`: equal runs over all sequences.

    `choose_decode` does not know the lengths, which are on the device, and gives a sequence and KV head to one CTA where
    there are enough of them: the longest sequence then takes as long as one SM needs for it. Runs end together, whatever
    the lengths, and cost 3 to 5% where all are equal: SMs that are nearer to the memory get no more than others, and what
    was cut is joined. In `dense` caches the heads of a token lie side by side, and a block has keys of all heads where
    their `rows` are at most 64 together. Anyone may call it; no hardware is involved.
    Example: ``attention_decode(q, k, v, lengths, config=choose_runs(64, 8, 4, 32768, 128, 128))``.
    """
    heads = kv_heads if dense and BLOCK % kv_heads == 0 and kv_heads * rows <= BLOCK else 1
    stages, room = lone_ring(64, size, v_size)
    blocks = batch * kv_heads * px.cdiv(capacity, BLOCK)
    runs = max(1, min(px.device().sms, blocks // FEWEST_BLOCKS))
    return DecodeConfig(1, stages, min(page * heads or BOXES[64], BOXES[64]), 1, room=room, runs=runs, heads=heads)


@chosen_by_sizes
@cache
def choose_latent(batch: int, rows: int, capacity: int, page: int = 0) -> DecodeConfig:
    """The configuration for latent caches: one CTA of 64 rows on an SM, and all SMs are given something (`fill_card`).

    Anyone may call it; no hardware is involved. Example: ``choose_latent(128, 128, 4096).cluster == 1``.
    """
    cluster, splits = fill_card(batch * px.cdiv(rows, 64), capacity)
    return DecodeConfig(cluster, 2, min(page or BLOCK, BLOCK), 1, splits=splits)
