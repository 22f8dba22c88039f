"""Control flow: loops and branches are scalar work beside what they control; barriers of threads are effects."""

from typing import Any

from phalanx.ir.ops import control as ir
from phalanx.sim.timeline.costs import CELLS, free
from phalanx.sim.timeline.numbers import number

free(
    ir.For, ir.While, ir.If, ir.Break, ir.Continue, ir.Scope, ir.Leave,
    why="scalar work, part of what comes before an effect (`Rates.step`)",
)  # fmt: skip
free(ir.Assign, ir.ReadVar, ir.BlockId, ir.NumBlocks, ir.RoleCopy, why="a register has it")
free(ir.Role, ir.Roles, why="agents begin and end with them: `Rates.fork`")
free(ir.NextTile, why="a pass writes it out in others")
free(ir.Sync, why="its time is that of the barrier of threads, which its effects name")
free(ir.WaitPrior, ir.LaunchDependents, why="one launch is modelled: the one before it is over")
free(ir.Print, ir.Assume, ir.DeviceAssert, ir.Breakpoint, why="what watches a kernel is no part of its speed")


def _read(op: ir.ReadVar) -> tuple[Any, Any]:
    return op.result, op.var


def _assigned(op: ir.Assign) -> tuple[Any, Any]:
    return op.value, op.var


CELLS[ir.ReadVar] = _read
CELLS[ir.Assign] = _assigned


@number(ir.BlockId)
def block_id(op: ir.BlockId) -> str:
    """The place of the cluster's first CTA; its other CTAs make as many rounds."""
    return f"place[{op.dim}]"


@number(ir.NumBlocks)
def num_blocks(op: ir.NumBlocks) -> str:
    """The size of the grid."""
    return f"grid[{op.dim}]"
