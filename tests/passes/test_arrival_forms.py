"""Who issues an arrive after a wait for the tensor cores, and which barriers of threads that saves."""

from __future__ import annotations

import phalanx as px
from phalanx.ir.core import Function
from phalanx.ir.ops.control import Role, Roles, Sync
from phalanx.ir.ops.mbarrier import Arrive, BarrierInit, Form
from phalanx.ir.ops.wgmma import Wgmma, WgmmaFence
from phalanx.ir.types import bf16
from support.front import array, prepared

TYPES = (array(2, bf16), array(2, bf16), array(2, bf16))


@px.kernel(warps=12, cluster=lambda CTAS: CTAS)
def ring(A, B, C, *, CTAS=1, FIRST=4, COUNT=8, M=128, N=64, K=64, STAGES=2, ARM=False, WAIT=True, EXTRA=False):
    a = px.shared((STAGES, M, K), A.dtype)
    b = px.shared((STAGES, N, K), B.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    r = px.ring(STAGES)
    with px.warps(0, 4, regs=40):
        for k in range(A.shape[1] // K):
            empty[r.stage].wait(r.parity ^ 1)
            with full[r.stage].transaction():
                px.tma.load(A[0:M, k * K : k * K + K], a[r.stage], full[r.stage])
                px.tma.load(B[0:N, k * K : k * K + K], b[r.stage], full[r.stage])
            r.advance()
    with px.warps(FIRST, COUNT, regs=232):
        acc = px.empty((M, N), px.f32)
        for k in range(A.shape[1] // K):
            full[r.stage].wait(r.parity)
            px.wgmma(a[r.stage], b[r.stage].T, acc, accumulate=k > 0)
            px.wgmma_commit()
            if WAIT:
                px.wgmma_wait(0)
            if EXTRA:
                px.store(C[0:M, 0:K], px.load(a[r.stage]))
            if ARM:
                empty[r.stage].arrive_and_expect_tx(0)
            else:
                empty[r.stage].arrive(ctas=(1 << CTAS) - 1 if CTAS > 1 else None)
            r.advance()
        px.wgmma_wait(0)


def only(function: Function, kind: type) -> list:
    return [op for op in function.walk() if isinstance(op, kind)]


def roles(function: Function) -> list[Role]:
    (found,) = only(function, Roles)
    return list(found.regions)


def syncs(role: Role) -> list[str]:
    return [op.reason for op in role.body.walk() if isinstance(op, Sync)]


def factors(function: Function) -> dict[str, int]:
    return {op.barrier.name: op.factor for op in only(function, BarrierInit)}


def test_two_warpgroups_arrive_without_a_barrier() -> None:
    function = prepared(ring, TYPES)
    (arrive,) = only(function, Arrive)
    assert (arrive.form, arrive.factor) == (Form.PER_WARPGROUP, 2)
    assert factors(function) == {"full": 1, "empty": 2}
    assert syncs(roles(function)[1]) == []
    counts = {op.barrier.name: op.counts for op in only(function, BarrierInit)}
    assert counts["empty"] == ((1, 1),), "the language counts roles"


def test_one_warpgroup_needs_no_factor() -> None:
    function = prepared(ring, TYPES, COUNT=4, M=64)
    (arrive,) = only(function, Arrive)
    assert (arrive.form, arrive.factor) == (Form.ELECTED, 1)
    assert syncs(roles(function)[1]) == []


def test_an_arrive_in_several_ctas_is_spread_over_lanes() -> None:
    (arrive,) = only(prepared(ring, TYPES, CTAS=2), Arrive)
    assert arrive.spread and arrive.form == Form.PER_WARPGROUP


def test_a_plain_read_before_the_arrive_needs_the_barrier() -> None:
    function = prepared(ring, TYPES, EXTRA=True)
    (arrive,) = only(function, Arrive)
    assert (arrive.form, arrive.factor) == (Form.ELECTED, 1)
    assert len(syncs(roles(function)[1])) == 1


def test_a_barrier_that_is_armed_with_bytes_has_no_factor() -> None:
    function = prepared(ring, TYPES, ARM=True)
    assert factors(function) == {"full": 1, "empty": 1}
    assert len(syncs(roles(function)[1])) == 1


def test_a_producer_of_four_warps_runs_on_one() -> None:
    producer, consumer = roles(prepared(ring, TYPES))
    assert (producer.active, consumer.active) == (1, None)


def test_each_batch_of_products_has_one_fence() -> None:
    @px.kernel(warps=4)
    def batches(A, B, C):
        a = px.shared((2, 64, 64), A.dtype)
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(a[0], a[0].T, acc)
        px.wgmma(a[1], a[1].T, acc)
        px.wgmma_commit()
        px.wgmma(a[0], a[1].T, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)

    order = [type(op) for op in prepared(batches, TYPES).walk() if isinstance(op, Wgmma | WgmmaFence)]
    assert order == [WgmmaFence, Wgmma, Wgmma, WgmmaFence, Wgmma]
