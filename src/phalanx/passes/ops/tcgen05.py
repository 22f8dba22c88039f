"""What passes make of waits and commits around tensor memory."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Op
from phalanx.ir.ops.tcgen05 import Tcgen05Commit, Tcgen05WaitLoads, Tcgen05WaitStores
from phalanx.ir.values import Value
from phalanx.passes.registry import Pairs, in_ctas, with_updates


@in_ctas(Tcgen05Commit)
def _in_ctas(op: Tcgen05Commit, ctas: Value) -> Op:
    return dataclasses.replace(op, multicast=ctas)


@with_updates(Tcgen05WaitLoads)
def _with_updates(op: Tcgen05WaitLoads, pairs: Pairs) -> Op:
    return op.handing_on(pairs)


@with_updates(Tcgen05WaitStores)
def _without_updates(op: Tcgen05WaitStores, pairs: Pairs) -> Op:
    """It hands no tiles on."""
    return op
