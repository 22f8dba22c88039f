"""Regions of memory that instructions name: global views, shared buffers and their views, barriers."""

from __future__ import annotations

from math import prod

from phalanx.frozen import frozen
from phalanx.ir.location import NOWHERE, Location
from phalanx.ir.types import ArrayType, DType
from phalanx.ir.values import Param, Value


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
class GlobalView:
    """A box of a global array: one offset and one extent per array axis.

    `kept` lists the axes that form the view's shape; the others were indexed by an integer and have extent 1. At most one
    offset may be a rank-1 i32 tile: the rows it names.
    """

    array: Param
    offsets: tuple[Value, ...]
    extents: tuple[int, ...]
    kept: tuple[int, ...]

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


def _index_axis(offsets: tuple[Value, ...]) -> int | None:
    return next((axis for axis, offset in enumerate(offsets) if offset.type.shape), None)  # type: ignore[union-attr]


@frozen
class SharedView:
    """A box of a shared buffer. `kept` lists the buffer's axes in the view's order (a permutation is a transpose).

    `cta` is the rank whose memory is meant, None for the own CTA. At most one offset may be a rank-1 tile of indices: the
    rows it names, of all that the buffer has along that axis. With `length`, known at run time, only so many of the view's
    first axis are meant; its extent is how many there may be.
    """

    buffer: SharedBuffer
    offsets: tuple[Value, ...]
    extents: tuple[int, ...]
    kept: tuple[int, ...]
    cta: Value | None = None
    length: Value | None = None

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


@frozen
class BarrierRef:
    """One barrier of an array."""

    barrier: BarrierArray
    index: Value


View = GlobalView | SharedView
