"""Regions of memory that instructions name: arrays, buffers and their views, barriers.

Which memory a view is of, its space says (`ir/spaces.py`); the classes differ only in what they hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import prod
from typing import Any, ClassVar, TypeGuard, TypeVar

from phalanx.frozen import frozen
from phalanx.ir.holders import Holder
from phalanx.ir.spaces import GLOBAL, SHARED, TENSOR, Space
from phalanx.ir.types import ArrayType, DType
from phalanx.ir.uses import Use
from phalanx.ir.values import Param, Value, constant_of
from phalanx.location import NOWHERE, Location
from phalanx.markers import attribute, operand, storage

CELL_BITS = 32
"""Bits of a cell of tensor memory."""

AnyView = TypeVar("AnyView", bound="View")
Show = Callable[[object], str]
"""Gives the text of a part in a listing."""


@frozen(eq=False, repr=False)
class Buffer:
    """A static buffer in the memory of every CTA, in the space that its class names.

    `reuse`: take over the memory of that buffer or barrier array. With `why`, the compiler chose to; then `after` may name
    a buffer behind which this one lies in that memory. `padded`: elements of 4 and 6 bits have as much room as those of 8,
    as tensor cores read them beside such: in shared memory each 16 neighbours lie at the beginning of 16 bytes, in tensor
    memory each has a byte.
    """

    space: ClassVar[Space]

    name: str
    shape: tuple[int, ...]
    dtype: DType
    loc: Location = NOWHERE
    reuse: Buffer | BarrierArray | None = None
    why: str = ""
    after: Buffer | None = None
    padded: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes of its elements, and of what fills the room between them."""
        return prod(self.shape) if self.padded else self.dtype.nbytes(prod(self.shape))

    @property
    def host_bytes(self) -> int:
        """The bytes of a NumPy array of its elements: what the simulator keeps it in, where no two share a byte."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def size_text(self) -> str:
        """How much memory it takes, in listings."""
        return f"{self.nbytes} bytes"


@frozen(eq=False, repr=False)
class SharedBuffer(Buffer):
    """A static buffer in the shared memory of every CTA."""

    space: ClassVar[Space] = SHARED


@frozen(eq=False, repr=False)
class TensorBuffer(Buffer):
    """A static buffer in the tensor memory of every CTA. Its shape is logical: where elements lie follows from the use.

    A pass finds out what it is used `for` (None before), at which `column` it begins, whether its kernel's products are
    those of a `pair` of CTAs, and the `bits` of the container of an element.
    """

    space: ClassVar[Space] = TENSOR

    purpose: Use | None = None
    column: int = 0
    columns: int = 0
    pair: bool = False
    bits: int = CELL_BITS

    @property
    def size_text(self) -> str:
        """Its columns, once they are planned."""
        if self.purpose is None:
            return super().size_text
        return f"{self.purpose.value}, columns {self.column} to {self.column + self.columns - 1}"


@frozen(eq=False, repr=False)
class BarrierArray:
    """`n` mbarriers of every CTA. `count` is what the user wrote, None where the compiler is to count the arrivals."""

    space: ClassVar[Space] = SHARED

    name: str
    n: int
    count: int | None = None
    init: bool = True
    checked: bool = True
    loc: Location = NOWHERE
    reuse: Buffer | BarrierArray | None = None
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
        """The bytes that its barriers take of shared memory."""
        return 8 * self.n

    @property
    def host_bytes(self) -> int:
        """What the simulator keeps for it: the same."""
        return self.nbytes

    @property
    def memory(self) -> BarrierArray:
        """Itself: as a region of memory it is whole."""
        return self


class View(Holder):
    """A box of memory: one offset and one extent per axis of an array or a buffer.

    `kept` lists the axes that form the view's shape, in its order; the others were indexed by an integer and have extent 1.
    At most one offset may be a rank-1 tile of indices: the rows it names.
    """

    __slots__ = ()

    offsets: tuple[Value, ...]
    extents: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def space(self) -> Space:
        """The kind of memory that it is in."""
        raise NotImplementedError(f"{type(self).__name__} does not say in which space it is")

    @property
    def memory(self) -> Param | Buffer:
        """The array or buffer that it is a box of."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it is a box of")

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The size of that memory along each axis; None where only a run knows it."""
        raise NotImplementedError(f"{type(self).__name__} does not say how large its memory is")

    @property
    def peer(self) -> Value | None:
        """The rank of the CTA whose memory is meant; None for the executing CTA's own, or where all share one."""
        return None

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its elements are")

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes that it keeps, in its order."""
        return tuple(self.extents[axis] for axis in self.kept)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements, those outside an array included."""
        return self.dtype.nbytes(prod(self.extents))

    @property
    def index_axis(self) -> int | None:
        """The axis whose offset is a tile of indices, if any."""
        return next((axis for axis, offset in enumerate(self.offsets) if offset.type.shape), None)  # type: ignore[union-attr]

    @property
    def run_time_extents(self) -> tuple[Value, ...]:
        """How much of each axis is meant, where only a run knows it of some; empty where the extents say it."""
        return ()

    @property
    def limits(self) -> tuple[Value, ...]:
        """Where what is there of the last axis begins and ends, if less than its memory has."""
        return ()

    @property
    def patches(self) -> Patches | None:
        """How the patches follow one another that it consists of; None for a box."""
        return None

    @property
    def is_box(self) -> bool:
        """Whether it is as many neighbours along each axis as its extents say."""
        return self.patches is None

    @property
    def moved(self) -> tuple[Value, ...]:
        """How far what is meant lies from where it begins, where it is no box."""
        return ()

    def in_bytes(self, memory: Any, offsets: tuple[Value, ...], extents: tuple[int, ...]) -> View:
        """The region as one of `memory`, which has the bytes of its memory."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its bytes are a box of")

    def replaced(self: AnyView, **changes: Any) -> AnyView:
        """A view with some of its fields changed: other offsets, extents or axes, another CTA."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def text(self, show: Show) -> str:
        """Itself in a listing: `X[%m:+64, 0:32]`, `s.at(%rank)[0:32].T`; a whole buffer has no brackets."""
        name = show(self.memory) + ("" if self.peer is None else f".at({show(self.peer)})")
        axes = [self._axis_text(axis, show) for axis in range(len(self.offsets))]
        box = "" if axes and all(axis == ":" for axis in axes) else f"[{', '.join(axes)}]"
        if list(self.kept) == sorted(self.kept):
            return name + box
        return name + box + (".T" if len(self.kept) == 2 else f".permute{self.kept}")

    def _axis_text(self, axis: int, show: Show) -> str:
        offset, extent = self.offsets[axis], self.extents[axis]
        if self.run_time_extents and constant_of(length := self.run_time_extents[axis]) is None:
            return f"{show(offset)}:+{show(length)}"
        start = constant_of(offset)
        if axis not in self.kept:
            return show(offset)
        if start == 0 and extent == self.sizes[axis]:
            return ":"
        if offset.type.shape:  # type: ignore[union-attr]
            return show(offset)
        if start is not None:
            return f"{start}:{int(start) + extent}"
        return f"{show(offset)}:+{extent}"


@frozen
class Patches:
    """How patches of a convolution follow one another in an array of images: one number for each axis of the pixels.

    A patch begins at pixels from `lower` to the image's last one plus `upper`, every `stride` of them; behind the last
    column the next row follows, and behind the last row the next image. It reaches so many pixels further: `reach`.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    stride: tuple[int, ...]
    reach: tuple[int, ...]


@frozen
class GlobalView(View):
    """A box of a global array, whose edges are masked.

    `within`, empty or two numbers: along the last axis only the elements from the first to before the second are there.
    With `patches` it is no box: its first extent counts patches, of which the first begins at the offsets, and it has of
    each the pixel `taps` further on; pixels that the image does not have are zeros.
    """

    array: Param = operand()
    offsets: tuple[Value, ...] = operand()
    extents: tuple[int, ...] = attribute()
    kept: tuple[int, ...] = attribute()
    within: tuple[Value, ...] = operand(default=())
    patches: Patches | None = attribute(default=None)
    taps: tuple[Value, ...] = operand(default=())

    space: ClassVar[Space] = GLOBAL  # type: ignore[misc]

    @property
    def memory(self) -> Param:
        """The array that it is a box of."""
        return self.array

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The sizes of the array, which only a run knows."""
        return (None,) * self.array_type.rank

    @property
    def limits(self) -> tuple[Value, ...]:
        """Where what is there of the last axis begins and ends, if less than the array has."""
        return self.within

    @property
    def moved(self) -> tuple[Value, ...]:
        """The taps: how far from where patches begin the pixels lie that are meant."""
        return self.taps

    @property
    def array_type(self) -> ArrayType:
        """The type of the array, with the facts that specialise the kernel."""
        assert isinstance(self.array.type, ArrayType)
        return self.array.type

    @property
    def dtype(self) -> DType:
        """The type of the array's elements."""
        return self.array_type.dtype

    @property
    def merged(self) -> int:
        """How many of its last axes the copy engine takes for one: its array's chunks where it has them whole, else 1."""
        chunk, rank = self.array_type.chunk, len(self.extents)
        count = len(chunk)
        whole = chunk and self.index_axis is None and self.extents[-count:] == chunk
        kept = self.kept[-count:] == tuple(range(rank - count, rank))
        return count if whole and kept and all(constant_of(offset) == 0 for offset in self.offsets[-count:]) else 1

    def text(self, show: Show) -> str:
        """Itself in a listing, with what of the last axis is there: `X[%m:+64].within(%low, %high)`."""
        if self.patches is not None:
            corner, taps = (", ".join(map(show, part)) for part in (self.offsets, self.taps))
            return f"{show(self.array)}.im2col([{corner}], taps=[{taps}], shape={self.shape}, {self._walk})"
        there = f".within({', '.join(map(show, self.within))})" if self.within else ""
        return super().text(show) + there

    @property
    def _walk(self) -> str:
        """How patches follow one another, in a listing."""
        assert self.patches is not None
        return f"lower={self.patches.lower}, upper={self.patches.upper}, stride={self.patches.stride}"

    def in_bytes(self, memory: Param, offsets: tuple[Value, ...], extents: tuple[int, ...]) -> GlobalView:
        """The region of an array of bytes."""
        return self.replaced(array=memory, offsets=offsets, extents=extents)


@frozen
class BufferView(View):
    """A box of a buffer in the memory of a CTA. A permutation of the axes in `kept` is a transpose.

    `cta` is the rank whose memory is meant, None for the own CTA. Rows that a tile of indices names are of all that the
    buffer has along that axis. `lengths`: one for each axis, where only a run knows how much of some is meant; of those the
    extent is how much there may be.
    """

    buffer: Buffer = storage()
    offsets: tuple[Value, ...] = operand()
    extents: tuple[int, ...] = attribute()
    kept: tuple[int, ...] = attribute()
    cta: Value | None = operand(default=None)
    lengths: tuple[Value, ...] = operand(default=())
    packed: DType | None = attribute(default=None)
    """What the bytes are, where a target sees a buffer of a packed type as bytes."""

    @property
    def element(self) -> DType:
        """The type of its elements as users declared it, on targets too, where packed memory is a matter of bytes."""
        return self.dtype if self.packed is None else self.packed

    @property
    def space(self) -> Space:
        """The space of its buffer."""
        return self.buffer.space

    @property
    def memory(self) -> Buffer:
        """The buffer that it is a box of."""
        return self.buffer

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The shape of its buffer."""
        return self.buffer.shape

    @property
    def peer(self) -> Value | None:
        """The rank whose memory is meant, if the view names one."""
        return self.cta

    @property
    def run_time_extents(self) -> tuple[Value, ...]:
        """How much of each axis is meant, where only a run knows it of some."""
        return self.lengths

    @property
    def dtype(self) -> DType:
        """The type of the buffer's elements."""
        return self.buffer.dtype

    @property
    def nbytes(self) -> int:
        """The bytes of its elements: what a copy brings and a barrier counts, also where there is room between them."""
        return self.element.dense_bytes(prod(self.extents)) if self.buffer.padded else super().nbytes

    def in_bytes(self, memory: Buffer, offsets: tuple[Value, ...], extents: tuple[int, ...]) -> BufferView:
        """The region of a buffer of bytes, which remembers what they are."""
        return self.replaced(buffer=memory, offsets=offsets, extents=extents, packed=self.dtype)


@frozen
class SharedView(BufferView):
    """A box of a shared buffer."""

    buffer: SharedBuffer = storage()

    space: ClassVar[Space] = SHARED  # type: ignore[misc]


@frozen
class TensorView(BufferView):
    """A box of a buffer in tensor memory."""

    buffer: TensorBuffer = storage()

    space: ClassVar[Space] = TENSOR  # type: ignore[misc]


@frozen
class BarrierRef(Holder):
    """One barrier of an array."""

    barrier: BarrierArray = storage()
    index: Value = operand()

    def text(self, show: Show) -> str:
        """Itself in a listing: the one barrier of an array without its index."""
        whole = self.barrier.n == 1 and constant_of(self.index) == 0
        return show(self.barrier) + ("" if whole else f"[{show(self.index)}]")


def in_global(item: object) -> TypeGuard[GlobalView]:
    """Whether it is a view of global memory."""
    return isinstance(item, View) and item.space is GLOBAL


def in_shared(item: object) -> TypeGuard[SharedView]:
    """Whether it is a view of shared memory, this CTA's or a peer's."""
    return isinstance(item, View) and item.space is SHARED


def in_tensor(item: object) -> TypeGuard[TensorView]:
    """Whether it is a view of tensor memory."""
    return isinstance(item, View) and item.space is TENSOR
