"""The cluster: who am I, barriers of all its threads, copies between and into its CTAs, reductions over it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from phalanx.ir.core import Op
from phalanx.ir.effects import (
    Access,
    Arrival,
    Complete,
    Effects,
    Executor,
    Expect,
    Mode,
    Proxy,
    Rendezvous,
    Span,
    When,
)
from phalanx.ir.types import ArrayType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRank(Op):
    """This CTA's rank in its cluster (x fastest), or its coordinate along `dim`."""

    mnemonic: ClassVar[str] = "cluster.rank"
    dim: int | None
    result: Value


@dataclass(frozen=True, eq=False, repr=False)
class ClusterId(Op):
    """The cluster's index in the grid, linear or along `dim`."""

    mnemonic: ClassVar[str] = "cluster.id"
    dim: int | None
    result: Value


@dataclass(frozen=True, eq=False, repr=False)
class ClusterArrive(Op):
    """Arrives at the cluster's barrier; a relaxed arrival publishes nothing but fenced barrier inits.

    `reason` is empty where the user wrote it.
    """

    mnemonic: ClassVar[str] = "cluster.arrive"
    relaxed: bool = False
    reason: str = ""

    def effects(self) -> Effects:
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, waits=False, releases=not self.relaxed),))


@dataclass(frozen=True, eq=False, repr=False)
class ClusterWait(Op):
    """Waits until all threads of the cluster have arrived."""

    mnemonic: ClassVar[str] = "cluster.wait"
    reason: str = ""

    def effects(self) -> Effects:
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, arrives=False),))


@dataclass(frozen=True, eq=False, repr=False)
class ClusterSync(Op):
    """Both halves. `reason` is empty where the user wrote it; `relaxed`: the compiler's, where nothing is published."""

    mnemonic: ClassVar[str] = "cluster.sync"
    reason: str = ""
    relaxed: bool = False

    def effects(self) -> Effects:
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, releases=not self.relaxed),))


@dataclass(frozen=True, eq=False, repr=False)
class ClusterCopy(Op):
    """Pushes shared memory of this CTA into that of the CTA `dst` names; `ctas` is the mask with that CTA's bit.

    With a barrier, the destination's bytes complete on that CTA's `bar`, and nothing arrives there unless `arm`: then
    the sender also arrives, with those bytes expected. Without one the copy is over for whoever passes the next cluster
    barrier. An element type or shape that differs is converted, in row-major order. `how` is the compiler's choice.
    """

    mnemonic: ClassVar[str] = "cluster.copy"
    src: SharedView
    dst: SharedView
    bar: BarrierRef | None
    ctas: Value
    arm: bool = False
    how: str = ""

    def effects(self) -> Effects:
        if self.bar is None:
            return Effects(
                accesses=(Access(Mode.READ, self.src, Proxy.ASYNC), Access(Mode.WRITE, self.dst, Proxy.ASYNC)),
                executor=Executor.ONE,
            )
        nbytes = self.dst.nbytes
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, Proxy.ASYNC, When.BARRIER),
                Access(Mode.WRITE, self.dst, Proxy.ASYNC, When.BARRIER),
            ),
            expects=(Expect(self.bar, Const(nbytes), self.ctas),) * self.arm,
            arrivals=(Arrival(self.bar, Const(1), self.ctas),) * self.arm,
            completes=(Complete(self.bar, nbytes, self.ctas),),
            executor=Executor.ONE,
        )


@dataclass(frozen=True, eq=False, repr=False)
class ClusterStore(Op):
    """Registers into the shared memory of the CTA that `view` names; their bytes complete on that CTA's `bar`.

    `ctas` is the mask with that CTA's bit. All threads store, each its share; nothing arrives.
    """

    mnemonic: ClassVar[str] = "cluster.store"
    view: SharedView
    value: Value
    bar: BarrierRef
    ctas: Value

    def effects(self) -> Effects:
        return Effects(
            accesses=(Access(Mode.WRITE, self.view, when=When.BARRIER),),
            completes=(Complete(self.bar, self.view.nbytes, self.ctas),),
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Collective(Op):
    """A copy from global memory into all CTAs of the mask `ctas`; a pass turns it into what each rank issues."""

    src: GlobalView
    dst: SharedView
    bar: BarrierRef
    ctas: Value
    cache: str | None = None

    def effects(self) -> Effects:
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, Proxy.ASYNC, When.BARRIER),
                Access(Mode.WRITE, self.dst, Proxy.ASYNC, When.BARRIER, self.ctas),
            ),
            completes=(Complete(self.bar, self.dst.nbytes, self.ctas),),
            executor=Executor.ONE,
        )


@dataclass(frozen=True, eq=False, repr=False)
class ClusterLoad(_Collective):
    """Every CTA of the mask fetches its share of the tile, along the slowest axis, and multicasts it to all of them."""

    mnemonic: ClassVar[str] = "cluster.load"


@dataclass(frozen=True, eq=False, repr=False)
class ClusterMulticast(_Collective):
    """The lowest rank of the mask fetches the tile for all of them; a CTA outside its own mask fetches its own."""

    mnemonic: ClassVar[str] = "cluster.multicast"


@dataclass(frozen=True, eq=False, repr=False)
class ClusterAgree(Op):
    """All CTAs of the mask name the same region here, each time. Checked by the simulator, nothing on a GPU."""

    mnemonic: ClassVar[str] = "cluster.agree"
    src: GlobalView
    ctas: Value


@dataclass(frozen=True, eq=False, repr=False)
class ClusterReduce(Op):
    """`fn` ("sum", "max", "min") over the `x` of all CTAs of the cluster, in the order of their ranks.

    The result is in every CTA, or in CTA `cta` alone; elsewhere it is the CTA's own `x`. `ctas` is the mask of those
    that receive. All CTAs run it equally often. `slots` and `barrier` are the compiler's: two turns of inboxes, and
    their barriers, shared by all reductions of an agent.
    """

    mnemonic: ClassVar[str] = "cluster.reduce"
    fn: str
    x: Value
    cta: Value | None
    ctas: Value
    result: Value
    slots: SharedBuffer | None = None
    barrier: BarrierArray | None = None

    @property
    def wire_bytes(self) -> int:
        """Bytes of one element on its way: 4, or 8 where it has as many."""
        assert not isinstance(self.x.type, ArrayType)
        return max(4, self.x.type.dtype.itemsize)

    def effects(self) -> Effects:
        """Its own memory is nobody else's. When it is over in one thread, all threads of the agent have come to it."""
        completes: tuple[Complete, ...] = ()
        if self.barrier is not None:
            nbytes = prod(self.x.type.shape) * self.wire_bytes  # type: ignore[union-attr]
            completes = (Complete(BarrierRef(self.barrier, Const(0)), nbytes, self.ctas, awaited=True),)
        return Effects(completes=completes, rendezvous=(Rendezvous(Span.AGENT),))
