"""Functions at the top of a file, which a worker of `px.tune` can load: clocks, candidates that hang, die or are wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import phalanx as px


def by_width(run: Callable[[], Any], config: dict[str, Any]) -> float:
    """A clock that likes BM = 32 best."""
    run()
    return 1.0 + abs(config["BM"] - 32) / 32


def doubled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What `double` must leave in y."""
    return x * 2


def candidate(x: np.ndarray, y: np.ndarray, *, kind: str = "good") -> np.ndarray:
    """A function to be tuned; some of its kinds do harm."""
    if kind == "hangs":
        while True:
            time.sleep(1)
    if kind == "dies":
        os._exit(7)
    if kind == "raises":
        raise ValueError("no such thing\nat all")
    return x * (3 if kind == "wrong" else 2)


COSTS = {"good": 2.0, "better": 1.0, "fails late": 1.5}


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


def two_arrays() -> tuple[Any, ...]:
    return np.full((4, 4), 3.0, np.float32), np.zeros((4, 4), np.float32)


def no_arrays() -> tuple[Any, ...]:
    raise RuntimeError("the disk is gone")
