"""Functions at the top of a file, which a worker of `px.tune` can load: clocks, candidates that hang, die or are wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px


def by_width(run: Callable[[], Any], config: dict[str, Any]) -> float:
    """A clock that likes BM = 32 best."""
    run()
    return 1.0 + abs(config["BM"] - 32) / 32


def doubled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What must be in y, or returned."""
    return x * 2


def doubled_by_name(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    return {"Y": x * 2, "X": x}


def candidate(x: np.ndarray, y: np.ndarray, *, kind: str = "good", mark: str | None = None) -> np.ndarray:
    """A function to be tuned; some of its kinds do harm. `mark` is a file that takes the number of its process."""
    if mark:
        Path(mark).write_text(str(os.getpid()))
    if kind == "hangs":
        while True:
            time.sleep(1)
    if kind == "dies":
        os._exit(7)
    if kind == "raises":
        raise ValueError("no such thing\nat all")
    return x * (WRONG if kind == "wrong" else 2)


def in_place(x: np.ndarray, y: np.ndarray, *, lazy: bool) -> None:
    """Writes y, unless it is lazy and relies on what another candidate left there."""
    if not lazy:
        y[:] = x * 2


def pair(x: np.ndarray, y: np.ndarray, *, kind: str) -> Any:
    """Returns two arrays, or what can't be compared with them."""
    if kind == "object":
        return object()
    parts = (x * 2, x + (2 if kind == "second wrong" else 1))
    return parts[:1] if kind == "one" else parts


def counted(x: float, *, kind: int) -> None:
    """Leaves nothing to compare."""


WRONG = 3
COSTS = {"good": 2.0, "better": 1.0, "slow": 9.0}


def by_kind(run: Callable[[], Any], config: dict[str, Any]) -> float:
    """A clock for `candidate`."""
    run()
    if config["kind"] == "fails late":
        raise px.Error("the clock stopped")
    return COSTS[config["kind"]]


def hangs_when_timed(run: Callable[[], Any], config: dict[str, Any]) -> float:
    """A clock that never answers for one of the candidates."""
    while config["kind"] == "better":
        time.sleep(1)
    return COSTS[config["kind"]]


def one(run: Callable[[], Any], config: dict[str, Any]) -> float:
    run()
    return 1.0


def sum_is_the_cost(x: np.ndarray, y: np.ndarray, *, kind: str) -> float:
    return float(x.sum())


def two_arrays() -> tuple[Any, ...]:
    return np.full((4, 4), 3.0, np.float32), np.zeros((4, 4), np.float32)


def is_threes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.full((4, 4), 6.0, np.float32)


def no_arrays() -> tuple[Any, ...]:
    raise RuntimeError("the disk is gone")


def nan_for_the_first(run: Callable[[], Any], config: dict[str, Any]) -> float:
    """A clock that fails to measure BM = 64."""
    run()
    return float("nan") if config["BM"] == 64 else by_width(run, config)
