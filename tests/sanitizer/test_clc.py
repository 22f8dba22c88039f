"""Cluster launch control with one mistake each: requests after a refusal, results that are not handed over, bytes, exits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import phalanx as px
from errors.casebook import normalised
from phalanx.ir.core import Block, Function
from phalanx.ir.effects import Span
from phalanx.sanitizer.runs import run_checked
from phalanx.sim.scheduler import Schedule
from sanitizer.planted import array, cases, line_of, planted
from support.front import array as array_type
from support.front import prepared

X = array(8)
ALONE, PAIR = dict(grid=6, args=(X,)), dict(grid=8, args=(X,))


@planted("clc", **ALONE)
@px.kernel(warps=1)
def asks_after_a_refusal(X, *, BUG):
    result, full, turn, block = px.shared((4,), px.i32), px.barrier(), px.ring(1), px.block_id(0)
    for _ in range(8):
        px.store(X[block], 1.0)
        with full.transaction():
            px.clc.try_cancel(result, full)  # bug, other
        full.wait(turn.parity)
        granted, b = px.clc.query(result)
        turn.advance()
        if granted:
            block = b
        elif not BUG:
            break


@planted("clc", **PAIR)
@px.kernel(warps=2, cluster=2)
def asks_without_looking(X, *, BUG):
    """The role that asks waits for each answer, but does not read it; the other role has seen that the last was no."""
    result, full, empty = px.shared((4,), px.i32), px.barrier(), px.barrier()
    with px.warps(0, 1):
        turn, more, i = px.ring(1), True, 0
        while more:
            if px.cluster.rank() == 0:
                empty.wait(turn.parity ^ 1)
            with full.transaction():
                px.clc.try_cancel(result, full)  # bug, other
            full.wait(turn.parity)
            granted, _ = px.clc.query(result)
            empty.arrive(ctas=1)
            turn.advance()
            i += 1
            more = i < 6 if BUG else granted
    with px.warps(1, 1):
        turn, more, block, i = px.ring(1), True, px.block_id(0), 0
        while more:
            px.store(X[block], 1.0)
            full.wait(turn.parity)
            granted, b = px.clc.query(result)
            empty.arrive(ctas=1)
            turn.advance()
            i += 1
            if granted:
                block = b
            more = i < 6 if BUG else granted


@planted("race", **ALONE)
@px.kernel(warps=2)
def lets_go_of_the_result_before_it_is_read(X, *, BUG):
    result, full, empty = px.shared((4,), px.i32), px.barrier(), px.barrier()
    with px.warps(0, 1):
        turn, more = px.ring(1), True
        while more:
            empty.wait(turn.parity ^ 1)
            with full.transaction():
                px.clc.try_cancel(result, full)  # bug
            full.wait(turn.parity)
            more, _ = px.clc.query(result)
            turn.advance()
    with px.warps(1, 1):
        turn, more, block = px.ring(1), True, px.block_id(0)
        while more:
            px.store(X[block], 1.0)
            full.wait(turn.parity)
            if BUG:
                empty.arrive()
            more, block = px.clc.query(result)  # other
            if not BUG:
                empty.arrive()
            turn.advance()


@planted("race", **PAIR)
@px.kernel(warps=1, cluster=2)
def waits_for_its_own_cta_alone(X, *, BUG):
    """Rank 0 asks again while the other CTA may still read the answer before."""
    result, full, empty = px.shared((4,), px.i32), px.barrier(), px.barrier()
    turn, more, block = px.ring(1), True, px.block_id(0)
    rank = px.cluster.rank()
    while more:
        if rank == 0:
            empty.wait(turn.parity ^ 1)
        with full.transaction():
            px.clc.try_cancel(result, full)  # bug
        px.store(X[block], 1.0)
        full.wait(turn.parity)
        more, block = px.clc.query(result)  # other
        if BUG:
            if rank == 0:
                empty.arrive()
        else:
            empty.arrive(ctas=1)
        turn.advance()


@planted("race", **ALONE)
@px.kernel(warps=1)
def reads_the_answer_too_early(X, *, BUG):
    result, full, turn, more, block = px.shared((4,), px.i32), px.barrier(), px.ring(1), True, px.block_id(0)
    while more:
        px.store(X[block], 1.0)
        with full.transaction():
            px.clc.try_cancel(result, full)  # other
        if not BUG:
            full.wait(turn.parity)
        more, block = px.clc.query(result)  # bug
        if BUG:
            full.wait(turn.parity)
        turn.advance()


@planted("race", **PAIR)
@px.kernel(warps=1, cluster=2)
def expects_the_bytes_in_rank_0_alone(X, *, BUG):
    """The barrier of the other CTA does not wait for bytes that it does not expect: its phase is over without them."""
    result, full = px.shared((4,), px.i32), px.barrier()
    if BUG:
        full.arrive_and_expect_tx(px.where(px.cluster.rank() == 0, 16, 0))
    else:
        full.arrive_and_expect_tx(16)
    px.clc.try_cancel(result, full)  # other
    full.wait(0)
    granted, _ = px.clc.query(result)  # bug
    px.store(X[px.block_id(0)], px.where(granted, 1.0, 0.0))


@planted("tx-mismatch", **PAIR)
@px.kernel(warps=1, cluster=2)
def expects_the_bytes_of_the_cluster(X, *, BUG):
    """Each CTA gets one response, not one from every CTA."""
    result, full = px.shared((4,), px.i32), px.barrier()
    if BUG:
        full.arrive_and_expect_tx(16 * px.cluster.size())  # bug
    else:
        full.arrive_and_expect_tx(16)
    px.clc.try_cancel(result, full)  # other
    full.wait(0)
    granted, _ = px.clc.query(result)
    px.store(X[px.block_id(0)], px.where(granted, 1.0, 0.0))


@planted("tx-mismatch", **ALONE)
@px.kernel(warps=1)
def expects_a_response_of_8_bytes(X, *, BUG):
    result, full = px.shared((4,), px.i32), px.barrier()
    if BUG:
        full.arrive_and_expect_tx(8)  # bug
    else:
        full.arrive_and_expect_tx(16)
    px.clc.try_cancel(result, full)  # other
    full.wait(0)
    granted, _ = px.clc.query(result)
    px.store(X[px.block_id(0)], px.where(granted, 1.0, 0.0))


@planted("unfinished", **ALONE)
@px.kernel(warps=1)
def nobody_waits_for_the_answer(X, *, BUG):
    result, full = px.shared((4,), px.i32), px.barrier()
    with full.transaction():
        px.clc.try_cancel(result, full)  # bug
    px.store(X[px.block_id(0)], 1.0)
    if not BUG:
        full.wait(0)


@planted("exit-hazard", **PAIR)
@px.kernel(warps=1, cluster=2)
def one_cta_does_not_wait_for_the_answer(X, *, BUG):
    """The other one exits while the answer may still come to it."""
    result, full = px.shared((4,), px.i32), px.barrier()
    full.arrive_and_expect_tx(16)
    px.clc.try_cancel(result, full)  # bug
    if BUG:
        if px.cluster.rank() == 0:
            full.wait(0)
    else:
        full.wait(0)


@planted("proxy", **ALONE)
@px.kernel(warps=1)
def writes_the_result_without_a_fence(X, *, BUG):
    result, full = px.shared((4,), px.i32), px.barrier()
    px.store(result, px.zeros((4,), px.i32))  # other
    if not BUG:
        px.fence.async_proxy()
    with full.transaction():
        px.clc.try_cancel(result, full)  # bug
    full.wait(0)
    granted, _ = px.clc.query(result)
    px.store(X[px.block_id(0)], px.where(granted, 1.0, 0.0))


@planted("uninitialised-read", **ALONE)
@px.kernel(warps=1)
def reads_an_answer_to_nothing(X, *, BUG):
    result, full = px.shared((4,), px.i32), px.barrier()
    if not BUG:
        with full.transaction():
            px.clc.try_cancel(result, full)
        full.wait(0)
    granted, _ = px.clc.query(result)  # bug
    px.store(X[px.block_id(0)], px.where(granted, 1.0, 0.0))


@planted("proxy", strict=True, **ALONE)
@px.kernel(warps=1)
def reads_the_words_by_itself(X, *, BUG):
    """A query has the fence that a read before an asynchronous write needs; an ordinary load has none."""
    result, full = px.shared((4,), px.i32), px.barrier()
    turn, more = px.ring(1), True
    while more:
        with full.transaction():
            px.clc.try_cancel(result, full)  # bug
        full.wait(turn.parity)
        more, _ = px.clc.query(result)
        if BUG:
            px.store(X[px.block_id(0)], px.sum(px.load(result)).to(px.f32))  # other
        turn.advance()


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case) -> None:
    case.verify()


AGAIN = """\
clc: px.clc.try_cancel asks for another cluster although the request before it was refused, and what the
  hardware does then is not defined; leave the loop once px.clc.query says that nothing was granted
   --> test_clc.py:LINE:13
LINE |             px.clc.try_cancel(result, full)  # bug, other
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ asks again (all warps, CTA 0, cluster 0)
   --> test_clc.py:LINE:13
LINE |             px.clc.try_cancel(result, full)  # bug, other
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ was refused
  = the request that was refused completed phase 4 of full
  = seen 10 times; schedule late, seed 0"""


def test_the_message_of_a_request_after_a_refusal() -> None:
    (finding,) = px.check(asks_after_a_refusal[6], X, BUG=True).findings
    assert normalised(str(finding)) == AGAIN.replace("LINE", str(line_of(asks_after_a_refusal, "bug")))


@pytest.mark.share(4)
@pytest.mark.parametrize("kernel", [asks_after_a_refusal, asks_without_looking])
def test_exploration_finds_a_request_after_a_refusal(kernel) -> None:
    x = np.zeros(4, np.float32)
    found = px.explore(kernel[2 * kernel.cluster if kernel.cluster else 2], x, BUG=True, limit=50)
    assert {(error.kind, error.location.line) for error in found.errors} == {("clc", line_of(kernel, "bug"))}
    assert found.errors[0].message == "px.clc.try_cancel asks for another cluster although a request before it was refused"
    twin = px.explore(kernel[2 * kernel.cluster if kernel.cluster else 2], x, BUG=False)
    assert twin.complete and not twin.errors and not twin.deadlocks and twin.outcomes == 1


def without_the_exit_sync(function: Function) -> Function:
    """The kernel without the compiler's last cluster barrier, which no user can leave out."""
    *ops, last = function.body.ops
    assert any(meeting.span is Span.CLUSTER for meeting in last.effects().rendezvous)
    return dataclasses.replace(function, body=Block(tuple(ops)))


@px.kernel(warps=1, cluster=2)
def leaves_first(X):
    result, full = px.shared((4,), px.i32), px.barrier()
    rank = px.cluster.rank()
    full.arrive_and_expect_tx(16)
    if rank == 0:
        px.store(X[0], 1.0)
        px.clc.try_cancel(result, full)  # bug
        full.wait(0)


@pytest.mark.parametrize("kind", ["late", "early", "random"])
def test_a_peer_that_has_exited(kind: str) -> None:
    """With the compiler's cluster barrier the peer is there when the answer comes; without it, it may have exited."""
    function = prepared(leaves_first, (array_type(1),))
    found = run_checked(without_the_exit_sync(function), (2, 1, 1), [np.zeros(1, np.float32)], Schedule(kind))
    assert [(f.kind, f.location.line) for f in found] == [("exit-hazard", line_of(leaves_first, "bug"))]
