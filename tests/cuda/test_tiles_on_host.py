"""The CUDA text of tile kernels, run on the CPU thread by thread: the same results as the simulator's."""

from __future__ import annotations

import numpy as np
import pytest

import host_mma  # noqa: F401  ldmatrix on the CPU
import phalanx as px
import tile_edge_cases
from host_cuda import COMPILER, HostFailure, build, module_for, run_on_host
from tile_cases import CASES, Case, every_nth, mismatch, simulated

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this machine")

QUICK = every_nth(12, wholly=("gather", "roles", "branch", "loop"))
QUICK += [f"nan-{fn}-2x512-axis1" for fn in ("max", "min", "argmax")] + ["nan-binary-max-float32", "nan-max-float64"]
QUICK += [name for name in tile_edge_cases.QUICK if name not in QUICK]
REST = [name for name in CASES if name not in QUICK]


def check(case: Case, seed: int) -> None:
    want = simulated(case)
    got = case.args(np.random.default_rng(0))
    run_on_host(case.kernel, case.grid, *got, seed=seed, **case.constants)
    wrong = mismatch(case, got, want)
    assert wrong is None, wrong


@pytest.mark.parametrize("name", QUICK)
def test_equals_the_simulator(name: str) -> None:
    check(CASES[name], 1)


@pytest.mark.long
@pytest.mark.parametrize("name", REST)
def test_equals_the_simulator_everywhere(name: str) -> None:
    check(CASES[name], 2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 8))
@pytest.mark.parametrize(
    "name", ["roles", "reduce-sum-64x64-axis0-w4", "cumsum-1x1024-axis1-w4", "transpose-64x64-float32", "scalars-1000"]
)
def test_any_order_of_threads(name: str, seed: int) -> None:
    check(CASES[name], seed)


@px.kernel(warps=4)
def crosses_warps(X, Y, *, N=256):
    x = px.load(X[0:N])
    px.store(Y[0], px.sum(x, 0))
    px.store(Y[1], px.max(x, 0))


def test_a_missing_barrier_shows() -> None:
    """The harness is able to see what it is there for: without barriers the threads read what is not there yet."""
    args = (np.arange(256, dtype=np.float32), np.zeros(2, np.float32))
    module = module_for(crosses_warps, args)
    assert module.source.count("__syncthreads();") == 3
    broken = type(module)(**{**module.__dict__, "source": module.source.replace("__syncthreads();", ";")})
    assert build(broken) is not build(module)
    import host_cuda

    outputs = []
    for seed in range(4):
        got = [args[0].copy(), np.zeros(2, np.float32)]
        host_cuda.launch(broken, 1, got, seed)
        outputs.append(tuple(got[1]))
    assert any(output != (32640.0, 255.0) for output in outputs)


@px.kernel(warps=1)
def has_a_copy(X, *, N=64):
    s = px.shared((N,), px.f32)
    bar = px.barrier()
    bar.arrive_and_expect_tx(N * 4)
    px.tma.load(X[0:N], s, bar)
    bar.wait(0)


def test_what_the_cpu_can_not_do_is_said() -> None:
    with pytest.raises(HostFailure, match="no host version"):
        run_on_host(has_a_copy, 1, np.zeros(64, np.float32))
