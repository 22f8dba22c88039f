"""`X.im2col(...)`: the patches of a convolution's input as rows of a matrix, which the copy engine gathers."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.frozen import frozen
from phalanx.ir.core import values_in
from phalanx.ir.types import ArrayType, ScalarType
from phalanx.ir.values import Param, Value
from phalanx.ir.views import GlobalView, Patches
from phalanx.language.builder import Builder, operand
from phalanx.language.objects import KernelObject, Numeric, describe, load_scalar
from phalanx.language.operators import binary
from phalanx.language.requirements import is_constant_integer

CORNER_BITS = {1: 16, 2: 8, 3: 5}
"""Bits of a corner of the box of pixels, and of a tap's place, by the number of axes that pixels have."""
MOST_PIXELS = 256
"""Rows of one copy."""
LARGEST_STRIDE = 8


@frozen
class PatchRegion(KernelObject):
    """Rows of a convolution's patches: `px.tma.load` alone takes them."""

    view: GlobalView
    kind_name = "patches of a convolution"
    is_memory = True

    def held(self) -> Iterable[Value]:
        """The values that say which they are."""
        return values_in(self.view)


def patches_of(
    ctx: Builder, array: Param, pixel: object, tap: object, channel: object, shape: object, kernel: object, stride: object,
    padding: object, dilation: object,
) -> PatchRegion:
    """The region of `X.im2col`: where its first pixel's patch begins in the array, and how it goes on from there."""
    assert isinstance(array.type, ArrayType)
    axes = array.type.rank - 2
    if axes not in CORNER_BITS:
        ctx.fail(
            f".im2col of '{array.name}', which has {array.type.rank} axes",
            "images have the axes (images, [[depth,] height,] width, channels): 3, 4 or 5",
        )
    if array.type.dtype.bits < 8:
        ctx.fail(f".im2col of elements of {array.type.dtype}, which share bytes", "give the array a byte for each element")
    sizes = _constants(ctx, "kernel=", kernel, axes, 1)
    strides = _constants(ctx, "stride=", stride, axes, 1)
    paddings = _constants(ctx, "padding=", padding, axes, 0)
    dilations = _constants(ctx, "dilation=", dilation, axes, 1)
    lower = tuple(-part for part in paddings)
    upper = tuple(pad - wide * (size - 1) for pad, size, wide in zip(paddings, sizes, dilations))
    patches = Patches(lower, upper, strides, tuple(wide * (size - 1) for size, wide in zip(sizes, dilations)))
    _check_corners(ctx, array, patches, 1 << CORNER_BITS[axes])
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(is_constant_integer(size) and size > 0 for size in shape):
        ctx.fail(f"the shape of .im2col is {describe(shape)}", "give (pixels, channels), two positive constants")
    rows, channels = shape
    if rows > MOST_PIXELS:
        ctx.fail(f".im2col of {rows} pixels", f"a copy has {MOST_PIXELS} at most")
    taps = _numbers(ctx, "the tap", tap, axes)
    for place, size in zip(taps, sizes):
        if isinstance(place, int) and not 0 <= place < size:
            ctx.fail(f"the tap {place} of a kernel of {size}", "taps count from 0", kind="out-of-bounds")
    image, first = _first_pixel(ctx, array, pixel, patches)
    starts = [binary(ctx, "add", binary(ctx, "mul", place, step), low) for place, step, low in zip(first, strides, lower)]
    (start,) = _numbers(ctx, "the channel", channel, 1)
    offsets = tuple(operand(part) for part in (image, *starts, start))
    extents = (rows, *(1,) * axes, channels)
    moved = tuple(operand(binary(ctx, "mul", place, wide)) for place, wide in zip(taps, dilations))
    return PatchRegion(GlobalView(array, offsets, extents, (0, axes + 1), patches=patches, taps=moved))


def _first_pixel(ctx: Builder, array: Param, pixel: object, patches: Patches) -> tuple[Numeric, list[Numeric]]:
    """The image and the place in the result of a pixel: as it is given, or out of its number among all of them."""
    axes = len(patches.stride)
    if isinstance(pixel, tuple):
        image, *first = _numbers(ctx, "the first pixel", pixel, axes + 1)
        return image, list(first)
    number: Numeric = _numbers(ctx, "the first pixel", pixel, 1)[0]
    places: list[Numeric] = []
    for axis in reversed(range(axes)):
        size = ctx.extent(array, axis + 1)
        room = binary(ctx, "add", size, patches.upper[axis] - patches.lower[axis] - 1)
        count = binary(ctx, "max", binary(ctx, "add", binary(ctx, "floordiv", room, patches.stride[axis]), 1), 1)
        places.insert(0, binary(ctx, "mod", number, count))
        number = binary(ctx, "floordiv", number, count)
    return number, places


def _check_corners(ctx: Builder, array: Param, patches: Patches, limit: int) -> None:
    """What a descriptor has room for."""
    for low, high, step, reach in zip(patches.lower, patches.upper, patches.stride, patches.reach):
        if low < -limit // 2 or not -limit // 2 <= high < limit // 2 or reach >= limit:
            ctx.fail(
                f".im2col of '{array.name}': a kernel that reaches {reach} pixels far, with a padding of {-low}",
                f"a descriptor of {array.type.rank} axes has room for kernels that reach less than {limit // 2} pixels",  # type: ignore[union-attr]
            )
        if step > LARGEST_STRIDE:
            ctx.fail(f".im2col of '{array.name}' with a stride of {step}", f"it may be 1 to {LARGEST_STRIDE}")


def _constants(ctx: Builder, what: str, value: object, count: int, least: int) -> tuple[int, ...]:
    """One constant for each axis of the pixels, or one for all."""
    parts = value if isinstance(value, tuple) else (value,) * count
    if len(parts) != count or not all(is_constant_integer(part) and part >= least for part in parts):
        axes = "one constant" if count == 1 else f"one constant, or a tuple of {count}"
        ctx.fail(f"{what} of .im2col is {describe(value)}", f"give {axes}, of {least} or more")
    return tuple(int(part) for part in parts)  # type: ignore[arg-type]


def _numbers(ctx: Builder, what: str, value: object, count: int) -> list[int | Value]:
    """Integers that may be known only at run time."""
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) != count:
        ctx.fail(f"{what} of .im2col has {len(parts)} numbers", f"it has {count}, outermost first")
    found: list[int | Value] = []
    for part in parts:
        number = load_scalar(ctx, part)
        scalar = isinstance(number, Value) and isinstance(number.type, ScalarType) and number.type.dtype.is_integer
        if not scalar and not is_constant_integer(number):
            ctx.fail(f"{what} of .im2col must be an integer, not {describe(number)}", "e.g. px.block_id(0) * BM")
        found.append(number)  # type: ignore[arg-type]
    return found
