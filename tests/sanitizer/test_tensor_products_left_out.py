"""What `px.dot` becomes in tensor memory, without one of the instructions of it: each is missed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Function, Op
from sanitizer.leaving_out import findings_of, leave_out
from support import tensor_product_kernels as kernels
from support.front import array, prepared

A = (np.arange(64 * 96) % 7 - 3).reshape(64, 96).astype(ml_dtypes.bfloat16)
B = (np.arange(32 * 96) % 5 - 2).reshape(32, 96).astype(ml_dtypes.bfloat16)
ARGS = (A, B, np.zeros((64, 32), np.float32))


def function_of(kernel: Any, **constants: Any) -> Function:
    types = (array(2, px.bf16), array(2, px.bf16), array(2, px.f32))
    return prepared(kernel, types, arch_of("sm_100a"), **constants)


def waits_for_products(op: Op) -> bool:
    return any(wait.barrier.barrier.name == "dot_done" for wait in op.effects().waits)


def called(*mnemonics: str) -> Any:
    return lambda op: op.mnemonic in mnemonics


@pytest.mark.parametrize(
    ("kernel", "constants", "which", "kinds"),
    [
        (kernels.loop, {"M": 64, "N": 32, "K": 32}, waits_for_products, {"race", "unfinished", "exit-hazard"}),
        (kernels.begun, {}, called("fence.async_proxy"), {"proxy"}),
        (kernels.begun, {}, called("tcgen05.store"), {"uninitialised-read"}),
        (kernels.begun, {}, called("tcgen05.wait.store"), {"race", "proxy"}),
        (kernels.twice, {}, called("tcgen05.fence.after"), {"proxy"}),
        (kernels.halved, {}, waits_for_products, {"race", "proxy", "unfinished", "exit-hazard"}),
    ],
)
def test_nothing_of_it_is_too_much(kernel: Any, constants: dict[str, Any], which: Any, kinds: set[str]) -> None:
    function = function_of(kernel, **constants)
    assert findings_of(function, 1, ARGS) == []
    found = {finding.kind for finding in findings_of(leave_out(function, which), 1, ARGS)}
    assert found and found <= kinds, found


def test_a_finding_names_what_the_user_wrote() -> None:
    """The arrival that gives the stage back is a commit; without it the producer overwrites what a product reads."""

    @px.kernel(warps=5)
    def early(A, B, C):
        a, b, full = px.shared((64, 32), A.dtype), px.shared((32, 32), B.dtype), px.barrier()
        with px.warps(4, 1):
            for k in range(A.shape[1] // 32):
                with full.transaction():
                    px.tma.load(A[0:64, k * 32 : k * 32 + 32], a, full)
                    px.tma.load(B[0:32, k * 32 : k * 32 + 32], b, full)
                full.wait(k % 2)
        with px.warps(0, 4):
            acc = px.zeros((64, 32), px.f32)
            for k in range(A.shape[1] // 32):
                full.wait(k % 2)
                acc = px.dot(a, b.T, acc)
            px.store(C[0:64, 0:32], acc)

    report = px.check(early[1], *ARGS, arch="sm_100a")
    assert not report.ok and "px.dot reads a" in str(report) and "px.tcgen05.mma" not in str(report)
