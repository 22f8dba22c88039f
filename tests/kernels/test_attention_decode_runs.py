"""`attention_decode` by equal runs over all sequences, in the simulator: cuts anywhere, heads in turn, pages, masks, NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.attention.decode import attention_decode
from phalanx.kernels.attention.decode_config import DecodeConfig, choose_runs
from phalanx.kernels.attention.decode_runs import decode_runs, join_runs, owner, share
from phalanx.kernels.attention.forms import CacheForm, RunsForm
from support.decode_cases import BF16, attended, caches, decoded, error, paged

TOLERANCE = 0.012


def runs(count: int, heads: int = 1, box: int = 16) -> DecodeConfig:
    return DecodeConfig(1, 2, box, 1, runs=count, heads=heads)


def run(
    lengths: tuple[int, ...], config: DecodeConfig | None, *, seed: int = 0, tokens: int = 1, heads: int = 4,
    kv_heads: int = 2, size: int = 32, v_size: int = 32, page: int = 0, dtype: Any = BF16, **options: Any,
) -> float:
    """The error of a case whose caches have room for the longest sequence and five tokens more."""
    counts, room = np.array(lengths, np.int32), max(lengths) + 5
    q = np.random.default_rng(seed + 1).standard_normal((len(lengths), tokens, heads, size)).astype(dtype)
    k, v = caches(seed, (len(lengths), room, kv_heads, size), v_size, counts, dtype)
    (k_cache, v_cache), table = paged((k, v), page) if page else ((k, v), None)
    got = attention_decode(q, k_cache, v_cache, counts, pages=table, lse=True, config=config, **options)
    return error(got, decoded(q, k, v, counts, **options))


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "case",
    [
        {"lengths": (70, 0, 1), "config": runs(2, 2)},
        {"lengths": (130, 3, 64), "config": runs(4, 2), "tokens": 3, "page": 16},
        {"lengths": (130, 3, 64), "config": runs(5, box=32), "tokens": 3, "page": 32, "dtype": np.float16},
        {"lengths": (70, 33), "config": runs(3, 8), "heads": 16, "kv_heads": 8, "window": (20, 0)},
        {"lengths": (70, 33, 9), "config": runs(4), "heads": 16, "tokens": 4, "softcap": 2.0},
        {"lengths": (20, 31), "config": runs(7, 32), "heads": 32, "kv_heads": 32, "causal": False, "window": (5, 2)},
        {"lengths": (40, 50, 0, 3) * 5, "config": choose_runs(20, 4, 2, 55, 32, 32), "heads": 8, "kv_heads": 4},
        {"lengths": (400,), "config": runs(11, 2), "size": 80, "v_size": 80},
        {"lengths": (2200,), "config": runs(67, 2)},
    ],
    ids=["heads", "paged tokens", "by head", "8 heads, window", "cap", "32 heads", "chosen", "11 parts", "67 parts"],
)
def test_against_float64(case: dict[str, Any]) -> None:
    assert run(**case) < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30))
def test_random_cases(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kv_heads, group, tokens = (int(rng.choice(x)) for x in ([1, 2, 4, 8], [1, 2, 3], [1, 2]))
    page = int(rng.choice([0, 16, 32, 64]))
    heads = kv_heads if rng.random() < 0.6 else 1
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["window"] = (int(rng.integers(-1, 120)), int(rng.integers(-1, 5)))
    if rng.random() < 0.3:
        options["causal"] = False
    if rng.random() < 0.2:
        options["softcap"] = 5.0
    lengths = tuple(int(rng.integers(0, most)) for most in (300, 3, 100, 200, 30)[: int(rng.integers(1, 6))])
    assert run(
        lengths, runs(int(rng.integers(1, 12)), heads), seed=seed, tokens=tokens, heads=kv_heads * group,
        kv_heads=kv_heads, page=page, size=int(rng.choice([32, 64, 80])), v_size=int(rng.choice([32, 64])), **options,
    ) < 3 * TOLERANCE  # fmt: skip


@px.kernel(warps=1)
def shares(SHARES, OWNERS, total, parts):
    part = px.block_id(0)
    first, count = share(total, part, parts)
    px.store(SHARES[part, 0], first)
    px.store(SHARES[part, 1], count)
    for place in range(first, first + count):
        px.store(OWNERS[place], owner(total, place, parts))


@pytest.mark.parametrize("total, parts", [(100, 7), (3, 5), (7, 7)])
def test_shares_are_equal_and_have_owners(total: int, parts: int) -> None:
    found, owners = np.zeros((parts, 2), np.int32), np.full(total, -1, np.int32)
    shares[parts](found, owners, total, parts)
    first, counts = found.T
    assert np.array_equal(first, np.cumsum(counts) - counts) and counts.sum() == total and np.ptp(counts) <= 1
    assert np.array_equal(owners, np.repeat(np.arange(parts), counts))


@pytest.mark.parametrize("page", [0, pytest.param(16, marks=pytest.mark.long)])
def test_what_is_no_number_stays_with_its_head(page: int) -> None:
    """Keys and values of another head are multiplied, too, by 0: infinite ones and NaN must not spoil a result."""
    lengths = np.array([70, 33], np.int32)
    q = np.random.default_rng(1).standard_normal((2, 1, 4, 32)).astype(BF16)
    k, v = caches(0, (2, 80, 2, 32), 32, lengths)
    v[0, 3, 1, 2], v[1, 2, 0, 1] = np.nan, np.inf
    k[0, 5, 1, 0] = np.nan
    (k_cache, v_cache), table = paged((k, v), page) if page else ((k, v), None)
    got = attention_decode(q, k_cache, v_cache, lengths, pages=table, config=runs(3, 2)).astype(np.float64)
    assert np.isnan(got[0, 0, 2:]).all()
    for b, h in ((0, 0), (1, 0), (1, 1)):
        mine = slice(2 * h, 2 * h + 2)
        want, _ = attended(q[b, 0, mine], k[b, : lengths[b], h], v[b, : lengths[b], h], 32**-0.5)
        assert np.array_equal(np.isinf(got[b, 0, mine]), np.isinf(want)) and not np.isnan(got[b, 0, mine]).any()
        there = np.isfinite(want)
        assert np.abs(got[b, 0, mine][there] - want[there]).max() < TOLERANCE


def by_hand(heads: int, count: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of `decode_runs`: three sequences, one of them empty, which `count` CTAs share."""
    lengths = np.array([100, 0, 70], np.int32)
    q = np.random.default_rng(0).standard_normal((3 * 4, 32)).astype(BF16)
    k, v = (x.reshape(3, -1, 2 // heads, 32) for x in caches(0, (3, 110, 2, 32), 32, lengths))
    out, logs = np.zeros((12, 32), BF16), np.zeros(12, np.float32)
    parts, part_logs = np.zeros((2 * count * 64, 32), np.float32), np.zeros(2 * count * 64, np.float32)
    args = (q, k, v, lengths, None, out, logs, parts, part_logs, 0.25, None, None, None, 0, 110, 4)
    return args, {"form": CacheForm(32, 32, group=2), "dealt": RunsForm(4, heads, 2 // heads)}


@pytest.mark.parametrize("heads, count", [(2, 3), pytest.param(1, 5, marks=pytest.mark.long)])
def test_checked_clean(heads: int, count: int) -> None:
    args, constants = by_hand(heads, count)
    assert px.check(decode_runs[count], *args, **constants).ok
    lengths, out, logs, parts, part_logs = (args[i] for i in (3, 5, 6, 7, 8))
    joined = (lengths, parts, part_logs, out, logs, None, 0, 110, 4, count)
    assert px.check(join_runs[1, 2 // heads, 3], *joined, **constants).ok


SHIPPED = [
    (128, 4, 8, 1, 0), (128, 8, 8, 1, 16), (64, 1, 32, 2, 0), (96, 4, 4, 1, 64), (128, 2, 3, 1, 0), (128, 16, 2, 4, 16)
]  # fmt: skip
"""Size, heads of a group, KV heads, tokens, tokens of a page."""


@pytest.mark.long
@pytest.mark.parametrize("size, group, kv_heads, tokens, page", SHIPPED)
def test_no_spills(size: int, group: int, kv_heads: int, tokens: int, page: int) -> None:
    batch, heads = 100, group * kv_heads
    config = choose_runs(batch, kv_heads, group * tokens, 4096, size, size, page)
    shared = config.heads
    assert config.runs == 132 and shared == (kv_heads if 64 % kv_heads == 0 and tokens * heads <= 64 else 1)
    cache = px.spec((900 if page else batch, (page or 4096) * shared, kv_heads // shared, size), px.bf16)
    rows, parts = batch * tokens * heads, 2 * config.runs * 64
    form = CacheForm(size, size, tokens, group, page * shared)
    dealt = RunsForm(128, shared, kv_heads // shared)
    for slope, cap, left in ((None, None, None), (0.1, 30.0, 512)):
        made = px.compile(
            decode_runs[config.runs], px.spec((rows, size), px.bf16), cache, cache, px.spec((batch,), px.i32),
            px.spec((batch, 9), px.i32) if page else None, px.spec((rows, size), px.bf16), px.spec((rows,), px.f32),
            px.spec((parts, size), px.f32), px.spec((parts,), px.f32), 1.0, slope, cap, left, 0, 4096, heads,
            config=config, form=form, dealt=dealt,
        )  # fmt: skip
        assert made.spills == 0 and 115712 < made.shared_bytes <= 232448
    joined = px.compile(
        join_runs[1, 1, batch], px.spec((batch,), px.i32), px.spec((parts, size), px.f32), px.spec((parts,), px.f32),
        px.spec((rows, size), px.bf16), px.spec((rows,), px.f32), None, 0, 4096, heads, config.runs,
        R=4 if size > 64 else 8, form=form, dealt=dealt,
    )  # fmt: skip
    assert joined.spills == 0


def mistake(**changes: Any) -> str:
    call: dict[str, Any] = {
        "q": np.zeros((2, 1, 4, 64), BF16), "k_cache": np.zeros((2, 64, 2, 64), BF16),
        "v_cache": np.zeros((2, 64, 2, 64), BF16), "lengths": np.zeros(2, np.int32), **changes,
    }  # fmt: skip
    with pytest.raises(px.Error) as caught:
        attention_decode(**call)
    return str(caught.value)


def test_mistakes() -> None:
    apart = np.zeros((2, 2, 64, 64), BF16).swapaxes(1, 2)
    for text, changes in {
        "config has keys of 4 heads in a block, the cache has 2 heads": {"config": runs(3, 4)},
        "config has keys of 2 heads in a block": {"config": runs(3, 2), "k_cache": apart, "v_cache": apart},
        "config has 3 runs": {"config": DecodeConfig(1, 2, rows=128, runs=3)},
        "values of up to 128 elements": {"config": runs(3), "v_cache": np.zeros((2, 64, 2, 256), BF16)},
    }.items():
        assert text in mistake(**changes)
