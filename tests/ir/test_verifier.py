"""The verifier: mistakes of users with their message, place and remedy; mistakes of the compiler by name."""

from __future__ import annotations

import dataclasses

import pytest

from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops import mbarrier
from phalanx.ir.ops.control import (
    Assign,
    Break,
    Continue,
    DeviceAssert,
    For,
    If,
    Leave,
    ReadVar,
    RoleCopy,
    Scope,
    Sync,
    While,
)
from phalanx.ir.ops.mbarrier import Arrive, BarrierInit, ExpectTx, Wait
from phalanx.ir.ops.memory import Extent, Load, Store
from phalanx.ir.ops.tile import (
    Arange,
    Binary,
    Bitcast,
    Cast,
    Combine,
    Compare,
    ConvertLayout,
    CumSum,
    Fma,
    Full,
    Pack,
    Reduce,
    ReduceBy,
    Reshape,
    ScanBy,
    Select,
    SkippingProduct,
    Transpose,
    Unary,
    Unpack,
)
from phalanx.ir.ops.tma import TmaStore, TmaWait
from phalanx.ir.types import BOOL, F32, I32, I64, bf16, bool_, f4e2m1, f32, i32, u8
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.verifier import verify
from phalanx.ir.views import BarrierArray, SharedBuffer, SharedView
from support.hand_ir import (
    array,
    arrive,
    bar,
    block,
    box,
    const,
    expect,
    fetch,
    kernel,
    load,
    part,
    role,
    store,
    tile,
    wait,
    whole,
)

SMEM = SharedBuffer("smem", (2, 96), f32)
FULL = BarrierArray("full", 2)
X = array("X", 2)
N = Param(I32, "n", 1)


def made(*ops, cluster: int = 2, **options) -> Function:
    options = {"params": (X, N), "buffers": (SMEM,), "barriers": (FULL,)} | options
    return kernel(*ops, cluster=cluster, **options)


def refused(*ops, **options) -> Error:
    with pytest.raises(Error) as caught:
        verify(made(*ops, **options))
    assert caught.value.remedy
    return caught.value


def row(start: int | Value, size: int, index: int | Value = 0, cta: Value | None = None) -> SharedView:
    """`smem[index, start:start+size]`."""
    return SharedView(SMEM, (const(index), const(start)), (1, size), (1,), cta)


def test_a_good_kernel_passes():
    i, j, cond, cell = Value(I32, "i"), Value(I32, "j"), Value(BOOL, "c"), Var(I32, "v")
    loop, outer, scope = Label("loop"), Label("outer"), Label("kernel")
    body = block(
        fetch(box(X, (i, 0), (1, 64)), SharedView(SMEM, (const(0), const(0)), (1, 64), (0, 1)), FULL, 0b11, i),
        If(cond, block(Break(loop)), block(Continue(loop))),
    )
    function = made(
        BarrierInit(FULL, counts=((1, 1), (2, 2))),
        Assign(cell, const(0)),
        Compare("lt", N, const(3), cond),
        For(i, const(0), N, const(1), body, loop),
        While(block(ReadVar(cell, j), Compare("lt", j, N, cond)), cond, block(Leave(scope)), outer),
        wait(FULL, 1),
        arrive(FULL, 1, ctas=3),
        expect(FULL, 384),
        load(row(32, 64, cta=N)),
        scope=scope,
    )
    verify(function)


# -- what users get wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (row(64, 64), "slice 64:128 is past the end of axis 1 of shared buffer 'smem' (size 96)"),
        (row(-8, 64), "slice -8:56 begins before the start of axis 1 of shared buffer 'smem' (size 96)"),
        (row(N, 128), "a slice of 128 elements is longer than axis 1 of shared buffer 'smem' (size 96)"),
        (row(0, 64, index=2), "index 2 is outside axis 0 of shared buffer 'smem' (size 2)"),
        (row(0, 64, index=-1), "index -1 is outside axis 0 of shared buffer 'smem' (size 2)"),
    ],
)
def test_regions_outside_a_shared_buffer(view, message):
    error = refused(Sync(), load(view))
    assert error.message == message
    assert error.remedy == "shared memory has no edge masks: stay inside the buffer"
    assert error.location.line == 2


def test_run_time_offsets_are_left_to_the_run():
    verify(made(load(row(N, 64, index=N))))


def test_global_regions_may_stick_out():
    verify(made(load(box(X, (-5, 10**6), (64, 64)))))


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (wait(FULL, index=2), "index 2 is outside barrier array 'full' (2 barriers)"),
        (arrive(FULL, -1), "index -1 is outside barrier array 'full' (2 barriers)"),
        (
            fetch(box(X, (0, 0), (1, 64)), SharedView(SMEM, (const(0),) * 2, (1, 64), (0, 1)), FULL, 0b100),
            "multicast mask 0b100 names CTA 2, the cluster has 2 CTAs",
        ),
        (arrive(FULL, ctas=0b101), "mask 0b101 names CTA 2, the cluster has 2 CTAs"),
        (arrive(FULL, ctas=0), "mask 0 names no CTA"),
        (arrive(FULL, count=0), "arrival count 0 is outside 1 to 1048575"),
        (arrive(FULL, count=2**20), "arrival count 1048576 is outside 1 to 1048575"),
        (BarrierInit(FULL, const(0), const(0)), "arrival count 0 is outside 1 to 1048575"),
        (BarrierInit(FULL, counts=((1, 0), (1, 1))), "arrival count 0 is outside 1 to 1048575"),
        (
            ExpectTx(bar(FULL), const(2**20)),
            "1048576 bytes are outside 0 to 1048575, what one phase of a barrier can expect",
        ),
        (ExpectTx(bar(FULL), const(-4)), "-4 bytes are outside 0 to 1048575, what one phase of a barrier can expect"),
        (load(row(0, 64, cta=Const(2))), ".at(2) names a CTA outside the cluster of 2 CTAs"),
        (Wait(bar(FULL), Value(F32, "p")), "a parity is a scalar integer, not f32"),
        (Arrive(bar(FULL), tile((4,), i32)), "an arrival count is a scalar integer, not i32[4]"),
        (arrive(FULL, ctas=Const(1.0)), "a mask is a scalar integer, not f32"),
        (TmaWait(-1), "px.tma.wait(-1)"),
        (Store(row(0, 64), tile((64,), bf16)), "bf16 values do not fit memory of f32"),
        (Store(row(0, 64), tile((32,), f32)), "values of shape (32,) do not fit a region of shape (64,)"),
        (
            TmaStore(row(0, 64), box(X, (0, 0), (64, 64))),
            "tma.store from a region of shape (64,) to one of shape (64, 64)",
        ),
        (
            TmaStore(row(0, 64, cta=N), dataclasses.replace(box(X, (0, 0), (1, 64)), kept=(1,))),
            "tma.store of another CTA's shared memory",
        ),
        (
            fetch(box(array("H", 1, bf16), (0,), (64,)), row(0, 64), FULL),
            "tma.load from bf16 to f32: a copy does not convert",
        ),
        (For(Value(I32, "i"), const(0), const(4), const(0), Block(), Label("l")), "a range with step 0"),
    ],
    ids=lambda item: item[:40] if isinstance(item, str) else "",
)
def test_numbers_and_types_that_users_write(op, message):
    function = made(Sync(), op)
    values = {v for v in op.operands() if not isinstance(v, Const)} - set(function.params)
    function = dataclasses.replace(function, params=(*function.params, *values))  # defined, whatever they are
    with pytest.raises(Error) as caught:
        verify(function)
    assert caught.value.message == message
    assert caught.value.remedy
    assert caught.value.location.line == 2


def test_a_copy_of_more_bytes_than_a_barrier_can_track():
    big = SharedBuffer("big", (512, 512), f32)
    error = refused(fetch(box(X, (0, 0), (512, 512)), whole(big), FULL), buffers=(big,))
    assert error.message == "the copy brings 1048576 bytes; a barrier can track 1048575 at a time"


def test_a_declared_count_out_of_range():
    error = refused(barriers=(BarrierArray("b", 1, count=0),))
    assert error.message == "arrival count 0 is outside 1 to 1048575"


def test_a_parity_may_be_a_bool():
    verify(made(wait(FULL, Const(True))))


def test_one_cta_has_no_other():
    error = refused(arrive(FULL, ctas=0b10), cluster=1)
    assert error.message == "mask 0b10 names CTA 1, the cluster has 1 CTA"


def test_a_tile_does_not_cross_into_a_role():
    x = tile((64,), f32, "x")
    made_outside = Full(Const(0.0), x)
    error = refused(made_outside, role(0, 4, Store(row(0, 64), x)))
    assert error.message == "tile 'x' is used inside a role (warps 0-3), but was made outside it"
    assert error.location.line == 3
    verify(made(role(0, 4, made_outside, Store(row(0, 64), x))))


# -- what the compiler must not get wrong ------------------------------------------------------------------


def t(*shape, dtype=f32) -> Value:
    return tile(shape, dtype)


def defined(*ops: Op) -> Function:
    """The instructions with all their operands as parameters, so that only their types are in question."""
    values = {v: None for op in ops for v in op.operands() if not isinstance(v, Const)}
    return made(*ops, params=(X, N, *[v for v in values if v is not N]))


A, B, A_AND_B = Value(F32, "a"), Value(F32, "b"), Value(F32)
SUM = Combine("total", (A, B), (Binary("add", A, B, A_AND_B),), (A_AND_B,))
WRONG = {
    "undefined": made(Unary("neg", Value(I32, "x"), Value(I32))),
    "defined in a branch": made(
        If(Const(True), block(Unary("neg", N, INNER := Value(I32, "y"))), Block()), Unary("neg", INNER, Value(I32))
    ),
    "defined in a loop": made(
        For(I := Value(I32, "i"), const(0), N, const(1), Block(), Label("l")), Unary("neg", I, Value(I32))
    ),
    "break outside": made(Break(Label("l"))),
    "continue of a scope": made(Scope(S := Label("s"), block(Continue(S)))),
    "leave outside": made(Leave(Label("s"))),
    "copy outside": made(RoleCopy(2, Value(I32))),
    "copy of another role": made(role(0, 1, RoleCopy(2, Value(I32)), copies=4)),
    "cell never assigned": made(ReadVar(Var(I32, "v"), Value(I32))),
    "cell of another type": made(Assign(Var(I32, "v"), Const(1.0))),
    "while condition": made(While(Block(), Value(BOOL, "c"), Block(), Label("w"))),
    "undeclared buffer": made(load(whole(SharedBuffer("other", (4,), f32)))),
    "undeclared barrier": made(wait(BarrierArray("other", 1))),
    "rank of a view": made(load(box(X, (0,), (64,)))),
    "kept twice": made(Load(SharedView(SMEM, (const(0),) * 2, (1, 96), (1, 1)), Const(0.0), t(96, 96))),
    "dropped axis": made(Load(SharedView(SMEM, (const(0),) * 2, (2, 96), (1,)), Const(0.0), t(96))),
    "counts per rank": made(BarrierInit(FULL, counts=((1, 1),))),
    "load of another type": made(Load(row(0, 64), Const(0.0), t(32))),
    "fill of another type": made(Load(row(0, 64), Const(0), t(64))),
    "condition": defined(If(Value(I32), Block(), Block())),
    "tile as condition": defined(If(t(4, dtype=bool_), Block(), Block())),
    "assertion": defined(DeviceAssert(t(4), "no")),
    "loop bounds": made(For(Value(I32), Const(0, I64), N, const(1), Block(), Label("l"))),
    "operand types": defined(Binary("add", t(4), t(4, dtype=bf16), t(4))),
    "result type": defined(Compare("lt", t(4), t(4), t(4))),
    "shapes": defined(Binary("add", t(4), t(8), t(8))),
    "result shape": defined(Binary("add", t(4), t(1), t(1))),
    "select": defined(Select(t(4), t(4), t(4), t(4))),
    "reduce": defined(Reduce("sum", t(4, 8), 1, True, t(4))),
    "reduce axis": defined(Reduce("sum", t(4, 8), 2, False, t(4))),
    "reshape": defined(Reshape(t(4, 8), t(31))),
    "transpose": defined(Transpose(t(4, 8), (1, 0), t(4, 8))),
    "transpose axes": defined(Transpose(t(4, 8), (0, 0), t(4, 4))),
    "cumsum": defined(CumSum(t(4), 0, t(8))),
    "convert": defined(ConvertLayout(t(4), "shuffles", t(8))),
    "pack": defined(Pack(t(4, 8, dtype=f4e2m1), 1, t(4, 8, dtype=u8))),
    "pack of whole bytes": defined(Pack(t(4, 8, dtype=bf16), 1, t(4, 4, dtype=u8))),
    "unpack": defined(Unpack(t(4, 8, dtype=u8), 0, t(4, 16, dtype=f4e2m1))),
    "unpack axis": defined(Unpack(t(4, 8, dtype=u8), 2, t(4, 16, dtype=f4e2m1))),
    "cast": defined(Cast(t(4), t(8, dtype=bf16))),
    "bitcast": defined(Bitcast(t(4), t(4, dtype=bf16))),
    "fma": defined(Fma(t(4), t(4), t(8), t(8))),
    "multiply": defined(SkippingProduct(t(4, 1), t(4, 8), t(4, 8))),
    "multiply types": defined(SkippingProduct(t(4), t(4, dtype=bf16), t(4))),
    "reduce_by": defined(ReduceBy((t(4, 8),), (), 1, False, SUM, (t(4, 8),))),
    "reduce_by axis": defined(ReduceBy((t(4, 8),), (), 2, False, SUM, (t(4),))),
    "reduce_by types": defined(ReduceBy((t(4, dtype=bf16),), (), 0, True, SUM, (t(1, dtype=bf16),))),
    "scan_by": defined(ScanBy((t(4, 8),), (), 0, SUM, (t(4),))),
    "scan_by shapes": defined(ScanBy((t(4), t(8)), (), 0, SUM, (t(4), t(8)))),
    "scan_by what is taken": defined(ScanBy((t(4),), (Value(F32),), 0, SUM, (t(4),))),
    "scan_by undefined": defined(ScanBy((t(4),), (), 0, Combine("f", (A, B), (), (Value(F32),)), (t(4),))),
    "scan_by effects": defined(ScanBy((t(4),), (), 0, Combine("f", (A, B), (Sync(),), (A,)), (t(4),))),
    "full": defined(Full(Const(0), t(4))),
    "arange": made(Arange(t(4))),
    "extent": made(Extent(N, 0, Value(I32))),
    "test_wait": made(mbarrier.TestWait(bar(FULL), const(0), Value(I32))),
}


@pytest.mark.parametrize("name", WRONG)
def test_broken_ir_is_named_as_a_bug_of_the_compiler(name):
    with pytest.raises(Error) as caught:
        verify(WRONG[name])
    assert caught.value.message.startswith("internal: ")
    assert "bug in phalanx" in caught.value.remedy


def test_right_types_pass():
    a = t(4, 8)
    verify(
        defined(
            Binary("add", a, t(8), t(4, 8)),
            Compare("lt", a, Const(1.0), t(4, 8, dtype=bool_)),
            Select(t(4, 1, dtype=bool_), a, Const(0.0), t(4, 8)),
            Reduce("sum", a, 0, False, t(8)),
            Reduce("argmax", a, 1, True, t(4, 1, dtype=i32)),
            Reshape(a, t(32)),
            Transpose(a, (1, 0), t(8, 4)),
            Cast(a, t(4, 8, dtype=bf16)),
            Bitcast(a, t(4, 8, dtype=i32)),
            ReduceBy((a,), (), 1, True, SUM, (t(4, 1),)),
            ScanBy((a,), (), 1, SUM, (t(4, 8),)),
            Fma(a, t(8), t(4, 1), t(4, 8)),
            Arange(t(16, dtype=i32)),
        )
    )
    verify(made(store(row(0, 64)), load(part(SMEM, 1)), Extent(X, 1, Value(I32))))
