"""The cluster: who am I, barriers of all its threads, copies between and into its CTAs, reductions over it."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Op
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
    Use,
    When,
)
from phalanx.ir.engines import COPY_ENGINE
from phalanx.ir.ops.memory import require_written
from phalanx.ir.traits import Fold
from phalanx.ir.type_rules import dtype_of, need, need_alike, need_index, needs_no_type_rule, shape_of, type_rules
from phalanx.ir.types import I32, ArrayType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView
from phalanx.markers import attribute, block, defined, operand, storage


def coordinates(cluster: tuple[int, int, int], rank: int) -> tuple[int, int, int]:
    """The place of `rank` in a cluster of that shape; x runs fastest."""
    x, y, _ = cluster
    return rank % x, rank // x % y, rank // (x * y)


@frozen(eq=False, repr=False)
class ClusterRank(Op):
    """This CTA's rank in its cluster (x fastest), or its coordinate along `dim`."""

    mnemonic: ClassVar[str] = "cluster.rank"
    nonnegative: ClassVar[bool] = True
    dim: int | None = attribute()
    result: Value = defined()

    def in_rank(self, cluster: tuple[int, int, int], rank: int) -> int:
        """Its rank, or its coordinate along `dim`: the cluster's shape alone decides it."""
        return rank if self.dim is None else coordinates(cluster, rank)[self.dim]


@frozen(eq=False, repr=False)
class ClusterId(Op):
    """The cluster's index in the grid, linear or along `dim`."""

    mnemonic: ClassVar[str] = "cluster.id"
    nonnegative: ClassVar[bool] = True
    dim: int | None = attribute()
    result: Value = defined()


@frozen(eq=False, repr=False)
class ClusterCount(Op):
    """The number of clusters of the grid."""

    mnemonic: ClassVar[str] = "cluster.count"
    nonnegative: ClassVar[bool] = True
    result: Value = defined()


@frozen(eq=False, repr=False)
class ClusterArrive(Op):
    """Arrives at the cluster's barrier; a relaxed arrival publishes nothing but fenced barrier inits.

    `reason` is empty where the user wrote it.
    """

    mnemonic: ClassVar[str] = "cluster.arrive"
    relaxed: bool = attribute(default=False)
    reason: str = attribute(default="")

    def effects(self) -> Effects:
        """Arrives at the barrier of the cluster's threads and does not wait."""
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, waits=False, releases=not self.relaxed),))


@frozen(eq=False, repr=False)
class ClusterWait(Op):
    """Waits until all threads of the cluster have arrived."""

    mnemonic: ClassVar[str] = "cluster.wait"
    reason: str = attribute(default="")

    def effects(self) -> Effects:
        """Waits at the barrier of the cluster's threads and does not arrive."""
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, arrives=False),))


@frozen(eq=False, repr=False)
class ClusterSync(Op):
    """Arrives at the cluster's barrier and waits there.

    `reason` is empty where the user wrote it. `relaxed` is the compiler's choice, where nothing is published.
    """

    mnemonic: ClassVar[str] = "cluster.sync"
    reason: str = attribute(default="")
    relaxed: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Arrives and waits at the barrier of the cluster's threads."""
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, releases=not self.relaxed),))


@frozen(eq=False, repr=False)
class ClusterCopy(Op):
    """Pushes shared memory of this CTA into that of the CTA `dst` names; `ctas` is the mask with that CTA's bit.

    With a barrier, the destination's bytes complete on that CTA's `bar`, and nothing arrives there unless `arm`: then
    the sender also arrives, with those bytes expected. Without one it is ordinary loads and stores, over for whoever passes
    the next cluster barrier. An element type or shape that differs is converted, in row-major order. `how` is the compiler's
    choice, and so is the `scope` at which the arrival of `arm` releases. `nbytes`: what arrives, where only a run knows it.
    """

    mnemonic: ClassVar[str] = "cluster.copy"
    src: SharedView = operand()
    dst: SharedView = operand()
    bar: BarrierRef | None = operand()
    ctas: Value = operand()
    arm: bool = attribute(default=False)
    how: str = attribute(default="")
    scope: Span = attribute(default=Span.CTA)
    nbytes: Value | None = operand(default=None)

    def effects(self) -> Effects:
        """Reads here and writes in the peer: at once by ordinary stores, or later, with the bytes on the peer's barrier."""
        if self.bar is None:
            return Effects(
                accesses=(Access(Mode.READ, self.src), Access(Mode.WRITE, self.dst, fenced=True)),
                executor=Executor.ONE,
            )
        nbytes = self.dst.nbytes if self.nbytes is None else self.nbytes
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, Proxy.ASYNC, When.BARRIER, use=Use.COPY, engine=COPY_ENGINE),
                Access(Mode.WRITE, self.dst, Proxy.ASYNC, When.BARRIER, use=Use.COPY, engine=COPY_ENGINE),
            ),
            expects=(Expect(self.bar, self.nbytes or Const(self.dst.nbytes), self.ctas),) * self.arm,
            arrivals=(Arrival(self.bar, Const(1), self.ctas, self.scope),) * self.arm,
            completes=(Complete(self.bar, nbytes, self.ctas),),
            executor=Executor.ONE,
        )


@frozen(eq=False, repr=False)
class ClusterStore(Op):
    """Registers into the shared memory of the CTA that `view` names; their bytes complete on that CTA's `bar`.

    `ctas` is the mask with that CTA's bit. All threads store, each its share of a tile, or one of them a scalar; nothing
    arrives.
    """

    mnemonic: ClassVar[str] = "cluster.store"
    view: SharedView = operand()
    value: Value = operand()
    bar: BarrierRef = operand()
    ctas: Value = operand()

    def effects(self) -> Effects:
        """Writes in the peer, later: the bytes complete on its barrier."""
        return Effects(
            accesses=(Access(Mode.WRITE, self.view, when=When.BARRIER),),
            completes=(Complete(self.bar, self.view.nbytes, self.ctas),),
            executor=Executor.ALL if self.view.shape else Executor.ONE,
        )


@frozen(eq=False, repr=False)
class Collective(Op):
    """A copy from global memory into all CTAs of the mask `ctas`; a pass turns it into what each rank issues.

    `shares`: each CTA fetches a part; else one fetches the whole. `count`: how many CTAs the mask names, as a user wrote
    whose mask only a run knows.
    """

    shares: ClassVar[bool] = False
    src: GlobalView = operand()
    dst: SharedView = operand()
    bar: BarrierRef = operand()
    ctas: Value = operand()
    cache: str | None = attribute(default=None)
    count: int | None = attribute(default=None)

    def effects(self) -> Effects:
        """Reads the array and writes the same place of every CTA of the mask, with the bytes on each one's barrier."""
        return Effects(
            accesses=(
                Access(Mode.READ, self.src, Proxy.ASYNC, When.BARRIER, use=Use.COPY, engine=COPY_ENGINE),
                Access(Mode.WRITE, self.dst, Proxy.ASYNC, When.BARRIER, self.ctas, use=Use.COPY, engine=COPY_ENGINE),
            ),
            completes=(Complete(self.bar, self.dst.nbytes, self.ctas, shared=True),),
            executor=Executor.ONE,
        )

    @property
    def collective(self) -> Collective:
        """Itself: several CTAs carry it out together."""
        return self


@frozen(eq=False, repr=False)
class ClusterLoad(Collective):
    """Every CTA of the mask fetches its share of the tile, along the slowest axis, and multicasts it to all of them."""

    mnemonic: ClassVar[str] = "cluster.load"
    shares: ClassVar[bool] = True


@frozen(eq=False, repr=False)
class ClusterMulticast(Collective):
    """The lowest rank of the mask fetches the tile for all of them; a CTA outside its own mask fetches its own."""

    mnemonic: ClassVar[str] = "cluster.multicast"

    @property
    def written(self) -> str:
        """What users call it: a copy over the cluster."""
        return "cluster.copy"


@frozen(eq=False, repr=False)
class ClusterAgree(Op):
    """All CTAs of the mask name the same mask and region here, each time. Checked by the simulator, nothing on a GPU.

    `count`: so many CTAs the mask names, the one that names it among them; None where that is known, or does not matter.
    """

    mnemonic: ClassVar[str] = "cluster.agree"
    src: GlobalView = operand()
    ctas: Value = operand()
    count: int | None = attribute(default=None)


RECORD = 4
"""Words that one store of a gather may send."""
INBOX_STEP = 16
"""The inbox of a rank in an exchange begins at a multiple of so many bytes; so many follow the last, for thanks."""
TURNS = 2
"""The inboxes of an agent's exchanges, which take turns."""
UNWRITTEN = Block()


class Exchange(Op):
    """What the CTAs of the cluster tell each other out of registers; all run it equally often.

    The compiler fills in the rest. `slots` and `barrier`: two turns of inboxes, and their barriers (none in a cluster of
    one), shared by all exchanges of an agent; the next copy of its role has the two that follow. `protocol`: what happens
    then, in single instructions; the simulator runs them, and a back end writes the same in its own words.
    """

    ctas: Value
    slots: SharedBuffer | None
    barrier: BarrierArray | None
    protocol: Block

    @property
    def exchange(self) -> Exchange:
        """Itself: all CTAs of the cluster tell each other values by it."""
        return self

    def placed(self, slots: SharedBuffer, barrier: BarrierArray | None) -> Exchange:
        """The exchange with its inboxes and barriers."""
        return dataclasses.replace(self, slots=slots, barrier=barrier)  # type: ignore[call-arg]

    def following(self, protocol: Block) -> Exchange:
        """The exchange with the instructions that happen in it."""
        return dataclasses.replace(self, protocol=protocol)  # type: ignore[call-arg]

    @property
    def sent(self) -> tuple[Value, ...]:
        """What each CTA sends."""
        raise NotImplementedError

    @property
    def receiver(self) -> Value | None:
        """The one CTA that receives; None: all do."""
        return None

    def sent_bytes(self) -> int:
        """What one CTA sends to each that receives."""
        raise NotImplementedError

    def inbox_bytes(self, warps: int) -> int:
        """What an inbox must hold of one CTA, whose agent has so many warps."""
        raise NotImplementedError

    def effects(self) -> Effects:
        """Its own memory is nobody else's. When it is over in one thread, all threads of the agent have come to it."""
        completes: tuple[Complete, ...] = ()
        if self.barrier is not None and not self.protocol.ops:
            completes = (Complete(BarrierRef(self.barrier, Const(0)), self.sent_bytes(), self.ctas, awaited=True),)
        return Effects(completes=completes, rendezvous=(Rendezvous(Span.AGENT),))


@frozen(eq=False, repr=False)
class ClusterReduce(Exchange):
    """`fn` ("sum", "max", "min") over the `x` of all CTAs of the cluster, in the order of their ranks.

    The result is in every CTA, or in CTA `cta` alone; elsewhere it is the CTA's own `x`. `ctas` is the mask of those
    that receive.
    """

    mnemonic: ClassVar[str] = "cluster.reduce"
    fn: str = attribute()
    x: Value = operand()
    cta: Value | None = operand()
    ctas: Value = operand()
    result: Value = defined()
    slots: SharedBuffer | None = storage(default=None)
    barrier: BarrierArray | None = storage(default=None)
    protocol: Block = block(default=UNWRITTEN)

    @property
    def fold(self) -> Fold | None:
        """A fold over the CTAs, unless one of them alone receives it."""
        return Fold(self.fn, self.x) if self.cta is None else None

    @property
    def sent(self) -> tuple[Value, ...]:
        """The one operand, of which each CTA sends its own."""
        return (self.x,)

    @property
    def receiver(self) -> Value | None:
        """The CTA that alone receives the result; None where all do."""
        return self.cta

    @property
    def wire_bytes(self) -> int:
        """Bytes of one element on its way: 4, or 8 where it has as many."""
        assert not isinstance(self.x.type, ArrayType)
        return max(4, self.x.type.dtype.itemsize)

    def sent_bytes(self) -> int:
        """The bytes of its tile on their way to one CTA."""
        return prod(self.x.type.shape) * self.wire_bytes  # type: ignore[union-attr]

    def inbox_bytes(self, warps: int) -> int:
        """Its tile; a scalar from each of its warps, which need not agree on one first."""
        shape = self.x.type.shape  # type: ignore[union-attr]
        return (prod(shape) if shape else warps) * self.wire_bytes


@frozen(eq=False, repr=False)
class ClusterGather(Exchange):
    """The `xs` of all CTAs of the cluster in each of them: entry r along a new first axis comes from rank r.

    They are scalars or tiles of one shape and of one type of 4 bytes. What belongs to one element travels together, in
    records of 1, 2 or 4 words; three fill one of four.
    """

    mnemonic: ClassVar[str] = "cluster.gather"
    xs: tuple[Value, ...] = operand()
    ctas: Value = operand()
    results: tuple[Value, ...] = defined()
    slots: SharedBuffer | None = storage(default=None)
    barrier: BarrierArray | None = storage(default=None)
    protocol: Block = block(default=UNWRITTEN)

    @property
    def sent(self) -> tuple[Value, ...]:
        """The operands, all of which each CTA sends."""
        return self.xs

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each of the `xs`."""
        shape: tuple[int, ...] = self.xs[0].type.shape  # type: ignore[union-attr]
        return shape

    @property
    def records(self) -> tuple[int, ...]:
        """How many of the `xs` each record holds."""
        count = len(self.xs)
        return (RECORD,) * (count // RECORD) + ((count % RECORD,) if count % RECORD else ())

    def record_bytes(self, record: int) -> int:
        """The bytes that one of its records takes of a store, and of an inbox."""
        return 4 << (self.records[record] - 1).bit_length()

    def sent_bytes(self) -> int:
        """The bytes of all its records, on their way to one CTA."""
        return prod(self.shape) * sum(map(self.record_bytes, range(len(self.records))))

    def inbox_bytes(self, warps: int) -> int:
        """As much as one CTA sends: the records of all elements."""
        return self.sent_bytes()


@frozen(eq=False, repr=False)
class ClusterTurn(Op):
    """Whose turn it is among the inboxes of an agent's exchanges: the stage, of `turns`, and the parity of its phase."""

    mnemonic: ClassVar[str] = "cluster.turn"
    slots: SharedBuffer = storage()
    turns: int = attribute()
    results: tuple[Value, ...] = defined()


@frozen(eq=False, repr=False)
class ClusterSend(Op):
    """Values from registers into the region `dst` of every CTA of the mask `ctas`; their bytes complete on its `bar`.

    Completing the bytes is a release at the scope of the cluster: of what the sender had read of the inboxes before.
    """

    mnemonic: ClassVar[str] = "cluster.send"
    xs: tuple[Value, ...] = operand()
    dst: SharedView = operand()
    bar: BarrierRef = operand()
    ctas: Value = operand()

    def effects(self) -> Effects:
        """Writes the inboxes of all CTAs of the mask, later: the bytes complete on each one's barrier."""
        return Effects(
            accesses=(Access(Mode.WRITE, self.dst, Proxy.GENERIC, When.BARRIER, self.ctas, exchange=True),),
            completes=(Complete(self.bar, self.dst.nbytes, self.ctas),),
        )


@frozen(eq=False, repr=False)
class ClusterReceive(Op):
    """What lies in the inboxes, byte by byte."""

    mnemonic: ClassVar[str] = "cluster.receive"
    view: SharedView = operand()
    result: Value = defined()

    def effects(self) -> Effects:
        """Reads the inboxes."""
        return Effects(accesses=(Access(Mode.READ, self.view, exchange=True),))


# What the types of operands and results must be.


@type_rules(ClusterRank, ClusterId, ClusterCount)
def _check_number(op: ClusterRank | ClusterId | ClusterCount) -> None:
    need_index(op)


@type_rules(ClusterCopy)
def _check_copy(op: ClusterCopy) -> None:
    """As many elements at both ends, in any shape; extents that only a run knows are bounds, and `nbytes` says what goes."""
    as_many = op.nbytes is not None or prod(op.src.shape) == prod(op.dst.shape)
    need(as_many, op, f"from a region of shape {op.src.shape} to one of shape {op.dst.shape}")


@type_rules(ClusterLoad, ClusterMulticast)
def _check_collective(op: Collective) -> None:
    need_alike(op, op.src, op.dst)


@type_rules(ClusterStore)
def _check_store(op: ClusterStore) -> None:
    require_written(op, op.view, op.value)


@type_rules(ClusterReduce)
def _check_reduce(op: ClusterReduce) -> None:
    need(op.x.type == op.result.type, op, f"{op.x.type} becomes {op.result.type}")


@type_rules(ClusterReceive)
def _check_receive(op: ClusterReceive) -> None:
    need_alike(op, op.view, op.result)


@type_rules(ClusterGather)
def _check_gather(op: ClusterGather) -> None:
    need(len(op.xs) == len(op.results), op, f"{len(op.results)} results of {len(op.xs)} values")
    for x, result in zip(op.xs, op.results, strict=True):
        need(dtype_of(x) == dtype_of(result) and shape_of(x) == shape_of(result)[1:], op, f"{x.type} becomes {result.type}")


@type_rules(ClusterTurn)
def _check_turn(op: ClusterTurn) -> None:
    need([result.type for result in op.results] == [I32, I32], op, "results other than a stage and a parity")


needs_no_type_rule(ClusterAgree)
needs_no_type_rule(ClusterSend, why="an inbox holds words of any type")
