"""The CUDA text of copies by index, run on the CPU: each path of both targets does what the simulator does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
import support.host_cuda as host_cuda
import support.host_tma as host_tma
from phalanx.kernels import gather, kv_cache

pytestmark = pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)
ARCHS = ("sm_90a", "sm_100a")


@px.kernel(warps=lambda WARPS: WARPS)
def there_and_back(X, I, J, Y, *, R, K, COL=0, WARPS=2):
    s, bar = px.shared((2, R, K), X.dtype), px.barrier()
    i = px.block_id(0) * R
    with bar.transaction():
        px.tma.gather(X, I[i : i + R], COL, s[1], bar)
    bar.wait(0)
    px.tma.scatter(s[1], J[i : i + R], 0, Y)
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=2)
def by_four(X, I, J, Y, *, K):
    s, bar = px.shared((8, K), X.dtype), px.barrier()
    i = px.block_id(0) * 8
    with bar.transaction():
        for m in range(0, 8, 4):
            px.tma.gather4(X, (I[i + m], I[i + m + 1], I[i + m + 2], I[i + m + 3]), 0, s[m : m + 4], bar)
    bar.wait(0)
    for m in range(0, 8, 4):
        px.tma.scatter4(s[m : m + 4], (J[i + m], J[i + m + 1], J[i + m + 2], J[i + m + 3]), 0, Y)
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


@px.kernel(warps=4, cluster=2)
def gathered_by_a_pair(X, I, Y, *, R=8, K=64):
    """Each CTA gathers rows of its own; their bytes are the even one's, which alone waits."""
    s, bar = px.shared((2 * R, K), X.dtype), px.barrier()
    top, rank = px.block_id(0) * 2 * R, px.cluster.rank()
    with bar.transaction():
        px.tma.gather(X, I[top : top + R], 0, s[0:R], bar, two_cta=True)
        for m in px.static_range(R, 2 * R, 4):
            four = (I[top + m], I[top + m + 1], I[top + m + 2], I[top + m + 3])
            px.tma.gather4(X, four, 0, s[m : m + 4], bar, two_cta=True)
    if rank == 0:
        bar.wait(0)
    px.cluster.sync()
    px.store(Y[top : top + 2 * R, 0:K], px.load(s))


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-7, 8, shape).astype(dtype)


def compare(kernel: Any, grid: int, args: list[Any], arch: str, **constants: Any) -> None:
    """The same arrays from the text and from the simulator."""
    expected = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    kernel[grid](*expected, **constants)
    for seed in range(2):
        found = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        host_tma.run(kernel, grid, *found, arch=arch, seed=seed, **constants)
        for one, other in zip(found, expected, strict=True):
            assert np.array_equal(one, other)


@pytest.mark.share(12)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "dtype, k, rows",
    [
        (np.float32, 32, 8), (ml_dtypes.bfloat16, 64, 132), (np.int8, 16, 8), (ml_dtypes.bfloat16, 24, 132),
        (np.float16, 320, 12), (np.int8, 320, 8),
    ],
    ids=str,
)
def test_every_path(dtype: Any, k: int, rows: int, arch: str) -> None:
    rng = np.random.default_rng(1)
    x, y = random((50, k + 16), dtype), random((300, k), dtype, 1)
    i, j = rng.integers(-5, 55, 2 * rows - 3), rng.permutation(320)[: 2 * rows].astype(np.int32) - 10
    compare(there_and_back, 2, [x, i, j, y], arch, R=rows, K=k, COL=16)


@pytest.mark.share(12)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("rows, warps", [(4, 4), (12, 1), (20, 4), (32, 3), (48, 4), (64, 4), (64, 1)])
def test_warps_share_the_rows(rows: int, warps: int, arch: str) -> None:
    """Also where some ask for fewer than others, or for none."""
    rng = np.random.default_rng(5)
    x, y = random((50, 64), np.float16), random((300, 64), np.float16, 1)
    i, j = rng.integers(-5, 55, 2 * rows - 3), rng.permutation(320)[: 2 * rows].astype(np.int32) - 10
    compare(there_and_back, 2, [x, i, j, y], arch, R=rows, K=64, WARPS=warps)


@pytest.mark.share(6)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("k", [16, 32, 64, 448, 512, 640])
def test_four_at_a_time(k: int, arch: str) -> None:
    x, y = random((50, k), ml_dtypes.bfloat16), random((40, k), ml_dtypes.bfloat16, 1)
    i, j = np.random.default_rng(2).integers(-5, 55, 14), np.random.default_rng(3).permutation(48)[:16] - 4
    compare(by_four, 2, [x, i, j, y], arch, K=k)


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", ARCHS)
def test_multicast(arch: str) -> None:
    x, y = random((50, 64), np.float32), random((32, 64), np.float32, 1)
    i = np.random.default_rng(4).integers(-5, 55, 16)
    compare(shared_by_two, 2, [x, i, y], arch, R=16, K=64)


def test_gathers_of_a_pair() -> None:
    x, y = random((50, 64), ml_dtypes.bfloat16), random((32, 64), ml_dtypes.bfloat16, 1)
    compare(gathered_by_a_pair, 2, [x, np.random.default_rng(4).integers(-5, 55, 32), y], "sm_100a")


@pytest.mark.share(4)
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_bulk_rows_and_boxes_know_the_swizzle(swizzle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the layout forced, the text still agrees with the simulator, which knows no layouts."""
    from phalanx.cuda.lower import shared_layouts
    from phalanx.layouts.shared import SharedLayout

    def forced(buffer: Any, copied: Any, gathered: Any, wide: bool) -> Any:
        assert not wide  # nothing here is read across K
        yield SharedLayout(buffer.shape, buffer.dtype.itemsize, swizzle, swizzle // buffer.dtype.itemsize)

    monkeypatch.setattr(shared_layouts, "_candidates", forced)
    x, y = random((50, 128), ml_dtypes.bfloat16), random((40, 128), ml_dtypes.bfloat16, 1)
    i, j = np.random.default_rng(5).integers(-5, 55, 16), np.random.default_rng(6).permutation(40)[:16]
    compare(there_and_back, 2, [x, i, j, y], "sm_90a", R=8, K=128)
    compare(by_four, 2, [x, i, j, y], "sm_100a", K=128)


def test_rings_of_the_library() -> None:
    config = gather.MoveConfig(32, 2, 3, 1)
    x, y = random((50, 64), np.float32), random((33, 64), np.float32, 1)
    i, j = np.random.default_rng(7).integers(-5, 55, 33), np.random.default_rng(8).permutation(60)[:33] - 5
    compare(gather.gather_ring, 3, [x, i, y], "sm_90a", **config.constants(64))
    compare(gather.scatter_ring, 3, [y, j, x], "sm_90a", **config.constants(64))
    cache, keep = random((2 * 40, 64), np.float32), np.sort(np.random.default_rng(9).permutation(40)[:16]).reshape(2, 8)
    compare(
        kv_cache.compact_ring, 4, [cache, keep, keep, 40], "sm_90a", WIDTH=32, SLICES=2, ROWS=2, STAGES=3, LAG=1
    )


@px.kernel(warps=4)
def summed_rows(X, I, Y, *, BM=64, BK=64, PRODUCER=True):
    """Rows by index in a loop that pipelines itself."""
    rows, total = px.load(I[px.block_id(0) * BM : px.block_id(0) * BM + BM], fill=-1), px.zeros((BM, BK), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2, producer=PRODUCER):
        total = total + px.load(X[rows, k : k + BK])
    px.store(Y[px.block_id(0) * BM : px.block_id(0) * BM + BM, 0:BK], total)


@px.kernel(warps=4)
def product_of_rows(X, I, W, Y, *, BM=64, BN=32, BK=32):
    """Rows by index as an operand, and indices that change from step to step for the other one."""
    rows, acc = px.load(I[0:BM]), px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=3):
        others = px.load(I[k : k + BK], fill=-1)
        acc = acc + px.dot(px.load(X[rows, k : k + BK]), px.load(W[others, 0:BN]))
    px.store(Y[0:BM, 0:BN], acc)


@pytest.mark.share(3)
@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize(("rows", "width"), [(64, 64), (132, 64), (8, 320)])
def test_rows_of_a_pipelined_loop_come_four_at_a_time(rows: int, width: int, producer: bool) -> None:
    rng = np.random.default_rng(rows)
    x, i = rng.integers(-9, 9, (50, 3 * width)).astype(np.float32), rng.integers(-5, 60, 2 * rows - 3).astype(np.int32)
    inside = ((i >= 0) & (i < 50))[:, None]
    picked = np.where(inside, x[np.where(inside[:, 0], i, 0)], 0).reshape(len(i), 3, width).sum(1)
    for arch in ("sm_90a", "sm_120a", "sm_100a"):
        y = np.zeros((2 * rows - 3, width), np.float32)
        constants = {"BM": rows, "BK": width, "PRODUCER": producer}
        summed_rows[2](x, i, y, arch=arch, **constants)
        np.testing.assert_array_equal(y, picked)
        y[:] = 0
        module = host_tma.run(summed_rows, 2, x, i, y, arch=arch, **constants)
        np.testing.assert_array_equal(y, picked)
        assert ("gather4" in module.source) == (arch != "sm_90a")
    assert px.check(summed_rows[2], x, i, y, arch="sm_100a", schedules=1, **constants).ok


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_products_of_rows_of_a_pipelined_loop(arch: str) -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((50, 96), (50, 32)))
    i = rng.integers(-5, 60, 90).astype(np.int32)

    def picked(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
        inside = (rows >= 0) & (rows < 50)
        return np.where(inside[:, None], matrix[np.where(inside, rows, 0)], 0).astype(np.float32)

    want = picked(x, i[:64]) @ picked(w, np.concatenate([i, np.full(6, -1, np.int32)]))
    y = np.zeros((64, 32), np.float32)
    product_of_rows[1](x, i, w, y, arch=arch)
    np.testing.assert_array_equal(y, want)
    y[:] = 0
    host_tma.run(product_of_rows, 1, x, i, w, y, arch=arch)
    np.testing.assert_array_equal(y, want)
    made = px.compile(product_of_rows[1], x, i, w, y, arch=arch)
    assert ("gather4" in made.source) == (arch != "sm_90a") and made.spills == 0
    assert px.check(product_of_rows[1], x, i, w, y, arch=arch, schedules=1).ok
