"""Pipelined loops whose loads the copy engine does not take: threads copy them, several stages ahead, where they can."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Function
from phalanx.ir.types import bf16, f32, i32
from support.front import array, prepared
from support.thread_copies import chosen_rows, odd_rows

BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_90a", "sm_100a", "sm_120a")


def names(function: Function) -> Counter[str]:
    return Counter(op.mnemonic for op in function.walk())


def on(arch: str, **constants: Any) -> Function:
    unaligned = array(2, bf16, aligned=False)
    return prepared(odd_rows, (unaligned, unaligned, array(2, f32)), arch_of(arch), **constants)


@pytest.mark.parametrize("arch", TARGETS)
def test_threads_copy_and_do_not_wait(arch: str) -> None:
    found = names(on(arch, BM=128 if arch == "sm_100a" else 64))
    assert found["cp_async.load"] == 2 and found["cp_async.commit"] == 1 and not found["tma.load"]
    assert found["fence.async_proxy"] == (arch != "sm_120a"), "behind the wait, by who reads it"


def test_another_fill_is_loaded_and_stored() -> None:
    found = names(on("sm_90a", FILL=1))
    assert not found["cp_async.load"] and found["store"] >= 2


def test_rows_by_index_are_copied() -> None:
    matrix = array(2, bf16, aligned=False)
    function = prepared(chosen_rows, (matrix, matrix, array(1, i32), array(2, f32)), arch_of("sm_90a"))
    assert names(function)["cp_async.load"] == 2


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("k", [250, 251, 30, 0])
def test_they_are_right_and_checked(arch: str, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-3, 4, (128, k)).astype(BF16), rng.integers(-3, 4, (32, k)).astype(BF16)
    c = np.full((128, 32), 7, np.float32)
    rows = 128 if arch == "sm_100a" else 64
    launch = odd_rows[128 // rows]
    report = px.check(launch, a, b, c, BM=rows, arch=arch)
    assert report.ok, report
    launch(a, b, c, BM=rows, arch=arch)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
