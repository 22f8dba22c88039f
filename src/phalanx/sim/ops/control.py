"""Control flow as Python control flow; roles as a fork and a join of agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from phalanx.errors import Error
from phalanx.ir.ops import control as ir
from phalanx.ir.types import TileType
from phalanx.ir.values import Const
from phalanx.sim.agents import BLOCKED, LINE, STEP, TRY, Agent
from phalanx.sim.budget import CALL
from phalanx.sim.codegen import Asks, Emitter
from phalanx.sim.monitor import Monitor
from phalanx.sim.registry import meaning, never_run, text
from phalanx.sim.spins import Rounds, polling, tries


@text(ir.Assign)
def assign(op: ir.Assign, emit: Emitter) -> None:
    """Writes an assignment to a Python variable."""
    emit.line(f"{emit.variable(op.var)} = {emit.expr(op.value)}")


@text(ir.ReadVar)
def read_var(op: ir.ReadVar, emit: Emitter) -> None:
    """Writes a read of a Python variable."""
    emit.line(f"{emit.define(op.result)} = {emit.variable(op.var)}")


@text(ir.If)
def if_(op: ir.If, emit: Emitter) -> None:
    """Writes an `if` statement."""
    emit.line(f"if {emit.expr(op.cond)}:")
    emit.depth += 1
    emit.block(op.then)
    emit.depth -= 1
    if op.orelse.ops:
        emit.line("else:")
        emit.depth += 1
        emit.block(op.orelse)
        emit.depth -= 1


@text(ir.For)
def for_(op: ir.For, emit: Emitter) -> None:
    """Writes a loop over a range, whose steps the budget counts. It ends by itself, and others run between its tests."""
    asks = Asks(str(TRY)) if tries(op) else None
    if asks is not None and not emit.only_asks:
        emit.line(f"{emit.bind('c', lambda agent: agent.cta.cluster.machine.vain.clear)}()")

    def body() -> None:
        emit.block(op.body)
        if asks is not None:
            emit.line(f"yield {asks.code}")

    step = emit.expr(op.step)
    if not isinstance(op.step, Const):
        step = f"{step} or {emit.bind('f', lambda agent: lambda: refuse_step(op))}()"
    numbers = f"range({emit.expr(op.start)}, {emit.expr(op.stop)}, {step})"
    if emit.clocked:  # who keeps the time may have a few rounds stand for all
        numbers = f"{emit.bind('o', lambda agent: timekeeper(agent).rounds(op, agent))}({numbers})"
    head = f"for {emit.define(op.index)} in {numbers}:"
    emit.loop(head, op.label, body, asks, rounds=op)


def timekeeper(agent: Agent) -> Monitor:
    """Whoever follows a clocked run, which has somebody who does."""
    monitor = agent.cta.cluster.machine.monitor
    assert monitor is not None
    return monitor


def refuse_step(op: ir.For) -> NoReturn:
    """Raises the error for a loop whose step is 0."""
    raise Error(
        "the step of a range is 0", location=op.loc, remedy="make sure that it is not: a positive or a negative step"
    )


@text(ir.While)
def while_(op: ir.While, emit: Emitter) -> None:
    """Writes a loop whose test is computed before every iteration."""
    asks, how = None, polling(op)
    if how is not None:
        state = ", ".join(map(emit.variable, how.carried))
        rounds = emit.bind("o", lambda agent: Rounds(agent, how))
        asks = Asks(f"{rounds}.end({state})", how)
        if emit.preempt and how.whole:
            emit.line(f"yield {STEP}")  # the first time that it asks is no part of what came before
        emit.line(f"{rounds}.begin({state})")

    def body() -> None:
        emit.block(op.test)
        emit.line(f"if not {emit.expr(op.cond)}:")
        emit.line("    break")
        emit.block(op.body)
        if asks is not None:
            emit.line(f"yield {asks.code}")

    emit.loop("while True:", op.label, body, asks, rounds=op)


@text(ir.Break)
def break_(op: ir.Break, emit: Emitter) -> None:
    """Writes a jump out of a loop."""
    emit.exit(op.label, "break")


@text(ir.Continue)
def continue_(op: ir.Continue, emit: Emitter) -> None:
    """Writes a jump to a loop's next iteration."""
    emit.exit(op.label, "continue")


@text(ir.Scope)
def scope(op: ir.Scope, emit: Emitter) -> None:
    """A loop of one round, where something leaves it."""
    if not any(isinstance(inner, ir.Leave) and inner.label is op.label for inner in op.body.walk()):
        emit.block(op.body)
        return

    def body() -> None:
        emit.block(op.body)
        emit.line("break")

    emit.loop("while True:", op.label, body)


@text(ir.Leave)
def leave(op: ir.Leave, emit: Emitter) -> None:
    """Writes a jump to the end of a scope."""
    emit.exit(op.label, "break")


@text(ir.Roles)
def roles(op: ir.Roles, emit: Emitter) -> None:
    """Forks one agent per copy of a region with copies of what it reads, and waits until all have ended."""
    regions = [emit.role(region) for region in op.regions]
    numbers = [(number, position) for position, (copies, _) in enumerate(regions) for number in copies]

    def prepare(agent: Agent) -> Callable[..., bool]:
        children = [(agent.children[number], position) for number, position in numbers]
        agents = [child for child, _ in children]
        monitor = agent.cta.cluster.machine.monitor

        def fork(*copied: tuple[Any, ...]) -> bool:
            agent.joining = len(children)
            agent.waiting = (op, agents)
            for child, position in children:
                values = copied[position]
                child.cluster_phase = agent.cluster_phase
                if monitor is not None:
                    monitor.fork(agent, child)
                child.start(*values)
            return True

        return fork

    emit.cost(CALL)
    emit.line(f"{emit.bind('o', prepare)}({', '.join(values for _, values in regions)})")
    emit.line(f"yield {BLOCKED}")


@meaning(ir.WaitPrior)
def wait_prior(op: ir.WaitPrior, agent: Agent) -> Callable[..., None]:
    """Launches run one after the other here: the prior one is over before this one begins."""
    return lambda: None


@meaning(ir.LaunchDependents)
def launch_dependents(op: ir.LaunchDependents, agent: Agent) -> Callable[..., None]:
    """Does nothing: launches run one after the other here."""
    return lambda: None


@meaning(ir.Sync)
def sync(op: ir.Sync, agent: Agent) -> Callable[..., None]:
    """An agent's instructions run one after another: its threads are always together."""
    return lambda: None


@meaning(ir.BlockId)
def block_id(op: ir.BlockId, agent: Agent) -> Callable[..., int]:
    """This CTA's index in the grid: a constant of the agent."""
    cta, dim = agent.cta, op.dim
    return lambda: cta.block[dim]


@meaning(ir.NumBlocks)
def num_blocks(op: ir.NumBlocks, agent: Agent) -> Callable[..., int]:
    """The size of the grid: a constant of the run."""
    blocks = agent.cta.cluster.machine.grid[op.dim]
    return lambda: blocks


@meaning(ir.RoleCopy)
def role_copy(op: ir.RoleCopy, agent: Agent) -> Callable[..., int]:
    """The number of this copy of its role: a constant of the agent."""
    return lambda: agent.copy


@meaning(ir.Print)
def print_(op: ir.Print, agent: Agent) -> Callable[..., None]:
    """Prints strings and values, once for the agent, behind its CTA's place in the grid and its role."""
    cta = agent.cta
    out = cta.cluster.machine.out
    rank = f"rank {cta.rank}, " if len(cta.cluster.ctas) > 1 else ""
    return lambda parts: print(f"block {cta.block}, {rank}{agent.role}:", *parts, file=out)


@text(ir.Breakpoint)
def breakpoint_(op: ir.Breakpoint, emit: Emitter) -> None:
    """Writes a stop under a condition, where somebody steps through the run, and nothing elsewhere."""
    if emit.stepped:
        anywhere = ".any()" if isinstance(op.cond.type, TileType) else ""
        emit.line(f"if {emit.expr(op.cond)}{anywhere}:")
        emit.line(f"    yield {LINE}")


@meaning(ir.Assume)
@meaning(ir.DeviceAssert)
def device_assert(op: ir.Assume | ir.DeviceAssert, agent: Agent) -> Callable[..., None]:
    """Stops the run with an error where the condition does not hold everywhere."""
    cta = agent.cta

    def run(cond: Any) -> None:
        if not (cond.all() if isinstance(cond, np.ndarray) else cond):
            raise Error(
                f"{op.message or 'assertion failed'} (block {cta.block}, {agent.title})", location=op.loc, kind="assert"
            )

    return run


never_run(ir.Role, "runs as a region of Roles")
never_run(ir.NextTile, "a pass writes out who draws the tile and how the others are told")
