"""Tiles that go from global to shared memory without passing through registers: copies that the agent's threads begin.

They begin where the tile would have been loaded, and are waited for right before the first product that reads it. So the
registers of the tile are free, and the loads of several tiles are on their way together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from phalanx.ir.core import Block, Op
from phalanx.ir.effects import Effects, Mode
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.ops.cp_async import CpAsyncCommit, CpAsyncLoad
from phalanx.ir.ops.mbarrier import Wait
from phalanx.ir.ops.memory import Load
from phalanx.ir.ops.tile import Binary
from phalanx.ir.types import I32
from phalanx.ir.values import Const, Value, Var, constant_of
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedView, in_global
from phalanx.location import Location
from phalanx.passes.agents import AgentCode
from phalanx.passes.rank_code import fresh_name

LEAST_BYTES = 4
"""What one copy of a thread moves at least; rows of narrower elements have to begin on multiples of it."""


class OperandCopies:
    """The copies of a kernel's agents, with a barrier for each: what arrives there is waited for at once."""

    def __init__(self, names: set[str], own: Callable[[AgentCode, Location], Value]) -> None:
        self.names = names
        self.own = own
        """The number of an agent among the copies of its role."""
        self.barriers: dict[AgentCode, BarrierArray] = {}
        self.phases: dict[AgentCode, Var] = {}

    def load(self, agent: AgentCode, load: Load, room: SharedView) -> Op:
        """What stands in the place of a load."""
        if agent not in self.barriers:
            self.barriers[agent] = BarrierArray(fresh_name("dot_came", self.names), agent.copies, 1, loc=load.loc)
            self.phases[agent] = Var(I32, "dot_phase")
        assert in_global(load.view)
        return CpAsyncLoad(load.view, room, Value(load.result.type, load.result.name), loc=load.loc)

    def wait(self, agent: AgentCode, loc: Location) -> list[Op]:
        """All copies of the agent are over, for all its threads."""
        number = self.own(agent, loc) if agent.copies > 1 else Const(0, I32)
        bar, phase = BarrierRef(self.barriers[agent], number), self.phases[agent]
        parity, other = Value(I32), Value(I32)
        return [
            CpAsyncCommit(bar, loc=loc), ReadVar(phase, parity, loc=loc), Wait(bar, parity, loc=loc),
            Binary("xor", parity, Const(1, I32), other, loc=loc), Assign(phase, other, loc=loc),
        ]

    def start(self, agent: AgentCode) -> list[Op]:
        """What the agent begins with."""
        if agent not in self.phases:
            return []
        return [Assign(self.phases[agent], Const(0, I32), loc=self.barriers[agent].loc)]


def is_copyable(load: Load) -> bool:
    """Whether threads can bring what is loaded into shared memory as it is, and all of it without registers."""
    view = load.view
    return in_global(view) and can_be_copied(view, load.fill) and (
        view.array_type.aligned or view.dtype.itemsize >= LEAST_BYTES
    )


def can_be_copied(view: GlobalView, fill: Value) -> bool:
    """Whether threads can copy a region as it is: zeros beyond the array, rows as they lie. (Narrow elements of rows that
    begin anywhere pass through registers, if they do when the kernel runs.)"""
    rows = _has_rows(view) and view.shape[-1] * view.dtype.itemsize % LEAST_BYTES == 0
    return rows and view.dtype.bits >= 8 and not view.within and constant_of(fill) == 0


def _has_rows(view: GlobalView) -> bool:
    last = view.array_type.rank - 1
    return bool(view.kept) and view.kept[-1] == last and view.index_axis != last and view.array_type.unit_inner


def reads_alone(block: Block, first: Op, last: Op) -> bool:
    """Whether nothing between two instructions of a block writes, signals or waits."""
    ops = block.ops
    between = ops[ops.index(first) + 1 : ops.index(last)]
    return all(_only_reads(other.effects()) and not any(True for _ in other.blocks()) for other in between)


def _only_reads(effects: Effects) -> bool:
    """Whether nothing that was read before can have changed behind an instruction, nor been told that it may."""
    bare = dataclasses.replace(effects, accesses=(), accumulations=(), groups=(), fences=(), target=Effects().target)
    return bare.is_pure and all(access.mode is Mode.READ for access in effects.accesses)


def is_read_by(tile: Value, readers: Iterable[Op], users: Mapping[Value, list[Op]]) -> bool:
    """Whether only these instructions read a tile, or its transposes."""
    allowed = set(readers)
    return all(
        user in allowed
        or (user.permutation is not None and all(is_read_by(made, allowed, users) for made in user.defined_values()))
        for user in users.get(tile, ())
    )
