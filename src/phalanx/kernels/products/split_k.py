"""Products with few rows, at the speed at which the weights stream in: split K, reduced inside a cluster.

The weights are the tensor cores' M operand, so that a few rows of A waste nothing. The SPLIT CTAs of a cluster take
parts of K; each sends its partial sums to the CTAs that own them, through distributed shared memory, and no partial
sum touches global memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import HALVES, empty, info_of, is_among, refused, require_config, require_vector
from phalanx.kernels.products.activations import ACTIVATIONS, activate
from phalanx.kernels.products.operand_recipes import AS_IT_IS, operand_recipe, warn
from phalanx.machines.h200 import H200
from phalanx.runtime.launch.replay import remembered

MOST_ROWS = 512
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
    same_rows, same_columns, same_tile = 0, 0, 0
    for other in px.static_range(CN):
        same_rows = same_rows | (1 << (s + SPLIT * (other + CN * z)))
    for other in px.static_range(CM):
        same_columns = same_columns | (1 << (s + SPLIT * (y + CN * other)))
    for other in px.static_range(SPLIT):
        same_tile = same_tile | (1 << (other + SPLIT * (y + CN * z)))
    return same_rows, same_columns, same_tile


@px.func
def column(step, turn, first, end, BK, STAGGER):
    """Where a step along K begins; with STAGGER the steps from `first` to `end` begin with another, `turn` further."""
    k = step + turn
    if STAGGER:
        k = k - (end - first if k >= end else 0)
    return k * BK


@px.func
def by_thread(tile):
    """An f32 accumulator in the order in which threads hold it: 16 bytes of each next to those of its neighbour."""
    rows, columns = tile.shape
    pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2)
    return pieces.permute(3, 0, 2, 4, 1, 5).reshape(columns // 8, rows * 2, 4)


@px.func
def by_place(pieces, rows, columns):
    """The inverse of `by_thread`."""
    tile = pieces.reshape(columns // 8, rows // 16, 8, 4, 2, 2)
    return tile.permute(1, 4, 2, 0, 3, 5).reshape(rows, columns)


@px.kernel(
    warps=lambda GROUPS: 4 * GROUPS + 2, cluster=lambda SPLIT, CN, CM: (SPLIT, CN, CM), exit_sync=False, pdl=True
)
def split_ring(
    A, B, C, BIAS, *, BM=64, BN=128, BK=64, STAGES=8, AHEAD=0, PARTS=1, SPLIT=2, CN=1, CM=1, GROUPS=2, PIECES=2,
    LAG=0, REUSE=False, HALF=False, STAGGER=False, HINTS=True, ROWS=True, FLIPPED=False, WHOLE=True, BIASED=False,
    ACTIVATION=None
):
    """A tile (BM, BN) of C = A @ B.T per cluster of SPLIT CTAs (times CN x CM that share what they load).

    With FLIPPED it is stored in C.T, as the tensor cores hold it.
    The weights have a ring of STAGES, each of BK columns, and a warp that fills it. That of A has AHEAD stages less, since
    A comes from L2, sooner, and of a part of the columns each: only HBM needs long rows to be fast. A launch lasts some 40
    us, so what comes before the first load counts: the producers do not ask for stages that nobody has used, and they come
    last, because ptxas puts the last role right behind the start.
    """
    s, y, z = px.cluster.rank(0), px.cluster.rank(1), px.cluster.rank(2)
    same_rows, same_columns, same_tile = sharers(s, y, z, SPLIT, CN, CM)
    n, m = px.block_id(1) * BN, px.block_id(2) * BM
    w = px.shared((STAGES, BN, BK) if ROWS else (STAGES, BK, BN), B.dtype)
    AK = BK // PARTS
    a = px.shared((STAGES - AHEAD, BM, AK), A.dtype)
    w_full, w_empty = px.barrier(STAGES), px.barrier(STAGES)
    a_full, a_empty = px.barrier(STAGES - AHEAD), px.barrier(STAGES - AHEAD)
    steps = px.cdiv(A.shape[1], BK)
    first, end = s * steps // SPLIT, (s + 1) * steps // SPLIT
    turn = 0
    if STAGGER:  # clusters begin at different columns of B, and so at different channels of the memory
        turn = px.block_id(1) // CN * 5 % (end - first)
    width, most = BM // PIECES, px.cdiv(PIECES, SPLIT)  # piece p of the rows is summed up by CTA p % SPLIT
    high, wide = (BN, width) if FLIPPED else (width, BN)  # of a piece, as it lies in C
    out = px.shared((most, high, wide), C.dtype, reuse=w)
    at_once = high if WHOLE else ROWS_AT_ONCE
    if SPLIT > 1:
        wire = A.dtype if HALF else px.f32  # of partial sums on their way
        inbox = px.shared((SPLIT - 1, most, width // 8, 2 * BN, 4), wire, reuse=a if REUSE else None)
        landed = px.barrier()
        if REUSE:
            drained = px.barrier()
    w_ring, a_ring = px.ring(STAGES), px.ring(STAGES - AHEAD)
    wait_for_prior_launch()

    with px.warps(0, 4 * GROUPS):
        acc = px.empty((BN, BM), px.f32)
        w_before, a_before = 0, 0
        for step in range(first, end):
            w_stage = w_ring.stage
            w_full[w_stage].wait(w_ring.parity)
            for part in px.static_range(PARTS):
                a_stage, k = a_ring.stage, part * AK
                a_full[a_stage].wait(a_ring.parity)
                weights = w[w_stage][:, k : k + AK] if ROWS else w[w_stage][k : k + AK].T
                px.wgmma(weights, a[a_stage].T, acc, accumulate=True if part > 0 else step > first)
                px.wgmma_commit()
                px.wgmma_wait(LAG)
                if LAG == 0:
                    a_empty[a_stage].arrive(ctas=same_rows if CN > 1 else None)
                elif part > 0:
                    a_empty[a_before].arrive(ctas=same_rows if CN > 1 else None)
                elif step > first:
                    a_empty[a_before].arrive(ctas=same_rows if CN > 1 else None)
                    w_empty[w_before].arrive(ctas=same_columns if CM > 1 else None)
                a_before = a_stage
                a_ring.advance()
            if LAG == 0:
                w_empty[w_stage].arrive(ctas=same_columns if CM > 1 else None)
            w_before = w_stage
            w_ring.advance()
        px.wgmma_wait(0)
        if LAG > 0:
            w_empty[w_before].arrive(ctas=same_columns if CM > 1 else None)
            a_empty[a_before].arrive(ctas=same_rows if CN > 1 else None)

        if SPLIT > 1:
            if REUSE:  # every CTA's ring has had its last use: its memory may take what the others send
                drained.arrive(ctas=same_tile)
                drained.wait(0)
            with landed.transaction():
                for me in px.static_range(SPLIT):
                    if s == me:
                        for turn in px.static_range(1, PIECES + 1):  # each begins with another owner: all get some at once
                            piece = (me + turn) % PIECES
                            owner = piece % SPLIT
                            if owner != me:
                                there = inbox[me - 1 if me > owner else me, piece // SPLIT]
                                sums = by_thread(acc[:, piece * width : piece * width + width]).to(wire)
                                px.cluster.store(there, sums, landed, cta=owner + SPLIT * (y + CN * z))
            if s < PIECES:
                landed.wait(0)
        for q in px.static_range(most):
            if q * SPLIT + s < PIECES:
                sums = by_thread(acc[:, q * SPLIT * width : q * SPLIT * width + width])
                for owner in px.static_range(1, min(SPLIT, PIECES - q * SPLIT)):
                    left = (q * SPLIT + owner) * width
                    sums = px.where(s == owner, by_thread(acc[:, left : left + width]), sums)
                for other in px.static_range(SPLIT - 1):
                    sums = sums + px.load(inbox[other, q]).to(px.f32)
                c = by_place(sums, BN, width)
                if BIASED:
                    c = c + px.load(BIAS[n : n + BN]).to(px.f32).reshape(BN, 1)
                px.store(out[q] if FLIPPED else out[q].T, activate(c, ACTIVATION).to(C.dtype))
                summed = m + (q * SPLIT + s) * width
                top, left = (n, summed) if FLIPPED else (summed, n)
                for row in px.static_range(0, high, at_once):
                    stored = px.load(out[q, row : row + at_once])
                    px.store(C[top + row : top + row + at_once, left : left + wide], stored)

    with px.warps(4 * GROUPS + 1, 1):
        share = BM // CN
        first_row = m + y * share
        for step in range(first, end):
            k = column(step, turn, first, end, BK, STAGGER)
            for part in px.static_range(PARTS):
                stage, start = a_ring.stage, k + part * AK
                if (step - first) * PARTS + part >= STAGES - AHEAD:
                    a_empty[stage].wait(a_ring.parity ^ 1)
                with a_full[stage].transaction():
                    px.tma.load(
                        A[first_row : first_row + share, start : start + AK], a[stage][y * share : y * share + share],
                        a_full[stage], multicast=same_rows if CN > 1 else None, cache="evict_last" if HINTS else None,
                    )
                a_ring.advance()
        if CN > 1:
            for _ in range(STAGES - AHEAD):
                a_empty[a_ring.stage].wait(a_ring.parity ^ 1)
                a_ring.advance()

    with px.warps(4 * GROUPS, 1):
        share = BN // CM  # of what this CTA loads for itself and others
        first_row = n + z * share
        box = min(BOX_ROWS, share) if BK > 64 else share
        for step in range(first, end):
            k = column(step, turn, first, end, BK, STAGGER)
            stage = w_ring.stage
            if step >= first + STAGES:
                w_empty[stage].wait(w_ring.parity ^ 1)
            with w_full[stage].transaction():
                if ROWS:
                    for row in px.static_range(0, share, box):
                        here, there = first_row + row, z * share + row
                        px.tma.load(
                            B[here : here + box, k : k + BK], w[stage][there : there + box], w_full[stage],
                            multicast=same_columns if CM > 1 else None, cache="evict_first" if HINTS else None,
                        )
                else:
                    px.tma.load(
                        B[k : k + BK, first_row : first_row + share], w[stage][:, z * share : z * share + share],
                        w_full[stage], multicast=same_columns if CM > 1 else None,
                        cache="evict_first" if HINTS else None,
                    )
            w_ring.advance()
        if CM > 1:  # the peers' last releases have arrived: no CTA leaves while a signal is on its way to it
            for _ in range(STAGES):
                w_empty[w_ring.stage].wait(w_ring.parity ^ 1)
                w_ring.advance()


@frozen
class SplitConfig:
    """How a product is spread: a CTA makes partial sums of a tile of `bm` rows of A by `bn` rows of the weights.

    `split` CTAs of a cluster share K, `cn` column tiles share what they load of A, `cm` row tiles what they load of B.
    The tile's rows are summed up in `pieces`, in turn by the CTAs of the split. The ring of the weights has `stages`,
    that of A `ahead` fewer (or more, below 0), each of a fraction 1 / `parts` of the columns. `lag`: products in flight
    when a stage is released; `reuse`: partial sums land in the memory of A's ring, after a signal that it is free;
    `half`: they travel in the operands' type, half the bytes, each rounded once (never chosen by itself).
    """

    bm: int
    bn: int
    split: int
    stages: int
    bk: int = 64
    cn: int = 1
    cm: int = 1
    groups: int = 2
    pieces: int = 1
    lag: int = 0
    reuse: bool = False
    half: bool = False
    ahead: int = 0
    parts: int = 1
    stagger: bool = False
    hints: bool = True

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.split * self.cn * self.cm

    @property
    def weight_bytes(self) -> int:
        """Shared memory of the ring of weights."""
        return 2 * self.bk * self.bn * self.stages

    @property
    def row_bytes(self) -> int:
        """Shared memory of the ring of A."""
        return 2 * self.bk // self.parts * self.bm * (self.stages - self.ahead)

    @property
    def summed_rows(self) -> int:
        """Rows of a tile that one CTA of the split sums up, at most."""
        return self.bm // self.pieces * px.cdiv(self.pieces, self.split)

    @property
    def inbox_bytes(self) -> int:
        """Shared memory for the partial sums that the other CTAs of the split send to one of them."""
        return (2 if self.half else 4) * (self.split - 1) * self.bn * self.summed_rows

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA, at most.

        Barriers and padding are counted with 1 KB; the rings and the inbox follow, then what the epilogue exchanges
        between threads, and what it holds of an f32 result beyond the memory of the weights.
        """
        landing = max(0, self.inbox_bytes - self.row_bytes) if self.reuse else self.inbox_bytes
        weights = max(self.weight_bytes, 4 * self.bn * self.summed_rows)
        return 1024 + 2 * ROWS_AT_ONCE * self.bn + weights + self.row_bytes + landing

    def constants(self) -> dict[str, Any]:
        """The kernel's constants of the same names, in capitals. Not to be changed: all callers get the same."""
        return _constants(self)

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        """CTAs for a product of `m` rows and `n` columns: whole clusters along each axis."""
        return (
            self.split, px.cdiv(px.cdiv(n, self.bn), self.cn) * self.cn, px.cdiv(px.cdiv(m, self.bm), self.cm) * self.cm
        )


@cache
def _constants(config: SplitConfig) -> dict[str, Any]:
    return {name.upper(): value for name, value in asdict(config).items()}


HEIGHTS = (8, 16, 24, *range(32, 257, 16))
"""Rows of a tile: the copy engine fills in those that are not there, at a seventh of the speed at which it loads others; but
every height is a kernel to compile."""
SHARED_BY_CTAS = {ctas: H200.shared_bytes(ctas) for ctas in (1, 2)}
"""Shared memory of a CTA that has an SM to itself, and of one that shares it with another."""


def predicted(config: SplitConfig, m: int, n: int, k: int) -> float:
    """Microseconds of a launch that finds nothing in L2.

    The slowest of six streams (weights from HBM to all and to one SM, as many as the rings can hold, operands from L2
    to all SMs and, with rows that are not there, to one, products), times the waves of clusters; then the partial sums
    from SM to SM, and the signals around them. What it knows of a card is `H200.split`.
    """
    card = H200.split
    across, down = px.cdiv(n, config.bn), px.cdiv(m, config.bm)
    ctas = config.split * px.cdiv(across, config.cn) * config.cn * px.cdiv(down, config.cm) * config.cm
    small = config.bm * config.bn // (64 * config.groups) <= 128  # so few sums that two CTAs have registers for them
    per_sm = 2 if config.shared_bytes <= SHARED_BY_CTAS[2] and small else 1
    at_once = px.device().clusters(config.cluster)
    waves = px.cdiv(ctas // config.cluster, at_once * per_sm)
    doubled = 2 if ctas > waves * at_once * config.cluster else 1  # on some SM
    part = px.cdiv(px.cdiv(k, config.bk), config.split) * config.bk
    fetched = 2 * part * (config.bn / config.cm + config.bm / config.cn)
    readers = px.cdiv(down, config.cm)  # of the same weights
    missing = min(config.bm, readers * config.cm * config.bm - m)  # rows of the last tile
    streams = (
        2 * n * k * (1 + card.reread_factor * (readers - 1)) / card.hbm / waves,
        2 * part * config.bn / config.cm * doubled / card.hbm_sm,
        part / config.bk / config.stages * card.latency,
        ctas * fetched / card.l2 / waves,
        2 * part * ((config.bn + config.bm - missing) / card.l2_sm + missing / card.zero_fill) * doubled,
        2 * config.bm * config.bn * part * doubled / card.tensor * (card.single_group_factor if config.groups == 1 else 1),
    )
    sums = config.inbox_bytes / card.peer + card.signal * (1 + config.reuse) if config.split > 1 else 0.0
    shared = card.sharing if config.cn * config.cm > 1 else 0.0
    return card.fixed + waves * max(streams) + (waves - 1) * card.restart + sums + shared


def candidates(m: int, k: int) -> Iterator[SplitConfig]:
    """Configurations worth comparing for a product with `m` rows.

    Steps of 128 along K halve the signals where HBM is the limit; steps of 64 keep the tensor cores busy where they
    are. A product is always in flight when a stage is released.
    """
    heights = dict.fromkeys(_height(px.cdiv(m, tiles)) for tiles in range(px.cdiv(m, 256), px.cdiv(m, 128) + 1))
    for bm, bn, split, cn, cm in product(heights, (64, 128, 256), (1, 2, 3, 4, 6, 8), (1, 2), (1, 2)):
        bk, lag = 128 if m <= 128 else 64, 1
        if bn * bm > 128 * 256 or split > px.cdiv(k, bk) or split * cn * cm > 8:
            continue
        if bm % (8 * cn) or (cm > 1 and m <= bm):
            continue
        made = SplitConfig(
            bm, bn, split, 2, bk=bk, cn=cn, cm=cm, groups=1 if bn == 64 else 2, pieces=_pieces(bm, split), lag=lag
        )
        for ctas, reuse in product(SHARED_BY_CTAS, (False, True) if split > 1 else (False,)):
            found = _with_rings(replace(made, reuse=reuse), ctas)
            if found is not None:
                yield found


def _height(m: int) -> int:
    return next(height for height in HEIGHTS if height >= m)


def _pieces(bm: int, split: int) -> int:
    """Into how many pieces, powers of two of at least 8 rows, a tile is cut so that its CTAs sum up about as much each."""
    widths = [width for width in (128, 64, 32, 16, 8) if bm % width == 0] if split > 1 else [bm]
    return bm // min(widths, key=lambda width: width * px.cdiv(bm // width, split))


@cache
def _with_rings(config: SplitConfig, ctas: int) -> SplitConfig | None:
    """With rings that fit `ctas` times on an SM; None if they would be too short to hide the latency of a load.

    Measured (15 shapes, cold): 112 KB of the weights, which come from HBM, or 96 beside 128 rows of A
    (`H200.split.weights_in_flight`). More in flight pushes more out of L2, and what was written there takes HBM's time on
    its way out. A, which comes from L2, has what is left, up to 640 columns.
    """
    card = H200.split
    shortest = max(2 + config.lag, (192 if ctas > 1 else 256) // config.bk)
    beside_rows = config.bm > 64 and config.bn == 64
    in_flight = (card.weights_in_flight_beside_rows if beside_rows else card.weights_in_flight) // ctas
    longest = max(shortest, px.cdiv(in_flight, 2 * config.bk * config.bn))
    for stages, depth in product(range(longest, shortest - 1, -1), range(640 // config.bk, shortest - 1, -1)):
        found = replace(config, stages=stages, ahead=stages - depth)
        if found.shared_bytes <= SHARED_BY_CTAS[ctas]:
            return found
    return None


@cache
def choose_split(m: int, n: int, k: int) -> SplitConfig:
    """The configuration for a product of (m, k) by (k, n), of `candidates` the one with the least `predicted` time.

    In words: K split so far that the CTAs cover the SMs, and no further, since partial sums travel at a tenth of the
    speed of the operands; row tiles share the weights they read.
    Anyone may call it; no hardware is involved. Example: ``choose_split(64, 8192, 8192).split == 1``.
    """
    return min(candidates(m, k), key=lambda c: (predicted(c, m, n, k), c.cluster, c.reuse, -c.weight_bytes))


@remembered("a", "b", "bias", "out")
def split_k_matmul(
    a: Any, b: Any, bias: Any = None, activation: str | None = None, out: Any = None, config: SplitConfig | None = None
) -> Any:
    """``activation(a @ b + bias)`` for an `a` of few rows (1 to 512): the weights `b` stream in once.

    `a` (M, K) and `b` (K, N) bf16 or f16, on one device; `b` as the `.T` of contiguous (N, K) weights, or contiguous
    itself. `bias` (N,) of any float type, `activation` "relu", "gelu", "gelu_tanh" or "silu". `out` (M, N) of the
    operands' type or f32. Sums are f32 all the way. What the copy engine can't read (rows that do not begin at multiples
    of 16 bytes, an `a` that is not contiguous along K) is copied first, with a `CopyWarning`. sm_90a, or the simulator.
    Example: ``y = split_k_matmul(x, weight.T, bias, "silu")``.
    """
    left, right = info_of("a", a, HALVES), info_of("b", b, HALVES)
    if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[0]:
        raise refused(f"a has shape {left.shape}, b {right.shape}", "pass (M, K) and (K, N)")
    if left.dtype_name != right.dtype_name:
        raise refused(f"a is {left.dtype_name}, b is {right.dtype_name}", "pass operands of one element type")
    (m, k), n = left.shape, right.shape[1]
    if m > MOST_ROWS:
        raise refused(f"a has {m} rows", f"this kernel is for at most {MOST_ROWS}")
    if not is_among(activation, ACTIVATIONS):
        raise refused(
            f"unknown activation {activation!r}", f"use one of {', '.join(map(str, ACTIVATIONS[1:]))}, or None"
        )
    if bias is not None:
        require_vector("bias", bias, n)
    if out is None:
        out = empty(a, (m, n), left.dtype_name)
    result = info_of("out", out, (left.dtype_name, "f32"))
    if result.shape != (m, n):
        raise refused(f"out has shape {result.shape}", f"pass one of shape {(m, n)}")
    if 0 in (m, n):
        return out
    if k == 0:
        raise refused("a has no columns", "the sum over none of them is the bias alone: write that")
    settings = require_config(config, SplitConfig) or choose_split(m, n, k)
    a_recipe, _, a_note = operand_recipe("a", a, AS_IT_IS, -1, by="split_k_matmul", along_k_only=True)
    b_recipe, rows, b_note = operand_recipe("b", b, AS_IT_IS, -2, by="split_k_matmul")
    for note in (a_note, b_note):
        if note is not None:
            warn(note)
    flipped = result.strides[0] == 1 and not result.contiguous_inner  # as the product of few columns asks for it
    stored, lies = out, result
    if flipped:
        stored = out.swapaxes(-1, -2)
        lies = info_of("out", stored, (result.dtype_name,))
    split_ring[settings.grid(m, n)](
        a_recipe.make(a), b_recipe.make(b), stored, stored if bias is None else bias, ROWS=rows, FLIPPED=flipped,
        WHOLE=lies.contiguous_inner and lies.aligned16, BIASED=bias is not None, ACTIVATION=activation,
        **settings.constants(),
    )
    return out


__all__ = ["SplitConfig", "choose_split", "split_k_matmul"]
