"""On the GPU: products with few rows, split along K, against torch in f32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.kernels.products.split_k import SplitConfig, choose_split, split_k_matmul

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")]
torch: Any = pytest.importorskip("torch")

BASE = SplitConfig(64, 128, 2, 4, pieces=2)
CONFIGS = (
    BASE,
    replace(BASE, split=1, pieces=1),
    replace(BASE, split=3, pieces=8),
    replace(BASE, split=4, pieces=4, reuse=True),
    replace(BASE, split=8, pieces=8),
    replace(BASE, cn=2),
    replace(BASE, cm=2),
    replace(BASE, split=3, pieces=8, cn=2, reuse=True),
    replace(BASE, cn=2, cm=2),
    replace(BASE, stages=7, ahead=4),
    replace(BASE, bk=128, stages=3, ahead=-1, cm=2),
    replace(BASE, stages=6, ahead=2, cn=2, cm=2, reuse=True),
    replace(BASE, bk=128, stages=3),
    replace(BASE, bn=64, groups=1),
    replace(BASE, bn=256, groups=4),
    SplitConfig(256, 128, 3, 4, cn=2, pieces=8, reuse=True),
)


def make(m: int, n: int, k: int, dtype: Any) -> tuple[Any, Any, Any]:
    """Small integers: sums are exact in any order."""
    a = torch.randint(-3, 4, (m, k), device="cuda").to(dtype)
    b = torch.randint(-3, 4, (n, k), device="cuda").to(dtype)
    return a, b, a.float() @ b.float().T


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_configurations(config: SplitConfig) -> None:
    for m, n, k in ((config.bm, 1024, 2048), (config.bm + 9, 1000, 1096)):
        a, b, want = make(m, n, k, torch.bfloat16)
        for weights in (b.T, b.T.contiguous()):
            for _ in range(3):
                assert torch.equal(split_k_matmul(a, weights, config=config), want.bfloat16())


@pytest.mark.parametrize("m", [1, 7, 8, 16, 33, 64, 100, 128, 200, 256, 300, 512])
def test_any_rows(m: int) -> None:
    for n, k in ((4096, 4096), (136, 8192), (4096, 520), (1001, 333)):
        a, b, want = make(m, n, k, torch.float16)
        out = torch.empty(m, n, device="cuda")
        assert torch.equal(split_k_matmul(a, b.T, out=out), want), choose_split(m, n, k)
        assert torch.equal(split_k_matmul(a, b.T.contiguous()), want.half()), choose_split(m, n, k)
        along = torch.empty(n, m, device="cuda", dtype=torch.float16).T
        assert torch.equal(split_k_matmul(a, b.T, out=along), want.half()), choose_split(m, n, k)


@pytest.mark.parametrize("shape", [(64, 8192, 8192), (128, 4096, 14336), (256, 4096, 4096)])
def test_bias_and_activation(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a = torch.randn(m, k, device="cuda").bfloat16()
    b = torch.randn(n, k, device="cuda").bfloat16() / k**0.5
    bias = torch.randn(n, device="cuda").bfloat16()
    want = a.float() @ b.float().T + bias.float()
    for activation, exact in (("silu", torch.nn.functional.silu), ("gelu", torch.nn.functional.gelu)):
        got = split_k_matmul(a, b.T, bias, activation)
        torch.testing.assert_close(got.float(), exact(want), rtol=1e-2, atol=1e-2)
