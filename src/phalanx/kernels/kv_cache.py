"""Compaction of a key/value cache: the tokens to keep move to the front, in place or into a new array, paged or not."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy as np

import phalanx as px
from phalanx.ir.archs import COPY_CHUNK
from phalanx.kernels.gather import ELEMENTS, INDICES, MoveConfig, choose, gather_rows, moving_rows
from phalanx.kernels.launches import sms_of, wait_for_prior_launch
from phalanx.kernels.matrices import has_work, info_of, refused, result_info
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import ITEM_BYTES, ArgumentKind, ArrayInfo, kind_of
from phalanx.runtime.launch.replay import remembered


@px.func
def row_of(TABLE, sequence, token, tokens, PAGE):
    """The row of a token of a sequence, -1 where there is none: by the page table, or sequence after sequence."""
    there = (token >= 0) & (token < tokens)
    if PAGE > 0:
        page = px.load(TABLE[sequence, px.maximum(token, 0) // PAGE], fill=-1)
        row = px.where(page >= 0, page * PAGE + token % PAGE, -1)
    else:
        row = sequence * tokens + token
    return px.where(there, row, -1)


@px.kernel(warps=2, pdl=True)
def compact_ring(C, KEEP, TABLE, tokens, *, WIDTH, SLICES, ROWS, STAGES, LAG, PAGE=0):
    """Row i of every sequence becomes row KEEP[i]: a CTA moves some columns of one sequence, row after row.

    KEEP ascends, so row i comes from i or from further on: when it is stored, whatever needed the old row i has been
    read.
    """
    moving = moving_rows(C, ROWS, WIDTH, STAGES)
    sequence = px.block_id(0) // SLICES
    column = px.block_id(0) % SLICES * WIDTH
    count = px.cdiv(KEEP.shape[1], ROWS)
    wait_for_prior_launch()

    with px.warps(0, 1):
        for unit in range(count):
            places: tuple[Any, ...] = ()
            for r in px.static_range(ROWS):
                token = px.load(KEEP[sequence, unit * ROWS + r], fill=-1)
                places = (*places, (row_of(TABLE, sequence, token, tokens, PAGE), column))
            moving.load(C, places)

    with px.warps(1, 1):
        for unit in range(count):
            targets: tuple[Any, ...] = ()
            for r in px.static_range(ROWS):
                token = unit * ROWS + r
                target = row_of(TABLE, sequence, token, tokens, PAGE)
                targets = (*targets, (px.where(token < KEEP.shape[1], target, -1), column))
            moving.store(C, targets, unit >= LAG, LAG)
        px.tma.wait(0)


@remembered("cache", "keep", "pages", writes={"cache": "inplace"})
def kv_compact(cache: Any, keep: Any, *, pages: Any = None, inplace: bool = False) -> Any:
    """Keeps the tokens `keep` of every sequence of a cache.

    `cache`: (sequences, tokens, ...) with `keep` (sequences, kept), or (tokens, ...) with `keep` (kept,). With `pages`
    (sequences, pages per sequence) it is paged, (pages, tokens per page, ...): token t of sequence s lies in page
    ``pages[s, t // size]``. The result is a new array (sequences, kept, ...); with `inplace` the cache itself, whose
    first `kept` tokens of each sequence are the kept ones: `keep` must ascend then, and no page belong to two
    sequences. A token that a sequence does not have, -1 for instance, gives zeros. sm_90 and up, or the simulator.
    Example: ``kv_compact(cache, keep, inplace=True)``.
    """
    info = (result_info if inplace else info_of)("cache", cache, ELEMENTS)
    names = info_of("keep", keep, INDICES)
    if pages is None and len(names.shape) == 1:
        return kv_compact(cache[None], keep[None], inplace=inplace)[0]
    if len(names.shape) != 2 or len(info.shape) < 3:
        raise refused(
            f"a cache of shape {info.shape} and tokens of shape {names.shape}",
            "pass (sequences, tokens, ...) and (sequences, kept), or (tokens, ...) and (kept,)",
        )
    sequences, kept = names.shape
    size = info.shape[1]
    if pages is not None:
        table = info_of("pages", pages, INDICES)
        if len(table.shape) != 2 or table.shape[0] != sequences:
            raise refused(f"a page table of shape {table.shape} for {sequences} sequences", "pass (sequences, pages)")
        tokens = table.shape[1] * size
    else:
        tokens = size
        if info.shape[0] != sequences:
            raise refused(f"tokens of {sequences} for a cache of {info.shape[0]} sequences", "pass one list per sequence")
    columns = prod(info.shape[2:])
    flat = cache.reshape(info.shape[0] * size, columns)
    if not inplace:
        rows = _rows(keep, pages, size, tokens)
        return gather_rows(flat, rows.reshape(-1)).reshape((sequences, kept, *info.shape[2:]))
    _require_in_place(info, columns, kept, tokens)
    if kind_of(keep) is ArgumentKind.NUMPY:
        _require_ascending(keep, tokens)
    if has_work(sequences, kept, columns):
        slices, config = choose_slices(columns, ITEM_BYTES[info.dtype_name], sequences, sms_of(cache))
        constants = config.constants(columns)
        del constants["PARTS"]
        compact_ring[sequences * slices](
            flat, keep, keep if pages is None else pages, tokens, **constants, SLICES=slices,
            PAGE=0 if pages is None else size,
        )
    return cache


def choose_slices(columns: int, itemsize: int, sequences: int, sms: int) -> tuple[int, MoveConfig]:
    """Into how many parts the columns are cut, so that all SMs have one; and how the rows of a part travel.

    Anyone may call it; no hardware is involved. Example: ``choose_slices(1024, 2, 64, 132)[0] == 2``.
    """
    wanted = max(1, px.cdiv(sms, sequences))
    step = H200.moves.narrowest_bytes // itemsize
    width = max(step, px.cdiv(px.cdiv(columns, wanted), step) * step)
    width = min(width, columns) if columns * itemsize % COPY_CHUNK == 0 else columns
    config = choose(min(width, columns), itemsize)
    return px.cdiv(columns, config.width), config


def _rows(keep: Any, pages: Any, size: int, tokens: int) -> Any:
    """The rows of the cache that hold the kept tokens, -1 where there is none."""
    there = (keep >= 0) & (keep < tokens)
    token = keep * there
    sequence = _numbers(keep)[:, None]
    if pages is None:
        rows = sequence * size + token
    else:
        position = token // size
        page = pages[sequence, position.long() if kind_of(keep) is ArgumentKind.TORCH else position]
        there = there & (page >= 0)
        rows = page * size + token % size
    return (rows + 1) * there - 1


def _numbers(keep: Any) -> Any:
    """0, 1, 2 ... for the sequences of `keep`, as an array of its kind, on its device."""
    kind = kind_of(keep)
    if kind is ArgumentKind.TORCH:
        return sys.modules["torch"].arange(keep.shape[0], device=keep.device)
    if kind is ArgumentKind.CUPY:
        with keep.device:
            return sys.modules["cupy"].arange(keep.shape[0])
    return np.arange(keep.shape[0])


def _require_ascending(keep: Any, tokens: int) -> None:
    """Tokens only move to the front: what a place held has moved before another token is stored there.

    For indices on the host; those of a GPU are not read.
    """
    back = (keep >= 0) & (keep < tokens) & (keep < np.arange(keep.shape[1]))
    if back.any():
        sequence, place = (int(x) for x in np.argwhere(back)[0])
        raise refused(
            f"keep[{sequence}, {place}] is token {keep[sequence, place]}, which would move back",
            "sort the tokens of each sequence and name each once, or compact not in place",
        )


def _require_in_place(info: ArrayInfo, columns: int, kept: int, tokens: int) -> None:
    expected = 1
    for extent, stride in zip(reversed(info.shape), reversed(info.strides), strict=True):
        if extent > 1 and stride != expected:
            raise refused("the cache is not contiguous", "compact a contiguous array, or not in place")
        expected *= extent
    if not info.aligned16 or columns * ITEM_BYTES[info.dtype_name] % COPY_CHUNK:
        raise refused(
            f"tokens of {columns} {info.dtype_name} do not start on multiples of {COPY_CHUNK} bytes",
            "compact it not in place",
        )
    if kept > tokens:
        raise refused(f"{kept} tokens to keep in sequences of {tokens}", "keep at most as many as there are")
