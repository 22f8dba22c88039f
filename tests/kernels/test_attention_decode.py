"""`attention_decode` in the simulator, against float64: lengths, tokens, groups, masks, pages, 8-bit and latent caches."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.attention.arguments import columns_of
from phalanx.kernels.attention.decode import attention_decode
from phalanx.kernels.attention.decode_config import DecodeConfig, choose_decode, choose_latent, lone_ring, ring_stages
from phalanx.kernels.attention.decode_ring import decode_ring, join_splits
from phalanx.kernels.attention.forms import CacheForm
from phalanx.kernels.attention.latent_ring import latent_ring
from support.decode_cases import BF16, F8, caches, decoded, error, paged
from support.host_cuda import COMPILER, MISSING, run_on_host

TOLERANCE = 0.012
"""A result of about 2, rounded to bf16, and weights rounded to bf16."""


def run(
    lengths: tuple[int, ...], *, seed: int = 0, tokens: int = 1, heads: int = 4, kv_heads: int = 2, size: int = 64,
    v_size: int = 64, page: int = 0, dtype: Any = BF16, cache: Any = None, config: DecodeConfig | None = None,
    **options: Any,
) -> float:
    """The error of a case whose caches have room for the longest sequence and five tokens more."""
    counts, room = np.array(lengths, np.int32), max(lengths) + 5
    q = np.random.default_rng(seed + 1).standard_normal((len(lengths), tokens, heads, size)).astype(dtype)
    k, v = caches(seed, (len(lengths), room, kv_heads, size), v_size, counts, cache or dtype)
    (k_cache, v_cache), table = paged((k, v), page) if page else ((k, v), None)
    got = attention_decode(q, k_cache, v_cache, counts, pages=table, lse=True, config=config, **options)
    assert got[0].dtype == q.dtype and got[0].shape == (*q.shape[:3], v_size)
    return error(got, decoded(q, k, v, counts, **options))


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "case",
    [
        {"lengths": (70, 0, 1), "config": DecodeConfig(1, 2)},
        {"lengths": (130, 3), "tokens": 3, "page": 16, "config": DecodeConfig(2, 2, 16)},
        {
            "lengths": (150,), "tokens": 16, "heads": 8, "kv_heads": 1, "window": (20, 0),
            "config": DecodeConfig(2, 2, rows=128, ctas=1),
        },
        {"lengths": (130, 0, 64), "heads": 100, "kv_heads": 1, "size": 32, "config": DecodeConfig(1, 2, 16, 1, 128)},
        {"lengths": (100, 33), "config": DecodeConfig(1, 2, splits=2), "softcap": 2.0, "dtype": np.float16},
        {"lengths": (90,), "cache": F8, "k_scale": 0.5, "v_scale": 2.0, "config": DecodeConfig(1, 2)},
    ],
    ids=["lengths", "paged tokens", "128 rows, window", "128 rows in turns", "splits, cap", "8 bits"],
)
def test_against_float64(case: dict[str, Any]) -> None:
    assert run(**case) < TOLERANCE


@pytest.mark.parametrize("case", [
    {"size": 72, "v_size": 40, "config": DecodeConfig(2, 2)},
    {"size": 80, "v_size": 80, "page": 16, "config": DecodeConfig(1, 2, 16, splits=2)},
    {"size": 75, "v_size": 75, "config": DecodeConfig(1, 2)},
    {"size": 40, "v_size": 40, "config": DecodeConfig(1, 2, 8, 1, runs=3)},
], ids=["cluster", "pages and splits", "copied", "runs"])  # fmt: skip
def test_heads_of_any_size(case: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run((100, 3), **case) < TOLERANCE
    assert len(caught) == (2 if case["size"] == 75 else 0), "the two caches, or nothing"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_random_cases(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kv_heads, group = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2, 5, 8]))
    tokens = int(rng.choice([1, 2, 5, 16]))
    page = int(rng.choice([0, 16, 32, 64, 128]))
    config = DecodeConfig(
        int(rng.choice([1, 2, 3, 4])), int(rng.choice([2, 3])), min(page or 64, int(rng.choice([16, 32, 64]))),
        splits=int(rng.choice([1, 1, 3])),
    )  # fmt: skip
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["window"] = (int(rng.integers(-1, 120)), int(rng.integers(-1, 5)))
    if rng.random() < 0.3:
        options["softcap"] = 5.0
    if rng.random() < 0.3:
        options["causal"] = False
    if rng.random() < 0.3:
        options["scale"] = 0.3
    if rng.random() < 0.25:
        scales = rng.random(kv_heads).astype(np.float32) + 0.5
        options.update(cache=rng.choice([F8, ml_dtypes.float8_e5m2]), k_scale=0.5, v_scale=scales)
    lengths = tuple(int(rng.integers(0, most)) for most in (300, 300, 3))
    size, v_size = (int(x) for x in rng.choice([32, 64, 80, 128], 2))
    assert run(
        lengths, seed=seed, tokens=tokens, heads=kv_heads * group, kv_heads=kv_heads, size=size, v_size=v_size, page=page,
        config=config if rng.random() < 0.8 else None, dtype=BF16 if rng.random() < 0.7 else np.float16, **options,
    ) < 3 * TOLERANCE  # fmt: skip


@pytest.mark.parametrize(
    "config", [DecodeConfig(1, 2, ctas=1), pytest.param(DecodeConfig(2, 2, 32, 1, splits=2), marks=pytest.mark.long)]
)
def test_values_that_are_the_first_columns_of_the_keys(config: DecodeConfig) -> None:
    lengths = np.array([130, 7], np.int32)
    q = np.random.default_rng(1).standard_normal((2, 2, 8, 192)).astype(BF16)
    k, _ = caches(2, (2, 140, 1, 192), 64, lengths)
    (pages,), table = paged((k,), 64 if config.splits == 1 else 32)
    got = attention_decode(q, pages, None, lengths, pages=table, v_dim=128, lse=True, config=config)
    assert error(got, decoded(q, k, k[..., :128], lengths)) < TOLERANCE


def decoding(
    C: int = 1, G: int = 4, *, rows: int = 64, ctas: int = 2, narrow: bool = False
) -> tuple[Any, list[Any], dict[str, Any]]:
    """A launch of `decode_ring`, by hand: two sequences, the ring wraps, one of them ends inside a block."""
    lengths = np.array([260, 70], np.int32)
    q = np.random.default_rng(0).standard_normal((2 * G, 32)).astype(BF16)
    k, v = caches(0, (2, 270, 1, 32), 32, lengths)
    out, logs = np.zeros((2 * G, 32), BF16), np.zeros(2 * G, np.float32)
    args = [q, k, v, lengths, None, None, None, out, logs, 0.25, None, None, 1.0, None, 0, 270, G]
    constants = {"config": DecodeConfig(C, 2, ctas=ctas, rows=rows), "form": CacheForm(32, 32, group=G, narrow=narrow)}
    return decode_ring[C, 1, 2], args, constants


IN_TURNS = {"G": 100, "rows": 128, "ctas": 1}


@pytest.mark.share(2)
@pytest.mark.parametrize("options", [{}, {"C": 2}, IN_TURNS], ids=["one", "cluster", "in turns"])
def test_checked_clean(options: dict[str, Any]) -> None:
    bound, args, constants = decoding(**options)
    assert px.check(bound, *args, **constants).ok


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("options", [{}, {"C": 2}, IN_TURNS], ids=["one", "cluster", "in turns"])
def test_text_on_the_cpu(options: dict[str, Any]) -> None:
    bound, args, constants = decoding(**options)
    run_on_host(decode_ring, bound.grid, *args, **constants)
    q, k, v, lengths = args[:4]
    want, logs = decoded(q.reshape(2, 1, constants["form"].group, 32), k, v, lengths, scale=0.25 / np.log2(np.e))
    assert np.abs(args[7].reshape(want.shape).astype(np.float64) - want).max() < TOLERANCE
    assert np.abs(args[8].reshape(logs.shape) - logs).max() < 1e-5


@pytest.mark.long
def test_others_checked_clean() -> None:
    lengths = np.array([200], np.int32)
    q = np.random.default_rng(0).standard_normal((4, 192)).astype(BF16)
    k, _ = caches(0, (1, 210, 1, 192), 64, lengths)
    for C in (1, 2):
        args = (q, k, lengths, None, np.zeros((4, 128), BF16), None, 0.25, None, None, None, 0, 210, 4)
        assert px.check(latent_ring[C, 1, 1], *args, config=DecodeConfig(C, 2, ctas=1), form=CacheForm(192, 128)).ok
    bound, args, constants = decoding(C=2, rows=128, ctas=1)
    assert px.check(bound, *args, **constants).ok
    k8, v8 = (x.astype(F8) for x in args[1:3])
    assert px.check(bound, args[0], k8, v8, *args[3:], **decoding(C=2, rows=128, ctas=1, narrow=True)[2]).ok
    parts, logs = np.zeros((24, 32), np.float32), np.zeros(24, np.float32)
    assert px.check(join_splits[2], parts, logs, np.zeros((8, 32), BF16), np.zeros(8, np.float32), 8, SPLITS=3, DV=32).ok


def test_nothing_is_left_of_what_a_result_held() -> None:
    """Rows without keys are written, too; and an empty batch is no launch."""
    counts = np.zeros(1, np.int32)
    q, cache = np.ones((1, 1, 2, 32), BF16), np.full((1, 64, 1, 32), np.nan, BF16)
    o, lse = attention_decode(q, cache, cache, counts, lse=True)
    assert not o.astype(np.float32).any() and np.isneginf(lse).all()
    assert attention_decode(q[:0], cache[:0], cache[:0], counts[:0]).shape == (0, 1, 2, 32)


def specs(config: DecodeConfig, tokens: int, group: int, size: int, page: int, dtype: Any = px.bf16) -> tuple[Any, ...]:
    kv_heads, batch = 2, 3
    heads, cache = group * kv_heads, (9, page, kv_heads, size) if page else (batch, 4096, kv_heads, size)
    results = px.f32 if config.splits > 1 else px.bf16
    return (
        px.spec((batch * tokens * heads, size), px.bf16), px.spec(cache, dtype), px.spec(cache, dtype),
        px.spec((batch,), px.i32), px.spec((batch, 3), px.i32) if page else None, None, None,
        px.spec((batch * tokens * heads * config.splits, size), results),
        px.spec((batch * tokens * heads * config.splits,), px.f32),
    )  # fmt: skip


SHIPPED = [
    (128, 4, 1, 0, 2), (128, 128, 1, 0, 2), (64, 8, 1, 0, 2), (96, 8, 1, 0, 2), (192, 4, 1, 0, 2), (256, 8, 1, 0, 2),
    (64, 1, 1, 0, 2), (72, 1, 1, 0, 2), (64, 2, 1, 16, 2),
    (128, 4, 16, 16, 2), (128, 4, 4, 64, 2), (128, 4, 1, 0, 1), (256, 4, 1, 16, 1), (64, 4, 2, 256, 1), (128, 128, 1, 16, 1),
]  # fmt: skip
"""Size, heads of a group, tokens, tokens of a page, bytes of an element."""


@pytest.mark.long
@pytest.mark.parametrize("batch", [1, 8, 256])
@pytest.mark.parametrize("size, group, tokens, page, item", SHIPPED)
def test_no_spills(size: int, group: int, tokens: int, page: int, item: int, batch: int) -> None:
    """What the choice gives compiles without spills, also with a window and a cap, and fits on an SM as often as it says."""
    config = choose_decode(batch, 2, group * tokens, 4096, size, size, page, item)
    arrays = specs(config, tokens, group, size, page, px.bf16 if item == 2 else px.f8e4m3)
    wide = columns_of(size)
    form = CacheForm(wide, wide, tokens, group, page, item == 1)
    for slope, cap, left in ((None, None, None), (0.1, 30.0, 512)):
        made = px.compile(
            decode_ring[config.cluster * config.splits, 2, 3], *arrays, 1.0, slope, cap, 1.0, left, 0, 4096, 2 * group,
            config=config, form=form,
        )  # fmt: skip
        assert made.spills == 0
        assert made.shared_bytes <= {1: 232448, 2: 115712, 3: 76800}[config.ctas]


@pytest.mark.long
@pytest.mark.parametrize(
    "cluster, page, box, heads", [(1, 0, 64, 128), (2, 16, 16, 128), (8, 64, 64, 128), (8, 0, 64, 16), (2, 0, 64, 16)]
)
def test_no_spills_of_latent_caches(cluster: int, page: int, box: int, heads: int) -> None:
    softmax = (1.0, 0.1, 30.0, 100, 0) if heads == 128 else (0.1, None, None, None, 0)
    made = px.compile(
        latent_ring[cluster, px.cdiv(heads, 64), 3], px.spec((3 * heads, 576), px.bf16),
        px.spec((9, page or 4096, 1, 576), px.bf16), px.spec((3,), px.i32), px.spec((3, 3), px.i32) if page else None,
        px.spec((3 * heads, 512), px.bf16), px.spec((3 * heads,), px.f32) if heads < 128 else None, *softmax, 4096, heads,
        config=DecodeConfig(cluster, 2, box, 1), form=CacheForm(576, 512, group=heads, page=page),
    )  # fmt: skip
    assert made.spills == 0


def test_choices() -> None:
    """Rings as deep as fit; clusters where sequences alone do not fill the card, none for short caches."""
    assert ring_stages(64, 128, 128, 2) == 3
    assert ring_stages(64, 128, 128, 2, item=1) == 4
    assert choose_decode(64, 8, 4, 8192, 128, 128).cluster == 1
    assert (choose_decode(1, 8, 4, 65536, 128, 128).cluster, choose_decode(1, 8, 4, 65536, 128, 128).splits) == (1, 16)
    assert (choose_decode(1, 8, 4, 2048, 128, 128).cluster, choose_decode(1, 8, 4, 2048, 128, 128).splits) == (8, 1)
    assert choose_decode(12, 8, 4, 4096, 128, 128).splits == 1, "96 of 132 SMs are quicker than a second kernel and turns"
    short, long = choose_decode(128, 8, 4, 1000, 128, 128), choose_decode(64, 8, 4, 8192, 128, 128)
    assert (short.ctas, short.stages) == (2, 2) and long.ctas == 1, "one begins while the other reads, where that is short"
    assert choose_decode(32, 12, 1, 1024, 64, 64).ctas == 3 and choose_decode(256, 12, 1, 1024, 96, 96).ctas == 2
    crowd = choose_decode(16, 8, 16, 16384, 64, 64)
    assert (crowd.ctas, crowd.splits) == (2, 2), "one CTA on an SM would not ask for as much as the memory gives"
    assert lone_ring(64, 128, 128) == (2, 4)
    assert choose_decode(1, 8, 4, 64, 128, 128).cluster == 1
    assert choose_decode(64, 8, 4, 8192, 128, 128, page=16).box == 16
    assert choose_decode(64, 8, 4, 8192, 256, 256).ctas == 1
    assert (choose_latent(16, 128, 16384).cluster, choose_latent(16, 128, 16384).splits) == (2, 2)
    assert choose_decode(8, 1, 128, 16384, 128, 128) == DecodeConfig(1, 3, 8, ctas=1, rows=128, splits=16, room=3)
    narrow = choose_decode(8, 1, 128, 16384, 128, 128, item=1)
    assert (narrow.rows, narrow.stages, narrow.splits) == (128, 5, 16)
    assert choose_decode(64, 8, 4, 8192, 128, 128, page=16).stages == 3


def test_choices_for_ragged_heads() -> None:
    """Blocks with keys of all heads where rows of 160 bytes lie side by side and there are many; or short rings."""
    runs = choose_decode(1, 32, 1, 98304, 80, 80)
    assert (runs.runs, runs.heads) == (132, 32)
    for heads, rows, size, dense in ((32, 1, 96, True), (32, 1, 80, False), (1, 32, 80, True)):
        usual = choose_decode(1, heads, rows, 98304, size, size, dense=dense)
        assert usual.runs == 0, "nothing is shared, or not known to be"
    assert choose_decode(1, 32, 1, 3072, 80, 80).runs == 0, "few keys"
    apart, few = choose_decode(1, 40, 2, 98304, 80, 80), choose_decode(1, 40, 2, 2048, 80, 80)
    assert (apart.runs, apart.ctas, apart.stages) == (0, 1, 2), "64 keys of 40 heads are no whole tokens"
    assert few.stages == 4, "L2 holds what the heads share"


def mistake(**changes: Any) -> str:
    call: dict[str, Any] = {
        "q": np.zeros((2, 1, 4, 64), BF16), "k_cache": np.zeros((2, 64, 2, 64), BF16),
        "v_cache": np.zeros((2, 64, 2, 64), BF16), "lengths": np.zeros(2, np.int32), **changes,
    }  # fmt: skip
    with pytest.raises(px.Error) as caught:
        attention_decode(**call)
    return str(caught.value)


def test_mistakes() -> None:
    wide, odd, paged = (np.zeros(shape, BF16) for shape in ((2, 64, 1, 576), (9, 48, 2, 64), (9, 16, 2, 64)))
    said = {
        "q has shape (2, 17, 4, 64)": {"q": np.zeros((2, 17, 4, 64), BF16)},
        "q and k_cache have the same last axis": {"q": np.zeros((2, 1, 4, 128), BF16)},
        "5 heads of q for 2 of the cache": {"q": np.zeros((2, 1, 5, 64), BF16)},
        "lengths of shape (3,) for 2 sequences": {"lengths": np.zeros(3, np.int32)},
        "pages of 48 tokens": {"pages": np.zeros((2, 3), np.int32), "k_cache": odd, "v_cache": odd},
        "they differ in their last axis only": {"v_cache": np.zeros((2, 64, 1, 64), BF16)},
        "k_scale is given for a cache of 16-bit elements": {"k_scale": 2.0},
        "values of 304 elements": {"v_cache": np.zeros((2, 64, 2, 304), BF16)},
        "scale is -1.0": {"scale": -1.0},
        "v_dim is None without v_cache": {"v_cache": None, "k_cache": wide, "q": np.zeros((2, 1, 4, 576), BF16)},
        "config is": {"config": 3},
        "a box lies in one page: DecodeConfig(..., box=16)": {
            "pages": np.zeros((2, 3), np.int32), "k_cache": paged, "v_cache": paged, "config": DecodeConfig(1, 2),
        },
        "window is": {"window": 7},
    }
    for text, changes in said.items():
        assert text in mistake(**changes), text
