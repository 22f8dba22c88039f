"""Rows by index as operators: gather, scatter, embedding, and the tokens of a cache that are kept."""

from __future__ import annotations

from typing import Any

import torch

from phalanx import kernels
from phalanx.errors import Error, caller_location
from phalanx.kernels.gather_backward import gather_backward
from phalanx.torch.calls import batched_along, first_axis, refuse_config
from phalanx.torch.library import Rule, operator, ops
from phalanx.torch.plain import is_recorded
from phalanx.torch.straight import straight


@operator("gather_backward(Tensor d, Tensor idx, SymInt rows) -> Tensor", second="embedding and gather_rows")
def _gather_backward(d: Any, idx: Any, rows: int) -> Any:
    return gather_backward(d, idx, rows)


def _save_rows(table: int, index: int) -> Any:
    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.rows = inputs[table].shape[0]
        ctx.save_for_backward(inputs[index])

    return save


def _of_table(ctx: Any, d: Any) -> Any:
    return ops.gather_backward(d, ctx.saved_tensors[0], ctx.rows), None


def _batched_lookup(info: Any, axes: Any, weight: Any, ids: Any) -> Any:
    """Rows by index of many calls are an embedding: indices of any shape."""
    if axes[0] is not None:  # a table for each call: one tall table, whose parts the ids find by their call's number
        weight = weight.movedim(axes[0], 0)
        ids = ids.unsqueeze(0).expand(info.batch_size, *ids.shape) if axes[1] is None else ids.movedim(axes[1], 0)
        rows = weight.shape[1]
        start = torch.arange(info.batch_size, device=ids.device).reshape(-1, *(1,) * (ids.ndim - 1)) * rows
        inside = (ids >= 0) & (ids < rows)
        return ops.embedding(weight.reshape(-1, weight.shape[2]), torch.where(inside, ids + start, -1)), 0
    return ops.embedding(weight, ids.movedim(axes[1], 0)), 0


@operator("gather_rows(Tensor x, Tensor idx) -> Tensor", rule=Rule(_save_rows(0, 1), _of_table), batch=_batched_lookup)
def _gather_rows(x: Any, idx: Any) -> Any:
    return kernels.gather_rows(x, idx)


@operator("gather_rows_out(Tensor x, Tensor idx, Tensor(a!) out) -> ()")
def _gather_rows_out(x: Any, idx: Any, out: Any) -> None:
    kernels.gather_rows(x, idx, out=out)


@operator("embedding(Tensor weight, Tensor ids) -> Tensor", rule=Rule(_save_rows(0, 1), _of_table), batch=_batched_lookup)
def _embedding(weight: Any, ids: Any) -> Any:
    return kernels.embedding(weight, ids)


@straight(kernels.gather_rows, "x", "idx", "out")
def gather_rows(x: Any, idx: Any, *, out: Any = None, config: Any = None) -> Any:
    """`px.kernels.gather_rows` with a gradient, for eager and compiled code.

    Gradients of rows that were taken more than once are summed in f32. Example: ``y = px.torch.gather_rows(x, idx)``.
    """
    refuse_config(config)
    if out is None:
        return ops.gather_rows(x, idx)
    if is_recorded(x, out):
        return out.copy_(ops.gather_rows(x, idx))
    ops.gather_rows_out(x, idx, out)
    return out


@straight(kernels.embedding, "weight", "ids")
def embedding(weight: Any, ids: Any) -> Any:
    """`px.kernels.embedding` with a gradient, summed in f32. Example: ``h = px.torch.embedding(table, tokens)``."""
    return ops.embedding(weight, ids)


# --- scatter ------------------------------------------------------------------------------------------------------------


def _save_index(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[1])


def _of_stored(ctx: Any, d: Any) -> Any:
    (idx,) = ctx.saved_tensors
    below = None
    if ctx.needs_input_grad[2]:  # rows that were overwritten have no gradient
        below = ops.scattered_rows(d.new_zeros((idx.shape[0], d.shape[1])), idx, d)
    return ops.gather_rows(d.contiguous(), idx), None, below


def _of_added(ctx: Any, d: Any) -> Any:
    return ops.gather_rows(d.contiguous(), ctx.saved_tensors[0]), None, d


def _scatters(name: str, gradients: Any) -> Any:
    """Operators that write `out` in place, and into a copy of it where torch records: the call that chooses."""
    move = getattr(kernels, name)
    functional = name.replace("scatter", "scattered")

    def in_place(x: Any, idx: Any, out: Any) -> None:
        move(x, idx, out)

    def into_copy(x: Any, idx: Any, out: Any) -> Any:
        return move(x, idx, out.clone(memory_format=torch.contiguous_format))

    rule = Rule(_save_index, gradients)
    writing = operator(f"{name}(Tensor x, Tensor idx, Tensor(a!) out) -> ()")(in_place)
    copying = operator(f"{functional}(Tensor x, Tensor idx, Tensor out) -> Tensor", rule=rule)(into_copy)

    def call(x: Any, idx: Any, out: Any) -> Any:
        if is_recorded(x, out):
            return out.copy_(copying(x, idx, out))
        writing(x, idx, out)
        return out

    return call


_scatter_rows, _scatter_add_rows = _scatters("scatter_rows", _of_stored), _scatters("scatter_add_rows", _of_added)


@straight(kernels.scatter_rows, "x", "idx", "out")
def scatter_rows(x: Any, idx: Any, out: Any, *, config: Any = None) -> Any:
    """`px.kernels.scatter_rows` with gradients, of `x` and of what `out` was: rows that were overwritten have none.

    Example: ``px.torch.scatter_rows(x, idx, out)``.
    """
    refuse_config(config)
    return _scatter_rows(x, idx, out)


@straight(kernels.scatter_add_rows, "x", "idx", "out")
def scatter_add_rows(x: Any, idx: Any, out: Any, *, config: Any = None) -> Any:
    """`px.kernels.scatter_add_rows` with gradients, of `x` and of what `out` was.

    Example: ``px.torch.scatter_add_rows(x, idx, out)``.
    """
    refuse_config(config)
    return _scatter_add_rows(x, idx, out)


# --- caches -------------------------------------------------------------------------------------------------------------


def _batched_caches(info: Any, axes: Any, cache: Any, keep: Any, pages: Any) -> Any:
    """Caches of many calls as one of more sequences; pages are all calls' own."""
    compact = ops.kv_compact
    if pages is not None:
        if axes[0] is not None:
            raise Error(
                "vmap over a paged cache", location=caller_location(),
                remedy="map over keep and pages: one pool has the pages of all sequences",
            )
        given = [first_axis(x, axis, info.batch_size).flatten(0, 1) for x, axis in zip((keep, pages), axes[1:])]
        return compact(cache, *given).unflatten(0, (info.batch_size, -1)), 0
    if keep.ndim - (axes[1] is not None) == 1:  # a sequence a call
        return compact(*(first_axis(x, axis, info.batch_size) for x, axis in zip((cache, keep), axes)), None), 0
    return batched_along(lambda: compact, 2)(info, axes, cache, keep, pages)


@operator("kv_compact(Tensor cache, Tensor keep, Tensor? pages=None) -> Tensor", batch=_batched_caches)
def _kv_compact(cache: Any, keep: Any, pages: Any = None) -> Any:
    return kernels.kv_compact(cache, keep, pages=pages)


@operator("kv_compact_(Tensor(a!) cache, Tensor keep, Tensor? pages=None) -> ()")
def _kv_compact_in_place(cache: Any, keep: Any, pages: Any = None) -> None:
    kernels.kv_compact(cache, keep, pages=pages, inplace=True)


@straight(kernels.kv_compact, "cache", "keep", "pages")
def kv_compact(cache: Any, keep: Any, *, pages: Any = None, inplace: bool = False) -> Any:
    """`px.kernels.kv_compact`, for eager and compiled code; it has no gradient.

    Example: ``cache = px.torch.kv_compact(cache, keep)``.
    """
    if not inplace:
        return ops.kv_compact(cache, keep, pages)
    ops.kv_compact_(cache, keep, pages)
    return cache
