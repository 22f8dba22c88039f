"""Counts and bytes of kernels as users write them: read from source, roles formed, transactions lowered."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.analysis.ranks import per_rank
from phalanx.errors import Error
from phalanx.ir.ops.mbarrier import ArriveExpectTx, BarrierInit
from phalanx.ir.types import I32
from support.front import array, prepared


def counts(function, name):
    """Counts by rank of the barrier array called `name`."""
    (init,) = (op for op in function.walk() if isinstance(op, BarrierInit) and op.barrier.name == name)
    return init.counts


def expected_bytes(function):
    return [per_rank(function, op.nbytes) for op in function.walk() if isinstance(op, ArriveExpectTx)]


@px.kernel(warps=12, cluster=lambda CM, CN: (CM, CN, 1))
def multicast_ring(A, B, *, CM=2, CN=2, BM=128, BN=128, BK=64, STAGES=4):
    sA = px.shared((STAGES, BM, BK), px.bf16)
    sB = px.shared((STAGES, BN, BK), px.bf16)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    x, y = px.cluster.rank(0), px.cluster.rank(1)
    row = ((1 << CM) - 1) << (y * CM)
    column = 0
    for j in px.static_range(CN):
        column = column | (1 << (CM * j))
    column = column << x
    m = px.block_id(0) * BM
    n = px.block_id(1) * BN
    steps = px.cdiv(A.shape[1], BK)
    with px.warps(0, 4):
        ring = px.ring(STAGES)
        for k in range(steps):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                a = sA[ring.stage][x * (BM // CM) : x * (BM // CM) + BM // CM, :]
                b = sB[ring.stage][y * (BN // CN) : y * (BN // CN) + BN // CN, :]
                ma = m + x * (BM // CM)
                nb = n + y * (BN // CN)
                px.tma.load(A[ma : ma + BM // CM, k * BK : k * BK + BK], a, full[ring.stage], multicast=row)
                px.tma.load(B[nb : nb + BN // CN, k * BK : k * BK + BK], b, full[ring.stage], multicast=column)
            ring.advance()
    for consumer in px.static_range(2):
        with px.warps(4 + 4 * consumer, 4):
            ring = px.ring(STAGES)
            for _ in range(steps):
                full[ring.stage].wait(ring.parity)
                empty[ring.stage].arrive(ctas=row | column)
                ring.advance()


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 2), (2, 2), (4, 2), (4, 4)])
def test_a_ring_with_2d_multicast(shape):
    cm, cn = shape
    operand = array(2, px.bf16)
    function = prepared(multicast_ring, (operand, operand), CM=cm, CN=cn)
    size = cm * cn
    assert counts(function, "empty") == ((2 * (cm + cn - 1),) * 4,) * size
    assert counts(function, "full") == ((1,) * 4,) * size
    assert expected_bytes(function) == [(2 * 128 * 64 * 2,) * size]


def test_masks_may_be_computed_in_run_time_branches_on_the_rank():
    @px.kernel(warps=4, cluster=4)
    def kernel(X):
        rank = px.cluster.rank()
        mask = 0b0011
        if rank >= 2:
            mask = 0b1100
        bar = px.barrier()
        bar.arrive(ctas=mask)
        bar.wait(0)

    assert counts(prepared(kernel, (array(1),)), "bar") == ((2,),) * 4


def test_a_delayed_release_with_a_conditional_drain():
    @px.kernel(warps=8)
    def kernel(n):
        full = px.barrier(3)
        empty = px.barrier(3)
        with px.warps(0, 1):
            ring = px.ring(3)
            for _ in range(n):
                empty[ring.stage].wait(ring.parity ^ 1)
                full[ring.stage].arrive()
                ring.advance()
        with px.warps(4, 4):
            ring = px.ring(3)
            previous = 0
            for k in range(n):
                full[ring.stage].wait(ring.parity)
                if k > 0:
                    empty[previous].arrive()
                previous = ring.stage
                ring.advance()
            if n > 0:
                empty[previous].arrive()

    function = prepared(kernel, (I32,))
    assert counts(function, "empty") == ((1, 1, 1),)
    assert counts(function, "full") == ((1, 1, 1),)


def test_reduce_to_rank_0():
    @px.kernel(warps=4, cluster=4)
    def kernel(X):
        done = px.barrier()
        done.arrive(ctas=1)
        if px.cluster.rank() == 0:
            done.wait(0)

    assert counts(prepared(kernel, (array(1),)), "done") == ((4,), (1,), (1,), (1,))


def test_all_to_all_through_a_run_time_loop_over_the_peers():
    @px.kernel(warps=4, cluster=4)
    def kernel(X):
        ready = px.barrier()
        for peer in range(px.cluster.size()):
            if peer != px.cluster.rank():
                ready.arrive(ctas=1 << peer)
        ready.wait(0)

    assert counts(prepared(kernel, (array(1),)), "ready") == ((3,),) * 4


def test_ping_pong():
    @px.kernel(warps=8)
    def kernel(n, *, CHECKED=False):
        turn = px.barrier(2, count=1, checked=CHECKED)
        for me in px.static_range(2):
            with px.warps(4 * me, 4):
                for k in range(n):
                    turn[me].wait(k & 1)
                    turn[1 - me].arrive()
                    turn[me].arrive()

    assert counts(prepared(kernel, (I32,)), "turn") == ((1, 1),)
    with pytest.raises(Error) as caught:
        prepared(kernel, (I32,), CHECKED=True)
    assert caught.value.kind == "count-mismatch"
    assert caught.value.location.text.strip() == "turn = px.barrier(2, count=1, checked=CHECKED)"
    assert "checked=False" in (caught.value.remedy or "")


def test_one_rank_fetches_for_all():
    @px.kernel(warps=4, cluster=2)
    def kernel(X, *, N=256):
        s = px.shared((N,), px.f32)
        bar = px.barrier()
        with bar.transaction():
            if px.cluster.rank() == 0:
                px.tma.load(X[0:N], s, bar, multicast=0b11)
        bar.wait(0)

    function = prepared(kernel, (array(1),))
    assert expected_bytes(function) == [(1024, 1024)]
    assert counts(function, "bar") == ((1,), (1,))


def test_a_rank_condition_around_the_transaction_leaves_receivers_unarmed():
    @px.kernel(warps=4, cluster=2)
    def kernel(X, *, N=256):
        s = px.shared((N,), px.f32)
        bar = px.barrier()
        if px.cluster.rank() == 0:
            with bar.transaction():
                px.tma.load(X[0:N], s, bar, multicast=0b11)
        bar.wait(0)

    with pytest.raises(Error) as caught:
        prepared(kernel, (array(1),))
    assert caught.value.message == (
        "CTA 1 receives 1024 bytes from the copies that CTA 0 issues in this transaction, but only CTA 0 runs it"
    )
    assert "with bar.transaction():" in caught.value.location.text


def test_a_run_time_branch_in_a_transaction_points_at_the_branch():
    @px.kernel(warps=4)
    def kernel(X, n, *, N=256):
        s = px.shared((2, N), px.f32)
        bar = px.barrier()
        with bar.transaction():
            px.tma.load(X[0:N], s[0], bar)
            if n > N:
                px.tma.load(X[N : 2 * N], s[1], bar)
        bar.wait(0)

    with pytest.raises(Error) as caught:
        prepared(kernel, (array(1), I32))
    assert caught.value.message == (
        "the bytes of a transaction depend on a run-time branch: 2048 if the condition holds, 1024 if not"
    )
    assert "if n > N:" in caught.value.location.text


def test_a_copy_that_nobody_arms_is_said_at_the_barrier():
    @px.kernel(warps=4)
    def kernel(X, *, N=256):
        s = px.shared((N,), px.f32)
        bar = px.barrier()
        px.tma.load(X[0:N], s, bar)
        bar.wait(0)

    with pytest.raises(Error, match="nothing arrives on barrier bar, which is waited for at") as caught:
        prepared(kernel, (array(1),))
    assert caught.value.location.text.strip() == "bar = px.barrier()"
