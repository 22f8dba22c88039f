"""Views of memory and arrays: what kernels slice, load from and store to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeGuard

from phalanx.frozen import frozen
from phalanx.ir.core import Note, values_in
from phalanx.ir.ops.memory import Load
from phalanx.ir.types import ArrayType, DType, ScalarType, TileType, bool_, i32, i64
from phalanx.ir.values import Param, Value, constant_of
from phalanx.ir.views import Buffer, GlobalView, SharedView, View, in_global, in_shared
from phalanx.language.builder import Builder, operand
from phalanx.language.objects import (
    OBJECTS_OF_TYPES,
    Arguments,
    KernelObject,
    Numeric,
    Slice,
    as_object,
    attribute,
    describe,
    load_scalar,
    method,
    plural,
)
from phalanx.language.operators import binary, cast, dtype_of, is_scalar, is_tile, shape_of
from phalanx.language.patches import PatchRegion, patches_of
from phalanx.language.requirements import is_constant_integer


@frozen
class ViewValue(KernelObject):
    """A view of global or shared memory. A view of rank 0 stands for the element itself where a value is needed."""

    view: View
    is_memory = True

    @property
    def kind_name(self) -> str:
        """The memory that it is a view of, in words."""
        return f"a view of {self.view.space.name} memory"

    @attribute
    def shape(self, ctx: Builder) -> tuple[int, ...]:
        """Its extents, a tuple of constants."""
        return self.view.shape

    @attribute
    def dtype(self, ctx: Builder) -> DType:
        """Its element type."""
        return self.view.dtype

    @attribute
    def nbytes(self, ctx: Builder) -> int:
        """How many bytes it has, as a barrier counts them."""
        return self.view.nbytes

    @attribute
    def T(self, ctx: Builder) -> ViewValue:
        """The axes of a shared view in reverse order.

        Any agent; any GPU; no PTX: nothing moves. Example: ``px.wgmma(As[s], Bs[s].T, acc)``.
        """
        if self.view.space.is_common:
            ctx.fail("a view of global memory has no transpose", "load it and transpose the tile: px.load(view).T")
        return ViewValue(self.view.replaced(kept=tuple(reversed(self.view.kept))))

    @method
    def at(self, ctx: Builder, cta: object) -> ViewValue:
        """This region in the shared memory of CTA `cta` of the cluster.

        Any agent; sm_90 and up; PTX ``mapa``, and ``ld``, ``st`` or ``atom`` of ``.shared::cluster``.
        Example: ``px.store(s.at(px.cluster.rank() ^ 1), x)``.
        """
        if self.view.space.is_common:
            ctx.fail(
                ".at(cta) is for shared memory, this is a view of global memory",
                "global memory is the same for all CTAs: leave .at away",
            )
        if not self.view.space.has_peers:
            ctx.fail(
                f".at(cta) is for shared memory, this is {self.kind_name}",
                f"a CTA reaches its own {self.view.space.name} memory alone: hand on through shared memory what others read",
            )
        rank = require_index(ctx, "the CTA rank of .at", cta)
        size = ctx.cluster_size
        if isinstance(rank, int) and not 0 <= rank < size:
            ctx.fail(
                f".at({rank}) is outside the cluster of {size} CTA{'s' if size > 1 else ''}",
                f"ranks run from 0 to {size - 1}; the cluster is set by @px.kernel(cluster=...)",
            )
        return ViewValue(self.view.replaced(cta=operand(rank)))

    @method
    def within(self, ctx: Builder, start: object, stop: object) -> ViewValue:
        """This view of a global array, of which along the last axis only the elements from `start` to before `stop` are
        there, as counted in the array: others load as `fill`, and are not stored.

        So a row of any length, somewhere in memory, is read and written in aligned vectors: those that its ends cut go
        element by element. For `px.load`, `px.store` and the atomics; any agent; any GPU; no PTX of its own.
        Example: ``px.store(F[at : at + 1024].within(row * n, row * n + n), x)`` with ``at = row * n // 8 * 8``.
        """
        view = self.view
        if not in_global(view):
            ctx.fail(f".within is for global memory, this is {self.kind_name}", "slice the buffer: s[start : start + 64]")
        last = len(view.extents) - 1
        if view.dtype.bits < 8:
            ctx.fail(f".within of elements of {view.dtype}, which share bytes", "give the array a byte for each element")
        if last not in view.kept or view.index_axis is not None:
            ctx.fail(
                ".within needs a slice of the last axis, and no index tile",
                "slice it first: A[i, n : n + BN].within(start, stop)",
            )
        if view.within:
            ctx.fail(".within was said of this view before", "say it once, of the slice that is loaded or stored")
        ends = [require_index(ctx, f"the {what} of .within", end) for what, end in (("start", start), ("stop", stop))]
        for end in ends:
            if not isinstance(end, int) and dtype_of(end) != i32:
                ctx.fail(f"a limit of .within is {dtype_of(end)}", "indices of an axis fit 32 bits: end.to(px.i32)")
        return ViewValue(view.replaced(within=tuple(map(operand, ends))))

    def member(self, ctx: Builder, name: str) -> object:
        """An attribute of the view, or of the element that a view of rank 0 stands for: ``X[1].to(px.i32)``."""
        if self.view.shape == () and not self.has_member(name):
            if as_object(Value(ScalarType(self.view.dtype))).has_member(name):
                return as_object(self.element(ctx)).member(ctx, name)
        return super().member(ctx, name)

    def element(self, ctx: Builder) -> object:
        """The element that a view of rank 0 names, read once where it is named several times at once."""
        if self.view.shape != ():
            return self
        name = _named_element(ctx, self.view)
        found = ctx.already_read(name)
        if found is None:
            found = load_view(ctx, self.view, 0)
            ctx.remember_read(name, found)
        return found

    def storage(self) -> Buffer | None:
        """The buffer that it is a view of, where it is one of a CTA's memory."""
        memory = self.view.memory
        return memory if isinstance(memory, Buffer) else None

    def held(self) -> Iterable[Value]:
        """The values that say where it begins and in which CTA."""
        return values_in(self.view)

    def form(self) -> Hashable | None:
        """The view without its offsets, unless a tile of indices is one of them."""
        return None if self.view.index_axis is not None else self.view.replaced(offsets=())

    def parts(self) -> tuple[object, ...]:
        """Its offsets."""
        return self.view.offsets

    def with_parts(self, parts: tuple[object, ...]) -> ViewValue:
        """The view at other offsets."""
        offsets = tuple(operand(part) for part in parts if is_scalar(part))
        return ViewValue(self.view.replaced(offsets=offsets))

    def subscript(self, ctx: Builder, index: Arguments) -> ViewValue | RunTimeRegion:
        """A part of the view: integers drop an axis, slices keep it."""
        view = self.view
        if len(index) > len(view.kept):
            counts = (
                f"{plural(len(index), 'index', 'indices')} for a view with {plural(len(view.kept), 'axis', 'axes')}"
            )
            ctx.fail(counts, f"its shape is {view.shape}")
        offsets, extents = list(view.offsets), list(view.extents)
        kept: list[int] = []
        lengths: dict[int, Value] = {}
        for position, axis in enumerate(view.kept):
            item = index[position] if position < len(index) else Slice(None, None, None)
            if in_shared(view) and (found := run_time_extent(ctx, item)) is not None:
                assert isinstance(item, Slice)
                first, lengths[axis] = (0 if item.start is None else item.start), operand(found)
                item = Slice(first, view.extents[axis], None)
                if isinstance(first, Value):
                    offsets[axis] = operand(add_offsets(ctx, view.offsets[axis], first))
                    kept.append(axis)
                    continue
            start, extent, keep = read_index(ctx, item, view.extents[axis], position)
            if is_tile(start):
                self.check_whole(ctx, axis)
                offsets[axis], extents[axis] = start, extent
                kept.append(axis)
                continue
            if is_tile(view.offsets[axis]):
                if isinstance(item, Slice) and item.start is None and item.stop is None:
                    kept.append(axis)
                    continue
                ctx.fail("rows named by an index tile can't be indexed again", "index the index tile, or load first")
            if isinstance(start, int) and (start < 0 or start + extent > view.extents[axis]):
                where = "the view" if view.space.is_common else f"{view.space.name} buffer '{view.memory.name}'"
                shown = f"slice {start}:{start + extent}" if keep else f"index {start}"
                ctx.fail(
                    f"{shown} is outside axis {position} of {where}, which has size {view.extents[axis]}",
                    "views are not clipped; make the buffer larger or the slice smaller",
                    kind="out-of-bounds",
                )
            offsets[axis] = operand(add_offsets(ctx, view.offsets[axis], start))
            extents[axis] = extent
            if keep:
                kept.append(axis)
        if sum(is_tile(offset) for offset in offsets) > 1:
            ctx.fail("more than one index tile in a subscript", "only one axis can be indexed by a tile")
        part = view.replaced(offsets=tuple(offsets), extents=tuple(extents), kept=tuple(kept))
        if lengths:
            assert in_shared(part)
            every = tuple(lengths.get(axis, operand(extent)) for axis, extent in enumerate(extents))
            return RunTimeRegion(part.replaced(lengths=every))
        return ViewValue(part)

    def check_whole(self, ctx: Builder, axis: int) -> None:
        """Along an axis that an index tile goes into, a view has all of a shared buffer, and no other index tile."""
        view = self.view
        if view.space.is_common:
            ctx.fail("an index tile can't be applied to a part of a view", "index the array itself: A[rows, k:k+BK]")
        name = view.memory.name
        if view.index_axis is not None:
            ctx.fail("more than one index tile in a subscript", "only one axis can be indexed by a tile")
        if view.extents[axis] != view.sizes[axis]:
            ctx.fail(
                f"an index tile can't be applied to a part of '{name}'",
                f"its indices count from the start of the buffer: index '{name}' itself, e.g. {name}[index]",
            )


@frozen
class RunTimeRegion(KernelObject):
    """A part of a shared buffer of which only a run knows some extents: pushes alone take it."""

    view: SharedView
    kind_name = "a region whose extent is known only at run time"
    is_memory = True

    @method
    def at(self, ctx: Builder, cta: object) -> RunTimeRegion:
        """This region in the shared memory of CTA `cta` of the cluster."""
        there = ViewValue(self.view).at(ctx, cta).view
        assert in_shared(there)
        return RunTimeRegion(there)

    def held(self) -> Iterable[Value]:
        """The values that say where it begins, how long it is and in which CTA."""
        return values_in(self.view)


def check_whole_bytes(ctx: Builder, view: View) -> View:
    """Refuses a region of packed memory that begins or ends within a byte, as far as that is known by now."""
    share, last = view.dtype.per_byte, len(view.extents) - 1
    if share == 1:
        return view
    name, start = view.memory.name, constant_of(view.offsets[last]) if last >= 0 else None
    if last not in view.kept:
        ctx.fail(
            f"an element of '{name}' has no place of its own: {share} of {view.dtype} share a byte",
            f"take {share} neighbours from an even place on, such as {name}[..., i:i+{share}] with i even, and load them",
        )
    if view.index_axis == last:
        ctx.fail(
            f"'{name}' is indexed by a tile along its last axis, where {share} elements of {view.dtype} share a byte",
            "index another axis by the tile, and take a slice of the last one",
        )
    if view.extents[last] % share or (start is not None and int(start) % share):
        where = f"{view.extents[last]} elements" if start is None else f"{start}:{int(start) + view.extents[last]}"
        ctx.fail(
            f"{where} along the last axis of '{name}' are not whole bytes: {share} of {view.dtype} share one",
            f"begin at a multiple of {share}, and take a multiple of {share} elements",
        )
    return view


def refuse_padded(ctx: Builder, what: str, view: View) -> None:
    """Refuses a buffer with room between its elements where threads would touch it."""
    if in_shared(view) and view.buffer.padded:
        ctx.fail(
            f"{what} of '{view.buffer.name}', which is padded",
            "px.tma.load fills a padded buffer and tensor cores read it; threads take one without padded=True",
        )


def refuse_dense(ctx: Builder, what: str, view: View) -> None:
    """Refuses an array whose elements of 6 bits lie four to three bytes where they would be read or written one by one."""
    if in_global(view) and view.array_type.dense:
        ctx.fail(
            f"{what} of '{view.array.name}', whose elements of {view.dtype} lie four to three bytes",
            "px.tma.load brings it to a px.shared buffer with padded=True, for tensor cores; threads take an array with a "
            "byte for each element, px.packed without dense=True",
        )


def check_ordinary(ctx: Builder, view: View) -> View:
    """Refuses memory that ordinary loads and stores do not reach."""
    refuse_dense(ctx, "an access", view)
    if view.space.instead:
        name = view.memory.name
        what = f"'{name}' is in {view.space.name} memory, which ordinary loads, stores and copies do not reach"
        ctx.fail(what, view.space.instead)
    return view


def load_view(ctx: Builder, view: View, fill: Numeric, once: bool = False, shifted: bool = False) -> Value:
    """A region of memory in registers: a tile, or a scalar where the region is one element."""
    check_ordinary(ctx, view)
    refuse_padded(ctx, "px.load", check_whole_bytes(ctx, view))
    shape = view.shape
    result = Value(TileType(shape, view.dtype) if shape else ScalarType(view.dtype))
    ctx.emit(Load(view, cast(ctx, fill, view.dtype), result, once, shifted, loc=ctx.loc))
    return result


def run_time_extent(ctx: Builder, item: object) -> int | Value | None:
    """`stop - start` of a slice, where that is not known before a run; None where it is, or where it is no slice."""
    if not isinstance(item, Slice) or item.step not in (None, 1) or item.stop is None:
        return None
    start, stop = 0 if item.start is None else item.start, item.stop
    if not is_index(start) or not is_index(stop):
        return None
    if ctx.affine_of(stop).combine(ctx.affine_of(start), -1).number is not None:
        return None
    if isinstance(start, int) and start == 0:
        return stop
    return require_index(ctx, "the extent of a slice", binary(ctx, "sub", stop, start))


def is_index(value: object) -> TypeGuard[int | Value]:
    """Whether a value can be an index as it is: an integer, or an integer scalar."""
    if isinstance(value, Value):
        return isinstance(value.type, ScalarType) and value.type.dtype.is_integer
    return is_constant_integer(value)


def add_offsets(ctx: Builder, base: Value, start: int | Value) -> Numeric:
    """Where a part begins that lies `start` behind `base`."""
    number = constant_of(base)
    if number is not None:
        return binary(ctx, "add", start, int(number))
    return binary(ctx, "add", base, start)


def index_tile_instead(item: Value) -> str:
    """What to write where an index tile is asked for and this tile was given."""
    if dtype_of(item) == bool_:
        return "px.where(condition, x, 0) chooses by a condition"
    if dtype_of(item) in (i32, i64):
        return "it names whole rows; single elements are those of a flat buffer: flat[(row * width + column).reshape(n)]"
    return "compute it with px.arange or load it from an index array"


def integers_instead(value: object) -> str:
    """What to write where an integer is asked for and this was given."""
    if is_scalar(value) and dtype_of(value).is_float:
        return "'/' gives floats: n // 2 is an integer, x.to(px.i32) makes one"
    as_call = as_object(value).as_call
    return f"call it: {as_call}" if as_call else "e.g. a number, px.block_id(0), or x.to(px.i32)"


def require_index(ctx: Builder, what: str, value: object, remedy: str | None = None) -> int | Value:
    """The integer scalar that `value` is: indices are numbers or scalars, an element of memory is read."""
    index = load_scalar(ctx, value)
    if not is_index(index):
        ctx.fail(f"{what} must be an integer, not {describe(index)}", remedy or integers_instead(index))
    if isinstance(index, int) and not -(2**63) <= index < 2**63:
        ctx.fail(f"{what} is {index}", "it must fit 64 bits: check the constants it comes from")
    return index


CONSTANT_EXTENT = (
    "write start and stop so that their difference is a constant, e.g. A[m:m+BM], or use A.tile(offsets, shape)"
)


def read_index(ctx: Builder, item: object, size: int | None, position: int) -> tuple[int | Value, int, bool]:
    """(start, extent, keeps its axis) of one subscript; `size` is the axis' constant extent where there is one."""
    if isinstance(item, Slice):
        if item.step not in (None, 1):
            ctx.fail(
                "slices in kernels have no step",
                "load the whole region, or pass the strided array X[::2] as an argument",
            )
        start = 0 if item.start is None else require_index(ctx, "the start of a slice", item.start)
        if item.stop is None:
            if size is None:
                ctx.fail(
                    f"the extent of the slice on axis {position} is not a constant: "
                    "the array's size is a run-time value",
                    CONSTANT_EXTENT,
                )
            stop: int | Value = size
        else:
            stop = require_index(ctx, "the stop of a slice", item.stop)
        extent = ctx.affine_of(stop).combine(ctx.affine_of(start), -1).number
        if extent is None:
            ctx.fail(
                f"the extent of the slice on axis {position} is not a constant: stop minus start does not simplify",
                CONSTANT_EXTENT,
            )
        if extent <= 0:
            ctx.fail(f"the slice on axis {position} has extent {extent}", "stop must be larger than start")
        return start, extent, True
    if is_tile(item):
        shape = shape_of(item)
        if dtype_of(item) not in (i32, i64) or len(shape) != 1:
            ctx.fail(
                f"an index tile must be i32[n], not {item.type}", index_tile_instead(item)
            )
        return item, shape[0], True
    return require_index(ctx, f"the index on axis {position}", item), 1, False


def _named_element(ctx: Builder, view: View) -> Hashable:
    """An element of memory as its subscript names it: `I[k]` written twice is the same one."""
    return view.memory, view.peer, tuple(ctx.affine_of(offset) for offset in view.offsets)


class ArrayObject(KernelObject):
    """A global array: a parameter of the kernel."""

    def __init__(self, array: Param) -> None:
        assert isinstance(array.type, ArrayType)
        self.array = array
        self.type = array.type

    @property
    def kind_name(self) -> str:
        """The array's name."""
        return f"the global array '{self.array.name}'"

    @property
    def short_name(self) -> str:
        """The array's name."""
        return f"the array '{self.array.name}'"

    @attribute
    def shape(self, ctx: Builder) -> tuple[Value, ...]:
        """Its extents, run-time values."""
        return tuple(ctx.extent(self.array, axis) for axis in range(self.type.rank))

    @attribute
    def dtype(self, ctx: Builder) -> DType:
        """Its element type."""
        return self.type.dtype

    @attribute
    def aligned(self, ctx: Builder) -> bool:
        """Whether rows are read in vectors of 16 bytes: neighbours lie side by side, rows begin at multiples of 16."""
        return self.type.aligned and self.type.unit_inner

    @method
    def tile(self, ctx: Builder, offsets: object, shape: object) -> ViewValue:
        """The region of `shape` at `offsets`.

        Any agent; any GPU; no PTX. For offsets that do not simplify in a slice.
        Example: ``px.load(A.tile((m, n), (BM, BN)))``.
        """
        starts = offsets if isinstance(offsets, tuple) else (offsets,)
        sizes = shape if isinstance(shape, tuple) else (shape,)
        rank = self.type.rank
        if len(starts) != rank or len(sizes) != rank:
            ctx.fail(
                f".tile got {plural(len(starts), 'offset')} and {plural(len(sizes), 'size')}, "
                f"the array '{self.array.name}' has {plural(rank, 'axis', 'axes')}",
                "give one offset and one size per axis: A.tile((m, n), (BM, BN))",
            )
        places = tuple(operand(require_index(ctx, "an offset of .tile", item)) for item in starts)
        for item in sizes:
            if not isinstance(item, int) or isinstance(item, bool) or item < 1:
                ctx.fail(
                    f"the shape of .tile must be made of positive constants, not {describe(item)}",
                    "e.g. A.tile((m, n), (64, 64))",
                )
        return ViewValue(GlobalView(self.array, places, sizes, tuple(range(rank))))

    @method
    def im2col(
        self, ctx: Builder, pixel: object, tap: object, channel: object, shape: object, *, kernel: object,
        stride: object = 1, padding: object = 0, dilation: object = 1,
    ) -> PatchRegion:
        """Rows of the matrix that a convolution multiplies: one for each pixel of its result, in order over all images.

        `shape` is (pixels, channels), constants. The rows are those of the pixels from `pixel` on, a number or (image,
        ..., column) in the result; of their patches they have the pixel `tap`, (row, column) in the kernel, from
        `channel` on. What padding adds, and pixels beyond the last image, are zeros. The array has the axes (images,
        [[depth,] height,] width, channels); `kernel`, `stride`, `padding` and `dilation` are constants, one or a tuple.
        For `px.tma.load`; any agent; sm_90 and up; PTX ``cp.async.bulk.tensor.im2col``.
        Example: ``px.tma.load(X.im2col(m, (r, s), c, (64, 32), kernel=3, padding=1), tile, bar)``.
        """
        return patches_of(ctx, self.array, pixel, tap, channel, shape, kernel, stride, padding, dilation)

    def subscript(self, ctx: Builder, index: Arguments) -> ViewValue:
        """`A[...]`: one integer, slice or tile of indices for each axis."""
        rank = self.type.rank
        if len(index) != rank:
            ctx.fail(
                f"{plural(len(index), 'index', 'indices')} for the array '{self.array.name}' "
                f"with {plural(rank, 'axis', 'axes')}",
                "give one integer or slice per axis",
            )
        offsets, extents, kept = [], [], []
        for axis, item in enumerate(index):
            start, extent, keep = read_index(ctx, item, None, axis)
            if isinstance(start, int) and start + extent <= 0:
                shown = f"{start}:{start + extent}" if keep else f"{start}"
                told = f"{shown} is outside '{self.array.name}' whatever its size: it loads as `fill`, and stores nothing"
                told += f"; the last element is {self.array.name}.shape[{axis}] - 1"
                ctx.notes.append(Note(told, ctx.loc, may_surprise=True))
            offsets.append(operand(start))
            extents.append(extent)
            if keep:
                kept.append(axis)
        if sum(is_tile(o) for o in offsets) > 1:
            ctx.fail("more than one index tile in a subscript", "only one axis can be indexed by a tile")
        return ViewValue(GlobalView(self.array, tuple(offsets), tuple(extents), tuple(kept)))


OBJECTS_OF_TYPES[ArrayType] = ArrayObject
