"""Stamps of the CUDA text, run on the CPU: the simulator says which stamps each agent writes, and results stay the same."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from benchmarks import EXAMPLES
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.tools.user_files import declared
from support.host_cuda import COMPILER, MISSING
from support.stamped_runs import stamped_text, stamps_of_model, stamps_of_text, written

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
BF16 = ml_dtypes.bfloat16


@px.kernel(warps=2)
def ring_copy(X, Y, *, STAGES=2, STEPS=6):
    tile, full, empty, at = px.shared((STAGES, 8, 32), X.dtype), px.barrier(STAGES), px.barrier(STAGES), px.ring(STAGES)
    with px.warps(0, 1):
        for t in range(STEPS):
            empty[at.stage].wait(at.parity ^ 1)
            with full[at.stage].transaction():
                px.tma.load(X[t * 8 : t * 8 + 8, 0:32], tile[at.stage], full[at.stage])
            at.advance()
    with px.warps(1, 1):
        for t in range(STEPS):
            full[at.stage].wait(at.parity)
            px.store(Y[t * 8 : t * 8 + 8, 0:32], px.load(tile[at.stage]))
            empty[at.stage].arrive()
            at.advance()


@px.kernel(warps=12, cluster=2)
def shared_product(A, B, C, *, BM=64, BN=64, BK=64, STAGES=2):
    """A ring over a cluster of two: each CTA brings half of B to both; two roles multiply; results leave by copies."""
    rank, half = px.cluster.rank(), BN // 2
    a, b = px.shared((STAGES, BM, BK), A.dtype), px.shared((STAGES, BN, BK), B.dtype)
    out = px.shared((BM, BN), C.dtype)
    full, empty, at = px.barrier(STAGES), px.barrier(STAGES), px.ring(STAGES)
    steps, m = A.shape[1] // BK, px.block_id(0) * BM
    with px.warps(0, 4, regs=40):
        for k in range(steps):
            s = at.stage
            empty[s].wait(at.parity ^ 1)
            with full[s].transaction():
                px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a[s], full[s])
                mine = b[s][rank * half : rank * half + half]
                px.tma.load(B[rank * half : rank * half + half, k * BK : k * BK + BK], mine, full[s], multicast=0b11)
            at.advance()
    with px.warps(4, 4, regs=232, copies=2) as c:
        acc = px.zeros((BM, BN // 2), px.f32)
        for _ in range(steps):
            s = at.stage
            full[s].wait(at.parity)
            px.wgmma(a[s], b[s][c * half : c * half + half].T, acc)
            px.wgmma_commit()
            px.wgmma_wait(0)
            empty[s].arrive(ctas=0b11)
            at.advance()
        px.store(out[:, c * half : c * half + half], acc.to(C.dtype))
        px.fence.async_proxy()
        px.tma.store(out[:, c * half : c * half + half], C[m : m + BM, c * half : c * half + half])
        px.tma.commit()
        px.tma.wait(0)


@px.kernel(warps=4)
def by_threads(X, Y, *, STEPS=5):
    """Without roles: the loop's own copies, two steps ahead, and barriers of threads."""
    rows = px.zeros((16,), px.f32)
    for t in px.pipelined(range(STEPS), stages=2):
        rows += px.sum(px.load(X[t * 16 : t * 16 + 16, 0:64]), axis=1)
    px.store(Y[0:16], rows)


def noise(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


CASES = {
    "ring": (ring_copy, 1, [noise(48, 32), np.zeros((48, 32), np.float32)]),
    "cluster": (shared_product, 4, [noise(256, 192, dtype=BF16), noise(64, 192, dtype=BF16), np.zeros((256, 64), BF16)]),
    "pipelined": (by_threads, 1, [noise(80, 64), np.zeros(16, np.float32)]),
}


@pytest.mark.parametrize("name", CASES)
def test_agents_write_the_stamps_that_the_simulator_says(name: str) -> None:
    kernel, grid, given = CASES[name]
    args = [value.copy() for value in given]
    function, module = stamped_text(kernel, args)
    run = stamps_of_text(module, grid, args)
    expected = [value.copy() for value in given]
    kernel[grid](*expected)
    assert all(np.allclose(np.float32(got), np.float32(want)) for got, want in zip(args, expected, strict=True))
    _, told = stamps_of_model(function, grid, [value.copy() for value in given])
    found = {agent: [each.told for each in stamps] for agent, stamps in written(run).items()}
    assert found == {
        agent: [(each.op.mnemonic, each.op.loc.line, each.index, each.more) for each in stamps]
        for agent, stamps in told.items()
    }
    assert all(each.start <= each.end for stamps in written(run).values() for each in stamps)


def test_only_sampled_clusters_write() -> None:
    kernel, grid, given = CASES["cluster"]
    args = [value.copy() for value in given]
    _, module = stamped_text(kernel, args, sample=1)
    run = stamps_of_text(module, grid, args, sample=1)
    assert {agent[:2] for agent in written(run)} == {(0, 0), (0, 1)}
    assert len(run.words) < 3 * (16 + 12 * 2 * 8193)


FILES = {
    "pipe_copy.py": "sm_90a", "multicast_copy.py": "sm_90a", "blackwell/v1.py": "sm_100a", "blackwell/v5.py": "sm_100a",
    **{f"gemm/v{rung}.py": "sm_90a" for rung in (2, 4, 6)}, "attention/v4.py": "sm_90a", "split_k.py": "sm_90a",
    "simple/convolution.py": "sm_90a", "simple/grouped_matmul.py": "sm_90a", "simple/delta_rule.py": "sm_90a",
}  # fmt: skip


@pytest.mark.share(6)
@pytest.mark.parametrize("file", FILES)
def test_examples_write_them_too(file: str) -> None:
    """Commits, engines that arrive, copies of rows, loops that pipeline themselves, tiles dealt to clusters."""
    for launch in declared(str(EXAMPLES / file)):
        args = [value for value in launch.bound.kernel.spread(launch.args) if value is not None]
        function, module = stamped_text(launch.bound.kernel, args, arch=FILES[file], **launch.constants)
        grid = 4 * function.cluster_size if leaves_grid(launch.bound.grid) else launch.bound.grid
        run = stamps_of_text(module, grid, [copied(value) for value in args])
        owned = [np.zeros(function.counters, np.int32)] if function.counters else []
        _, told = stamps_of_model(function, grid, [*map(copied, args), *owned])
        expected = {
            agent: [(each.op.mnemonic, each.op.loc.line, each.index, each.more) for each in stamps]
            for agent, stamps in told.items()
        }
        assert {agent: [each.told for each in stamps] for agent, stamps in written(run).items()} == expected


def copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
