"""Small launches whose rings wrap and whose persistent loops take several tiles: what mutants are judged on."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mutation.blackwell import BLACKWELL
from mutation.launches import Case
from mutation.library import LIBRARY
from mutation.pipelined import PIPELINED

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "gemm")]


def example(name: str, **sizes: Any) -> Callable[[], Case]:
    def make() -> Case:
        case = importlib.import_module(name).example(np.random.default_rng(0), **sizes)
        return Case(name, case.launch, case.args, case.constants)

    return make


def gemm(version: int, grid: Any, m: int, n: int, **constants: int) -> Callable[[], Case]:
    """A rung of the ladder with 5 steps along K."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        kernel = getattr(importlib.import_module(f"v{version}"), f"gemm_v{version}")
        a, b = (rng.standard_normal((size, 5 * 64), np.float32).astype(ml_dtypes.bfloat16) for size in (m, n))
        return Case(f"gemm_v{version}", kernel[grid], [a, b, np.zeros((m, n), ml_dtypes.bfloat16)], constants)

    return make


CASES: dict[str, Callable[[], Case]] = {
    "vector_add": example("vector_add", n=1000, block=512),
    "softmax": example("softmax", rows=4, columns=100),
    "transpose": example("transpose", rows=64, columns=64),
    "tma_copy": example("tma_copy", rows=64, columns=64),
    "ring_copy": example("ring_copy", rows=320, columns=64, ctas=1, STAGES=2),
    "multicast_copy": example("multicast_copy", rows=320, columns=64, clusters=1, STAGES=2),
    "pipe_copy": example("pipe_copy", rows=320, columns=64, clusters=1, STAGES=2),
    "cluster_exchange": example("cluster_exchange", rows=64, columns=64),
    "gemm_v0": gemm(0, 1, 64, 64, BM=64, BN=64),
    "gemm_v1": gemm(1, 1, 64, 64, BM=64, BN=64, STAGES=3),
    "gemm_v2": gemm(2, 1, 64, 64, BM=64, BN=64, STAGES=2),
    "gemm_v3": gemm(3, 1, 128, 64, BN=64, STAGES=2),
    "gemm_v4": gemm(4, 2, 256, 64, BN=64, STAGES=2),
    "gemm_v5": gemm(5, 2, 256, 128, BN=64, STAGES=2),
    "gemm_v6": gemm(6, 2, 256, 128, BN=64, STAGES=2),
    "gemm_v7": gemm(7, (1, 2), 256, 128, BN=64, STAGES=2),
    **BLACKWELL,
    **LIBRARY,
    **PIPELINED,
}
