"""Who could end a wait: which agents have instructions that arrive at a barrier or bring bytes to it, from effects."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.ir.core import Function, Op
from phalanx.ir.effects import Effects
from phalanx.ir.ops.control import For, Roles, While
from phalanx.ir.views import BarrierArray
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier


def named_here(barrier: MBarrier, agent: Agent) -> str:
    """The barrier as that agent would name it: of another CTA, with its rank."""
    return barrier.name if barrier.cta is agent.cta else f"{barrier.name} of CTA {barrier.cta.rank}"


def may_come(function: Function, op: Op, ops: list[Op]) -> bool:
    """Whether an agent that is at `op` may still come to one of `ops`: they are further on, or in a loop around both."""
    order = {each: number for number, each in enumerate(function.walk())}
    loops = [set(each.body.walk()) for each in order if isinstance(each, For | While)]
    return any(order[each] > order[op] or any(op in loop and each in loop for loop in loops) for each in ops)


def senders(barrier: MBarrier, function: Function) -> list[tuple[Agent, list[Op]]]:
    """The agents with copies that may bring bytes to a barrier, its own CTA's first, and those copies."""
    here = doing(function, lambda effects: any(c.barrier.barrier is barrier.array for c in effects.completes))
    there = doing(function, lambda effects: any(
        c.barrier.barrier is barrier.array and (c.mask is not None or c.leaders) for c in effects.completes
    ))
    own = barrier.cta
    return [
        (agent, ops[i])
        for cta in (own, *(cta for cta in own.cluster.ctas if cta is not own))
        for ops in (here if cta is own else there,)
        for i, agent in enumerate((cta.main, *cta.main.children)) if i in ops
    ]


def arrivers(function: Function, barrier: BarrierArray) -> dict[int, list[Op]]:
    """The agents with instructions that arrive there, and these instructions."""
    return doing(function, lambda effects: any(a.barrier.barrier is barrier for a in effects.arrivals))


def doing(function: Function, wanted: Callable[[Effects], bool]) -> dict[int, list[Op]]:
    """The agents with instructions that have such effects, and these instructions.

    Agent 0 is the code outside roles; then come all copies of roles.
    """
    regions = [region for op in function.walk() if isinstance(op, Roles) for region in op.regions]
    inside: dict[Op, range] = {}
    number = 1
    for region in regions:
        for op in region.body.walk():
            inside[op] = range(number, number + region.copies)
        number += region.copies
    found: dict[int, list[Op]] = {}
    for op in function.walk():
        if wanted(op.effects()):
            for agent in inside.get(op, (0,)):
                found.setdefault(agent, []).append(op)
    return found
