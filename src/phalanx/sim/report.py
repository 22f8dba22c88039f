"""What to say when nobody can go on: every blocked agent, its barrier, and what that is short of."""

from __future__ import annotations

from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.location import NOWHERE, Location
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import ClusterBarrier, MBarrier
from phalanx.sim.engines import GroupWait
from phalanx.sim.machine import Cluster, Machine

MAX_ROWS = 32


def unmet(clusters: list[Cluster]) -> Error | None:
    """The error for CTAs that share a copy with one that did not come to it; a wait for its bytes follows from that."""
    return next((error for cluster in clusters if (error := cluster.visits.unmet()) is not None), None)


def deadlock(machine: Machine, clusters: list[Cluster]) -> Error:
    """The error for a run in which no agent of these clusters can ever go on."""
    if (error := unmet(clusters)) is not None:
        return error
    rows: list[tuple[str, ...]] = []
    first: Op | None = None
    joins: Op | None = None
    for cluster in clusters:
        spinning, ready = set(map(id, cluster.spinning)), set(map(id, cluster.ready))
        for agent in cluster.agents():
            if id(agent) in ready:
                continue
            if id(agent) in spinning:
                op = machine.code.op_at(agent.generator.gi_frame.f_lineno)
                what, state = "spins", "nobody changes what it asks"
            elif agent.waiting is None:
                continue
            else:
                op, thing = agent.waiting
                if isinstance(thing, list):  # waits for its roles, which have rows of their own
                    joins = joins or op
                    continue
                what, state = _describe(op, thing, agent)
            first = first or op
            where = op.loc.short if op is not None and op.loc is not NOWHERE else "?"
            rows.append((f"cluster {cluster.index}", f"CTA {agent.cta.rank}", agent.title, where, what, state))
    shown = rows[:MAX_ROWS]
    widths = [max(len(row[i]) for row in shown) for i in range(6)] if shown else []
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in shown]
    if len(rows) > MAX_ROWS:
        table.append(f"and {len(rows) - MAX_ROWS} more")
    location = (first or joins).loc if first or joins else machine.function.loc  # type: ignore[union-attr]
    count = f"{len(rows)} agents wait" if len(rows) != 1 else "1 agent waits"
    return Error(
        f"no agent can go on: {count} for what never comes", location=location, kind="deadlock",
        details="\n".join(table),
        remedy="let every wait have its arrivals, its bytes and its parity; a ring flips the parity when it wraps",
    )


def division_by_zero(location: Location, zeros: int = 1, among: int = 1) -> Error:
    """The error for a division of integers by 0; `zeros` of `among` divisors are."""
    if among == 1:
        return Error(
            "an integer is divided by 0", location=location, kind="division-by-zero",
            remedy="make sure that the divisor is not 0",
        )
    return Error(
        f"integers are divided by 0, in {zeros} of {among} elements", location=location, kind="division-by-zero",
        remedy="no divisor may be 0, also where the result is not used: px.load(view, fill=1) for elements beyond an "
        "array, px.where(d == 0, 1, d) for others",
    )


def _describe(op: Op, thing: object, agent: Agent) -> tuple[str, str]:
    """What an agent waits for, and what is missing."""
    if isinstance(thing, MBarrier) and thing.array.exchange:
        return in_exchange(thing), barrier_state(thing)
    if isinstance(thing, MBarrier):
        return f"waits for {thing.name}, parity {thing.phase & 1}", barrier_state(thing)
    if isinstance(thing, ClusterBarrier):
        return "waits for the cluster", (
            f"phase {thing.phase}: {thing.arrived} of {thing.expected} warps have arrived; "
            f"short of {thing.expected - thing.arrived} warps"
        )
    if isinstance(thing, GroupWait):
        return "waits for its bulk groups", f"{len(agent.writing)} groups unfinished"
    return f"{op.mnemonic}", ""


def in_exchange(barrier: MBarrier) -> str:
    """What to say of a wait inside `cluster.reduce` or `cluster.gather`."""
    return f"waits for the other CTAs in exchange number {barrier.phase * barrier.array.n + barrier.index} of the cluster"


def barrier_state(barrier: MBarrier) -> str:
    """What is missing on a barrier that somebody waits for in vain, and whether the wait may be a round late."""
    late = barrier.live and barrier.phase >= 2 and barrier.pending == barrier.expected and not barrier.tx
    hint = f"; phase {barrier.phase - 2} of the same parity is over: the wait may have come a round late"
    return barrier_counts(barrier) + (hint if late else "")


def barrier_counts(barrier: MBarrier) -> str:
    """`phase 2: 1 of 2 arrivals pending, 0 bytes outstanding; short of 1 arrival`."""
    if not barrier.live:
        return "invalidated"
    state = (
        f"phase {barrier.phase}: {barrier.pending} of {barrier.expected} arrivals pending, "
        f"{barrier.tx} bytes outstanding; "
    )
    missing = []
    if barrier.pending:
        missing.append(f"{barrier.pending} arrival{'s' if barrier.pending > 1 else ''}")
    if barrier.tx > 0:
        missing.append(f"{barrier.tx} bytes")
    state += "short of " + " and ".join(missing) if missing else "short of nothing"
    if barrier.tx < 0:
        state = state.replace("short of nothing", "")
        state += f"{' and ' if missing else ''}{-barrier.tx} bytes landed that nobody expected"
    return state
