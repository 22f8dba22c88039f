"""Whether two runs of a case left the same memory behind."""

from __future__ import annotations

import numpy as np

from fuzz.tile_arrays import ArrayPlan
from fuzz.tile_values import Facts, is_float

SHOWN = 6
"""Differing elements that a story lists."""

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def differing(got: np.ndarray, want: np.ndarray, dtype: str, facts: Facts) -> np.ndarray:
    """Which elements of two memories differ by more than may be."""
    bits = _BITS[want.dtype.itemsize]
    same = got.view(bits) == want.view(bits)
    if not is_float(dtype):
        return ~same
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
        same |= np.isnan(a) & np.isnan(b)
        if not facts.zeros:
            same |= (a == 0) & (b == 0)
        if not facts.exact:
            same |= (a == b) | (np.abs(a - b) <= facts.tolerance * np.maximum(1.0, np.abs(b)))
    return ~same


def disagreement(plans: tuple[ArrayPlan, ...], got: list[np.ndarray], want: list[np.ndarray]) -> str | None:
    """The first differing elements of the first arrays that differ; None where all agree."""
    stories = []
    for plan, g, w in zip(plans, got, want, strict=True):
        facts = plan.facts if plan.written else Facts()
        wrong = np.flatnonzero(differing(g, w, plan.dtype, facts))
        if wrong.size:
            listed = ", ".join(f"[{n}] {g[n]!s} instead of {w[n]!s}" for n in wrong[:SHOWN])
            stories.append(f"{plan.describe()}\n    {wrong.size} of {w.size} elements in memory differ: {listed}")
    return "\n".join(stories[:3]) or None
