"""Results of a persistent loop leave through shared memory: the copy engine stores a tile while the next one is computed.

A store that is the only one to touch its array, once for each tile that is dealt, becomes a few parts: each waits until the
part before has left its buffer, is stored there, and goes on its way. Nothing in the kernel reads the array, and tiles that
are dealt to any number of clusters do not write the same place, so that nobody can tell the difference.

Threads hold whole rows of what products make, so that a part is some of its columns. Where the transpose is stored, it is
some of the rows. Registers are cut at powers of two, so that a part may be stored in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from phalanx.analysis.divisibility import Divisibility
from phalanx.analysis.signs import Signs
from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.core import Op
from phalanx.ir.effects import Mode
from phalanx.ir.ops.control import For, While
from phalanx.ir.ops.memory import FenceAsyncProxy, Store
from phalanx.ir.ops.tile import Part
from phalanx.ir.ops.tma import TmaCommit, TmaStore, TmaWait
from phalanx.ir.types import I32, TileType
from phalanx.ir.values import Const, Param, Value
from phalanx.ir.views import GlobalView, SharedBuffer, SharedView, in_global
from phalanx.passes.pipelining.places import Places
from phalanx.passes.rank_code import LoopCode

MOST_BYTES = 32768
"""Most bytes of the buffer that a tile leaves through; a larger tile goes in parts. Two smaller buffers took longer."""
WHOLE_BYTES = 65536
"""Most bytes of a tile that goes as a whole since threads hold neither whole rows nor whole columns (tensor memory)."""
NARROWEST = 128
"""Bytes of a row of a part: what the copy engine stores at a time."""
FEWEST = 8
"""Rows of a part: what a pattern of the swizzle has."""
FENCE = "what threads wrote is seen by the copy engine"


@dataclass(eq=False)
class Leaving:
    """A store that the copy engine carries out, in parts of `size` along `axis`; `loop` deals the tiles."""

    op: Op
    store: Store
    view: GlobalView
    loop: Op
    axis: int
    size: int
    buffer: SharedBuffer | None = None
    fixed: bool = False
    """Whether its parts are made one after the other, so that none may be larger."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a part."""
        return self.shape_of(self.size)

    def shape_of(self, size: int) -> tuple[int, ...]:
        """The shape of what has that size along the axis."""
        return tuple(size if axis == self.axis else extent for axis, extent in enumerate(self.view.shape))

    def at(self, start: int) -> tuple[int, ...]:
        """Where what begins at `start` along the axis begins."""
        return tuple(start if axis == self.axis else 0 for axis in range(len(self.view.shape)))

    @property
    def length(self) -> int:
        """The extent of the tile along the axis."""
        return self.view.shape[self.axis]

    @property
    def parts(self) -> int:
        """How many parts a tile has."""
        return -(-self.length // self.size)

    @property
    def nbytes(self) -> int:
        """The bytes of a part."""
        return self.size * (self.view.nbytes // self.length)

    def with_room(self, nbytes: int) -> Leaving:
        """A way out in fewer parts, of up to `nbytes` bytes; itself where that makes no difference."""
        size = None if self.fixed else _size(self.view, self.axis, nbytes)
        return self if size is None or -(-self.length // size) >= self.parts else replace(self, size=size)

    def written(self, tile: Value, first: int, size: int) -> Op:
        """What writes a piece into the buffer, which begins at `first` there."""
        assert self.buffer is not None
        return Store(_box(self.buffer, self.at(first), self.shape_of(size)), tile, loc=self.op.loc)

    def made_in_parts(self, width: int) -> Leaving | None:
        """The way out of a tile whose columns are made `width` at a time; None where those are no rows for the engine."""
        row = width * self.view.dtype.itemsize
        return None if row % NARROWEST else replace(self, axis=1, size=width, fixed=True)


def find_leaving(
    places: Places, divisibility: Divisibility, signs: Signs, loops: list[For], most: int = MOST_BYTES
) -> list[Leaving]:
    """The stores of a kernel that can leave so, in loops that hold one of `loops`; a part has `most` bytes at most."""
    touched: dict[Param, int] = {}
    for op in places.order:
        for access in op.effects().accesses:
            if access.region.space.is_common:
                memory = access.region.memory
                assert isinstance(memory, Param)
                touched[memory] = touched.get(memory, 0) + 1 + (access.mode is Mode.ATOMIC)
    found = []
    for op in places.order:
        store = op.tile_store
        if store is None or not in_global(view := store.view):
            continue
        around = [outer for outer in places.around[op] if isinstance(outer, For | While)]
        if not around or not _deals(around[-1]) or not any(around[-1] in places.around[loop] for loop in loops):
            continue
        if touched[view.array] != 1 or not _can_copy(view, divisibility, signs):
            continue
        axis = 0 if _is_transposed(places, store.value) else 1
        size = _size(view, axis, most)
        if size is not None:
            found.append(Leaving(op, store, view, around[-1], axis, size))
    return found


def _is_transposed(places: Places, value: Value) -> bool:
    """Whether a tile is the transpose of what a product made, element by element."""
    maker = places.makers.get(value)
    if maker is None or maker.product is not None:
        return False
    if maker.permutation is not None:
        return not _is_transposed(places, maker.permutation.x)
    alike = (x for x in maker.operands() if isinstance(x.type, TileType) and x.type.shape == value.type.shape)  # type: ignore[union-attr]
    return maker.effects().is_pure and any(_is_transposed(places, x) for x in alike)


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


def _size(view: GlobalView, axis: int, most: int) -> int | None:
    """The size of parts along an axis, each of `most` bytes at most: all alike, but for the last of parts that are rows."""
    length = view.shape[axis]
    each = view.nbytes // length
    grain = NARROWEST // view.dtype.itemsize if axis else FEWEST
    if length * each <= most:
        return length
    if most < grain * each or length % grain:
        return None
    if axis == 0:
        parts = -(-length // (most // each // grain * grain))
        return -(-length // parts // grain) * grain
    size = grain
    while 2 * size * each <= most and length % (2 * size) == 0:
        size *= 2
    return size


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    """What registers are cut into, from one place to another: each piece a power of two, at a multiple of itself."""
    while start < end:
        size = 1 << (end - start).bit_length() - 1
        while start % size:
            size //= 2
        yield start, size
        start += size


def leave(item: Leaving) -> list[Op]:
    """Replaces a store: threads write each part of the tile into a buffer, from which the copy engine stores it."""
    value, code = item.store.value, LoopCode(item.op.loc)
    assert isinstance(value.type, TileType)
    whole = item.shape == item.view.shape
    for start in range(0, item.length, item.size):
        end = min(item.length, start + item.size)
        pieces: list[Op] = []
        for first, size in ((start, end),) if whole else _pieces(start, end):
            part = value
            if not whole:
                part = Value(TileType(item.shape_of(size), value.type.dtype), value.name)
                pieces.append(Part(value, item.at(first), part, loc=code.loc))
            pieces.append(item.written(part, first - start, size))
        code.ops += leave_part(item, start, end, pieces)
    return code.ops


def leave_part(item: Leaving, start: int, end: int, pieces: Iterable[Op]) -> list[Op]:
    """Lets the part of a tile from `start` to `end` leave, which `pieces` write into the buffer."""
    buffer, view = item.buffer, item.view
    assert buffer is not None
    code = LoopCode(item.op.loc)
    along = view.kept[item.axis]
    code.ops.append(TmaWait(0, True, loc=code.loc))
    code.ops += pieces
    offset = view.offsets[along]
    if start:
        offset = code.binary("add", offset, Const(start, offset.type))  # type: ignore[arg-type]
    region = view.replaced(
        offsets=tuple(offset if axis == along else o for axis, o in enumerate(view.offsets)),
        extents=tuple(end - start if axis == along else e for axis, e in enumerate(view.extents)),
    )
    out = _box(buffer, item.at(0), item.shape_of(end - start))
    code.ops += [FenceAsyncProxy("cta", FENCE, loc=code.loc), TmaStore(out, region, loc=code.loc), TmaCommit(loc=code.loc)]
    return code.ops


def _box(buffer: SharedBuffer, starts: tuple[int, ...], shape: tuple[int, ...]) -> SharedView:
    """A part of a buffer."""
    return SharedView(buffer, tuple(Const(start, I32) for start in starts), shape, tuple(range(len(shape))))


def all_gone(loop: Op) -> Op:
    """Waits, behind a loop, until the copy engine has written all tiles that the loop stored."""
    return TmaWait(0, loc=loop.loc)
