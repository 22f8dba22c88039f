"""When nobody can go on: which waits block, what each is short of, and who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx.ir.core import Function, Op
from phalanx.sanitizer.findings import Finding
from phalanx.sanitizer.records import actor_of, does
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import ClusterBarrier, MBarrier
from phalanx.sim.engines import GroupWait
from phalanx.sim.machine import Cluster
from phalanx.sim.report import barrier_state, in_exchange
from phalanx.sim.waiting import arrivers, may_come, named_here, senders

if TYPE_CHECKING:
    from phalanx.sanitizer.barriers import BarrierClock, Event
    from phalanx.sanitizer.checker import Checker
    from phalanx.sim.agents import Cta

MAX_WAITS = 12


class Blocked:
    """An agent that can't go on, at `op`; `thing` is what it waits for, None where it spins."""

    def __init__(self, agent: Agent, op: Op | None, thing: Any) -> None:
        self.agent = agent
        self.op = op
        self.thing = thing

    def text(self) -> str:
        """`consumer (warp 1), CTA 0, cluster 0 at kernel.py:31: waits for full[0], phase 2 (parity 0): ...`"""
        where = self.op.loc.short if self.op is not None else "?"
        return f"{actor_of(self.agent)} at {where}: {self.what()}"

    def what(self) -> str:
        thing = self.thing
        if isinstance(thing, MBarrier):
            if thing.array.exchange:
                return in_exchange(thing)
            state: BarrierClock = thing.watch
            wanted = state.awaited(self.agent.watch, thing.phase & 1)
            name = named_here(thing, self.agent)
            which = f"phase {wanted}" if wanted >= state.base else "the phase before the first"
            text = f"waits for {name}, {which} (parity {wanted & 1})"
            if wanted < state.phase and thing.live:
                return f"{text}, which is over: {name} ran ahead to phase {state.phase}"
            return f"{text}; {barrier_state(thing)}"
        if isinstance(thing, ClusterBarrier):
            missing = thing.expected - thing.arrived
            return f"waits for the cluster, phase {thing.phase}: short of {missing} of {thing.expected} warps"
        if isinstance(thing, GroupWait):
            return f"waits for its bulk groups, {len(self.agent.writing)} unfinished"
        return "spins on what nobody changes"


def report_stuck(checker: Checker, clusters: list[Cluster]) -> None:
    """A `tx-mismatch` where bytes are what a wait lacks, else a `deadlock`; nothing where a finding explains it."""
    blocked = [item for cluster in clusters for item in blocked_agents(cluster)]
    if any(cluster.index in checker.findings.derailed for cluster in clusters):
        return
    waits = [item.text() for item in blocked[:MAX_WAITS]]
    if len(blocked) > MAX_WAITS:
        waits.append(f"and {len(blocked) - MAX_WAITS} more")
    unbalanced = {
        item.thing.watch: None for item in blocked if lacks_bytes(item) and not late_senders(item, blocked, checker.function)
    }
    for state in unbalanced:
        checker.unbalanced(state, state.phase, waits)
    if unbalanced or not blocked:
        return
    chain = follow(blocked, checker.function)
    first = chain[0]
    second = next((item for item in chain[1:] if item.op is not first.op), None)
    location = first.op.loc if first.op is not None else checker.function.loc
    other = second.op.loc if second is not None and second.op is not None else None
    checker.findings.add(
        "deadlock", location, other,
        describe=lambda: Finding(
            "deadlock", f"no agent can ever go on: {story(chain, checker.function)}; {remedy(first)}", location, other,
            tuple(actor_of(item.agent) for item in blocked), notes=tuple(waits),
            label=f"blocks ({actor_of(first.agent)})",
            other_label=f"blocks ({actor_of(second.agent)})" if second is not None else "",
        ),
    )


def blocked_agents(cluster: Cluster) -> list[Blocked]:
    """Every agent that waits or spins, without those that only wait for their roles."""
    spinning = {id(agent) for agent in (*cluster.ready, *cluster.spinning)}
    code = cluster.machine.code
    found = []
    for agent in cluster.agents():
        if id(agent) in spinning:
            found.append(Blocked(agent, code.op_at(agent.generator.gi_frame.f_lineno), None))
        elif agent.waiting is not None and not isinstance(agent.waiting[1], list):
            found.append(Blocked(agent, *agent.waiting))
    return found


def lacks_bytes(item: Blocked) -> bool:
    """Whether all arrivals of the phase are in, and only its bytes do not add up."""
    thing = item.thing
    if not isinstance(thing, MBarrier) or thing.array.exchange:
        return False
    return thing.live and not thing.pending and thing.tx != 0


def late_senders(item: Blocked, blocked: list[Blocked], function: Function) -> list[Agent]:
    """Agents that have yet to send what the wait lacks, and can't: they wait for something else.

    An agent that sends to barriers like this one, but nothing to the phase that lacks bytes, would do so if it could go on;
    not if all that it has sent went to other CTAs.
    """
    barrier: MBarrier = item.thing
    state: BarrierClock = barrier.watch
    if barrier.tx < 0:
        return []
    sent = {work.clock.agent for work, _ in state.log(state.phase).copies}
    at = {other.agent: other.op for other in blocked if other.thing is not None and other.thing is not barrier}
    here = _have_sent(barrier, barrier.cta)
    elsewhere = {agent for cta in barrier.cta.cluster.ctas for agent in _have_sent(barrier, cta)} - here
    return [
        agent for agent, ops in senders(barrier, function)
        if agent not in sent | elsewhere and (op := at.get(agent)) is not None and may_come(function, op, ops)
    ]


def _have_sent(barrier: MBarrier, cta: Cta) -> set[Agent]:
    """The agents whose copies brought bytes to one of the barriers of that array in a CTA, as far as is remembered."""
    clocks = (each.watch for each in cta.barriers[barrier.array])
    return {work.clock.agent for clock in clocks for phase in clock.logs for work, _ in clock.log(phase).copies}


def follow(blocked: list[Blocked], function: Function) -> list[Blocked]:
    """From one blocked wait to whoever could end it, until that one is known, is not blocked, or nobody is left."""
    by_agent = {id(item.agent): item for item in blocked}
    best: list[Blocked] = []
    for start in blocked:
        chain = [start]
        while True:
            last = chain[-1]
            able = late_senders(last, blocked, function) if lacks_bytes(last) else helpers(last, function)
            successor = next((by_agent[id(agent)] for agent in able if id(agent) in by_agent), None)
            if successor is None or successor in chain:
                break
            chain.append(successor)
        if not best or _weight(chain) > _weight(best):
            best = chain
    return best


def _weight(chain: list[Blocked]) -> tuple[bool, bool, bool, int]:
    """A wait for an mbarrier says more than one for the cluster, which others keep waiting; one that lacks an arrival more
    than one for bytes that come once it is over, and most of all if it lacks one while others came; then the longer story.
    """
    first = chain[0]
    return not isinstance(first.thing, ClusterBarrier), not lacks_bytes(first), bool(came(first)), len(chain)


def came(item: Blocked) -> list[Event]:
    """The arrivals of the phase that a wait is for, where there are some and others are missing."""
    barrier = item.thing
    if not isinstance(barrier, MBarrier) or barrier.array.exchange or not 0 < barrier.pending < barrier.expected:
        return []
    state: BarrierClock = barrier.watch
    return state.log(state.phase).arrivals if state.awaited(item.agent.watch, barrier.phase & 1) == state.phase else []


def helpers(item: Blocked, function: Function) -> list[Agent]:
    """The agents that could end a wait: those with an instruction that arrives on its barrier."""
    thing, agent = item.thing, item.agent
    cluster = agent.cta.cluster
    if isinstance(thing, MBarrier):
        own = arrivers(function, thing.array)
        return [
            candidate
            for cta in (thing.cta, *cluster.ctas)
            for i, candidate in enumerate((cta.main, *cta.main.children))
            if i in own and candidate is not agent
        ]
    if isinstance(thing, ClusterBarrier):
        return [
            candidate for cta in cluster.ctas for candidate in (*cta.main.children, cta.main)
            if candidate is not agent and candidate.cluster_phase < thing.phase
        ]
    return []


def story(chain: list[Blocked], function: Function) -> str:
    """Who waits for whom, as one clause."""
    parts = []
    for item in chain[:4]:
        role = f"{item.agent.role} of CTA {item.agent.cta.rank}"
        waits, spins = does(role, "wait"), does(role, "spin")
        thing = item.thing
        if isinstance(thing, MBarrier) and thing.array.exchange:
            parts.append(f"{role} {in_exchange(thing)}")
        elif isinstance(thing, MBarrier):
            parts.append(f"{waits} for {named_here(thing, item.agent)}, {lack(thing, item.agent)}")
        elif isinstance(thing, ClusterBarrier):
            parts.append(f"{waits} for the cluster")
        elif thing is None:
            parts.append(spins)
        elif isinstance(thing, GroupWait):
            parts.append(f"{waits} for {'its' if waits.endswith('s') else 'their'} bulk groups")
    text = ", and ".join(parts)
    last = chain[-1]
    back = [agent for agent in helpers(last, function)]
    if len(chain) > 1 and any(agent is chain[0].agent for agent in back):
        text += ": they wait for each other"
    elif isinstance(last.thing, MBarrier) and not last.thing.array.exchange and not any(agent.alive for agent in back):
        text += ": whoever arrives there has ended" if back else ": nobody else arrives there"
    return text


def lack(barrier: MBarrier, agent: Agent) -> str:
    """`which lacks 1 arrival in phase 2`."""
    state: BarrierClock = barrier.watch
    wanted = state.awaited(agent.watch, barrier.phase & 1)
    if wanted < state.base:
        ahead = f"which ran ahead to phase {state.phase}"
        return f"{ahead}: a first wait for parity 1 passes only while phase 0 is not complete"
    if wanted < state.phase:
        return f"which ran ahead to phase {state.phase} before anybody waited for phase {wanted}"
    missing = []
    if barrier.pending:
        missing.append(f"{barrier.pending} of {barrier.expected} arrivals")
    if barrier.tx > 0:
        missing.append(f"{barrier.tx} bytes")
    return f"which lacks {' and '.join(missing) or 'nothing'} in phase {state.phase}"


def remedy(first: Blocked) -> str:
    thing = first.thing
    if isinstance(thing, MBarrier) and thing.array.exchange:
        return "all CTAs of the cluster must come to it equally often"
    if isinstance(thing, MBarrier):
        state: BarrierClock = thing.watch
        if state.awaited(first.agent.watch, thing.phase & 1) < state.phase:
            return "wait for every phase, or hold the arrivers back until it was waited for"
        if thing.phase == 0 and thing.pending == thing.expected and not thing.tx:
            return "arrive on it before this wait, or wait for parity 1 if it guards what is free at the start"
        if arrivals := came(first):
            given = [f"{actor_of(e.clock.agent).role} of CTA {e.clock.rank} ({e.op.loc.short})" for e in arrivals]
            who = ", ".join(dict.fromkeys(given))
            return f"only {who} arrived there in that phase: let everybody do so whom its count stands for"
        return "let each phase get its arrivals before anybody waits for it; a ring flips the parity when it wraps"
    if isinstance(thing, ClusterBarrier):
        return "let all threads of all CTAs reach the cluster barrier"
    return "let somebody change what it asks"
