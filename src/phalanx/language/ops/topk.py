"""The largest elements along an axis, in order: rounds of a fold, written in the language itself."""

from __future__ import annotations

from typing import Any

from phalanx.ir.types import i32
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.inlined import InlinedFunction
from phalanx.language.operators import dtype_of, shape_of
from phalanx.language.ops.folds import reduce
from phalanx.language.ops.tile import arange, isnan, require_tile, where, zeros
from phalanx.language.requirements import require_axis, require_integer

TAKEN = 2**31 - 1
"""The place of an element that a round before has taken."""


@builtin("topk")
def topk(ctx: Builder, x: object, k: object, axis: object) -> object:
    """The `k` largest elements along an axis and their indices (i32): two tiles, whose axis has size `k`.

    They come in descending order, the first of equals first, and NaNs before everything, as `px.argmax` finds them.
    `k` is a constant. Any agent; any GPU; `k` folds, each by ``shfl.sync`` and, between warps, shared memory: for a `k` of
    some dozens at most. Example: ``values, experts = px.topk(logits, 8, axis=1)``.
    """
    x = require_tile(ctx, "px.topk", x)
    where_ = require_axis(ctx, axis, len(shape_of(x)))
    size, dtype = shape_of(x)[where_], dtype_of(x)
    count = require_integer(ctx, "k of px.topk", k, "make it a keyword-only parameter")
    if not 1 <= count <= size:
        ctx.fail(f"px.topk of {count} elements along an axis of size {size}", f"use a k from 1 to {size}")
    if dtype.is_storage:
        ctx.fail(f"px.topk is not defined on {dtype}", "convert it first: x.to(px.f32)")
    return _rounds.call(ctx, (x, count, where_, dtype.is_float), {})


@InlinedFunction
def _rounds(x: Any, k: Any, axis: Any, floats: Any) -> Any:
    """Each round finds the first of those that come after the element of the round before."""
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    shape, rest = (*before, k, *behind), (*before, 1, *behind)
    places = arange(x.shape[axis]).reshape(x.shape[axis], *((1,) * len(behind)))
    slots = arange(k).reshape(k, *((1,) * len(behind)))
    values, indices = zeros(shape, x.dtype), zeros(shape, i32)
    value, place = zeros(rest, x.dtype), zeros(rest, i32)
    for n in range(k):
        left = (x < value) | ((x == value) & (places > place)) | (n == 0)
        if floats:
            left = left | (isnan(value) & (~isnan(x) | (places > place)))
        value, place = reduce((x, where(left, places, TAKEN)), axis, _earlier_float if floats else _earlier, keepdims=True)
        values = where(slots == n, value, values)
        indices = where(slots == n, place, indices)
    return values, indices


@InlinedFunction
def _earlier(a: Any, b: Any) -> Any:
    """Of two elements the larger, of equals the left one, which comes first; one that was taken is no element."""
    takes = (a[1] == TAKEN) | ((b[1] != TAKEN) & (b[0] > a[0]))
    return where(takes, b[0], a[0]), where(takes, b[1], a[1])


@InlinedFunction
def _earlier_float(a: Any, b: Any) -> Any:
    """As `_earlier`; a NaN is larger than every number."""
    larger = (b[0] > a[0]) | (isnan(b[0]) & ~isnan(a[0]))
    takes = (a[1] == TAKEN) | ((b[1] != TAKEN) & larger)
    return where(takes, b[0], a[0]), where(takes, b[1], a[1])
