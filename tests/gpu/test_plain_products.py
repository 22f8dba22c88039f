"""On the GPU: products of tiles that were loaded just before, with no word of shared memory, against torch."""

from __future__ import annotations

import pytest

import phalanx as px
from support import plain_products as kernels

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "int8"])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("tile", [(128, 128, 64, 8), (64, 64, 32, 4), (64, 32, 32, 2)])
def test_products(dtype: str, ta: bool, tb: bool, tile: tuple[int, int, int, int]) -> None:
    m, n, k = 1000, 304, 272
    bm, bn, bk, warps = tile

    def random(*shape: int) -> object:
        return torch.randint(-3, 4, shape, device="cuda").to(torch.float32).to(getattr(torch, dtype))

    a, b = random(*((k, m) if ta else (m, k))), random(*((n, k) if tb else (k, n)))
    c = torch.full((m, n), 77, device="cuda", dtype=torch.int32 if dtype == "int8" else torch.float32)
    acc = px.i32 if dtype == "int8" else px.f32
    kernels.plain_matmul[-(-m // bm), -(-n // bn)](a, b, c, TA=ta, TB=tb, BM=bm, BN=bn, BK=bk, WARPS=warps, ACC=acc)
    left, right = a.double(), b.double()  # type: ignore[attr-defined]
    assert torch.equal(c.double(), (left.T if ta else left) @ (right.T if tb else right))


def test_a_plain_attention_loop() -> None:
    q, k, v = (torch.randn(rows, 64, device="cuda").bfloat16() / 4 for rows in (512, 500, 500))
    o = torch.full((512, 64), 77.0, device="cuda")
    kernels.plain_attention[4](q, k, v, o, BM=128, BN=64, D=64, WARPS=8)
    want = torch.softmax(q.double() @ k.double().T, 1) @ v.double()
    assert (o.double() - want).norm() < 1e-2 * want.norm()
