"""`px.dot` on targets with tensor memory: NumPy, the simulator for Hopper and for Blackwell, Blackwell's text on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from examples.cases import random_case
from fuzz.host import HostCase, run_batch
from support import tensor_product_kernels as kernels
from support.host_cuda import COMPILER, MISSING, module_for, run_on_host
from support.product_kernels import anywhere, by_rows, dots, narrow_results

BF16, F16, F32, E4M3, E5M2 = ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
I8, U8, I32 = np.int8, np.uint8, np.int32
TYPES: tuple[tuple[Any, Any, Any, Any], ...] = (
    (BF16, BF16, F32, px.f32), (F16, F16, F32, px.f32), (F16, F16, F16, px.f16), (F32, F32, F32, px.f32),
    (E4M3, E4M3, F32, px.f32), (E4M3, E5M2, F32, px.f32), (E5M2, E5M2, F16, px.f16),
    (I8, I8, I32, px.i32), (U8, I8, I32, px.i32), (U8, U8, I32, px.i32),
)  # fmt: skip
needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)


def whole(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Small whole numbers, whose sums are exact in every type."""
    return rng.integers(0 if dtype is U8 else -2, 3, shape).astype(dtype)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T


class Case:
    """A launch with what it should leave in its third argument."""

    def __init__(self, kernel: Any, args: list[Any], want: np.ndarray, grid: Any = 1, **constants: Any) -> None:
        self.kernel, self.args, self.want, self.grid, self.constants = kernel, args, want, grid, constants

    def copies(self) -> list[Any]:
        return [item.copy() if isinstance(item, np.ndarray) else item for item in self.args]

    def simulate(self, arch: str) -> None:
        args = self.copies()
        self.kernel[self.grid](*args, arch=arch, **self.constants)
        self.compare(args, f"{self.kernel.name} in the simulator, {arch}, {self.constants}")

    def compare(self, args: list[Any], where: str) -> None:
        np.testing.assert_array_equal(args[2].astype(np.float64), self.want.astype(np.float64), where)

    def host(self, seed: int = 1) -> HostCase:
        args = self.copies()
        return HostCase(module_for(self.kernel, tuple(args), arch="sm_100a", **self.constants), self.grid, args, seed)


def every_way(cases: list[Case]) -> None:
    for case in cases:
        case.simulate("sm_90a")
        case.simulate("sm_100a")
        report = px.check(case.kernel[case.grid], *case.copies(), arch="sm_100a", **case.constants)
        assert report.ok, report
    for case, result in zip(cases, run_batch([case.host() for case in cases]), strict=True):
        assert result.failure is None, f"{case.kernel.name} {case.constants}: {result.failure}"
        case.compare(result.args, f"{case.kernel.name} on the CPU, {case.constants}")


def random_loop(seed: int) -> Case:
    """A loop over K with random shapes, types and majors."""
    rng = np.random.default_rng(seed)
    left, right, sums, name = TYPES[int(rng.integers(len(TYPES)))]
    m = int(rng.choice([64, 128, 256]))
    warps = int(rng.choice([4, 8]))
    n = int(rng.integers(1, 9)) * (16 if sums is I32 else 8)
    k = int(rng.integers(1, 5)) * 32 // np.dtype(left).itemsize
    turned = np.dtype(left).itemsize == 2
    ta, tb = (bool(flag) for flag in rng.integers(0, 2, 2)) if turned else (False, False)
    steps = int(rng.choice([0, 1, 2, 3, 5]))
    depth = steps * k or 16 // np.dtype(left).itemsize  # without a step, too little for one
    a, b = whole(rng, (m, depth), left), whole(rng, (n, depth), right)
    want = product(a, b) if steps else np.zeros((m, n))
    args = [np.ascontiguousarray(a.T) if ta else a, np.ascontiguousarray(b.T) if tb else b, whole(rng, (m, n), sums)]
    return Case(kernels.loop, args, want, M=m, N=n, K=k, D=name, W=warps, TA=ta, TB=tb)


def flows(rng: np.random.Generator) -> list[Case]:
    """Every kernel of `tensor_product_kernels` but the loop."""
    a, b, c = whole(rng, (64, 192), BF16), whole(rng, (32, 192), BF16), whole(rng, (64, 32), F32)
    want = product(a, b)
    tiles = [product(a[:, k : k + 32], b[:, k : k + 32]) for k in range(0, 192, 32)]
    halved = np.zeros_like(want)
    for tile in tiles:
        halved = (halved + tile) / 2
    wide, long = whole(rng, (96, 192), BF16), whole(rng, (128, 160), BF16)
    many = whole(rng, (192, 160), BF16)
    noted = np.concatenate([want, np.full((1, 32), 7)])
    found = [
        Case(kernels.begun, [a, b, c], c + want), Case(kernels.halved, [a, b, c], halved),
        Case(kernels.twice, [a, b, c], c + 3 * want), Case(kernels.straight, [a, b, c], 4 * tiles[0]),
        Case(kernels.nested, [a, wide, np.zeros((64, 96), F32)], product(a, wide)),
        Case(kernels.published, [a, b, np.zeros((65, 32), F32)], noted),
    ]
    for limit, taken in ((0, ()), (3, (0, 2, 2)), (99, (0, 2, 2, 4))):
        found.append(Case(kernels.sometimes, [a, b, c, limit], sum((tiles[k] for k in taken), np.zeros_like(want))))
    for warps in (4, 8):
        result = np.zeros((128, 192), F32)
        found.append(Case(kernels.piped, [long, many, result], product(long, many), CONSUMERS=warps))
    zeros, start = np.zeros_like(want), c.astype(np.float64)
    found += [Case(kernels.leaves, [a, b, c, limit], start if limit < 6 else want) for limit in (0, 4, 99)]
    found += [Case(kernels.inlined, [a, b, c, limit], sum(tiles[:limit], zeros)) for limit in (0, 4, 99)]
    found += [Case(kernels.skipped, [a, b, c, limit], want if limit > 1 else zeros) for limit in (0, 1, 2)]
    rows = whole(rng, (128, 192), BF16)
    found.append(Case(kernels.both_rows, [rows, b, np.zeros((128, 32), F32)], product(rows, b), 2))
    both = product(rows, b)
    most = np.maximum(both[:64], both[64:]).max(axis=1, keepdims=True)
    found.append(Case(kernels.exchanged, [rows, b, np.zeros((128, 32), F32)], both + np.concatenate([most, most]), 2))
    found += [Case(kernels.by_turns, [a, b, c], want, STORED=stored) for stored in (False, True)]
    return found


def kernels_of_other_floors(rng: np.random.Generator) -> list[Case]:
    """The kernels with `px.dot` that other floors' tests use: some in tensor memory, some not, some half."""
    a, b, c = whole(rng, (64, 64), BF16), whole(rng, (64, 64), BF16), np.zeros((64, 64), F32)
    more = whole(rng, (128, 64), BF16)
    wide = whole(rng, (64, 32), BF16), whole(rng, (32, 32), BF16), np.zeros((64, 32), F32)
    return [
        Case(by_rows, [a, b, c], product(a, b) + product(b, b)),
        Case(anywhere, [more, b, c, 24], product(more[24:88], b)),
        Case(narrow_results, [*wide], product(*wide[:2])),
        *(
            Case(dots, [a, b, c], product(a, b), M=64, N=64, K=32, PRODUCERS=first, CONSUMERS=warps)
            for first, warps in ((1, 2), (4, 4), (4, 8), (1, 4))
        ),
    ]


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("made", [pytest.param(flows, marks=pytest.mark.long), kernels_of_other_floors])
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.long)])
def test_control_flow_around_products(made: Callable[[np.random.Generator], list[Case]], part: int) -> None:
    every_way(made(np.random.default_rng(3))[part::2])


@needs_compiler
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 14), marks=pytest.mark.long)], ids=str)
def test_random_loops(seeds: range) -> None:
    every_way([random_loop(seed) for seed in seeds])


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 340, 24))
def test_many_random_loops(first: int) -> None:
    every_way([random_loop(seed) for seed in range(first, first + 24)])


def test_the_loops_are_products_in_tensor_memory() -> None:
    """The random loops would prove little if they ran as something else."""
    for seed in range(14):
        case = random_loop(seed)
        made = module_for(case.kernel, tuple(case.args), arch="sm_100a", **case.constants)
        assert "tcgen05_mma" in made.source and "mma_sync" not in made.source, case.constants


OTHERS = ("sm_103a", "sm_110a")


@needs_compiler
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.long), 2])
def test_the_example_with_a_product(seed: int) -> None:
    """Split K: stages of a pipe that multicasts fill are given back by commits in several CTAs."""
    case = random_case("split_k", seed)
    kernel, grid = case.launch.kernel, case.launch.grid
    want = case.expected[2]
    for run in (lambda args: kernel[grid](*args, arch="sm_100a", **case.constants),
                lambda args: run_on_host(kernel, grid, *args, arch="sm_100a", **case.constants)):  # fmt: skip
        args = [item.copy() for item in case.args]
        run(args)
        np.testing.assert_allclose(args[2], want, rtol=1e-5, atol=1e-3)
    assert px.check(case.launch, *case.args, arch="sm_100a", **case.constants).ok
    made = px.compile(case.launch, *case.args, arch="sm_100a", **case.constants)
    assert made.spills == 0 and "tcgen05.mma" in made.ptx
    assert any("px.dot runs as tcgen05" in note and "waited for behind the loop" in note for note in made.notes)


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_100a", *(pytest.param(other, marks=pytest.mark.long) for other in OTHERS)])
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in (1, 2, 3))])
def test_compiles(arch: str, part: int) -> None:
    for case in flows(np.random.default_rng(0))[part::4]:
        made = px.compile(case.kernel[case.grid], *case.args, arch=arch, **case.constants)
        assert made.spills == 0 and "tcgen05.mma" in made.ptx
