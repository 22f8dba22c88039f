"""TMA copies as text: tensor copies of every rank, plain bulk copies with their edges, groups, hints."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.ops.tma import tensor_load, tensor_store
from phalanx.ir.types import I32, I64, ArrayType, i32
from phalanx.runtime.device.arrays import numpy_dtype
from support import host_cuda
from support.copy_kernels import hinted
from support.cuda_text import body, compiles, module_of, plan_of
from support.front import array
from support.host_cluster import run_cluster


def test_mnemonics_are_built_from_modifiers() -> None:
    load = tensor_load(3, True, True)
    assert load.name == "cp_async_bulk_tensor_3d_shared_global_multicast_cache_hint"
    assert (
        '"cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster'
        '.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;"' in load.text
    )
    assert "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%1}], [%2];" in (
        tensor_store(1, "add").text
    )


@px.kernel(cluster=2)
def rank1(X, Y):
    i = px.block_id(0)
    s = px.shared(64, px.f32)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[i * 64 : i * 64 + 64], s, bar, multicast=1)
    bar.wait(0)
    px.tma.reduce(s, Y[i * 64 : i * 64 + 64], "add")


@px.kernel
def rank3(X, Y):
    i = px.block_id(0)
    s = px.shared((2, 8, 64), px.f32)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[i : i + 2, 0:8, 4:68], s, bar)
    bar.wait(0)
    px.tma.store(s, Y[i : i + 2, 0:8, 4:68])
    px.tma.reduce(s, Y[i : i + 2, 0:8, 4:68], "add")
    px.tma.prefetch(X[i : i + 2, 0:8, 4:68])


@px.kernel
def rank5(X, Y):
    i = px.block_id(0)
    s = px.shared((2, 2, 2, 4, 64), px.f32)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[i : i + 2, 0:2, 0:2, 0:4, 4:68], s, bar)
    bar.wait(0)
    px.tma.store(s, Y[i : i + 2, 0:2, 0:2, 0:4, 4:68])
    px.tma.reduce(s, Y[i : i + 2, 0:2, 0:2, 0:4, 4:68], "add")
    px.tma.prefetch(X[i : i + 2, 0:2, 0:2, 0:4, 4:68])


def test_a_run_through_a_descriptor_and_added_without() -> None:
    types = (array(1), array(1))
    text = body(module_of(rank1, types))
    assert "ptx::cp_async_bulk_tensor_1d_shared_global_multicast(s_addr, &X_map, " in text
    assert "ptx::bulk_add_f32(Y.data + " in text
    compiles(rank1, types)


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "u32", "u64", "f64"])
def test_runs_of_every_type_are_added(dtype: str) -> None:
    @px.kernel(warps=1)
    def add(X, Y, *, N=67):
        s = px.shared((N,), X.dtype)
        px.store(s, px.load(X[0:N]))
        px.fence.async_proxy()
        px.tma.reduce(s, Y[0:N], "add")
        px.tma.commit()
        px.tma.wait(0)

    x = np.arange(67).astype(numpy_dtype(dtype))
    y = x.copy()
    made = px.compile(add[1], px.spec((67,), getattr(px, dtype)), px.spec((67,), getattr(px, dtype)), arch="sm_90a")
    assert "cp.reduce.async.bulk.global.shared::cta.bulk_group.add." in made.ptx
    add[3](x, y)
    assert (y.astype(np.float64) == 4 * np.arange(67)).all()
    if host_cuda.COMPILER is not None:
        y = x.copy()
        run_cluster(add, 1, x, y)
        assert (y.astype(np.float64) == 2 * np.arange(67)).all()


@pytest.mark.parametrize(("kernel", "rank", "place"), [(rank3, 3, "4, 0, block_x"), (rank5, 5, "4, 0, 0, 0, block_x")])
def test_coordinates_go_innermost_first(kernel: px.kernel, rank: int, place: str) -> None:
    types = (array(rank), array(rank))
    text = body(module_of(kernel, types))
    assert f"ptx::cp_async_bulk_tensor_{rank}d_shared_global(s_addr, &X_map, {place}, bar);" in text
    assert f"ptx::cp_async_bulk_tensor_{rank}d_global_shared(&Y_map, {place}, s_addr);" in text
    assert f"ptx::cp_reduce_async_bulk_tensor_{rank}d_global_shared_add(&Y_map, {place}, s_addr);" in text
    assert f"ptx::cp_async_bulk_prefetch_tensor_{rank}d_L2_global_tile(&X_map, {place});" in text
    compiles(kernel, types)


@px.kernel
def before_the_array(X, Y, i):
    s = px.shared((8, 32), px.f32)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[i : i + 8, 0:32], s, bar)
    bar.wait(0)
    px.tma.store(s, Y[2, i : i + 8, 0:32])


def test_a_store_that_may_begin_before_the_array_has_another_way() -> None:
    types = (array(2), array(3), I32)
    text = body(module_of(before_the_array, types))
    assert "if (i >= 0) {" in text
    assert "const unsigned px_at1 = (unsigned)i + px_1;" in text
    assert "Y.data[px_at0 * Y.stride[0] + px_at1 * Y.stride[1] + px_at2 * Y.stride[2]] = " in text
    compiles(before_the_array, types)


@px.kernel(warps=5, cluster=2)
def ring(X, Y, *, BM=64, BN=32, STAGES=4):
    s = px.shared((STAGES, BM, BN), px.f32)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    n = px.cdiv(X.shape[0], BM)
    with px.warps(4, 1):
        slot = px.ring(STAGES)
        for k in range(n):
            empty[slot.stage].wait(slot.parity ^ 1)
            with full[slot.stage].transaction():
                if px.cluster.rank() == 0:
                    px.tma.load(
                        X[k * BM : k * BM + BM, 0:BN], s[slot.stage], full[slot.stage], multicast=3, cache="evict_first"
                    )
            slot.advance()
    with px.warps(0, 4):
        slot = px.ring(STAGES)
        for k in range(n):
            full[slot.stage].wait(slot.parity)
            px.tma.store(s[slot.stage], Y[k * BM : k * BM + BM, 0:BN])
            px.tma.commit()
            px.tma.wait(0, read=True)
            empty[slot.stage].arrive(ctas=3)
            slot.advance()


def test_a_ring_with_multicast_compiles_without_spills() -> None:
    types = (array(2), array(2))
    text = body(module_of(ring, types))
    (load,) = [line.strip() for line in text.splitlines() if "tensor_2d_shared_global" in line]
    assert load.startswith(
        "ptx::cp_async_bulk_tensor_2d_shared_global_multicast_cache_hint(s_addr + stage * 8192, &X_map, 0, "
    )
    assert load.endswith(", full + 8 * stage, 0x3, 0x12f0000000000000ull);")
    assert "ptx::cp_async_bulk_wait_group_read_0();" in text
    assert "#pragma unroll 1" in text
    assert text.count("// tensor copy: a box of 64 x 32") == 2
    assert compiles(ring, types).registers <= 40
    assert compiles(ring, types, watchdog=True).stack_bytes == 0


def test_bytes_and_scopes_of_the_ring_are_the_cheap_ones() -> None:
    module = module_of(ring, (array(2), array(2)))
    assert "ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage, 8192);" in module.source
    assert "acquire.cluster.shared" not in module.source and "arrive.release.cluster.shared" not in module.source


@px.kernel
def row(X, Y, i, *, N=1000):
    s = px.shared((2, 2048), X.dtype)
    bar = px.barrier(count=1)
    px.tma.prefetch(X[i, 0:N])
    bar.arrive_and_expect_tx(N * 4)
    px.tma.load(X[i, 0:N], s[1, 0:N], bar, cache="evict_last")
    bar.wait(0)
    px.tma.store(s[1, 0:N], Y[i, 64 : 64 + N])
    px.tma.commit()
    px.tma.wait(1)


def test_a_run_is_a_bulk_copy_that_knows_the_edges() -> None:
    types = (array(2), array(2), I64)
    text = body(module_of(row, types))
    size = "((unsigned)ptx::index(i) < (unsigned)X.shape[0] ? X.shape[1] : 0)"
    assert f"ptx::bulk_prefetch(X.data + (long long)ptx::index(i) * X.stride[0], 0, {size}, 1000);" in text
    assert (
        "ptx::bulk_load_cache_hint(reinterpret_cast<float*>(px_smem + 8192), "
        f"X.data + (long long)ptx::index(i) * X.stride[0], 0, {size}, 1000, bar, 0x14f0000000000000ull);" in text
    )
    assert "ptx::bulk_store(Y.data + (long long)ptx::index(i) * Y.stride[0] + 64, 64, " in text
    assert "// bulk copy: one contiguous run of 4000 bytes from a multiple of 16 bytes" in text
    compiles(row, types)


def test_many_boxes_in_a_row_become_a_loop() -> None:
    @px.kernel
    def long(Y):
        i = px.block_id(0) * 64
        s = px.shared(4096, px.i32)
        px.tma.reduce(s, Y[i : i + 4096], "max")

    types = (ArrayType(1, i32, True, True),)
    text = body(module_of(long, types))
    assert "for (int px_i = 0; px_i < 16; ++px_i) {" in text
    assert "1d_global_shared_max(&Y_map, ptx::store_at((unsigned)i + px_i * 256), s_addr + px_i * 1024);" in text
    compiles(long, types)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "load, store", [("evict_last", "evict_first"), ("evict_normal", "evict_last"), ("evict_first 4/16", "evict_last 15/16")]
)
def test_every_copy_takes_a_cache_hint(load: str, store: str) -> None:
    policies = {
        "evict_normal": "0x1000", "evict_first": "0x12f0", "evict_last": "0x14f0", "evict_first 4/16": "0x1230",
        "evict_last 15/16": "0x14e0",
    }
    text = body(module_of(hinted, (array(2), array(2)), LOAD=load, STORE=store))
    calls = [line.strip() for line in text.splitlines() if "cache_hint" in line]
    wanted = [load] * 4 + [store] * 3
    assert len(calls) == 7
    for call, hint in zip(calls, wanted, strict=True):
        assert call.endswith(f"{policies[hint]}000000000000ull);"), call
    compiles(hinted, (array(2), array(2)), LOAD=load, STORE=store)


@pytest.mark.parametrize(
    "hint", ["evict_first 0/16", "evict_first 16/16", "evict_first 4/8", "evict_normal 4/16", "evict_first "]
)
def test_a_hint_is_for_one_to_fifteen_sixteenths(hint: str) -> None:
    with pytest.raises(px.Error, match="unknown cache hint"):
        module_of(hinted, (array(2), array(2)), LOAD=hint, STORE="evict_first")


@pytest.mark.parametrize("hint", ["evict_first", "evict_first 4/16", "evict_last", "evict_normal"])
def test_a_miss_brings_what_is_asked_for(hint: str) -> None:
    plan = plan_of(hinted, (array(2), array(2)), LOAD=hint, STORE="evict_normal")
    assert {slot.l2_promotion for slot in plan.tensor_maps} == {128}
