"""Products under conditions and in plain loops of a pipelined loop's body, and steps that end before their product.

All of them read the ring, and the stage is given back on every way out of the step.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from passes.test_pipelining import agrees, notes, numbers, run
from support.host_build import COMPILER, MISSING
from support.host_cuda import run_on_host

CASES = ("if", "else", "continue", "between", "inside", "repeated", "left", "left between")
FLAGS = ([1, 0, 2, 1, 0, 2, 1], [0, 0, 0, 0, 0, 0, 0])


@px.kernel(warps=4)
def chosen(A, B, ON, C, *, BM=64, BN=32, BK=32, CASE="if", PRODUCER=True):
    """Operands are loaded before it is decided what becomes of them; all of it twice: no stage may be lost."""
    m, acc = px.block_id(0) * BM, px.zeros((BM, BN), px.f32)
    for _ in range(2):
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2, producer=PRODUCER):
            a, on = px.load(A[m : m + BM, k : k + BK]), ON[k // BK]
            if CASE == "between":
                if on == 0:
                    continue
            elif CASE == "left between":
                if on > 1:
                    break
            b = px.load(B[0:BN, k : k + BK])
            if CASE == "if":
                if on > 0:
                    acc = px.dot(a, b.T, acc)
            elif CASE == "else":
                if on > 0:
                    acc = acc + 1.0
                else:
                    turned = b.T
                    acc = px.dot(a, turned, acc)
            elif CASE == "continue":
                if on == 0:
                    continue
                acc = px.dot(a, b.T, acc)
            elif CASE == "inside":
                if on > 0:
                    acc = px.dot(a, b.T, acc)
                    if on > 1:
                        continue
                acc = acc + 1.0
            elif CASE == "repeated":
                for _ in range(on):
                    acc = px.dot(a, b.T, acc)
            elif CASE == "left":
                if on > 1:
                    break
                acc = px.dot(a, b.T, acc)
            else:
                acc = px.dot(a, b.T, acc)
    px.store(C[m : m + BM, 0:BN], acc)


def arguments(flags: list[int]) -> list[Any]:
    a, b = (numbers(rows, 7 * 32, dtype=ml_dtypes.bfloat16, seed=rows) for rows in (100, 32))
    return [a, b, np.array(flags, np.int32), np.zeros((100, 32), np.float32)]


def expected(case: str, args: list[Any]) -> np.ndarray:
    """What the kernel says, step by step."""
    a, b, flags = args[0].astype(np.float32), args[1].astype(np.float32), args[2]
    acc = np.zeros((100, 32), np.float32)
    for step, on in enumerate(flags):
        part = a[:, 32 * step : 32 * step + 32] @ b[:, 32 * step : 32 * step + 32].T
        if case.startswith("left") and on > 1:
            break
        acc += part * {"else": on == 0, "repeated": on, "left": 1, "left between": 1}.get(case, on > 0)
        acc += {"else": on > 0, "inside": on < 2}.get(case, 0)
    return 2 * acc


@pytest.mark.share(3)
@pytest.mark.parametrize("flags", FLAGS, ids=["mixed", "none"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_plain_loop(case: str, flags: list[int]) -> None:
    args = arguments(flags)
    got = agrees(chosen[2], *args, CASE=case)
    np.testing.assert_array_equal(got[3], expected(case, args))


@pytest.mark.parametrize("case", CASES)
def test_they_read_the_ring(case: str) -> None:
    said = notes(chosen[2], *arguments(FLAGS[0]), CASE=case)
    for name in "AB":
        assert f"px.load of {name}: staged by the copy engine, in a ring of 2 stages; products read it there" in said
    how = "one group stays in flight" if case.startswith("left") else "waited for at once"
    assert f"px.dot runs as wgmma on the ring, {how}" in said


@pytest.mark.parametrize("case", ["if", "continue"])
def test_without_a_producer(case: str) -> None:
    args = arguments(FLAGS[0])
    np.testing.assert_array_equal(run(chosen[2], *args, CASE=case, PRODUCER=False)[3], expected(case, args))


@pytest.mark.share(2)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("case", ["if", "inside"])
def test_on_other_targets(arch: str, case: str) -> None:
    args = arguments(FLAGS[0])
    chosen[2](*args, arch=arch, CASE=case)
    np.testing.assert_array_equal(args[3], expected(case, args))
    assert px.check(chosen[2], *args, arch=arch, CASE=case).ok


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(3)
@pytest.mark.parametrize("case", CASES)
def test_the_text_does_what_is_simulated(case: str) -> None:
    args = arguments(FLAGS[0])
    run_on_host(chosen, 2, *args, CASE=case)
    np.testing.assert_array_equal(args[3], expected(case, args))


@pytest.mark.share(3)
@pytest.mark.parametrize("case", CASES)
def test_no_registers_are_spilled_or_waited_for(case: str) -> None:
    made = px.compile(chosen[2], *arguments(FLAGS[0]), arch="sm_90a", CASE=case)
    assert made.spills == 0 and "mma.sync" not in made.ptx
