"""Memory for `cluster.reduce` and `cluster.gather`: two turns of inboxes and two barriers per agent, for all of its own.

The turns alternate. A CTA sends for turn n + 2 after its own wait in turn n + 1, which needed what every peer sent in
that turn; a peer sends it when all its threads have read their inboxes of turn n. So no inbox is overwritten before it
was read, and each barrier's phase is over before bytes of its next one can land, without any other signal. In a cluster
of one, a barrier of the agent's threads in each turn does the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from phalanx.analysis.ranks import ranks
from phalanx.analysis.trace import steps, trace
from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.ops.cluster import INBOX_STEP, TURNS, Exchange
from phalanx.ir.ops.control import Break, Continue, Leave, Role, Roles, Scope
from phalanx.ir.types import u8
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.passes.count_table import spans
from phalanx.passes.rank_code import fresh_name

Warps = tuple[int, int, int]
"""An agent, by its first warp and their number, and the copies of its role."""


def allocate_reductions(function: Function) -> Function:
    """Gives every exchange its inboxes and barriers. Called by `passes.pipeline`, when roles are formed."""
    agents: dict[Exchange, Warps] = dict(_exchanges(function.body, (0, function.warps, 1)))
    if not agents:
        return function
    sizes: dict[Warps, int] = {}
    for op, agent in agents.items():
        inbox = -(-op.inbox_bytes(agent[1]) // INBOX_STEP) * INBOX_STEP
        sizes[agent] = max(sizes.get(agent, 0), function.cluster_size * inbox)
    taken = {buffer.name for buffer in function.buffers} | {barrier.name for barrier in function.barriers}
    memory: dict[Warps, tuple[SharedBuffer, BarrierArray | None]] = {}
    for agent, size in sizes.items():
        loc = next(op.loc for op, owner in agents.items() if owner == agent)
        memory[agent] = (
            SharedBuffer(fresh_name("reduce_inbox", taken), (TURNS * agent[2], size + INBOX_STEP), u8, loc),
            None
            if function.cluster_size == 1
            else BarrierArray(fresh_name("reduce_full", taken), TURNS * agent[2], 1, loc=loc, exchange=True),
        )

    def visit(op: Op) -> list[Op] | None:
        exchange = op.exchange
        return None if exchange is None else [exchange.placed(*memory[agents[exchange]])]

    function = dataclasses.replace(
        function,
        buffers=(*function.buffers, *(slots for slots, _ in memory.values())),
        barriers=(*function.barriers, *(barrier for _, barrier in memory.values() if barrier is not None)),
        body=rewrite(function.body, visit),
    )
    _check_everyone(function)
    return function


def _check_everyone(function: Function) -> None:
    """No rank is kept from a reduction by a condition on the rank, in any copy of a role."""
    if not any(isinstance(op, Break | Continue | Leave) for op in function.walk()) and _all_come(function.body):
        return
    reached = [{(step.op, step.agent): None for step in steps(trace(function, rank))} for rank in ranks(function)]
    for op, agent in (place for found in reached for place in found):
        missing = [rank for rank, found in enumerate(reached) if (op, agent) not in found]
        if op.exchange is not None and missing:
            copied = agent.role is not None and agent.role.copies > 1
            raise Error(
                f"CTA {spans(missing)} never comes to this px.{op.mnemonic}" + f" in {agent}" * copied,
                location=op.loc,
                remedy=f"every CTA takes part in px.{op.mnemonic}: move it out of the condition on the rank",
            )


def _all_come(block: Block) -> bool:
    """Whether no condition stands before any exchange, in code that nobody leaves early."""
    return all(
        _all_come(inner) if isinstance(op, Scope | Roles | Role) else not any(
            below.exchange is not None for below in inner.walk()
        )
        for op in block.ops for inner in op.blocks()
    )


def _exchanges(block: Block, agent: Warps) -> Iterator[tuple[Exchange, Warps]]:
    for op in block.ops:
        if op.exchange is not None:
            yield op.exchange, agent
        regions = op.regions if isinstance(op, Roles) else (op,) if isinstance(op, Role) else ()
        for region in regions:
            yield from _exchanges(region.body, (region.first, region.count, region.copies))
        if not regions:
            for inner in op.blocks():
                yield from _exchanges(inner, agent)
