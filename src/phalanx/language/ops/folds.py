"""Folds and scans of register tiles by a function of the user's, and what is made of them."""

from __future__ import annotations

from math import prod

from phalanx.ir.core import Block, Op, block_fields, substitute
from phalanx.ir.ops.tile import Combine, ReduceBy, Reshape, ScanBy
from phalanx.ir.types import DType, ScalarType, TileType
from phalanx.ir.values import Const, Value
from phalanx.language.builder import Builder, seal
from phalanx.language.builtin import Builtin, builtin
from phalanx.language.inlined import InlinedFunction
from phalanx.language.objects import Number, describe, load_scalar
from phalanx.language.operators import cast, dtype_of, is_scalar, make_type, shape_of
from phalanx.language.ops.tile import require_tile
from phalanx.language.requirements import require_axis


@builtin("reduce")
def reduce(ctx: Builder, x: object, axis: object, func: object, keepdims: object = False) -> Value | tuple[Value, ...]:
    """Folds an axis of a tile (or all axes, with ``axis=None``) with `func`, a ``@px.func`` of two elements.

    `func` is associative; it need not be commutative, for the left element always comes before the right one. In which
    groups elements are joined is open, and so is the last bit of what is rounded. With a tuple of tiles of one shape,
    elements are tuples: `func` takes two and returns one, and so does the fold. `func` only computes, on single elements:
    no memory, barriers, branches or loops of run time. Its result has the element's type.
    Any agent; any GPU; registers, then ``shfl.sync``, then shared memory between warps.
    Example: ``product = px.reduce(x, 1, times)``, with ``times`` a ``@px.func`` that returns ``a * b``.
    """
    xs = _tiles(ctx, "px.reduce", x)
    if not isinstance(keepdims, bool):
        ctx.fail("keepdims= must be True or False", "it decides the shape of the result")
    by, taken = _function(ctx, "px.reduce", func, xs, isinstance(x, tuple))
    shape = shape_of(xs[0])
    axes = [*reversed(range(len(shape)))] if axis is None else [require_axis(ctx, axis, len(shape))]
    if axis is None and not keepdims and len(shape) > 1 and all(size & (size - 1) == 0 for size in shape):
        xs, axes = tuple(_flat(ctx, tile) for tile in xs), [0]  # at once: registers, then lanes, then warps
    for where in axes:
        sizes = list(shape_of(xs[0]))
        sizes[where : where + 1] = [1] * keepdims
        results = tuple(Value(make_type(tuple(sizes), dtype_of(tile), bool(sizes))) for tile in xs)
        ctx.emit(ReduceBy(xs, taken, where, keepdims, by, results, loc=ctx.loc))
        xs = results
    return xs if isinstance(x, tuple) else xs[0]


@builtin("scan")
def scan(ctx: Builder, x: object, axis: object, func: object) -> Value | tuple[Value, ...]:
    """Running results of `func` along an axis: element i is what `px.reduce` makes of the elements up to i.

    `func` is a ``@px.func`` as for `px.reduce`; tuples of tiles go in and come out likewise.
    Any agent; any GPU; in a thread one element after the other, then ``shfl.sync``, then shared memory between warps.
    Example: ``state = px.scan((decay, x), 0, step)`` for ``state[i] = decay[i] * state[i - 1] + x[i]``, with ``step`` a
    ``@px.func`` that returns ``(a[0] * b[0], b[0] * a[1] + b[1])``; the second tile is the state.
    """
    xs = _tiles(ctx, "px.scan", x)
    where = require_axis(ctx, axis, len(shape_of(xs[0])))
    by, taken = _function(ctx, "px.scan", func, xs, isinstance(x, tuple))
    results = tuple(Value(tile.type) for tile in xs)
    ctx.emit(ScanBy(xs, taken, where, by, results, loc=ctx.loc))
    return results if isinstance(x, tuple) else results[0]


def _flat(ctx: Builder, tile: Value) -> Value:
    flat = Value(TileType((prod(shape_of(tile)),), dtype_of(tile)))
    ctx.emit(Reshape(tile, flat, loc=ctx.loc))
    return flat


def _tiles(ctx: Builder, what: str, x: object) -> tuple[Value, ...]:
    """One tile, or several of one shape."""
    items = x if isinstance(x, tuple) else (x,)
    if not items:
        ctx.fail(f"{what} of an empty tuple", "give it a tile, or a tuple of tiles of one shape")
    tiles = tuple(require_tile(ctx, what, item) for item in items)
    for tile in tiles[1:]:
        if shape_of(tile) != shape_of(tiles[0]):
            ctx.fail(
                f"{what} of tiles of shapes {shape_of(tiles[0])} and {shape_of(tile)}",
                "tiles that are folded together have one shape: broadcast first, e.g. x + px.zeros(shape, x.dtype)",
            )
    return tiles


def _function(
    ctx: Builder, what: str, func: object, xs: tuple[Value, ...], several: bool
) -> tuple[Combine, tuple[Value, ...]]:
    """The instructions of `func` for these element types, and the values that it takes from around."""
    if not isinstance(func, InlinedFunction | Builtin):
        ctx.fail(
            f"the function of {what} is {describe(func)}",
            "write it with def, decorate it with @px.func, and give its name; px.maximum and its like do, too",
        )
    dtypes = [dtype_of(x) for x in xs]
    left, right = ([Value(ScalarType(dtype), f"{name}{i or ''}") for i, dtype in enumerate(dtypes)] for name in "ab")
    outer = ctx.loc
    with ctx.block() as ops:
        made = func.call(ctx, tuple(tuple(side) if several else side[0] for side in (left, right)), {})
        ctx.loc = outer
        results = _results(ctx, what, func.__name__, made, dtypes, several)
    body = seal(Block(tuple(ops))).ops
    known = {*left, *right}
    taken: dict[Value, Value] = {}
    for op in body:
        _only_computes(ctx, what, func.__name__, op)
        for value in op.operands():
            if not isinstance(value, Const) and value not in known and value not in taken:
                taken[value] = Value(value.type, value.name)
        known.update(op.defined_values())
    for value in results:
        if not isinstance(value, Const) and value not in known and value not in taken:
            taken[value] = Value(value.type, value.name)
    body = tuple(substitute(op, taken) for op in body)
    params = (*left, *right, *taken.values())
    return Combine(func.__name__, params, body, tuple(taken.get(value, value) for value in results)), tuple(taken)


def _results(
    ctx: Builder, what: str, name: str, made: object, dtypes: list[DType], several: bool
) -> tuple[Value, ...]:
    """What the function returned, if it is an element again."""
    expected = f"a tuple of {len(dtypes)}" if several else f"one {dtypes[0]}"
    items = made if several else (made,)
    if not isinstance(items, tuple) or len(items) != len(dtypes):
        ctx.fail(
            f"'{name}' returns {describe(made)}, but {what} joins elements that are {expected}",
            "the function takes two elements and returns one of the same kind",
        )
    values = []
    for item, dtype in zip(items, dtypes, strict=True):
        value = load_scalar(ctx, item)
        if not is_scalar(value) or (not isinstance(value, Number) and dtype_of(value) != dtype):
            ctx.fail(
                f"'{name}' returns {describe(value)} where the elements are {dtype}",
                f"the result of joining two elements is an element: convert it with .to(px.{dtype})"
                if is_scalar(value)
                else "the function works on single elements, and returns one",
            )
        values.append(cast(ctx, value, dtype))
    return tuple(values)


def _only_computes(ctx: Builder, what: str, name: str, op: Op) -> None:
    """An instruction of such a function makes a scalar of scalars, and nothing else happens."""
    if block_fields(type(op)):
        inside = (inner.loc for block in op.blocks() for inner in block.walk() if block_fields(type(inner)))
        ctx.fail(
            f"'{name}' has a branch or loop that is decided at run time, which {what} can't have",
            "choose with px.where(condition, a, b), unroll with px.static_range",
            loc=next(inside, op.loc),
        )
    if not op.effects().is_pure or op.defines is None:
        ctx.fail(
            f"'{name}' does more than compute ({op.mnemonic}), which {what} can't have",
            "the function runs once for each pair of elements, in any order: do it before or after",
            loc=op.loc,
        )
    if not all(is_scalar(value) for value in (op.defines, *op.operands())):
        ctx.fail(
            f"'{name}' works on tiles ({op.mnemonic}), but {what} calls it with single elements",
            "the function takes two elements and returns one: make tiles before or after",
            loc=op.loc,
        )
