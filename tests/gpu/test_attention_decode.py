"""On the GPU: attention to caches and to lists of keys, against float64 on the host; results that repeat bit by bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from phalanx.kernels.attention.decode import attention_decode
from phalanx.kernels.attention.decode_config import DecodeConfig
from phalanx.kernels.attention.sparse import sparse_attention
from support.decode_cases import BF16, F8, caches, decoded, error, listed, paged

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

TYPES = {
    np.dtype(BF16): "bfloat16", np.dtype(np.float16): "float16", np.dtype(F8): "float8_e4m3fn",
    np.dtype(ml_dtypes.float8_e5m2): "float8_e5m2",
}  # fmt: skip


def on_gpu(x: np.ndarray | None) -> Any:
    """The same bits on the GPU."""
    if x is None or x.dtype not in TYPES:
        return None if x is None else torch.from_numpy(x).cuda()
    bits = torch.from_numpy(x.view(f"i{x.dtype.itemsize}")).cuda()
    return bits.view(getattr(torch, TYPES[x.dtype]))


def plain(result: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    return result[0].float().cpu().numpy(), result[1].cpu().numpy()


CONFIGS = (
    None, DecodeConfig(1, 3), DecodeConfig(4, 3, 16), DecodeConfig(12, 3, 16), DecodeConfig(16, 3, 16),
    DecodeConfig(3, 5, 16, 1, 128), DecodeConfig(1, 5, 16, 1, 128, 7), DecodeConfig(2, 3, 16, splits=3),
    DecodeConfig(1, 2, 16, 1, runs=5), DecodeConfig(1, 2, 16, 1, runs=132, heads=2), DecodeConfig(1, 2, 16, splits=5),
)  # fmt: skip


CASES = [
    *((8, 2, 1, page, config) for config in CONFIGS for page in (0, 16 if config is None else config.box)),
    *((*heads, page, None) for heads in ((12, 1, 11), (6, 6, 3), (100, 1, 1)) for page in (0, 64, 256)),
]


@pytest.mark.parametrize("heads, kv_heads, tokens, page, config", CASES)
def test_decode(heads: int, kv_heads: int, tokens: int, page: int, config: DecodeConfig | None) -> None:
    lengths = np.array([1300, 0, 1, 77, 640], np.int32)
    q = np.random.default_rng(1).standard_normal((5, tokens, heads, 128)).astype(BF16)
    k, v = caches(2, (5, 1303, kv_heads, 128), 128, lengths)
    (k_cache, v_cache), table = paged((k, v), page) if page else ((k, v), None)
    arrays = [on_gpu(x) for x in (q, k_cache, v_cache, lengths)]
    got = attention_decode(*arrays, pages=on_gpu(table), lse=True, config=config)
    assert error(plain(got), decoded(q, k, v, lengths)) < 0.03
    for _ in range(3):
        again = attention_decode(*arrays, pages=on_gpu(table), lse=True, config=config)
        assert all(torch.equal(one, other) for one, other in zip(got, again))
    assert torch.equal(got[0], attention_decode(*arrays, pages=on_gpu(table), config=config))


@pytest.mark.parametrize("lengths", [(20000,), (9000, 0, 4321, 77)])
@pytest.mark.parametrize("page", [0, 64])
def test_ragged_heads(lengths: tuple[int, ...], page: int) -> None:
    """Heads of 80, whose keys come in blocks of all heads: a result has up to 132 parts."""
    counts, shape = np.array(lengths, np.int32), (len(lengths), max(lengths) + 3, 32, 80)
    q = np.random.default_rng(1).standard_normal((len(lengths), 1, 32, 80)).astype(BF16)
    k, v = caches(2, shape, 80, counts)
    (k_cache, v_cache), table = paged((k, v), page) if page else ((k, v), None)
    arrays = [on_gpu(x) for x in (q, k_cache, v_cache, counts)]
    got = attention_decode(*arrays, pages=on_gpu(table), lse=True)
    assert error(plain(got), decoded(q, k, v, counts)) < 0.03
    again = attention_decode(*arrays, pages=on_gpu(table), lse=True)
    assert all(torch.equal(one, other) for one, other in zip(got, again))


WINDOW, AROUND = {"window": (100, 0)}, {"window": (3, 2), "causal": False}


@pytest.mark.parametrize(
    "size, v_size, dtype, options",
    [
        (64, 64, BF16, WINDOW), (128, 64, np.float16, {"softcap": 3.0}), (80, 48, BF16, AROUND),
        (192, 128, BF16, {"causal": False}), (256, 256, np.float16, {}), (128, 128, np.float16, WINDOW),
    ],
)  # fmt: skip
def test_masks_types_and_sizes(size: int, v_size: int, dtype: Any, options: dict[str, Any]) -> None:
    lengths = np.array([500, 130], np.int32)
    q = np.random.default_rng(1).standard_normal((2, 5, 6, size)).astype(dtype)
    k, v = caches(3, (2, 511, 2, size), v_size, lengths, dtype)
    got = attention_decode(*(on_gpu(x) for x in (q, k, v, lengths)), lse=True, **options)
    assert error(plain(got), decoded(q, k, v, lengths, **options)) < 0.03


@pytest.mark.parametrize("cache", [F8, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("config", [None, DecodeConfig(3, 4, 16)])
def test_caches_of_8_bits(cache: Any, config: DecodeConfig | None) -> None:
    lengths = np.array([900, 5, 0], np.int32)
    q = np.random.default_rng(1).standard_normal((3, 2, 8, 128)).astype(BF16)
    k, v = caches(4, (3, 905, 2, 128), 128, lengths, cache)
    scales = {"k_scale": 0.5, "v_scale": np.array([0.5, 2.0], np.float32)}
    for page in (0, 16):
        (k_cache, v_cache), table = paged((k, v), page) if page else ((k, v), None)
        arrays = [on_gpu(x) for x in (q, k_cache, v_cache, lengths)]
        given = {"k_scale": 0.5, "v_scale": on_gpu(scales["v_scale"])}
        got = attention_decode(*arrays, pages=on_gpu(table), lse=True, config=config, **given)
        assert error(plain(got), decoded(q, k, v, lengths, **scales)) < 0.04


@pytest.mark.parametrize(
    "heads, tokens, config",
    [(128, 1, None), (16, 3, None), (128, 1, DecodeConfig(1, 2, 64, 1)), (128, 1, DecodeConfig(2, 2, 64, 1, splits=3))],
)
def test_latent_caches(heads: int, tokens: int, config: DecodeConfig | None) -> None:
    lengths = np.array([1300, 0, 77, 640], np.int32)
    q = np.random.default_rng(1).standard_normal((4, tokens, heads, 576)).astype(BF16)
    k, _ = caches(5, (4, 1303, 1, 576), 64, lengths)
    (pages,), table = paged((k,), 64)
    want = decoded(q, k, k[..., :512], lengths)
    for cache, of in ((k, None), (pages, table)):
        arrays = [on_gpu(x) for x in (q, cache, None, lengths)]
        got = attention_decode(*arrays, pages=on_gpu(of), v_dim=512, lse=True, config=config)
        assert error(plain(got), want) < 0.03


@pytest.mark.parametrize(
    "heads, kv_heads, list_heads, lists, each, block",
    [
        (8, 2, 2, 5, 1, 1), (8, 2, 1, 2, 3, 1), (4, 4, 4, 3, 1, 4), (8, 2, 2, 2, 1, 16), (8, 2, 2, 2, 1, 128),
        (128, 1, 1, 2, 1, 1), (64, 1, 1, 2, 1, 1), (128, 1, 1, 2, 1, 64),
    ],
)  # fmt: skip
def test_sparse(heads: int, kv_heads: int, list_heads: int, lists: int, each: int, block: int) -> None:
    rng = np.random.default_rng(block)
    latent = kv_heads == 1
    size, tokens = 576 if latent else 128, 3000
    q = rng.standard_normal((2, lists * each, heads, size)).astype(BF16)
    k, v = (rng.standard_normal((2, tokens, kv_heads, size)).astype(BF16) for _ in range(2))
    v = k[..., :512] if latent else v
    indices = rng.integers(-100 // block, tokens // block + 2, (2, lists, list_heads, 700 // block)).astype(np.int32)
    indices[0, 0, 0] = -1
    arrays = [on_gpu(x) for x in (q, k, None if latent else v, indices)]
    got = sparse_attention(*arrays, block=block, lse=True, v_dim=512 if latent else None)
    assert error(plain(got), listed(q, k, v, indices, block)) < 0.03
