"""mbarriers: life, arrivals, expected bytes, waits."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.archs import ARCHS
from phalanx.ir.core import Block, Op
from phalanx.ir.effects import (
    Arrival,
    BarrierWait,
    Effects,
    Executor,
    Expect,
    FenceKind,
    Life,
    Lifecycle,
    Span,
)
from phalanx.ir.type_rules import need, needs_no_type_rule, type_rules
from phalanx.ir.types import ScalarType, bool_
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierArray, BarrierRef
from phalanx.markers import attribute, block, defined, operand, storage

MAX_COUNT = 2**20 - 1
"""Largest arrival count, and largest number of outstanding bytes, of one phase."""
MAX_BARRIERS = max(arch.shared_limit for arch in ARCHS.values()) // 8
"""As many fill the shared memory of a CTA."""


class Form(Enum):
    """The threads of an agent that make an arrival: one elected thread, or one thread of each warpgroup or warp."""

    ELECTED = "elected"
    PER_WARPGROUP = "per_warpgroup"
    PER_WARP = "per_warp"


@frozen(eq=False, repr=False)
class BarrierInit(Op):
    """Initialises one barrier (`index`) or all of an array.

    `counts` has one row per CTA rank and one number per barrier of the array when the compiler writes it; `count` is
    the operand of the user's `.init(count)`. The hardware's count is `factor` times as large.
    """

    mnemonic: ClassVar[str] = "mbarrier.init"
    method: ClassVar[str] = "init"
    barrier: BarrierArray = storage()
    index: Value | None = operand(default=None)
    count: Value | None = operand(default=None)
    counts: tuple[tuple[int, ...], ...] = attribute(default=())
    factor: int = attribute(default=1)

    def effects(self) -> Effects:
        """Begins the life of one barrier, or of all of the array."""
        return Effects(lifecycle=(Lifecycle(Life.INIT, self.barrier, self.index),), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class BarrierInvalidate(Op):
    """Ends the life of one barrier, so that its memory may hold something else."""

    mnemonic: ClassVar[str] = "mbarrier.inval"
    method: ClassVar[str] = "invalidate"
    bar: BarrierRef = operand()

    def effects(self) -> Effects:
        """Ends the life of one barrier."""
        return Effects(
            lifecycle=(Lifecycle(Life.INVALIDATE, self.bar.barrier, self.bar.index),), executor=Executor.ONE
        )


@frozen(eq=False, repr=False)
class FenceBarrierInit(Op):
    """Makes barrier initialisations before it visible to the cluster, at the next cluster or CTA barrier."""

    mnemonic: ClassVar[str] = "fence.barrier_init"

    def effects(self) -> Effects:
        """Is a fence of initialisations."""
        return Effects(fences=(FenceKind.BARRIER_INIT,), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class Arrive(Op):
    """`count` arrivals of the agent, here or in every CTA of the mask `ctas`.

    `form` is the compiler's choice: one elected thread, or one thread of each warpgroup or warp. On a barrier with a
    `factor`, an arrival is so many of the hardware's, which the issuing threads share. With `spread`, lane r of the issuing
    warp arrives in CTA r, all at once. `releases`: the arrival gives back a stage that copies fill which complete on that
    array; without `ctas` the compiler finds out whose. `scope` is the compiler's choice too: "cluster" where ordinary
    stores must reach another CTA. A `relaxed` one orders nothing.
    """

    mnemonic: ClassVar[str] = "mbarrier.arrive"
    method: ClassVar[str] = "arrive"
    bar: BarrierRef = operand()
    count: Value = operand()
    ctas: Value | None = operand(default=None)
    form: Form = attribute(default=Form.ELECTED)
    factor: int = attribute(default=1)
    spread: bool = attribute(default=False)
    releases: BarrierArray | None = storage(default=None)
    scope: Span = attribute(default=Span.CTA)
    relaxed: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Arrives on the barrier, here or in every CTA of the mask."""
        arrival = Arrival(self.bar, self.count, self.ctas, self.scope, not self.relaxed, self.releases, divisible=True)
        return Effects(arrivals=(arrival,), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class ExpectTx(Op):
    """The barrier's current phase waits for `nbytes` more; here or in every CTA of the mask `ctas`."""

    mnemonic: ClassVar[str] = "mbarrier.expect_tx"
    method: ClassVar[str] = "expect_tx"
    bar: BarrierRef = operand()
    nbytes: Value = operand()
    ctas: Value | None = operand(default=None)

    def effects(self) -> Effects:
        """Lets the barrier expect bytes, here or in every CTA of the mask."""
        return Effects(expects=(Expect(self.bar, self.nbytes, self.ctas),), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class ArriveExpectTx(Op):
    """First expects `nbytes`, then arrives once; here or in every CTA of the mask `ctas`.

    `scope` and `relaxed` as of `Arrive`.
    """

    mnemonic: ClassVar[str] = "mbarrier.arrive_expect_tx"
    method: ClassVar[str] = "arrive_and_expect_tx"
    bar: BarrierRef = operand()
    nbytes: Value = operand()
    ctas: Value | None = operand(default=None)
    scope: Span = attribute(default=Span.CTA)
    relaxed: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Lets the barrier expect bytes and arrives on it, here or in every CTA of the mask."""
        return Effects(
            expects=(Expect(self.bar, self.nbytes, self.ctas),),
            arrivals=(Arrival(self.bar, Const(1), self.ctas, self.scope, not self.relaxed),),
            executor=Executor.ONE,
        )


@frozen(eq=False, repr=False)
class Transaction(Op):
    """One arrive with the bytes that the copies of `body` bring this CTA; a pass turns it into `ArriveExpectTx`."""

    mnemonic: ClassVar[str] = "mbarrier.transaction"
    method: ClassVar[str] = "transaction"
    bar: BarrierRef = operand()
    body: Block = block()


@frozen(eq=False, repr=False)
class Wait(Op):
    """Blocks until the phase of `parity` is complete. `scope` is the compiler's choice, as of `Arrive`."""

    mnemonic: ClassVar[str] = "mbarrier.wait"
    method: ClassVar[str] = "wait"
    bar: BarrierRef = operand()
    parity: Value = operand()
    scope: Span = attribute(default=Span.CTA)

    def effects(self) -> Effects:
        """Waits for a phase of the barrier."""
        return Effects(waits=(BarrierWait(self.bar, self.parity, scope=self.scope),))


@frozen(eq=False, repr=False)
class TestWait(Op):
    """Asks whether the phase of `parity` is complete; the answer is the same in all threads of the agent."""

    mnemonic: ClassVar[str] = "mbarrier.test_wait"
    method: ClassVar[str] = "test_wait"
    bar: BarrierRef = operand()
    parity: Value = operand()
    result: Value = defined()
    scope: Span = attribute(default=Span.CTA)

    def effects(self) -> Effects:
        """Asks about a phase of the barrier, without waiting for it."""
        return Effects(waits=(BarrierWait(self.bar, self.parity, False, self.scope),))


# What the types of operands and results must be.


@type_rules(TestWait)
def _check_test_wait(op: TestWait) -> None:
    need(op.result.type == ScalarType(bool_), op, f"result is {op.result.type}")


needs_no_type_rule(BarrierInit, BarrierInvalidate, Arrive, ExpectTx, ArriveExpectTx, Transaction, Wait)
