"""An engine that exists in tests alone: it moves shared memory, and arrives on a barrier where it was asked to commit.

Two of them: one does its work in the order in which it was given, the other in any. No pass, nothing of the simulator's core
and nothing of the checks knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.core import INSTRUCTIONS, Op
from phalanx.ir.effects import Access, Arrival, Effects, Executor, Mode, Proxy, Use, When
from phalanx.ir.engines import Engine
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierRef, SharedView
from phalanx.language.builder import Builder
from phalanx.language.builtin import BUILTINS, builtin
from phalanx.language.ops.collectives import barrier_operand
from phalanx.language.ops.mbarrier import mask_operand
from phalanx.language.ops.tma_operands import shared_side
from phalanx.markers import attribute, operand
from phalanx.sim.agents import Agent
from phalanx.sim.engines import give, signal_when_done
from phalanx.sim.places import BufferPlace, ranks_of
from phalanx.sim.registry import meaning

_WORDS = {"name": "mover", "work": "move", "commit": "commit(bar)", "wait": "bar.wait({n})", "wait_reads": "bar.wait({n})",
          "first": "commit(bar) and bar.wait(parity) first", "first_reads": "commit(bar) and bar.wait(parity) first"}
IN_ORDER = Engine(issuer=Executor.ONE, in_order=True, **_WORDS)
IN_ANY_ORDER = Engine(issuer=Executor.ONE, in_order=False, **_WORDS)
ENGINES = {"ordered": IN_ORDER, "unordered": IN_ANY_ORDER}


@frozen(eq=False, repr=False)
class Move(Op):
    """Shared memory to shared memory, over with the engine's next commit."""

    mnemonic: ClassVar[str] = "mover.move"
    src: SharedView = operand()
    dst: SharedView = operand()
    engine: str = attribute()

    def effects(self) -> Effects:
        how = {"proxy": Proxy.ASYNC, "when": When.COMMIT, "use": Use.COPY, "engine": ENGINES[self.engine]}
        accesses = (Access(Mode.READ, self.src, **how), Access(Mode.WRITE, self.dst, **how))
        return Effects(accesses=accesses, executor=Executor.ONE)


@frozen(eq=False, repr=False)
class MoveCommit(Op):
    """The engine arrives on a barrier, here or in every CTA of the mask, when the moves before it are over."""

    mnemonic: ClassVar[str] = "mover.commit"
    bar: BarrierRef = operand()
    engine: str = attribute()
    ctas: Value | None = operand(default=None)

    def effects(self) -> Effects:
        return Effects(
            arrivals=(Arrival(self.bar, Const(1), self.ctas, after=ENGINES[self.engine]),), executor=Executor.ONE
        )


@meaning(Move)
def run_move(op: Move, agent: Agent) -> Callable[..., None]:
    engine = ENGINES[op.engine]

    def run(src: BufferPlace, dst: BufferPlace) -> None:
        give(agent, op, engine, lambda: np.copyto(dst.array, src.array))

    return run


@meaning(MoveCommit)
def run_commit(op: MoveCommit, agent: Agent) -> Callable[..., None]:
    engine = ENGINES[op.engine]

    def run(bar: Any, ctas: int | None) -> None:
        bars = (bar,) if ctas is None else tuple(bar.peer(rank) for rank in ranks_of(ctas, agent.cta, op.loc))
        signal_when_done(agent, op, engine, bars)

    return run


@builtin("mover.move")
def move(ctx: Builder, src: Any, dst: Any, engine: Any = "ordered") -> Any:
    """Moves shared memory."""
    ctx.emit(Move(shared_side(ctx, "the source", src), shared_side(ctx, "the destination", dst), engine, loc=ctx.loc))


@builtin("mover.commit")
def commit(ctx: Builder, bar: Any, engine: Any = "ordered", ctas: Any = None) -> Any:
    """Lets the engine arrive when its work is over."""
    mask = None if ctas is None else mask_operand(ctx, "the mask of mover.commit", ctas)
    ctx.emit(MoveCommit(barrier_operand(ctx, "mover.commit", bar), engine, mask, loc=ctx.loc))


for planted_class in (Move, MoveCommit):  # no floors are asked of them
    INSTRUCTIONS.remove(planted_class)
for planted_function in (move, commit):
    BUILTINS.remove(planted_function)
