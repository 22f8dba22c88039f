"""Packed memory on a target: bytes, in the text and its listing, run on the CPU against the simulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.host_cuda import COMPILER, MISSING, module_for, run_on_host

FP4 = ml_dtypes.float4_e2m1fn
on_host = pytest.mark.skipif(COMPILER is None, reason=MISSING)
TARGETS = ("sm_90a", "sm_100a")


def codes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 16, shape, dtype=np.uint8).view(FP4)


def check(kernel, grid, make, *, arch: str = "sm_90a", **constants) -> None:
    """The same bits from the simulator and from the text."""
    simulated, run = make(), make()
    kernel[grid](*simulated, **constants)
    run_on_host(kernel, grid, *run, arch=arch, **constants)
    for n, (a, b) in enumerate(zip(simulated, run, strict=True)):
        if isinstance(a, np.ndarray):
            assert np.array_equal(a.view(np.uint8), b.view(np.uint8)), f"argument {n}"


@px.kernel(warps=4)
def quantize(X, Y, *, BM=16, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m:m+BM, n:n+BN], px.load(X[m:m+BM, n:n+BN]).to(px.f4e2m1))


@px.kernel(warps=4)
def dequantize(X, Y, *, BM=16, BN=64, FILL=0):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m:m+BM, n:n+BN], px.load(X[m:m+BM, n:n+BN], fill=FILL).to(px.f32))


@on_host
@pytest.mark.share(7)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize(
    "shape, tile", [((64, 256), (16, 64)), ((30, 130), (16, 64)), ((5, 6), (8, 16)), ((33, 96), (2, 32))]
)
def test_loads_and_stores(shape, tile, arch):
    """Edges within tiles, rows that are no multiple of 16 bytes, tiles smaller than a warp."""
    grid = (-(-shape[0] // tile[0]), -(-shape[1] // tile[1]))
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(shape) * 3).astype(np.float32)
    y = codes(rng, *shape)
    check(quantize, grid, lambda: [x.copy(), np.zeros(shape, FP4)], arch=arch, BM=tile[0], BN=tile[1])
    wide = tuple(size + 16 for size in shape)  # reads beyond the end
    check(dequantize, grid, lambda: [y.copy(), np.zeros(wide, np.float32)], arch=arch, BM=tile[0], BN=tile[1], FILL=-1.5)


@on_host
def test_all_sixteen_codes():
    x = np.resize(np.arange(16, dtype=np.uint8), (2, 32)).view(FP4)
    y = np.zeros((2, 32), np.float32)
    run_on_host(dequantize, 1, x, y, BM=2, BN=32)
    assert np.array_equal(y, x.astype(np.float32)) and np.array_equal(np.signbit(y), np.signbit(x.astype(np.float32)))


@px.kernel(warps=4)
def through_shared(X, Y, Z, *, BM=32, BN=128):
    s, t = px.shared((2, BM, BN), px.f4e2m1), px.shared((BM, BN), px.f4e2m1)
    full = px.barrier()
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    with full.transaction():
        px.tma.load(X[m:m+BM, n:n+BN], s[1], full)
    full.wait(0)
    x = px.load(s[1])
    px.store(t, x)
    px.store(Y[n:n+BN, m:m+BM], px.load(t.T).to(px.f32))
    px.fence.async_proxy()
    px.sync()
    px.tma.store(t[:, BN // 2:], Z[m:m+BM, n + BN // 2:n+BN])
    px.tma.commit()
    px.tma.wait(0)


@on_host
@pytest.mark.share(4)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("shape", [(64, 256), (40, 288)])
def test_copies_and_shared_memory(shape, arch):
    """TMA to and from packed buffers, generic accesses in between, transposed ones too."""
    x = codes(np.random.default_rng(2), *shape)
    grid = (-(-shape[0] // 32), -(-shape[1] // 128))
    check(
        through_shared, grid,
        lambda: [x.copy(), np.zeros((shape[1], shape[0]), np.float32), np.zeros(shape, FP4)], arch=arch,
    )


def test_the_bytes_are_declared_once():
    """The region's own bytes: two elements to each, on the barrier, in the listing and in shared memory."""
    x, y = np.zeros((64, 256), FP4), np.zeros((256, 64), np.float32)
    module = module_for(through_shared, (x, y, x))
    assert "mbarrier.arrive_expect_tx full, nbytes=2048" in module.ir and "completes 2048 bytes" in module.ir
    assert "shared s: u8[2, 32, 64], 4096 bytes" in module.ir and "unpack" in module.ir and "pack" in module.ir
    assert module.signature.slots[0].dtype == "u8" and module.signature.tensor_maps[0].box == (32, 64)


def test_copies_are_checked_clean():
    x = codes(np.random.default_rng(3), 64, 256)
    assert px.check(through_shared[2, 2], x, np.zeros((256, 64), np.float32), np.zeros((64, 256), FP4)).ok


@px.kernel(warps=4)
def by_rows(X, I, Y, Z, *, R=8, BN=64):
    s, full = px.shared((R, BN), px.f4e2m1), px.barrier()
    rows = px.load(I[0:R])
    with full.transaction():
        px.tma.gather(X, rows, 64, s, full)
    full.wait(0)
    px.store(Y[0:R, 0:BN], px.load(s).to(px.f32))
    px.store(Z[rows, 0:BN], px.load(X[rows, 32:32+BN]))


@on_host
def test_rows_by_index():
    rng = np.random.default_rng(4)
    x, rows = codes(rng, 40, 256), np.array([3, 39, -1, 0, 17, 5, 99, 8], np.int32)
    check(by_rows, 1, lambda: [x.copy(), rows.copy(), np.ones((8, 64), np.float32), np.zeros((40, 64), FP4)])


@px.kernel(warps=2, cluster=2)
def to_the_peer(X, Y, *, BM=16, BN=64):
    s, d, full = px.shared((BM, BN), px.f4e2m1), px.shared((BM, BN), px.f4e2m1), px.barrier()
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank * BM:rank * BM + BM, 0:BN]))
    px.fence.async_proxy()
    px.sync()
    px.cluster.copy(s, d, full, cta=rank ^ 1, arm=True)
    full.wait(0)
    px.store(Y[rank * BM:rank * BM + BM, 0:BN], px.load(d))


@on_host
def test_from_cta_to_cta():
    x = codes(np.random.default_rng(5), 32, 64)
    check(to_the_peer, 2, lambda: [x.copy(), np.zeros((32, 64), FP4)])


@px.kernel(warps=1)
def sizes(X, Y):
    px.store(Y[0:2], px.where(px.arange(2) == 0, X.shape[0], X.shape[1]))


@on_host
def test_the_shape_counts_elements():
    y = np.zeros(2, np.int32)
    run_on_host(sizes, 1, np.zeros((6, 40), FP4), y)
    assert y.tolist() == [6, 40]


@px.kernel(warps=1)
def anywhere(X, Y, k):
    px.store(Y[0:1, 0:32], px.load(X[0:1, k:k+32]).to(px.f32))


@px.kernel(warps=1)
def assumed(X, Y, k):
    px.assume(k % 2 == 0)
    px.store(Y[0:1, 0:32], px.load(X[0:1, k:k+32]).to(px.f32))


def test_a_start_within_a_byte():
    x, y = codes(np.random.default_rng(6), 1, 64), np.zeros((1, 32), np.float32)
    anywhere[1](x, y, 6)
    assert np.array_equal(y, x[:, 6:38].astype(np.float32))
    with pytest.raises(px.Error, match="begins at place 7 of its last axis, within a byte: 2 elements of f4e2m1 share one"):
        anywhere[1](x, y, 7)
    with pytest.raises(px.Error, match="not known to begin at an even place") as error:
        px.compile(anywhere[1], px.spec((1, 64), px.f4e2m1), px.spec((1, 32), px.f32), 6)
    assert "px.assume(k % 2 == 0)" in error.value.remedy
    assert px.compile(assumed[1], px.spec((1, 64), px.f4e2m1), px.spec((1, 32), px.f32), 6).cubin


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", ("sm_90a", "sm_100a", "sm_120a"))
def test_what_assembles(arch):
    spec = px.spec((64, 256), px.f4e2m1)
    made = px.compile(through_shared[2, 2], spec, px.spec((256, 64), px.f32), spec, arch=arch)
    assert made.cubin and made.spills == 0
    made = px.compile(quantize[4, 4], px.spec((64, 256), px.bf16), spec, arch=arch)
    assert ("cvt.rn.satfinite.e2m1x2.f32" in made.ptx) == (arch != "sm_90a") and "store_vector<4>" in made.source


@px.kernel(warps=4)
def spread_out(X, Y, k, *, BM=16, BN=128):
    s, full = px.shared((BM, BN), px.f4e2m1, padded=True), px.barrier()
    raw = px.shared((BM, BN), px.u8, reuse=s)  # what the tensor cores find there
    with full.transaction():
        px.tma.load(X[0:BM, k * BN:k * BN + BN], s, full)
    full.wait(0)
    px.store(Y[0:BM, 0:BN], px.load(raw))


@on_host
@pytest.mark.parametrize("rows", [16, 11])
def test_a_copy_with_room_between_elements(rows):
    """16 elements at the beginning of 16 bytes; rows beyond the array are 0; a barrier counts the array's bytes."""
    x, y = codes(np.random.default_rng(7), rows, 256), np.zeros((16, 128), np.uint8)
    module = run_on_host(spread_out, 1, x, y, 1, arch="sm_100a")
    bits = x.view(np.uint8)[:, 128:].reshape(rows, 8, 16)
    want = np.zeros((16, 8, 8), np.uint8)
    want[:rows] = bits[..., 0::2] | bits[..., 1::2] << 4
    assert np.array_equal(y.reshape(16, 8, 16)[..., :8], want)
    assert "nbytes=1024" in module.ir and "completes 1024 bytes" in module.ir
    assert "shared s: u8[16, 128], 2048 bytes, padded" in module.ir
    assert module.signature.tensor_maps[0].expands and module.signature.tensor_maps[0].box == (16, 128)


@px.kernel(warps=4)
def spread_ring(X, Y, *, BM=64, BN=256, STAGES=2):
    s, full = px.shared((STAGES, BM, BN), px.f4e2m1, padded=True), px.barrier(STAGES)
    for i in range(STAGES):
        with full[i].transaction():
            px.tma.load(X[0:BM, i * BN:i * BN + BN], s[i], full[i])
    for i in range(STAGES):
        full[i].wait(0)
    px.store(Y[0], s.nbytes)


def test_room_in_panels():
    """Wider tiles lie in panels of 128 bytes; targets without such copies say so."""
    arrays = px.spec((64, 512), px.f4e2m1), px.spec(1, px.i32)
    made = px.compile(spread_ring[1], *arrays, arch="sm_100a")
    assert made.cubin and "2 boxes of 64 x 128" in "\n".join(map(str, made.notes))
    with pytest.raises(px.Error, match="sm_90a has no copies that put room between elements"):
        px.compile(spread_ring[1], *arrays, arch="sm_90a")
    y = np.zeros(1, np.int32)
    spread_ring[1](codes(np.random.default_rng(8), 64, 512), y)
    assert y[0] == 2 * 64 * 128


def test_rooms_in_the_simulator_hold_elements():
    x, y = np.zeros((64, 512), FP4), np.zeros(1, np.int32)
    assert px.check(spread_ring[1], x, y, arch="sm_100a").ok
