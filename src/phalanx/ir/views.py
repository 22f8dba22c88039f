"""Regions of memory that instructions name: global views, shared buffers and their views, barriers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from phalanx.frozen import frozen
from phalanx.ir.holders import Holder
from phalanx.ir.location import NOWHERE, Location
from phalanx.ir.types import ArrayType, DType
from phalanx.ir.values import Param, Value, constant_of
from phalanx.markers import attribute, operand, storage


@frozen(eq=False, repr=False)
class SharedBuffer:
    """A static buffer in the shared memory of every CTA. `reuse`: take over the memory of that buffer or barrier array.

    With `why`, the compiler chose to; then `after` may name a buffer behind which this one lies in that memory.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    loc: Location = NOWHERE
    reuse: SharedBuffer | BarrierArray | None = None
    why: str = ""
    after: SharedBuffer | None = None

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


@frozen(eq=False, repr=False)
class BarrierArray:
    """`n` mbarriers of every CTA. `count` is what the user wrote, None where the compiler is to count the arrivals."""

    name: str
    n: int
    count: int | None = None
    init: bool = True
    checked: bool = True
    loc: Location = NOWHERE
    reuse: SharedBuffer | BarrierArray | None = None
    each: int | None = None
    """Arrivals of each CTA that signals it, as a user wrote who leaves the number of those CTAs to the compiler."""
    exchange: bool = False
    """The compiler's own, for exchanges over the cluster: users never see its name."""
    written: str = ""
    """What users call it, where that is no plain name: `pipe.full`."""

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.written or self.name

    @property
    def nbytes(self) -> int:
        return 8 * self.n


@frozen
class GlobalView(Holder):
    """A box of a global array: one offset and one extent per array axis.

    `kept` lists the axes that form the view's shape; the others were indexed by an integer and have extent 1. At most one
    offset may be a rank-1 i32 tile: the rows it names.
    """

    array: Param = operand()
    offsets: tuple[Value, ...] = operand()
    extents: tuple[int, ...] = attribute()
    kept: tuple[int, ...] = attribute()

    @property
    def array_type(self) -> ArrayType:
        assert isinstance(self.array.type, ArrayType)
        return self.array.type

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents[axis] for axis in self.kept)

    @property
    def dtype(self) -> DType:
        return self.array_type.dtype

    @property
    def nbytes(self) -> int:
        return prod(self.extents) * self.dtype.itemsize

    @property
    def index_axis(self) -> int | None:
        """The axis whose offset is a tile of indices, if any."""
        return _index_axis(self.offsets)

    def text(self, show: Callable[[object], str]) -> str:
        """Itself in a listing: `X[%m:+64, 0:32]`."""
        axes = [
            _axis_text(show, offset, extent, None, axis in self.kept)
            for axis, (offset, extent) in enumerate(zip(self.offsets, self.extents, strict=True))
        ]
        return show(self.array) + f"[{', '.join(axes)}]" + _permutation_text(self.kept)


def _axis_text(
    show: Callable[[object], str], offset: Value, extent: int, size: int | None, kept: bool, length: Value | None = None
) -> str:
    """One axis of a box in a listing; `size` is that of the memory along it, None where only a run knows it."""
    if length is not None:
        return f"{show(offset)}:+{show(length)}"
    start = constant_of(offset)
    if not kept:
        return show(offset)
    if start == 0 and extent == size:
        return ":"
    if offset.type.shape:  # type: ignore[union-attr]
        return show(offset)
    if start is not None:
        return f"{start}:{int(start) + extent}"
    return f"{show(offset)}:+{extent}"


def _permutation_text(kept: tuple[int, ...]) -> str:
    if list(kept) == sorted(kept):
        return ""
    return ".T" if len(kept) == 2 else f".permute{kept}"


def _index_axis(offsets: tuple[Value, ...]) -> int | None:
    return next((axis for axis, offset in enumerate(offsets) if offset.type.shape), None)  # type: ignore[union-attr]


@frozen
class SharedView(Holder):
    """A box of a shared buffer. `kept` lists the buffer's axes in the view's order (a permutation is a transpose).

    `cta` is the rank whose memory is meant, None for the own CTA. At most one offset may be a rank-1 tile of indices: the
    rows it names, of all that the buffer has along that axis. With `length`, known at run time, only so many of the view's
    first axis are meant; its extent is how many there may be.
    """

    buffer: SharedBuffer = storage()
    offsets: tuple[Value, ...] = operand()
    extents: tuple[int, ...] = attribute()
    kept: tuple[int, ...] = attribute()
    cta: Value | None = operand(default=None)
    length: Value | None = operand(default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents[axis] for axis in self.kept)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def nbytes(self) -> int:
        return prod(self.extents) * self.dtype.itemsize

    @property
    def index_axis(self) -> int | None:
        """The axis whose offset is a tile of indices, if any."""
        return _index_axis(self.offsets)

    def text(self, show: Callable[[object], str]) -> str:
        """Itself in a listing: `stages[%stage]`, `s.at(%rank)[0:32].T`; a whole buffer has no brackets."""
        name = show(self.buffer) + ("" if self.cta is None else f".at({show(self.cta)})")
        boxes = zip(self.offsets, self.extents, self.buffer.shape, strict=True)
        axes = [
            _axis_text(show, offset, extent, size, axis in self.kept, self.length if axis in self.kept[:1] else None)
            for axis, (offset, extent, size) in enumerate(boxes)
        ]
        box = "" if axes and all(axis == ":" for axis in axes) else f"[{', '.join(axes)}]"
        return name + box + _permutation_text(self.kept)


@frozen
class BarrierRef(Holder):
    """One barrier of an array."""

    barrier: BarrierArray = storage()
    index: Value = operand()

    def text(self, show: Callable[[object], str]) -> str:
        """Itself in a listing: the one barrier of an array without its index."""
        whole = self.barrier.n == 1 and constant_of(self.index) == 0
        return show(self.barrier) + ("" if whole else f"[{show(self.index)}]")


View = GlobalView | SharedView
