"""What may not stand in the body of a loop that pipelines itself."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.ir.core import Op
from phalanx.ir.effects import Span
from phalanx.ir.ops.control import For, Leave, Role, Roles, Scope, While
from phalanx.ir.ops.mbarrier import Transaction
from phalanx.ir.values import Label
from phalanx.language.builder import Builder

OWN = "the compiler places the waits of this loop"


def check_body(ctx: Builder, loop: For) -> None:
    """Refuses, at its line, what would come between the loop and the roles that the compiler makes of it."""
    inside = {op.label for op in loop.body.walk() if isinstance(op, (For, While, Scope))}
    for op in loop.body.walk():
        for what, remedy in _objections(op, loop, inside):
            ctx.fail(f"{what} in a loop over px.pipelined", remedy, loc=op.loc)


def _objections(op: Op, loop: For, inside: set[Label]) -> Iterator[tuple[str, str]]:
    if isinstance(op, While):
        yield "while", "loops inside it count: for i in range(n)"
    elif isinstance(op, Leave) and op.label not in inside:
        yield "return", "the loads ahead would be nobody's: put the rest of the loop under an if"
    elif isinstance(op, (Role, Roles)):
        yield "px.warps", "the compiler makes the roles of this loop: leave px.pipelined out to write your own"
    elif isinstance(op, Transaction):
        yield ".transaction()", f"{OWN}: leave px.pipelined out to write your own"
    elif isinstance(op, For) and op.pipelined is not None:
        yield "px.pipelined", "loops inside it are plain: for i in range(n)"
    elif _synchronises(op):
        yield op.call, f"{OWN}: px.load and px.dot are what it takes; leave px.pipelined out to write your own"


def _synchronises(op: Op) -> bool:
    """Whether it signals, waits, or gives work to an engine that someone has to wait for.

    What CTAs of a cluster tell each other is no business of the ring: their barrier, exchanges, pushes into a neighbour.
    """
    effects = op.effects()
    pushes = any(access.region.peer is not None for access in effects.accesses)
    meets = any(meeting.span is Span.CLUSTER for meeting in effects.rendezvous)
    if op.exchange is not None or pushes or meets:
        return False
    return bool(
        effects.arrivals or effects.expects or effects.completes or effects.waits or effects.lifecycle or effects.groups
        or effects.accumulations or effects.rendezvous or effects.launches or effects.fences or effects.handshakes
        or op.collective is not None or any(access.engine is not None for access in effects.accesses)
    )
