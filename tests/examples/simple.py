"""The simple examples with sizes of all kinds: shared by the simulator, compile, mutation and GPU tests."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "simple"
NAMES = (
    "matmul", "attention", "grouped_matmul", "convolution", "norm_matmul", "block_scaled", "dequantised", "state_space",
    "delta_rule",
)  # fmt: skip
SIZES: dict[str, tuple[dict[str, Any], ...]] = {
    "matmul": ({}, {"m": 1, "n": 8, "k": 64}, {"m": 256, "n": 256, "k": 0}, {"m": 513, "n": 264, "k": 448}, {"k": 250}),
    "attention": ({}, {"length": 1}, {"length": 128, "dim": 128}, {"heads": 1, "length": 513}, {"length": 300, "dim": 32}),
    "grouped_matmul": ({}, {"sizes": (0, 0)}, {"sizes": (300, 128), "k": 64}, {"sizes": (1, 2, 3), "k": 0}, {"k": 130}),
    "convolution": ({}, {"images": 1, "height": 1, "width": 1, "channels": 8}, {"width": 64}, {"channels": 9}),
    "norm_matmul": ({}, {"m": 64, "k": 64}, {"m": 1, "n": 8, "k": 8}, {"k": 250}, {"m": 130, "n": 256, "k": 512}),
    "block_scaled": ({}, {"m": 128, "n": 128, "k": 128}, {"m": 3, "n": 8, "k": 100}, {"m": 128, "k": 640}, {"k": 0}),
    "dequantised": ({}, {"m": 128, "n": 128, "k": 128}, {"m": 1, "n": 6}, {"n": 256, "k": 640}),
    "state_space": ({}, {"heads": 1, "length": 64}, {"length": 1}, {"values": 64, "length": 300}),
    "delta_rule": ({}, {"heads": 1, "length": 64}, {"length": 1}, {"values": 64, "length": 300}),
}
"""Zero, one and more steps, whole and ragged, and rows that TMA can't describe."""

SMALLER: dict[str, dict[str, Any] | None] = {
    "block_scaled": {"BN": 64}, "dequantised": {"BM": 64}, "state_space": {"BV": 32}, "delta_rule": None
}  # fmt: skip
"""Tiles for targets without `wgmma`, whose registers hold less; None where a kernel is for that one alone."""


@cache
def module(name: str) -> Any:
    """The example as a module of its own: other folders have files of these names."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"simple_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def case(name: str, **sizes: Any) -> Any:
    return module(name).example(np.random.default_rng(0), **sizes)
