"""Copies of a convolution's patches in the simulator: against NumPy, and what the checks see of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.patch_kernels import CASES, Convolution, convolved, sent_to_both, unfolded

BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("name", CASES)
def test_patches(name: str, dtype: Any) -> None:
    case = CASES[name]
    x = case.input(dtype)
    want = case.patches(x)
    y = np.zeros_like(want)
    grid = -(-len(want) // 32), case.channels // 16
    unfolded[grid](x, y, **case.constants)
    np.testing.assert_array_equal(y, want)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_random_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 4))
    kernel, stride, padding, dilation = (
        tuple(int(rng.integers(low, high)) for _ in range(axes)) for low, high in ((1, 5), (1, 4), (0, 4), (1, 3))
    )
    sizes = tuple(max(1, d * (k - 1) + 1 - 2 * p) + int(rng.integers(0, 9)) for k, p, d in zip(kernel, padding, dilation))
    case = Convolution((int(rng.integers(1, 4)), *sizes), 16, kernel, stride, padding, dilation)
    x = case.input(np.float32, seed)
    want = case.patches(x)
    y = np.zeros_like(want)
    unfolded[-(-len(want) // 32), 1](x, y, **case.constants)
    np.testing.assert_array_equal(y, want)


def test_a_convolution() -> None:
    case = Convolution((2, 9, 8), 96, (3, 3), (2, 1), (1, 1), (1, 1))
    x = case.input(BF16)
    w = np.random.default_rng(1).integers(-3, 4, (40, 9, 96)).astype(BF16)
    patches = case.patches(x.astype(np.float32))
    want = np.einsum("mtc,ntc->mn", patches, w.astype(np.float32))
    y = np.zeros_like(want)
    grid, constants = (-(-len(want) // 64), 2), {"KERNEL": (3, 3), "STRIDE": (2, 1), "PADDING": 1}
    convolved[grid](x, w, y, **constants)
    np.testing.assert_array_equal(y, want)
    assert px.check(convolved[grid], x, w, y, schedules=1, **constants).ok


def test_multicast_of_patches_from_a_place_in_the_result() -> None:
    x = np.random.default_rng(2).integers(-9, 10, (3, 4, 6, 32)).astype(np.float32)
    y = np.zeros((6, 32, 32), np.float32)
    sent_to_both[6](x, y)
    assert px.check(sent_to_both[6], x, y, schedules=1).ok
    rows = np.concatenate([x[:, :3].reshape(3, 18, 32), np.zeros((3, 0, 32), np.float32)], 1).reshape(-1, 32)
    rows = np.concatenate([rows, np.zeros((64, 32), np.float32)])
    for image in range(3):  # tap (0, 1) of a kernel of 2 x 3, padded by a column: the pixel of the result itself
        first = image * 18 + 6
        np.testing.assert_array_equal(y[2 * image], rows[first : first + 32])
        np.testing.assert_array_equal(y[2 * image + 1], rows[first : first + 32])


@px.kernel(warps=2)
def written_first(X, *, FENCE, COLUMN):
    """A role writes a pixel of the image, and patches of all rows, columns 0 to 2, are copied behind it."""
    tile, bar, told = px.shared((8, 32), X.dtype), px.barrier(), px.barrier()
    with px.warps(0, 1):
        px.store(X[0, 1, COLUMN, 0:32], px.zeros((32,), px.f32))
        if FENCE:
            px.fence.async_proxy("global")
        told.arrive()
    with px.warps(1, 1):
        told.wait(0)
        with bar.transaction():
            px.tma.load(X.im2col(0, (0, 0), 0, (8, 32), kernel=(1, 6)), tile, bar)
        bar.wait(0)


@pytest.mark.parametrize(("fence", "column", "kinds"), [(True, 2, []), (False, 2, ["proxy"]), (False, 3, [])])
def test_checks_know_which_pixels_are_read(fence: bool, column: int, kinds: list[str]) -> None:
    """Of images 8 wide, under a kernel 6 wide, tap 0 has the columns 0 to 2."""
    x = np.ones((1, 4, 8, 32), np.float32)
    report = px.check(written_first[1], x, FENCE=fence, COLUMN=column)
    assert [finding.kind for finding in report.findings] == kinds


def test_exploring_knows_them_too() -> None:
    x = np.ones((1, 4, 8, 32), np.float32)
    assert px.explore(written_first[1], x, FENCE=True, COLUMN=2).ok


@pytest.mark.parametrize("tap", [3, -1])
def test_a_tap_that_a_run_puts_outside_the_kernel(tap: int) -> None:
    @px.kernel(warps=1)
    def brings(X, tap):
        tile, bar = px.shared((8, 32), X.dtype), px.barrier()
        with bar.transaction():
            px.tma.load(X.im2col(0, (0, tap), 0, (8, 32), kernel=3, dilation=2), tile, bar)
        bar.wait(0)

    with pytest.raises(px.Error) as error:
        brings[1](np.ones((1, 8, 8, 32), np.float32), tap)
    assert error.value.kind == "out-of-bounds"
    assert error.value.message == f"a tap {2 * tap} pixels into a patch that reaches 4 further, along axis 1 of the pixels"
