"""Products of warps: how much of K is loaded at a time, and what becomes of the groups around a product that is replaced."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.cuda.lower.mma_fallback import split_products
from phalanx.cuda.lower.ops.mma import depth_of_step
from phalanx.cuda.module import generate
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.ir.ops.memory import Load
from phalanx.ir.ops.mma import Mma
from phalanx.ir.ops.wgmma import Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.types import I32, bf16, f32
from phalanx.ir.views import SharedView
from support.cuda_text import plan_of
from support.front import array, prepared


@pytest.mark.parametrize(
    "m, n, k, warps, itemsize, depth",
    [
        (64, 64, 64, 4, 2, 64),  # 32 x 32 a warp: 64 registers
        (64, 64, 64, 2, 2, 32),
        (128, 128, 64, 4, 2, 32),
        (128, 256, 64, 4, 2, 16),  # never less than an instruction
        (16, 8, 8, 1, 2, 8),
        (16, 8, 48, 1, 2, 48),
        (64, 64, 48, 2, 2, 16),  # equal steps
        (64, 64, 64, 4, 4, 32),
    ],
)
def test_steps_of_k(m: int, n: int, k: int, warps: int, itemsize: int, depth: int) -> None:
    assert depth_of_step(m, n, k, warps, itemsize) == depth


@px.kernel(warps=2)
def from_registers(A, B, C, offset, *, M=64, N=64, K=64):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, 2 * K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0 : 2 * K]))
    x = px.load(a)
    px.sync()  # whoever overwrites the buffer from here on does not change the tile
    px.store(C[0:M, 0:N], px.dot(x, b[:, offset : offset + K].T))


def test_a_tile_in_registers_is_taken_from_step_to_step() -> None:
    types = (array(2, bf16), array(2, bf16), array(2, f32), I32)
    function = split_products(prepared(from_registers, types))
    products = [op for op in function.walk() if isinstance(op, Mma)]
    assert [(op.starts, op.depth) for op in products] == [((0, 0), 32), ((32, 0), 32)]
    assert products[0].a is products[1].a and products[1].acc is products[0].result
    _, *loads = [op for op in function.walk() if isinstance(op, Load) and isinstance(op.view, SharedView)]
    assert [op.view.extents for op in loads] == [(64, 32), (64, 32)]
    assert loads[0].view.offsets[1] is not loads[1].view.offsets[1], "the second begins 32 further"


@px.kernel(warps=4)
def in_flight(A, B, C, D):
    """A product of the user's is in flight, and not committed, when a px.dot that wgmma can't do comes."""
    a = px.shared((64, 64), A.dtype)
    rows = px.shared((64, 64), A.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        for row in px.static_range(64):
            px.tma.load(B[row, 0:64], rows[row], full)
    full.wait(0)
    mine = px.zeros((64, 64), px.f32)
    px.wgmma(a, a.T, mine)
    other = px.dot(rows, a.T)
    px.store(C[0:64, 0:64], mine)
    px.store(D[0:64, 0:64], other)


@pytest.mark.long  # its text takes NVRTC seconds
def test_the_groups_of_other_products_stay() -> None:
    plan = plan_of(in_flight, (array(2, bf16), array(2, bf16), array(2, f32), array(2, f32)))
    ops = list(plan.function.walk())
    assert [type(op).__name__ for op in ops if isinstance(op, Wgmma | Mma | WgmmaCommit | WgmmaWait)] == [
        "Wgmma", "Mma", "WgmmaCommit", "WgmmaWait",
    ]
    (wait,) = [op for op in ops if isinstance(op, WgmmaWait)]
    (product,) = [op for op in ops if isinstance(op, Wgmma)]
    assert wait.accs == (product.result,)
    compile_cuda(generate(plan).source, "sm_90a")  # no serialisation
