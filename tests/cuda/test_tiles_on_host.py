"""The CUDA text of tile kernels, run on the CPU thread by thread: the same results as the simulator's."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
import support.memory_cases  # noqa: F401  more of CASES
import support.tile_edge_cases as tile_edge_cases
from fuzz.host import HostCase, run_batch
from support.host_cuda import COMPILER, MISSING, HostFailure, launch, module_for
from support.tile_cases import CASES, every_nth, mismatch, simulated

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

QUICK = [*every_nth(12, wholly=("gather", "roles", "branch", "loop", "swap")), "update-i64", "look-f64", "slide-bf16"]
QUICK += [f"nan-{fn}-2x512-axis1" for fn in ("max", "min", "argmax")] + ["nan-binary-max-float32", "nan-max-float64"]
QUICK += [name for name in tile_edge_cases.QUICK if name not in QUICK]
QUICK += ["affine-7x130-axis1-w3", "affine-100x9-axis0-w4", "fold-1x1000-w8", "topk-nan-float32", "fma-bfloat16"]
QUICK += ["skipped-33x17-bfloat16", "skipped-64x64-float32", "arithmetic-16x64-bfloat16", "arithmetic-33x17-float16"]
REST = [name for name in CASES if name not in QUICK]


BATCH = 32
"""Kernels of one translation unit: compiling them together takes a tenth of the time."""


def batches(names: list[str]) -> list[list[str]]:
    return [names[n : n + BATCH] for n in range(0, len(names), BATCH)]


def check(names: list[str], seed: int, sanitize: bool = False) -> None:
    cases = []
    for name in names:
        case = CASES[name]
        args = case.args(np.random.default_rng(0))
        cases.append(HostCase(module_for(case.kernel, tuple(args), **case.constants), case.grid, args, seed))
    wrong = {}
    for name, result in zip(names, run_batch(cases, sanitize=sanitize), strict=True):
        wrong[name] = result.failure or mismatch(CASES[name], result.args, simulated(CASES[name]))
    assert not any(wrong.values()), {name: why for name, why in wrong.items() if why}


@pytest.mark.share(8)
@pytest.mark.parametrize("names", batches(QUICK), ids=lambda names: names[0])
def test_equal_the_simulator(names: list[str]) -> None:
    check(names, 1)


@pytest.mark.long
@pytest.mark.parametrize("names", batches(REST), ids=lambda names: names[0])
def test_equal_the_simulator_everywhere(names: list[str]) -> None:
    check(names, 2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 8))
def test_any_order_of_threads(seed: int) -> None:
    names = ["roles", "reduce-sum-64x64-axis0-w4", "cumsum-1x1024-axis1-w4", "transpose-64x64-float32", "scalars-1000"]
    check([*names, "affine-3x1000-axis1-w16", "affine-24x40-axis0-w6", "topk-16-of-1x1000-axis1-w8"], seed)


SANITIZED = [
    "unary-exp-float32", "reduce-sum-uint8", "transpose-64x64-float32", "roles", "packed-bool-16x64", "shifted-int32",
    "filled-int16-21", "anywhere-int64-30", "moved-bools", "shared-bools", "scan-max-bool", "topk-bool",
]


@pytest.mark.usefixtures("sanitizers")
def test_some_are_clean_under_sanitizers() -> None:
    check(SANITIZED, 1, sanitize=True)


@pytest.mark.long
@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("names", batches(list(CASES)), ids=lambda names: names[0])
def test_all_are_clean_under_sanitizers(names: list[str]) -> None:
    check(names, 2, sanitize=True)


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
    outputs = []
    for seed in range(4):
        got = [args[0].copy(), np.zeros(2, np.float32)]
        launch(broken, 1, got, seed)
        outputs.append(tuple(got[1]))
    assert any(output != (32640.0, 255.0) for output in outputs)


def test_what_the_cpu_can_not_do_is_said() -> None:
    args = (np.arange(256, dtype=np.float32), np.zeros(2, np.float32))
    module = module_for(crosses_warps, args)
    unknown = 'namespace ptx {\n\n__device__ void shifts_time(int x) {\n  asm("shift.time %0;" :: "r"(x));\n}'
    strange = type(module)(**{**module.__dict__, "source": module.source.replace("namespace ptx {", unknown)})
    with pytest.raises(HostFailure, match="no host version of shifts_time"):
        launch(strange, 1, list(args), 1)
