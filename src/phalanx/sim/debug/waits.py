"""What an agent waits for, what that lacks, and who would bring it, read from the effects of what they have yet to run."""

from __future__ import annotations

from phalanx.ir.core import Op
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import ClusterBarrier, MBarrier
from phalanx.sim.debug.run import Run, awaited, family, position_of
from phalanx.sim.engines import Copy, GroupWait
from phalanx.sim.machine import Cluster
from phalanx.sim.report import barrier_counts, barrier_state, in_exchange
from phalanx.sim.waiting import doing, may_come, named_here, senders


def is_spinning(agent: Agent) -> bool:
    """Whether the agent polls in a loop that only other agents or copies can end."""
    return agent in agent.cta.cluster.spinning


def waits_for(agent: Agent, run: Run) -> str:
    """`waits for full[0], parity 0`; whether it can go on where it does not wait."""
    thing = awaited(agent, run)
    if thing is None:
        return "asks again and again" if is_spinning(agent) else "can go on"
    if isinstance(thing, list):
        alive = [child for child in thing if child.alive]
        return f"waits for its roles, {len(alive)} of {len(thing)} not over"
    if isinstance(thing, MBarrier):
        if thing.array.exchange:
            return in_exchange(thing)
        return f"waits for {named_here(thing, agent)}, parity {thing.phase & 1}"
    if isinstance(thing, ClusterBarrier):
        return f"waits for the cluster's barrier, phase {thing.phase}"
    if isinstance(thing, GroupWait):
        return "waits for its bulk groups" + (" to have read" if thing.read else "")
    return "waits"


def needs_of(agent: Agent, run: Run) -> list[str]:
    """What its wait lacks, and who would bring it: a line each. Nothing for one that does not wait."""
    thing = awaited(agent, run)
    if isinstance(thing, MBarrier):
        state = barrier_state(thing) if run.over else barrier_counts(thing)
        return [f"{thing.name} of CTA {thing.cta.rank}: {state}", *_of_barrier(thing, agent, run)]
    if isinstance(thing, ClusterBarrier):
        missing = [
            f"  {each.role} of CTA {each.cta.rank} has not arrived; {standing(each, run)}"
            for each in agent.cta.cluster.agents()
            if each is not agent and each.cluster_phase < thing.phase and not forked(each, run)
        ]
        return [f"phase {thing.phase}: {thing.arrived} of {thing.expected} warps have arrived", *missing]
    if isinstance(thing, GroupWait):
        mine = [copy for copy in agent.cta.cluster.pending if copy.agent is agent and not copy.barriers]
        return [f"  in flight: {copy_text(copy)}" for copy in mine]
    return []


def _of_barrier(barrier: MBarrier, agent: Agent, run: Run) -> list[str]:
    """Who would arrive, what is in flight to the barrier, and who would send more."""
    lines = []
    cluster = barrier.cta.cluster
    flying = [copy for copy in in_flight(cluster) if barrier in copy.barriers]
    lines += [f"  in flight: {copy_text(copy)}" for copy in flying]
    if barrier.pending:
        lines += _would("arrive", _arrivers(barrier, run), agent, run) or ["  nobody has an instruction that arrives there"]
    if barrier.tx > 0 and not flying:
        lines += _would("send bytes", senders(barrier, run.function), agent, run) or ["  nobody sends bytes there"]
    return lines


def _arrivers(barrier: MBarrier, run: Run) -> list[tuple[Agent, list[Op]]]:
    """The agents with instructions that arrive on the barrier, of its own CTA and of those that arrive at others."""
    own = doing(run.function, lambda e: any(a.barrier.barrier is barrier.array for a in e.arrivals))
    there = doing(run.function, lambda e: any(
        a.barrier.barrier is barrier.array and a.mask is not None for a in e.arrivals
    ))
    return [
        (agent, ops[number])
        for cta in barrier.cta.cluster.ctas
        for ops in (own if cta is barrier.cta else there,)
        for number, agent in enumerate(family(cta.main)) if number in ops
    ]


def _would(what: str, found: list[tuple[Agent, list[Op]]], waiting: Agent, run: Run) -> list[str]:
    lines = []
    for agent, ops in found:
        places = ", ".join(dict.fromkeys(op.loc.short for op in ops))
        who = f"{agent.role} of CTA {agent.cta.rank}"
        if agent is waiting:
            lines.append(f"  {who} itself would {what} at {places}, behind this wait")
        elif over(agent, run, ops):
            lines.append(f"  {who} can't {what} any more ({places}); {standing(agent, run)}")
        else:
            lines.append(f"  {who} would {what} at {places}; {standing(agent, run)}")
    return lines


def over(agent: Agent, run: Run, ops: list[Op]) -> bool:
    """Whether the agent has ended, or is past all of these instructions."""
    if agent.alive:
        op = position_of(agent, run).op
        return op is not None and not (op in ops or may_come(run.function, op, ops))
    parent = agent.parent
    if parent is None or not parent.alive or agent in forked(parent, run):
        return True
    op = position_of(parent, run).op
    return op is not None and not may_come(run.function, op, ops)


def forked(agent: Agent, run: Run) -> list[Agent]:
    """The roles that an agent waits for."""
    thing = awaited(agent, run)
    return thing if isinstance(thing, list) else []


def standing(agent: Agent, run: Run) -> str:
    """Where an agent is, and whether it waits: `it is at k.py:12 and waits for empty[0], parity 1`."""
    if not agent.alive:
        begun = agent.parent is None or agent in forked(agent.parent, run)
        return "it has ended" if begun else "its role is not running"
    op = position_of(agent, run).op
    where = "it has just begun" if op is None else f"it is at {op.loc.short}"
    return f"{where} and {waits_for(agent, run)}"


# --- copies -------------------------------------------------------------------------------------------------------------


def in_flight(cluster: Cluster) -> list[Copy]:
    """The work of engines that is not over: what can happen next, then what waits in its line behind it."""
    found = list(cluster.pending)
    for agent in cluster.agents():
        for line in agent.lines.values():
            found += [work for work in line.works if work not in found]
    return found


def copy_text(copy: Copy) -> str:
    """`tma.load of k.py:9 for warp 0 of CTA 0: 1,024 bytes to full[0] of CTA 0`."""
    text = f"{copy.op.call} of {copy.op.loc.short} for {copy.agent.role} of CTA {copy.agent.cta.rank}"
    barriers = ", ".join(f"{barrier.name} of CTA {barrier.cta.rank}" for barrier in copy.barriers)
    if not barriers:
        return text
    nbytes = getattr(copy, "nbytes", None)
    return f"{text}: {f'{nbytes:,} bytes' if nbytes is not None else 'an arrival'} to {barriers}"
