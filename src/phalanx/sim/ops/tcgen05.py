"""Blackwell's tensor cores: products and copies that are done later, when the schedule says so, and signals behind them.

Tensor memory is kept as the user sees it, by rows and columns of each buffer; which lanes and columns these are matters to
the checks and to the text (`ir/tensor_memory.py`). A product of a pair works on the memory of both CTAs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.engines import MMA_ENGINE, TENSOR_LOADS, TENSOR_STORES
from phalanx.ir.ops import tcgen05 as ir
from phalanx.ir.tensor_kinds import Objection, product_shape
from phalanx.ir.types import f16
from phalanx.ir.views import TensorView, in_tensor
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import give, signal_when_done
from phalanx.sim.machine import POISON, Cta
from phalanx.sim.ops.wgmma import rounded_sum, scaled_product, widen
from phalanx.sim.places import BufferPlace, ranks_of
from phalanx.sim.registry import meaning

# --- the life of tensor memory ----------------------------------------------------------------------------------------


@meaning(ir.TmemAlloc)
def allocate(op: ir.TmemAlloc, agent: Agent) -> Callable[..., None]:
    """Lets the buffers begin; the address is a number like any other."""
    cta = agent.cta

    def run(address: BufferPlace) -> None:
        address.write(0)
        for buffer in op.buffers:
            cta.allocated[buffer] = op

    return run


@meaning(ir.TmemTake)
def take(op: ir.TmemTake, agent: Agent) -> Callable[..., None]:
    """Does nothing: buffers are found by name here."""
    return lambda address: None


@meaning(ir.TmemFree)
def free(op: ir.TmemFree, agent: Agent) -> Callable[..., None]:
    """Ends all buffers of the CTA in tensor memory."""
    cta = agent.cta
    return lambda views: cta.allocated.clear()


def require_allocated(place: BufferPlace, cta: Cta, op: Op) -> None:
    """Refuses tensor memory that is not allocated, or not any more."""
    if place.buffer not in cta.allocated:
        raise Error(
            f"{op.call} uses '{place.buffer.name}' while its columns are not allocated in CTA {cta.rank}",
            location=op.loc, kind="tmem-lifetime",
            remedy="tensor memory is allocated at the start of the kernel and freed at its end: use it in between",
        )


# --- products ---------------------------------------------------------------------------------------------------------


class Multiply:
    """What all executions of one product share."""

    def __init__(self, op: ir.Tcgen05Mma) -> None:
        self.op = op
        self.widen_a = widen(op.a.dtype)
        self.widen_b = widen(op.b.dtype)
        self.rounds = op.acc.dtype == f16
        self.step = op.kind.k

    def columns(self, halves: list[np.ndarray]) -> np.ndarray:
        """The right operand as the tensor cores see it, with the columns of both CTAs of a pair side by side."""
        wide = [self.widen_b(half) for half in halves]
        return wide[0] if len(wide) == 1 else np.concatenate(wide, axis=1)

    def add(self, a: np.ndarray, right: np.ndarray, acc: np.ndarray, accumulate: bool, scales: tuple[Any, Any]) -> None:
        """`acc += a @ right`, with the blocks of both along K multiplied by their scales."""
        left = self.widen_a(a)
        scale_a, scale_b = scales
        if self.rounds:
            acc[...] = rounded_sum(left, right, acc if accumulate else None, self.step, self.op.negate)
            return
        product = left @ right if scale_a is None else scaled_product(left, right, scale_a, scale_b)
        if self.op.negate:
            np.negative(product, out=product)
        if accumulate:
            acc += product
        else:
            acc[...] = product


def _require_places(op: ir.Tcgen05Mma) -> None:
    """Refuses an accumulator or operand that lies in tensor memory as no instruction takes it: no text can, either."""
    from phalanx.layouts.tcgen05 import check_places
    from phalanx.layouts.tensor_parts import part_of

    found = product_shape(op.kind, *op.shape, op.pair)
    assert not isinstance(found, Objection), found
    try:
        left = part_of(op.a) if in_tensor(op.a) else None
        check_places(op.kind, op.shape, found[:2], part_of(op.acc), left, op.pair)
    except ValueError as problem:
        raise ir.no_such_product(op, str(problem)) from None


@meaning(ir.Tcgen05Mma)
def mma(op: ir.Tcgen05Mma, agent: Agent) -> Callable[..., None]:
    """Gives the tensor cores a product; a pair's is given by its even CTA, and done in both."""
    _require_places(op)
    how = Multiply(op)
    cta = agent.cta
    overlays = cta.cluster.machine.overlays
    values = cta.cluster.machine.values

    def run(
        a: BufferPlace, b: BufferPlace, acc: BufferPlace, accumulate: bool, scale_a: BufferPlace | None,
        scale_b: BufferPlace | None, peer: int | None,
    ) -> None:
        ctas = _issuers(cta, peer, op)
        for place in (a, acc, scale_a, scale_b):
            if place is not None and place.buffer.space is acc.buffer.space:
                for member in ctas:
                    require_allocated(place, member, op)

        def work() -> None:
            if not values:
                return
            right = how.columns([b.of(member) for member in ctas])
            for member in ctas:
                scales = tuple(None if place is None else place.of(member) for place in (scale_a, scale_b))
                how.add(a.of(member), right, acc.of(member), bool(accumulate), scales)  # type: ignore[arg-type]
                overlays.written(acc, member, POISON)

        give(agent, op, MMA_ENGINE, work)

    return run


def _issuers(cta: Cta, peer: int | None, op: Op) -> tuple[Cta, ...]:
    """The CTAs whose memory an instruction works on; a pair's instruction is the even CTA's alone."""
    if peer is None:
        return (cta,)
    _require_leader(cta, op)
    return cta, cta.cluster.ctas[peer]


def _require_leader(cta: Cta, op: Op) -> None:
    if cta.rank % 2:
        raise Error(
            f"{op.call} with two_cta=True is issued by CTA {cta.rank}, the odd one of its pair",
            location=op.loc, kind="pair",
            remedy="the even CTA issues for both: put it under if px.cluster.rank() % 2 == 0",
        )


@meaning(ir.Tcgen05Commit)
def commit(op: ir.Tcgen05Commit, agent: Agent) -> Callable[..., None]:
    """Lets the tensor cores arrive when all work of the role is over."""
    cta = agent.cta

    def run(bar: MBarrier, multicast: int | None) -> None:
        if op.pair:
            _require_leader(cta, op)
        bars = (bar,) if multicast is None else tuple(bar.peer(rank) for rank in ranks_of(multicast, cta, op.loc))
        signal_when_done(agent, op, MMA_ENGINE, bars)

    return run


def _require_lanes(op: ir.Tcgen05Copy) -> None:
    """Refuses a copy to lanes that no instruction writes so."""
    from phalanx.layouts.tensor_copy import shapes_into
    from phalanx.layouts.tensor_parts import part_of

    try:
        shapes_into(part_of(op.dst), op.src.shape)
    except ValueError as problem:
        raise ir.no_such_copy(op, str(problem)) from None


@meaning(ir.Tcgen05Copy)
def copy(op: ir.Tcgen05Copy, agent: Agent) -> Callable[..., None]:
    """Gives the tensor cores a copy into tensor memory; the bytes of blocks of scales come in the order of blocks."""
    _require_lanes(op)
    cta = agent.cta
    overlays = cta.cluster.machine.overlays

    def run(src: BufferPlace, dst: BufferPlace, peer: int | None) -> None:
        ctas = _issuers(cta, peer, op)
        for member in ctas:
            require_allocated(dst, member, op)

        def work() -> None:
            for member in ctas:
                source, target = src.of(member), dst.of(member)
                if source.shape != target.shape:
                    source = plain_scales(source)[: target.shape[0], : target.shape[1]]
                target[...] = source
                overlays.written(dst, member, POISON)

        give(agent, op, MMA_ENGINE, work)

    return run


def plain_scales(blocks: np.ndarray) -> np.ndarray:
    """Scales (rows, scales along K) from blocks of 128 rows by 4 scales, as shared memory holds them: row r of a block is
    r % 32 of 32 groups of 16 bytes, number r / 32 of the four in it."""
    rows, columns = blocks.shape[:2]
    return blocks.reshape(rows, columns, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(rows * 128, columns * 4)


# --- registers --------------------------------------------------------------------------------------------------------


class Loading:
    """A tile on its way from tensor memory, which refuses to be read before loads are waited for."""

    __slots__ = ("op", "tile")

    def __init__(self, op: ir.Tcgen05Load, tile: np.ndarray) -> None:
        self.op = op
        self.tile = tile

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        error = Error(
            f"the tile that {self.op.call} brings at {self.op.loc.short} is used before it is there",
            kind="uninitialised-read",
            remedy="the compiler has to put tcgen05.wait.load between them: this is a mistake in Phalanx, not in the kernel",
        )
        error.other = self.op.loc
        raise error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__array__(), name)


def _require_reach(op: ir.Tcgen05Load | ir.Tcgen05Store, view: TensorView) -> None:
    """Refuses a region that the warps of the role do not reach: the text can't be written for it, either."""
    from phalanx.layouts.tensor_parts import accesses_of

    try:
        accesses_of(view, op.warps, op.first)
    except ValueError as problem:
        raise ir.out_of_reach(op, view, str(problem)) from None


@meaning(ir.Tcgen05Load)
def load(op: ir.Tcgen05Load, agent: Agent) -> Callable[..., Loading]:
    """Reads a region as it is now; the checks know that it may be read until loads are waited for."""
    _require_reach(op, op.src)
    cta = agent.cta
    monitor = cta.cluster.machine.monitor

    def run(src: BufferPlace) -> Loading:
        require_allocated(src, cta, op)
        if monitor is not None:
            monitor.work_given(agent, op, agent.issuing)
        return Loading(op, src.array.copy())

    return run


@meaning(ir.Tcgen05Store)
def store(op: ir.Tcgen05Store, agent: Agent) -> Callable[..., None]:
    """Writes a region; the checks know that it may be written as late as stores are waited for."""
    _require_reach(op, op.dst)
    cta = agent.cta
    monitor = cta.cluster.machine.monitor

    def run(dst: BufferPlace, tile: Any) -> None:
        require_allocated(dst, cta, op)
        if monitor is not None:
            monitor.work_given(agent, op, agent.issuing)
        dst.write(tile)
        cta.cluster.machine.overlays.written(dst, cta, POISON)

    return run


@meaning(ir.Tcgen05WaitLoads)
def wait_loads(op: ir.Tcgen05WaitLoads, agent: Agent) -> Callable[..., tuple[Any, ...]]:
    """Ends the loads of the agent, and gives their tiles."""
    monitor = agent.cta.cluster.machine.monitor

    def run(tiles: tuple[Any, ...]) -> tuple[Any, ...]:
        if monitor is not None:
            monitor.groups_passed(agent, op, TENSOR_LOADS, 0, False)
        return tuple(tile.tile if isinstance(tile, Loading) else tile for tile in tiles)

    return run


@meaning(ir.Tcgen05WaitStores)
def wait_stores(op: ir.Tcgen05WaitStores, agent: Agent) -> Callable[..., None]:
    """Ends the stores of the agent."""
    monitor = agent.cta.cluster.machine.monitor

    def run() -> None:
        if monitor is not None:
            monitor.groups_passed(agent, op, TENSOR_STORES, 0, False)

    return run


@meaning(ir.Tcgen05FenceBefore)
@meaning(ir.Tcgen05FenceAfter)
def fence(op: Op, agent: Agent) -> Callable[..., None]:
    """Does nothing: the machine is in order here; the checks look for it."""
    return lambda: None
