"""When each shared buffer is in use: whether all of one is over before anything of another begins.

Read from effects, over the structure of the kernel. What is touched in a loop lives as long as the loop; roles that run
side by side, and copies of one role, are in no order, their join ends them. A copy that completes on a barrier is over when
that was waited for: every wait on the barrier counts as a use of the buffer. Stores and products in groups are in use until
the group's wait, by the role that issued them. What peers touch is over at a cluster barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from phalanx.analysis.flow import OpWalk, Outcome
from phalanx.analysis.peers import accesses_peer, signals_peer
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op, storage_of
from phalanx.ir.effects import Effects, FenceKind, GroupAction, Mode, Proxy, Span, When
from phalanx.ir.engines import Engine
from phalanx.ir.memory import Storage, memory_owner, unit_of
from phalanx.ir.ops.control import If, Roles, Scope
from phalanx.ir.values import constant_of
from phalanx.ir.views import BarrierArray, BarrierRef, in_shared

Barrier = tuple[BarrierArray, object]
"""A barrier of an array by its index; None: any of them."""
Place = tuple[Block, int]
"""Right before an instruction of a block."""


class ResidueKind(Enum):
    """What is left of an access when its instruction is over."""

    GROUP = "work in a group of an engine reads it"
    LOST = "nobody can wait for it any more"
    UNFENCED = "it was touched by ordinary accesses, and no proxy fence followed"


@frozen
class Residue:
    """Something left of a unit's accesses; `engine`: whose group it is in, `commits`: groups of it closed since."""

    unit: Storage
    kind: ResidueKind
    engine: Engine | None = None
    commits: int = 0


State = frozenset[Residue]
MOST_COMMITS = 8
"""Groups that are told apart: a wait leaves fewer open."""


@dataclass
class Precedence:
    """One unit of memory is over before another begins: the places where a proxy fence belongs, if one is needed."""

    fences: list[Place] = field(default_factory=list)


class Lifetimes:
    """The lifetimes of a kernel's units of shared memory (`ir.memory.unit_of`)."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.units: dict[Storage, int] = {}
        """The buffers and barriers that may share memory, with their bytes."""
        self.effects: dict[Op, Effects] = {op: op.effects() for op in function.walk()}
        self._guards: dict[Storage, set[Barrier]] = {}
        self._peers: set[Storage] = set()
        self._engine_writes: set[Storage] = set()
        self._collect()
        self._touched: dict[Op, frozenset[Storage]] = {}
        self._alive: dict[Op, frozenset[Storage]] = {}
        residues = _Residues(self.effects)
        residues.run(function.body, frozenset())
        self._met = residues.met

    # --- what there is ----------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        function = self.function
        pinned: set[Storage] = {unit_of(barrier) for barrier in function.barriers}
        awaited: set[Barrier] = set()
        for op, effects in self.effects.items():
            accessed = set()
            reaches = function.cluster_size > 1 and (accesses_peer(effects) or signals_peer(effects))
            for access in effects.accesses:
                if not in_shared(access.region):
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
        for buffer in function.shared_buffers:
            unit = unit_of(buffer)
            if unit not in pinned and memory_owner(unit) is unit:
                self.units[unit] = max(self.units.get(unit, 0), buffer.nbytes)

    def _own(self, op: Op) -> tuple[set[Storage], set[Storage]]:
        """The units that an instruction touches by itself, and those that it keeps alive."""
        effects = self.effects[op]
        touched = units_touched(effects)
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
        """The storage that an instruction touches, and that whose copies it waits for."""
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

    def order(self, first: Storage, second: Storage) -> Precedence | None:
        """How all of `first` comes before all of `second`; None if it does not."""
        met = self._met.get((first, second), set())
        if not met <= {ResidueKind.UNFENCED}:
            return None
        order = Precedence()
        if not self._before(first, second, self.function.body, order):
            return None
        if not met or second not in self._engine_writes:
            order.fences.clear()
        return order

    def _before(self, first: Storage, second: Storage, block: Block, order: Precedence) -> bool:
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
            if sum(region.copies for region in regions) > 1 or (begins[-1] > start and not op.joins):
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


class _Residues(OpWalk[State]):
    """Follows what is left of accesses through a kernel.

    `met`: for a unit of which something is left where another one is touched, what that is.
    """

    def __init__(self, effects: Mapping[Op, Effects]) -> None:
        self.effects = effects
        self.met: dict[tuple[Storage, Storage], set[ResidueKind]] = {}

    def join(self, states: Sequence[State]) -> State:
        """What may be left where ways meet: whatever is on one of them."""
        return frozenset().union(*states)

    def fork(self, roles: Roles, state: State) -> Outcome[State]:
        """Each role waits for its own groups alone: what was open before it, or is at its end, it can't wait for."""
        outside = frozenset(_lost(residue) for residue in state)
        outcome = Outcome(state)
        for region in roles.regions:
            part = self.run(region.body, outside)
            outcome.absorb(part)
            end = part.out or frozenset()
            state |= frozenset(_lost(residue) for residue in end - outside)
            state |= frozenset(residue for residue in end if residue.kind is ResidueKind.UNFENCED)
        outcome.out = state
        return outcome

    def transfer(self, node: Op, state: State) -> State:
        """What is left after an instruction; notes what is left of others where it touches a unit."""
        effects = self.effects[node]
        if effects.is_pure:
            return state
        for unit in units_touched(effects):
            for residue in state:
                self.met.setdefault((residue.unit, unit), set()).add(residue.kind)
        state |= frozenset(_left_by(effects))
        for group in effects.groups:
            if group.action is GroupAction.COMMIT:
                state = frozenset(
                    _committed(residue) if residue.engine is group.engine else residue for residue in state
                )
            elif group.action is not GroupAction.FENCE:
                state = frozenset(
                    residue for residue in state
                    if residue.engine is not group.engine or residue.commits <= group.pending
                )
        if FenceKind.PROXY_CTA in effects.fences or FenceKind.PROXY_CLUSTER in effects.fences:
            state = frozenset(residue for residue in state if residue.kind is not ResidueKind.UNFENCED)
        return state


def units_touched(effects: Effects) -> set[Storage]:
    """The units of shared memory that an instruction accesses by itself."""
    return {unit_of(access.region.buffer) for access in effects.accesses if in_shared(access.region)}


def _left_by(effects: Effects) -> Iterator[Residue]:
    """What an instruction leaves of its own accesses."""
    for access in effects.accesses:
        if in_shared(access.region):
            unit = unit_of(access.region.buffer)
            engine = access.engine
            if access.when is When.GROUP and engine is not None:
                told = access.mode is Mode.READ or not engine.reads_apart  # a wait may be for its reads alone
                yield Residue(unit, ResidueKind.GROUP, engine) if told else Residue(unit, ResidueKind.LOST)
            elif access.when is When.COMMIT:
                yield Residue(unit, ResidueKind.LOST)  # who waits for the engine's arrival is not followed here
            elif access.proxy is Proxy.GENERIC:
                yield Residue(unit, ResidueKind.UNFENCED)


def _committed(residue: Residue) -> Residue:
    return Residue(residue.unit, residue.kind, residue.engine, min(residue.commits + 1, MOST_COMMITS))


def _lost(residue: Residue) -> Residue:
    return residue if residue.kind is ResidueKind.UNFENCED else Residue(residue.unit, ResidueKind.LOST)


def _key(ref: BarrierRef) -> Barrier:
    return ref.barrier, constant_of(ref.index)


def _may_be_one(a: Barrier, b: Barrier) -> bool:
    return a[0] is b[0] and (a[1] is None or b[1] is None or a[1] == b[1])
