"""Copies from global to shared memory that the threads of an agent begin, each its share, and that go on without them."""

from __future__ import annotations

from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Arrival, Effects, Mode, Use, When
from phalanx.ir.engines import Engine, Executor
from phalanx.ir.type_rules import dtype_of, need, needs_no_type_rule, shape_of, type_rules
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierRef, GlobalView, SharedView
from phalanx.markers import defined, operand

THREAD_COPIES = Engine(
    name="copies of threads", work="copy", issuer=Executor.ALL, in_order=False,
    commit="px.cp_async.commit(bar)", wait="bar.wait(parity)", wait_reads="bar.wait(parity)",
    first="px.cp_async.commit(bar) in {role} and bar.wait(parity) first",
    first_reads="px.cp_async.commit(bar) in {role} and bar.wait(parity) first",
)
"""What `cp.async` does: over when a commit behind it has arrived on a barrier. Its writes are ordinary ones, so that tensor
cores that read shared memory themselves see them behind a proxy fence alone."""


@frozen(eq=False, repr=False)
class CpAsyncLoad(Op):
    """Global to shared memory, by all threads of the agent; elements outside the array, and rows by index that are not
    there, arrive as zeros. Over with a commit.

    `result` stands for the elements on their way: its layout says which thread moves which. Nobody reads it.
    """

    mnemonic: ClassVar[str] = "cp_async.load"
    src: GlobalView = operand()
    dst: SharedView = operand()
    result: Value = defined()

    def effects(self) -> Effects:
        """Reads the array and writes shared memory, later, through the proxy of ordinary accesses."""
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, when=When.COMMIT, use=Use.COPY, engine=THREAD_COPIES),
                Access(Mode.WRITE, self.dst, when=When.COMMIT, use=Use.COPY, engine=THREAD_COPIES),
            )
        )


@frozen(eq=False, repr=False)
class CpAsyncCommit(Op):
    """Arrives on a barrier, once for the agent, when all copies that its threads have begun are over."""

    mnemonic: ClassVar[str] = "cp_async.commit"
    bar: BarrierRef = operand()

    def effects(self) -> Effects:
        """Makes one arrival, later."""
        return Effects(arrivals=(Arrival(self.bar, Const(1), after=THREAD_COPIES),))


# What the types of operands and results must be.


@type_rules(CpAsyncLoad)
def _check_thread_copy(op: CpAsyncLoad) -> None:
    need(op.src.dtype == op.dst.dtype and op.src.shape == op.dst.shape, op, f"of {op.src.shape} to {op.dst.shape}")
    need(shape_of(op.result) == op.dst.shape and dtype_of(op.result) == op.dst.dtype, op, f"moves {op.result.type}")
    need(op.dst.cta is None, op, "to another CTA's shared memory")


needs_no_type_rule(CpAsyncCommit)
