"""On the GPU: products of groups of rows, against torch in f32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.kernels.products.grouped import GroupedConfig, grouped_matmul

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

CONFIGS = (None, GroupedConfig(cm=1, cn=1), GroupedConfig(cm=2, cn=1), GroupedConfig(cm=2, cn=2), GroupedConfig(band=3))


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(
    "sizes, k, n",
    [([1000, 0, 300, 1, 129], 512, 512), ([128], 192, 320), ([5] * 64, 192, 328), ([900] * 8, 4096, 1024), ([0, 0], 64, 64)],
    ids=str,
)
def test_uneven_groups(sizes: list[int], k: int, n: int, config: GroupedConfig | None) -> None:
    rows = sum(sizes) + 3
    x = torch.randint(-3, 4, (rows, k), device="cuda").bfloat16()
    w = torch.randint(-3, 4, (len(sizes), n, k), device="cuda").bfloat16()
    bias = torch.randint(-3, 4, (len(sizes), n), device="cuda").bfloat16()
    want = torch.full((rows, n), 7.0, device="cuda")
    start = 0
    for g, size in enumerate(sizes):
        want[start : start + size] = x[start : start + size].float() @ w[g].float().T
        start += size
    for given in (sizes, torch.tensor(sizes, device="cuda")):
        out = torch.full((rows, n), 7.0, device="cuda", dtype=torch.bfloat16)
        assert torch.equal(grouped_matmul(x, w, given, out=out, config=config), want.bfloat16())
    with_bias = (want[:start] + bias.float().repeat_interleave(torch.tensor(sizes, device="cuda"), 0)).relu()
    got = grouped_matmul(x, w, sizes, bias=bias, activation="relu", config=config)
    assert torch.equal(got[:start], with_bias.bfloat16())


def test_f16() -> None:
    x = torch.randint(-3, 4, (700, 256), device="cuda").half()
    w = torch.randint(-3, 4, (3, 512, 256), device="cuda").half()
    sizes = [300, 257, 143]
    want = torch.cat([p.float() @ w[g].float().T for g, p in enumerate(torch.split(x, sizes))])
    assert torch.equal(grouped_matmul(x, w, sizes, config=replace(GroupedConfig(), band=1)), want.half())
