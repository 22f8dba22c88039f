"""The largest elements along an axis, in order: rounds of a maximum, written in the language itself."""

from __future__ import annotations

from typing import Any

from phalanx.ir.types import i32, u8, u16, u32, u64
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.inlined import InlinedFunction
from phalanx.language.operators import dtype_of, shape_of
from phalanx.language.ops.tile import arange, bitcast, isnan, max_, min_, require_tile, where, zeros
from phalanx.language.requirements import require_axis, require_integer

TAKEN = 2**31 - 1
"""The place of an element that a round before has taken."""
LAST_PLACE = 2**16 - 1
"""The largest place that fits into a key beside an element of 16 bits."""


@builtin("topk")
def topk(ctx: Builder, x: object, k: object, axis: object) -> object:
    """The `k` largest elements along an axis and their indices (i32): two tiles, whose axis has size `k`.

    They come in descending order, the first of equals first, and NaNs before everything, as `px.argmax` finds them; a zero
    comes as 0. `k` is a constant. Any agent; any GPU; `k` folds of integers in the order of the elements, each by PTX
    ``redux.sync`` and, between warps, shared memory: for a `k` of some dozens at most.
    Example: ``values, experts = px.topk(logits, 8, axis=1)``.
    """
    x = require_tile(ctx, "px.topk", x)
    where_ = require_axis(ctx, axis, len(shape_of(x)))
    size, dtype = shape_of(x)[where_], dtype_of(x)
    count = require_integer(ctx, "k of px.topk", k, "make it a keyword-only parameter")
    if not 1 <= count <= size:
        ctx.fail(f"px.topk of {count} elements along an axis of size {size}", f"use a k from 1 to {size}")
    if dtype.is_storage:
        ctx.fail(f"px.topk is not defined on {dtype}", "convert it first: x.to(px.f32)")
    word = {8: u8, 16: u16, 32: u32, 64: u64}[max(8, dtype.bits)]
    return _rounds.call(ctx, (x, count, where_, dtype.kind, word, word.bits <= 16 and size <= LAST_PLACE), {})


@InlinedFunction
def _rounds(x: Any, k: Any, axis: Any, kind: Any, word: Any, packed: Any) -> Any:
    """Each round finds the largest key and takes it away: 0 stands in its place.

    `packed`: a key has its place, too, so that no two are alike. Where not, the places of equal ones are compared; what was
    taken has no place any more, since 0 may also be the key of an integer. It is the key of no float.
    """
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    places = arange(x.shape[axis]).reshape(x.shape[axis], *((1,) * len(behind)))
    slots = arange(k).reshape(k, *((1,) * len(behind)))
    keys = _keys(x, kind, word)
    if packed:
        keys = keys.to(u32) << 16 | (LAST_PLACE - places).to(u32)
    elif kind != "float":
        places = where(keys == keys, places, TAKEN)
    shape = (*before, k, *behind)
    found, indices = zeros(shape, keys.dtype), zeros(shape, i32)
    for n in range(k):
        best = max_(keys, axis, keepdims=True)
        if packed:
            place = LAST_PLACE - (best & LAST_PLACE).to(i32)
            keys = where(keys == best, 0, keys)
        else:
            place = min_(where(keys == best, places, TAKEN), axis, keepdims=True)
            keys = where(places == place, 0, keys)
            if kind != "float":
                places = where(places == place, TAKEN, places)
        found = where(slots == n, best, found)
        indices = where(slots == n, place, indices)
    if packed:
        found = (found >> 16).to(word)
    return _elements(found, kind, x.dtype), indices


@InlinedFunction
def _keys(x: Any, kind: Any, word: Any) -> Any:
    """Unsigned numbers of as many bits in the order of the elements; NaNs are one and the largest, and zeros are one."""
    half = 1 << word.bits - 1
    if kind == "float":
        bits = bitcast(x + 0.0, word)
        keys = where(isnan(x), 2 * half - 1, where(bits >= half, ~bits, bits | half))
    elif kind == "int":
        keys = bitcast(x, word) ^ half
    else:
        keys = x.to(word)
    return keys


@InlinedFunction
def _elements(keys: Any, kind: Any, dtype: Any) -> Any:
    """The elements of these keys."""
    half = 1 << keys.dtype.bits - 1
    if kind == "float":
        elements = bitcast(where(keys >= half, keys ^ half, ~keys), dtype)
    elif kind == "int":
        elements = bitcast(keys ^ half, dtype)
    else:
        elements = keys.to(dtype)
    return elements
