"""Rows by index: copies like any other of the TMA engine, whose global side is a row at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.effects import leader_of
from phalanx.ir.ops.gather import RowCopy, TmaGather, TmaGather4, TmaScatter, TmaScatter4, row_views
from phalanx.ir.types import FROM_NUMPY
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import LoadCopy, StoreCopy, issue, join_open_group
from phalanx.sim.ops.tma import require_aligned
from phalanx.sim.places import BufferPlace, GlobalPlace, RowsPlace, ranks_of
from phalanx.sim.registry import meaning

Rows = tuple[GlobalPlace, ...]


class Stack:
    """Rows of a global matrix, one place each; row i of a tile is the i-th."""

    __slots__ = ("places",)

    def __init__(self, *places: GlobalPlace) -> None:
        self.places = places

    def copy_to(self, destination: np.ndarray) -> None:
        """Puts the rows into shared memory, one below the other."""
        for row, place in zip(destination, self.places, strict=True):
            place.copy_to(row)

    def write(self, value: np.ndarray) -> None:
        """Puts the rows of a tile into their places."""
        for row, place in zip(value, self.places, strict=True):
            place.write(row)


def copies_rows(run: Callable[..., None], op: RowCopy, agent: Agent) -> Callable[..., None]:
    """`run`, with what the engine asks of the matrix and of the first column checked."""
    return require_aligned(run, op, row_views(op)[0][0], agent)


def count_outside(op: RowCopy, agent: Agent, *places: GlobalPlace | RowsPlace) -> None:
    """Tells a monitor of rows that the matrix does not have."""
    monitor = agent.cta.cluster.machine.monitor
    if monitor is None:
        return
    height = places[0].window.array.shape[0]
    named = [np.atleast_1d(place.starts[0]) for place in places]
    outside = sum(int(((rows < 0) | (rows >= height)).sum()) for rows in named)
    if outside:
        monitor.rows_outside(op, outside, row_views(op)[0][0].array.name)


def check_column(op: RowCopy, place: GlobalPlace | RowsPlace) -> None:
    """The copy begins on a multiple of 16 bytes, or the hardware faults."""
    column, dtype = place.starts[-1], FROM_NUMPY[place.window.dtype]
    if dtype.nbytes(column) % COPY_CHUNK:
        raise Error(
            f"px.{op.mnemonic} begins at column {column}, byte {dtype.nbytes(column)} of its rows", location=op.loc,
            kind="misaligned", remedy=f"begin at a multiple of {dtype.elements(COPY_CHUNK)} columns ({COPY_CHUNK} bytes)",
        )


def gather(op: TmaGather4 | TmaGather, agent: Agent, dst: BufferPlace, bar: MBarrier, mask: Any, source: Any) -> None:
    """The rows land at one place in every CTA of the mask, with all their bytes on each one's barrier, or its leader's."""
    nbytes, cta = op.dst.nbytes, agent.cta
    credited = leader_of if op.pair else int
    if mask is None:
        completes = bar.peer(credited(cta.rank)) if op.pair else bar
        issue(LoadCopy(agent, op, source, (dst.array,), (completes,), nbytes))
        return
    ranks = ranks_of(mask, cta, op.loc)
    if not ranks:
        raise Error("the multicast mask names no CTA", location=op.loc, remedy="use a bit per rank that receives")
    destinations = tuple(dst.peer(rank) for rank in ranks)
    issue(LoadCopy(agent, op, source, destinations, tuple(bar.peer(credited(rank)) for rank in ranks), nbytes))


@meaning(TmaGather4)
def tma_gather4(op: TmaGather4, agent: Agent) -> Callable[..., None]:
    """Starts a copy of four rows to shared memory."""

    def run(rows: Rows, dst: BufferPlace, bar: MBarrier, multicast: int | None) -> None:
        check_column(op, rows[0])
        count_outside(op, agent, *rows)
        gather(op, agent, dst, bar, multicast, Stack(*rows))

    return copies_rows(run, op, agent)


@meaning(TmaGather)
def tma_gather(op: TmaGather, agent: Agent) -> Callable[..., None]:
    """Starts a copy of many rows to shared memory."""

    def run(src: RowsPlace, dst: BufferPlace, bar: MBarrier, multicast: int | None) -> None:
        check_column(op, src)
        count_outside(op, agent, src)
        gather(op, agent, dst, bar, multicast, src)

    return copies_rows(run, op, agent)


@meaning(TmaScatter4)
def tma_scatter4(op: TmaScatter4, agent: Agent) -> Callable[..., None]:
    """Starts a copy of shared memory to four rows."""

    def run(src: BufferPlace, rows: Rows) -> None:
        check_column(op, rows[0])
        count_outside(op, agent, *rows)
        issue(StoreCopy(agent, op, src.array, Stack(*rows).write, join_open_group(agent)))

    return copies_rows(run, op, agent)


@meaning(TmaScatter)
def tma_scatter(op: TmaScatter, agent: Agent) -> Callable[..., None]:
    """Starts a copy of shared memory to many rows."""

    def run(src: BufferPlace, dst: RowsPlace) -> None:
        check_column(op, dst)
        count_outside(op, agent, dst)
        issue(StoreCopy(agent, op, src.array, dst.write, join_open_group(agent)))

    return copies_rows(run, op, agent)
