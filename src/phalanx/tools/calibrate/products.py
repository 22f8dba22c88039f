"""Probes of the tensor cores: products back to back, one by one, out of shared memory and registers, and by warps."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.tools.calibrate.probe import Makes, Probe, every


@px.kernel(warps=lambda WARPS: WARPS)
def products(A, Y, n, *, M=128, N=256, K=64, WARPS=8, PENDING=1):
    """Products of operands in shared memory, all but the last `PENDING` of which are waited for."""
    a, b, full = px.shared((M, K), A.dtype), px.shared((N, K), A.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:M, 0:K], a, full)
        px.tma.load(A[0:N, 0:K], b, full)
    full.wait(0)
    acc = px.zeros((M, N), px.f32)
    for _ in range(n):
        px.wgmma(a, b.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(PENDING)
    px.wgmma_wait(0)
    m = px.block_id(0) * M
    px.store(Y[m : m + M, 0:N], acc)


@px.kernel(warps=4)
def out_of_registers(A, Y, n, *, M=64, N=64, K=16):
    """Products with one operand in registers, each of which is waited for."""
    b, full = px.shared((N, K), A.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:N, 0:K], b, full)
    full.wait(0)
    a = px.load(A[0:M, 0:K])
    acc = px.zeros((M, N), px.f32)
    for _ in range(n):
        px.wgmma(a, b.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
    px.store(Y[0:M, 0:N], acc)


@px.kernel(warps=8)
def by_warps(A, Y, n, *, M=64, N=64, K=32):
    """Products of warps (`mma.sync`) by four roles of two warps each, whose operands stay in registers."""
    with px.warps(0, 2, copies=4) as c:
        a, b = px.load(A[0:M, 0:K]), px.load(A[0:N, 0:K])
        acc = px.zeros((M, N), px.f32)
        for _ in range(n):
            acc = px.dot(a, b.T, acc)
        px.store(Y[c * M : c * M + M, 0:N], acc)


def operands(make: Makes, steps: int) -> tuple[Any, ...]:
    """An operand of both sides, and room for a result that nobody reads."""
    return make.numbers((256, 256), px.bf16), make.zeros((max(256, make.sms * 128), 256), px.f32)


AT_WORK = Probe(
    "clock", "128 x 256 x 64 in bf16 on every SM", products, operands, (200, 1200), (8, 24), grid=every, at_work=True
)
"""It takes as much longer than on one SM as power lowers the clock."""

PROBES = (
    Probe("tensor_rate", "128 x 256 x 64 in bf16 on one SM", products, operands, (200, 1200), (8, 24)),
    Probe("shared_rate", "128 x 8 x 256 in bf16", products, operands, (500, 4500), (8, 24),
          constants=(("M", 128), ("N", 8), ("K", 256))),
    Probe("tensor_share_mma", "64 x 64 x 32 in bf16 by four pairs of warps", by_warps, operands, (500, 4500), (8, 24)),
    Probe("tensor_drain", "64 x 64 x 16, waited for", products, operands, (500, 4500), (8, 24),
          constants=(("M", 64), ("N", 64), ("K", 16), ("WARPS", 4), ("PENDING", 0))),
    Probe("tensor_drain_registers", "the same with an operand in registers", out_of_registers, operands, (500, 4500),
          (8, 24)),
)  # fmt: skip
