"""Which barrier signals must order memory across CTAs: the price of cluster scope is paid only where it is owed.

An unqualified arrive or wait orders memory within its CTA and costs one instruction; `.release.cluster` and
`.acquire.cluster` cost memory barriers and an invalidated cache. They are owed where ordinary stores write memory that
another CTA reads in this kernel: then every arrive that goes to another CTA, and every wait for one, carries them.
Copies by TMA need none: their bytes are published by the barrier they complete on.
"""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.ir.core import Function
from phalanx.ir.effects import Effects, Mode, Proxy
from phalanx.ir.values import Param
from phalanx.ir.views import BarrierArray, GlobalView, SharedView


@dataclass(frozen=True)
class Scopes:
    """`cluster` holds the barrier arrays whose remote arrivals and whose waits are of cluster scope.

    `credited` are those on which a peer credits bytes after ordinary stores, released by a fence: their waits acquire too.
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
    effects = [op.effects() for op in function.walk()]
    if not shares_stores(effects):
        return Scopes(credited=credited)
    return Scopes(
        frozenset(arrival.barrier.barrier for e in effects for arrival in e.arrivals if arrival.mask is not None), credited
    )


def shares_stores(effects: list[Effects]) -> bool:
    """Whether ordinary stores of one CTA can be read by another: in a peer's shared memory, or in global memory."""
    stored: set[Param] = set()
    loaded: set[Param] = set()
    for access in (access for e in effects for access in e.accesses):
        region = access.region
        if isinstance(region, SharedView):
            if region.cta is not None and access.proxy is Proxy.GENERIC:
                return True  # a store into a peer's memory, or a load of what the peer stored
        elif isinstance(region, GlobalView):
            if access.mode is not Mode.READ and access.proxy is Proxy.GENERIC:
                stored.add(region.array)
            if access.mode is not Mode.WRITE:
                loaded.add(region.array)
    return bool(stored & loaded)
