"""The largest elements along an axis, in order: rounds of a maximum, written in the language itself.

Listings and the debugger show its variables among the caller's, so that they have names that say whose they are.
"""

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
    found: Any = _rounds.call(ctx, (x, count, where_, dtype.kind, word, word.bits <= 16 and size <= LAST_PLACE), {})
    for tile in found:
        tile.name = ""  # the caller's names are theirs
    return found


@InlinedFunction
def _rounds(x: Any, k: Any, axis: Any, kind: Any, word: Any, packed: Any) -> Any:
    """Each round finds the largest key and takes it away: 0 stands in its place.

    `packed`: a key has its place, too, so that no two are alike. Where not, the places of equal ones are compared; what was
    taken has no place any more, since 0 may also be the key of an integer. It is the key of no float.
    """
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    top_places = arange(x.shape[axis]).reshape(x.shape[axis], *((1,) * len(behind)))
    top_slots = arange(k).reshape(k, *((1,) * len(behind)))
    top_keys = _keys(x, kind, word)
    if packed:
        top_keys = top_keys.to(u32) << 16 | (LAST_PLACE - top_places).to(u32)
    elif kind != "float":
        top_places = where(top_keys == top_keys, top_places, TAKEN)
    shape = (*before, k, *behind)
    top_found, top_indices = zeros(shape, top_keys.dtype), zeros(shape, i32)
    for top_round in range(k):
        top_key = max_(top_keys, axis, keepdims=True)
        if packed:
            top_place = LAST_PLACE - (top_key & LAST_PLACE).to(i32)
            top_keys = where(top_keys == top_key, 0, top_keys)
        else:
            top_place = min_(where(top_keys == top_key, top_places, TAKEN), axis, keepdims=True)
            top_keys = where(top_places == top_place, 0, top_keys)
            if kind != "float":
                top_places = where(top_places == top_place, TAKEN, top_places)
        top_found = where(top_slots == top_round, top_key, top_found)
        top_indices = where(top_slots == top_round, top_place, top_indices)
    if packed:
        top_found = (top_found >> 16).to(word)
    return _elements(top_found, kind, x.dtype), top_indices


@InlinedFunction
def _keys(x: Any, kind: Any, word: Any) -> Any:
    """Unsigned numbers of as many bits in the order of the elements; NaNs are one and the largest, and zeros are one."""
    half = 1 << word.bits - 1
    if kind == "float":
        top_bits = bitcast(x + 0.0, word)
        top_keys = where(isnan(x), 2 * half - 1, where(top_bits >= half, ~top_bits, top_bits | half))
    elif kind == "int":
        top_keys = bitcast(x, word) ^ half
    else:
        top_keys = x.to(word)
    return top_keys


@InlinedFunction
def _elements(top_keys: Any, kind: Any, dtype: Any) -> Any:
    """The elements of these keys."""
    half = 1 << top_keys.dtype.bits - 1
    if kind == "float":
        top_elements = bitcast(where(top_keys >= half, top_keys ^ half, ~top_keys), dtype)
    elif kind == "int":
        top_elements = bitcast(top_keys ^ half, dtype)
    else:
        top_elements = top_keys.to(dtype)
    return top_elements
