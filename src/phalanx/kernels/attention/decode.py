"""Attention of a few new tokens to a long cache, at the speed at which the cache streams in."""

from __future__ import annotations

import math
from typing import Any

import phalanx as px
from phalanx.ir.archs import COPY_CHUNK
from phalanx.kernels.attention.decode_config import DecodeConfig, choose_decode
from phalanx.kernels.attention.decode_ring import decode_ring
from phalanx.kernels.attention.decode_terms import ROWS
from phalanx.kernels.gather import INDICES
from phalanx.kernels.matrices import HALVES, as_rows, empty, info_of, number_of, refused, require_config
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo
from phalanx.runtime.launch.replay import remembered

MOST_TOKENS = 16
SMALLEST_PAGE = 16
LOG2E = math.log2(math.e)


@remembered("q", "k_cache", "v_cache", "lengths", "pages")
def attention_decode(
    q: Any, k_cache: Any, v_cache: Any, lengths: Any, *, pages: Any = None, causal: bool = True, scale: float | None = None,
    window: int | None = None, softcap: float | None = None, lse: bool = False, config: DecodeConfig | None = None,
) -> Any:
    """Attention of the last tokens of each sequence to its cache: ``softmax(scale * q @ k.T) @ v`` of q's shape.

    `q` (B, T, H, D) has 1 to 16 tokens; the caches are (B, S, Hkv, D), bf16 or f16, Hkv a divisor of H. `lengths` (B,), i32 or
    i64 on the same device, says how many tokens of each cache there are, the T ones included; what lies behind them is
    never looked at. With `pages` (B, n) the caches are (pages, tokens per page, Hkv, D): token t of sequence b lies in
    page ``pages[b, t // tokens]``, as in `kv_compact`; pages have 16, 32 or 64 tokens, or a multiple of 64.

    `causal`: token t sees the first ``length - T + t + 1`` tokens, else all. `window`: only the last `window` of those up
    to its own place. `scale` is 1 / sqrt(D) by default; `softcap` c makes c * tanh(x / c) of the scaled scores. A token that
    sees nothing gives 0. With `lse` the result is ``(o, lse)``, lse (B, T, H) f32 the natural logarithm of the sums of
    exponentials, -inf where there is nothing. `config` overrides the choice of `choose_decode`. sm_90a, or the simulator
    for NumPy. Example: ``o = attention_decode(q, k_cache, v_cache, lengths, pages=table)``.
    """
    require_config(config, DecodeConfig)
    call = _arguments(q, k_cache, v_cache, lengths, pages)
    batch, tokens, heads, size = call["q"].shape
    kv_heads, v_size = call["k"].shape[2], call["v"].shape[3]
    if config is None:
        tiles = px.cdiv(tokens * (heads // kv_heads), ROWS)
        config = choose_decode(batch * kv_heads * tiles, call["capacity"], size, v_size, call["page"])
    out = empty(q, (batch, tokens, heads, v_size), call["q"].dtype_name)
    logs = empty(q, (batch, tokens, heads), "f32") if lse else None
    if 0 not in (batch, heads):
        _launch(q, k_cache, v_cache, lengths, pages, out, logs, call, causal, scale, window, softcap, config)
    return (out, logs) if lse else out


def _launch(
    q: Any, k: Any, v: Any, lengths: Any, pages: Any, out: Any, logs: Any, call: dict[str, Any], causal: bool,
    scale: float | None, window: int | None, softcap: float | None, config: DecodeConfig,
) -> None:
    batch, tokens, heads, size = call["q"].shape
    kv_heads, v_size = call["k"].shape[2], call["v"].shape[3]
    group = heads // kv_heads
    scale = size**-0.5 if scale is None else positive("scale", scale)
    inner, outer = 0.0, 0.0
    factor = scale * LOG2E
    if softcap is not None:  # c * tanh(s / c) = c - 2 c / (1 + exp(2 s / c)), in units of log 2 on both sides
        cap = positive("softcap", softcap)
        inner, outer, factor = 2 * factor / cap, cap * LOG2E, 1.0
    if window is not None and (not isinstance(window, int) or window < 1):
        raise refused(f"window is {window!r}", "give how many tokens each token sees, at least its own, or leave it out")
    decode_ring[config.cluster, kv_heads * px.cdiv(tokens * group, ROWS), batch](
        as_rows(q, call["q"]), k, v, lengths, pages, out.reshape(-1, v_size), None if logs is None else logs.reshape(-1),
        factor, 1.0, inner, outer, window or 0, call["capacity"], heads,
        **config.constants(), D=size, DV=v_size, T=tokens, G=group, PAGE=call["page"], CAUSAL=bool(causal),
        WINDOW=window is not None, CAPPED=softcap is not None, WANT_LSE=logs is not None,
    )  # fmt: skip


def positive(what: str, value: Any) -> float:
    """A number above 0; anything else is refused."""
    number = number_of(what, value)
    if not number > 0:
        raise refused(f"{what} is {number}", "give a number above 0, or leave it out")
    return number


def _arguments(q: Any, k: Any, v: Any, lengths: Any, pages: Any) -> dict[str, Any]:
    """What the arrays are, with the cache's capacity in tokens and its tokens per page, 0 without pages."""
    queries = info_of("q", q, HALVES)
    keys, values = _cache("k_cache", k, queries), _cache("v_cache", v, queries)
    if len(queries.shape) != 4 or not 1 <= queries.shape[1] <= MOST_TOKENS:
        raise refused(
            f"q has shape {queries.shape}", f"pass (sequences, tokens, heads, size) with 1 to {MOST_TOKENS} tokens"
        )
    batch, _, heads, size = queries.shape
    if keys.shape[:3] != values.shape[:3] or keys.shape[3] != size:
        raise refused(
            f"caches of shapes {keys.shape} and {values.shape} for queries of {size}",
            "both have the same tokens and heads, and keys the size of the queries",
        )
    if not keys.shape[2] or heads % keys.shape[2]:
        raise refused(f"{heads} heads of q for {keys.shape[2]} of the caches", "heads of q are a multiple of those")
    counts = info_of("lengths", lengths, INDICES)
    if counts.shape != (batch,):
        raise refused(f"lengths of shape {counts.shape} for {batch} sequences", "pass one length for each sequence")
    capacity, page = keys.shape[1], 0
    if pages is None:
        if keys.shape[0] != batch:
            raise refused(f"caches of {keys.shape[0]} sequences for {batch}", "pass one for each sequence, or pages")
    else:
        table, page = info_of("pages", pages, INDICES), capacity
        if len(table.shape) != 2 or table.shape[0] != batch:
            raise refused(f"a page table of shape {table.shape} for {batch} sequences", "pass (sequences, pages)")
        if page < SMALLEST_PAGE or (page % 64 and page not in (16, 32)):
            raise refused(f"pages of {page} tokens", "use pages of 16, 32 or 64 tokens, or a multiple of 64")
        capacity = table.shape[1] * page
    return {"q": queries, "k": keys, "v": values, "capacity": capacity, "page": page}


def _cache(what: str, x: Any, queries: ArrayInfo) -> ArrayInfo:
    """A cache that the copy engine reads."""
    info = info_of(what, x, HALVES)
    if len(info.shape) != 4:
        raise refused(f"{what} has shape {info.shape}", "pass (sequences, tokens, heads, size), or pages of tokens")
    if info.dtype_name != queries.dtype_name:
        raise refused(f"{what} is {info.dtype_name}, q is {queries.dtype_name}", "pass them in one element type")
    if info.shape[3] % 16 or not 16 <= info.shape[3] <= 256:
        raise refused(f"heads of {info.shape[3]} elements", "sizes are multiples of 16, up to 256")
    if not info.contiguous_inner or not info.aligned16 or info.shape[3] * ITEM_BYTES[info.dtype_name] % COPY_CHUNK:
        raise refused(
            f"{what} has strides {info.strides}",
            f"its last axis is contiguous, and its start and other strides are multiples of {COPY_CHUNK} bytes",
        )
    return info


__all__ = ["attention_decode"]
