"""Descriptors of what a loop multiplies by in every turn: made before it, where their place is known only at run time."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.ir.types import I32
from support.cuda_text import body, module_of
from support.front import array
from support.host_cuda import run_on_host

TYPES = (array(3, px.bf16), array(3, px.bf16), array(2))


@px.kernel(warps=4)
def scores(Q, K, S, n, *, DIM=128, MOVES=False, SAME=False, NESTED=False):
    """The sum over all keys of queries times keys: the same queries in every turn, and other keys."""
    q, k = px.shared((2, 64, DIM), px.bf16), px.shared((2, 64, DIM), px.bf16)
    full, filled = px.barrier(), px.barrier()
    with filled.transaction():
        for i in px.static_range(2):
            px.tma.load(Q[i, 0:64, 0:DIM], q[i], filled)
    filled.wait(0)
    acc = px.zeros((64, 64), px.f32)
    at = 0 if SAME else n % 2
    for t in range(n):
        with full.transaction():
            px.tma.load(K[t, 0:64, 0:DIM], k[t % 2], full)
        full.wait(t & 1)
        stage = t % 2
        if NESTED:
            for _ in range(1):
                px.wgmma(q[at], k[stage].T, acc)
        else:
            px.wgmma(q[(at + t) % 2 if MOVES else at], k[stage].T, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.sync()
    px.store(S[0:64, 0:64], acc)


def text(**constants: object) -> str:
    return body(module_of(scores, (*TYPES, I32), **constants))


def test_before_the_loop_and_held():
    found = text()
    before, inside = found.split("for (int t = 0;")
    first, steps = (rf"q_{word}" for word in ("first", "steps"))
    assert re.search(rf"const unsigned long long {first} = ptx::wgmma_descriptor\(q_addr \+ \w+ \* 16384, .*\);", before)
    assert f"unsigned long long {steps}[8] = {{{first}, {first} + 2," in before
    assert f"ptx::hold_descriptors<8>({steps});" in before
    assert re.search(r"_x8_listed_a<2, 4, 6, 512, 514, 516, 518>\(acc\w*, q_steps, px_b, true\);", inside)
    assert "px_a" not in inside and inside.count("ptx::wgmma_descriptor(") == 1


@pytest.mark.parametrize(
    "constants",
    [
        pytest.param(dict(MOVES=True), id="another place in every turn"),
        pytest.param(dict(SAME=True), id="a place that is known"),
        pytest.param(dict(DIM=256), id="more than the registers are for"),
    ],
)
def test_not_held(constants):
    found = text(**constants)
    assert "hold_descriptors" not in found and "px_a" in found


def test_what_an_inner_loop_multiplies_by_is_held_there_both_operands():
    """Of the inner loop the keys are the same in every turn, too; there is room for one of the two alone."""
    before, inside = text(NESTED=True, DIM=128).split("for (int t = 0;")
    assert "hold_descriptors" not in before
    assert inside.count("ptx::hold_descriptors<8>(") == 1
    inside = text(NESTED=True, DIM=64).split("for (int t = 0;")[1]
    assert inside.count("ptx::hold_descriptors<4>(") == 2


def test_runs_and_compiles():
    rng = np.random.default_rng(0)
    q, k = (rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((2, 64, 128), (3, 64, 128)))
    want = sum(q[1].astype(np.float32) @ x.astype(np.float32).T for x in k)
    s = np.zeros((64, 64), np.float32)
    module = run_on_host(scores, 1, q, k, s, 3)
    np.testing.assert_array_equal(s, want)
    assert "hold_descriptors" in module.source
    used = compile_cuda(module.source, "sm_90a").resources_of(module.entry)
    assert used.spill_store_bytes == 0
