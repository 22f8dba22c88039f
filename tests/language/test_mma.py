"""When px.dot is wgmma, when mma.sync, and what neither can do."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.ir.core import Function
from phalanx.ir.ops.mma import Mma
from phalanx.ir.ops.wgmma import Wgmma
from phalanx.ir.types import DType, bf16, f8e4m3, f16, f32
from support.front import array, prepared


@px.kernel(warps=lambda WARPS: WARPS)
def product(A, B, *, WARPS=4, AM=(64, 64), BN=(64, 64), TA=False, TB=True, ROW=0, COLUMN=0, M=64, K=64, ALONG="m"):
    a = px.shared(AM, A.dtype)
    b = px.shared(BN, B.dtype)
    part = a[ROW : ROW + (K if TA else M), COLUMN : COLUMN + (M if TA else K)]
    px.dot(part.T if TA else part, b.T if TB else b, along=ALONG)


def read(kernel: Any, *dtypes: DType, **constants: Any) -> Function:
    return prepared(kernel, tuple(array(2, dtype) for dtype in dtypes), **constants)


@pytest.mark.parametrize("dtype, constants", [(bf16, {}), (f16, {"TA": True, "TB": False}), (f32, {}), (f8e4m3, {})])
def test_where_wgmma_can_it_does(dtype: DType, constants: dict[str, Any]) -> None:
    function = read(product, dtype, dtype, **constants)
    assert any(isinstance(op, Wgmma) and op.fused for op in function.walk())
    assert not function.notes


@pytest.mark.parametrize(
    "dtype, constants, reason",
    [
        (bf16, {"WARPS": 1}, "wgmma runs on whole warpgroups; this kernel has 1 warp from warp 0"),
        (bf16, {"WARPS": 6}, "this kernel has 6 warps from warp 0"),
        (bf16, {"M": 16, "AM": (16, 64)}, "M = 16 rows over 1 warpgroup"),
        (bf16, {"WARPS": 8}, "M = 64 rows over 2 warpgroups"),
        (f8e4m3, {"TB": False}, "b is contiguous along N, which the hardware reads for 16-bit types only"),
        (f32, {"TA": True}, "a is contiguous along M"),
        (bf16, {"K": 8, "AM": (64, 8), "BN": (64, 8)}, "K = 8"),
        (bf16, {"BN": (272, 64)}, "N = 272"),
        (bf16, {"AM": (80, 64), "ROW": 4}, "a begins at row 4 of 'a', no multiple of 8"),
        (bf16, {"AM": (64, 80), "COLUMN": 4}, "a begins at byte 8 of the rows of 'a'"),
        (bf16, {"AM": (68, 64)}, "a is in 'a', whose 68 rows are not a multiple of 8"),
        (bf16, {"AM": (64, 72)}, "a is in 'a', whose rows have 144 bytes, no multiple of 32"),
    ],
)
def test_elsewhere_a_note_says_why_not(dtype: DType, constants: dict[str, Any], reason: str) -> None:
    function = read(product, dtype, dtype, **constants)
    (note,) = function.notes
    assert note.message.startswith("px.dot runs as mma.sync: ") and reason in note.message
    assert "px.dot(" in note.loc.text
    assert any(isinstance(op, Mma) for op in function.walk())


def test_a_loop_has_one_note() -> None:
    @px.kernel(warps=2)
    def loop(A, B):
        a = px.shared((64, 64), A.dtype)
        acc = px.zeros((64, 64), px.f32)
        for _ in range(A.shape[0]):
            acc = px.dot(a, a.T, acc)
        px.store(B[0:64, 0:64], acc)

    assert len(read(loop, bf16, f32).notes) == 1


def test_b_may_be_in_registers() -> None:
    @px.kernel
    def registers(A, B):
        px.store(B[0:64, 0:64], px.dot(px.load(A[0:64, 0:64]), px.load(A[0:64, 0:64])))

    (note,) = read(registers, bf16, f32).notes
    assert note.message == "px.dot runs as wgmma: a and b go through 16384 bytes of shared memory"


@pytest.mark.parametrize(
    "constants, message, remedy",
    [
        ({"M": 24, "AM": (24, 64)}, "px.dot: M = 24", "multiple of 16: elements outside an array load as 0"),
        ({"BN": (12, 64)}, "px.dot: N = 12", "multiple of 8"),
        ({"K": 12, "AM": (64, 12), "BN": (64, 12)}, "px.dot: K = 12", "multiple of 8"),
    ],
)
def test_what_neither_can_do(constants: dict[str, Any], message: str, remedy: str) -> None:
    with pytest.raises(px.Error) as caught:
        read(product, bf16, bf16, **constants)
    assert message in caught.value.message and remedy in caught.value.remedy
    assert "wgmma can't do it either" in str(caught.value)
