"""Results of a persistent loop leave through shared memory: the copy engine stores a tile while the next one is computed.

A store that is the only one to touch its array, once for each tile that is dealt, becomes a few parts: each waits until the
part before has left its buffer, is stored there, and goes on its way. Nothing in the kernel reads the array, and tiles that
are dealt to any number of clusters do not write the same place, so that nobody can tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.analysis.divisibility import Divisibility
from phalanx.analysis.signs import Signs
from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.core import Op
from phalanx.ir.effects import Mode
from phalanx.ir.ops.control import For, While
from phalanx.ir.ops.memory import FenceAsyncProxy, Store
from phalanx.ir.ops.tile import Part
from phalanx.ir.ops.tma import TmaCommit, TmaStore, TmaWait
from phalanx.ir.spaces import GLOBAL
from phalanx.ir.types import I32, TileType
from phalanx.ir.values import Const, Param, Value
from phalanx.ir.views import GlobalView, SharedBuffer, SharedView, in_global
from phalanx.passes.pipelining.places import Places
from phalanx.passes.rank_code import LoopCode

MOST_BYTES = 32768
"""Of the buffer that a tile leaves through: what is larger goes in parts. Two smaller ones in turn took longer."""
WHOLE_BYTES = 65536
"""Of a tile that goes as a whole, where threads hold neither whole rows nor whole columns of it (tensor memory)."""
NARROWEST = 128
"""Bytes of a row of a part: what the copy engine stores at a time."""
FENCE = "what threads wrote is seen by the copy engine"


@dataclass(eq=False)
class Leaving:
    """A store that the copy engine carries out; `loop` deals the tiles. `columns` of a row go at a time."""

    op: Op
    store: Store
    view: GlobalView
    loop: Op
    columns: int
    buffer: SharedBuffer | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a part."""
        return self.view.shape[0], self.columns

    @property
    def parts(self) -> int:
        """How many parts a tile has."""
        return self.view.shape[1] // self.columns

    @property
    def nbytes(self) -> int:
        """The bytes of a part."""
        return self.shape[0] * self.columns * self.view.dtype.itemsize


def find_leaving(
    places: Places, divisibility: Divisibility, signs: Signs, loops: list[For], most: int = MOST_BYTES
) -> list[Leaving]:
    """The stores of a kernel that can leave so, in loops that hold one of `loops`; a part has `most` bytes at most."""
    touched: dict[Param, int] = {}
    for op in places.order:
        for access in op.effects().accesses:
            if access.region.space is GLOBAL:
                memory = access.region.memory
                assert isinstance(memory, Param)
                touched[memory] = touched.get(memory, 0) + 1 + (access.mode is Mode.ATOMIC)
    found = []
    for op in places.order:
        store = op.tile_store
        if store is None or store.view.space is not GLOBAL:
            continue
        view = store.view
        assert in_global(view)
        around = [outer for outer in places.around[op] if isinstance(outer, For | While)]
        if not around or not _deals(around[-1]) or not any(around[-1] in places.around[loop] for loop in loops):
            continue
        if touched[view.array] != 1 or not _can_copy(view, divisibility, signs):
            continue
        columns = _columns(view, most)
        if columns is not None:
            found.append(Leaving(op, store, view, around[-1], columns))
    return found


def _deals(loop: Op) -> bool:
    if loop.dealt_tiles is not None:
        return True
    return isinstance(loop, While) and any(op.draw is not None for op in loop.test)


def _can_copy(view: GlobalView, divisibility: Divisibility, signs: Signs) -> bool:
    """Whether the copy engine takes the region, without a second way for starts before the array."""
    kind, item = view.array_type, view.dtype.itemsize
    if view.index_axis is not None or len(view.shape) != 2 or view.dtype.bits % 8 or view.kept[1] != kind.rank - 1:
        return False
    if not kind.unit_inner or not kind.aligned or kind.rank > 5 or list(view.kept) != sorted(view.kept):
        return False
    if view.shape[1] * item % NARROWEST or not all(map(signs.nonnegative, view.offsets)):
        return False
    return divisibility.proves(view.offsets[-1], item, COPY_CHUNK)


def _columns(view: GlobalView, most: int) -> int | None:
    """The columns of a part."""
    rows, columns = view.shape
    item = view.dtype.itemsize
    while rows * columns * item > most and columns * item % (2 * NARROWEST) == 0:
        columns //= 2
    return columns if rows * columns * item <= most else None


def leave(item: Leaving) -> list[Op]:
    """What stands in the place of the store."""
    buffer, view, value, loc = item.buffer, item.view, item.store.value, item.op.loc
    assert buffer is not None and isinstance(value.type, TileType)
    code = LoopCode(loc)
    rows, width = item.shape
    zero = Const(0, I32)
    column = view.kept[1]
    out = SharedView(buffer, (zero, zero), item.shape, (0, 1))
    for start in range(0, view.shape[1], width):
        code.ops.append(TmaWait(0, True, loc=loc))
        part = value
        if width != view.shape[1]:
            part = Value(TileType((rows, width), value.type.dtype), value.name)
            code.ops.append(Part(value, (0, start), part, loc=loc))
        offset = view.offsets[column]
        if start:
            offset = code.binary("add", offset, Const(start, offset.type))  # type: ignore[arg-type]
        code.ops += [Store(out, part, loc=loc), FenceAsyncProxy("cta", FENCE, loc=loc)]
        region = view.replaced(
            offsets=tuple(offset if axis == column else o for axis, o in enumerate(view.offsets)),
            extents=tuple(width if axis == column else e for axis, e in enumerate(view.extents)),
        )
        code.ops += [TmaStore(out, region, loc=loc), TmaCommit(loc=loc)]
    return code.ops


def all_gone(loop: Op) -> Op:
    """Behind the loop all that left has arrived."""
    return TmaWait(0, loc=loop.loc)
