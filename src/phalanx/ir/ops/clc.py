"""Cluster launch control: a running cluster takes over the work of one that has not started."""

from __future__ import annotations

from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.archs import Feature
from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Complete, Effects, Executor, FenceKind, Mode, Proxy, Target, Use, When
from phalanx.ir.engines import Engine
from phalanx.ir.type_rules import need, needs_no_type_rule, type_rules
from phalanx.ir.types import BOOL, I32, DType, i32
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierRef, SharedView
from phalanx.markers import defined, operand

RESPONSE_DTYPE: DType = i32
RESPONSE_WORDS = 4
"""Elements of a response: 16 bytes, which mean nothing but to a query."""

LAUNCHER = Engine(
    name="launch control", work="request", issuer=Executor.ONE, in_order=False,
    commit="px.clc.try_cancel(result, bar)", wait="bar.wait(parity)", first="wait for the request's barrier in {role} first",
)
"""What hands out the clusters of the grid: over when the barrier of each CTA has the response's bytes."""

ALTERNATIVE = (
    "launch as many CTAs as the GPU holds, kernel[px.auto], and let each take the next tile: "
    'for t in px.persistent(tiles, schedule="counter")'
)
HERE = Target((Feature.CLC,), ALTERNATIVE, "cluster launch control")
EVERYWHERE = Target((Feature.CLC, Feature.CLC_MULTICAST), ALTERNATIVE, "cluster launch control in clusters")


@frozen(eq=False, repr=False)
class ClcTryCancel(Op):
    """Asks for a cluster of the grid that has not started; the response lands in every CTA of the mask `ctas`.

    Without a mask it lands in this CTA, whose cluster has no other. One CTA of a cluster runs it.
    """

    mnemonic: ClassVar[str] = "clc.try_cancel"
    asks_for_work: ClassVar[bool] = True
    response: SharedView = operand()
    bar: BarrierRef = operand()
    ctas: Value | None = operand(default=None)

    def effects(self) -> Effects:
        """Writes the response later: its bytes complete on a barrier of each CTA that receives it."""
        response = Access(
            Mode.WRITE, self.response, Proxy.ASYNC, When.BARRIER, self.ctas, use=Use.COPY, engine=LAUNCHER
        )
        return Effects(
            accesses=(response,), completes=(Complete(self.bar, self.response.nbytes, self.ctas),),
            executor=Executor.ONE, target=HERE if self.ctas is None else EVERYWHERE,
        )


@frozen(eq=False, repr=False)
class ClcQuery(Op):
    """Reads a response: whether a cluster was granted, and this CTA's linear block index in it (-1 where none was).

    The read is over, for a request that comes later, with the proxy fence that is part of it.
    """

    mnemonic: ClassVar[str] = "clc.query"
    response: SharedView = operand()
    results: tuple[Value, ...] = defined()

    def effects(self) -> Effects:
        """Reads shared memory as threads do, and orders that read before what engines write there afterwards."""
        return Effects(
            accesses=(Access(Mode.READ, self.response),), fences=(FenceKind.PROXY_CTA,), target=HERE,
        )


# What the types of operands and results must be.


@type_rules(ClcQuery)
def _check_query(op: ClcQuery) -> None:
    need([result.type for result in op.results] == [BOOL, I32], op, "results other than a truth and a number")


needs_no_type_rule(ClcTryCancel)
