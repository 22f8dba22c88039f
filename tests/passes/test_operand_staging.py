"""`px.dot` of register tiles: which go through shared memory, where they are stored, and what multiplies them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Block, Function
from phalanx.ir.ops.control import For
from phalanx.ir.types import DType, bf16, f8e4m3, f32
from support import plain_products as kernels
from support.front import Types, array, prepared

TARGETS = ("sm_90a", "sm_100a", "sm_120a")
PRODUCT = {"sm_90a": "wgmma", "sm_100a": "tcgen05.mma", "sm_120a": "mma"}
MATRICES: Types = (array(2, bf16), array(2, bf16), array(2, f32))


def on(arch: str, kernel: Any, types: Types = MATRICES, **constants: Any) -> Function:
    return prepared(kernel, types, arch_of(arch), **constants)


def names(block: Block | Function) -> Counter[str]:
    return Counter(op.mnemonic for op in block.walk())


def said(function: Function) -> list[str]:
    return [note.message.removeprefix("px.dot runs as ") for note in function.notes if "px.dot" in note.message]


@pytest.mark.parametrize("arch", TARGETS)
def test_each_step_of_a_loop_copies_both_tiles_and_waits_once(arch: str) -> None:
    function = on(arch, kernels.plain_matmul, BM=128)
    (loop,) = [op for op in function.walk() if isinstance(op, For)]
    found = names(loop.body)
    assert found["cp_async.load"] == 2 and found["cp_async.commit"] == found[PRODUCT[arch]] == 1
    assert not found["store"] and found["load"] == 0, "no tile passes through registers"
    assert found["sync"] == 1
    assert found["fence.async_proxy"] == (arch != "sm_120a")
    assert [buffer.nbytes for buffer in function.shared_buffers][:2] == [128 * 64, 64 * 64]


@pytest.mark.parametrize("constants, copied", [({}, 1), ({"FILL": 1}, 0), ({"STORE": True}, 0)])
def test_what_can_not_be_copied_as_it_is_passes_through_registers(constants: dict[str, Any], copied: int) -> None:
    function = on("sm_90a", kernels.scaled_first, **constants)
    (loop,) = [op for op in function.walk() if isinstance(op, For)]
    assert names(loop.body)["cp_async.load"] == copied
    assert names(loop.body)["store"] == 2 - copied + ("STORE" in constants)
    unaligned = array(2, bf16, aligned=False)
    function = on("sm_120a", kernels.plain_matmul, (unaligned, unaligned, array(2, f32)))
    assert not names(function)["cp_async.load"], "elements of two bytes whose rows begin anywhere"


def test_what_is_said() -> None:
    assert said(on("sm_90a", kernels.plain_matmul)) == ["wgmma: a and b go through 8192 bytes of shared memory"]
    assert said(on("sm_120a", kernels.plain_matmul)) == [
        "mma.sync: sm_120a has no wgmma; a and b go through 8192 bytes of shared memory"
    ]
    assert said(on("sm_90a", kernels.plain_matmul, WARPS=2)) == [
        "mma.sync: wgmma runs on whole warpgroups, and these are 2 warps from warp 0; "
        "a and b go through 8192 bytes of shared memory"
    ]
    assert said(on("sm_90a", kernels.plain_matmul, BM=32)) == [
        "mma.sync: wgmma: M = 32 rows over 1 warpgroup; a and b go through 6144 bytes of shared memory"
    ]


@pytest.mark.parametrize(
    "dtype, ta, tb, shapes",
    [
        (bf16, False, False, [(64, 32), (32, 64)]),  # as they lie in memory
        (bf16, True, True, [(32, 64), (64, 32)]),
        (f8e4m3, False, False, [(64, 32), (64, 32)]),  # along K, which alone the tensor cores read
        (f8e4m3, True, True, [(64, 32), (64, 32)]),
        (f32, True, False, [(64, 32), (64, 32)]),
    ],
)
def test_which_way_tiles_lie(dtype: DType, ta: bool, tb: bool, shapes: list[tuple[int, int]]) -> None:
    types = (array(2, dtype), array(2, dtype), array(2, f32))
    function = on("sm_90a", kernels.plain_matmul, types, TA=ta, TB=tb)
    assert [buffer.shape for buffer in function.shared_buffers] == shapes
    assert names(function)["wgmma"] == 1
    turned = 0 if dtype is bf16 else ta + (not tb)
    assert names(function)["transpose"] == turned, "what is turned is turned once, to be stored"


def test_an_operand_from_before_a_loop_is_stored_there_and_a_computed_one_stays() -> None:
    types = (array(2, bf16),) * 4
    function = on("sm_90a", kernels.plain_attention, types)
    (loop,) = [op for op in function.walk() if isinstance(op, For)]
    assert names(loop.body)["cp_async.load"] == names(loop.body)["wgmma"] == 2
    assert names(loop.body)["cp_async.commit"] == 1, "one wait is for both"
    assert names(function)["store"] == 1 + 1 and not names(loop.body)["store"]
    assert [buffer.name for buffer in function.shared_buffers] == ["q_tile", "k_tile", "v_tile"]
    assert said(function) == [
        "wgmma: a and b go through 6144 bytes of shared memory", "wgmma: b goes through 2048 bytes of shared memory"
    ]
    # Tensor memory takes the computed one from registers, if it has 128 rows.
    function = on("sm_100a", kernels.plain_attention, types, BM=128)
    assert names(function)["tcgen05.mma"] == 2 and len(function.shared_buffers) == 3 + 1  # the address of tensor memory
    # Products of warps keep what is older than the loop's turn in registers.
    function = on("sm_120a", kernels.plain_attention, types)
    assert names(function)["mma"] == 2
    assert [buffer.name for buffer in function.shared_buffers] == ["k_tile", "v_tile"]


def test_a_tile_that_is_an_operand_twice_is_stored_once() -> None:
    function = on("sm_90a", kernels.sometimes, (array(2, bf16), array(2, f32), array(2, f32)))
    assert [buffer.name for buffer in function.shared_buffers] == ["x_tile", "y_tile"]
    assert names(function)["store"] == 2 + 2 and names(function)["wgmma"] == 2


def test_copies_of_a_role_have_memory_of_their_own() -> None:
    function = on("sm_90a", kernels.plain_copies)
    assert [buffer.shape for buffer in function.shared_buffers] == [(2, 64, 32), (2, 32, 32)]


@pytest.mark.parametrize("arch", ("sm_90a", "sm_120a"))
def test_what_was_loaded_from_shared_memory_is_read_there(arch: str) -> None:
    function = on(arch, kernels.loaded_again)
    assert [buffer.name for buffer in function.shared_buffers] == ["a", "b"]
    assert names(function)["load"] == 2 and names(function)[PRODUCT[arch]] == 1
    assert names(function)["fence.async_proxy"] == (arch == "sm_90a")
    assert "a is read from 'a', b is read from 'b'" in said(function)[0]


@pytest.mark.parametrize("what", ("SYNC", "STORE"))
def test_it_is_not_where_it_may_be_something_else_by_then(what: str) -> None:
    function = on("sm_90a", kernels.loaded_again, **{what: True})
    assert [buffer.name for buffer in function.shared_buffers] == ["a", "b", "y_tile"], "b is copied, a stays in registers"


def test_without_room_operands_stay_in_registers() -> None:
    @px.kernel(warps=4)
    def full(A, B, C):
        room = px.shared((112, 512), px.f32)  # 229,376 of 232,448 bytes
        px.store(room, px.load(C.tile((0, 0), (112, 512))))
        acc = px.dot(px.load(A[0:64, 0:64]), px.load(B[0:64, 0:64]).T)
        px.store(C[0:64, 0:64], acc + px.load(room[0:64, 0:64]))

    function = on("sm_90a", full)
    assert [buffer.name for buffer in function.shared_buffers] == ["room"]
    assert said(function)[-1] == "operands of px.dot stay in registers: shared memory has no room for them"


def test_products_in_flight_stay_as_they_are() -> None:
    @px.kernel(warps=4)
    def mixed(A, B, C):
        s = px.shared((64, 64), A.dtype)
        px.store(s, px.load(A[0:64, 0:64]))
        px.fence.async_proxy()
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(s, s.T, acc)
        other = px.dot(px.load(A[0:64, 0:64]), px.load(B[0:64, 0:64]))
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.store(C[0:64, 0:64], acc + other)

    function = on("sm_90a", mixed)
    assert names(function)["wgmma"] == names(function)["mma"] == 1
    assert "products of px.wgmma may be in flight" in said(function)[0]


# --- what they compute, and that nothing is missing between the threads ------------------------------------------------

BF16 = ml_dtypes.bfloat16


def matmul_case(dtype: Any, ta: bool, tb: bool, m: int, n: int, k: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(m + k)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    out = np.zeros((m, n), np.int32 if np.dtype(dtype) == np.int8 else np.float32)
    left, right = (a.T if ta else a).astype(dtype), (b.T if tb else b).astype(dtype)
    return [np.ascontiguousarray(left), np.ascontiguousarray(right), out], a @ b


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("dtype", [BF16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, np.int8])
@pytest.mark.parametrize("ta, tb", [(False, True), (True, False)])
def test_plain_products_are_right_and_checked(arch: str, dtype: Any, ta: bool, tb: bool) -> None:
    args, want = matmul_case(dtype, ta, tb, 100, 72, 80)
    acc = px.i32 if np.dtype(dtype) == np.int8 else px.f32
    report = px.check(kernels.plain_matmul[2, 2], *args, TA=ta, TB=tb, ACC=acc, BM=64, arch=arch)
    assert report.ok, report
    kernels.plain_matmul[2, 2](*args, TA=ta, TB=tb, ACC=acc, BM=64, arch=arch)
    np.testing.assert_array_equal(args[2], want)


@pytest.mark.parametrize("arch", TARGETS)
def test_a_plain_attention_loop_is_right_and_checked(arch: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((rows, 32)).astype(BF16) for rows in (128, 80, 80))
    out = np.zeros((128, 32), np.float32)
    rows = 128 if arch == "sm_100a" else 64
    report = px.check(kernels.plain_attention[128 // rows], q, k, v, out, BM=rows, arch=arch)
    assert report.ok, report
    kernels.plain_attention[128 // rows](q, k, v, out, BM=rows, arch=arch)
    s = np.exp(q.astype(np.float64) @ k.astype(np.float64).T)
    np.testing.assert_allclose(out, s / s.sum(1, keepdims=True) @ v.astype(np.float64), atol=2e-2)


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("constants", ({}, {"FILL": 1}, {"STORE": True}))
def test_what_passes_through_registers_is_right_and_checked(arch: str, constants: dict[str, Any]) -> None:
    (a, b, out), _ = matmul_case(BF16, False, False, 64, 160, 160)
    b = np.ascontiguousarray(b[:64])
    tail = np.full((64, 192 - 160), constants.get("FILL", 0))
    left, right = (np.hstack([x.astype(np.float32), y]) for x, y in ((a, tail), (b, np.zeros((64, 32)))))
    report = px.check(kernels.scaled_first[1], a.copy(), b, out[:, :64].copy(), arch=arch, **constants)
    assert report.ok, report
    got = np.zeros((64, 64), np.float32)
    kernels.scaled_first[1](a, b, got, arch=arch, **constants)
    np.testing.assert_array_equal(got, left @ right.T * 2)


@pytest.mark.parametrize("arch", ("sm_90a", "sm_120a"))
@pytest.mark.parametrize("what", ({}, {"SYNC": True}, {"STORE": True}))
def test_reading_again_is_right_and_checked(arch: str, what: dict[str, bool]) -> None:
    (a, b, out), _ = matmul_case(BF16, False, False, 64, 64, 64)
    report = px.check(kernels.loaded_again[1], a, b, out, arch=arch, **what)
    assert report.ok, report
    kernels.loaded_again[1](a, b, out, arch=arch, **what)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("arch", ("sm_90a", "sm_120a"))
def test_copies_and_conditions_are_right_and_checked(arch: str) -> None:
    args, want = matmul_case(BF16, False, True, 128, 32, 80)
    assert px.check(kernels.plain_copies[1], *args, arch=arch).ok
    kernels.plain_copies[1](*args, arch=arch)
    np.testing.assert_array_equal(args[2], want)
    for rows in (64, 65):
        (a, b, out), _ = matmul_case(BF16, False, False, rows, 64, 64)
        before = a.astype(np.float32)[:64]
        b = b.astype(np.float32)
        report = px.check(kernels.sometimes[1], a, b, out, arch=arch)
        assert report.ok, report
        kernels.sometimes[1](a, b, out, arch=arch)
        np.testing.assert_array_equal(out[:64], before @ b * 2 + (before @ before.T if rows > 64 else 0))
        np.testing.assert_array_equal(a.astype(np.float32)[:64], 2 * before)


