"""Every example with random shapes that do not divide the tile: shared by the simulator, compile and GPU tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

EXAMPLES = (
    "vector_add", "softmax", "transpose", "tma_copy", "ring_copy", "multicast_copy", "cluster_exchange", "pipe_copy",
    "split_k",
)


def module(name: str) -> Any:
    return importlib.import_module(name)


def odd(rng: np.random.Generator, low: int, high: int, tile: int) -> int:
    """A random size that the tile does not divide."""
    while True:
        n = int(rng.integers(low, high))
        if n % tile:
            return n


def odd_row(rng: np.random.Generator, low: int, high: int) -> int:
    """A row length that TMA can describe (a multiple of 16 bytes of f32) and that 64 does not divide."""
    return 4 * odd(rng, low // 4, high // 4, 16)


RANDOM: dict[str, Callable[[np.random.Generator], Any]] = {
    "vector_add": lambda rng: module("vector_add").example(rng, odd(rng, 1, 5000, 1024), int(rng.choice([256, 1024, 1000]))),
    "softmax": lambda rng: module("softmax").example(rng, odd(rng, 1, 40, 4), odd(rng, 1, 1500, 128)),
    "transpose": lambda rng: module("transpose").example(
        rng, odd(rng, 1, 200, 64), odd(rng, 1, 200, 64), rng.choice([np.float32, np.float16, np.int8])
    ),
    "tma_copy": lambda rng: module("tma_copy").example(rng, odd(rng, 1, 200, 64), odd_row(rng, 4, 300)),
    "ring_copy": lambda rng: module("ring_copy").example(
        rng, odd(rng, 1, 300, 64), odd_row(rng, 4, 300), int(rng.integers(1, 9)), STAGES=int(rng.integers(1, 6))
    ),
    "multicast_copy": lambda rng: module("multicast_copy").example(
        rng, odd(rng, 1, 300, 64), odd_row(rng, 4, 300), int(rng.integers(1, 5)), STAGES=int(rng.integers(1, 6))
    ),
    "pipe_copy": lambda rng: module("pipe_copy").example(
        rng, odd(rng, 1, 300, 64), odd_row(rng, 4, 300), int(rng.integers(1, 5)), int(rng.choice([2, 4, 1])),
        STAGES=int(rng.integers(1, 6)),
    ),
    "split_k": lambda rng: module("split_k").example(
        rng, odd(rng, 1, 200, 64), odd(rng, 1, 300, 64), 8 * odd(rng, 1, 60, 8), int(rng.integers(2, 5))
    ),
    "cluster_exchange": lambda rng: module("cluster_exchange").example(rng, odd(rng, 1, 200, 64), odd(rng, 1, 200, 64)),
}


def random_case(name: str, seed: int) -> Any:
    return RANDOM[name](np.random.default_rng(seed))
