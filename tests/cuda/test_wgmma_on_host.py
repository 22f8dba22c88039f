"""The CUDA text of Hopper's products on the CPU: every type, major and place of the operands, and reads that come late."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from fuzz.host import HostCase, run_batch
from support.host_cuda import COMPILER, MISSING, module_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
BF16, F16, F32, E4M3, E5M2 = ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
I8, U8, I32 = np.int8, np.uint8, np.int32


@px.kernel(warps=lambda W: W)
def multiplies(A, B, C, *, M, N, K, W=4, TA=False, TB=False, REGISTERS=False, NEGATE=False):
    """C += A B^T or -= it; A is (M, K), or (K, M) with TA; B is (N, K), or (K, N) with TB."""
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    px.store(b, px.load(B[0 : K if TB else N, 0 : N if TB else K]))
    acc = px.load(C[0:M, 0:N])
    if REGISTERS:
        a = px.load(A[0:M, 0:K])
        px.fence.async_proxy()
        px.wgmma(a, b if TB else b.T, acc, negate=NEGATE)
    else:
        a = px.shared((K, M) if TA else (M, K), A.dtype)
        px.store(a, px.load(A[0 : K if TA else M, 0 : M if TA else K]))
        px.fence.async_proxy()
        px.wgmma(a.T if TA else a, b if TB else b.T, acc, negate=NEGATE)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


SHAPES: list[tuple[tuple[Any, Any, Any], dict[str, Any]]] = [
    *(((BF16, BF16, F32), {"TA": ta, "TB": tb}) for ta, tb in product((False, True), repeat=2)),
    ((F16, F16, F32), {"K": 32, "N": 24}),
    ((F16, F16, F16), {"N": 64, "TB": True}),
    ((F32, F32, F32), {"K": 16}),
    ((E4M3, E5M2, F32), {"NEGATE": True}),
    ((I8, U8, I32), {"N": 32}),
    ((BF16, BF16, F32), {"M": 128, "W": 8, "N": 128, "TA": True, "TB": True}),
    ((BF16, BF16, F32), {"REGISTERS": True, "TB": True}),
    ((E5M2, E4M3, F32), {"REGISTERS": True, "N": 8}),
    ((BF16, BF16, F32), {"K": 192, "N": 96}),
    ((F16, F16, F32), {"K": 96, "N": 192, "REGISTERS": True, "NEGATE": True}),
]


def arrays(types: tuple[Any, Any, Any], shape: dict[str, Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    m, n, k = shape["M"], shape["N"], shape["K"]
    sizes = ((k, m) if shape.get("TA") else (m, k), (k, n) if shape.get("TB") else (n, k), (m, n))
    return [rng.integers(0 if t == U8 else -3, 4, size).astype(t) for t, size in zip(types, sizes, strict=True)]


def test_every_type_and_major() -> None:
    """Small integers, whose sums are exact in every order."""
    cases, wanted = [], []
    for types, settings in SHAPES:
        shape = {"M": 64, "N": 16, "K": 64, **settings}
        for seed in (1, 2):  # reads at once, and when the group is waited for
            args = arrays(types, shape)
            cases.append(HostCase(module_for(multiplies, tuple(args), **shape), 1, args, seed))
            assert "wgmma_m64" in cases[-1].module.source
            steps = shape["K"] * args[1].itemsize // 32
            one_block = shape["M"] <= 16 * shape.get("W", 4)  # else blocks of rows take turns
            together = re.search(rf"_x{steps}(_fenced)?<", cases[-1].module.source) is not None
            assert together == (one_block and steps > 1)
            a, b, c = (x.astype(np.int64) for x in args)
            sums = (a.T if shape.get("TA") else a) @ (b if shape.get("TB") else b.T)
            wanted.append((c + (-sums if shape.get("NEGATE") else sums)).astype(types[2]))
    for case, result, want in zip(cases, run_batch(cases), wanted, strict=True):
        assert result.failure is None, f"{case.module.source.splitlines()[0]}\n{result.failure}"
        assert np.array_equal(result.args[2], want), case.module.source.splitlines()[0]


@px.kernel(warps=4)
def overwrites(A, B, C, *, WAIT, M=64, N=64, K=32):
    a, b = px.shared((M, K), A.dtype), px.shared((N, K), B.dtype)
    px.store(a, px.load(A[0:M, 0:K]))
    px.store(b, px.load(B[0:N, 0:K]))
    px.fence.async_proxy()
    acc = px.zeros((M, N), px.f32)
    px.wgmma(a, b.T, acc)
    px.wgmma_commit()
    if WAIT:
        px.wgmma_wait(0)
    px.store(b, px.full((N, K), 0, B.dtype))
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


def test_a_buffer_that_is_reused_too_early_shows() -> None:
    rights = {}
    for wait in (True, False):
        cases = []
        for seed in range(6):
            args = [np.ones((64, 32), BF16), np.ones((64, 32), BF16), np.zeros((64, 64), F32)]
            cases.append(HostCase(module_for(overwrites, tuple(args), WAIT=wait), 1, args, seed))
        rights[wait] = [result.failure is None and bool((result.args[2] == 32).all()) for result in run_batch(cases)]
    assert all(rights[True])
    assert not all(rights[False])


@px.kernel(warps=4)
def turns(A, B, C, *, STEPS=3):
    """An operand that each turn computes while the product of the turn before runs."""
    b, ready = px.shared((STEPS, 16, 32), px.bf16), px.barrier()
    with ready.transaction():
        for i in px.static_range(STEPS):
            px.tma.load(B[i, 0:16, 0:32], b[i], ready)
    ready.wait(0)
    acc = px.zeros((64, 16), px.f32)
    for i in range(STEPS):
        a = (px.load(A[0:64, i * 32 : i * 32 + 32]).to(px.f32) * 2.0).to(px.bf16)
        px.wgmma_wait(0)
        px.wgmma(a, b[i].T, acc)
        px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:64, 0:16], acc)


WAIT = "    ptx::wgmma_wait_group_0();\n"
"""In the loop."""


def rights_of_turns(planted: Callable[[str], str], *, sanitize: bool = False) -> list[bool]:
    """Whether a changed text is right, by seeds: with the second one it multiplies when it waits."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-3, 4, (64, 96)).astype(BF16), rng.integers(-3, 4, (3, 16, 32)).astype(BF16)
    want = 2 * a.astype(F32) @ b.astype(F32).transpose(0, 2, 1).reshape(96, 16)
    cases = []
    for seed in (1, 2):
        args = [a, b, np.zeros((64, 16), F32)]
        module = module_for(turns, tuple(args))
        cases.append(HostCase(dataclasses.replace(module, source=planted(module.source)), 1, args, seed))
    return [
        result.failure is None and np.array_equal(result.args[2], want) for result in run_batch(cases, sanitize=sanitize)
    ]


def test_registers_are_read_when_the_product_is_waited_for() -> None:
    def without_wait(source: str) -> str:
        assert WAIT in source
        return source.replace(WAIT, "\n", 1)

    def changed(source: str) -> str:
        """The text with a register of the operand changed right behind the product."""
        made, count = re.subn(r"(own, px_b[^;]*\);)", r"\1 own[1] ^= 0x8000;", source)
        assert count == 1
        return made

    assert rights_of_turns(lambda source: source) == [True, True]
    assert rights_of_turns(without_wait) == [True, False], "the next turn writes what the product reads"
    assert rights_of_turns(changed) == [True, False]


@pytest.mark.long
def test_registers_are_read_late_under_the_sanitizers(sanitizers: None) -> None:
    assert rights_of_turns(lambda source: source, sanitize=True) == [True, True]


@px.kernel(warps=4)
def computes_meanwhile(A, B, C, n):
    """Arithmetic while products are at work, and narrow tiles that a loop hands from one product to the next."""
    a, b = px.shared((64, 32), A.dtype), px.shared((32, 32), B.dtype)
    px.store(a, px.load(A[0:64, 0:32]))
    px.store(b, px.load(B[0:32, 0:32]))
    px.fence.async_proxy()
    p = px.dot(a, b).to(A.dtype)
    acc = px.zeros((64, 32), px.f32)
    sums = px.zeros((64,), px.f32)
    for _ in range(n):
        px.wgmma(p, b, acc)
        px.wgmma_commit()
        wide = p.to(px.f32) * 0.5
        sums = sums * 0.5 + px.sum(wide, axis=1)
        px.wgmma_wait(0)
        p = (wide + 1.0).to(A.dtype)
    px.store(C[0:64, 0:32], acc + sums.reshape(64, 1))


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", [BF16, F16])
def test_arithmetic_under_products(kind: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (rows, 32)).astype(kind) for rows in (64, 32))
    args = [a, b, np.zeros((64, 32), F32), 3]
    want = args[2].copy()
    computes_meanwhile[1](*args[:2], want, 3)
    module = module_for(computes_meanwhile, tuple(args))
    assert "ptx::finish(" in module.source
    (result,) = run_batch([HostCase(module, 1, args, 1)])
    assert result.failure is None
    np.testing.assert_array_equal(result.args[2], want)
