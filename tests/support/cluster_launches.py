"""What cases of clusters are made of: shapes, launches with what must come out, arrays of each CTA's numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = ((1, 1, 1), (2, 1, 1), (4, 1, 1), (2, 2, 1))
CLUSTERS = 2


@dataclass
class Case:
    """A launch, and what must be in its second argument afterwards. `tolerance` 0 asks for equality."""

    kernel: Any
    grid: tuple[int, int, int]
    args: list[Any]
    expected: np.ndarray
    constants: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0

    def check(self, got: np.ndarray) -> None:
        if self.tolerance:
            np.testing.assert_allclose(
                got.astype(np.float64), self.expected.astype(np.float64), rtol=self.tolerance, atol=self.tolerance
            )
        else:
            np.testing.assert_array_equal(got, self.expected)


def grid_of(shape: Shape) -> Shape:
    return shape[0] * CLUSTERS, shape[1], shape[2]


def from_the_left(x: np.ndarray, shape: Shape) -> np.ndarray:
    """What each CTA receives: the data of the rank before it."""
    size = prod(shape)
    return np.roll(x.reshape(CLUSTERS, size, *x.shape[1:]), 1, axis=1).reshape(x.shape)


def cluster_of(CLUSTER: Any) -> Any:
    return CLUSTER


def data(rng: np.random.Generator, shape: Shape, *extents: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.integers(0, 100, (CLUSTERS * prod(shape), *extents)).astype(dtype)
