"""Waits of the compiler's own, as late as they may be; and the fences around signals that hand memory from thread to thread.

Loads and stores of tensor memory are asynchronous, and users write no waits for them. The front end puts one behind each;
here it moves down to the first use of what was loaded, to the next signal by which others learn of it, or to the next
access that could undo it, and waits that meet become one.
"""

from __future__ import annotations

import dataclasses

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.ir.core import Block, Function, Op, map_blocks
from phalanx.ir.effects import Effects, GroupAction, Mode, When
from phalanx.ir.engines import HANDOVER_FENCES, Engine
from phalanx.ir.ops.control import Break, Continue, For, Leave, Roles, Scope, While
from phalanx.ir.spaces import Space
from phalanx.ir.values import Value
from phalanx.passes.registry import registered, with_updates


def place_late_waits(function: Function) -> Function:
    """The kernel with its movable waits where they are needed, and with the fences of hand-overs in place."""
    accesses = (access for op in function.walk() for access in op.effects().accesses)
    spaces = dict.fromkeys(access.region.space for access in accesses if access.region.space.handover is not None)
    if not spaces:
        return function
    body = _sink(function.body)
    for space in spaces:
        body, _ = _HandOver(space).block(body, _State())
    return dataclasses.replace(function, body=body)


# --- waits ------------------------------------------------------------------------------------------------------------


class _Pending:
    """Waits that have not been written yet, one per engine, with the tiles that they hand on."""

    def __init__(self) -> None:
        self.waits: dict[Engine, tuple[Op, list[tuple[Value, Value]]]] = {}

    def add(self, engine: Engine, op: Op) -> None:
        known = self.waits.get(engine)
        pairs = [*(known[1] if known else ()), *op.updates()]
        self.waits[engine] = op, pairs

    def needed_by(self, op: Op) -> bool:
        """Whether an instruction, or one inside it, must not come before the waits."""
        effects = op.effects()
        if any(True for _ in op.blocks()) or _signals(effects) or isinstance(op, Break | Continue | Leave):
            return True
        if any(access.mode is not Mode.READ and access.region.space.handover for access in effects.accesses):
            return True
        results = {new for _, pairs in self.waits.values() for _, new in pairs}
        return any(value in results for value in op.operands())

    def flush(self) -> list[Op]:
        ops = [registered(with_updates, op)(op, pairs) for op, pairs in self.waits.values()]
        self.waits.clear()
        return ops


def _sink(block: Block) -> Block:
    out: list[Op] = []
    pending = _Pending()
    for op in block.ops:
        engine = _late_engine(op.effects())
        if engine is not None:
            pending.add(engine, op)
            continue
        if pending.waits and pending.needed_by(op):
            out += pending.flush()
        out.append(map_blocks(op, _sink))
    out += pending.flush()
    return Block(tuple(out))


def _late_engine(effects: Effects) -> Engine | None:
    """The engine that an instruction waits for, if the compiler chooses where."""
    waits = (group.engine for group in effects.groups if group.action is GroupAction.WAIT)
    return next((engine for engine in waits if engine.waits_late), None)


def _signals(effects: Effects) -> bool:
    """Whether other threads learn by it what this one has done."""
    return bool(effects.arrivals or effects.rendezvous or effects.launches)


# --- fences -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _State:
    """`dirty`: the threads have accessed the memory since their last fence. `stale`: they have waited since theirs."""

    dirty: bool = False
    stale: bool = True

    def either(self, *others: _State) -> _State:
        """What may hold where ways meet."""
        ways = (self, *others)
        return _State(any(way.dirty for way in ways), any(way.stale for way in ways))


class _HandOver:
    """Puts the fences of one space: before the first signal behind accesses, before the first access behind a wait."""

    def __init__(self, space: Space) -> None:
        assert space.handover is not None
        self.space = space
        self.before, self.after = (HANDOVER_FENCES[kind] for kind in space.handover)

    def block(self, block: Block, state: _State) -> tuple[Block, _State]:
        """The block with its fences, and the state after it."""
        out: list[Op] = []
        for op in block.ops:
            if isinstance(op, Roles):
                op, state = self._roles(op, state, out)
                out.append(op)
                continue
            effects = op.effects()
            if any(True for _ in op.blocks()):
                if state.dirty and _tells(effects):  # an exchange, whose threads meet in it
                    out.append(self.before(loc=op.loc))
                    state = _State(False, state.stale)
                op, state = self._nested(op, state)
                state = _State(state.dirty, state.stale or _learns(effects))
                out.append(op)
                continue
            if state.stale and any(access.region.space is self.space for access in effects.accesses):
                out.append(self.after(loc=op.loc))
                state = _State(state.dirty, False)
            if state.dirty and _tells(effects):
                out.append(self.before(loc=op.loc))
                state = _State(False, state.stale)
            out.append(op)
            state = _State(state.dirty or self._by_threads(op), state.stale or _learns(effects))
        return Block(tuple(out)), state

    def _by_threads(self, op: Op) -> bool:
        """Whether threads access the memory by it; what an engine does, its commit hands over."""
        accesses = op.effects().accesses
        return any(access.region.space is self.space and access.when is not When.COMMIT for access in accesses)

    def _nested(self, op: Op, state: _State) -> tuple[Op, _State]:
        """Code that may run once, often or not at all: what any of it leaves may hold at its start too."""
        inside = [inner for block in op.blocks() for inner in block.walk()]
        learns = any(_learns(inner.effects()) for inner in inside)
        anywhere = _State(state.dirty or any(self._by_threads(inner) for inner in inside), state.stale or learns)
        if isinstance(op, For | While):
            state = anywhere
        ends = [anywhere] if isinstance(op, Scope) else []  # one is left from anywhere inside

        def within(block: Block) -> Block:
            changed, end = self.block(block, state)
            ends.append(end)
            return changed

        changed = map_blocks(op, within)
        return changed, state.either(*ends)

    def _roles(self, roles: Roles, state: _State, out: list[Op]) -> tuple[Roles, _State]:
        """Roles begin and end with a hand-over of their own: a fork and a join."""
        if state.dirty:
            out.append(self.before(loc=roles.loc))
        regions = []
        for role in roles.regions:
            body, end = self.block(role.body, _State())
            if end.dirty:
                body = Block((*body.ops, self.before(loc=role.loc)))
            regions.append(dataclasses.replace(role, body=body))
        return dataclasses.replace(roles, regions=tuple(regions)), _State()


def _tells(effects: Effects) -> bool:
    """Whether a thread signals others by it; what an engine signals when its work is over needs no fence."""
    return any(arrival.after is None for arrival in effects.arrivals) or any(r.arrives for r in effects.rendezvous)


def _learns(effects: Effects) -> bool:
    """Whether a thread learns by it what others have done."""
    return bool(effects.waits) or any(meeting.waits for meeting in effects.rendezvous)
