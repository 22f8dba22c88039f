"""mbarriers: `px.barrier` and what can be done with one."""

from __future__ import annotations

from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.ops.mbarrier import (
    MAX_BARRIERS,
    MAX_COUNT,
    Arrive,
    ArriveExpectTx,
    BarrierInit,
    BarrierInvalidate,
    ExpectTx,
    TestWait,
    Wait,
)
from phalanx.ir.types import BOOL, i32
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.operators import cast, describe
from phalanx.language.ops.memory import require_static, unique_name
from phalanx.language.values import BarrierValue, get_member, load_scalar, method, require_index


@builtin("barrier")
def barrier(ctx: Builder, n: Any = 1, count: Any = None, init: Any = True, checked: Any = True) -> Any:
    """`n` mbarriers in this CTA's shared memory, each completing a phase after `count` arrivals and all expected bytes.

    Outside run-time loops, any agent; sm_90 and up; PTX ``mbarrier.init`` before the first use, with its fence and the
    CTA or cluster barrier this needs. ``count=None``: the compiler counts the arrivals. ``init=False``: you write
    ``.init``, the fence and the sync. ``checked=False``: a written count is not compared with the counted one (arrivers
    that take turns). Example: ``full = px.barrier(4)``; ``full[s].wait(parity)``.
    """
    require_static(ctx, "px.barrier")
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        ctx.fail(f"the number of barriers must be a positive constant, not {describe(n)}", "e.g. px.barrier(4)")
    require_room(ctx, n)
    for what, flag in (("init", init), ("checked", checked)):
        if not isinstance(flag, bool):
            ctx.fail(
                f"{what}= of px.barrier must be True or False, not {describe(flag)}", "it is decided at compile time"
            )
    if count is not None:
        count = require_count(ctx, "the arrival count of a barrier", count, constant=True)
    array = BarrierArray(unique_name(ctx, "barrier"), n, count, init, checked, ctx.loc)
    ctx.barriers.append(array)
    return BarrierValue(array)


def require_room(ctx: Builder, n: int) -> None:
    """`n` more barriers, if they fit in shared memory with those before them."""
    total = n + sum(array.n for array in ctx.barriers)
    if total > MAX_BARRIERS:
        others = f" with the {total - n} before them" if total > n else ""
        ctx.fail(f"{n} barriers do not fit in shared memory{others}", f"at most {MAX_BARRIERS} do, of 8 bytes each")


def require_count(ctx: Builder, what: str, count: Any, *, constant: bool = False) -> Any:
    """The number of arrivals that `count` is, between 1 and the most that a barrier counts."""
    count = require_index(ctx, what, count)
    if constant and not isinstance(count, int):
        ctx.fail(
            f"{what} must be a compile-time constant, not {describe(count)}",
            "make it a keyword-only parameter of the kernel",
        )
    if isinstance(count, int) and not 1 <= count <= MAX_COUNT:
        ctx.fail(f"{what} is {count}", f"it must be between 1 and {MAX_COUNT} (2^20 - 1)")
    return count


def require_bytes(ctx: Builder, nbytes: Any) -> Any:
    """The number of bytes that `nbytes` is, no more than a barrier counts in one phase."""
    nbytes = require_index(ctx, "a byte count", nbytes)
    if isinstance(nbytes, int) and not 0 <= nbytes <= MAX_COUNT:
        ctx.fail(
            f"a barrier can't expect {nbytes} bytes in one phase",
            f"the limit is {MAX_COUNT} (2^20 - 1): split the copy over several barriers or phases",
        )
    return nbytes


def mask_operand(ctx: Builder, what: str, mask: Any) -> Value | None:
    """A mask of CTAs: bit i is rank i. Constants are checked against the cluster."""
    if mask is None:
        return None
    mask = require_index(ctx, what, mask)
    size = ctx.cluster[0] * ctx.cluster[1] * ctx.cluster[2]
    if isinstance(mask, int):
        if mask <= 0:
            ctx.fail(
                f"{what} is {mask}: it names no CTA",
                "bit i of the mask stands for CTA rank i, e.g. 0b11 for both of two",
            )
        if mask >> size:
            worst = mask.bit_length() - 1
            ctx.fail(
                f"{what} {bin(mask)} names CTA {worst}, but the cluster has {size} CTA{'s' if size > 1 else ''}",
                "masks have one bit per rank; the cluster is set by @px.kernel(cluster=...)",
                kind="out-of-bounds",
            )
    return operand(mask)


@frozen
class TransactionValue:
    """`with b.transaction():`, recognised by the reader."""

    barrier: BarrierValue
    kind_name = "a transaction"


class BarrierMembers:
    """What can be done with a barrier."""

    @method
    def arrive(self: Any, ctx: Builder, count: Any = 1, ctas: Any = None) -> Any:
        """`count` arrivals of this role, here or in each CTA of the mask `ctas`."""
        count = require_count(ctx, "the count of .arrive", count)
        mask = mask_operand(ctx, "the mask ctas=", ctas)
        ctx.emit(Arrive(self.ref(ctx), operand(count), mask, loc=ctx.loc))

    @method
    def expect_tx(self: Any, ctx: Builder, nbytes: Any, ctas: Any = None) -> Any:
        """The current phase waits for `nbytes` more; here or in each CTA of the mask `ctas`."""
        nbytes = require_bytes(ctx, nbytes)
        mask = mask_operand(ctx, "the mask ctas=", ctas)
        ctx.emit(ExpectTx(self.ref(ctx), operand(nbytes), mask, loc=ctx.loc))

    @method
    def arrive_and_expect_tx(self: Any, ctx: Builder, nbytes: Any, ctas: Any = None) -> Any:
        """Expects `nbytes`, then arrives once; here or in each CTA of the mask `ctas`."""
        nbytes = require_bytes(ctx, nbytes)
        mask = mask_operand(ctx, "the mask ctas=", ctas)
        ctx.emit(ArriveExpectTx(self.ref(ctx), operand(nbytes), mask, loc=ctx.loc))

    @method
    def wait(self: Any, ctx: Builder, parity: Any) -> Any:
        """Blocks until the phase of `parity` is complete."""
        ctx.emit(Wait(self.ref(ctx), parity_operand(ctx, parity), loc=ctx.loc))

    @method
    def test_wait(self: Any, ctx: Builder, parity: Any) -> Any:
        """Whether the phase of `parity` is complete."""
        result = Value(BOOL)
        ctx.emit(TestWait(self.ref(ctx), parity_operand(ctx, parity), result, loc=ctx.loc))
        return result

    @method
    def init(self: Any, ctx: Builder, count: Any) -> Any:
        """Initialises a barrier made with init=False."""
        count = require_count(ctx, "the count of .init", count)
        ref = self.ref(ctx)
        if ref.barrier.init:
            ctx.fail(
                f"'{ref.barrier.name}' is initialised by the compiler",
                "write px.barrier(..., init=False) to initialise it yourself",
            )
        ctx.emit(BarrierInit(ref.barrier, ref.index, operand(count), loc=ctx.loc))

    @method
    def invalidate(self: Any, ctx: Builder) -> Any:
        """Ends the barrier's life, so that its memory may be reused."""
        ctx.emit(BarrierInvalidate(self.ref(ctx), loc=ctx.loc))

    @method
    def transaction(self: Any, ctx: Builder) -> Any:
        """`with b.transaction():` one arrive with the bytes of the copies inside."""
        self.ref(ctx)
        return TransactionValue(self)


def parity_operand(ctx: Builder, parity: Any) -> Value:
    parity = load_scalar(ctx, parity)
    if isinstance(parity, bool):
        parity = int(parity)
    if isinstance(parity, Value) and parity.type.dtype.kind == "bool":  # type: ignore[union-attr]
        parity = cast(ctx, parity, i32)
    remedy = "px.ring gives .parity; a producer waits for ring.parity ^ 1"
    parity = require_index(ctx, "a parity", parity, remedy)
    if isinstance(parity, int) and parity not in (0, 1):
        ctx.fail(f"a parity is 0 or 1, not {parity}", remedy)
    return operand(parity)


def barrier_member(ctx: Builder, owner: BarrierValue, name: str) -> Any:
    return get_member(ctx, owner, BarrierMembers, name, "a barrier")
