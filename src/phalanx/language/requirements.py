"""What functions of the language ask of their arguments: each `require_*` gives the value back, checked and typed."""

from __future__ import annotations

from typing import TypeGuard

from phalanx.ir.types import DType, TileType
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.limits import MAX_RANK
from phalanx.language.objects import describe, plural


def is_constant_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer that is known while the kernel is read; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def require_integer(ctx: Builder, what: str, value: object, remedy: str) -> int:
    """The constant integer that `value` is."""
    if not is_constant_integer(value):
        ctx.fail(f"{what} must be a constant integer, not {describe(value)}", remedy)
    return value


def require_flag(ctx: Builder, what: str, flag: object, remedy: str = "it is decided at compile time") -> bool:
    """The constant True or False that `flag` is."""
    if not isinstance(flag, bool):
        ctx.fail(f"{what} must be True or False, not {describe(flag)}", remedy)
    return flag


def require_shape(ctx: Builder, what: str, shape: object) -> tuple[int, ...]:
    """The shape that `shape` is: a tuple of positive constants."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if len(sizes) > MAX_RANK:
        ctx.fail(f"the shape of {what} has {len(sizes)} axes", f"use at most {MAX_RANK}: fold some of them together")
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool):
            ctx.fail(
                f"the shape of {what} must be made of compile-time constants, not {describe(size)}",
                "make it a keyword-only parameter of the kernel, e.g. def kernel(X, *, BM=64)",
            )
        if size < 1:
            remedy = "write the size out" if size == -1 else "every axis has at least one element"
            ctx.fail(f"the shape of {what} has an axis of size {size}", remedy)
    return sizes


def require_dtype(ctx: Builder, what: str, dtype: object) -> DType:
    """The element type that `dtype` is."""
    if not isinstance(dtype, DType):
        shape = f"a shape of several axes is a tuple: {what}((64, 64), px.f32)"
        remedy = shape if is_constant_integer(dtype) else "e.g. px.f32, px.bf16 or A.dtype"
        ctx.fail(f"the dtype of {what} must be a px dtype, not {describe(dtype)}", remedy)
    return dtype


def require_axis(ctx: Builder, axis: object, rank: int) -> int:
    """The axis of a tile of `rank` axes that `axis` is, counted from the first."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        two = isinstance(axis, Value) and isinstance(axis.type, TileType)
        remedy = "px.maximum(a, b) and px.minimum(a, b) compare two tiles" if two else "e.g. px.sum(x, axis=1)"
        ctx.fail(f"an axis must be a constant integer, not {describe(axis)}", remedy)
    if not -rank <= axis < rank:
        ctx.fail(
            f"axis {axis} does not exist: the tile has {plural(rank, 'axis', 'axes')}", f"use {-rank} to {rank - 1}"
        )
    return axis % rank
