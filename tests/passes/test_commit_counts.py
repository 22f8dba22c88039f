"""Arrivals of the tensor cores, counted over the cluster: commits to all CTAs that fill what a product reads.

CTAs whose ranks differ in the bits of W alone hold the same tile of an operand, which each of them brings a part of; whoever
has multiplied tells them all. So rank t hears from every c with c ^ t inside W of one operand or another; in pairs, where
the even CTA commits and both halves are told, from even ones alone.
"""

from __future__ import annotations

import random
from itertools import combinations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.language.reader.reading import read_kernel
from phalanx.passes.counts import infer_counts
from phalanx.passes.roles import merge_roles
from sanitizer.planted import line_of


@px.func
def sharers(rank, W):
    """The CTAs whose ranks differ from `rank` in bits of W alone, as a mask."""
    mask = 0
    for t in px.static_range(16):
        if t & ~W == 0:
            mask = mask | 1 << t
    return mask << (rank & ~W)


@px.kernel(warps=1, cluster=lambda BITS: 1 << BITS)
def commits(*, BITS, PAIR, SHARED):
    """One commit for all operands; `SHARED` has the bits along which each of them is shared."""
    rank = px.cluster.rank()
    empty = px.barrier()
    mask = 0
    for i in px.static_range(len(SHARED)):
        mask = mask | sharers(rank, SHARED[i] | (1 if PAIR else 0))
    if not PAIR or rank % 2 == 0:
        px.tcgen05.commit(empty, multicast=mask, two_cta=PAIR)
    empty.wait(0)


def closed_form(shared: tuple[int, ...], pair: bool) -> int:
    """Ranks in the union of the subspaces: all of one, less those of two, and so on; in pairs bit 0 is the leader's."""
    spaces = [bits & ~1 if pair else bits for bits in shared]
    total = 0
    for size in range(1, len(spaces) + 1):
        for chosen in combinations(spaces, size):
            common = ~0
            for bits in chosen:
                common &= bits
            total -= (-1) ** size * (1 << common.bit_count())
    return total


def inferred(bits: int, pair: bool, shared: tuple[int, ...]) -> set[int]:
    """What the compiler counts, in every rank."""
    constants = commits.bind_constants({"BITS": bits, "PAIR": pair, "SHARED": shared})
    function = merge_roles(read_kernel(commits, (), constants).function)
    (counts,) = infer_counts(function).values()
    return {count for rank in counts for count in rank}


LAYOUTS = [
    (bits, pair, (a, b))
    for bits in range(5) for pair in (False, True) if bits or not pair
    for a in range(1 << bits) for b in range(1 << bits)
]


def test_there_are_681_layouts_of_two_operands():
    assert len(LAYOUTS) == 681


@pytest.mark.share(2)
@pytest.mark.parametrize("bits", [0, 1, 2, 3, pytest.param(4, marks=pytest.mark.long)])
def test_two_operands(bits):
    for size, pair, shared in LAYOUTS:
        if size == bits:
            assert inferred(bits, pair, shared) == {closed_form(shared, pair)}, (pair, shared)


def test_two_operands_and_their_scales():
    pick = random.Random(1)
    for _ in range(60):
        bits, pair = pick.randint(1, 4), pick.random() < 0.5
        shared = tuple(pick.randrange(1 << bits) for _ in range(4))
        assert inferred(bits, pair, shared) == {closed_form(shared, pair)}, (bits, pair, shared)


# --- a scale that both CTAs of a pair have whole -------------------------------------------------------------------------

A = np.ones((512, 32), ml_dtypes.bfloat16)
C = np.zeros((512, 32), np.float32)


@px.kernel(warps=6, cluster=4)
def two_pairs(A, C, *, COUNT):
    """Two pairs along M share B, and the scales of B are the same in all four CTAs: bits 0 and 1."""
    rank = px.cluster.rank()
    a, b, acc = px.shared((128, 32), A.dtype), px.shared((16, 32), A.dtype), px.tmem((128, 32), px.f32)
    full, done = px.barrier(), px.barrier()
    empty = px.barrier(count=COUNT)  # bug
    mask = sharers(rank, 0b01) | sharers(rank, 0b11)
    with px.warps(4, 1):
        for k in range(2):
            empty.wait((k & 1) ^ 1)
            with full.transaction():
                px.tma.load(A[rank * 128 : rank * 128 + 128, 0:32], a, full, two_cta=True)
                px.tma.load(A[0:16, 0:32], b, full, two_cta=True)
    with px.warps(5, 1):
        if rank % 2 == 0:
            for k in range(2):
                full.wait(k & 1)
                px.tcgen05.mma(a, b.T, acc, accumulate=k > 0, two_cta=True)
                px.tcgen05.commit(empty, multicast=mask, two_cta=True)
            px.tcgen05.commit(done, multicast=sharers(rank, 0b01), two_cta=True)
    with px.warps(0, 4):
        done.wait(0)
        px.store(C[rank * 128 : rank * 128 + 128, 0:32], px.tcgen05.load(acc))


def test_commits_of_odd_ranks_that_do_not_exist():
    """Whoever counts all four CTAs of the scale, not its two leaders, waits for ever: told before that."""
    assert closed_form((0b00, 0b10), pair=True) == 2 and closed_form((0b01, 0b11), pair=False) == 4
    finding, = px.check(two_pairs[4], A, C, COUNT=4).findings
    assert (finding.kind, finding.location.line) == ("count-mismatch", line_of(two_pairs, "bug"))
    assert "4" in finding.message and "2" in finding.message
    for count in (2, None):
        report = px.check(two_pairs[4], A, C, COUNT=count)
        assert report.ok, report
    two_pairs[4](A, C, COUNT=2)
    assert (C == 64).all()
