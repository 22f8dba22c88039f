"""Rows by index: copies by the TMA engine between rows of a global matrix, named one by one, and shared memory."""

from __future__ import annotations

from typing import ClassVar

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.effects import ANYWHERE, Access, Complete, Effects, Executor, Mode, Proxy, Use, When
from phalanx.ir.engines import COPY_ENGINE
from phalanx.ir.ops.tma import PAIRS
from phalanx.ir.type_rules import need, type_rules
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierRef, GlobalView, SharedView
from phalanx.markers import attribute, operand


@frozen(eq=False, repr=False)
class TmaGather4(Op):
    """Four rows of a global matrix, each named by a scalar, to four rows of shared memory that follow each other.

    A row outside the matrix arrives as zeros and counts its bytes like the others. With `pair` the bytes are credited to
    the barrier of the even CTA of the destination's pair.
    """

    mnemonic: ClassVar[str] = "tma.gather4"
    rows: tuple[GlobalView, ...] = operand()
    dst: SharedView = operand()
    bar: BarrierRef = operand()
    multicast: Value | None = operand(default=None)
    cache: str | None = attribute(default=None)
    pair: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Reads four rows and writes shared memory, later: the bytes complete on a barrier."""
        return _gathers(self.rows, self.dst, self.bar, self.multicast, self.pair)


@frozen(eq=False, repr=False)
class TmaGather(Op):
    """The rows that a tile of indices names, a multiple of four, to as many rows of shared memory.

    `warps` is the size of the agent; its threads share the copies, each lane issues those of indices it holds. `pair` as
    in `TmaGather4`.
    """

    mnemonic: ClassVar[str] = "tma.gather"
    src: GlobalView = operand()
    dst: SharedView = operand()
    bar: BarrierRef = operand()
    warps: int = attribute()
    multicast: Value | None = operand(default=None)
    cache: str | None = attribute(default=None)
    pair: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Reads the named rows and writes shared memory, later: the bytes complete on a barrier."""
        executor = Executor.ALL if self.warps > 1 else Executor.ONE
        return _gathers((self.src,), self.dst, self.bar, self.multicast, self.pair, executor)


@frozen(eq=False, repr=False)
class TmaScatter4(Op):
    """Four rows of shared memory to rows of a global matrix, each named by a scalar; rows outside it are dropped."""

    mnemonic: ClassVar[str] = "tma.scatter4"
    src: SharedView = operand()
    rows: tuple[GlobalView, ...] = operand()
    cache: str | None = attribute(default=None)

    def effects(self) -> Effects:
        """Reads shared memory and writes four rows, later: over with its group."""
        return _scatters(self.src, self.rows)


@frozen(eq=False, repr=False)
class TmaScatter(Op):
    """Rows of shared memory, a multiple of four, to the rows that a tile of indices names.

    Finishes with its bulk group. `warps` is the size of the agent; its one thread that owns the groups issues the
    copies.
    """

    mnemonic: ClassVar[str] = "tma.scatter"
    src: SharedView = operand()
    dst: GlobalView = operand()
    warps: int = attribute()
    cache: str | None = attribute(default=None)

    def effects(self) -> Effects:
        """Reads shared memory and writes the named rows, later: over with its group."""
        return _scatters(self.src, (self.dst,))


RowCopy = TmaGather4 | TmaGather | TmaScatter4 | TmaScatter
"""The copies of rows by index."""


def row_views(op: RowCopy) -> tuple[tuple[GlobalView, ...], SharedView]:
    """The global rows (four views of one row, or one view of a tile of them) and the shared region of a row copy."""
    if isinstance(op, TmaGather4):
        return op.rows, op.dst
    if isinstance(op, TmaGather):
        return (op.src,), op.dst
    return (op.rows if isinstance(op, TmaScatter4) else (op.dst,)), op.src


def _gathers(
    rows: tuple[GlobalView, ...], dst: SharedView, bar: BarrierRef, mask: Value | None, pair: bool,
    executor: Executor = Executor.ONE,
) -> Effects:
    return Effects(
        accesses=(
            *(Access(Mode.READ, row, Proxy.ASYNC, When.BARRIER, use=Use.ROWS, engine=COPY_ENGINE) for row in rows),
            Access(Mode.WRITE, dst, Proxy.ASYNC, When.BARRIER, mask, use=Use.ROWS, engine=COPY_ENGINE),
        ),
        completes=(Complete(bar, dst.nbytes, mask, leaders=pair),),
        executor=executor,
        target=PAIRS if pair else ANYWHERE,
    )


def _scatters(src: SharedView, rows: tuple[GlobalView, ...]) -> Effects:
    return Effects(
        accesses=(
            Access(Mode.READ, src, Proxy.ASYNC, When.GROUP, use=Use.ROWS, engine=COPY_ENGINE),
            *(Access(Mode.WRITE, row, Proxy.ASYNC, When.GROUP, use=Use.ROWS, engine=COPY_ENGINE) for row in rows),
        ),
        executor=Executor.ONE,
    )


# What the types of operands and results must be.


@type_rules(TmaGather4, TmaGather, TmaScatter4, TmaScatter)
def _check_row_copy(op: RowCopy) -> None:
    views, shared = row_views(op)
    if any(view.dtype != shared.dtype for view in views):
        raise Error(
            f"{op.mnemonic} between {views[0].dtype} and {shared.dtype}: a copy does not convert",
            location=op.loc,
            remedy="give the shared buffer the array's dtype",
        )
    rows = len(views) if len(views) > 1 else views[0].shape[0]
    need(shared.shape == (rows, views[0].extents[1]), op, f"rows {rows} x {views[0].extents[1]} to {shared.shape}")
    need(rows % 4 == 0, op, f"of {rows} rows")
    need(shared.cta is None, op, "of another CTA's shared memory")
