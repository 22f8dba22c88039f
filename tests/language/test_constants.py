# ruff: noqa: F823, F841
"""Constants: keyword-only parameters, what kernels capture from around them, and when they are read anew."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.launch.specialise import constants_key

WIDTH = 4
PAIR = (1, 2.5)
config = types.ModuleType("config")
config.DEPTH = 3  # type: ignore[attr-defined]


@px.func
def width_plus(n):
    return WIDTH + n


def run(kernel: Any, *args: Any, slots: int = 1, dtype: Any = np.int32, **constants: Any) -> list[Any]:
    out = np.zeros(slots, dtype)
    kernel[1](out, *args, **constants)
    return out.tolist()


def test_keyword_only_parameters_are_constants() -> None:
    @px.kernel
    def shape(OUT, n, *, SHAPE, DTYPE=px.f32, NAME="x", SCALE=2, NOTHING=None):
        tile = px.zeros(SHAPE, DTYPE)
        if NOTHING is None and NAME == "x":
            px.store(OUT[0], len(tile.shape) * 10 + tile.dtype.itemsize + SCALE * n)
        else:
            px.store(OUT[0], 1)

    assert run(shape, 3, SHAPE=(4, 4)) == [30]
    assert run(shape, 3, SHAPE=(4,), DTYPE=px.f16, SCALE=0) == [12]
    assert run(shape, 3, SHAPE=(4,), NAME="y") == [1]
    assert run(shape, 3, SHAPE=8, NOTHING=0) == [1]


def test_none_as_a_run_time_argument_is_a_constant() -> None:
    @px.kernel
    def optional(OUT, BIAS, n):
        if BIAS is not None:
            px.store(OUT[0], n + BIAS[0])
        else:
            px.store(OUT[0], n)

    assert run(optional, None, 5) == [5]
    assert run(optional, np.array([10], np.int32), 5) == [15]


def test_captured_constants_are_read_again_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    @px.kernel
    def uses(OUT):
        px.store(OUT[0], width_plus(1) * 100 + PAIR[0] * 10 + config.DEPTH)

    assert run(uses) == [513]
    monkeypatch.setitem(globals(), "WIDTH", 6)
    assert run(uses) == [713]
    monkeypatch.setattr(config, "DEPTH", 5)
    assert run(uses) == [715]
    monkeypatch.setitem(globals(), "PAIR", (2, 2.5))
    assert run(uses) == [725]


def test_captured_constants_are_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 and 4.0 are equal in Python, and give different kernels: the type of `n * WIDTH` is theirs."""

    @px.kernel
    def typed(OUT, n):
        px.store(OUT[0], 1 if (n * WIDTH).dtype == px.i32 else 2)

    assert run(typed, 3) == [1]
    monkeypatch.setitem(globals(), "WIDTH", 4.0)
    assert run(typed, 3) == [2]
    monkeypatch.setitem(globals(), "WIDTH", 4)
    assert run(typed, 3) == [1]


def test_functions_of_the_same_name_capture_their_own_constants() -> None:
    def make(size: int) -> Any:
        @px.func
        def helper():
            return size

        return helper

    one, two = make(1), make(2)

    @px.kernel
    def both(OUT):
        px.store(OUT[0], one() * 10 + two())

    assert run(both) == [12]


def test_closures_are_captured_and_followed() -> None:
    size = 3

    @px.kernel
    def closed(OUT):
        px.store(OUT[0], size)

    assert run(closed) == [3]
    size = 8
    assert run(closed) == [8]


def test_numpy_scalars_are_numbers() -> None:
    size = np.int64(5)

    @px.kernel
    def closed(OUT, *, K):
        px.store(OUT[0], px.zeros((size,)).shape[0] + K)

    assert run(closed, K=np.int32(2)) == [7]


def test_constants_of_different_types_are_different() -> None:
    keys = [constants_key({"K": k}) for k in (1, 1.0, True, (1,), (1.0,), 0.0, -0.0)]
    assert len(set(keys)) == len(keys)

    @px.kernel
    def typed(OUT, n, *, K):
        px.store(OUT[0], n // 2 * K)

    assert run(typed, 5, K=1, dtype=np.float32) == [2.0]
    assert run(typed, 5, K=1.5, dtype=np.float32) == [3.0]
    assert run(typed, 5, K=True, dtype=np.float32) == [2.0]


def test_warps_and_cluster_as_functions_of_the_constants() -> None:
    @px.kernel(warps=lambda W: W, cluster=lambda c: (c["C"], 1))
    def sized(OUT, *, W=2, C=1):
        px.store(OUT[px.block_id(0)], px.cluster.size() * 10 + px.cluster.rank())

    assert run(sized) == [10]
    out = np.zeros(4, np.int32)
    sized[lambda C: 2 * C](out, C=2)
    assert out.tolist() == [20, 21, 20, 21]


def test_a_name_assigned_later_is_not_taken_from_the_module() -> None:
    @px.kernel
    def shadows(OUT, n):
        px.store(OUT[0], WIDTH)
        WIDTH = n

    with pytest.raises(px.Error, match="'WIDTH' is used before it is assigned"):
        run(shadows, 1)
