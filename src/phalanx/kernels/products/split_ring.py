"""The kernel of `split_k_matmul`: a ring of weights, a ring of rows, and sums that CTAs of a cluster send each other.

The weights are the tensor cores' M operand, so that a few rows of A waste nothing. The SPLIT CTAs of a cluster take
parts of K; each sends its partial sums to the CTAs that own them, through distributed shared memory, and no partial
sum touches global memory.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.products.activations import activate
from phalanx.kernels.products.fetching import PANEL, block, in_panels, whole_panels
from phalanx.kernels.products.sums import by_place, by_thread

ROWS_AT_ONCE = 8
"""Rows that are stored at a time where they are not made of aligned pieces of 16 bytes. There are few of them, so that few
elements go from one thread to another on the way."""
BOX_ROWS = 16
"""Rows of weights that one copy brings where a stage has more than 64 columns: what lies side by side in HBM, and goes to
boxes of 128 bytes each, is asked for in close succession."""


@px.func
def sharers(s, y, z, SPLIT, CN, CM):
    """Masks of the CTAs that read the same part of A (other columns), the same part of B (other rows), and of those
    that sum up with this one; rank = s + SPLIT * (y + CN * z)."""
    same_rows = 0
    same_columns = 0
    same_tile = 0
    for other in px.static_range(CN):
        same_rows = same_rows | (1 << (s + SPLIT * (other + CN * z)))
    for other in px.static_range(CM):
        same_columns = same_columns | (1 << (s + SPLIT * (y + CN * other)))
    for other in px.static_range(SPLIT):
        same_tile = same_tile | (1 << (other + SPLIT * (y + CN * z)))
    return same_rows, same_columns, same_tile


@px.struct
class Rings:
    """A CTA's part of K, and the two rings that its operands come through.

    The CTA takes the steps `first` to `end` along K. A role has its own places in the rings, `w_ring` and `a_ring`. HINT is
    what L2 is told of the weights. They are no `px.pipe`: a stage is released one product after it was taken, so that a
    pipe would count at run time how many stages it holds, and find its next stage from that count in each step; and its
    producers would wait for stages that nobody has used.
    """

    w: Any
    a: Any
    w_full: Any
    w_empty: Any
    a_full: Any
    a_empty: Any
    w_ring: Any
    a_ring: Any
    same_rows: Any
    same_columns: Any
    first: Any
    end: Any
    BM: int
    BN: int
    BK: int
    STAGES: int
    AHEAD: int
    CN: int
    CM: int
    HINT: str
    ROWS: bool
    A_ROWS: bool

    def with_rows(self, rows):
        """These rings, from their first stages on, for a tile with `rows` rows of A."""
        return Rings(
            self.w, self.a, self.w_full, self.w_empty, self.a_full, self.a_empty, px.ring(self.STAGES),
            px.ring(self.STAGES - self.AHEAD), self.same_rows, self.same_columns, self.first, self.end, rows, self.BN,
            self.BK, self.STAGES, self.AHEAD, self.CN, self.CM, self.HINT, self.ROWS, self.A_ROWS,
        )  # fmt: skip

    def release_rows(self, stage):
        """Gives a stage of A back, to all CTAs whose copies land in it."""
        self.a_empty[stage].arrive(ctas=self.same_rows if self.CN > 1 else None)

    def release_weights(self, stage):
        """Gives a stage of the weights back, to all CTAs whose copies land in it."""
        self.w_empty[stage].arrive(ctas=self.same_columns if self.CM > 1 else None)

    def multiply(self):
        """The role that multiplies: partial sums of the tile over this CTA's part of K."""
        acc = px.empty((self.BN, self.BM), px.f32)
        w_before = 0
        a_before = 0
        for step in range(self.first, self.end):
            w_stage = self.w_ring.stage
            self.w_full[w_stage].wait(self.w_ring.parity)
            a_stage = self.a_ring.stage
            self.a_full[a_stage].wait(self.a_ring.parity)
            weights = self.w[w_stage] if self.ROWS else self.w[w_stage].T
            rows = self.a[a_stage][: self.BM].T if self.A_ROWS else self.a[a_stage][:, : self.BM]
            px.wgmma(weights, rows, acc, accumulate=step > self.first)
            px.wgmma_commit()
            px.wgmma_wait(1)
            if step > self.first:
                self.release_rows(a_before)
                self.release_weights(w_before)
            a_before = a_stage
            self.a_ring.advance()
            w_before = w_stage
            self.w_ring.advance()
        px.wgmma_wait(0)
        self.release_weights(w_before)
        self.release_rows(a_before)
        return acc

    def fetch_rows(self, A, m, y):
        """The role that fills the ring of A: this CTA's share of the tile's rows, for all CTAs of other columns."""
        BK = self.BK
        DEPTH = self.STAGES - self.AHEAD
        rows_of_k = not self.A_ROWS and not in_panels(self.BM, self.CN)
        share = self.BM // self.CN
        depth = BK // self.CN  # rows of A, or else rows of K
        first_row = m + y * share
        top = y * depth
        wide = self.BM // PANEL * PANEL if self.BM > PANEL else self.BM
        mask = self.same_rows if self.CN > 1 else None
        for step in range(self.first, self.end):
            k = step * BK
            stage = self.a_ring.stage
            if step - self.first >= DEPTH:
                self.a_empty[stage].wait(self.a_ring.parity ^ 1)
            full = self.a_full[stage]
            with full.transaction():
                if self.A_ROWS:
                    there = self.a[stage][y * share : y * share + share]
                    here = A[first_row : first_row + share, k : k + BK]
                    px.tma.load(here, there, full, multicast=mask, cache="evict_last")
                elif rows_of_k:
                    for left in px.static_range(0, self.BM, wide):  # whole panels, and the first columns of one
                        size = min(self.BM - left, wide)
                        here = A[k + top : k + top + depth, m + left : m + left + size]
                        there = self.a[stage][top : top + depth, left : left + size]
                        px.tma.load(here, there, full, multicast=mask, cache="evict_last")
                else:
                    there = self.a[stage][:, y * share : y * share + share]
                    here = A[k : k + BK, first_row : first_row + share]
                    px.tma.load(here, there, full, multicast=mask, cache="evict_last")
            self.a_ring.advance()
        if self.CN > 1:
            for _ in range(DEPTH):
                self.a_empty[self.a_ring.stage].wait(self.a_ring.parity ^ 1)
                self.a_ring.advance()

    def fetch_weights(self, B, n, z, matrix=None):
        """The role that fills the ring of the weights: this CTA's share of the columns, for all CTAs of other rows.

        B is one matrix of weights, or has several, of which this is `matrix`.
        """
        BK = self.BK
        share = self.BN // self.CM
        first_row = n + z * share
        box = min(BOX_ROWS, share) if BK > 64 else share
        for step in range(self.first, self.end):
            k = step * BK
            stage = self.w_ring.stage
            if step >= self.first + self.STAGES:
                self.w_empty[stage].wait(self.w_ring.parity ^ 1)
            with self.w_full[stage].transaction():
                if self.ROWS:
                    for row in px.static_range(0, share, box):
                        here = first_row + row
                        there = z * share + row
                        px.tma.load(
                            block(B, matrix, here, k, box, BK), self.w[stage][there : there + box], self.w_full[stage],
                            multicast=self.same_columns if self.CM > 1 else None, cache=self.HINT,
                        )
                else:
                    px.tma.load(
                        block(B, matrix, k, first_row, BK, share), self.w[stage][:, z * share : z * share + share],
                        self.w_full[stage], multicast=self.same_columns if self.CM > 1 else None, cache=self.HINT,
                    )
            self.w_ring.advance()
        if self.CM > 1:  # the peers' last releases have arrived: no CTA leaves while a signal is on its way to it
            for _ in range(self.STAGES):
                self.w_empty[self.w_ring.stage].wait(self.w_ring.parity ^ 1)
                self.w_ring.advance()


@px.struct
class ExchangedSums:
    """How the SPLIT CTAs of a tile add up: piece p of its rows, of `width`, is summed up by CTA p % SPLIT.

    The other CTAs send their partial sums into its `inbox`, and `landed` says that they are there. With `drained`, the
    inbox is in the memory of A's ring, which has to have had its last use.
    """

    s: Any
    y: Any
    z: Any
    same_tile: Any
    inbox: Any
    landed: Any
    drained: Any
    width: int
    SPLIT: int
    CN: int
    PIECES: int

    def send(self, acc):
        """Sends each partial sum to the CTA that owns it, and waits for those that this one owns."""
        if self.drained is not None:  # every CTA's ring has had its last use: its memory may take what the others send
            self.drained.arrive(ctas=self.same_tile)
            self.drained.wait(0)
        with self.landed.transaction():
            for me in px.static_range(self.SPLIT):
                if self.s == me:
                    for turn in px.static_range(1, self.PIECES + 1):  # each begins with another owner: all get some at once
                        piece = (me + turn) % self.PIECES
                        owner = piece % self.SPLIT
                        if owner != me:
                            there = self.inbox[me - 1 if me > owner else me, piece // self.SPLIT]
                            sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])
                            px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))
        if self.s < self.PIECES:
            self.landed.wait(0)

    def total(self, acc, q, BN):
        """Piece q of those that this CTA sums up, as a tile of the result."""
        width = self.width
        sums = by_thread(acc[:, q * self.SPLIT * width : q * self.SPLIT * width + width])
        for owner in px.static_range(1, min(self.SPLIT, self.PIECES - q * self.SPLIT)):
            left = (q * self.SPLIT + owner) * width
            sums = px.where(self.s == owner, by_thread(acc[:, left : left + width]), sums)
        for other in px.static_range(self.SPLIT - 1):
            sums = sums + px.load(self.inbox[other, q])
        return by_place(sums, BN, width)


@px.func
def inbox_for(a, SPLIT, most, width, BN, REUSE):
    """Where partial sums of other CTAs land, and the barriers that say that they have landed, and, with REUSE, that the
    ring `a`, whose memory they take, is free. None of them where K is not split."""
    inbox = None
    landed = None
    drained = None
    if SPLIT > 1:
        inbox = px.shared((SPLIT - 1, most, width // 8, 2 * BN, 4), px.f32, reuse=a if REUSE else None)
        landed = px.barrier()
        if REUSE:
            drained = px.barrier()
    return inbox, landed, drained


@px.kernel(
    warps=lambda config: 4 * config.groups + 2, cluster=lambda config: (config.split, config.cn, config.cm),
    exit_sync=False, pdl=True,
)  # fmt: skip
def split_ring(
    A, B, C, BIAS, *, config, ROWS=True, A_ROWS=True, FLIPPED=False, WHOLE=True, BIASED=False, BIAS_OF_ROWS=False,
    ACTIVATION=None,
):  # fmt: skip
    """A tile of C = A @ B.T for each cluster, whose CTAs share K, and what they load with others.

    A is (M, K), or (K, M) without A_ROWS; B is (N, K), or (K, N) without ROWS. With FLIPPED the tile is stored in C.T, as
    the tensor cores hold it; with BIAS_OF_ROWS a bias has an element for each row of A, else for each row of B.
    The weights have a ring, and a warp that fills it. That of A has fewer stages, since A comes from L2, sooner. A launch
    lasts some 40 us, so what comes before the first load counts: the producers do not ask for stages that nobody has used,
    and they come last, because ptxas puts the last role right behind the start.
    """
    BM = config.bm
    BN = config.bn
    BK = config.bk
    STAGES = config.stages
    AHEAD = config.ahead
    SPLIT = config.split
    # Step 1: the place of this CTA in its cluster, its part of K, and shared memory.
    s = px.cluster.rank(0)
    y = px.cluster.rank(1)
    z = px.cluster.rank(2)
    same_rows, same_columns, same_tile = sharers(s, y, z, SPLIT, config.cn, config.cm)
    n = px.block_id(1) * BN
    m = px.block_id(2) * BM
    w = px.shared((STAGES, BN, BK) if ROWS else (STAGES, BK, BN), B.dtype)
    a = px.shared((STAGES - AHEAD, BM, BK) if A_ROWS else (STAGES - AHEAD, BK, whole_panels(BM)), A.dtype)
    w_full = px.barrier(STAGES)
    w_empty = px.barrier(STAGES)
    a_full = px.barrier(STAGES - AHEAD)
    a_empty = px.barrier(STAGES - AHEAD)
    steps = px.cdiv(A.shape[1 if A_ROWS else 0], BK)
    first = s * steps // SPLIT
    end = (s + 1) * steps // SPLIT
    width = BM // config.pieces
    most = px.cdiv(config.pieces, SPLIT)
    high, wide = (BN, width) if FLIPPED else (width, BN)  # of a piece, as it lies in C
    out = px.shared((most, high, wide), C.dtype, reuse=w)
    at_once = high if WHOLE else ROWS_AT_ONCE
    inbox, landed, drained = inbox_for(a, SPLIT, most, width, BN, config.reuse)
    w_ring = px.ring(STAGES)
    a_ring = px.ring(STAGES - AHEAD)
    rings = Rings(
        w, a, w_full, w_empty, a_full, a_empty, w_ring, a_ring, same_rows, same_columns, first, end, BM, BN, BK, STAGES,
        AHEAD, config.cn, config.cm, config.hint, ROWS, A_ROWS,
    )  # fmt: skip
    px.wait_prior()

    # Step 2: warpgroups multiply, send sums to each other, and store what they add up.
    with px.warps(0, 4 * config.groups):
        px.launch_dependents()  # by warps that have to wait for the first copies anyway
        acc = rings.multiply()
        tile = ExchangedSums(s, y, z, same_tile, inbox, landed, drained, width, SPLIT, config.cn, config.pieces)
        if SPLIT > 1:
            tile.send(acc)
        for q in px.static_range(most):
            if q * SPLIT + s < config.pieces:
                c = tile.total(acc, q, BN)
                summed = m + (q * SPLIT + s) * width
                if BIASED and BIAS_OF_ROWS:
                    c = c + px.load(BIAS[summed : summed + width]).to(px.f32).reshape(1, width)
                elif BIASED:
                    c = c + px.load(BIAS[n : n + BN]).to(px.f32).reshape(BN, 1)
                px.store(out[q] if FLIPPED else out[q].T, activate(c, ACTIVATION).to(C.dtype))
                top, left = (n, summed) if FLIPPED else (summed, n)
                for row in px.static_range(0, high, at_once):
                    stored = px.load(out[q, row : row + at_once])
                    px.store(C[top + row : top + row + at_once, left : left + wide], stored)

    # Step 3: a warp for each ring.
    with px.warps(4 * config.groups + 1, 1):
        rings.fetch_rows(A, m, y)

    with px.warps(4 * config.groups, 1):
        rings.fetch_weights(B, n, z)
