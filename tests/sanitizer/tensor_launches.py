"""Operands and launches of kernels that multiply on Blackwell's tensor cores, for bugs that are planted in them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import phalanx as px

M, N, K = 64, 16, 16
STEPS = 3
BF16 = ml_dtypes.bfloat16


def numbers(*shape: int) -> np.ndarray:
    """Small whole numbers, whose products are exact."""
    return (np.arange(int(np.prod(shape))) % 7 - 3).reshape(shape).astype(BF16)


A, B, C = numbers(M, STEPS * K), numbers(N, STEPS * K), np.zeros((M, N), np.float32)
ONE = dict(grid=1, args=(A, B, C))
PAIR = dict(grid=2, args=(numbers(2 * M, STEPS * K), B, np.zeros((2 * M, N), np.float32)))


@px.func
def fetch(A, B, a, b, full, k):
    """One step of both operands on a barrier."""
    with full.transaction():
        px.tma.load(A[0:64, k * 16 : k * 16 + 16], a, full)
        px.tma.load(B[0:16, k * 16 : k * 16 + 16], b, full)
