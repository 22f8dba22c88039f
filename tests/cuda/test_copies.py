"""Which path a TMA copy takes, its boxes and descriptors, and the errors where there is none."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.cuda.abi import TensorMapSlot
from phalanx.cuda.lower.copies import MISSED_BYTES, Copies, plan_copies
from phalanx.cuda.plan import Box
from phalanx.errors import Error
from phalanx.ir.ops.tma import TmaLoad, TmaPrefetch, TmaReduce, TmaStore
from phalanx.ir.types import I32, ArrayType, bf16, i32
from phalanx.layouts import SharedLayout
from support.front import array, prepared


def copies_of(
    kernel: Any, *types: Any, layout: SharedLayout | None = None, **constants: Any
) -> tuple[Copies, list[Any]]:
    function = prepared(kernel, types, **constants)
    layouts = {b: layout or SharedLayout(b.shape, b.dtype.itemsize, align=128) for b in function.buffers}
    copies = plan_copies(function, layouts)
    ops = [op for op in function.walk() if isinstance(op, TmaLoad | TmaStore | TmaReduce | TmaPrefetch)]
    return copies, [copies.plans[op] for op in ops]


@px.kernel
def tile_copy(X, Y, *, BM=64, BN=64):
    s = px.shared((BM, BN), X.dtype)
    bar = px.barrier(count=1)
    m = px.block_id(0) * BM
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[m : m + BM, 8 : 8 + BN], s, bar)
    bar.wait(0)
    px.tma.store(s, Y[m : m + BM, 8 : 8 + BN])


def test_a_tile_goes_through_a_descriptor_per_array() -> None:
    copies, (load, store) = copies_of(tile_copy, array(2), array(2))
    assert (load.path, load.tensor_map, load.boxes) == ("tensor", 0, (Box((0, 0), 0),))
    assert (store.path, store.tensor_map) == ("tensor", 1)
    assert copies.tensor_maps == tuple(TensorMapSlot(array, (64, 64), l2_promotion=MISSED_BYTES) for array in (0, 1))
    assert [note.message for note in copies.notes] == [
        "tma.load of X: tensor copy, a box of 64 x 64",
        "tma.store of Y: tensor copy, a box of 64 x 64",
    ]


def test_a_swizzled_tile_wider_than_its_span_takes_several_boxes() -> None:
    layout = SharedLayout((64, 128), 2, swizzle=128, panel=64)
    copies, (load, _) = copies_of(tile_copy, array(2, bf16), array(2, bf16), layout=layout, BN=128)
    assert copies.tensor_maps[0] == TensorMapSlot(0, (64, 64), 128, l2_promotion=MISSED_BYTES)
    assert load.boxes == (Box((0, 0), 0), Box((0, 64), 8192))
    assert load.reason == "2 boxes of 64 x 64, 128-byte swizzle"


def test_equal_boxes_of_one_array_share_a_descriptor() -> None:
    @px.kernel
    def twice(X):
        s = px.shared((2, 32, 32), px.f32)
        bar = px.barrier(count=1)
        bar.arrive_and_expect_tx(s.nbytes)
        px.tma.load(X[0:32, 0:32], s[0], bar)
        px.tma.load(X[32:64, 0:32], s[1], bar)
        bar.wait(0)

    copies, plans = copies_of(twice, array(2))
    assert len(copies.tensor_maps) == 1
    assert [plan.tensor_map for plan in plans] == [0, 0]


def test_an_integer_index_gives_a_box_of_one_along_its_axis() -> None:
    @px.kernel
    def slab(X, i):
        s = px.shared((16, 32), px.f32)
        bar = px.barrier(count=1)
        bar.arrive_and_expect_tx(s.nbytes)
        px.tma.load(X[i, 0:16, 5, 0:32], s, bar)
        bar.wait(0)

    copies, (load,) = copies_of(slab, array(4), I32)
    assert copies.tensor_maps[0].box == (1, 16, 1, 32)
    assert load.boxes == (Box((0, 0, 0, 0), 0),)


@px.kernel
def run_copy(X, i, *, N=1024, START=0):
    s = px.shared(N, X.dtype)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[i * 16 + START : i * 16 + START + N], s, bar)
    bar.wait(0)


def test_an_aligned_run_is_a_bulk_copy_of_any_length() -> None:
    copies, (load,) = copies_of(run_copy, array(1), I32, N=5000)
    assert (load.path, load.tensor_map, load.boxes) == ("bulk", None, ())
    assert load.reason == "one contiguous run of 20000 bytes from a multiple of 16 bytes"
    assert copies.tensor_maps == ()


def test_the_odd_end_of_a_run_is_named_in_the_reason() -> None:
    _, (load,) = copies_of(run_copy, array(1), I32, N=1001)
    assert load.reason.endswith("of 4004 bytes from a multiple of 16 bytes, the last 4 by ordinary accesses")


def test_multicast_of_runs_uses_descriptors_and_additions_need_none() -> None:
    @px.kernel(cluster=2)
    def both(X, Y):
        s = px.shared(256, px.f32)
        bar = px.barrier(count=1)
        with bar.transaction():
            if px.cluster.rank() == 0:
                px.tma.load(X[0:256], s, bar, multicast=3)
        bar.wait(0)
        px.tma.reduce(s, Y[0:256], "add")

    _, plans = copies_of(both, array(1), array(1))
    assert [plan.path for plan in plans] == ["tensor", "bulk"]


def test_other_reductions_of_runs_use_descriptors() -> None:
    @px.kernel
    def largest(Y):
        s = px.shared(256, px.i32)
        px.store(s, 1)
        px.fence.async_proxy()
        px.tma.reduce(s, Y[0:256], "max")

    _, (plan,) = copies_of(largest, ArrayType(1, i32, True, True))
    assert plan.path == "tensor"


def test_a_prefetch_needs_no_shared_memory() -> None:
    @px.kernel
    def fetch(X):
        px.tma.prefetch(X[0:512, 0:512])
        px.tma.prefetch(X[3, 0:512])

    copies, (tile, row) = copies_of(fetch, array(2))
    assert copies.tensor_maps[0].box == (256, 256)
    assert [box.offsets for box in tile.boxes] == [(0, 0), (0, 256), (256, 0), (256, 256)]
    assert row.path == "bulk"


def test_a_prefetch_takes_the_descriptor_of_a_copy_of_the_same_boxes() -> None:
    """It goes nowhere, so that the swizzle of a buffer is no obstacle; and it may come before the copy."""

    @px.kernel
    def ahead(X, *, ROWS=32):
        s = px.shared((32, 32), px.f32)
        bar = px.barrier(count=1)
        px.tma.prefetch(X[0:ROWS, 0:32])
        bar.arrive_and_expect_tx(32 * 32 * 4)
        px.tma.load(X[0:32, 0:32], s, bar)
        bar.wait(0)

    copies, (prefetch, load) = copies_of(ahead, array(2))
    assert prefetch.tensor_map == load.tensor_map == 0 and len(copies.tensor_maps) == 1
    copies, (prefetch, load) = copies_of(ahead, array(2), ROWS=16)
    assert (load.tensor_map, prefetch.tensor_map) == (0, 1)
    assert [slot.box for slot in copies.tensor_maps] == [(32, 32), (16, 32)]


@px.kernel
def staged(X, stage, *, ROW=0):
    s = px.shared((4, 64, 32), px.f32)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(32 * 32 * 4)
    px.tma.load(X[0:32, 0:32], s[stage, ROW : ROW + 32], bar)
    bar.wait(0)


def test_a_constant_place_in_the_buffer_is_part_of_the_box() -> None:
    _, (load,) = copies_of(staged, array(2), I32, ROW=32)
    assert load.boxes == (Box((0, 0), 4096),)


def test_a_run_time_row_that_tma_can_reach() -> None:
    @px.kernel
    def half(X, r):
        s = px.shared((64, 32), px.f32)
        bar = px.barrier(count=1)
        bar.arrive_and_expect_tx(32 * 32 * 4)
        px.tma.load(X[0:32, 0:32], s[r : r + 32], bar)
        bar.wait(0)

    _, (load,) = copies_of(half, array(2), I32)  # a row is 128 bytes
    assert load.boxes == (Box((0, 0), 0),)
    narrow = SharedLayout((64, 32), 4, pitch=144)
    with pytest.raises(Error, match=r"px\.tma\.load can't copy this region of X"):
        copies_of(half, array(2), I32, layout=narrow)


# ---------------------------------------------------------------------- what can't be copied


def refusal(kernel: Any, *types: Any, **constants: Any) -> Error:
    with pytest.raises(Error) as caught:
        copies_of(kernel, *types, **constants)
    assert caught.value.location.file == __file__
    return caught.value


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (array(2, unit_inner=False), "the elements of X are not adjacent along its last axis"),
        (
            array(2, aligned=False),
            "the start of X, or a stride of its outer axes, is not a multiple of 16 bytes, or runs backwards",
        ),
    ],
)
def test_an_array_that_no_descriptor_can_express(kind: ArrayType, reason: str) -> None:
    error = refusal(tile_copy, kind, array(2))
    assert error.message == "px.tma.load can't copy this region of X"
    assert error.details == reason
    assert error.remedy is not None and "px.load and px.store" in error.remedy
    assert "px.tma.load(X[m : m + BM" in error.location.text


def test_a_start_that_is_not_known_to_be_aligned() -> None:
    error = refusal(run_copy, array(1), I32, START=1)
    assert error.details == "its start along the last axis is not known to be a multiple of 16 bytes"
    assert error.remedy == (
        "write the start as a multiple, such as i * 1024 or i // 4 * 4, or say so: px.assume(i % 4 == 0), "
        "or use px.load and px.store"
    )


def test_a_start_that_is_said_to_be_aligned() -> None:
    @px.kernel
    def put(X, i):
        s, bar = px.shared(64, px.f32), px.barrier()
        px.assume(i % 4 == 0)
        with bar.transaction():
            px.tma.load(X[i : i + 64], s, bar)
        bar.wait(0)

    _, (plan,) = copies_of(put, array(1), I32)
    assert plan.path == "bulk"


def test_only_a_start_that_may_be_negative_is_guarded() -> None:
    @px.kernel
    def out(Y, i):
        s = px.shared((32, 32), px.f32)
        m = px.block_id(0) * 32
        n = 0
        for _ in range(4):
            px.tma.store(s, Y[m, i : i + 32, n : n + 32])
            px.tma.store(s, Y[px.maximum(i, 0), m : m + 32, n : n + 32])
            n += 32

    copies, (unknown, known) = copies_of(out, array(3), I32)
    assert unknown.guarded == (1,)
    assert known.guarded == ()
    (note,) = [note for note in copies.notes if "not known" in note.message]
    assert note.message == (
        "tma.store of Y: its start along axis 1 is not known to be 0 or more, so there is a second way for where it is not, "
        "element by element; px.assume(i >= 0) or px.maximum(i, 0) saves it"
    )
    assert note.loc.text.strip() == "px.tma.store(s, Y[m, i : i + 32, n : n + 32])"


def test_a_start_that_is_said_not_to_be_negative() -> None:
    @px.kernel
    def out(Y, i):
        s = px.shared((32, 32), px.f32)
        px.assume(i >= 0)
        px.tma.store(s, Y[i : i + 32, 0:32])
        px.tma.reduce(s, Y[i : i + 32, 0:32], "add")

    copies, plans = copies_of(out, array(2), I32)
    assert [plan.guarded for plan in plans] == [(), ()] and len(copies.notes) == 2


def test_a_reduction_that_may_begin_at_a_negative_index() -> None:
    @px.kernel
    def fold(Y, i):
        s = px.shared((32, 32), px.f32)
        px.tma.reduce(s, Y[i : i + 32, 0:32], "add")

    error = refusal(fold, array(2), I32)
    assert error.details is not None
    assert "through a descriptor: its start along axis 0 may be negative, which reductions can't clip" in error.details
    assert error.remedy == (
        "write the start so that it can't be negative, such as px.maximum(i, 0), or say so: px.assume(i >= 0)"
    )


def test_a_row_that_is_not_a_multiple_of_16_bytes() -> None:
    error = refusal(tile_copy, array(2), array(2), BN=63)
    assert error.details is not None
    assert "through a descriptor: " in error.details and "multiple" in error.details
    assert "as a plain bulk copy: a region of 64 x 63 is not one contiguous run" in error.details
    assert error.remedy == "make the inner extent a multiple of 4 elements (16 bytes), or use px.load and px.store"


@px.kernel(warps=1, cluster=2)
def run_for_both(X, *, N=4096):
    s, full = px.shared((N,), X.dtype), px.barrier(count=1)
    full.arrive_and_expect_tx(s.nbytes)
    px.cluster.sync()
    if px.cluster.rank() == 0:
        px.tma.load(X[0:N], s, full, multicast=0b11)
    full.wait(0)


@pytest.mark.parametrize(("n", "path", "reason"), [
    (4096, "bulk", "one contiguous run of 16384 bytes from a multiple of 16 bytes"),
    (256, "tensor", "a box of 256"),
])
def test_a_long_run_for_several_ctas_is_one_bulk_copy(n: int, path: str, reason: str) -> None:
    _, (load,) = copies_of(run_for_both, array(1), N=n)
    assert (load.path, load.reason) == (path, reason)


@px.kernel(warps=1, cluster=4)
def places_by_rank(X, i, *, WAY=0):
    s, bar = px.shared((64, 4), X.dtype), px.barrier(count=1)
    w = px.cluster.rank() * 4 if WAY == 0 else i * 4
    bar.arrive_and_expect_tx(64)
    px.tma.load(X[w : w + 4, 0:4], s[w : w + 4], bar)
    bar.wait(0)


def test_a_place_that_the_rank_decides_is_known_to_be_wrong() -> None:
    with pytest.raises(Error) as error:
        copies_of(places_by_rank, array(2), I32)
    assert error.value.kind == "misaligned"
    assert "its start along axis 0 of s is at 64 bytes in CTA 1; TMA needs a multiple of 128" in str(error.value)
    assert "let the shared region begin at a multiple of 128 bytes, of 16 where it is one row" in str(error.value)


def test_a_place_that_only_a_run_knows_is_told_as_such() -> None:
    with pytest.raises(Error) as error:
        copies_of(places_by_rank, array(2), I32, WAY=1)
    assert error.value.kind == "error"
    assert "its start along axis 0 of s is not known to be a multiple of 128 bytes" in str(error.value)
    assert error.value.remedy == (
        "let the shared region begin at a multiple of 128 bytes, and write its start as a multiple or say so, such as "
        "px.assume(i % 8 == 0)"
    )
