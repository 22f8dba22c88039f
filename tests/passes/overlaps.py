"""Which buffers of a prepared kernel have bytes in common, and whether the kernel is clean with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.ir.core import Function
from phalanx.ir.memory import may_share_bytes
from phalanx.sanitizer.runs import run_checked, schedules_of
from phalanx.sim.machine import layout


def shared(function: Function) -> set[frozenset[str]]:
    """The pairs of buffers that have bytes in common."""
    found = set()
    offsets, _ = layout(function)
    for a in function.buffers:
        for b in function.buffers:
            overlap = offsets[a] < offsets[b] + b.nbytes and offsets[b] < offsets[a] + a.nbytes
            assert overlap <= may_share_bytes(a, b)
            if a is not b and overlap:
                found.add(frozenset((a.name, b.name)))
    return found


def pair(*names: str) -> set[frozenset[str]]:
    return {frozenset(names)}


def data(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def clean(function: Function, *args: Any, grid: int = 1) -> None:
    for schedule in schedules_of(4, 0):
        found = run_checked(function, (grid, 1, 1), [arg.copy() for arg in args], schedule)
        assert not found, "\n".join(map(str, found))
