"""The agents of a kernel as it was written: who runs which code, before roles are merged."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import For, Role, Roles, While


@frozen(eq=False)
class AgentCode:
    """Warps that run a block together, each of so many copies by itself; `anew`: they begin it in every turn of a loop."""

    block: Block
    first: int
    warps: int
    copies: int
    anew: bool


def agents_of(function: Function) -> Iterator[AgentCode]:
    """The whole CTA, then each role."""
    yield AgentCode(function.body, 0, function.warps, 1, False)
    yield from _roles_in(function.body, False)


def own_code(block: Block) -> Iterator[Op]:
    """The instructions that the agent of `block` runs itself: not those of roles inside."""
    for op in block.ops:
        yield op
        if not isinstance(op, Roles | Role):
            for inner in op.blocks():
                yield from own_code(inner)


def _roles_in(block: Block, anew: bool) -> Iterator[AgentCode]:
    for op in block.ops:
        for role in op.regions if isinstance(op, Roles) else (op,) if isinstance(op, Role) else ():
            yield AgentCode(role.body, role.first, role.count, role.copies, anew)
        if not isinstance(op, Roles | Role):
            for inner in op.blocks():
                yield from _roles_in(inner, anew or isinstance(op, For | While))
