"""Probes of the copy engine: latencies, and bytes out of L2, HBM and other SMs."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.tools.calibrate.probe import Makes, Probe, every, pair

ROWS = 64
"""Rows of 64 f32 of a tile that is copied: 16 KB."""
READ_ROWS = 128
"""Rows of a tile that is read: 32 KB, so that a turn of the loop takes less than its bytes."""
TILES = 3
"""Tiles that each CTA reads again and again: those of all of them fit into a part of L2."""
APART = 64
"""Rows between small copies out of HBM."""


@px.kernel(warps=1)
def read_again(X, own, n, *, STAGES=5, BM=128, BN=64):
    """Every CTA reads its own tiles, again and again, as fast as they come."""
    stages, full = px.shared((STAGES, BM, BN), X.dtype), px.barrier(STAGES)
    ring, first = px.ring(STAGES), px.block_id(0) * own * BM
    m = first
    for _ in range(n):
        full[ring.stage].wait(ring.parity ^ 1)
        with full[ring.stage].transaction():
            px.tma.load(X[m : m + BM, 0:BN], stages[ring.stage], full[ring.stage])
        ring.advance()
        m = px.where(m + BM < first + own * BM, m + BM, first)
    for _ in range(STAGES):
        full[ring.stage].wait(ring.parity ^ 1)
        ring.advance()


@px.kernel(warps=1)
def read_once(X, n, *, STAGES=5, BM=128, BN=64):
    """A CTA reads tiles that nobody has read, as fast as they come."""
    stages, full = px.shared((STAGES, BM, BN), X.dtype), px.barrier(STAGES)
    ring = px.ring(STAGES)
    for i in range(n):
        full[ring.stage].wait(ring.parity ^ 1)
        with full[ring.stage].transaction():
            px.tma.load(X[i * BM : i * BM + BM, 0:BN], stages[ring.stage], full[ring.stage])
        ring.advance()
    for _ in range(STAGES):
        full[ring.stage].wait(ring.parity ^ 1)
        ring.advance()


@px.kernel(warps=2)
def copied(X, Y, n, *, STAGES=8, BM=64, BN=64):
    """Every CTA copies tiles that nobody has read, from HBM to HBM."""
    stages, full, empty = px.shared((STAGES, BM, BN), X.dtype), px.barrier(STAGES), px.barrier(STAGES)
    ring = px.ring(STAGES)
    with px.warps(0, 1):
        for i in range(n):
            m = (i * px.num_blocks(0) + px.block_id(0)) * BM
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(X[m : m + BM, 0:BN], stages[ring.stage], full[ring.stage])
            ring.advance()
    with px.warps(1, 1):
        for i in range(n):
            m = (i * px.num_blocks(0) + px.block_id(0)) * BM
            full[ring.stage].wait(ring.parity)
            px.tma.store(stages[ring.stage], Y[m : m + BM, 0:BN])
            px.tma.commit()
            px.tma.wait(0, read=True)
            empty[ring.stage].arrive()
            ring.advance()
        px.tma.wait(0)


@px.kernel(warps=1)
def one_by_one(X, n, *, APART, BM=4, BN=64):
    """Small copies, each of which is waited for: of one place, or of places far apart."""
    tile, full = px.shared((BM, BN), X.dtype), px.barrier()
    for i in range(n):
        m = i * APART
        with full.transaction():
            px.tma.load(X[m : m + BM, 0:BN], tile, full)
        full.wait(i & 1)


@px.kernel(warps=1)
def many_at_once(X, n, *, MANY=8, BM=1, BN=32):
    """Eight small copies, and one wait for them."""
    tiles, full = px.shared((MANY, BM, BN), X.dtype), px.barrier()
    for i in range(n):
        with full.transaction():
            for t in px.static_range(MANY):
                px.tma.load(X[t : t + BM, 0:BN], tiles[t], full)
        full.wait(i & 1)


@px.kernel(warps=1, cluster=2)
def for_two(X, n, *, BM=4, BN=64):
    """Small copies for both CTAs of a cluster, each of which fetches half of them."""
    tile, full, empty = px.shared((BM, BN), X.dtype), px.barrier(), px.barrier()
    for i in range(n):
        empty.wait(i & 1 ^ 1)
        with full.transaction():
            px.cluster.load(X[0:BM, 0:BN], tile, full, ctas=0b11)
        full.wait(i & 1)
        empty.arrive(ctas=0b11)


@px.kernel(warps=1)
def stored(X, n, *, READ, BM=4, BN=64):
    """Small stores, until their source is read, or until they are written."""
    tile = px.shared((BM, BN), X.dtype)
    px.store(tile, px.load(X[0:BM, 0:BN]))
    px.fence.async_proxy()
    px.sync()
    for i in range(n):
        m = i * BM
        px.tma.store(tile, X[m : m + BM, 0:BN])
        px.tma.commit()
        px.tma.wait(0, read=READ)
    px.tma.wait(0)


@px.kernel(warps=1, cluster=2)
def to_peer(X, n, *, BM, BN=64):
    """Copies to the other CTA of a cluster, and back."""
    tile, inbox = px.shared((BM, BN), X.dtype), px.shared((BM, BN), X.dtype)
    full, filled = px.barrier(count=1), px.barrier()
    with filled.transaction():
        px.tma.load(X[0:BM, 0:BN], tile, filled)
    filled.wait(0)
    for i in range(n):
        if px.cluster.rank() == 0:
            px.cluster.copy(tile, inbox, full, cta=1, arm=True)
            full.wait(i & 1)
        else:
            full.wait(i & 1)
            px.cluster.copy(tile, inbox, full, cta=0, arm=True)


def own_tiles(make: Makes, steps: int) -> tuple[Any, ...]:
    """A few tiles for each CTA, and their number."""
    return make.zeros((make.sms * TILES * READ_ROWS, 64), px.f32), TILES


def all_tiles(make: Makes, steps: int) -> tuple[Any, ...]:
    """A tile for each step of each CTA, to read and to write."""
    return tuple(make.zeros((make.sms * steps * ROWS, 64), px.f32) for _ in range(2))


def new_tiles(make: Makes, steps: int) -> tuple[Any, ...]:
    """A tile for each step of one CTA."""
    return (make.zeros((steps * READ_ROWS, 64), px.f32),)


def tile(make: Makes, steps: int) -> tuple[Any, ...]:
    """A tile."""
    return (make.zeros((ROWS * 2, 64), px.f32),)


def rows_to_write(make: Makes, steps: int) -> tuple[Any, ...]:
    """Rows that each step stores anew."""
    return (make.zeros((steps * 4, 64), px.f32),)


def far_apart(make: Makes, steps: int) -> tuple[Any, ...]:
    """A small tile for each step, with room between them."""
    return (make.zeros((steps * APART + ROWS, 64), px.f32),)


PROBES = (
    Probe("copy_latency", "a copy of 1 KB out of L2", one_by_one, tile, (200, 2200), (8, 24), constants=(("APART", 0),)),
    Probe("copy_latency_hbm", "a copy of 1 KB out of HBM", one_by_one, far_apart, (100, 1100), (8, 24),
          constants=(("APART", APART),), cold=True),
    Probe("copy_issue", "8 copies of 128 bytes", many_at_once, tile, (200, 1200), (4, 12)),
    Probe("copy_multicast", "a copy of 1 KB for two CTAs", for_two, tile, (200, 2200), (8, 24), grid=pair),
    Probe("store_read", "a store of 1 KB, until it is read", stored, rows_to_write, (200, 2200), (8, 24),
          constants=(("READ", True),)),
    Probe("store_latency", "a store of 1 KB, until it is written", stored, rows_to_write, (200, 2200), (8, 24),
          constants=(("READ", False),)),
    Probe("peer_latency", "a copy of 256 bytes to another SM", to_peer, tile, (200, 2200), (8, 24), grid=pair,
          constants=(("BM", 1),)),
    Probe("peer_rate", "a copy of 32 KB to another SM", to_peer, tile, (100, 600), (4, 12), grid=pair,
          constants=(("BM", 128),)),
    Probe("l2_sm_rate", "32 KB for one SM out of L2", read_again, own_tiles, (200, 1200), (24, 48)),
    Probe("hbm_sm_rate", "32 KB for one SM out of HBM", read_once, new_tiles, (100, 600), (16, 32), cold=True),
    Probe("l2_rate", "32 KB for every SM out of L2", read_again, own_tiles, (200, 1200), (24, 48), grid=every),
    Probe("hbm_rate", "16 KB for every SM from HBM and to it", copied, all_tiles, (40, 240), (8, 16), grid=every,
          cold=True, by_time=True),
)  # fmt: skip

HELD = (4, 6, 7, 8, 9, 10, 11, 12, 14, 20)
"""Tiles of each CTA that are read again and again: L2 holds those of all CTAs, or does not."""


def reread(own: int) -> Probe:
    """What it takes to read so many tiles of each CTA again and again."""

    def tiles(make: Makes, steps: int) -> tuple[Any, ...]:
        return make.zeros((make.sms * own * READ_ROWS, 64), px.f32), own

    return Probe("l2_bytes", f"32 KB out of {own} tiles", read_again, tiles, (4 * own, 12 * own), (own, 2 * own), every)
