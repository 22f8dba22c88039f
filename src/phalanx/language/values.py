"""What a name in a kernel can stand for besides numbers, scalars and tiles: views, buffers, barriers, structs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.types import ArrayType, i32, i64
from phalanx.ir.values import Param, Value
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedView
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import check_arguments, signature_after
from phalanx.language.operators import binary, describe, is_scalar, is_tile, plural


@frozen
class Slice:
    """`start:stop` of a subscript; None where the user left it out."""

    start: Any
    stop: Any
    step: Any


@frozen
class Unavailable:
    """A name that has no value here, and why."""

    reason: str
    remedy: str = ""


@frozen
class BoundMethod:
    """A method of a front-end value, ready to be called."""

    owner: Any
    name: str
    fn: Callable[..., Any]

    def invoke(self, ctx: Builder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        check_arguments(ctx, f".{self.name}", signature_after(2, self.fn), args, kwargs)
        return self.fn(self.owner, ctx, *args, **kwargs)


def method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Exposes a method of a front-end class to kernels."""
    fn.__exposed__ = "method"  # type: ignore[attr-defined]
    return fn


def attribute(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Exposes a computed attribute of a front-end class to kernels."""
    fn.__exposed__ = "attribute"  # type: ignore[attr-defined]
    return fn


def exposed_names(cls: type) -> list[str]:
    return sorted(name for name in dir(cls) if hasattr(getattr(cls, name), "__exposed__"))


def get_member(ctx: Builder, owner: Any, members: type, name: str, kind: str) -> Any:
    """An exposed attribute or method of `owner`; unknown names list what there is."""
    fn = getattr(members, name, None)
    exposed = getattr(fn, "__exposed__", None)
    if exposed == "attribute":
        return fn(owner, ctx)  # type: ignore[misc]
    if exposed == "method":
        return BoundMethod(owner, name, fn)  # type: ignore[arg-type]
    listed = ", ".join("." + n for n in exposed_names(members))
    ctx.fail(f"{kind} has no attribute '{name}'", f"it has {listed}")


@frozen
class ViewValue:
    """A view of global or shared memory. A view of rank 0 stands for the element itself where a value is needed."""

    view: GlobalView | SharedView

    @property
    def kind_name(self) -> str:
        where = "global" if isinstance(self.view, GlobalView) else "shared"
        return f"a view of {where} memory"

    @attribute
    def shape(self, ctx: Builder) -> Any:
        return self.view.shape

    @attribute
    def dtype(self, ctx: Builder) -> Any:
        return self.view.dtype

    @attribute
    def nbytes(self, ctx: Builder) -> Any:
        return self.view.nbytes

    @attribute
    def T(self, ctx: Builder) -> Any:
        if isinstance(self.view, GlobalView):
            ctx.fail("a view of global memory has no transpose", "load it and transpose the tile: px.load(view).T")
        return ViewValue(dataclasses.replace(self.view, kept=tuple(reversed(self.view.kept))))

    @method
    def at(self, ctx: Builder, cta: Any) -> Any:
        """The same region in the shared memory of CTA `cta` of the cluster."""
        if isinstance(self.view, GlobalView):
            ctx.fail(
                ".at(cta) is for shared memory, this is a view of global memory",
                "global memory is the same for all CTAs: leave .at away",
            )
        cta = require_index(ctx, "the CTA rank of .at", cta)
        size = ctx.cluster[0] * ctx.cluster[1] * ctx.cluster[2]
        if isinstance(cta, int) and not 0 <= cta < size:
            ctx.fail(
                f".at({cta}) is outside the cluster of {size} CTA{'s' if size > 1 else ''}",
                f"ranks run from 0 to {size - 1}; the cluster is set by @px.kernel(cluster=...)",
            )
        return ViewValue(dataclasses.replace(self.view, cta=operand(cta)))

    def subscript(self, ctx: Builder, index: tuple[Any, ...]) -> ViewValue | RunTimeRegion:
        """A part of the view: integers drop an axis, slices keep it."""
        view = self.view
        if len(index) > len(view.kept):
            counts = (
                f"{plural(len(index), 'index', 'indices')} for a view with {plural(len(view.kept), 'axis', 'axes')}"
            )
            ctx.fail(counts, f"its shape is {view.shape}")
        offsets, extents = list(view.offsets), list(view.extents)
        kept: list[int] = []
        length = None
        for position, axis in enumerate(view.kept):
            item = index[position] if position < len(index) else Slice(None, None, None)
            if not kept and isinstance(view, SharedView) and (found := run_time_extent(ctx, item)) is not None:
                start, length = (0 if item.start is None else item.start), found
                item = Slice(start, view.extents[axis], None) if isinstance(start, int) else Slice(None, None, None)
                if not isinstance(start, int):
                    offsets[axis] = operand(add_offsets(ctx, view.offsets[axis], start))
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
                where = f"shared buffer '{view.buffer.name}'" if isinstance(view, SharedView) else "the view"
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
        part = dataclasses.replace(view, offsets=tuple(offsets), extents=tuple(extents), kept=tuple(kept))
        if length is not None:
            assert isinstance(part, SharedView)
            return RunTimeRegion(dataclasses.replace(part, length=operand(length)))
        return ViewValue(part)

    def check_whole(self, ctx: Builder, axis: int) -> None:
        """Along an axis that an index tile goes into, a view has all of a shared buffer, and no other index tile."""
        view = self.view
        if isinstance(view, GlobalView):
            ctx.fail("an index tile can't be applied to a part of a view", "index the array itself: A[rows, k:k+BK]")
        name = view.buffer.name
        if view.index_axis is not None:
            ctx.fail("more than one index tile in a subscript", "only one axis can be indexed by a tile")
        if view.extents[axis] != view.buffer.shape[axis]:
            ctx.fail(
                f"an index tile can't be applied to a part of '{name}'",
                f"its indices count from the start of the buffer: index '{name}' itself, e.g. {name}[index]",
            )


@frozen
class RunTimeRegion:
    """A part of a shared buffer whose first extent only a run knows: pushes alone take it."""

    view: SharedView
    kind_name = "a region whose extent is known only at run time"

    @method
    def at(self, ctx: Builder, cta: Any) -> Any:
        """The same region in the shared memory of CTA `cta` of the cluster."""
        there = ViewValue(self.view).at(ctx, cta)
        return RunTimeRegion(there.view)


def run_time_extent(ctx: Builder, item: Any) -> Any:
    """`stop - start` of a slice, where that is not known before a run; None where it is, or where it is no slice."""
    if not isinstance(item, Slice) or item.step not in (None, 1) or item.stop is None:
        return None
    start, stop = 0 if item.start is None else item.start, item.stop
    if any(isinstance(part, bool) or not (isinstance(part, int) or is_integer_scalar(part)) for part in (start, stop)):
        return None
    if ctx.affine_of(stop).combine(ctx.affine_of(start), -1).number is not None:
        return None
    return binary(ctx, "sub", stop, start) if start != 0 or not isinstance(start, int) else stop


def is_integer_scalar(value: Any) -> bool:
    return isinstance(value, Value) and is_scalar(value) and value.type.dtype.is_integer  # type: ignore[union-attr]


def add_offsets(ctx: Builder, base: Value, start: Any) -> Any:
    from phalanx.ir.values import constant_of

    number = constant_of(base)
    if number is not None:
        return binary(ctx, "add", start, int(number))
    return binary(ctx, "add", base, start)


def require_index(
    ctx: Builder, what: str, value: Any, remedy: str = "e.g. a number, px.block_id(0), or x.to(px.i32)"
) -> Any:
    """The integer scalar that `value` is: indices are numbers or scalars, an element of memory is read."""
    value = load_scalar(ctx, value)
    if isinstance(value, bool) or not (
        isinstance(value, int) or (is_scalar(value) and isinstance(value, Value) and value.type.dtype.is_integer)
    ):
        ctx.fail(f"{what} must be an integer, not {describe(value)}", remedy)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        ctx.fail(f"{what} is {value}", "it must fit 64 bits: check the constants it comes from")
    return value


CONSTANT_EXTENT = (
    "write start and stop so that their difference is a constant, e.g. A[m:m+BM], or use A.tile(offsets, shape)"
)


def read_index(ctx: Builder, item: Any, size: int | None, position: int) -> tuple[Any, int, bool]:
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
            stop: Any = size
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
        if item.type.dtype not in (i32, i64) or len(item.type.shape) != 1:
            ctx.fail(
                f"an index tile must be i32[n], not {item.type}",
                "compute it with px.arange or load it from an index array",
            )
        return item, item.type.shape[0], True
    return require_index(ctx, f"the index on axis {position}", item), 1, False


def load_scalar(ctx: Builder, item: Any) -> Any:
    """A view of rank 0 becomes the element it names; everything else stays."""
    if isinstance(item, ViewValue) and item.view.shape == ():
        from phalanx.language.ops.memory import load_view

        element = _named_element(ctx, item.view)
        found = ctx.already_read(element)
        if found is None:
            found = load_view(ctx, item.view, 0)
            ctx.remember_read(element, found)
        return found
    return item


def _named_element(ctx: Builder, view: GlobalView | SharedView) -> Hashable:
    """An element of memory as its subscript names it: `I[k]` written twice is the same one."""
    memory: Any = view.array if isinstance(view, GlobalView) else (view.buffer, view.cta)
    return memory, tuple(ctx.affine_of(offset) for offset in view.offsets)


def array_subscript(ctx: Builder, array: Param, index: tuple[Any, ...]) -> ViewValue:
    """`A[...]` of a global array."""
    assert isinstance(array.type, ArrayType)
    rank = array.type.rank
    if len(index) != rank:
        ctx.fail(
            f"{plural(len(index), 'index', 'indices')} for the array '{array.name}' "
            f"with {plural(rank, 'axis', 'axes')}",
            "give one integer or slice per axis",
        )
    offsets, extents, kept = [], [], []
    for axis, item in enumerate(index):
        start, extent, keep = read_index(ctx, item, None, axis)
        offsets.append(operand(start))
        extents.append(extent)
        if keep:
            kept.append(axis)
    if sum(is_tile(o) for o in offsets) > 1:
        ctx.fail("more than one index tile in a subscript", "only one axis can be indexed by a tile")
    return ViewValue(GlobalView(array, tuple(offsets), tuple(extents), tuple(kept)))


class ArrayMembers:
    """Attributes of a global array."""

    @attribute
    def shape(self: Any, ctx: Builder) -> Any:
        """Its extents, run-time values."""
        return tuple(ctx.extent(self, axis) for axis in range(self.type.rank))

    @attribute
    def dtype(self: Any, ctx: Builder) -> Any:
        """Its element type."""
        return self.type.dtype

    @attribute
    def aligned(self: Any, ctx: Builder) -> Any:
        """Whether rows are read in vectors of 16 bytes: neighbours lie side by side, rows begin at multiples of 16."""
        return self.type.aligned and self.type.unit_inner

    @method
    def tile(self: Any, ctx: Builder, offsets: Any, shape: Any) -> Any:
        """The region of `shape` at `offsets`."""
        offsets = offsets if isinstance(offsets, tuple) else (offsets,)
        shape = shape if isinstance(shape, tuple) else (shape,)
        rank = self.type.rank
        if len(offsets) != rank or len(shape) != rank:
            ctx.fail(
                f".tile got {plural(len(offsets), 'offset')} and {plural(len(shape), 'size')}, "
                f"the array '{self.name}' has {plural(rank, 'axis', 'axes')}",
                "give one offset and one size per axis: A.tile((m, n), (BM, BN))",
            )
        offsets = tuple(require_index(ctx, "an offset of .tile", item) for item in offsets)
        for item in shape:
            if not isinstance(item, int) or isinstance(item, bool) or item < 1:
                ctx.fail(
                    f"the shape of .tile must be made of positive constants, not {describe(item)}",
                    "e.g. A.tile((m, n), (64, 64))",
                )
        return ViewValue(GlobalView(self, tuple(map(operand, offsets)), shape, tuple(range(rank))))


@frozen
class BarrierValue:
    """One barrier, or an array of them."""

    array: BarrierArray
    index: Any = None
    kind_name = "a barrier"

    def ref(self, ctx: Builder) -> BarrierRef:
        """The barrier meant; an array of several needs an index."""
        if self.index is None:
            if self.array.n != 1:
                ctx.fail(
                    f"'{self.array.name}' is an array of {self.array.n} barriers",
                    f"name one of them: {self.array.name}[i]",
                )
            return BarrierRef(self.array, operand(0))
        return BarrierRef(self.array, operand(self.index))

    def subscript(self, ctx: Builder, index: tuple[Any, ...]) -> BarrierValue:
        if self.index is not None or len(index) != 1:
            ctx.fail(f"'{self.array.name}' is indexed once", f"write {self.array.name}[i]")
        item = require_index(ctx, "the index of a barrier", index[0])
        if isinstance(item, int) and not 0 <= item < self.array.n:
            ctx.fail(
                f"barrier index {item} is outside '{self.array.name}', which has {self.array.n} barriers",
                f"valid indices are 0 to {self.array.n - 1}",
                kind="out-of-bounds",
            )
        return BarrierValue(self.array, item)


@frozen(eq=False)
class StructClass:
    """A class of values usable in kernels, made by `@px.struct`. Instances live on the reader's heap."""

    name: str
    fields: tuple[str, ...]
    defaults: dict[str, Any]
    methods: dict[str, Callable[..., Any]]
    host: type | None = None
    natives: dict[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    """Methods of a built-in struct: functions of the builder, its `Fields` and the arguments."""

    @property
    def kind_name(self) -> str:
        return f"the struct {self.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outside kernels: an instance of the plain Python class."""
        if self.host is None:
            raise TypeError(f"{self.name} is made inside kernels")
        return self.host(*args, **kwargs)

    def __reduce__(self) -> Any:
        from phalanx.language.reader.capture import by_name

        if self.host is None:
            raise TypeError(f"{self.name} is made inside kernels")
        return by_name(self, self.host)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Lets another struct be derived from this one."""
        return (self.host,) if self.host is not None else ()


class Fields:
    """The fields of one struct in the reader's state, for its native methods."""

    def __init__(self, owner: StructValue, state: dict[Any, Any]) -> None:
        self.owner = owner
        self._state = state

    def __getitem__(self, name: str) -> Any:
        return self._state[(self.owner.ident, name)]

    def __setitem__(self, name: str, value: Any) -> None:
        self._state[(self.owner.ident, name)] = value


@frozen
class StructValue:
    """An instance of a struct: identity and class; its fields are part of the reader's state."""

    cls: StructClass
    ident: int

    @property
    def kind_name(self) -> str:
        return f"a {self.cls.name}"


__all__ = [
    "ArrayMembers", "BarrierValue", "BoundMethod", "Fields", "Slice", "StructClass", "StructValue", "Unavailable",
    "ViewValue", "array_subscript", "attribute", "get_member", "load_scalar", "method", "read_index", "require_index",
]
