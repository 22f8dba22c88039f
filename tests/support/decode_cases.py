"""Attention to caches and to lists of keys in float64, and the arrays of small cases."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
Pair = tuple[np.ndarray, np.ndarray]


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, softcap: float | None = None) -> Pair:
    """Queries (heads, size) to keys (tokens, size): results (heads, size of v) and logarithms, 0 and -inf without keys."""
    if not len(k):
        return np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
    x = q.astype(np.float64) @ k.astype(np.float64).T * scale
    if softcap:
        x = softcap * np.tanh(x / softcap)
    top = x.max(1, keepdims=True)
    p = np.exp(x - top)
    total = p.sum(1, keepdims=True)
    return p / total @ v.astype(np.float64), (top + np.log(total))[:, 0]


def decoded(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, lengths: np.ndarray, causal: bool = True,
    window: tuple[int, int] = (-1, -1), softcap: float | None = None, scale: float | None = None,
    k_scale: Any = 1.0, v_scale: Any = 1.0,
) -> Pair:
    """`attention_decode` of contiguous caches, by its definition."""
    batch, tokens, heads, size = q.shape
    kv_heads = k.shape[2]
    group, scale = heads // kv_heads, scale or size**-0.5
    k_scales, v_scales = (np.broadcast_to(np.asarray(x, np.float64), kv_heads) for x in (k_scale, v_scale))
    out, logs = np.zeros((batch, tokens, heads, v.shape[3])), np.zeros((batch, tokens, heads))
    left, right = window
    right = 0 if causal else right
    for b, t, h in np.ndindex(batch, tokens, kv_heads):
        place = int(lengths[b]) - tokens + t
        end = int(lengths[b]) if right < 0 else min(int(lengths[b]), place + right + 1)
        seen = slice(max(0, place - left) if left >= 0 else 0, max(end, 0))
        mine = slice(h * group, h * group + group)
        o, lse = attended(q[b, t, mine], k[b, seen, h], v[b, seen, h], scale * k_scales[h], softcap)
        out[b, t, mine], logs[b, t, mine] = o * v_scales[h], lse
    return out, logs


def listed(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, indices: np.ndarray, block: int = 1, scale: float | None = None
) -> Pair:
    """`sparse_attention`, by its definition."""
    batch, queries, heads, size = q.shape
    kv_heads = k.shape[2]
    group, each = heads // kv_heads, queries // indices.shape[1]
    out, logs = np.zeros((batch, queries, heads, v.shape[3])), np.zeros((batch, queries, heads))
    for b, t, h in np.ndindex(batch, queries, kv_heads):
        entries = indices[b, t // each, min(h, indices.shape[2] - 1)]
        tokens = (entries[entries >= 0, None] * block + np.arange(block)).reshape(-1)
        tokens = tokens[tokens < k.shape[1]]
        mine = slice(h * group, h * group + group)
        found = attended(q[b, t, mine], k[b, tokens, h], v[b, tokens, h], scale or size**-0.5)
        out[b, t, mine], logs[b, t, mine] = found
    return out, logs


def caches(seed: int, shape: tuple[int, ...], v_size: int, lengths: np.ndarray, dtype: Any = BF16) -> Pair:
    """A cache of keys and one of values, with NaN behind each sequence's last token."""
    rng = np.random.default_rng(seed)
    k, v = rng.standard_normal(shape).astype(dtype), rng.standard_normal((*shape[:3], v_size)).astype(dtype)
    for b, length in enumerate(lengths):
        k[b, length:] = np.nan
        v[b, length:] = np.nan
    return k, v


def paged(caches: tuple[np.ndarray, ...], page: int, seed: int = 0) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The same caches in pages that lie anywhere, with one table; what no token lies in is NaN."""
    batch, tokens = caches[0].shape[:2]
    per = -(-tokens // page)
    places = np.random.default_rng(seed).permutation(batch * per + 3)
    table = places[: batch * per].reshape(batch, per).astype(np.int32)
    found = []
    for cache in caches:
        pages = np.full((batch * per + 3, page, *cache.shape[2:]), np.nan, cache.dtype)
        whole = np.full((batch, per * page, *cache.shape[2:]), np.nan, cache.dtype)
        whole[:, :tokens] = cache
        pages[table] = whole.reshape(batch, per, page, *cache.shape[2:])
        found.append(pages)
    return tuple(found), table


def error(got: Pair, want: Pair) -> float:
    """The largest difference of results and logarithms; infinite ones must be the same."""
    (o, lse), (o_want, lse_want) = got, want
    assert np.array_equal(np.isinf(lse), np.isinf(lse_want))
    finite = np.isfinite(lse_want)
    differences = (np.abs(o.astype(np.float64) - o_want), np.abs(lse[finite] - lse_want[finite]))
    return float(max(d.max(initial=0) for d in differences))
