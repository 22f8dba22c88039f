"""Register tiles without contents, and parts of register tiles."""

from __future__ import annotations

from phalanx.ir.ops.tile import Empty, Keep, Part, Reshape
from phalanx.ir.types import TileType, f32
from phalanx.ir.values import Value
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.objects import Arguments, Slice, describe, load_scalar
from phalanx.language.operators import dtype_of, is_scalar, is_tile, shape_of
from phalanx.language.requirements import require_dtype, require_shape


@builtin("empty")
def empty(ctx: Builder, shape: object, dtype: object = f32) -> Value:
    """A tile with nothing in it yet: for an accumulator whose first product does not read it (``accumulate=k > 0``).

    Any agent; any GPU; no PTX (registers without a value). The simulator fills it with NaN.
    Example: ``acc = px.empty((128, 256), px.f32)``.
    """
    sizes = require_shape(ctx, "px.empty", shape)
    result = Value(TileType(sizes, require_dtype(ctx, "px.empty", dtype)))
    ctx.emit(Empty(result, loc=ctx.loc))
    return result


@builtin("keep")
def keep(ctx: Builder, x: object) -> Value:
    """A tile or scalar, held as it is; what was computed from it is computed again where it is needed later.

    Any agent; any GPU; PTX ``add`` of a zero that no compiler knows. For a long row of bf16 that is read once, reduced,
    and scaled: without it the compiler may hold the row a second time, as f32. For an offset, too, from which as many
    indices are made twice: without it the compiler may hold them all from the loads to the stores.
    Example: ``x = px.keep(x)``.
    """
    x = load_scalar(ctx, x)
    if not is_tile(x) and not is_scalar(x):
        ctx.fail(f"px.keep holds a register tile or a scalar, not {describe(x)}", "load the view first: px.load(view)")
    x = operand(x)
    result = Value(x.type)
    ctx.emit(Keep(x, result, loc=ctx.loc))
    return result


def tile_part(ctx: Builder, tile: Value, index: Arguments) -> Value:
    """`tile[a:b, :]`: a part with constant bounds, without moving elements between threads; None adds an axis of 1."""
    if any(item is None for item in index):
        return _with_new_axes(ctx, tile, index)
    shape = shape_of(tile)
    if len(index) > len(shape):
        ctx.fail(f"{len(index)} indices for a tile with {len(shape)} axes", "give at most one slice per axis")
    starts, sizes = [], []
    for axis, size in enumerate(shape):
        item = index[axis] if axis < len(index) else Slice(None, None, None)
        if not isinstance(item, Slice) or item.step not in (None, 1):
            shown = "a slice with a step" if isinstance(item, Slice) else describe(item)
            ctx.fail(
                f"axis {axis} of a tile is indexed by {shown}",
                "a tile is indexed by slices with constant bounds and None, e.g. acc[:, 0:64], x[:, None]; single elements "
                "have no index",
            )
        start = 0 if item.start is None else item.start
        stop = size if item.stop is None else item.stop
        if not isinstance(start, int) or not isinstance(stop, int):
            ctx.fail("the bounds of a tile's slice are compile-time constants", "unroll the loop with px.static_range")
        if not 0 <= start < stop <= size:
            ctx.fail(
                f"slice {start}:{stop} is outside axis {axis} of the tile, of size {size}", "parts are not clipped"
            )
        starts.append(start)
        sizes.append(stop - start)
    if tuple(sizes) == shape:
        return tile
    result = Value(TileType(tuple(sizes), dtype_of(tile)))
    ctx.emit(Part(tile, tuple(starts), result, loc=ctx.loc))
    return result


def _with_new_axes(ctx: Builder, tile: Value, index: Arguments) -> Value:
    """`x[:, None]`: the part that the other indices name, with an axis of size 1 where a None stands."""
    part = tile_part(ctx, tile, tuple(item for item in index if item is not None))
    left = list(shape_of(part))
    sizes = [1 if item is None else left.pop(0) for item in index] + left
    result = Value(TileType(tuple(sizes), dtype_of(part)))
    ctx.emit(Reshape(part, result, loc=ctx.loc))
    return result
