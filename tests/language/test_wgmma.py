"""What px.wgmma refuses, where, and what it says to do instead; which variables a wait covers."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import bf16, f8e4m3, f16, f32
from support.front import array, prepared


@px.kernel(warps=lambda WARPS: WARPS)
def product(A, B, *, WARPS=4, M=64, N=64, K=64, AM=(64, 64), BN=(64, 64), TA=False, TB=True, ACC=px.f32, ROWS=0, ALONG="m"):
    a = px.shared(AM, A.dtype)
    b = px.shared(BN, B.dtype)
    acc = px.zeros((M + ROWS, N), ACC)
    px.wgmma(a.T if TA else a, b.T if TB else b, acc, along=ALONG)


@pytest.mark.parametrize(
    "dtypes, constants, message, remedy",
    [
        ((bf16, f16), {}, "do not multiply bf16 by f16", "both bf16"),
        ((bf16, bf16), {"ACC": px.f16}, "acc is f16[64, 64], the product is f32[64, 64]", "shape and type"),
        ((f16, f16), {"ACC": px.bf16}, "acc is bf16[64, 64], the product is f32[64, 64] or f16[64, 64]", "shape and type"),
        ((f32, f32), {"ACC": px.f16}, "acc is f16[64, 64], the product is f32[64, 64]", "shape and type"),
        ((bf16, bf16), {"ALONG": "k"}, 'along= of px.wgmma is "m" or "n"', "rows of the tile, or its columns"),
        ((bf16, bf16), {"WARPS": 8, "ALONG": "n", "N": 48, "BN": (48, 64)}, "N = 48 columns", "a power of two"),
        ((bf16, bf16), {"WARPS": 12, "ALONG": "n"}, "N = 64 columns over 3 warpgroups", "power of two"),
        ((bf16, bf16), {"WARPS": 8, "ALONG": "n", "N": 1024, "BN": (1024, 64)}, "N = 1024", "for each warpgroup"),
        ((bf16, bf16), {"WARPS": 8, "ALONG": "n", "M": 32, "AM": (32, 64)}, "M = 32 rows", "multiple of 64"),
        ((bf16, bf16), {"ROWS": 64}, "acc is f32[128, 64]", "shape and type"),
        ((bf16, bf16), {"WARPS": 6}, "whole warpgroups", "multiple of 4 warps"),
        ((bf16, bf16), {"WARPS": 8}, "M = 64 rows over 2 warpgroups", "multiple of 128"),
        ((bf16, bf16), {"M": 32, "AM": (32, 64)}, "M = 32 rows over 1 warpgroup", "multiple of 64"),
        ((bf16, bf16), {"N": 20, "BN": (20, 64)}, "N = 20", "multiple of 8 from 8 to 256"),
        ((bf16, bf16), {"N": 512, "BN": (512, 64)}, "N = 512", "several accumulators"),
        ((bf16, bf16), {"K": 24, "AM": (64, 24), "BN": (64, 24)}, "K = 24", "multiple of 16"),
        ((f8e4m3, f8e4m3), {"K": 48, "AM": (64, 48), "BN": (64, 48)}, "K = 48", "multiple of 32"),
        ((bf16, bf16), {"BN": (128, 32), "TB": False, "N": 32}, "a has K = 64, b has K = 128", "(M, K) and (K, N)"),
        ((f8e4m3, f8e4m3), {"TB": False}, "b is contiguous along N", "write b.T"),
        ((f32, f32), {"TA": True}, "a is contiguous along M", "contiguous along K"),
    ],
)
def test_refused(dtypes, constants, message: str, remedy: str) -> None:
    with pytest.raises(px.Error) as caught:
        prepared(product, tuple(array(2, dtype) for dtype in dtypes), **constants)
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert "px.wgmma(" in caught.value.location.text


def refusal(kernel, *dtypes) -> px.Error:
    with pytest.raises(px.Error) as caught:
        prepared(kernel, tuple(array(2, dtype) for dtype in dtypes))
    return caught.value


def test_the_accumulator_is_a_variable() -> None:
    @px.kernel
    def nameless(A, B):
        a = px.shared((64, 64), A.dtype)
        px.wgmma(a, a.T, px.zeros((64, 64), px.f32))

    error = refusal(nameless, bf16, bf16)
    assert "must be a variable" in error.message and "acc = " in error.remedy


def test_a_role_begins_at_a_warpgroup() -> None:
    @px.kernel(warps=8)
    def shifted(A, B):
        a = px.shared((64, 64), A.dtype)
        with px.warps(2, 4):
            acc = px.zeros((64, 64), px.f32)
            px.wgmma(a, a.T, acc)

    assert "4 warps from warp 2" in refusal(shifted, bf16, bf16).message


def test_b_comes_from_shared_memory() -> None:
    @px.kernel
    def registers(A, B):
        a = px.shared((64, 64), A.dtype)
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(a, px.load(B[0:64, 0:64]), acc)

    assert "px.shared" in refusal(registers, bf16, bf16).remedy


def test_a_global_view_is_no_operand() -> None:
    @px.kernel
    def direct(A, B):
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(A[0:64, 0:64], B[0:64, 0:64], acc)

    assert "px.tma.load" in refusal(direct, bf16, bf16).remedy


def test_groups_are_counted_by_constants() -> None:
    @px.kernel
    def waits(A, B):
        px.wgmma_wait(8)

    assert "0 to 7" in refusal(waits, bf16, bf16).message


def test_parts_of_tiles_have_constant_bounds_inside_the_tile() -> None:
    @px.kernel
    def outside(A, B):
        px.store(B[0:8, 0:8], px.load(A[0:8, 0:8])[:, 4:12])

    assert "outside axis 1" in refusal(outside, bf16, bf16).message

    @px.kernel
    def element(A, B):
        px.store(B[0, 0:8], px.load(A[0:8, 0:8])[0])

    assert "slices" in refusal(element, bf16, bf16).remedy


@px.func
def begin(a, b, acc):
    px.wgmma(a, b, acc)
    px.wgmma_commit()
    return acc


@px.func
def begin_unless(a, b, acc, skipped):
    if skipped:
        return acc
    return begin(a, b, acc)


@px.func
def begin_halves(a, b, x, y):
    px.wgmma(a, b[0:32].T, x)
    px.wgmma(a, b[32:64].T, y)
    px.wgmma_commit()
    return x, y


@px.kernel(warps=4)
def by_functions(A, B, C, n, *, FORM):
    """Accumulators that functions are given and give back."""
    a, b, full = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    acc = px.zeros((64, 64), px.f32)
    x, y = px.zeros((64, 32), px.f32), px.zeros((64, 32), px.f32)
    if FORM == "one by one":
        for _ in range(n):
            acc = begin(a, b.T, acc)
            px.wgmma_wait(1)
        px.wgmma_wait(0)
        x, y = acc[:, 0:32], acc[:, 32:64]
    if FORM == "early return":
        for i in range(n):
            acc = begin_unless(a, b.T, acc, i > n)
        px.wgmma_wait(0)
        x, y = acc[:, 0:32], acc[:, 32:64]
    if FORM == "two":
        for _ in range(n):
            x, y = begin_halves(a, b, x, y)
        px.wgmma_wait(0)
    if FORM == "a tuple":
        pair = begin_halves(a, b, x, y)
        px.wgmma_wait(0)
        pair = begin_halves(a, b, pair[0], pair[1])
        px.wgmma_wait(0)
        x, y = pair
    px.store(C[0:64, 0:32], x)
    px.store(C[0:64, 32:64], y)


@pytest.mark.share(4)
@pytest.mark.parametrize("form", ["one by one", "early return", "two", "a tuple"])
def test_a_wait_covers_accumulators_that_a_function_gave_back(form: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    assert px.check(by_functions[1], a, b, c, 2, FORM=form).ok
    by_functions[1](a, b, c, 2, FORM=form)
    assert np.array_equal(c, 2 * (a.astype(np.float32) @ b.astype(np.float32).T))
    assert px.compile(by_functions[1], a, b, c, 2, FORM=form).spills == 0
