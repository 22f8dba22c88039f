"""Cache compaction in the simulator: in place and not, paged and contiguous."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels import kv_cache
from phalanx.kernels.kv_cache import choose_slices, kv_compact

SEQUENCES, TOKENS, KEPT, PAGE = 3, 40, 17, 8


def make(dtype: type = ml_dtypes.bfloat16, heads: int = 2, size: int = 64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    cache = rng.integers(-9, 9, (SEQUENCES, TOKENS, heads, size)).astype(dtype)
    keep = np.sort(np.stack([rng.permutation(TOKENS)[:KEPT] for _ in range(SEQUENCES)]), axis=1)
    keep[1, -3:] = -1
    return cache, keep


def compacted(cache: np.ndarray, keep: np.ndarray) -> np.ndarray:
    out = np.zeros((*keep.shape, *cache.shape[2:]), cache.dtype)
    for s, tokens in enumerate(keep.tolist()):
        for i, token in enumerate(tokens):
            if 0 <= token < cache.shape[1]:
                out[s, i] = cache[s, token]
    return out


def paged(cache: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same cache in pages that lie anywhere, and its page table."""
    per = TOKENS // PAGE
    table = np.random.default_rng(1).permutation(20)[: SEQUENCES * per].reshape(SEQUENCES, per).astype(np.int32)
    pages = np.zeros((20, PAGE, *cache.shape[2:]), cache.dtype)
    pages[table] = cache.reshape(SEQUENCES, per, PAGE, *cache.shape[2:])
    return pages, table


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, ml_dtypes.float8_e4m3fn])
def test_contiguous(dtype: type) -> None:
    cache, keep = make(dtype)
    expected = compacted(cache, keep)
    assert np.array_equal(kv_compact(cache, keep), expected)
    changed = cache.copy()
    assert kv_compact(changed, keep, inplace=True) is changed
    assert np.array_equal(changed[:, :KEPT], expected)
    assert np.array_equal(changed[:, KEPT:], cache[:, KEPT:])


def test_paged() -> None:
    cache, keep = make()
    pages, table = paged(cache)
    expected = compacted(cache, keep)
    assert np.array_equal(kv_compact(pages, keep, pages=table), expected)
    kv_compact(pages, keep, pages=table, inplace=True)
    after = pages[table].reshape(cache.shape)
    assert np.array_equal(after[:, :KEPT], expected)
    assert np.array_equal(after[:, KEPT:], cache[:, KEPT:])


def test_one_sequence() -> None:
    cache, keep = make()
    single = cache[0].copy()
    assert np.array_equal(kv_compact(single, keep[0]), compacted(cache, keep)[0])
    kv_compact(single, keep[0], inplace=True)
    assert np.array_equal(single[:KEPT], compacted(cache, keep)[0])


def test_tokens_that_are_not_there_are_zeros_in_place_too() -> None:
    cache, keep = make()
    keep[2, -1] = TOKENS
    kv_compact(changed := cache.copy(), keep, inplace=True)
    assert np.array_equal(changed[:, :KEPT], compacted(cache, keep))


def check(cache: np.ndarray, keep: np.ndarray, table: np.ndarray, page: int) -> px.Error:
    columns = cache[0, 0].size
    slices, config = choose_slices(columns, cache.itemsize, SEQUENCES, 4)
    constants = {name: value for name, value in config.constants(columns).items() if name != "PARTS"}
    rows = cache.reshape(-1, columns)
    return px.check(
        kv_cache.compact_ring[SEQUENCES * slices], rows, keep, table, TOKENS, SLICES=slices, PAGE=page, **constants
    )


def test_in_place_is_clean_as_long_as_the_tokens_ascend() -> None:
    cache, keep = make()
    pages, table = paged(cache)
    assert check(cache, keep, keep, 0).ok
    assert check(pages, keep, table, PAGE).ok
    report = check(cache, keep[:, ::-1].copy(), keep, 0)
    assert {finding.kind for finding in report.findings} == {"race"}


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("page", [0, 16])
def test_compiles(arch: str, page: int) -> None:
    slices, config = choose_slices(1024, 2, 64, 132)
    constants = {name: value for name, value in config.constants(1024).items() if name != "PARTS"}
    index = px.spec((64, 1024), px.i32)
    made = px.compile(
        kv_cache.compact_ring[64 * slices], px.spec((262144, 1024), px.bf16), index, index, 4096, SLICES=slices,
        PAGE=page, arch=arch, **constants,
    )
    assert made.spills == 0


def test_mistakes() -> None:
    cache, keep = make()
    with pytest.raises(px.Error, match="for a cache of"):
        kv_compact(cache, keep[:2])
    with pytest.raises(px.Error, match="not contiguous"):
        kv_compact(cache[:, ::2], keep, inplace=True)
    with pytest.raises(px.Error, match="tokens to keep in sequences of"):
        kv_compact(cache, np.zeros((SEQUENCES, 50), int), inplace=True)
    with pytest.raises(px.Error, match="a page table of shape"):
        kv_compact(cache, keep, pages=np.zeros(4, int))
    with pytest.raises(px.Error, match=r"keep\[0, 1\] is token 0, which would move back"):
        kv_compact(cache, np.array([[1, 0]] * SEQUENCES), inplace=True)
