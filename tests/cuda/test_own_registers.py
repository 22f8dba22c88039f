"""Operands in registers that a product in flight reads: the text gives them registers of their own, or waits."""

from __future__ import annotations

import re
from typing import Any

import pytest

import phalanx as px
from phalanx.cuda.assembly.in_flight import violations
from phalanx.cuda.text.cautions import Cautions

BF16, F32 = px.bf16, px.f32
ARRAYS = px.spec((64, 640), BF16), px.spec((64, 640), BF16), px.spec((64, 64), F32)


@px.kernel(warps=4)
def computes_ahead(A, B, C, n, *, GROUPS=0, BEHIND=False):
    """The operand of a turn is computed while the product of the turn before may be at work."""
    b = px.shared((64, 32), px.bf16)
    px.store(b, px.load(B[0:64, 0:32]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    for i in range(n):
        a = (px.load(A[0:64, i * 32 : i * 32 + 32]).to(px.f32) * 2.0).to(px.bf16)
        if not BEHIND:
            px.wgmma_wait(GROUPS)
        px.wgmma(a, b.T, acc)
        px.wgmma_commit()
        if BEHIND:
            px.wgmma_wait(GROUPS)
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc)


def compiled(kernel: Any, *more: Any, **constants: Any) -> px.Compiled:
    made = px.compile(kernel[1], *ARRAYS, *more, **constants)
    assert violations(made.ptx) == []
    return made


@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("behind", [False, True])
def test_an_operand_computed_in_flight_has_registers_of_its_own(groups: int, behind: bool) -> None:
    made = compiled(computes_ahead, 10, GROUPS=groups, BEHIND=behind)
    over = groups == 0 and behind  # the product of the turn before is over when the operand is computed
    assert ("take_registers" in made.source) is not over
    waits = [note for note in made.notes if "waits for the product of the turn before" in note]
    assert len(waits) == (groups > 0)
    # Where a product may still be at work at its own place it is waited for, right before its registers are filled.
    body = made.source[made.source.index("for (int i = 0") :]
    calls = re.findall(r"ptx::(wgmma_wait_group_\d|take_registers|wgmma_m64\w+|wgmma_commit)", body)
    if not over:
        filled = calls.index("take_registers")
        assert calls[filled - 1] == "wgmma_wait_group_0" and calls[filled + 1].startswith("wgmma_m64")


def test_the_note_says_what_to_write() -> None:
    made = compiled(computes_ahead, 10, GROUPS=1)
    (note,) = (note for note in made.notes if "the turn before" in note)
    assert note == (
        "test_own_registers.py:30: px.wgmma waits for the product of the turn before, which reads its left operand from the "
        "same registers"
    )


@px.kernel(warps=4, strict=True)
def strict_ahead(A, B, C, n):
    b = px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    for i in range(n):
        a = px.load(A[0:64, i * 64 : i * 64 + 64])
        px.wgmma(a, b.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(1)
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc)


def test_a_strict_kernel_is_refused_with_a_remedy() -> None:
    with pytest.raises(px.Error) as caught:
        px.compile(strict_ahead[1], *ARRAYS, 10)
    assert "px.wgmma waits for the product of the turn before" in caught.value.message
    assert "write two products in a turn of twice the step" in (caught.value.remedy or "")
    assert caught.value.location is not None and caught.value.location.text.strip() == "px.wgmma(a, b.T, acc)"


@px.kernel(warps=4)
def begun_before(A, B, C, n):
    """The first product stands before the loop: its accumulator would be copied into the loop's while it is at work."""
    b = px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(px.load(A[0:64, 0:64]), b.T, acc)
    px.wgmma_commit()
    for i in range(1, n):
        a = px.load(A[0:64, i * 64 : i * 64 + 64])
        px.wgmma_wait(0)
        px.wgmma(a, b.T, acc)
        px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc)


@px.kernel(warps=4)
def in_arms(A, B, C, n):
    """Two products, of which one runs: their accumulators meet behind the `if`."""
    b = px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    for i in px.unroll(range(n), 3):
        a = px.load(A[0:64, i * 64 : i * 64 + 64])
        if i % 2 == 1:
            px.wgmma(a, b.T, acc)
        else:
            px.wgmma((a.to(px.f32) + 1.0).to(px.bf16), b.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(1)
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc)


@pytest.mark.parametrize("kernel", [begun_before, in_arms])
def test_accumulators_in_flight_are_not_moved(kernel: Any) -> None:
    compiled(kernel, 10)


@px.kernel(warps=4)
def waited_for_in_arms(A, B, C, n):
    """Both arms of an `if` wait for the product before it; one begins another meanwhile."""
    b, turned = px.shared((64, 64), px.bf16), px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.store(turned, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    for i in range(n):
        px.wgmma(px.load(A[0:64, i * 64 : i * 64 + 64]), b.T, acc)
        px.wgmma_commit()
        if i + 1 < n:
            x = px.empty((64, 64), px.f32)
            px.wgmma(b, turned.T, x, accumulate=False)
            px.wgmma_commit()
            px.wgmma_wait(1)
            px.wgmma_wait(0)
        else:
            px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc)


def test_an_accumulator_that_each_arm_waits_for_stays_where_it_is() -> None:
    """The wait of an arm is the last to read it on its way, though the other arm comes later in the text."""
    made = compiled(waited_for_in_arms, 10)
    assert not any("waited for" in note for note in made.notes)
    assert made.source.count("ptx::wgmma_wait_group_1();") == 1


@px.kernel(warps=4)
def calls_meanwhile(A, B, C, n):
    b = px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    for i in range(n):
        a = px.load(A[0:64, i * 64 : i * 64 + 64])
        px.wgmma(a, b.T, acc)
        px.print("x", i)
        px.wgmma_commit()
        px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc)


LOST = (
    "C7510 Potential Performance Loss: wgmma.mma_async instructions are serialized due to wgmma pipeline crossing "
    "function boundary at a function call in the function 'calls_meanwhile_kernel'"
)


def test_a_loss_of_performance_is_told_at_the_line_that_causes_it() -> None:
    with pytest.raises(px.Error) as caught:
        px.compile(calls_meanwhile[1], *ARRAYS, 10)
    error = caught.value
    assert error.message.startswith(f"kernel 'calls_meanwhile' compiles with a loss of performance: {LOST}")
    assert error.location is not None and error.location.text.strip() == 'px.print("x", i)'
    assert error.remedy == (
        "between px.wgmma and its wait use nothing that becomes a call: divisions of run-time integers, px.print; "
        '@px.kernel(on_loss="note") takes it as it is'
    )


def test_a_loss_of_performance_may_be_a_note() -> None:
    patient = px.kernel(warps=4, on_loss="note")(calls_meanwhile.fn)
    made = px.compile(patient[1], *ARRAYS, 10)
    assert any(note.startswith("test_own_registers.py:") and LOST in note for note in made.notes)
    with pytest.raises(px.Error, match="loss of performance"):
        px.compile(px.kernel(warps=4, on_loss="note", strict=True)(calls_meanwhile.fn)[1], *ARRAYS, 10)
    with pytest.raises(px.Error, match="on_loss='never' of kernel 'calls_meanwhile'"):
        px.compile(px.kernel(warps=4, on_loss="never")(calls_meanwhile.fn)[1], *ARRAYS, 10)


PTX = """
// product 0
wgmma.mma_async {%f1, %f2}, {%r1}, %rd1;
// product 1
wgmma.mma_async {%f1, %f2}, {%r2}, %rd1;
mov.b32 %r2, %r9;
"""


def test_what_is_written_more_carefully_next() -> None:
    """First every product; then those by whose registers something goes wrong, then all; then nothing is left."""
    function = px.compile(in_arms[1], *ARRAYS, 10)
    assert function.registers > 0
    products = [type("P", (), {"loc": f"line {n}"})() for n in range(3)]
    careful = Cautions().after(["mov.b32 %r2, %r9", "wgmma.mma_async {%f1, %f2}, {%r2}, %rd1"], PTX, products)  # type: ignore[arg-type]
    assert careful == Cautions(careful=True)
    second = careful.after(["wgmma.mma_async {%f1, %f2}, {%r2}, %rd1"], PTX, products)  # type: ignore[arg-type, union-attr]
    assert second is not None and second.alone == {"line 1"}
    third = second.after(["wgmma.mma_async {%f1, %f2}, {%r2}, %rd1"], PTX, products)  # type: ignore[arg-type]
    assert third is not None and third.alone == {"line 0", "line 1", "line 2"}
    assert third.after(["wgmma.mma_async {%f1, %f2}, {%r2}, %rd1"], PTX, products) is None  # type: ignore[arg-type]
