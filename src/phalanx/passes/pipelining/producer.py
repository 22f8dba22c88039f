"""The role that fetches: the slice of the kernel that its loads' places follow from, with a stage filled at each load."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from phalanx.ir.clones import Clones
from phalanx.ir.core import Block, Op, rewrite
from phalanx.ir.ops.cluster import ClusterLoad
from phalanx.ir.ops.control import Continue, For, Leave, Scope
from phalanx.ir.ops.cp_async import CpAsyncCommit, CpAsyncLoad
from phalanx.ir.ops.gather import TmaGather
from phalanx.ir.ops.mbarrier import Arrive, Transaction
from phalanx.ir.ops.memory import FenceAsyncProxy, Load, Store
from phalanx.ir.ops.tile import Cast
from phalanx.ir.ops.tma import TmaLoad
from phalanx.ir.types import I32, ScalarType, TileType
from phalanx.ir.values import Const, Label, Value
from phalanx.ir.views import AnyView, BarrierRef, GlobalView, SharedView
from phalanx.passes.pipelining.multicast import Shared
from phalanx.passes.pipelining.pairs import Paired
from phalanx.passes.pipelining.rings import ONE, ZERO, Ring
from phalanx.passes.pipelining.staging import Staged, Transport
from phalanx.passes.rank_code import LoopCode

CHUNK = 8192
"""Bytes that the producer's threads bring at a time: a few registers each."""
FENCE = "what threads wrote is seen by the tensor cores"


class Producer:
    """Writes the role; `kept` is what it runs of the kernel, `rings` what it fills."""

    def __init__(
        self, rings: list[Ring], kept: set[Op], shared: dict[Staged, Shared], warps: int,
        paired: Mapping[Staged, Paired] | None = None,
    ) -> None:
        self.kept = kept
        self.shared = shared
        self.paired = paired or {}
        self.ranked: dict[Paired, tuple[Value, Value, Value | None]] = {}
        """What this rank fetches for pairs: where it begins in the array, and in the tile, and who gets it."""
        self.warps = warps
        """The size of the role."""
        self.masks: dict[Shared, Value] = {}
        """The CTAs of a mask, computed where the role begins."""
        self.clones = Clones()
        self.fills: dict[Op, Ring] = {}
        """Rings by the last of their loads: there all places are known."""
        self.staged = {item.load for ring in rings for item in ring.loads}
        for ring in rings:
            last = max(ring.loads, key=lambda item: item.home.ops.index(item.load))
            self.fills[last.load] = ring

    def block(self, block: Block) -> Block:
        """What the role runs of a block."""
        out: list[Op] = []
        for op in block.ops:
            if op in self.fills:
                out += self.fill(self.fills[op])
            elif op in self.staged:
                continue
            elif op in self.kept:
                copy = self.clones.copy(op, self.block)
                if isinstance(copy, For) and copy.pipelined is not None:
                    copy = dataclasses.replace(copy, pipelined=None)
                out.append(copy)
        return Block(tuple(out))

    def one_step(self, loop: For) -> list[Op]:
        """What one step of a loop fetches, outside the loop: what goes on to the next step leaves a scope here."""
        label = self.clones.known[loop.label] = Label("fetch")
        body = self.block(loop.body)
        if not any(isinstance(op, Continue) and op.label is label for op in body.walk()):
            return list(body.ops)

        def visit(op: Op) -> list[Op] | None:
            return [Leave(label, loc=op.loc)] if isinstance(op, Continue) and op.label is label else None

        return [Scope(label, rewrite(body, visit), loc=loop.loc)]

    def fill(self, ring: Ring) -> list[Op]:
        """Waits for a free stage and lets its tiles come."""
        code = LoopCode(ring.loads[0].load.loc)
        stage = ring.acquire(code)
        full = BarrierRef(ring.full, stage)
        if ring.path is Transport.COPY:
            copies = LoopCode(code.loc)
            for item in ring.loads:
                self.copy(copies, ring, item, stage, full)
            code.ops.append(Transaction(full, Block(tuple(copies.ops)), loc=code.loc))
        elif ring.flows:
            for item in ring.loads:
                view, tile = item.view.map(self.clones.of), ring.tile(item, stage)
                moved = Value(TileType(item.shape, item.view.dtype), item.view.array.name)
                code.ops.append(CpAsyncLoad(view, tile, moved, loc=item.load.loc))
            code.ops.append(CpAsyncCommit(full, loc=code.loc))
        else:
            for item in ring.loads:
                self.by_threads(code, item, ring.tile(item, stage))
            if any(item.products for item in ring.loads):
                code.ops.append(FenceAsyncProxy("cta", FENCE, loc=code.loc))
            code.ops.append(Arrive(full, ONE, loc=code.loc))
        ring.advance(code, ring.filling, stage)
        return code.ops

    def copy(self, code: LoopCode, ring: Ring, item: Staged, stage: Value, full: BarrierRef) -> None:
        """One copy of the engine."""
        cache = "evict_first" if item.load.once else None
        view, tile = item.view.map(self.clones.of), ring.tile(item, stage)
        together = self.shared.get(item)
        if item in self.paired:
            self.copy_for_pair(code, item, view, tile, full)
        elif view.index_axis is not None:
            code.ops.append(TmaGather(view, tile, full, self.warps, cache=cache, loc=item.load.loc))
        elif together is None:
            code.ops.append(TmaLoad(view, tile, full, cache=cache, loc=item.load.loc))
        else:
            code.ops.append(ClusterLoad(view, tile, full, self.masks[together], cache, loc=item.load.loc))

    def copy_for_pair(
        self, code: LoopCode, item: Staged, view: GlobalView, tile: SharedView, full: BarrierRef
    ) -> None:
        """One copy of this rank's share of a tile, whose bytes complete in the even CTA of each pair that gets it."""
        paired = self.paired[item]
        start, place, ctas = self.ranked[paired]
        if paired.extent < item.view.shape[paired.axis]:
            view = _moved(code, view, paired.axis, start, paired.extent)
        if paired.extent < item.shape[paired.axis]:
            tile = _moved(code, tile, paired.axis, place, paired.extent)
        cache = "evict_first" if item.load.once else None
        if view.index_axis is None:
            code.ops.append(TmaLoad(view, tile, full, ctas, cache, pair=True, loc=item.load.loc))
        else:  # those of one CTA: nobody shares rows by index
            code.ops.append(TmaGather(view, tile, full, self.warps, None, cache, True, loc=item.load.loc))

    def name_masks(self, code: LoopCode) -> None:
        """Computes the masks of the CTAs that fetch together, before anything is fetched."""
        for paired in dict.fromkeys(self.paired.values()):
            start, place = (
                code.chosen(dict(enumerate(numbers)), name)
                for numbers, name in ((paired.starts, "start"), (paired.places, "place"))
            )
            ctas = code.chosen(dict(enumerate(paired.masks)), "ctas", masks=True) if paired.is_sent else None
            self.ranked[paired] = start, place, ctas
        for together in self.shared.values():
            if together not in self.masks:
                self.masks[together] = code.chosen(dict(enumerate(together.masks)), "ctas", masks=True)

    def drain(self, code: LoopCode, rings: list[Ring]) -> None:
        """All stages have come back: no CTA leaves while a peer's release is on its way to it."""
        for ring in rings:
            if any(item in self.shared or item in self.paired for item in ring.loads):
                inner = LoopCode(code.loc)
                ring.advance(inner, ring.filling, ring.acquire(inner))
                stages = Const(ring.stages, I32)
                code.ops.append(
                    For(Value(I32), ZERO, stages, ONE, Block(tuple(inner.ops)), Label("drain"), loc=code.loc)
                )

    def by_threads(self, code: LoopCode, item: Staged, tile: SharedView) -> None:
        """A load and a store of the producer's threads, part by part where the tile is large."""
        view = item.view.map(self.clones.of)
        fill = self.clones.of(item.load.fill)
        axis = next((n for n, own in enumerate(view.kept) if own != view.index_axis), None)
        length = 1 if axis is None else item.shape[axis]
        each = item.nbytes // length
        part = next(n for n in range(length, 0, -1) if length % n == 0 and (each * n <= CHUNK or n == 1))
        if axis is None or part == length:
            self._move(code, item, view, tile, fill)
            return
        start = Value(I32, "part")
        inner = LoopCode(code.loc)
        self._move(inner, item, _moved(inner, view, axis, start, part), _moved(inner, tile, axis, start, part), fill)
        code.ops.append(
            For(start, ZERO, Const(length, I32), Const(part, I32), Block(tuple(inner.ops)), Label("parts"), loc=code.loc)
        )

    def _move(self, code: LoopCode, item: Staged, view: GlobalView, tile: SharedView, fill: Value) -> None:
        loaded = Value(TileType(view.shape, view.dtype), view.array.name)
        code.ops.append(Load(view, fill, loaded, item.load.once, loc=item.load.loc))
        code.ops.append(Store(tile, loaded, loc=item.load.loc))


def _moved(code: LoopCode, view: AnyView, kept: int, start: Value, part: int) -> AnyView:
    """The part of a view that begins at `start` along one of the axes that it keeps."""
    axis = view.kept[kept]
    offset = view.offsets[axis]
    if isinstance(offset.type, ScalarType) and offset.type != start.type:
        wide = Value(offset.type)
        code.ops.append(Cast(start, wide, loc=code.loc))
        start = wide
    new = start if isinstance(offset, Const) and offset.value == 0 else code.binary("add", offset, start)
    return view.replaced(
        offsets=tuple(new if n == axis else o for n, o in enumerate(view.offsets)),
        extents=tuple(part if n == axis else e for n, e in enumerate(view.extents)),
    )
