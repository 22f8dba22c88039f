"""Helpers for tests of Blackwell text on the CPU: where the texts are, and scales in the order that hardware wants."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HOST = Path(__file__).parent / "host"


def kernel_text(name: str) -> str:
    """A kernel that was written by hand, with the functions it uses before it."""
    return f"{(HOST / 'blackwell.cuh').read_text()}\n{(HOST / name).read_text()}"


def packed_scales(scales: np.ndarray) -> np.ndarray:
    """Scales (rows, blocks of K) as words of four, 128 words to 128 rows: row r % 32, then r // 32, then the four."""
    rows, blocks = scales.shape
    order = scales.reshape(rows // 128, 4, 32, blocks // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(order).reshape(rows // 128, blocks * 128).view(np.uint32)


def scaled(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) * scales
