"""Attention of a few new tokens to a long cache, at the speed at which the cache streams in."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import gcd
from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK
from phalanx.kernels.attention.arguments import DIMS, cap_of, columns_of, reach_of, readable, scale_of
from phalanx.kernels.attention.decode_config import (
    AT_ONCE,
    BLOCK,
    MOST_SEQUENCES,
    WIDEST_RUNS,
    DecodeConfig,
    choose_decode,
    choose_latent,
    heads_together,
)
from phalanx.kernels.attention.decode_ring import decode_ring, join_splits
from phalanx.kernels.attention.decode_runs import decode_runs, join_runs
from phalanx.kernels.attention.decode_terms import Softmax
from phalanx.kernels.attention.forms import CacheForm, CachePlace, RunsForm
from phalanx.kernels.attention.latent_ring import latent_ring
from phalanx.kernels.gather import INDICES, new
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import HALVES, as_rows, empty, has_work, info_of, number_of, refused, require_config
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo
from phalanx.runtime.launch.replay import remembered

NARROW = ("f8e4m3", "f8e5m2")
"""Elements of caches that become those of the queries on their way to the tensor cores."""
MOST_TOKENS = 16
PAGES = (16, 32)
"""Tokens of a page that are no multiple of 64."""
LATENT = 64
"""Sizes of latent caches are multiples of it."""
JOINED = 512
"""Elements of a result that a CTA of `join_splits` has: it holds as many of each split at once. One of `join_runs` holds as
many of each part where these are few, and fewer elements of more parts."""


@remembered("q", "k_cache", "v_cache", "lengths", "pages", "k_scale", "v_scale")
def attention_decode(
    q: Any, k_cache: Any, v_cache: Any, lengths: Any, *, pages: Any = None, causal: bool = True, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None, lse: bool = False, k_scale: Any = None,
    v_scale: Any = None, v_dim: int | None = None, config: DecodeConfig | None = None,
) -> Any:
    """Attention of the last tokens of each sequence to its cache: ``softmax(scale * q @ k.T) @ v``, (B, T, H, size of v).

    `q` (B, T, H, D) has 1 to 16 tokens; the caches are (B, S, Hkv, D) of the same type, bf16 or f16, or 8-bit floats,
    Hkv a divisor of H, D and the size of v up to 256. `lengths` (B,), i32 or i64 on the same device, says how many
    tokens of each cache there are, the T ones included; what lies behind them is never looked at. With `pages` (B, n)
    the caches are (pages, tokens per page, Hkv, D): token t of sequence b lies in page ``pages[b, t // tokens]``, as in
    `kv_compact`; pages have 16, 32 or a multiple of 64 tokens. Without `v_cache` the values are the first `v_dim`
    columns of the keys, which have one head: the latent cache of MLA, 576 and 512.

    8-bit caches (f8e4m3, f8e5m2) stand for their elements times `k_scale` and `v_scale`, positive: a number, or a
    vector of f32 with one scale or one for each KV head. They become elements of q's type on the SM, exactly.

    `causal`: token t sees the first ``length - T + t + 1`` tokens, else all; `window` (left, right) bounds how many
    before and behind its own place. `scale` is 1 / sqrt(D) by default; `softcap` c makes c * tanh(x / c) of the scaled
    scores. A token that sees nothing gives 0. With `lse` the result is ``(o, lse)``, lse (B, T, H) f32 the natural
    logarithm of the sums of exponentials, -inf where there is nothing. `config` overrides the choice of `choose_decode`
    and `choose_latent`, which do not know the lengths; where these differ much, `choose_runs` gives another one. sm_90a,
    or the simulator for NumPy. Example: ``o = attention_decode(q, k_cache, v_cache, lengths, pages=table)``.
    """
    call = _known(q, k_cache, v_cache, pages, v_dim) or _call(q, k_cache, v_cache, lengths, pages, v_dim)
    if call.unaligned:
        k_cache = readable("k_cache", k_cache, "attention_decode")
        v_cache = readable("v_cache", v_cache, "attention_decode")
    k_scale, k_factor = _scale("k_scale", k_scale, call)
    v_scale, v_factor = _scale("v_scale", v_scale, call)
    shape = (call.batch, call.tokens, call.heads)
    out = new(q, (*shape, call.v_size))
    logs = empty(q, shape, "f32") if lse else None
    made = (out, logs) if lse else out
    if not has_work(*shape):
        return made
    chosen = require_config(config, DecodeConfig) or call.config()
    if config is not None:
        _require_fits(chosen, call)
    parts = None
    part_logs = None
    count = 2 * chosen.runs * chosen.rows if chosen.runs else chosen.splits * call.rows if chosen.splits > 1 else 0
    if count:
        parts = empty(q, (count, call.v_size), "f32")
        part_logs = empty(q, (count,), "f32")
    _decode(
        q, k_cache, v_cache, lengths, pages, k_scale, v_scale, out, logs, parts, part_logs, call=call,
        reach=reach_of(causal, window), scale=positive_scale(scale, call.size) * k_factor, v_factor=v_factor,
        cap=cap_of(softcap), config=chosen,
    )  # fmt: skip
    return made


@remembered("q", "k", "v", "lengths", "pages", "k_scale", "v_scale", "out", "logs", "parts", "part_logs")
def _decode(
    q: Any, k: Any, v: Any = None, lengths: Any = None, pages: Any = None, k_scale: Any = None, v_scale: Any = None,
    out: Any = None, logs: Any = None, parts: Any = None, part_logs: Any = None, *, call: Call,
    reach: tuple[int | None, int | None], scale: float, v_factor: float, cap: float | None, config: DecodeConfig,
) -> Any:
    """Launches the kernels of a call, whose arrays have all been made."""
    _call(q, k, v, lengths, pages, call.v_size if v is None else None)
    rows = as_rows(q, info_of("q", q, HALVES))
    results = out.reshape(-1, call.v_size)
    result_logs = None if logs is None else logs.reshape(-1)
    factor, slope = (scale * LOG2E, None) if cap is None else (LOG2E, scale / cap)
    if config.runs:
        _launch_runs(
            (rows, k, v, lengths, pages, results, result_logs, parts, part_logs), Softmax(factor, slope, cap), reach, call,
            config,
        )  # fmt: skip
        return out
    grid = config.cluster * config.splits, call.kv_heads * px.cdiv(call.tokens * call.group, config.rows), call.batch
    target = (results, result_logs) if parts is None else (parts, part_logs)
    softmax = Softmax(factor, slope, cap)
    place = CachePlace(*reach, call.capacity, call.heads)
    d, dv = call.columns
    form = CacheForm(d, dv, call.tokens, call.group, call.page, call.item == 1)
    if v is None:
        latent_ring[grid](rows, k, lengths, pages, *target, softmax, place, config=config, form=form)
    else:
        decode_ring[grid](
            rows, k, v, lengths, pages, k_scale, v_scale, *target, softmax, v_factor, place, config=config, form=form
        )
    if parts is not None:
        each = max(1, JOINED // dv)
        join_splits[px.cdiv(call.rows, each)](
            parts, part_logs, results, result_logs, call.rows, SPLITS=config.splits, DV=dv, R=each
        )
    return out


def _launch_runs(
    arrays: tuple[Any, ...], softmax: Any, reach: tuple[Any, Any], call: Call, config: DecodeConfig
) -> None:
    """Launches `decode_runs` and `join_runs`, over caches whose heads lie in turn where a block has keys of all heads."""
    rows, k, v, lengths, table, out, logs, parts, part_logs = arrays
    if config.heads > 1:
        k, v = (x.reshape(x.shape[0], x.shape[1] * x.shape[2], 1, x.shape[3]) for x in (k, v))
    together = call.tokens * call.group * config.heads
    units = call.kv_heads // config.heads * px.cdiv(together, config.rows)
    d, dv = call.columns
    dealt = RunsForm(1 << (call.batch - 1).bit_length(), config.heads, units)
    place = CachePlace(*reach, call.capacity, call.heads)
    decode_runs[config.runs](
        rows, k, v, lengths, table, out, logs, parts, part_logs, softmax, place, config=replace(config, runs=0),
        form=CacheForm(d, dv, call.tokens, call.group, call.page * config.heads), dealt=dealt,
    )  # fmt: skip
    if config.runs > 1:
        parts_of_a_unit = px.cdiv(config.runs, call.batch * units) + 1
        at_once = next((count for count in AT_ONCE if count >= parts_of_a_unit), AT_ONCE[-1])
        each = 1 << (max(1, JOINED * AT_ONCE[0] // (dv * at_once)).bit_length() - 1)
        join_runs[px.cdiv(min(together, config.rows), each), units, call.batch](
            lengths, parts, part_logs, out, logs, place, config.runs,
            form=CacheForm(dv, dv, call.tokens, call.group), dealt=dealt, BM=config.rows, R=each, AT_ONCE=at_once,
        )  # fmt: skip


def _require_fits(config: DecodeConfig, call: Call) -> None:
    """`px.Error` where a configuration does not go with the caches of a call."""
    if call.page * config.heads % config.box:
        raise refused(
            f"config brings boxes of {config.box} tokens, and pages have {call.page * config.heads}",
            f"a box lies in one page: DecodeConfig(..., box={gcd(call.page * config.heads, config.box)})",
        )
    if config.heads > 1 and (not config.runs or config.heads != call.heads_of_a_block):
        raise refused(
            f"config has keys of {config.heads} heads in a block, the cache has {call.kv_heads} heads",
            "leave `heads` out: a block has keys of one head, or with `runs` of all, where these lie side by side, divide "
            "64, and have at most 64 rows of queries",
        )
    many = call.batch > MOST_SEQUENCES or call.v_size > WIDEST_RUNS or config.rows > 64
    if config.runs and (call.item == 1 or call.latent or many):
        raise refused(
            f"config has {config.runs} runs, for {call.batch} sequences, values of {call.v_size} elements of "
            f"{8 * call.item} bits, and {config.rows} rows",
            f"runs are for up to {MOST_SEQUENCES} sequences, caches of keys and of values of 16 bits, values of up to "
            f"{WIDEST_RUNS} elements, and 64 rows: else leave `runs` out",
        )


@frozen
class Call:
    """The sizes of a call: `page` tokens a page, 0 where there are none; `latent` caches have no values of their own.

    In `dense` caches the heads of a token lie side by side, and the next token behind them.
    """

    batch: int
    tokens: int
    heads: int
    kv_heads: int
    size: int
    v_size: int
    capacity: int
    page: int
    item: int
    latent: bool
    dense: bool

    @property
    def group(self) -> int:
        """How many heads of queries share a head of keys."""
        return self.heads // self.kv_heads

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return self.batch * self.tokens * self.heads

    @property
    def columns(self) -> tuple[int, int]:
        """The numbers of columns with which kernels compute keys and values."""
        return (self.size, self.v_size) if self.latent else (columns_of(self.size), columns_of(self.v_size))

    @property
    def unaligned(self) -> bool:
        """Whether rows side by side would not begin at multiples of 16 bytes: the copy engine can't read them."""
        return not self.latent and any(size * self.item % COPY_CHUNK for size in (self.size, self.v_size))

    @property
    def heads_of_a_block(self) -> int:
        """How many KV heads may have keys in one block: all, or 1."""
        return heads_together(self.kv_heads, self.tokens * self.group, self.dense)

    def config(self) -> DecodeConfig:
        """The usual choice, for whole blocks: capacities that have as many have one."""
        rows = self.tokens * self.group
        capacity = px.cdiv(self.capacity, BLOCK) * BLOCK
        if self.latent:
            return choose_latent(self.batch, rows, capacity, self.page)
        return choose_decode(
            self.batch, self.kv_heads, rows, capacity, self.size, self.v_size, self.page, self.item, self.dense
        )


def _known(q: Any, k: Any, v: Any, pages: Any, v_dim: Any) -> Call | None:
    """The sizes of a call as its shapes alone say them, at once; None where they don't. `_decode` checks the rest."""
    try:
        return _from_shapes(
            q.shape, k.shape, v_dim if v is None else v.shape[3], 0 if pages is None else pages.shape[1], k.dtype.itemsize,
            v is None, pages is None, _is_dense(k) and (v is None or _is_dense(v)),
        )  # fmt: skip
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


@cache
def _from_shapes(
    q: tuple[int, ...], k: tuple[int, ...], v_size: int, table: int, item: int, latent: bool, contiguous: bool, dense: bool
) -> Call | None:
    batch, tokens, heads, size = q
    kv_heads = k[2]
    if 0 in q or not kv_heads or heads % kv_heads or type(v_size) is not int:
        return None
    if not latent and not 1 <= min(size, v_size) <= max(size, v_size) <= DIMS[-1]:
        return None
    page = 0 if contiguous else k[1]
    return Call(batch, tokens, heads, kv_heads, size, v_size, table * page or k[1], page, item, latent, dense)


def _is_dense(x: Any) -> bool:
    """Whether the heads of a token of a cache lie side by side, and the next token behind them."""
    strides = x.stride() if hasattr(x, "stride") else x.strides
    return bool(strides[1] == x.shape[2] * strides[2])


def _call(q: Any, k: Any, v: Any, lengths: Any, pages: Any, v_dim: Any) -> Call:
    """The sizes of arrays that go together; `px.Error` where they do not."""
    queries = info_of("q", q, HALVES)
    if len(queries.shape) != 4 or not 1 <= queries.shape[1] <= MOST_TOKENS:
        raise refused(
            f"q has shape {queries.shape}", f"pass (sequences, tokens, heads, size) with 1 to {MOST_TOKENS} tokens"
        )
    batch, tokens, heads, size = queries.shape
    keys = _cache("k_cache", k, queries)
    if keys.shape[3] != size:
        raise refused(f"q has shape {queries.shape}, k_cache {keys.shape}", "q and k_cache have the same last axis")
    if not keys.shape[2] or heads % keys.shape[2]:
        raise refused(
            f"{heads} heads of q for {keys.shape[2]} of the cache", "each head of the cache serves as many heads of q"
        )
    v_size = _latent_size(keys, v_dim) if v is None else _value_size(keys, _cache("v_cache", v, queries), v_dim)
    counts = info_of("lengths", lengths, INDICES)
    if counts.shape != (batch,):
        raise refused(f"lengths of shape {counts.shape} for {batch} sequences", "pass one length for each sequence")
    capacity, page = _tokens(keys, pages, batch)
    return Call(
        batch, tokens, heads, keys.shape[2], size, v_size, capacity, page, ITEM_BYTES[keys.dtype_name], v is None,
        _is_dense(k) and (v is None or _is_dense(v)),
    )  # fmt: skip


def _tokens(keys: ArrayInfo, pages: Any, batch: int) -> tuple[int, int]:
    """How many tokens a sequence can have, and how many a page has, 0 without pages."""
    capacity = keys.shape[1]
    if pages is None:
        if keys.shape[0] != batch:
            raise refused(f"caches of {keys.shape[0]} sequences for {batch}", "pass one for each sequence, or pages")
        return capacity, 0
    table = info_of("pages", pages, INDICES)
    if len(table.shape) != 2 or table.shape[0] != batch:
        raise refused(f"a page table of shape {table.shape} for {batch} sequences", "pass (sequences, pages)")
    if not capacity or (capacity % 64 and capacity not in PAGES):
        raise refused(f"pages of {capacity} tokens", "use pages of 16 or 32 tokens, or a multiple of 64")
    return table.shape[1] * capacity, capacity


def _value_size(keys: ArrayInfo, values: ArrayInfo, v_dim: Any) -> int:
    if v_dim is not None and v_dim != values.shape[3]:
        raise refused(f"v_dim is {v_dim!r}, v_cache has {values.shape[3]} columns", "leave v_dim out")
    if keys.shape[:3] != values.shape[:3] or ITEM_BYTES[keys.dtype_name] != ITEM_BYTES[values.dtype_name]:
        raise refused(
            f"k_cache has shape {keys.shape}, of {keys.dtype_name}, v_cache {values.shape}, of {values.dtype_name}",
            "they differ in their last axis only",
        )
    for what, size in (("keys", keys.shape[3]), ("values", values.shape[3])):
        if not 1 <= size <= DIMS[-1]:
            raise refused(f"{what} of {size} elements", f"heads have 1 to {DIMS[-1]} elements")
    return int(values.shape[3])


def positive_scale(scale: Any, size: int) -> float:
    """The factor of the scores; one that would turn their order around, or make them equal, is refused."""
    found = scale_of(scale, size)
    if not found > 0:
        raise refused(f"scale is {found}", "give a number above 0, or leave it out")
    return found


def _scale(what: str, x: Any, call: Call) -> tuple[Any, float]:
    """The scale of a cache as an array, or None, and a number: 1 beside an array."""
    if x is None:
        return None, 1.0
    if call.item > 1:
        raise refused(f"{what} is given for a cache of 16-bit elements", "leave it out: only 8-bit ones have scales")
    if isinstance(x, int | float):
        if not number_of(what, x) > 0:
            raise refused(f"{what} is {x}", "give a number above 0, or leave it out")
        return None, number_of(what, x)
    if info_of(what, x, ("f32",)).shape not in ((1,), (call.kv_heads,)):
        raise refused(
            f"{what} has shape {info_of(what, x, ('f32',)).shape}",
            f"give a number, or a vector of one scale, or of one for each of the {call.kv_heads} heads of the cache",
        )
    return x, 1.0


def _latent_size(keys: ArrayInfo, v_dim: Any) -> int:
    """The columns of the keys that are values, too."""
    size = keys.shape[3]
    if isinstance(v_dim, bool) or not isinstance(v_dim, int) or v_dim % (2 * LATENT) or not 0 < v_dim <= min(size, 512):
        raise refused(
            f"v_dim is {v_dim!r} without v_cache, for keys of {size}",
            f"pass v_cache, or how many columns of the keys are values: a multiple of {2 * LATENT} up to 512",
        )
    if keys.dtype_name in NARROW:
        raise refused(f"k_cache is {keys.dtype_name}, without v_cache", "latent caches are bf16 or f16")
    if keys.shape[2] != 1 or size % LATENT or size > 576:
        raise refused(
            f"k_cache has shape {keys.shape} without v_cache",
            f"a latent cache has one head of a multiple of {LATENT} columns, up to 576",
        )
    return v_dim


def _cache(what: str, x: Any, queries: ArrayInfo) -> ArrayInfo:
    """A cache that the copy engine reads."""
    info = info_of(what, x, (*HALVES, *NARROW))
    if len(info.shape) != 4:
        raise refused(f"{what} has shape {info.shape}", "pass (sequences, tokens, heads, size), or pages of tokens")
    if info.dtype_name not in (queries.dtype_name, *NARROW):
        raise refused(
            f"{what} is {info.dtype_name}, q is {queries.dtype_name}",
            f"pass them in one element type, or a cache of {' or '.join(NARROW)}",
        )
    if not info.contiguous_inner or not info.aligned16:
        raise refused(
            f"{what} has strides {info.strides}",
            f"its last axis is contiguous, and its start and other strides are multiples of {COPY_CHUNK} bytes",
        )
    return info
