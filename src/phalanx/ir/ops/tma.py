"""Copies by the TMA engine between global and shared memory: they finish later, on a barrier or in a group."""

from __future__ import annotations

from typing import ClassVar

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import Feature
from phalanx.ir.core import Op
from phalanx.ir.effects import (
    ANYWHERE,
    Access,
    Complete,
    Effects,
    Executor,
    Group,
    GroupAction,
    Mode,
    Proxy,
    Target,
    Use,
    When,
)
from phalanx.ir.engines import COPY_ENGINE
from phalanx.ir.type_rules import needs_no_type_rule, type_rules
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierRef, GlobalView, SharedView
from phalanx.markers import attribute, operand

EXPANDS = Target(
    (Feature.NARROW_MATRICES,), family="copies that put room between elements", alternative="leave padded=True away"
)
"""They came with what reads such rooms, in shared memory as `b4x16_p64`."""
REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
PAIRS = Target((Feature.PAIR_COPIES,), alternative="leave two_cta= out: each CTA waits for its own bytes", family="two_cta")
CACHE_HINTS = ("evict_normal", "evict_first", "evict_last")
HINTED_PARTS = 16
"""Parts of a copy's bytes: a hint may be for some of them, by address, and for the same ones for all who read there."""


def parted_hint(hint: str) -> tuple[str, int]:
    """A cache hint, and for how many of `HINTED_PARTS` it is: ``"evict_first 4/16"`` for four; ("", 0) if it is none."""
    name, _, parts = hint.partition(" ")
    shares = {f"{part}/{HINTED_PARTS}": part for part in range(1, HINTED_PARTS)} if name != "evict_normal" else {}
    part = shares.get(parts, 0) if parts else HINTED_PARTS if hint == name else 0
    return (name, part) if name in CACHE_HINTS and part else ("", 0)


@frozen(eq=False, repr=False)
class TmaLoad(Op):
    """Global to shared memory, here or at the same offset in every CTA of the mask `multicast`.

    Each destination's barrier is credited with the whole region's bytes, elements outside the array included; with `pair`
    that of the even CTA of its pair. `written` is what the user called.
    """

    mnemonic: ClassVar[str] = "tma.load"
    src: GlobalView = operand()
    dst: SharedView = operand()
    bar: BarrierRef = operand()
    multicast: Value | None = operand(default=None)
    cache: str | None = attribute(default=None)
    written: str = attribute(default="tma.load")
    pair: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Reads the array and writes shared memory, later: the bytes complete on a barrier of each CTA that receives."""
        complete = Complete(self.bar, self.dst.nbytes, self.multicast, leaders=self.pair)
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, Proxy.ASYNC, When.BARRIER, use=Use.COPY, engine=COPY_ENGINE),
                Access(Mode.WRITE, self.dst, Proxy.ASYNC, When.BARRIER, self.multicast, use=Use.COPY, engine=COPY_ENGINE),
            ),
            completes=(complete,),
            executor=Executor.ONE,
            target=PAIRS if self.pair else EXPANDS if self.dst.buffer.padded else ANYWHERE,
        )


@frozen(eq=False, repr=False)
class TmaStore(Op):
    """Shared to global memory; elements outside the array are dropped. Finishes with its bulk group."""

    mnemonic: ClassVar[str] = "tma.store"
    src: SharedView = operand()
    dst: GlobalView = operand()
    cache: str | None = attribute(default=None)

    def effects(self) -> Effects:
        """Reads shared memory and writes the array, later: over with its group."""
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, Proxy.ASYNC, When.GROUP, use=Use.COPY, engine=COPY_ENGINE),
                Access(Mode.WRITE, self.dst, Proxy.ASYNC, When.GROUP, use=Use.COPY, engine=COPY_ENGINE),
            ),
            executor=Executor.ONE,
        )


@frozen(eq=False, repr=False)
class TmaReduce(Op):
    """Folds shared memory into global memory, atomically per element, with `op`, one of `REDUCTIONS`."""

    mnemonic: ClassVar[str] = "tma.reduce"
    src: SharedView = operand()
    dst: GlobalView = operand()
    op: str = attribute()
    cache: str | None = attribute(default=None)

    def effects(self) -> Effects:
        """Reads shared memory and updates the array, later: over with its group."""
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, Proxy.ASYNC, When.GROUP, use=Use.COPY, engine=COPY_ENGINE),
                Access(Mode.ATOMIC, self.dst, Proxy.ASYNC, When.GROUP, folds=self.op, use=Use.COPY, engine=COPY_ENGINE),
            ),
            executor=Executor.ONE,
        )


@frozen(eq=False, repr=False)
class TmaCommit(Op):
    """Closes the group of stores and reductions issued since the last commit of this role."""

    mnemonic: ClassVar[str] = "tma.commit"

    def effects(self) -> Effects:
        """Closes the group of copies that is open."""
        return Effects(groups=(Group(COPY_ENGINE, GroupAction.COMMIT),), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class TmaWait(Op):
    """Waits until at most `n` groups of this role are unfinished; with `read`, until they have read their sources."""

    mnemonic: ClassVar[str] = "tma.wait"
    n: int = attribute()
    read: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Waits for groups of copies, or until they have read their sources."""
        action = GroupAction.WAIT_READ if self.read else GroupAction.WAIT
        return Effects(groups=(Group(COPY_ENGINE, action, self.n),), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class TmaPrefetch(Op):
    """Brings a global region into L2. No access: nothing waits for it and nothing can race with it."""

    mnemonic: ClassVar[str] = "tma.prefetch"
    src: GlobalView = operand()
    cache: str | None = attribute(default=None)

    def effects(self) -> Effects:
        """Does nothing that anyone could wait for or race with; one thread issues it."""
        return Effects(executor=Executor.ONE)


# What the types of operands and results must be.


@type_rules(TmaLoad, TmaStore, TmaReduce)
def _check_copy(op: TmaLoad | TmaStore | TmaReduce) -> None:
    if op.src.dtype != op.dst.dtype:
        raise Error(
            f"{op.mnemonic} from {op.src.dtype} to {op.dst.dtype}: a copy does not convert",
            location=op.loc,
            remedy="give the shared buffer the array's dtype",
        )
    if op.src.shape != op.dst.shape:
        raise Error(
            f"{op.mnemonic} from a region of shape {op.src.shape} to one of shape {op.dst.shape}",
            location=op.loc,
            remedy="both sides of a copy have the same shape",
        )
    shared = op.dst if isinstance(op, TmaLoad) else op.src
    if shared.cta is not None:
        raise Error(
            f"{op.mnemonic} of another CTA's shared memory",
            location=op.loc,
            remedy="the TMA engine copies to and from its own CTA; multicast= reaches the others",
        )


@type_rules(TmaWait)
def _check_group_wait(op: TmaWait) -> None:
    if op.n < 0:
        raise Error(f"{op.call}({op.n})", location=op.loc, remedy="the number of unfinished groups is 0 or more")


needs_no_type_rule(TmaPrefetch)
