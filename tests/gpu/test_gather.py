"""On the GPU: rows by index, every path of the language and the library's row movers, against torch."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.gather import MoveConfig, embedding, gather_rows, scatter_add_rows, scatter_rows
from phalanx.kernels.kv_cache import kv_compact

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

DTYPES = ["bfloat16", "float16", "float32", "float8_e4m3fn", "int8"]


def random(*shape: int, dtype: str = "bfloat16") -> Any:
    return torch.randint(-7, 8, shape, device="cuda").to(torch.float32).to(getattr(torch, dtype))


def plain(x: Any) -> Any:
    return x.to(torch.float32)


def gathered(x: Any, idx: Any) -> Any:
    there = (idx >= 0) & (idx < len(x))
    return plain(x)[(idx * there).long()] * there[:, None]


@px.kernel(warps=4)
def by_slice(X, I, Y, *, R, K, COL=0):
    s, bar = px.shared((R, K), X.dtype), px.barrier()
    i = px.block_id(0) * R
    with bar.transaction():
        px.tma.gather(X, I[i : i + R], COL, s, bar)
    bar.wait(0)
    px.store(Y[i : i + R, 0:K], px.load(s))


@px.kernel(warps=1)
def by_four(X, I, Y, *, K):
    s, bar = px.shared((4, K), X.dtype), px.barrier()
    i = px.block_id(0) * 4
    with bar.transaction():
        px.tma.gather4(X, (I[i], I[i + 1], I[i + 2], I[i + 3]), 0, s, bar)
    bar.wait(0)
    px.tma.scatter4(s, (i, i + 1, i + 2, i + 3), 0, Y)
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=2)
def back(X, I, Y, *, R, K, HINT=None):
    s, bar = px.shared((R, K), X.dtype), px.barrier()
    i = px.block_id(0) * R
    with bar.transaction():
        px.tma.load(X[i : i + R, 0:K], s, bar)
    bar.wait(0)
    px.tma.scatter(s, I[i : i + R], 0, Y, cache=HINT)
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=4, cluster=2)
def shared_by_two(X, I, Y, *, R, K):
    s, bar = px.shared((R, K), X.dtype), px.barrier()
    half = R // 2
    top = px.cluster.rank() * half
    with bar.transaction():
        px.tma.gather(X, I[top : top + half], 0, s[top : top + half], bar, multicast=0b11)
    bar.wait(0)
    px.store(Y[px.block_id(0) * R : px.block_id(0) * R + R, 0:K], px.load(s))


@px.kernel(warps=4)
def product(X, I, W, Y, *, M=64, N=64, K=128):
    a, b, bar = px.shared((M, K), X.dtype), px.shared((N, K), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.gather(X, I[0:M], 0, a, bar)
        px.tma.load(W[0:N, 0:K], b, bar)
    bar.wait(0)
    px.store(Y[0:M, 0:N], px.dot(a, b.T, px.zeros((M, N), px.f32)))


@pytest.mark.parametrize(
    "dtype, k, rows",
    [(dtype, 64, 32) for dtype in DTYPES]
    + [("bfloat16", k, 132) for k in (16, 32, 48, 64, 128, 512)]
    + [("int8", k, 4) for k in (16, 32, 128, 320, 512)],
)
def test_gather_of_every_width(dtype: str, k: int, rows: int) -> None:
    x = random(300, 512, dtype=dtype)
    idx = torch.randint(-20, 320, (2 * rows,), device="cuda", dtype=torch.int32 if k % 64 else torch.int64)
    y = random(2 * rows, k, dtype=dtype)
    by_slice[2](x, idx, y, R=rows, K=k)
    assert torch.equal(plain(y), gathered(x, idx)[:, :k])


@pytest.mark.parametrize("k", [32, 64, 512])
def test_four_at_a_time_there_and_back(k: int) -> None:
    x, idx = random(300, k), torch.randint(-20, 320, (64,), device="cuda")
    y = random(64, k)
    by_four[16](x, idx, y, K=k)
    assert torch.equal(plain(y), gathered(x, idx))


@pytest.mark.parametrize("hint", [None, "evict_first"])
@pytest.mark.parametrize("k, rows", [(16, 32), (32, 4), (64, 132), (128, 32), (512, 32)])
def test_scatter_drops_what_is_outside(k: int, rows: int, hint: str | None) -> None:
    x, y = random(rows, k), random(200, k)
    idx = torch.randperm(300, device="cuda")[:rows] - 50
    expected = y.clone()
    there = (idx >= 0) & (idx < 200)
    expected[idx[there]] = x[there]
    back[1](x, idx, y, R=rows, K=k, HINT=hint)
    assert torch.equal(y, expected)


def test_columns_beyond_the_row_are_zeros() -> None:
    x, idx = random(64, 96), torch.arange(8, device="cuda")
    y = random(8, 64)
    by_slice[1](x, idx, y, R=8, K=64, COL=64)
    assert torch.equal(y[:, :32], x[:8, 64:]) and not y[:, 32:].any()


def test_multicast_gather() -> None:
    x, idx = random(300, 64), torch.randint(-20, 320, (32,), device="cuda")
    y = random(64, 64)
    shared_by_two[2](x, idx, y, R=32, K=64)
    assert torch.equal(plain(y), gathered(x, torch.cat([idx, idx])))


@pytest.mark.parametrize("k", [16, 32, 64, 96, 128, 256])
def test_gathered_rows_feed_the_tensor_cores(k: int) -> None:
    x, w, idx = random(300, k), random(64, k), torch.randint(0, 300, (64,), device="cuda", dtype=torch.int32)
    y = torch.empty(64, 64, device="cuda")
    product[1](x, idx, w, y, K=k)
    assert torch.equal(y, plain(x)[idx.long()] @ plain(w).T)


@pytest.mark.parametrize(
    "dtype, columns", [(dtype, 4096) for dtype in DTYPES] + [("bfloat16", c) for c in (64, 100, 37, 1024, 40000)]
)
def test_gather_rows_and_scatter_rows(dtype: str, columns: int) -> None:
    x = random(3000, columns, dtype=dtype)
    idx = torch.randint(-100, 3100, (2001,), device="cuda")
    y = gather_rows(x, idx)
    assert torch.equal(plain(y), gathered(x, idx))
    out, places = random(2500, columns, dtype=dtype), torch.randperm(2600, device="cuda")[:2001] - 50
    expected = plain(out)
    there = (places >= 0) & (places < 2500)
    expected[places[there]] = plain(y)[there]
    scatter_rows(y, places, out)
    assert torch.equal(plain(out), expected)


@pytest.mark.parametrize("columns", [64, 37])
def test_indices_of_64_bits_name_no_row_that_32_would(columns: int) -> None:
    idx = torch.tensor([3, 2**32, 2**32 + 1, -(2**32), 2**31, 2**63 - 1, -(2**63), -1, 2**32 - 1, 5], device="cuda")
    x, source = random(20, columns, dtype="float32"), random(10, columns, dtype="float32")
    assert torch.equal(plain(gather_rows(x, idx)), gathered(x, idx))
    there = (idx >= 0) & (idx < 20)
    for scatter in (scatter_rows, scatter_add_rows):
        out, expected = torch.zeros(20, columns, device="cuda"), torch.zeros(20, columns, device="cuda")
        expected[idx[there]] = source[there]
        assert torch.equal(scatter(source, idx, out), expected)


@pytest.mark.parametrize(
    "config", [MoveConfig(4096, 1, 24, 4), MoveConfig(4096, 4, 6, 2), MoveConfig(1024, 2, 12, 3, 2)]
)
def test_any_configuration_moves_the_same(config: MoveConfig) -> None:
    x, idx = random(3000, 4096), torch.randint(0, 3000, (1999,), device="cuda")
    assert torch.equal(gather_rows(x, idx, config=config), x[idx])


@pytest.mark.parametrize(
    "dtype, columns", [("float32", 64), ("float32", 1000), ("bfloat16", 4096), ("float16", 37), ("float16", 1000)]
)
def test_scatter_add_rows(dtype: str, columns: int) -> None:
    x, out = random(1000, columns, dtype=dtype), random(500, columns, dtype=dtype)
    idx = torch.cat([torch.randperm(550, device="cuda") - 20, torch.randint(0, 500, (450,), device="cuda")])
    expected = plain(out)
    there = (idx >= 0) & (idx < 500)
    expected.index_add_(0, idx[there], plain(x)[there])
    scatter_add_rows(x, idx, out)
    assert torch.equal(plain(out), expected), "small integers: exact in any order"


def test_embedding() -> None:
    table, ids = random(1000, 768), torch.randint(0, 1000, (4, 77), device="cuda")
    assert torch.equal(embedding(table, ids), table[ids])


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
def test_kv_compact(paged: bool, inplace: bool) -> None:
    sequences, tokens, kept, page = 5, 512, 300, 16
    cache = random(sequences, tokens, 8, 128)
    keep = torch.stack([torch.randperm(tokens, device="cuda")[:kept].sort().values for _ in range(sequences)])
    expected = torch.stack([cache[s, keep[s]] for s in range(sequences)])
    table, given = None, cache.clone()
    if paged:
        per = tokens // page
        table = torch.randperm(400, device="cuda")[: sequences * per].reshape(sequences, per).to(torch.int32)
        given = torch.zeros(400, page, 8, 128, device="cuda", dtype=cache.dtype)
        given[table.long()] = cache.reshape(sequences, per, page, 8, 128)
    result = kv_compact(given, keep, pages=table, inplace=inplace)
    if inplace and table is not None:
        result = given[table.long()].reshape(sequences, tokens, 8, 128)
    assert torch.equal(result[:, :kept], expected)


def test_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    x, rows = cupy.arange(64 * 128, dtype=cupy.float32).reshape(64, 128), cupy.asarray([5, 63, 0, 5, 64, -1, 7, 8])
    expected = cupy.where(((rows >= 0) & (rows < 64))[:, None], x[cupy.clip(rows, 0, 63)], 0)
    got = gather_rows(x, rows)
    assert isinstance(got, cupy.ndarray) and bool((got == expected).all())
    assert bool((embedding(x, rows[None, :4]) == x[rows[:4]][None]).all())
    assert bool((scatter_rows(x[:4], cupy.arange(4, 8), cupy.zeros_like(x))[4:8] == x[:4]).all())
    assert bool((scatter_add_rows(x[:4], cupy.zeros(4, int), cupy.zeros_like(x))[0] == x[:4].sum(axis=0)).all())
    cache, keep = x.reshape(4, 16, 128), cupy.asarray([[1, 3], [0, 15], [2, 9], [4, 5]])
    want = cupy.stack([cache[s, keep[s]] for s in range(4)])
    assert bool((kv_compact(cache, keep) == want).all())
    pages = cupy.asarray([[1], [0], [3], [2]])
    assert bool((kv_compact(cache[pages[:, 0]], keep, pages=pages) == want).all())
    assert bool((kv_compact(cache.copy(), keep, inplace=True)[:, :2] == want).all())
