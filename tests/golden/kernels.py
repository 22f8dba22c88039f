"""Small kernels that, with the examples, cover the instructions: their IR and CUDA text are kept beside this file."""

from __future__ import annotations

import mutation.pipelined as pipelined_cases
import phalanx as px
import support.cluster_cases as cluster_cases
import support.cluster_reduction_cases as cluster_reduction_cases
import support.collective_cases as collective_cases
from examples.simple import module
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.kernels.attention.forms import TilesForm
from phalanx.kernels.attention.forward_tiles import attention_tiles
from support.plain_products import plain_matmul


@px.struct
class Span:
    """A half-open range of rows."""

    first: int
    last: int

    def clamp(self, size):
        if self.last > size:
            self.last = size


@px.func
def first_multiple(x, step):
    return px.cdiv(x, step) * step


@px.kernel(warps=4)
def histogram(X, H, *, BLOCK=256, BINS=64):
    """Atomics by an index tile."""
    i = px.block_id(0) * BLOCK
    x = px.load(X[i : i + BLOCK])
    px.atomic_add(H[x % BINS], px.full((BLOCK,), 1, px.i32))


@px.kernel(warps=2)
def find_first(X, R, n, *, BLOCK=64):
    """A while loop with a break, scalars, a device assertion and a print."""
    i = 0
    found = -1
    while i < n:
        hit = px.max(px.where(px.load(X[i : i + BLOCK]) > 0.5, 1, 0))
        if hit == 1:
            found = i
            break
        i += BLOCK
    px.device_assert(i <= first_multiple(n, BLOCK), "ran past the end")
    px.print("found in block", found)
    px.store(R[0], found)


@px.kernel(warps=4)
def gather_rows(X, I, Y, *, BM=32, BN=64):
    """Rows by an index tile, a struct with a mutating method."""
    span = Span(px.block_id(0) * BM, px.block_id(0) * BM + BM)
    span.clamp(Y.shape[0])
    rows = px.load(I[span.first : span.first + BM], fill=-1)
    for n in range(0, X.shape[1], BN):
        px.store(Y[span.first : span.first + BM, n : n + BN], px.load(X[rows, n : n + BN]))


@px.kernel(warps=4)
def scale_reduce(X, Y, alpha, *, BM=32, BN=128):
    """TMA load, arithmetic through registers, proxy fence, TMA reduction into global memory, prefetch."""
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.tma.prefetch(X[m : m + BM, n : n + BN])
    s = px.shared((BM, BN), X.dtype)
    ready = px.barrier()
    with ready.transaction():
        px.tma.load(X[m : m + BM, n : n + BN], s, ready, cache="evict_first")
    ready.wait(0)
    px.store(s, px.load(s) * alpha)
    px.fence.async_proxy()
    px.tma.reduce(s, Y[m : m + BM, n : n + BN], "add")
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=1)
def bulk_row(X, Y, *, N=4096):
    """A contiguous row of any length: plain bulk copies, no descriptor."""
    s = px.shared((N,), X.dtype)
    ready = px.barrier()
    row = px.block_id(0)
    ready.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[row, 0:N], s, ready)
    ready.wait(0)
    px.tma.store(s, Y[row, 0:N])
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=12)
def three_roles(X, Y, *, BM=64, BN=64):
    """Register reallocation, a barrier with a written count, a role barrier between warps."""
    s = px.shared((BM, BN), X.dtype)
    t = px.shared((BM, BN), X.dtype)
    full = px.barrier(2, count=1)
    m = px.block_id(0) * BM
    with px.warps(0, 4, regs=40):
        full[0].arrive_and_expect_tx(s.nbytes)
        px.tma.load(X[m : m + BM, 0:BN], s, full[0])
    with px.warps(4, 8, regs=232):
        full[0].wait(0)
        px.store(t, px.exp2(px.load(s)))
        px.store(Y[m : m + BM, 0:BN], px.load(t.T).T)


@px.kernel(warps=12)
def two_in_turn(A, B, C, *, BM=64, BN=64, BK=64, STEPS=4):
    """Two copies of a role that multiply in turn, fed by one warp whose idle neighbours give their registers away too."""
    a, b = px.shared((2, BM, BK), A.dtype), px.shared((2, BK, BN), B.dtype)
    full, free, turn = px.barrier(2), px.barrier(2), px.barrier(2)
    m = px.block_id(0) * 2 * BM
    with px.warps(0, 1, regs=24):
        for t in range(STEPS):
            for c in px.static_range(2):
                free[c].wait((t & 1) ^ 1)
                with full[c].transaction():
                    px.tma.load(A[m + c * BM : m + c * BM + BM, t * BK : t * BK + BK], a[c], full[c])
                    px.tma.load(B[t * BK : t * BK + BK, 0:BN], b[c], full[c])
    with px.warps(4, 4, copies=2, regs=240) as c:
        acc = px.zeros((BM, BN), px.f32)
        for t in range(STEPS):
            full[c].wait(t & 1)
            turn[c].wait((t & 1) ^ (1 if c == 0 else 0))
            acc = px.dot(a[c], b[c], acc)
            turn[(c + 1) % 2].arrive()
            free[c].arrive()
        acc = acc - px.sum(acc) / (BM * BN)
        px.store(C[m + c * BM : m + c * BM + BM, 0:BN], acc)


@px.kernel(warps=4, cluster=(2, 2))
def reduce_to_first(X, Y, *, N=128):
    """Every CTA of a 2 x 2 cluster adds its row into rank 0's shared memory; a split cluster barrier."""
    rank = px.cluster.rank()
    total = px.shared((N,), px.f32)
    if rank == 0:
        px.store(total, px.zeros((N,), px.f32))
    px.cluster.sync()
    px.atomic_add(total.at(0), px.load(X[px.cluster.id(0) * 2 + px.cluster.rank(0), 0:N]))
    px.cluster.arrive()
    px.cluster.wait()
    if rank == 0:
        px.store(Y[px.cluster.id(), 0:N], px.load(total))


@px.kernel(warps=4)
def mixed_types(X, Y, *, N=256):
    """Conversions between bf16, f32, fp8 and integers; argmax and running sums."""
    x = px.load(X[0:N]).to(px.f32)
    y = px.cumsum(px.tanh(x) * 2.0, axis=0)
    best = px.argmax(y.reshape((1, N)), axis=1)
    px.store(Y[0:N], (y + px.f32(px.max(best))).to(px.f8e4m3))


def spec(shape, dtype):
    return px.spec(shape, dtype)


CASES = {
    "attention_tiles": (
        attention_tiles[2],
        [spec((1, 2, 150, 16), px.bf16)] * 4
        + [spec((1, 2, 150), px.f32), *[None] * 6, 0.36, *[None] * 4, 0, 1, 2, *[None] * 5],
        {"config": AttentionConfig(2, 32, producer_regs=None, regs=None), "form": TilesForm(16, 16)},
    ),
    "plain_product": (
        plain_matmul[1, 2], [spec((100, 80), px.bf16), spec((100, 80), px.bf16), spec((100, 100), px.f32)],
        {"BM": 128, "WARPS": 8},
    ),
    "histogram": (histogram[4], [spec((1024,), px.i32), spec((64,), px.i32)], {}),
    "find_first": (find_first[1], [spec((1000,), px.f32), spec((1,), px.i32), 1000], {}),
    "gather_rows": (gather_rows[4], [spec((1000, 256), px.f16), spec((128,), px.i32), spec((128, 256), px.f16)], {}),
    "scale_reduce": (scale_reduce[2, 2], [spec((64, 256), px.f32), spec((64, 256), px.f32), 2.0], {}),
    "bulk_row": (bulk_row[8], [spec((8, 4096), px.bf16), spec((8, 4096), px.bf16)], {}),
    "three_roles": (three_roles[2], [spec((128, 64), px.f32), spec((128, 64), px.f32)], {}),
    "two_in_turn": (two_in_turn[2], [spec((256, 256), px.bf16), spec((256, 64), px.bf16), spec((256, 64), px.f32)], {}),
    "reduce_to_first": (reduce_to_first[4, 2], [spec((4, 128), px.f32), spec((2, 128), px.f32)], {}),
    "push_rows": (
        cluster_cases.parts[4], [spec((4, 48, 64), px.f32), spec((4, 48, 32), px.f32)], {"CLUSTER": (2, 1, 1)}
    ),
    "push_stores": (
        cluster_cases.transposed[4], [spec((4, 16, 32), px.f16), spec((4, 32, 16), px.f16)], {"CLUSTER": (2, 1, 1)}
    ),
    "cluster_softmax": (
        cluster_reduction_cases.softmax[4], [spec((4, 3, 256), px.f32), spec((4, 3, 256), px.f32)], {"CLUSTER": (4, 1, 1)}
    ),
    "two_way_multicast": (
        collective_cases.piped_2d[4, 2],
        [spec((32, 80), px.f32), spec((8, 16, 80), px.f32), spec((32, 80), px.f32)],
        {"CLUSTER": (2, 2, 1)},
    ),
    "mixed_types": (mixed_types[1], [spec((256,), px.bf16), spec((256,), px.f8e4m3)], {}),
    "pipelined_matmul": (module("matmul").matmul[px.auto], [spec((128, 128), px.bf16)] * 3, {"BN": 64}),
    "pipelined_groups": (
        module("grouped_matmul").grouped_matmul[px.auto],
        [spec((256, 128), px.bf16), spec((3, 128, 128), px.bf16), spec((4,), px.i32), spec((256, 128), px.bf16)],
        {"BN": 64},
    ),
    "pipelined_parts": (
        pipelined_cases.split[2], [spec((64, 128), px.bf16), spec((32, 128), px.bf16), spec((64, 32), px.f32)],
        {"HOW": "sync"},
    ),
    "pipelined_promotion": (
        module("block_scaled").block_scaled[px.auto],
        [
            spec((128, 512), px.f8e4m3), spec((4, 128), px.f32), spec((64, 512), px.f8e4m3), spec((1, 4), px.f32),
            spec((128, 64), px.bf16),
        ],
        {"BN": 64},
    ),
    "pipelined_operands": (
        pipelined_cases.computed[1],
        [
            spec((128, 128), px.bf16), spec((16, 128), px.bf16), spec((3, 128), px.f32), spec((3,), px.i32),
            spec((3, 128, 16), px.f32),
        ],
        {},
    ),
    "pipelined_attention": (
        module("attention").attention[px.auto], [spec((4, 256, 64), px.bf16)] * 4, {"D": 64, "ROWS": 64, "KEYS": 32},
    ),
}
