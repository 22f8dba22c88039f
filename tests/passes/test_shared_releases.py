"""Stages that warps have read into registers: each warp gives them back when it is done, without a barrier of all."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.module import Module
from phalanx.ir.core import Function
from phalanx.ir.ops.control import For, Roles, Sync
from phalanx.ir.ops.mbarrier import Arrive, Form
from support.front import array, prepared
from support.host_build import COMPILER, MISSING, HostFailure
from support.host_cuda import launch, module_for


@px.kernel(warps=12)
def piped(X, Y, *, COUNT=8, ROWS=128, RELEASE=True, COPIES=1):
    """Tiles that a role of COUNT warps reads from a pipe into registers."""
    x, pipe, done = px.shared((2, ROWS, 32), X.dtype), px.pipe(2), px.barrier(1)
    with px.warps(0, 1):
        for k in range(0, X.shape[1], 32):
            with pipe.produce() as p:
                px.tma.load(X[0:ROWS, k : k + 32], x[p], pipe.full[p])
    with px.warps(4, COUNT, copies=COPIES):
        total = px.zeros((ROWS, 32), px.f32)
        for _ in range(0, X.shape[1], 32):
            stage = pipe.wait()
            total = total + px.load(x[stage])
            if not RELEASE:
                done.arrive()
            pipe.release()
        px.store(Y[0:ROWS, 0:32], total)


def releases(function: Function) -> list[tuple[Form, int]]:
    return [(op.form, op.factor) for op in function.walk() if isinstance(op, Arrive) and op.releases is not None]


def syncs(function: Function) -> int:
    """Barriers of threads in the loops of roles but the first."""
    (roles,) = (op for op in function.walk() if isinstance(op, Roles))
    loops = [op for role in roles.regions[1:] for op in role.body.walk() if isinstance(op, For)]
    return sum(isinstance(op, Sync) for loop in loops for op in loop.body.walk())


TYPES = (array(2), array(2))


def test_each_warp_of_several_warpgroups_gives_back_for_itself() -> None:
    function = prepared(piped, TYPES)
    assert releases(function) == [(Form.PER_WARP, 8)] and syncs(function) == 0


@pytest.mark.parametrize("count", [2, 4])
def test_warps_of_one_warpgroup_meet(count: int) -> None:
    function = prepared(piped, TYPES, COUNT=count)
    assert releases(function) == [(Form.ELECTED, 1)] and syncs(function) == 1


def test_copies_of_a_role_are_looked_at_each() -> None:
    assert releases(prepared(piped, TYPES, COUNT=4, COPIES=2)) == [(Form.ELECTED, 1)]


def test_an_arrive_that_gives_nothing_back_speaks_for_all() -> None:
    """It follows all that all warps did; behind the barrier which that takes, one thread gives back for all of them."""
    function = prepared(piped, TYPES, RELEASE=False)
    assert releases(function) == [(Form.ELECTED, 1)] and syncs(function) == 1


@px.kernel(warps=8, cluster=lambda CTAS: CTAS)
def promoted(A, S, B, C, *, BM=128, BN=32, BK=32, CTAS=1, PRODUCER=True):
    """Products that are scaled by row and step, and added up: two rings, one of which registers read."""
    m, acc = px.block_id(0) * BM, px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2, producer=PRODUCER):
        part = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T)
        acc = acc + part * px.load(S[k // BK, m : m + BM])[:, None]
    px.store(C[m : m + BM, 0:BN], acc)


def operands(rows: int, steps: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(rows + steps)
    a, b = (rng.integers(-2, 3, (n, 32 * steps)).astype(ml_dtypes.bfloat16) for n in (rows, 32))
    scales = rng.integers(-2, 3, (steps, rows)).astype(np.float32)
    want = np.einsum("msk,nsk,sm->mn", *(x.astype(np.float32).reshape(len(x), steps, 32) for x in (a, b)), scales)
    return [a, scales, b, np.zeros((rows, 32), np.float32)], want


def test_no_barrier_is_in_a_step_of_a_pipelined_loop() -> None:
    args, _ = operands(128, 4)
    made = px.compile(promoted[1], *args, arch="sm_90a")
    step = made.ir[made.ir.index("mbarrier.wait A_B_full") : made.ir.index("store C")]
    assert "sync  (" not in step and step.count('form="per_warp", factor=8') == 2 * 4, "two in a turn, one on either side"
    assert made.spills == 0
    loop = made.source[made.source.index("mbarrier_wait_parity(A_B_full") :]
    assert "__syncwarp();  // all lanes of this warp are done with the stage" in loop and "if (px_warp_one) {" in loop


@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize("ctas", [1, 2])
def test_pipelined_and_plain_are_the_same(ctas: int, producer: bool) -> None:
    args, want = operands(128 * ctas, 5)
    for pipelined in (False, True):
        given = [x.copy() for x in args]
        promoted[ctas](*given, CTAS=ctas, PRODUCER=producer, pipelined=pipelined)
        np.testing.assert_array_equal(given[3], want)
    report = px.check(promoted[ctas], *args, CTAS=ctas, PRODUCER=producer)
    assert report.ok, str(report)


def fails(module: Module, grid: int, args: list[np.ndarray], want: np.ndarray, seed: int) -> bool:
    given = [x.copy() for x in args]
    try:
        launch(module, grid, given, seed)
    except HostFailure:
        return True
    return not np.array_equal(given[3], want)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(2)
@pytest.mark.parametrize("ctas", [1, 2])
def test_a_count_of_fewer_warps_is_wrong_on_the_host(ctas: int) -> None:
    """The text is right under every seed; one that waits for all warps but one is not under some."""
    args, want = operands(128 * ctas, 20)
    module = module_for(promoted, args, CTAS=ctas)
    line = f"mbarrier_init_shared_cta(S_empty + 8 * px_i, {8})"
    assert module.source.count(line) == 1
    planted = dataclasses.replace(module, source=module.source.replace(line, line.replace(", 8)", ", 7)")))
    assert not any(fails(module, ctas, args, want, seed) for seed in (1, 2))
    assert any(fails(planted, ctas, args, want, seed) for seed in range(1, 4))


@px.kernel(warps=8)
def several_tiles(A, B, C, *, BM=128, BN=32, BK=32):
    """What all warps store at the end of a tile is over, at a barrier, before the next one's loop begins."""
    for t in px.persistent(px.cdiv(A.shape[0], BM)):
        m, acc = t * BM, px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
        px.store(C[px.where(m + px.arange(BM) < 200, m + px.arange(BM), -1), 0:BN], acc)


def test_steps_that_products_alone_read_are_given_back_by_warpgroups() -> None:
    args, _ = operands(256, 4)
    made = px.compile(several_tiles[1], args[0], args[2], args[3], arch="sm_90a")
    assert 'form="per_warp"' not in made.ir and made.ir.count('form="per_warpgroup", factor=2') == 2
    step = made.ir[made.ir.index("mbarrier.wait A_B_full") : made.ir.index("store C")]
    assert "sync  (" not in step
