"""Ordinary loads, stores and atomics of global and shared memory, and the fences between proxies."""

from __future__ import annotations

from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Effects, FenceKind, Mode
from phalanx.ir.values import Param, Value
from phalanx.ir.views import View


@frozen(eq=False, repr=False)
class Extent(Op):
    """The size of an array along one axis."""

    mnemonic: ClassVar[str] = "extent"
    array: Param
    axis: int
    result: Value


@frozen(eq=False, repr=False)
class Load(Op):
    """A region into registers; elements outside a global array are `fill`. `once`: caches need not keep it."""

    mnemonic: ClassVar[str] = "load"
    view: View
    fill: Value
    result: Value
    once: bool = False

    def effects(self) -> Effects:
        return Effects(accesses=(Access(Mode.READ, self.view),))


@frozen(eq=False, repr=False)
class Store(Op):
    """Registers into a region; elements outside a global array are dropped. The value has the view's shape and type."""

    mnemonic: ClassVar[str] = "store"
    view: View
    value: Value
    once: bool = False

    def effects(self) -> Effects:
        return Effects(accesses=(Access(Mode.WRITE, self.view),))


@frozen(eq=False, repr=False)
class AtomicAdd(Op):
    """Adds to every element of a region, atomically per element; defines the old values where `result` is given."""

    mnemonic: ClassVar[str] = "atomic_add"
    view: View
    value: Value
    result: Value | None

    def effects(self) -> Effects:
        return Effects(accesses=(Access(Mode.ATOMIC, self.view),))


@frozen(eq=False, repr=False)
class FenceAsyncProxy(Op):
    """Generic accesses before it are ordered before asynchronous ones after it, in one space.

    `reason` is empty where the user wrote it.
    """

    mnemonic: ClassVar[str] = "fence.async_proxy"
    space: str
    reason: str = ""

    def effects(self) -> Effects:
        kinds = {"cta": FenceKind.PROXY_CTA, "cluster": FenceKind.PROXY_CLUSTER, "global": FenceKind.PROXY_GLOBAL}
        return Effects(fences=(kinds[self.space],))


@frozen(eq=False, repr=False)
class FenceCluster(Op):
    """Acquires and releases at cluster scope."""

    mnemonic: ClassVar[str] = "fence.cluster"

    def effects(self) -> Effects:
        return Effects(fences=(FenceKind.ACQ_REL_CLUSTER,))
