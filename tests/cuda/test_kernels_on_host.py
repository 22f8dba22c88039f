"""The CUDA text of whole kernels on the CPU: examples, the GEMM ladder, the library, the golden ones.

Each must leave what the simulator leaves; under the compilers' sanitizers none may read or write beyond an array, the shared
memory or a local array, overflow an integer, shift too far or touch memory at an address that is not aligned.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fuzz.host import HostCase, run_batch
from golden.kernels import CASES as GOLDEN
from mutation.cases import CASES as LAUNCHES
from mutation.launches import Case
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import USUAL
from support.host_cuda import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
needs_sanitizers = pytest.mark.usefixtures("sanitizers")
BATCH = 8


def filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 60, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def golden(name: str) -> Callable[[], Case]:
    def make() -> Case:
        rng = np.random.default_rng(0)
        launch, specs, constants = GOLDEN[name]
        args = [
            filled(rng, spec.shape, spec.dtype.numpy) if hasattr(spec, "shape") else spec for spec in specs
        ]
        return Case(name, launch, args, constants)

    return make


OF_HALF_HEIGHT = ("blackwell_v5", "blackwell_v6", "blackwell_v6, pairs above each other")
"""Pairs with 64 rows in each CTA, small for the mutants' sake: half of the columns lie in other lanes, so that four warps
can't load a part of them, which compiling says. The rungs run as text in tests of their own, as they are."""
TOO_NARROW = ("sparse_latent, pair",)
"""Keys of 32 columns, small for the mutants' sake: a multicast of rows by index takes 64, which compiling says. Those that
the library launches are compiled in tests/kernels/test_sparse_attention.py; their text has not run on the CPU."""
ALL: dict[str, Callable[[], Case]] = {
    **{name: made for name, made in LAUNCHES.items() if name not in (*OF_HALF_HEIGHT, *TOO_NARROW)},
    **{f"golden {name}": golden(name) for name in GOLDEN},
}
QUICK = ["tma_copy", "cluster_exchange", "gemm_v2", "split_ring", "golden three_roles", "golden find_first"]
TOLERANCE = {np.dtype(ml_dtypes.bfloat16): 2**-6, np.dtype(np.float16): 2**-9, np.dtype(ml_dtypes.float8_e4m3fn): 2**-3}


def text_of(case: Case) -> Module:
    """The text for the first of the usual targets that has all of the kernel's instructions."""
    targets = [op.effects().target for op in case.function.walk()]
    arch = next(arch for arch in USUAL if all(target.supports(arch) for target in targets))
    return generate(lower(case.function, arch))


@cache
def made(name: str) -> tuple[Case, Module]:
    case = ALL[name]()
    return case, text_of(case)


def wrong(name: str, got: list[Any]) -> str | None:
    """Where arrays differ from what the simulator leaves."""
    case = ALL[name]()
    case.bound(*case.args, **case.constants)
    for n, (one, other) in enumerate(zip(got, case.values)):  # behind these are counters, where there are some
        if not isinstance(other, np.ndarray):
            continue
        if other.dtype.kind in "iub":
            if not np.array_equal(one, other):
                return f"argument {n} differs in {int((one != other).sum())} elements"
            continue
        a, b = one.astype(np.float64), other.astype(np.float64)
        near = np.isclose(a, b, rtol=TOLERANCE.get(other.dtype, 1e-4), atol=1e-3 * max(1.0, np.abs(b).max()), equal_nan=True)
        if not near.all():
            return f"argument {n} differs in {int((~near).sum())} elements, first {a[~near][0]} for {b[~near][0]}"
    return None


def check(names: list[str], seed: int, sanitize: bool) -> None:
    cases = []
    for name in names:
        _, module = made(name)
        case = ALL[name]()
        counters = [np.zeros(module.signature.counters, np.int32)] if module.signature.counters else []
        cases.append(HostCase(module, case.grid, [*case.values, *counters], seed))
    failures = {}
    for name, result in zip(names, run_batch(cases, sanitize=sanitize), strict=True):
        failures[name] = result.failure or wrong(name, result.args)
    assert not any(failures.values()), {name: why for name, why in failures.items() if why}


def batches(names: list[str]) -> list[list[str]]:
    return [names[n : n + BATCH] for n in range(0, len(names), BATCH)]


def test_some_leave_what_the_simulator_leaves() -> None:
    check(QUICK, 1, sanitize=False)


@needs_sanitizers
def test_some_are_clean_under_sanitizers() -> None:
    check(["tma_copy", "cluster_exchange"], 2, sanitize=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize("names", batches(list(ALL)), ids=lambda names: names[0])
def test_all_leave_what_the_simulator_leaves(names: list[str], seed: int) -> None:
    check(names, seed, sanitize=False)


@pytest.mark.long
@needs_sanitizers
@pytest.mark.parametrize("names", batches(list(ALL)), ids=lambda names: names[0])
def test_all_are_clean_under_sanitizers(names: list[str]) -> None:
    check(names, 3, sanitize=True)
