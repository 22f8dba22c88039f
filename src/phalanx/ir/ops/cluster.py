"""The cluster: who am I, and barriers of all its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from phalanx.ir.core import Op
from phalanx.ir.effects import Effects, Rendezvous, Span
from phalanx.ir.values import Value


@dataclass(frozen=True, eq=False)
class ClusterRank(Op):
    """This CTA's rank in its cluster (x fastest), or its coordinate along `dim`."""

    mnemonic: ClassVar[str] = "cluster.rank"
    dim: int | None
    result: Value


@dataclass(frozen=True, eq=False)
class ClusterId(Op):
    """The cluster's index in the grid, linear or along `dim`."""

    mnemonic: ClassVar[str] = "cluster.id"
    dim: int | None
    result: Value


@dataclass(frozen=True, eq=False)
class ClusterArrive(Op):
    """Arrives at the cluster's barrier; a relaxed arrival publishes nothing but fenced barrier inits."""

    mnemonic: ClassVar[str] = "cluster.arrive"
    relaxed: bool = False

    def effects(self) -> Effects:
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, waits=False, releases=not self.relaxed),))


@dataclass(frozen=True, eq=False)
class ClusterWait(Op):
    """Waits until all threads of the cluster have arrived."""

    mnemonic: ClassVar[str] = "cluster.wait"

    def effects(self) -> Effects:
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER, arrives=False),))


@dataclass(frozen=True, eq=False)
class ClusterSync(Op):
    """Both halves. `reason` is empty where the user wrote it."""

    mnemonic: ClassVar[str] = "cluster.sync"
    reason: str = ""

    def effects(self) -> Effects:
        return Effects(rendezvous=(Rendezvous(Span.CLUSTER),))
