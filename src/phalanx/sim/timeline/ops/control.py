"""Control flow: loops and branches are scalar work beside what they control; barriers of threads are effects."""

from typing import Any

from phalanx.ir.ops.control import (
    Assign,
    Assume,
    BlockId,
    Break,
    Breakpoint,
    Continue,
    DeviceAssert,
    For,
    If,
    LaunchDependents,
    Leave,
    NextTile,
    NumBlocks,
    Print,
    ReadVar,
    Role,
    RoleCopy,
    Roles,
    Scope,
    Sync,
    WaitPrior,
    While,
)
from phalanx.sim.timeline.costs import CELLS, free

free(For, While, If, Break, Continue, Scope, Leave, why="scalar work, part of what comes before an effect (`Rates.step`)")
free(Assign, ReadVar, BlockId, NumBlocks, RoleCopy, why="a register has it")
free(Role, Roles, why="agents begin and end with them: `Rates.fork`")
free(NextTile, why="a pass writes it out in others")
free(Sync, why="its time is that of the barrier of threads, which its effects name")
free(WaitPrior, LaunchDependents, why="one launch is modelled: the one before it is over")
free(Print, Assume, DeviceAssert, Breakpoint, why="what watches a kernel is no part of its speed")


def _read(op: ReadVar) -> tuple[Any, Any]:
    return op.result, op.var


def _assigned(op: Assign) -> tuple[Any, Any]:
    return op.value, op.var


CELLS[ReadVar] = _read
CELLS[Assign] = _assigned
