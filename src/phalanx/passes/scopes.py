"""Which barrier signals must order memory across CTAs: the price of cluster scope is paid only where it is owed.

An unqualified arrive or wait orders memory within its CTA and costs one instruction; `.release.cluster` and
`.acquire.cluster` cost memory barriers and an invalidated cache. They are owed where ordinary stores write memory that
another CTA reads in this kernel, and can come before an arrive that goes to another CTA: that arrive, and every wait on
its barrier, carries them. Copies by TMA need none: their bytes are published by the barrier they complete on, and so
are stores that complete bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Access, Effects, Mode, Proxy, Span, When
from phalanx.ir.ops.control import For, Roles, While
from phalanx.ir.values import Param
from phalanx.ir.views import BarrierArray, GlobalView
from phalanx.passes.regions import memory_owner


@dataclass(frozen=True)
class Scopes:
    """`cluster` holds the barrier arrays whose remote arrivals and whose waits are of cluster scope.

    `credited` are those on which a peer credits bytes after ordinary stores, released by a fence: their waits acquire
    too.
    """

    cluster: frozenset[BarrierArray] = frozenset()
    credited: frozenset[BarrierArray] = frozenset()

    def release(self, barrier: BarrierArray, remote: bool) -> str:
        """The qualifiers of an arrive: "" (release at CTA scope) or ".release.cluster"."""
        return ".release.cluster" if remote and barrier in self.cluster else ""

    def acquire(self, barrier: BarrierArray) -> str:
        """The qualifiers of a wait: "" (acquire at CTA scope) or ".acquire.cluster"."""
        return ".acquire.cluster" if barrier in self.cluster or barrier in self.credited else ""


def choose_scopes(function: Function, credited: frozenset[BarrierArray] = frozenset()) -> Scopes:
    """The barrier arrays that carry ordinary stores from one CTA to another; `credited` are known to."""
    if function.cluster_size == 1:
        return Scopes()
    reach = _Reach(function)
    if reach.sharing:
        reach.block(function.body, False)
    return Scopes(frozenset(reach.found), credited)


class _Reach:
    """Walks a kernel with one question: may an ordinary store that peers read have happened before this point?"""

    def __init__(self, function: Function) -> None:
        self.effects = {op: op.effects() for op in function.walk()}
        self.sharing = _sharing_stores(self.effects)
        self.found: set[BarrierArray] = set()

    def block(self, block: Block, stored: bool) -> bool:
        """The answer after a block, given the one before it. Exits only skip code, so they add nothing."""
        for op in block.ops:
            stored = self.step(op, stored)
        return stored

    def step(self, op: Op, stored: bool) -> bool:
        if isinstance(op, Roles):
            return self.roles(op, stored)
        inner = list(op.blocks())
        if inner:
            around = stored or (isinstance(op, For | While) and self.stores_in(inner))  # of an earlier iteration
            ends = [self.block(block, around) for block in inner]
            return stored or any(ends)
        effects = self.effects[op]
        if stored:
            self.found.update(arrival.barrier.barrier for arrival in effects.arrivals if arrival.mask is not None)
        if any(m.span is Span.CLUSTER and m.arrives and m.waits and m.releases for m in effects.rendezvous):
            return False  # everybody has seen them
        return stored or op in self.sharing

    def roles(self, roles: Roles, stored: bool) -> bool:
        """What one role stores may reach another through barriers of the CTA."""
        writers = [region for region in roles.regions if self.stores_in([region.body])]
        for region in roles.regions:
            self.block(region.body, stored or any(writer is not region for writer in writers))
        return stored or bool(writers)

    def stores_in(self, blocks: list[Block]) -> bool:
        return any(op in self.sharing for block in blocks for op in block.walk())


def _sharing_stores(effects: Mapping[Op, Effects]) -> set[Op]:
    """Ordinary stores that another CTA may read: into a peer's shared memory, what peers load, or global memory."""
    visited: set[object] = set()
    loaded: set[Param] = set()
    for access in (access for e in effects.values() for access in e.accesses):
        region = access.region
        if access.mode is not Mode.WRITE:
            if isinstance(region, GlobalView):
                loaded.add(region.array)
            elif region.cta is not None:
                visited.add(memory_owner(region.buffer))

    def shares(access: Access) -> bool:
        if access.mode is Mode.READ or access.proxy is not Proxy.GENERIC or access.when is When.BARRIER:
            return False
        region = access.region
        if isinstance(region, GlobalView):
            return region.array in loaded
        return region.cta is not None or memory_owner(region.buffer) in visited

    return {op for op, e in effects.items() if any(map(shares, e.accesses))}
