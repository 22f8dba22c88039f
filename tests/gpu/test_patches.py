"""On the GPU: copies of a convolution's patches, against NumPy and against torch's convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.patch_kernels import CASES, Convolution, convolved, sent_to_both, unfolded

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_patches(name: str, dtype: str) -> None:
    case = CASES[name]
    x = case.input(np.int8)
    want = case.patches(x)
    images = torch.from_numpy(x).cuda().to(getattr(torch, dtype))
    y = torch.zeros(want.shape, dtype=images.dtype, device="cuda")
    unfolded[-(-len(want) // 32), case.channels // 16](images, y, **case.constants)
    np.testing.assert_array_equal(y.to(torch.float32).cpu().numpy(), want.astype(np.float32))


@pytest.mark.parametrize(
    ("sizes", "filters", "options"),
    [
        ((4, 28, 30, 128), 96, {"stride": 1, "padding": 1, "dilation": 1, "kernel": (3, 3)}),
        ((3, 33, 31, 64), 64, {"stride": 2, "padding": 3, "dilation": 1, "kernel": (7, 7)}),
        ((2, 20, 25, 192), 32, {"stride": 1, "padding": 2, "dilation": 2, "kernel": (3, 3)}),
        ((5, 14, 14, 64), 128, {"stride": 3, "padding": 0, "dilation": 1, "kernel": (1, 1)}),
    ],
)
def test_convolutions(sizes: tuple[int, ...], filters: int, options: dict[str, Any]) -> None:
    kernel = options["kernel"]
    shape = (filters, *kernel, sizes[3])
    x, w = (torch.randint(-3, 4, size, device="cuda").to(torch.bfloat16) for size in (sizes, shape))
    moves = {name: options[name] for name in ("stride", "padding", "dilation")}
    want = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2).float(), w.permute(0, 3, 1, 2).float(), **moves)
    want = want.permute(0, 2, 3, 1).reshape(-1, filters)
    y = torch.zeros_like(want, memory_format=torch.contiguous_format)
    constants = {name.upper(): number for name, number in options.items()}
    convolved[-(-len(y) // 64), filters // 32](x, w.reshape(filters, -1, sizes[3]), y, **constants)
    assert torch.equal(y, want)


def test_multicast() -> None:
    x = torch.randint(-9, 10, (3, 4, 6, 32), device="cuda").float()
    y, want = torch.zeros(6, 32, 32, device="cuda"), np.zeros((6, 32, 32), np.float32)
    sent_to_both[6](x, y)
    sent_to_both[6](x.cpu().numpy(), want)
    np.testing.assert_array_equal(y.cpu().numpy(), want)


def test_sizes_change_from_launch_to_launch() -> None:
    for width in (9, 12, 9, 17):
        case = Convolution((2, 7, width), 32, (3, 3), (1, 1), (1, 1), (1, 1))
        x = case.input(np.float32, width)
        want = case.patches(x)
        y = torch.zeros(want.shape, device="cuda")
        unfolded[-(-len(want) // 32), 2](torch.from_numpy(x).cuda(), y, **case.constants)
        np.testing.assert_array_equal(y.cpu().numpy(), want)
