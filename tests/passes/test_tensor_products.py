"""`px.dot` on targets with tensor memory: what becomes of it, what stays in tensor memory, and what is said of the rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import phalanx as px
from phalanx.ir.archs import ARCHS, Feature, arch_of
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import For
from phalanx.ir.types import ScalarType, i32
from support import tensor_product_kernels as kernels
from support.front import Types, array, prepared
from support.product_kernels import anywhere, by_rows, dots

MATRICES: Types = (array(2, px.bf16), array(2, px.bf16), array(2, px.f32))


def on(kernel: Any, types: Types = MATRICES, arch: str = "sm_100a", **constants: Any) -> Function:
    return prepared(kernel, types, arch_of(arch), **constants)


def counted(ops: Any) -> Counter[str]:
    return Counter(op.mnemonic for op in ops)


def loops(function: Function) -> list[For]:
    return [op for op in function.walk() if isinstance(op, For)]


def said(function: Function) -> list[str]:
    return [note.message.removeprefix("px.dot runs as ") for note in function.notes if "px.dot" in note.message]


def inside(loop: Op) -> Counter[str]:
    return counted(op for block in loop.blocks() for op in block.walk())


def test_an_accumulator_that_only_products_touch_stays_over_the_loop() -> None:
    function = on(kernels.loop)
    found, (loop,) = counted(function.walk()), loops(function)
    assert found["tcgen05.mma"] == found["tcgen05.load"] == 1 and not found["tcgen05.store"] and not found["mma"]
    assert inside(loop)["tcgen05.mma"] == inside(loop)["tcgen05.commit"] == 1 and not inside(loop)["tcgen05.load"]
    assert said(function) == [f"tcgen05: its accumulator stays in tensor memory over the loop at line {loop.loc.line}"]
    assert [barrier.count for barrier in function.barriers] == [None, 1]


def test_one_that_begins_with_a_tile_is_stored_once_before_it() -> None:
    function = on(kernels.begun)
    (loop,) = loops(function)
    assert counted(function.walk())["tcgen05.store"] == 1 and not inside(loop)["tcgen05.store"]
    (product,) = [op for op in function.walk() if op.mnemonic == "tcgen05.mma"]
    assert product.accumulate.value is True  # type: ignore[attr-defined]


def test_what_something_else_touches_goes_there_and_back() -> None:
    function = on(kernels.halved)
    (loop,) = loops(function)
    assert inside(loop)["tcgen05.store"] == inside(loop)["tcgen05.load"] == 1
    assert said(function) == ["tcgen05: its accumulator goes to tensor memory and back"]


def test_products_in_a_row_are_waited_for_once() -> None:
    """Three products of two accumulators with nothing between them: one commit; each accumulator has a load of its own."""
    function = on(kernels.twice)
    (loop,) = loops(function)
    assert inside(loop)["tcgen05.mma"] == 3 and inside(loop)["tcgen05.commit"] == 1
    assert counted(function.walk())["tcgen05.load"] == 2
    assert [buffer.name for buffer in function.buffers if buffer.name.endswith("_tmem")] == ["acc_tmem", "other_tmem"]


def test_conditions_and_ways_out_of_the_loop() -> None:
    function = on(kernels.sometimes, (*MATRICES, ScalarType(i32)))
    (loop,) = loops(function)
    assert inside(loop)["tcgen05.mma"] == 3 and not inside(loop)["tcgen05.load"]
    assert counted(function.walk())["tcgen05.load"] == 1


def test_the_outermost_loop_is_taken() -> None:
    function = on(kernels.nested)
    tiles, halves, steps = loops(function)
    assert inside(tiles)["tcgen05.load"] == 1 and not inside(halves)["tcgen05.load"]
    assert inside(steps)["tcgen05.mma"] == 1
    assert said(function) == [f"tcgen05: its accumulator stays in tensor memory over the loop at line {halves.loc.line}"]


def test_products_without_a_loop() -> None:
    """Zeros and no accumulator at all need no store; the chain of two needs one load, the single products share columns."""
    function = on(kernels.straight)
    found = counted(function.walk())
    assert (found["tcgen05.mma"], found["tcgen05.store"], found["tcgen05.load"]) == (4, 1, 3)
    assert found["tcgen05.commit"] == 3
    assert len([buffer for buffer in function.buffers if buffer.name.endswith("_tmem") or "_tmem_" in buffer.name]) == 2


def test_arrivals_in_a_consumers_loop_become_commits() -> None:
    function = on(kernels.piped)
    tiles, steps = loops(function)[2:]
    assert inside(steps)["tcgen05.commit"] == 1 and inside(steps)["mbarrier.wait"] == 1
    assert not inside(steps)["mbarrier.arrive"]
    assert inside(tiles)["tcgen05.commit"] == 2 and inside(tiles)["tcgen05.load"] == 1
    (text,) = said(function)
    assert text.endswith(f"over the loop at line {steps.loc.line}; it is waited for behind the loop")


def test_arrivals_that_tell_of_more_than_products_stay() -> None:
    function = on(kernels.published)
    loop = loops(function)[1]
    assert inside(loop)["mbarrier.arrive"] == 1 and inside(loop)["mbarrier.wait"] == 2


def test_arrivals_in_peers_that_may_have_ended_stay() -> None:
    function = on(kernels.both_rows)
    found = counted(function.walk())
    assert found["mbarrier.arrive"] == 1 and found["tcgen05.commit"] == 1
    assert only(function).startswith("tcgen05: its accumulator stays in tensor memory over the loop")


def test_an_exchange_hands_tensor_memory_over() -> None:
    """The next turn's first product follows the load only if those who meet in the exchange have put a fence before it."""
    function = on(kernels.exchanged, TURNS=3)
    named = [op.mnemonic for op in function.walk()]
    place = named.index("cluster.reduce")
    assert "tcgen05.fence.before" in named[named.index("tcgen05.load") : place]


def test_ways_past_the_load_behind_the_loop() -> None:
    """Where the loop is left for the end of the kernel or of a function, the accumulator has to be back by then."""
    for kernel in (kernels.leaves, kernels.inlined):
        assert only(on(kernel, (*MATRICES, ScalarType(i32)))) == "tcgen05: its accumulator goes to tensor memory and back"


def test_only_stored_operands_are_fenced() -> None:
    assert not counted(on(kernels.loop).walk())["fence.async_proxy"]
    assert counted(on(kernels.begun).walk())["fence.async_proxy"] == 1


@px.kernel(warps=4)
def in_registers(A, B, C):
    b = px.shared((32, 32), B.dtype)
    px.store(b, px.load(B[0:32, 0:32]))
    px.store(C[0:64, 0:32], px.dot(px.load(A[0:64, 0:32]), b.T))


@px.kernel(warps=4)
def again(A, B, C):
    a, b = px.shared((64, 32), A.dtype), px.shared((32, 32), B.dtype)
    for _ in range(C.shape[0] // 64):
        with px.warps(0, 4):
            px.store(a, px.load(A[0:64, 0:32]))
            px.store(b, px.load(B[0:32, 0:32]))
            px.store(C[0:64, 0:32], px.dot(a, b.T))


@px.kernel(warps=4)
def beside(A, B, C, *, COLUMNS):
    """Tensor memory of the user's beside that of a product."""
    a, b, mine = px.shared((64, 32), A.dtype), px.shared((128, 32), B.dtype), px.tmem((128, COLUMNS), px.f32)
    px.tcgen05.store(mine, px.zeros((128, COLUMNS), px.f32))
    px.store(a, px.load(A[0:64, 0:32]))
    px.store(b, px.load(B[0:128, 0:32]))
    x = px.dot(a, b.T)
    px.store(C[0:64, 0:128], x + px.sum(px.tcgen05.load(mine)))


def only(function: Function) -> str:
    (text,) = said(function)
    return text


def test_what_tcgen05_can_not_do_is_mma_sync_and_the_reason_is_said() -> None:
    registers = "a is a register tile, and not one of 128 rows of 16 bits, which tensor memory would take"
    assert only(on(in_registers)) == f"mma.sync: {registers}"
    assert only(on(again)) == "mma.sync: its role begins anew in every turn of a loop"
    two = on(dots, M=64, N=32, K=32, PRODUCERS=1, CONSUMERS=2)
    lanes = "do not share the lanes of tensor memory: 4, 8 or 16 warps from a multiple of 4 on do"
    assert only(two) == f"mma.sync: warps 1 to 2 of the CTA {lanes}"
    twelve = on(dots, M=192, N=32, K=32, PRODUCERS=4, CONSUMERS=12)
    assert only(twelve).startswith("mma.sync: tcgen05 does not do it: 192 rows are neither 64 nor a multiple of 128")
    rows = on(dots, M=16, N=32, K=32, PRODUCERS=4, CONSUMERS=4)
    assert only(rows) == "mma.sync: tcgen05 does not do it: a product of kind f16 has 64 or a multiple of 128 rows, not 16"
    assert "wgmma" not in only(rows), "what is said for another target goes"


def test_where_shared_memory_is_laid_out_for_others() -> None:
    function = on(by_rows)
    assert counted(function.walk())["mma"] == counted(function.walk())["tcgen05.mma"] == 1
    first, second = sorted(said(function))
    assert first.startswith("mma.sync: tcgen05 can't read a: tcgen05 reads tiles with a swizzle of 32, 64 or 128 bytes")
    assert second.startswith("tcgen05: its accumulator goes to tensor memory and back")
    function = on(anywhere, (*MATRICES, ScalarType(i32)))
    assert only(function) == "mma.sync: tcgen05 reads a from a row that is not known to be a multiple of 8"


def test_too_few_columns() -> None:
    assert only(on(beside, COLUMNS=256)).startswith("tcgen05: ")
    text = only(on(beside, COLUMNS=512))
    assert text.startswith("mma.sync: tensor memory is too small for all accumulators: beside needs 640 columns")


def test_integers_where_the_target_multiplies_them() -> None:
    types = (array(2, px.i8), array(2, px.i8), array(2, px.i32))
    for name, arch in ARCHS.items():
        if not arch.has((Feature.TCGEN05,)):
            continue
        text = only(on(kernels.loop, types, name, M=64, N=32, K=32, D=px.i32))
        if arch.has((Feature.TCGEN05_I8,)):
            assert text.startswith("tcgen05: ")
        else:
            assert text == f"mma.sync: {name} has no tcgen05.mma of kind i8"


@pytest.mark.parametrize("name", ["sm_90a", "sm_120a"])
def test_other_targets_know_nothing_of_it(name: str) -> None:
    function = on(kernels.piped, arch=name)
    assert not any(mnemonic.startswith(("tcgen05", "tmem")) for mnemonic in counted(function.walk()))
    assert [barrier.name for barrier in function.barriers] == ["full", "empty"]
