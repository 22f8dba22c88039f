"""When each shared buffer is in use: whether all of one is over before anything of another begins.

Read from effects, over the structure of the kernel. What is touched in a loop lives as long as the loop; roles that run
side by side are in no order, their join ends them. A copy that completes on a barrier is over when that was waited for:
every wait on the barrier counts as a use of the buffer. Stores and products in groups are in use until the group's wait,
by the role that issued them. What peers touch is over at a cluster barrier.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from phalanx.analysis.peers import accesses_peer, signals_peer
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op, storage_of
from phalanx.ir.effects import Effects, FenceKind, GroupAction, Mode, Proxy, Span, When
from phalanx.ir.memory import Storage, memory_owner, unit_of
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, Roles, Scope, While
from phalanx.ir.values import Label, constant_of
from phalanx.ir.views import BarrierArray, BarrierRef, SharedView

Barrier = tuple[BarrierArray, object]
"""A barrier of an array by its index; None: any of them."""
Place = tuple[Block, int]
"""Right before an instruction of a block."""


class Rest(Enum):
    """What is left of an access when its instruction is over."""

    BULK = "a bulk group reads it"
    MMA = "the tensor cores read it"
    LOST = "nobody can wait for it any more"
    UNFENCED = "it was touched by ordinary accesses, and no proxy fence followed"


@frozen
class Left:
    """Something left of a unit's accesses; `commits`: groups closed since."""

    unit: Storage
    rest: Rest
    commits: int = 0


State = frozenset[Left]
MOST_COMMITS = 8
"""Groups that are told apart: a wait leaves fewer open."""


@dataclass
class Order:
    """One unit is over before another: where the other begins, and where a proxy fence belongs, if one is needed."""

    fences: list[Place] = field(default_factory=list)


class Lives:
    """The lives of a kernel's units of shared memory (`ir.memory.unit_of`)."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.units: dict[Storage, int] = {}
        """Those that may share memory, with their bytes."""
        self.effects: dict[Op, Effects] = {op: op.effects() for op in function.walk()}
        self._guards: dict[Storage, set[Barrier]] = {}
        self._peers: set[Storage] = set()
        self._engine_writes: set[Storage] = set()
        self._collect()
        self._touched: dict[Op, frozenset[Storage]] = {}
        self._alive: dict[Op, frozenset[Storage]] = {}
        self._busy: dict[tuple[Storage, Storage], set[Rest]] = {}
        self._exits: dict[tuple[type[Op], Label], State] = {}
        self._flow(function.body, frozenset())

    # --- what there is ----------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        function = self.function
        pinned: set[Storage] = {unit_of(barrier) for barrier in function.barriers}
        awaited: set[Barrier] = set()
        for op, effects in self.effects.items():
            accessed = set()
            reaches = function.cluster_size > 1 and (accesses_peer(effects) or signals_peer(effects))
            for access in effects.accesses:
                if not isinstance(access.region, SharedView):
                    continue
                unit = unit_of(access.region.buffer)
                accessed.add(unit)
                if reaches:
                    self._peers.add(unit)
                if access.when is When.BARRIER:
                    self._guards.setdefault(unit, set()).update(_key(part.barrier) for part in effects.completes)
                if access.proxy is Proxy.ASYNC and access.mode is not Mode.READ:
                    self._engine_writes.add(unit)
            pinned |= {unit_of(buffer) for buffer in storage_of(op)} - accessed  # uses it does not declare
            awaited |= {_key(wait.barrier) for wait in effects.waits}
        for unit, guards in self._guards.items():
            if any(not any(_may_be_one(guard, wait) for wait in awaited) for guard in guards):
                pinned.add(unit)  # nobody ever waits for it
        for buffer in function.buffers:
            unit = unit_of(buffer)
            if unit not in pinned and memory_owner(unit) is unit:
                self.units[unit] = max(self.units.get(unit, 0), buffer.nbytes)

    def _own(self, op: Op) -> tuple[set[Storage], set[Storage]]:
        """The units that an instruction touches by itself, and those that it keeps alive."""
        effects = self.effects[op]
        touched = {
            unit_of(access.region.buffer) for access in effects.accesses if isinstance(access.region, SharedView)
        }
        waits = [_key(wait.barrier) for wait in effects.waits]
        kept = {
            unit for unit, guards in self._guards.items()
            if any(_may_be_one(guard, wait) for guard in guards for wait in waits)
        }
        return touched, touched | kept

    def touched(self, op: Op) -> frozenset[Storage]:
        """The units that an instruction, or one inside it, accesses."""
        self._sum(op)
        return self._touched[op]

    def alive(self, op: Op) -> frozenset[Storage]:
        """Those, and the ones whose copies it waits for."""
        self._sum(op)
        return self._alive[op]

    def _sum(self, op: Op) -> None:
        if op in self._touched:
            return
        touched, alive = self._own(op)
        for inner in (inner for block in op.blocks() for inner in block.ops):
            touched |= self.touched(inner)
            alive |= self.alive(inner)
        self._touched[op], self._alive[op] = frozenset(touched), frozenset(alive)

    # --- order ------------------------------------------------------------------------------------------------------

    def order(self, first: Storage, second: Storage) -> Order | None:
        """How all of `first` comes before all of `second`; None if it does not."""
        busy = self._busy.get((first, second), set())
        if not busy <= {Rest.UNFENCED}:
            return None
        order = Order()
        if not self._before(first, second, self.function.body, order):
            return None
        if not busy or second not in self._engine_writes:
            order.fences.clear()
        return order

    def _before(self, first: Storage, second: Storage, block: Block, order: Order) -> bool:
        ends = [n for n, op in enumerate(block.ops) if first in self.alive(op)]
        begins = [n for n, op in enumerate(block.ops) if second in self.touched(op)]
        if not ends or not begins:
            return True
        shared_by_peers = first in self._peers or second in self._peers
        last, start = ends[-1], begins[0]
        if last < start:
            ending = block.ops[last]
            if isinstance(ending, Roles) and not ending.joins:
                return False
            between = (meeting for op in block.ops[last + 1 : start] for meeting in self.effects[op].rendezvous)
            if shared_by_peers and not any(
                m.span is Span.CLUSTER and m.arrives and m.waits and m.releases for m in between
            ):
                return False
            order.fences.append((block, start))
            return True
        op = block.ops[start]
        if last > start or (shared_by_peers and (ends[0] < start or begins[-1] > start)):
            return False
        if isinstance(op, Roles):
            regions = [
                region for region in op.regions
                if any(first in self.alive(inner) or second in self.touched(inner) for inner in region.body.ops)
            ]
            blocks = [region.body for region in regions]
            if len(blocks) > 1 or (begins[-1] > start and not op.joins):
                return False
        elif isinstance(op, If | Scope):
            blocks = list(op.blocks())
            if shared_by_peers and len(blocks) > 1:
                return False  # ranks may take different branches
        else:
            return False
        if ends[0] < start:
            order.fences.append((block, start))
        return all(self._before(first, second, inner, order) for inner in blocks)

    # --- what is left of accesses -----------------------------------------------------------------------------------

    def _flow(self, block: Block, state: State | None) -> State | None:
        """The state after a block; None if its end is never reached."""
        for op in block.ops:
            if state is None:
                return None
            state = self._step(op, state)
        return state

    def _step(self, op: Op, state: State) -> State | None:
        match op:
            case If():
                return _join(self._flow(op.then, state), self._flow(op.orelse, state))
            case For() | While():
                return self._loop(op, state)
            case Scope():
                return _join(self._flow(op.body, state), self._exits.pop((Leave, op.label), None))
            case Break() | Continue() | Leave():
                way = (type(op), op.label)
                self._exits[way] = self._exits.get(way, frozenset()) | state
                return None
            case Roles():
                return self._roles(op, state)
        self._instruction(op, state)
        after: State | None = self._after(op, state)
        for block in op.blocks():
            after = self._flow(block, after)
        return after

    def _loop(self, loop: For | While, state: State) -> State:
        while True:
            head: State | None = state
            if isinstance(loop, While):
                head = self._flow(loop.test, state)
            back = _join(self._flow(loop.body, head), self._exits.pop((Continue, loop.label), None))
            new = state | (back or frozenset())
            if new == state:
                break
            state = new
        return state | (head or frozenset()) | self._exits.pop((Break, loop.label), frozenset())

    def _roles(self, roles: Roles, state: State) -> State:
        """Each role waits for its own groups alone: what was open before it, or is at its end, it can't wait for."""
        outside = frozenset(_lost(left) for left in state)
        out = state
        for region in roles.regions:
            end = self._flow(region.body, outside) or frozenset()
            out |= frozenset(_lost(left) for left in end - outside)
            out |= frozenset(left for left in end if left.rest is Rest.UNFENCED)
        return out

    def _instruction(self, op: Op, state: State) -> None:
        """Notes what is left of others where a unit is touched."""
        for unit in self._own(op)[0]:
            for left in state:
                self._busy.setdefault((left.unit, unit), set()).add(left.rest)

    def _after(self, op: Op, state: State) -> State:
        effects = self.effects[op]
        if effects.is_pure:
            return state
        added = set()
        for access in effects.accesses:
            if isinstance(access.region, SharedView):
                unit = unit_of(access.region.buffer)
                if access.when is When.BULK_GROUP:
                    added.add(Left(unit, Rest.BULK if access.mode is Mode.READ else Rest.LOST))
                elif access.when is When.MMA_GROUP:
                    added.add(Left(unit, Rest.MMA))
                elif access.proxy is Proxy.GENERIC:
                    added.add(Left(unit, Rest.UNFENCED))
        state |= added
        for groups, rest in ((effects.bulk_groups, Rest.BULK), (effects.mma_groups, Rest.MMA)):
            for group in groups:
                if group.action is GroupAction.COMMIT:
                    state = frozenset(_committed(left) if left.rest is rest else left for left in state)
                elif group.action is not GroupAction.FENCE:
                    state = frozenset(left for left in state if left.rest is not rest or left.commits <= group.pending)
        if FenceKind.PROXY_CTA in effects.fences or FenceKind.PROXY_CLUSTER in effects.fences:
            state = frozenset(left for left in state if left.rest is not Rest.UNFENCED)
        return state


def _committed(left: Left) -> Left:
    return Left(left.unit, left.rest, min(left.commits + 1, MOST_COMMITS))


def _lost(left: Left) -> Left:
    return left if left.rest is Rest.UNFENCED else Left(left.unit, Rest.LOST)


def _join(a: State | None, b: State | None) -> State | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _key(ref: BarrierRef) -> Barrier:
    return ref.barrier, constant_of(ref.index)


def _may_be_one(a: Barrier, b: Barrier) -> bool:
    return a[0] is b[0] and (a[1] is None or b[1] is None or a[1] == b[1])
