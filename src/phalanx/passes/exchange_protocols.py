"""What happens inside an exchange over the cluster, instruction by instruction: for the simulator and its checks.

`cuda/exchanges/exchange.py` writes the same protocol as one piece of text, so `lower` takes it out again. The barriers of an
agent's threads in that text have no counterpart here: an agent's threads are always together.
"""

from __future__ import annotations

import dataclasses
from weakref import WeakKeyDictionary

from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.ops.cluster import TURNS, UNWRITTEN, ClusterRank, ClusterReceive, ClusterSend, ClusterTurn, Exchange
from phalanx.ir.ops.control import If
from phalanx.ir.ops.mbarrier import ArriveExpectTx, Wait
from phalanx.ir.ops.tile import Binary, Compare, Select
from phalanx.ir.types import ScalarType, TileType, bool_, i32, u8
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierRef, SharedBuffer, SharedView

THANKS = 4
"""Bytes that tell a sender that the one receiver has read what it sent."""


def write_protocols(function: Function) -> Function:
    """The kernel with the protocol of every exchange in it. The last of the passes that every target shares."""

    def visit(op: Op) -> list[Op] | None:
        exchange = op.exchange
        if exchange is None or exchange.barrier is None:
            return None
        return [exchange.following(protocol(exchange, function.cluster_size))]

    body = rewrite(function.body, visit)
    if body is function.body:
        return function
    written = dataclasses.replace(function, body=body)
    _BEFORE[written] = function
    return written


_BEFORE: WeakKeyDictionary[Function, Function] = WeakKeyDictionary()
"""The kernel that a written one came from: what was found out about it is known under its name."""


def without_protocols(function: Function) -> Function:
    """The kernel as a back end wants it."""
    if function in _BEFORE:
        return _BEFORE[function]

    def visit(op: Op) -> list[Op] | None:
        exchange = op.exchange
        return None if exchange is None or not exchange.protocol.ops else [exchange.following(UNWRITTEN)]

    body = rewrite(function.body, visit)
    return function if body is function.body else dataclasses.replace(function, body=body)


def protocol(op: Exchange, size: int) -> Block:
    """Arm this turn's barrier, send, wait, read; where one CTA receives, it thanks the others when it has read."""
    slots, barrier, loc = op.slots, op.barrier, op.loc
    assert slots is not None and barrier is not None
    half = slots.shape[1]
    nbytes = op.sent_bytes()
    stage, parity, rank, start = (Value(ScalarType(i32)) for _ in range(4))
    bar = BarrierRef(barrier, stage)
    ops: list[Op] = [
        ClusterTurn(slots, TURNS, (stage, parity), loc=loc),
        ClusterRank(None, rank, loc=loc),
        Binary("mul", rank, Const(nbytes), start, loc=loc),
    ]
    expected: Value = Const(size * nbytes)
    here = Value(ScalarType(bool_))
    if op.receiver is not None:
        expected = Value(ScalarType(i32))
        ops.append(Compare("eq", rank, op.receiver, here, loc=loc))
        ops.append(Select(here, Const(size * nbytes), Const(THANKS), expected, loc=loc))
    ops += [
        ArriveExpectTx(bar, expected, loc=loc),
        ClusterSend(op.sent, box(slots, stage, start, nbytes), bar, op.ctas, loc=loc),
        Wait(bar, parity, loc=loc),
    ]
    everything = box(slots, stage, Const(0), size * nbytes)
    read = ClusterReceive(everything, Value(TileType((size * nbytes,), u8)), loc=loc)
    if op.receiver is None:
        return Block((*ops, read))
    others = Value(op.ctas.type)
    thanks = box(slots, stage, Const(half - THANKS), THANKS)
    then = (
        read,
        Binary("xor", op.ctas, Const((1 << size) - 1, op.ctas.type), others, loc=loc),  # type: ignore[arg-type]
        ClusterSend((Const(0),), thanks, bar, others, loc=loc),
    )
    return Block((*ops, If(here, Block(then), Block(), loc=loc)))


def box(slots: SharedBuffer, stage: Value, start: Value, nbytes: int) -> SharedView:
    """A run of bytes of one turn's inboxes."""
    return SharedView(slots, (stage, start), (1, nbytes), (1,))
