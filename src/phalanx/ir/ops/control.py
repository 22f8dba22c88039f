"""Control flow, roles, thread barriers, the grid, printing and assertions."""

from __future__ import annotations

from typing import ClassVar

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import WARPGROUP
from phalanx.ir.core import Block, Op
from phalanx.ir.effects import ANYWHERE, Effects, Neighbour, Rendezvous, Span
from phalanx.ir.ops.clc import HERE
from phalanx.ir.type_rules import dtype_of, need, need_index, needs_no_type_rule, shape_of, type_rules
from phalanx.ir.types import ScalarType, bool_
from phalanx.ir.values import Label, Value, Var, constant_of
from phalanx.markers import attribute, block, cell, defined, operand


def span_text(first: int, count: int) -> str:
    """`warp 4`, or `warps 0-3`."""
    return f"warp {first}" if count == 1 else f"warps {first}-{first + count - 1}"


@frozen(eq=False, repr=False)
class Assign(Op):
    """Writes a mutable cell."""

    mnemonic: ClassVar[str] = "assign"
    is_step: ClassVar[bool] = False
    var: Var = cell()
    value: Value = operand()


@frozen(eq=False, repr=False)
class ReadVar(Op):
    """Reads a mutable cell."""

    mnemonic: ClassVar[str] = "read"
    is_step: ClassVar[bool] = False
    computes: ClassVar[bool] = False
    var: Var = cell()
    result: Value = defined()


@frozen(eq=False, repr=False)
class If(Op):
    """A run-time branch, uniform in the agent."""

    mnemonic: ClassVar[str] = "if"
    cond: Value = operand()
    then: Block = block()
    orelse: Block = block()


@frozen
class Pipelining:
    """How the loads of a loop run ahead of it: through a ring of `stages` (None: as many as fit).

    `producer`: a role of its own issues them. `multicast`: the CTAs of a cluster fetch what they have in common once.
    """

    stages: int | None = None
    producer: bool = True
    multicast: bool = True

    @property
    def text(self) -> str:
        """Itself in listings: what differs from the usual form, in brackets."""
        said = [] if self.stages is None else [f"stages={self.stages}"]
        said += [] if self.producer else ["producer=False"]
        said += [] if self.multicast else ["multicast=False"]
        return f"pipelined({', '.join(said)})" if said else "pipelined"


@frozen(eq=False, repr=False)
class For(Op):
    """A counted loop; `index` is defined anew in every iteration, `step` is never 0.

    `unroll` iterations are written one after the other; 0 leaves it to the compiler. `dealt`: the iterations are tiles,
    dealt to the clusters of the grid, so that any number of them does the work; `unordered`: in an order that is the
    compiler's. `pipelined`: a pass lets its loads run ahead; what the loop means is the same without it.
    """

    mnemonic: ClassVar[str] = "for"
    result: Value = defined()
    start: Value = operand()
    stop: Value = operand()
    step: Value = operand()
    body: Block = block()
    label: Label = attribute()
    unroll: int = attribute(default=0)
    dealt: bool = attribute(default=False)
    pipelined: Pipelining | None = attribute(default=None)
    unordered: bool = attribute(default=False)

    @property
    def index(self) -> Value:
        """The value that counts, defined anew in every iteration."""
        return self.result

    @property
    def dealt_tiles(self) -> Value | None:
        """The end of the range, where its numbers are dealt to the clusters of the grid."""
        return self.stop if self.dealt else None


@frozen(eq=False, repr=False)
class NextTile(Op):
    """The next of `n` tiles that are dealt to the clusters of the grid as they ask; `n` or more at the end.

    `schedule` is "counter", a word of global memory, or "clc": clusters that have not started are taken over. It stands
    in the test of a loop. All CTAs of a cluster get the same, and so do the loops of concurrent roles: a pass writes out
    who asks and how the others are told.
    """

    mnemonic: ClassVar[str] = "next_tile"
    n: Value = operand()
    schedule: str = attribute()
    result: Value = defined()

    def effects(self) -> Effects:
        """Brings the threads of the agent together, since they get the same tile."""
        return Effects(rendezvous=(Rendezvous(Span.AGENT),), target=HERE if self.takes_over else ANYWHERE)

    @property
    def takes_over(self) -> bool:
        """Whether a cluster takes over others that have not started."""
        return self.schedule == "clc"

    @property
    def dealt_tiles(self) -> Value:
        """The number of tiles."""
        return self.n

    @property
    def draw(self) -> NextTile:
        """Itself."""
        return self


@frozen(eq=False, repr=False)
class While(Op):
    """Runs `test`, leaves if `cond` is false, runs `body`, begins again."""

    mnemonic: ClassVar[str] = "while"
    test: Block = block()
    cond: Value = operand()
    body: Block = block()
    label: Label = attribute()


@frozen(eq=False, repr=False)
class Break(Op):
    """Leaves the loop named by `label`."""

    mnemonic: ClassVar[str] = "break"
    label: Label = attribute()


@frozen(eq=False, repr=False)
class Continue(Op):
    """Goes to the next iteration of the loop named by `label`."""

    mnemonic: ClassVar[str] = "continue"
    label: Label = attribute()


@frozen(eq=False, repr=False)
class Scope(Op):
    """A block that `Leave` can leave: the kernel, a role, an inlined function with an early return."""

    mnemonic: ClassVar[str] = "scope"
    is_step: ClassVar[bool] = False
    label: Label = attribute()
    body: Block = block()


@frozen(eq=False, repr=False)
class Leave(Op):
    """Goes to the end of the scope named by `label`."""

    mnemonic: ClassVar[str] = "leave"
    label: Label = attribute()


@frozen(eq=False, repr=False)
class Role(Op):
    """A region run by `count` warps beginning at `first`, with `regs` registers a thread where given.

    `active`, the compiler's choice, is the number of warps that run the body where fewer than `count` will do. With
    `copies` the next `count` warps run it too, and so on: each copy is an agent of its own, which knows by `RoleCopy`
    which one it is.
    """

    mnemonic: ClassVar[str] = "role"
    name: str = attribute()
    first: int = attribute()
    count: int = attribute()
    regs: int | None = attribute()
    body: Block = block()
    active: int | None = attribute(default=None)
    copies: int = attribute(default=1)

    @property
    def running(self) -> int:
        """The warps of one copy that run the body."""
        return self.count if self.active is None else self.active

    @property
    def span(self) -> int:
        """The warps of all copies."""
        return self.count * self.copies

    @property
    def held(self) -> int:
        """The warps from the first on that no other role may have: whole warpgroups, where they get registers."""
        return self.span if self.regs is None else -(-self.span // WARPGROUP) * WARPGROUP

    def first_of(self, copy: int) -> int:
        """The first warp of a copy."""
        return self.first + copy * self.count

    def name_of(self, copy: int) -> str:
        """What messages call a copy: the role's name, where it is the only one."""
        return self.name if self.copies == 1 else span_text(self.first_of(copy), self.count)

    @property
    def written(self) -> str:
        """What users wrote: `px.warps(4, 4, copies=2)`."""
        return f"warps({self.first}, {self.count}{f', copies={self.copies}' if self.copies > 1 else ''})"


@frozen(eq=False, repr=False)
class RoleCopy(Op):
    """The number of this agent among the copies of its role, from 0 on."""

    mnemonic: ClassVar[str] = "role_copy"
    nonnegative: ClassVar[bool] = True
    copies: int = attribute()
    result: Value = defined()

    def in_copy(self, copy: int) -> int:
        """The number of the copy."""
        return copy

    @property
    def most(self) -> int:
        """The number of the last copy."""
        return self.copies - 1


@frozen(eq=False, repr=False)
class Roles(Op):
    """Neighbouring roles: a fork, concurrent regions, a join of all warps of the CTA."""

    mnemonic: ClassVar[str] = "roles"
    regions: tuple[Role, ...] = block()
    joins: bool = attribute(default=True)

    def effects(self) -> Effects:
        """Brings all warps of the CTA together at the end, where the roles join."""
        return Effects(rendezvous=(Rendezvous(Span.CTA),) if self.joins else ())


@frozen(eq=False, repr=False)
class Sync(Op):
    """Brings the current agent's threads together. `reason` is empty where the user wrote `px.sync()`."""

    mnemonic: ClassVar[str] = "sync"
    reason: str = attribute(default="")

    def effects(self) -> Effects:
        """Brings the threads of the agent together."""
        return Effects(rendezvous=(Rendezvous(Span.AGENT),))


@frozen(eq=False, repr=False)
class WaitPrior(Op):
    """Waits until the launch before this one on the stream is over and its writes can be seen."""

    mnemonic: ClassVar[str] = "wait_prior"

    def effects(self) -> Effects:
        """Waits for the end of the launch before this one."""
        return Effects(launches=(Neighbour.PRIOR,))


@frozen(eq=False, repr=False)
class LaunchDependents(Op):
    """Lets the next launch on the stream begin, once all CTAs of this one have come here or are over."""

    mnemonic: ClassVar[str] = "launch_dependents"

    def effects(self) -> Effects:
        """Lets the launch after this one begin."""
        return Effects(launches=(Neighbour.NEXT,))


@frozen(eq=False, repr=False)
class BlockId(Op):
    """The index of this CTA in the grid along `dim`."""

    mnemonic: ClassVar[str] = "block_id"
    nonnegative: ClassVar[bool] = True
    dim: int = attribute()
    result: Value = defined()

    @property
    def block_dimension(self) -> int:
        """Its dimension."""
        return self.dim


@frozen(eq=False, repr=False)
class NumBlocks(Op):
    """The number of CTAs of the grid along `dim`."""

    mnemonic: ClassVar[str] = "num_blocks"
    nonnegative: ClassVar[bool] = True
    dim: int = attribute()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Print(Op):
    """Prints text and values once per agent."""

    mnemonic: ClassVar[str] = "print"
    parts: tuple[str | Value, ...] = operand()


@frozen(eq=False, repr=False)
class Breakpoint(Op):
    """Stops a run that somebody steps through, where `cond` holds (for a tile: anywhere). Nothing elsewhere."""

    mnemonic: ClassVar[str] = "breakpoint"
    is_step: ClassVar[bool] = False
    stops: ClassVar[bool] = True
    cond: Value = operand()


@frozen(eq=False, repr=False)
class Assume(Op):
    """The user says that `cond` holds (for a tile: everywhere). A run that is watched stops with `message` where not."""

    mnemonic: ClassVar[str] = "assume"
    cond: Value = operand()
    message: str = attribute()


@frozen(eq=False, repr=False)
class DeviceAssert(Op):
    """Stops the kernel with `message` unless `cond` holds (for a tile: everywhere)."""

    mnemonic: ClassVar[str] = "device_assert"
    cond: Value = operand()
    message: str = attribute()


# What the types of operands and results must be.


@type_rules(If, While, Assume, DeviceAssert, Breakpoint)
def _check_condition(op: If | Assume | DeviceAssert | Breakpoint | While) -> None:
    need(dtype_of(op.cond) == bool_, op, f"a condition of type {op.cond.type}")
    if not isinstance(op, Assume | DeviceAssert | Breakpoint):
        need(shape_of(op.cond) == (), op, "a tile as condition")


@type_rules(For)
def _check_for(op: For) -> None:
    need(all(v.type == op.index.type for v in (op.start, op.stop, op.step)), op, "bounds unlike the index")
    need(isinstance(op.index.type, ScalarType) and op.index.type.dtype.is_integer, op, f"an index of type {op.index.type}")
    if constant_of(op.step) == 0:
        raise Error("a range with step 0", location=op.loc, remedy="use a positive or negative step")


@type_rules(NextTile, RoleCopy, BlockId, NumBlocks)
def _check_number(op: NextTile | RoleCopy | BlockId | NumBlocks) -> None:
    need_index(op)


needs_no_type_rule(Assign, ReadVar, why="the verifier compares every cell with the values it holds")
needs_no_type_rule(Print, why="it prints scalars and tiles of any type")
