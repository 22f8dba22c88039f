"""How `attention_decode` spreads a call: how many CTAs share a sequence, and how deep their rings are."""

from __future__ import annotations

from functools import cache
from itertools import product

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.attention.arguments import columns_of
from phalanx.machines.h200 import H200
from phalanx.runtime.symbolic.choices import chosen_by_sizes

CLUSTERS = (1, 2, 3, 4, 6, 8, 12, 16)
FEWEST_BLOCKS = 4
"""Blocks of keys that a CTA of a cluster has at least: with fewer, beginning and joining takes longer than reading."""
BLOCK, THREADS = 64, 160
"""Keys of a block, and threads of a CTA of 64 rows: a warpgroup, and a warp that loads."""
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
WAIT_US, SM_RATE, NARROW_RATE, CARD_RATE = 0.5, 160e3, 18e3, 4600e3
"""Microseconds from the products of a block to those of the next; bytes in a microsecond that come to an SM beside that,
that an SM converts from 8 bits, and that all of an H200 reads."""
RAGGED_RATE, ATOM = 3000e3, 64
"""What all of an H200 reads of ragged heads in a microsecond: their rows are no multiples of `ATOM` bytes, which the memory
reads at once, and CTAs that have one head each drift apart, so that what neighbours share comes twice. From 2,200 GB/s for
long sequences to 3,400 for short ones (heads of 80)."""
CROWDED = 1.015
"""How much longer it takes with one more CTA on an SM, and more on its way than is quickest."""
MOST_CROWDED = 3
AT_ONCE, ROUND_US = (8, 64), 1.5
"""How many parts of a result `join_runs` may ask for at once, and microseconds until they have come and are summed up."""
IN_TURN_US, CROSSED_US = 0.04, 3.0
"""Microseconds that a block takes longer whose keys belong to several heads, and a run that goes on to another sequence."""
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


def fits(ctas: int, size: int, v_size: int) -> bool:
    """Whether so many CTAs of 64 rows fit on an SM, with rings of two stages, and registers for their sums and scores."""
    registers = 96 + columns_of(v_size) // 2
    return ring_stages(64, size, v_size, ctas) >= 2 and THREADS * ctas * registers <= 65536


def largest_cluster(units: int, capacity: int, ctas: int) -> int:
    """The most CTAs of a cluster with which one for each of `units` fits on the card at once, `ctas` CTAs on an SM.

    Clusters of more than 8 SMs fit as often as those of 16: there is one where 16 SMs are near each other.
    """
    device = px.device()
    blocks = px.cdiv(capacity, BLOCK)
    for c in CLUSTERS[:0:-1]:
        sms = -(-c // ctas)
        if blocks >= c * FEWEST_BLOCKS and units <= device.clusters(sms if sms <= 8 else 16):
            return c
    return 1


def spread(
    units: int, capacity: int, crowds: tuple[int, ...], block_bytes: int, block_us: float, rate: float = CARD_RATE
) -> tuple[float, int, int, int]:
    """What is done first: after how many microseconds, how many CTAs of a cluster, and how many clusters, share the keys of
    each of `units`, and how many CTAs an SM has, one of `crowds`.

    A CTA takes `block_us` for a block of `block_bytes`, and all together as long as the memory needs at its `rate`. They
    come in turns of as many as are on the card at once; in each of these the memory waits until they have begun. So more
    CTAs on an SM are quicker where turns are short, or where one would not ask for as much as the memory gives. Clusters
    join what they found by themselves, and are all on the card at once; splits cost a launch that joins them, and reach
    every SM.
    """
    device = px.device()
    blocks = px.cdiv(capacity, BLOCK)

    def turn(ctas: int, each: int) -> float:
        """Microseconds of a turn of CTAs, each with so many blocks."""
        return START_US + max(each * block_us, ctas * each * block_bytes / rate)

    best = float("inf")
    found = (1, 1, crowds[0])
    for ctas, cluster in product(crowds, CLUSTERS):
        sms = -(-cluster // ctas)
        at_once = device.clusters(sms if sms <= 8 else 16) * (ctas if cluster == 1 else 1)
        most = min(blocks // (cluster * FEWEST_BLOCKS), MOST_SPLITS if cluster == 1 else at_once // max(units, 1))
        if cluster > 1 and (most < 1 or ctas > crowds[0]):
            continue
        for splits in range(1, (most if cluster in (1, SPLIT_CLUSTER) else 1) + 1):
            each = px.cdiv(blocks, cluster * splits)
            turns, rest = divmod(units * splits, at_once)
            time = turns * turn(at_once * cluster, each) + (turn(rest * cluster, each) if rest else 0.0)
            time = time * CROWDED ** (ctas - crowds[0]) + (JOIN_US if splits > 1 else 0.0)
            if time < best:
                best = time
                found = (cluster, splits, ctas)
    return best, *found


def block_us(block_bytes: int) -> float:
    """Microseconds that a CTA alone on its SM takes for a block of 16-bit keys and values."""
    return WAIT_US + block_bytes / SM_RATE


def is_ragged(kv_heads: int, size: int, v_size: int, item: int, dense: bool) -> bool:
    """Whether rows of several heads, side by side, begin or end within what the memory reads at once."""
    return dense and kv_heads > 1 and any(columns * item % ATOM for columns in (size, v_size))


def heads_together(kv_heads: int, rows: int, dense: bool) -> int:
    """How many KV heads, with `rows` rows of queries each, may have keys in one block: all, or 1."""
    return kv_heads if dense and BLOCK % kv_heads == 0 and kv_heads * rows <= BLOCK else 1


def count_runs(batch: int, kv_heads: int, capacity: int) -> int:
    """How many CTAs share the keys of all sequences: one on each SM, or fewer where there is little to read."""
    return max(1, min(px.device().sms, batch * kv_heads * px.cdiv(capacity, BLOCK) // FEWEST_BLOCKS))


def equal_runs(
    batch: int, kv_heads: int, rows: int, capacity: int, size: int, v_size: int, page: int, dense: bool
) -> DecodeConfig:
    """The configuration of `choose_runs`."""
    heads = heads_together(kv_heads, rows, dense)
    stages, room = lone_ring(64, size, v_size)
    box = min(page * heads or BOXES[64], BOXES[64])
    return DecodeConfig(1, stages, box, 1, room=room, runs=count_runs(batch, kv_heads, capacity), heads=heads)


def runs_us(batch: int, kv_heads: int, rows: int, capacity: int, size: int, v_size: int, dense: bool) -> float:
    """After how many microseconds runs of `choose_runs` are done and joined, where lengths are equal and a block has keys of
    all heads, so that the memory is read from one end to the other; infinite where a block has not, or there are no runs."""
    if heads_together(kv_heads, rows, dense) == 1 or batch > MOST_SEQUENCES or v_size > WIDEST_RUNS:
        return float("inf")
    block_bytes = 2 * BLOCK * (size + v_size)
    runs = count_runs(batch, kv_heads, capacity)
    each = px.cdiv(batch * kv_heads * px.cdiv(capacity, BLOCK), runs)
    reading = max(each * (block_us(block_bytes) + IN_TURN_US), runs * each * block_bytes / CARD_RATE)
    rounds = px.cdiv(px.cdiv(runs, batch) + 1, AT_ONCE[-1])
    return START_US + reading + CROSSED_US * (batch > 1) + JOIN_US + rounds * ROUND_US


def fill_card(units: int, capacity: int) -> tuple[int, int]:
    """Splits for calls that products limit, one CTA on an SM: gives work to as many SMs as possible.

    Unless clusters alone reach three quarters of these: what a second kernel joins costs a launch. Else nine tenths of
    them do, with the fewest splits. Only sizes are tried of which is known how many fit on the card.
    """
    device = px.device()
    blocks = px.cdiv(capacity, BLOCK)
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
    batch: int, kv_heads: int, rows: int, capacity: int, size: int, v_size: int, page: int = 0, item: int = 2,
    dense: bool = True,
) -> DecodeConfig:  # fmt: skip
    """The configuration for `batch` sequences of up to `capacity` tokens, with `rows` rows of queries for each KV head
    and elements of `item` bytes.

    Memory is the limit, and fastest with one CTA on an SM that has 64 KB on their way (`lone_ring`), and a stage more
    where none follows, or of pages, which lie anywhere and take longer to come. Where sequences are short two or more
    CTAs share an SM: one begins while the other reads (128 sequences of 1,000 keys: 7% less time). Clusters or splits
    share what few sequences and heads have, whichever are done first (`spread`); where there are more sequences and
    heads than SMs, each is one CTA's: a CTA that is done makes room for the next, so that sequences of somewhat
    different lengths even out (`choose_runs` is for others), and so do SMs, which reach the memory at speeds that
    differ by 10%. 8-bit elements are limited by their conversion: two CTAs share an SM. With more than 64 rows products
    are near the limit, too: 128 rows share what is loaded and converted, with one more stage on its way, and all SMs
    are given something (`fill_card`). Heads of 80 elements, say, are ragged: side by side they share what the memory reads
    at once. Blocks with keys of all heads, in equal runs, read it once (`choose_runs`); where runs are slower, or not to be
    had, rings of two blocks keep the heads of more than L2 holds together. `dense` is as for `choose_runs`. Anyone may call
    it; no hardware is involved.
    Example: ``choose_decode(64, 8, 4, 8192, 128, 128).cluster == 1``.
    """
    box = min(page or BLOCK, BLOCK)
    block_bytes = BLOCK * (size + v_size) * item
    wide = rows > 64 and size <= 128 and v_size <= 128
    if item == 1 and not wide:
        ctas = ctas_on_an_sm(64, size, v_size, item)
        units = batch * kv_heads * px.cdiv(rows, 64)
        slowly = block_bytes * ctas / NARROW_RATE
        _, cluster, splits, _ = spread(units, capacity, (ctas,), block_bytes, slowly)
        return DecodeConfig(cluster, ring_stages(64, size, v_size, ctas, item), box, ctas, 64, splits)
    tile = 128 if wide else 64
    ctas = 1
    ragged = is_ragged(kv_heads, size, v_size, item, dense) and not wide
    units = batch * kv_heads * px.cdiv(rows, tile)
    if wide:
        cluster, splits = fill_card(units, capacity)
    else:
        crowds = tuple(n for n in range(1, MOST_CROWDED + 1) if n == 1 or fits(n, size, v_size))
        rate = RAGGED_RATE if ragged else CARD_RATE
        time, cluster, splits, ctas = spread(units, capacity, crowds, block_bytes, block_us(block_bytes), rate)
        if ragged and runs_us(batch, kv_heads, rows, capacity, size, v_size, dense) < time:
            return equal_runs(batch, kv_heads, rows, capacity, size, v_size, page, dense)
    if cluster * splits <= MOST_SPLITS and splits > 1:
        cluster, splits = 1, cluster * splits  # joined once, not first in the cluster
    box = min(box, BOXES[tile])
    if ctas > 1:
        stages = 2 + ((page > 0 or ctas > 2) and ring_stages(tile, size, v_size, ctas) > 2)
        return DecodeConfig(cluster, stages, box, ctas, tile, splits)
    stages, room = lone_ring(tile, size, v_size, item)
    lone = units * cluster * splits <= px.device().sms and stages * block_bytes <= IN_FLIGHT
    stages = min(stages + (wide or page > 0 or lone), ring_stages(tile, size, v_size, 1, item))
    if ragged and batch * kv_heads * px.cdiv(capacity, BLOCK) * block_bytes > px.device().l2_bytes:
        stages = 2
    return DecodeConfig(cluster, stages, box, 1, tile, splits, max(room, stages))


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
    return equal_runs(batch, kv_heads, rows, capacity, size, v_size, page, dense)


@chosen_by_sizes
@cache
def choose_latent(batch: int, rows: int, capacity: int, page: int = 0) -> DecodeConfig:
    """The configuration for latent caches: one CTA of 64 rows on an SM, and all SMs are given something (`fill_card`).

    Anyone may call it; no hardware is involved. Example: ``choose_latent(128, 128, 4096).cluster == 1``.
    """
    cluster, splits = fill_card(batch * px.cdiv(rows, 64), capacity)
    return DecodeConfig(cluster, 2, min(page or BLOCK, BLOCK), 1, splits=splits)
