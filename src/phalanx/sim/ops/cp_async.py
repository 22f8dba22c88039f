"""Copies that the threads of an agent begin: each is done later, when the schedule says so, and a signal behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.ir.ops.cp_async import THREAD_COPIES, CpAsyncCommit, CpAsyncLoad
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import give, signal_when_done
from phalanx.sim.places import BufferPlace, GlobalPlace
from phalanx.sim.registry import meaning


@meaning(CpAsyncLoad)
def load(op: CpAsyncLoad, agent: Agent) -> Callable[..., Any]:
    """Reads the array and writes the buffer, at once or later; elements that are not there are zeros."""

    def run(src: GlobalPlace, dst: BufferPlace) -> None:
        give(agent, op, THREAD_COPIES, lambda: src.copy_to(dst.array))

    return run


@meaning(CpAsyncCommit)
def commit(op: CpAsyncCommit, agent: Agent) -> Callable[..., None]:
    """Arrives when all copies that the agent has begun are over."""

    def run(bar: MBarrier) -> None:
        signal_when_done(agent, op, THREAD_COPIES, (bar,))

    return run
