"""How many registers tiles take, and what is not kept in registers where they take most of them."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.cuda.text.cells import find_cells
from phalanx.cuda.text.pressure import Pressure
from phalanx.ir.ops.wgmma import Wgmma
from phalanx.ir.types import I32, bf16, f32
from support.cuda_text import body, module_of, plan_of
from support.front import array


@px.kernel(warps=8)
def persistent(A, B, C, n, *, N):
    """Tiles of 64 x N, one after the other: each is masked and stored behind the loop of its products."""
    a, b, out = px.shared((64, 64), A.dtype), px.shared((64, N), B.dtype), px.shared((64, N), A.dtype)
    full, free = px.barrier(), px.barrier()
    with px.warps(0, 4, regs=24):
        phase = 0
        for _ in range(n):
            for k in range(A.shape[1] // 64):
                free.wait(phase ^ 1)
                with full.transaction():
                    px.tma.load(A[0:64, k * 64 : k * 64 + 64], a, full)
                    px.tma.load(B[0:64, 0:N], b, full)
                phase ^= 1
    with px.warps(4, 4, regs=168):
        phase = 0
        for i in range(n):
            acc = px.zeros((64, N), px.f32)
            for _ in range(A.shape[1] // 64):
                full.wait(phase)
                phase ^= 1
                px.wgmma(a, b, acc)
                px.wgmma_commit()
                px.wgmma_wait(0)
                free.arrive()
            seen = px.arange(N).reshape(1, N) < C.shape[1]
            px.store(out, px.where(seen, acc, 0.0).to(A.dtype))
            px.fence.async_proxy()
            px.tma.store(out, C[i * 64 : i * 64 + 64, 0:N])
            px.tma.commit()
            px.tma.wait(0)


TYPES = (array(2, dtype=bf16), array(2, dtype=bf16), array(2, dtype=bf16), I32)


@pytest.mark.share(2)
@pytest.mark.parametrize("columns, again", [(64, 0), (224, 2)])
def test_the_lane_is_read_again_where_tiles_fill_the_registers(columns: int, again: int) -> None:
    """The coordinates of the mask and the offsets of the store: else they are kept over the loop of the products."""
    module = module_of(persistent, TYPES, N=columns)
    assert body(module).count("ptx::lane_here()") == again
    resources = compile_cuda(module.source, "sm_90a").resources_of(module.entry)
    assert resources.spill_store_bytes == 0


@px.kernel(warps=4)
def alive(A, B, C, n):
    """A product from registers, under which its operand stays; a cell of halves; an accumulator that goes on in place."""
    b = px.shared((64, 64), B.dtype)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    p = px.load(A[0:64, 0:64])
    acc = px.zeros((64, 64), px.f32)
    for _ in range(n):
        px.wgmma(p, b, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
        p = acc.to(A.dtype)
    px.store(C[0:64, 0:64], acc)


def test_tiles_count_once_and_as_many_registers_as_their_bits_need() -> None:
    plan = plan_of(alive, (array(2, dtype=bf16), array(2, dtype=bf16), array(2, dtype=f32), I32))
    pressure = Pressure(plan.function.body, find_cells(plan.function.body, plan.layouts), plan.layouts)
    (product,) = (op for op in plan.function.walk() if isinstance(op, Wgmma))
    assert pressure.total(product) == 32 + 16
    assert pressure.peak(plan.function.body) == 32 + 16
