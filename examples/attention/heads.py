"""What the rungs share: the softmax of a block, masks, and a case with what attention must give."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import Case, checked, main

import phalanx as px

NONE = -float("inf")


@px.func
def masked(s, row, key, keys, CAUSAL):
    """Scores of the queries from `row` and the keys from `key` on, -inf where a query must not look."""
    ROWS, KEYS = s.shape
    columns = key + px.arange(KEYS).reshape(1, KEYS)
    ok = columns < keys
    if CAUSAL:
        ok = ok & (columns <= row + px.arange(ROWS).reshape(ROWS, 1))
    return px.where(ok, s, NONE)


@px.func
def softmax_step(s, top, total, scale, SLACK=0.0):
    """Powers of a block relative to the largest score so far (`top`), new maxima and sums, the factor of earlier results.

    With SLACK, `top` is only raised where a row's scores have grown by more than 2 ** SLACK: the factor is 1 nearly
    everywhere.
    """
    ROWS = s.shape[0]
    highest = px.max(s, axis=1) * scale
    new = px.where(highest <= top + SLACK, top, highest) if SLACK > 0 else px.maximum(top, highest)
    base = px.where(new == NONE, 0.0, new)
    alpha = px.exp2(top - base)
    p = px.exp2(px.fma(s, scale, -base.reshape(ROWS, 1)))
    return p, new, total * alpha + px.sum(p, axis=1), alpha


@px.func
def divided(o, total):
    """The result of rows whose powers have been summed up."""
    return o * px.reciprocal(total).reshape(o.shape[0], 1)


@px.func
def blocks(row, count, keys, KEYS, CAUSAL):
    """How many blocks of keys the queries from `row` on look at."""
    end = px.minimum(keys, row + count) if CAUSAL else keys
    return px.cdiv(end, KEYS)


def attention_case(
    kernel: Any, grid: Callable[..., int], rng: Any, heads: int, length: int, dim: int, constants: dict[str, Any]
) -> Case:
    """A launch on random heads (heads, length, dim), and the result in float64."""
    q, k, v = (rng.standard_normal((heads, length, dim)).astype(ml_dtypes.bfloat16) for _ in range(3))
    o = np.zeros_like(q)
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / math.sqrt(dim)
    if constants.get("CAUSAL"):
        s = np.where(np.tri(length, dtype=bool), s, NONE)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = (p / p.sum(-1, keepdims=True) @ v.astype(np.float64)).astype(ml_dtypes.bfloat16)
    scale = math.log2(math.e) / math.sqrt(dim)
    return Case(kernel[grid(heads, length)], [q, k, v, o, scale], {3: want}, {"D": dim, **constants}, tolerance=0.01)


__all__ = ["NONE", "attention_case", "blocks", "checked", "divided", "main", "masked", "softmax_step"]
