"""The kernels of the page on Blackwell are right in the simulator, clean, compiled without spills, and their text runs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.doc_pages import Page
from support.host_cuda import COMPILER, MISSING, run_on_host

BF16, E4M3, E8M0, E2M1 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn


@pytest.fixture(scope="module")
def kernels(page: Page, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return page.names(tmp_path_factory.mktemp("page"), "import phalanx as px\n\n")


def test_attention(kernels: dict[str, Any]) -> None:
    from support.attention_cases import assert_close, exact

    q, k, v = (kernels[name] for name in "qkv")
    assert_close(kernels["y"], None, *exact(q, k, v, causal=True))


def in_blocks(scales: np.ndarray) -> np.ndarray:
    """Plain scales in the order of blocks."""
    rows, count = scales.shape
    order = scales.reshape(rows // 128, 4, 32, count // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(order)


def plain(m: int, n: int, k: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(BF16) for rows in (m, n))
    return [a, b, np.zeros((m, n), np.float32)], a.astype(np.float32) @ b.astype(np.float32).T


def scaled(dtype: Any, scale: Any, block: int, m: int, n: int, k: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float32).astype(dtype) for rows in (m, n))
    sfa, sfb = (2.0 ** rng.integers(-2, 3, (rows, k // block)) for rows in (m, n))
    wide = [x.astype(np.float32) * np.repeat(s, block, 1).astype(np.float32) for x, s in ((a, sfa), (b, sfb))]
    factors = [in_blocks(s.astype(np.float32).astype(scale)) for s in (sfa, sfb)]
    return [a, b, *factors, np.zeros((m, n), np.float32)], wide[0] @ wide[1].T


def mixed() -> tuple[list[Any], np.ndarray]:
    rng = np.random.default_rng(0)
    a = (rng.integers(-60, 61, (128, 128)) / 8).astype(np.float32).astype(ml_dtypes.float6_e2m3fn)
    b = rng.integers(-3, 4, (64, 128)).astype(np.float32).astype(E4M3)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    return [px.packed(a, px.f6e2m3, dense=True), b, np.zeros((128, 64), np.float32)], wanted


def copies(args: list[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


CASES = {
    "one": ("one", 1, plain(128, 64, 64), {}),
    "roles": ("roles", (1, 2), plain(128, 200, 256), {}),
    "pairs": ("pairs", (2, 1), plain(256, 256, 192), {}),
    "mixed": ("mixed", 1, mixed(), {}),
    "mxfp8": ("scaled_pairs", (2, 1), scaled(E4M3, E8M0, 32, 256, 128, 256), {}),
    "nvfp4": ("scaled_pairs", (2, 1), scaled(E2M1, E4M3, 16, 256, 128, 256), {"BLOCK": 16}),
}  # fmt: skip


@pytest.mark.share(7)
@pytest.mark.parametrize("case", CASES)
def test_kernel(kernels: dict[str, Any], case: str) -> None:
    name, grid, (args, expected), constants = CASES[case]
    kernel = kernels[name]
    args = copies(args)
    kernel[grid](*args, **constants)
    np.testing.assert_array_equal(args[-1], expected)
    report = px.check(kernel[grid], *args, **constants)
    assert report.ok, report
    for arch in ("sm_100a", "sm_103a"):
        made = px.compile(kernel[grid], *args, arch=arch, **constants)
        assert made.spills == 0 and "tcgen05.mma" in made.ptx


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(7)
@pytest.mark.parametrize("case", CASES)
def test_text(kernels: dict[str, Any], case: str) -> None:
    name, grid, (args, expected), constants = CASES[case]
    args = copies(args)
    run_on_host(kernels[name], grid, *args, arch="sm_100a", **constants)
    np.testing.assert_array_equal(args[-1], expected)
