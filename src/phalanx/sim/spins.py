"""Loops that ask memory or a barrier again and again, and so must let others run in between."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Mode, When
from phalanx.ir.ops.control import Assign, Break, For, If, Leave, ReadVar, While
from phalanx.ir.values import Value, Var
from phalanx.sim.agents import POLL, STEP, TRY


def spin_kind(loop: For | While) -> int | None:
    """What the loop yields at the end of an iteration: nothing, `STEP`, `POLL` or `TRY`.

    A loop that asks nothing ends or blocks by itself. One whose exits depend on a variable that it advances (a counter)
    ends by itself too; of the others, those that only ask can be ended by nobody but others.
    """
    asks_barrier = asks_memory = acts = False
    for block in loop.blocks():
        for op in block.walk():
            effects = op.effects()
            asks_barrier = asks_barrier or any(not wait.blocking for wait in effects.waits)
            acts = acts or any(wait.blocking for wait in effects.waits)
            acts = acts or bool(effects.arrivals or effects.expects or effects.completes or effects.groups)
            for access in effects.accesses:
                asks_memory = asks_memory or (access.mode is not Mode.WRITE and access.when is When.NOW)
                acts = acts or access.mode is Mode.WRITE
    if isinstance(loop, For):
        return TRY if asks_barrier else None
    if not (asks_barrier or asks_memory):
        return None
    if asks_barrier:
        return TRY if acts or _advances(loop) else POLL
    return STEP if acts or _advances(loop) else POLL


def spinning_tests(function: Function) -> set[Op]:
    """Tests of barriers in loops that only others can end: to them a no means nothing but to ask again, as in a wait."""
    return {
        op
        for loop in function.walk() if isinstance(loop, For | While) and spin_kind(loop) == POLL
        for block in loop.blocks() for op in block.walk()
        if any(not wait.blocking for wait in op.effects().waits)
    }


def _advances(loop: While) -> bool:
    """Whether an exit condition depends on a variable that the loop computes from its own former value."""
    defined: dict[Value, Op] = {}
    assigned: dict[Var, list[Value]] = {}
    for block in loop.blocks():
        for op in block.walk():
            if op.defines is not None:
                defined[op.defines] = op
            if isinstance(op, Assign):
                assigned.setdefault(op.var, []).append(op.value)

    def variables(roots: list[Value]) -> set[Var]:
        """The loop's variables that `roots` depend on."""
        seen: set[Value] = set()
        found: set[Var] = set()
        stack = list(roots)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            op = defined.get(value)
            if isinstance(op, ReadVar):
                if op.var in assigned:
                    found.add(op.var)
                    stack += assigned[op.var]
            elif op is not None:
                stack += op.operands()
        return found

    deciding = variables([loop.cond, *_exit_conditions(loop.body)])
    return any(var in variables(assigned[var]) for var in deciding)


def _exit_conditions(block: Block) -> Iterator[Value]:
    """Conditions of branches that hold a way out."""
    for op in block.walk():
        if isinstance(op, If) and any(isinstance(inner, Break | Leave) for b in op.blocks() for inner in b.walk()):
            yield op.cond
