"""Kernels that copy a convolution's patches: the same for the simulator, the text on the CPU, and a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import phalanx as px


@px.kernel(warps=2)
def unfolded(X, Y, *, KERNEL, STRIDE, PADDING, DILATION, BM=32, BC=16):
    """Y (pixels of the result, taps, channels): the matrix that a convolution multiplies, a tap at a time."""
    tile, bar = px.shared((BM, BC), X.dtype), px.barrier()
    m, c, turn = px.block_id(0) * BM, px.block_id(1) * BC, 0
    for tap in range(Y.shape[1]):
        place: tuple = ()
        rest = tap
        for size in px.static_range(len(KERNEL)):
            wide = KERNEL[len(KERNEL) - 1 - size]
            place = (rest % wide, *place)
            rest = rest // wide
        with bar.transaction():
            px.tma.load(
                X.im2col(m, place, c, (BM, BC), kernel=KERNEL, stride=STRIDE, padding=PADDING, dilation=DILATION), tile, bar
            )
        bar.wait(turn)
        px.store(Y[m : m + BM, tap, c : c + BC], px.load(tile))
        px.sync()
        turn = turn ^ 1


@px.kernel(warps=5)
def convolved(X, W, Y, *, KERNEL, STRIDE=1, PADDING=0, DILATION=1, BM=64, BN=32, BC=64, STAGES=3):
    """Y (pixels of the result, filters) = patches of X times W (filters, taps, channels): an implicit product."""
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a, b = px.shared((STAGES, BM, BC), X.dtype), px.shared((STAGES, BN, BC), W.dtype)
    pipe = px.pipe(STAGES)
    high, wide = KERNEL
    with px.warps(4, 1):
        for tap in range(high * wide):
            for c in range(0, X.shape[3], BC):
                with pipe.produce() as s:
                    patches = X.im2col(
                        m, (tap // wide, tap % wide), c, (BM, BC), kernel=KERNEL, stride=STRIDE, padding=PADDING,
                        dilation=DILATION,
                    )
                    px.tma.load(patches, a[s], pipe.full[s])
                    px.tma.load(W[n : n + BN, tap, c : c + BC], b[s], pipe.full[s])
    with px.warps(0, 4):
        acc = px.zeros((BM, BN), px.f32)
        for _ in range(high * wide * px.cdiv(X.shape[3], BC)):
            with pipe.consume() as s:
                acc = px.dot(a[s], b[s].T, acc)
        px.store(Y[m : m + BM, n : n + BN], acc)


@px.kernel(warps=2, cluster=2)
def sent_to_both(X, Y, *, BM=32, BC=32):
    """CTA 0 brings the patches of both; the first of them by its place in the result."""
    tile, bar = px.shared((BM, BC), X.dtype), px.barrier()
    image = px.cluster.id()
    with bar.transaction():
        if px.cluster.rank() == 0:
            patches = X.im2col((image, 1, 0), (0, 1), 0, (BM, BC), kernel=(2, 3), padding=(0, 1))
            px.tma.load(patches, tile, bar, multicast=0b11, cache="evict_last")
    bar.wait(0)
    px.store(Y[px.block_id(0), 0:BM, 0:BC], px.load(tile))


@dataclass(frozen=True)
class Convolution:
    """The sizes of images (without channels) and of a convolution."""

    images: tuple[int, ...]
    channels: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def constants(self) -> dict[str, Any]:
        return {"KERNEL": self.kernel, "STRIDE": self.stride, "PADDING": self.padding, "DILATION": self.dilation}

    def input(self, dtype: Any, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).integers(-9, 10, (*self.images, self.channels)).astype(dtype)

    def patches(self, x: np.ndarray) -> np.ndarray:
        """(pixels of the result, taps, channels), by NumPy."""
        axes = len(self.kernel)
        padded = np.pad(x, [(0, 0), *((size, size) for size in self.padding), (0, 0)])
        spans = [wide * (size - 1) + 1 for size, wide in zip(self.kernel, self.dilation)]
        windows = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=tuple(range(1, axes + 1)))
        windows = windows[(slice(None), *(slice(None, None, step) for step in self.stride))]
        windows = windows[(..., *(slice(None, None, wide) for wide in self.dilation))]
        pixels = int(np.prod(windows.shape[: axes + 1]))
        return np.moveaxis(windows, axes + 1, -1).reshape(pixels, int(np.prod(self.kernel)), self.channels)


CASES = {
    "3 x 3, padded": Convolution((3, 7, 9), 32, (3, 3), (1, 1), (1, 1), (1, 1)),
    "3 x 2, every second row, spread columns": Convolution((2, 11, 8), 16, (3, 2), (2, 1), (1, 0), (1, 2)),
    "5 x 5 on 5 x 5": Convolution((2, 5, 5), 16, (5, 5), (1, 1), (2, 2), (1, 1)),
    "1 x 1, every third": Convolution((2, 10, 7), 16, (1, 1), (3, 3), (0, 0), (1, 1)),
    "a line": Convolution((3, 50), 32, (4,), (2,), (3,), (2,)),
    "a volume": Convolution((2, 4, 5, 6), 16, (2, 3, 3), (1, 2, 1), (1, 0, 1), (1, 1, 2)),
}
