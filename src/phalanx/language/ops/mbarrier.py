"""mbarriers: `px.barrier` and what can be done with one."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.frozen import frozen
from phalanx.ir.ops import mbarrier as ir
from phalanx.ir.types import BOOL, i32
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, BarrierRef
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.objects import Arguments, KernelObject, RegionReader, describe, load_scalar, method
from phalanx.language.operators import cast
from phalanx.language.ops.memory import check_outside_loops, unique_name
from phalanx.language.requirements import is_constant_integer, require_flag
from phalanx.language.values import require_index


@builtin("barrier")
def barrier(ctx: Builder, n: object = 1, count: object = None, init: object = True, checked: object = True) -> BarrierValue:
    """`n` mbarriers in this CTA's shared memory, each completing a phase after `count` arrivals and all expected bytes.

    Outside run-time loops, any agent; sm_90 and up; PTX ``mbarrier.init`` before the first use, with its fence and the
    CTA or cluster barrier this needs. ``count=None``: the compiler counts the arrivals. ``init=False``: you write
    ``.init``, the fence and the sync. ``checked=False``: a written count is not compared with the counted one (arrivers
    that take turns). Example: ``full = px.barrier(4)``; ``full[s].wait(parity)``.
    """
    check_outside_loops(ctx, "px.barrier")
    if not is_constant_integer(n) or n < 1:
        ctx.fail(f"the number of barriers must be a positive constant, not {describe(n)}", "e.g. px.barrier(4)")
    check_room(ctx, n)
    by_compiler = require_flag(ctx, "init= of px.barrier", init)
    compared = require_flag(ctx, "checked= of px.barrier", checked)
    arrivals = None if count is None else require_constant_count(ctx, "the arrival count of a barrier", count)
    array = BarrierArray(unique_name(ctx, "barrier"), n, arrivals, by_compiler, compared, ctx.loc)
    ctx.barriers.append(array)
    return BarrierValue(array)


def check_room(ctx: Builder, n: int) -> None:
    """`n` more barriers, if they fit in shared memory with those before them."""
    total = n + sum(array.n for array in ctx.barriers)
    if total > ir.MAX_BARRIERS:
        others = f" with the {total - n} before them" if total > n else ""
        ctx.fail(f"{n} barriers do not fit in shared memory{others}", f"at most {ir.MAX_BARRIERS} do, of 8 bytes each")


def require_count(ctx: Builder, what: str, count: object) -> int | Value:
    """The number of arrivals that `count` is, between 1 and the most that a barrier counts."""
    number = require_index(ctx, what, count)
    if isinstance(number, int):
        check_count(ctx, what, number)
    return number


def require_constant_count(ctx: Builder, what: str, count: object) -> int:
    """The number of arrivals that `count` is, known while the kernel is read."""
    number = require_index(ctx, what, count)
    if not isinstance(number, int):
        ctx.fail(
            f"{what} must be a compile-time constant, not {describe(number)}",
            "make it a keyword-only parameter of the kernel",
        )
    check_count(ctx, what, number)
    return number


def check_count(ctx: Builder, what: str, number: int) -> None:
    """Refuses a number of arrivals that no barrier counts."""
    if not 1 <= number <= ir.MAX_COUNT:
        ctx.fail(f"{what} is {number}", f"it must be between 1 and {ir.MAX_COUNT} (2^20 - 1)")


def require_bytes(ctx: Builder, nbytes: object) -> int | Value:
    """The number of bytes that `nbytes` is, no more than a barrier counts in one phase."""
    number = require_index(ctx, "a byte count", nbytes)
    if isinstance(number, int) and not 0 <= number <= ir.MAX_COUNT:
        ctx.fail(
            f"a barrier can't expect {number} bytes in one phase",
            f"the limit is {ir.MAX_COUNT} (2^20 - 1): split the copy over several barriers or phases",
        )
    return number


def mask_operand(ctx: Builder, what: str, mask: object) -> Value | None:
    """A mask of CTAs: bit i is rank i. Constants are checked against the cluster."""
    if mask is None:
        return None
    bits = require_index(ctx, what, mask)
    size = ctx.cluster_size
    if isinstance(bits, int):
        if bits <= 0:
            ctx.fail(
                f"{what} is {bits}: it names no CTA",
                "bit i of the mask stands for CTA rank i, e.g. 0b11 for both of two",
            )
        if bits >> size:
            worst = bits.bit_length() - 1
            ctx.fail(
                f"{what} {bin(bits)} names CTA {worst}, but the cluster has {size} CTA{'s' if size > 1 else ''}",
                "masks have one bit per rank; the cluster is set by @px.kernel(cluster=...)",
                kind="out-of-bounds",
            )
    return operand(bits)


@frozen
class BarrierValue(KernelObject):
    """One barrier, or an array of them."""

    array: BarrierArray
    index: int | Value | None = None
    kind_name = "a barrier"

    def ref(self, ctx: Builder) -> BarrierRef:
        """The barrier meant; an array of several needs an index."""
        if self.index is None:
            if self.array.n != 1:
                ctx.fail(
                    f"'{self.array.name}' is an array of {self.array.n} barriers",
                    f"name one of them: {self.array.name}[i]",
                )
            return BarrierRef(self.array, operand(0))
        return BarrierRef(self.array, operand(self.index))

    def subscript(self, ctx: Builder, index: Arguments) -> BarrierValue:
        """One barrier of the array."""
        if self.index is not None or len(index) != 1:
            ctx.fail(f"'{self.array.name}' is indexed once", f"write {self.array.name}[i]")
        item = require_index(ctx, "the index of a barrier", index[0])
        if isinstance(item, int) and not 0 <= item < self.array.n:
            ctx.fail(
                f"barrier index {item} is outside '{self.array.name}', which has {self.array.n} barriers",
                f"valid indices are 0 to {self.array.n - 1}",
                kind="out-of-bounds",
            )
        return BarrierValue(self.array, item)

    def storage(self) -> BarrierArray:
        """The array, whose memory a buffer may take over."""
        return self.array

    def held(self) -> tuple[Value, ...]:
        """Its index, where that is a run-time value."""
        return (self.index,) if isinstance(self.index, Value) else ()

    def form(self) -> BarrierArray | None:
        """Barriers of one array differ in their indices alone."""
        return self.array if self.index is not None else None

    def parts(self) -> tuple[object, ...]:
        """Its index."""
        return (self.index,)

    def with_parts(self, parts: tuple[object, ...]) -> BarrierValue:
        """The barrier of the same array with another index."""
        (index,) = parts
        assert isinstance(index, int | Value)
        return BarrierValue(self.array, index)

    @method
    def arrive(self, ctx: Builder, count: object = 1, ctas: object = None) -> None:
        """`count` arrivals of this role, here or in each CTA of the mask `ctas`.

        Any agent, one elected thread; sm_90 and up; PTX ``mbarrier.arrive`` (``.release.cluster.shared::cluster`` for
        another CTA). Example: ``empty[s].arrive(ctas=0b11)``.
        """
        times = require_count(ctx, "the count of .arrive", count)
        mask = mask_operand(ctx, "the mask ctas=", ctas)
        ctx.emit(ir.Arrive(self.ref(ctx), operand(times), mask, loc=ctx.loc))

    @method
    def expect_tx(self, ctx: Builder, nbytes: object, ctas: object = None) -> None:
        """The current phase waits for `nbytes` more; here or in each CTA of the mask `ctas`.

        Any agent, one elected thread; sm_90 and up; PTX ``mbarrier.expect_tx``. Example: ``full[s].expect_tx(a[s].nbytes)``.
        """
        expected = require_bytes(ctx, nbytes)
        mask = mask_operand(ctx, "the mask ctas=", ctas)
        ctx.emit(ir.ExpectTx(self.ref(ctx), operand(expected), mask, loc=ctx.loc))

    @method
    def arrive_and_expect_tx(self, ctx: Builder, nbytes: object, ctas: object = None) -> None:
        """Expects `nbytes`, then arrives once; here or in each CTA of the mask `ctas`.

        Any agent, one elected thread; sm_90 and up; PTX ``mbarrier.arrive.expect_tx``.
        Example: ``full[s].arrive_and_expect_tx(a[s].nbytes + b[s].nbytes)``.
        """
        expected = require_bytes(ctx, nbytes)
        mask = mask_operand(ctx, "the mask ctas=", ctas)
        ctx.emit(ir.ArriveExpectTx(self.ref(ctx), operand(expected), mask, loc=ctx.loc))

    @method
    def wait(self, ctx: Builder, parity: object) -> None:
        """Blocks until the phase of `parity` is complete.

        Any agent, all its threads; sm_90 and up; PTX ``mbarrier.try_wait.parity`` in a loop. What was published to that
        phase is visible after it. Example: ``full[r.stage].wait(r.parity)``.
        """
        ctx.emit(ir.Wait(self.ref(ctx), parity_operand(ctx, parity), loc=ctx.loc))

    @method
    def test_wait(self, ctx: Builder, parity: object) -> Value:
        """Whether the phase of `parity` is complete.

        Any agent, all its threads; sm_90 and up; PTX ``mbarrier.test_wait.parity``.
        Example: ``ready = full[s].test_wait(parity)``.
        """
        result = Value(BOOL)
        ctx.emit(ir.TestWait(self.ref(ctx), parity_operand(ctx, parity), result, loc=ctx.loc))
        return result

    @method
    def init(self, ctx: Builder, count: object) -> None:
        """Initialises a barrier made with init=False.

        Any agent, one elected thread; sm_90 and up; PTX ``mbarrier.init``. A fence and a barrier of threads follow.
        Example: ``b.init(1); px.fence.barrier_init(); px.cluster.sync()``.
        """
        arrivals = require_count(ctx, "the count of .init", count)
        ref = self.ref(ctx)
        if ref.barrier.init:
            ctx.fail(
                f"'{ref.barrier.name}' is initialised by the compiler",
                "write px.barrier(..., init=False) to initialise it yourself",
            )
        ctx.emit(ir.BarrierInit(ref.barrier, ref.index, operand(arrivals), loc=ctx.loc))

    @method
    def invalidate(self, ctx: Builder) -> None:
        """Ends the barrier's life, so that its memory may be reused.

        Any agent, one elected thread; sm_90 and up; PTX ``mbarrier.inval``. Example: ``full[0].invalidate()``.
        """
        ctx.emit(ir.BarrierInvalidate(self.ref(ctx), loc=ctx.loc))

    @method
    def transaction(self, ctx: Builder) -> TransactionValue:
        """`with b.transaction():` one arrive with the bytes of the copies inside.

        Any agent, one elected thread; sm_90 and up; PTX ``mbarrier.arrive.expect_tx``, before the copies. The compiler
        adds up what this CTA's barrier receives, whoever issues the copies.
        Example: ``with full[s].transaction(): px.tma.load(A[m:m+64, k:k+64], a[s], full[s])``.
        """
        self.ref(ctx)
        return TransactionValue(self)


@frozen
class TransactionValue(KernelObject):
    """`with b.transaction():`, a region whose copies' bytes the barrier expects."""

    barrier: BarrierValue
    kind_name = "a transaction"

    def open(
        self, reader: RegionReader, body: Callable[[], None], bind: Callable[[object], None] | None
    ) -> None:
        """Reads the transaction."""
        reader.transaction(self.barrier.ref(reader.ctx), body)


def parity_operand(ctx: Builder, parity: object) -> Value:
    """The phase that a wait names: 0 or 1, or a scalar."""
    given = load_scalar(ctx, parity)
    if isinstance(given, bool):
        given = int(given)
    if isinstance(given, Value) and given.type.dtype.kind == "bool":
        given = cast(ctx, given, i32)
    remedy = "px.ring gives .parity; a producer waits for ring.parity ^ 1"
    number = require_index(ctx, "a parity", given, remedy)
    if isinstance(number, int) and number not in (0, 1):
        ctx.fail(f"a parity is 0 or 1, not {number}", remedy)
    return operand(number)
