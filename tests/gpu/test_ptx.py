"""`px.ptx` on the GPU gives what its model in the simulator says."""

from __future__ import annotations

from typing import Any

import pytest

from sim.test_ptx import bytes_in_registers, exponentials, pairs, sums

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


def same(kernel: Any, *args: Any, tolerance: float = 0.0, **constants: Any) -> None:
    """Runs a kernel on the GPU and in the simulator, on copies."""
    here = [arg.numpy(force=True).copy() if hasattr(arg, "numpy") else arg for arg in args]
    kernel[1](*args, **constants)
    kernel[1](*here, **constants)
    for arg, want in zip(args, here, strict=True):
        if hasattr(arg, "numpy"):
            torch.testing.assert_close(arg.cpu(), torch.from_numpy(want), rtol=tolerance, atol=0)


def test_tiles() -> None:
    x = torch.randn(64, 48, device="cuda")
    same(exponentials, x, torch.zeros_like(x), tolerance=2**-21)


def test_several_results_and_scalars() -> None:
    x = torch.randint(-99, 99, (16, 8), dtype=torch.int32, device="cuda")
    same(sums, x, torch.zeros(3, 16, 8, dtype=torch.int32, device="cuda"), 9)


def test_bytes() -> None:
    x = torch.arange(32, dtype=torch.uint8, device="cuda")
    same(bytes_in_registers, x, torch.zeros_like(x), x % 3 == 0)


@pytest.mark.parametrize("n", [24, 64, 96])
def test_pairs(n: int) -> None:
    x = (torch.arange(n, device="cuda") % 13).to(torch.bfloat16)
    y = torch.zeros(n + 1, dtype=torch.bfloat16, device="cuda")
    pairs[1](x, y, 2.0, N=n)
    assert torch.equal(y[:n].float(), ((x.float() ** 2) + 2).to(torch.bfloat16).float()) and y[n] == 6
