"""On the GPU: copies that threads begin, in every width, rows by index, and rings that tensor cores read, against torch."""

from __future__ import annotations

from typing import Any

import pytest

from support import thread_copies as kernels

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def random(*shape: int, dtype: str) -> Any:
    return torch.randint(-7, 8, shape, device="cuda").to(torch.float32).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8", "int64"])
@pytest.mark.parametrize("columns, pitch, first", [(48, 48, 0), (50, 64, 0), (50, 50, 0), (51, 51, 0), (50, 50, 1)])
@pytest.mark.parametrize("at", [0, 8, 3, -16])
def test_boxes(dtype: str, columns: int, pitch: int, first: int, at: int) -> None:
    x = random(16 * pitch + first, dtype=dtype)[first:].view(16, pitch)[:, :columns]
    y = torch.full((16, 32), 7, device="cuda").to(x.dtype)
    kernels.copied[1](x, y, at)
    want = torch.zeros_like(y)
    begin, end = max(0, at), min(columns, at + 32)
    if end > begin:
        want[:, begin - at : end - at] = x[:, begin:end]
    assert torch.equal(y, want)


def test_rows_by_index() -> None:
    x, y = random(10, 40, dtype="float32"), torch.full((16, 32), 7.0, device="cuda")
    rows = torch.tensor([3, 1, -1, 7, 100, *[2] * 11], dtype=torch.int32, device="cuda")
    kernels.copied_rows[1](x, rows, y)
    there = (rows >= 0) & (rows < 10)
    assert torch.equal(y, x[(rows * there).long(), :32] * there[:, None])


@pytest.mark.parametrize("pitch, tma, producers", [(512, False, 4), (512, True, 1), (506, False, 4), (503, False, 1)])
def test_rings(pitch: int, tma: bool, producers: int) -> None:
    a, b = random(1000, pitch, dtype="bfloat16")[:, :502], random(64, 512, dtype="bfloat16")[:, :502]
    c = torch.full((1000, 64), 77.0, device="cuda")
    kernels.ring_product[8](a, b, c, M=128, N=64, K=64, STAGES=4, TMA=tma, PRODUCERS=producers, CONSUMERS=8)
    assert torch.equal(c.double(), a.double() @ b.double().T)
