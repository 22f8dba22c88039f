"""What is missing around copies that threads begin is found: the wait, the commit, the fence before the tensor cores."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support import thread_copies as kernels


@pytest.mark.parametrize(
    "constants, kinds", [({"WAIT": False}, ["race"]), ({"COMMIT": False, "WAIT": False}, ["race"])]
)
def test_a_wait_or_a_commit_that_is_missing(constants: dict[str, Any], kinds: list[str]) -> None:
    x, y = np.ones((16, 48), np.float32), np.zeros((16, 32), np.float32)
    report = px.check(kernels.copied[1], x, y, 0, **constants)
    assert [finding.kind for finding in report.findings] == kinds
    assert report.findings[0].message == (
        "px.load reads s and nothing orders it after px.cp_async.load (thread_copies.py:13), which writes it; "
        "px.cp_async.commit(bar) in all warps and bar.wait(parity) first"
    )


def test_a_wait_for_a_commit_that_never_comes() -> None:
    x, y = np.ones((16, 48), np.float32), np.zeros((16, 32), np.float32)
    report = px.check(kernels.copied[1], x, y, 0, COMMIT=False)
    assert [finding.kind for finding in report.findings] == ["deadlock"]


@pytest.mark.parametrize("arch, kinds", [("sm_90a", ["proxy", "proxy"]), ("sm_100a", []), ("sm_120a", [])])
def test_tensor_cores_that_read_for_themselves_want_a_fence(arch: str, kinds: list[str]) -> None:
    """Before tcgen05 the compiler puts it, for a px.dot; mma.sync needs none."""
    a = np.ones((64, 80), ml_dtypes.bfloat16)
    rows = 128 if arch == "sm_100a" else 64
    c = np.zeros((rows, 32), np.float32)
    report = px.check(kernels.ring_product[1], a, a[:32], c, FENCE=False, M=rows, arch=arch)
    assert [finding.kind for finding in report.findings] == kinds
    if kinds:
        assert report.findings[0].message.endswith(
            "wrote it through the generic proxy, when it landed; put px.fence.async_proxy() after the wait for its commit, "
            "before thread_copies.py:58, in a role that has waited: a fence of the sender comes before the data"
        )
