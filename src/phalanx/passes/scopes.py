"""Barrier signals that must order memory across CTAs: the price of cluster scope is paid only where it is owed.

An unqualified arrive or wait orders memory within its CTA and costs one instruction; `.release.cluster` and
`.acquire.cluster` cost memory barriers and an invalidated cache. They are owed where ordinary stores write memory that
another CTA reads in this kernel, and can come before an arrive that goes to another CTA: that arrive, and every wait on
its barrier, carries them. Copies by TMA need none: their bytes are published by the barrier they complete on, and so
are stores that complete bytes. Nor do stores that are read behind an ordered atomic alone, with no wait between, and that
their agent hands on by such an atomic before it signals anybody: these atomics are what brings them to the reader. Where
stores to global memory are read otherwise, such an atomic brings those of other clusters, which its agent hands on like its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.analysis.flow import OpWalk, Outcome
from phalanx.ir.core import Function, Op, rewrite
from phalanx.ir.effects import Access, Arrival, Effects, Mode, Proxy, Span, When
from phalanx.ir.memory import unit_of_region
from phalanx.ir.ops.control import Role, Roles
from phalanx.ir.views import BarrierArray
from phalanx.passes.registry import at_scope, registered


def choose_scopes(function: Function) -> Function:
    """The kernel in which signals that carry ordinary stores from one CTA to another are of cluster scope.

    For `passes.pipeline`: the choice is part of the prepared kernel, so that the checks run with it.
    """
    if function.cluster_size == 1:
        return function
    effects = {op: op.effects() for op in function.walk()}
    relied, told = _sharing_stores(function, effects)
    found: set[BarrierArray] = set()
    for stores, handed in ((relied, False), (told, True)):
        reach = _Reach(effects, stores, handed=handed)
        if stores:
            reach.run(function.body, False)
        found |= reach.found

    def visit(op: Op) -> list[Op] | None:
        effects = op.effects()
        signals = [arrival.barrier.barrier for arrival in effects.arrivals if _releases_to_peers(arrival)]
        signals += [wait.barrier.barrier for wait in effects.waits]
        if not any(array in found for array in signals):
            return None
        return [registered(at_scope, op)(op, Span.CLUSTER)]

    return replace(function, body=rewrite(function.body, visit)) if found else function


class _Reach(OpWalk[bool]):
    """Walks a kernel with one question: may an ordinary store that peers read have happened before this point?

    `sharing`: the instructions that store so, or bring such stores from other clusters. `handed`: a store after which no
    ordered atomic of its agent has come. `found`: the barriers on which an arrive that goes to
    another CTA carries such a store. `signalled`: whether any arrive does, be it within the CTA.
    """

    def __init__(self, effects: Mapping[Op, Effects], sharing: set[Op], *, handed: bool) -> None:
        self.effects, self.sharing, self.handed = effects, sharing, handed
        self.found: set[BarrierArray] = set()
        self.signalled = False

    def join(self, states: Sequence[bool]) -> bool:
        """It may have where it may have on one of the ways."""
        return any(states)

    def transfer(self, node: Op, state: bool) -> bool:
        """The answer after an instruction; notes the barriers that it signals in other CTAs."""
        effects = self.effects[node]
        if state:
            self.found.update(arrival.barrier.barrier for arrival in effects.arrivals if _releases_to_peers(arrival))
            self.signalled |= bool(effects.arrivals) or any(meeting.arrives for meeting in effects.rendezvous)
        if any(m.span is Span.CLUSTER and m.arrives and m.waits and m.releases for m in effects.rendezvous):
            return False  # everybody has seen them
        if self.handed and effects.handshakes:
            return False
        return state or node in self.sharing

    def fork(self, roles: Roles, state: bool) -> Outcome[bool]:
        """What one role, or one copy of it, stores may reach another through barriers of the CTA."""
        writers = [region for region in roles.regions if self._tells(region)]
        outcome = Outcome(state or bool(writers))
        for region in roles.regions:
            others = any(writer is not region or writer.copies > 1 for writer in writers)
            outcome.absorb(self.run(region.body, state or others))
        return outcome

    def _tells(self, region: Role) -> bool:
        """Whether others of the CTA may learn of a role's stores: not where it hands them on before it signals or ends."""
        if not self.handed:
            return any(op in self.sharing for op in region.body.walk())
        own = _Reach(self.effects, self.sharing, handed=True)
        end = own.run(region.body, False)
        return own.signalled or bool(end.out) or any(any(states) for states in end.exits.values())


class _Told(OpWalk[bool]):
    """Walks a kernel with the question: is an ordered atomic the last thing by which the agent learned of others?

    `relying`: the instructions before which it may be something else, a wait say.
    """

    def __init__(self, effects: Mapping[Op, Effects]) -> None:
        self.effects = effects
        self.anybody = any(e.handshakes for e in effects.values())
        self.relying: set[Op] = set()

    def join(self, states: Sequence[bool]) -> bool:
        """It is where it is on all ways."""
        return all(states)

    def transfer(self, node: Op, state: bool) -> bool:
        """The answer after an instruction."""
        effects = self.effects[node]
        if not state:
            self.relying.add(node)
        if effects.waits or any(meeting.waits for meeting in effects.rendezvous):
            return False
        return state or bool(effects.handshakes)

    def fork(self, roles: Roles, state: bool) -> Outcome[bool]:
        """A role begins with what its agent knows; behind them it may be any of theirs."""
        outcome = Outcome(False)
        for region in roles.regions:
            outcome.absorb(self.run(region.body, state))
        return outcome


def _releases_to_peers(arrival: Arrival) -> bool:
    """It goes to other CTAs and hands on what its agent stored; what an engine signals is the end of its own work alone."""
    return arrival.mask is not None and arrival.after is None


def _sharing_stores(function: Function, effects: Mapping[Op, Effects]) -> tuple[set[Op], set[Op]]:
    """Ordinary stores that another CTA may read: into a peer's shared memory, what peers load, or global memory.

    Apart from the others those of which all reads follow an ordered atomic. Not so the counters that the runtime owns: who
    draws which tile follows from no order between CTAs.
    """
    told = _Told(effects)
    if told.anybody:
        told.run(function.body, False)
    owned = {param for param in function.params if param not in function.given}
    visited: tuple[set[Any], set[Any]] = (set(), set())
    for op, e in effects.items():
        for access in e.accesses:
            common = access.region.space.is_common
            if access.mode is not Mode.WRITE and (common or access.region.peer is not None):
                visited[told.anybody and common and op not in told.relying].add(unit_of_region(access.region))

    def sharing(units: set[Any]) -> set[Op]:
        return {op for op, e in effects.items() if any(_stores_to(access, units - owned) for access in e.accesses)}

    relied = sharing(visited[False])
    stored = [access.region.space for op in relied for access in effects[op].accesses if access.mode is not Mode.READ]
    brought = {op for op, e in effects.items() if e.handshakes} if any(space.is_common for space in stored) else set()
    return relied | brought, sharing(visited[True]) - relied


def _stores_to(access: Access, units: set[Any]) -> bool:
    if access.mode is Mode.READ or access.proxy is not Proxy.GENERIC or access.when is When.BARRIER:
        return False
    return access.region.peer is not None or unit_of_region(access.region) in units
