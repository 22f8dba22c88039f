"""What the simple examples share: random arrays, and what NumPy says that each kernel gives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import Case, checked, main

TOLERANCE = 0.01
"""Of results in bf16, relative to the largest."""


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers in bf16."""
    return rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)


def case(launch: Any, args: list[Any], want: np.ndarray, **constants: Any) -> Case:
    """A launch whose output, a new array of zeros, is the last argument."""
    out = np.zeros(want.shape, ml_dtypes.bfloat16)
    return Case(launch, [*args, out], {len(args): want.astype(out.dtype)}, constants, TOLERANCE)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    """The same numbers in f64."""
    return [x.astype(np.float64) for x in arrays]


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(q k^T / sqrt(d)) v for each head."""
    q, k, v = wide(q, k, v)
    s = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Images (N, H, W, C) with filters (R, S, K, C), zeros around them: (N, H, W, K)."""
    x, w = wide(x, w)
    up, across = w.shape[0] // 2, w.shape[1] // 2
    padded = np.pad(x, ((0, 0), (up, up), (across, across), (0, 0)))
    height, width = x.shape[1:3]
    parts = [
        padded[:, r : r + height, s : s + width] @ w[r, s].T for r in range(w.shape[0]) for s in range(w.shape[1])
    ]
    return np.sum(parts, axis=0)


def normalised(x: np.ndarray, gamma: np.ndarray, epsilon: float = 1e-5) -> np.ndarray:
    """Rows of mean 0 and variance 1, times gamma."""
    x, gamma = wide(x, gamma)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + epsilon) * gamma


def recurrence(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, beta: np.ndarray | None = None) -> np.ndarray:
    """For each head S = exp(g) S + k v^T and o = S^T q, row by row; with `beta` the delta rule, which corrects S."""
    q, k, v, g = wide(q, k, v, g)
    out, state = np.zeros(v.shape), np.zeros((len(q), k.shape[2], v.shape[2]))
    for t in range(q.shape[1]):
        state *= np.exp(g[:, t, None, None])
        added = v[:, t]
        if beta is not None:
            added = beta[:, t, None] * (added - np.einsum("hd,hdv->hv", k[:, t], state))
        state += k[:, t, :, None] * added[:, None]
        out[:, t] = np.einsum("hdv,hd->hv", state, q[:, t])
    return out


__all__ = ["attended", "case", "checked", "convolved", "main", "normal", "normalised", "recurrence", "wide"]
