"""`@px.autotune`: which candidates a kernel tries at its first call, for which sizes again, and what it launches."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.compiled import disk_cache
from phalanx.runtime.tuning import autotune as decorator


def largest_first(run: Any, config: Any) -> float:
    run()
    return 1.0 / config["BM"]


@px.autotune(key=["X"], prune=lambda BM: BM < 64, measure=largest_first, isolate=False)
@px.kernel(warps=4)
def scale(X, Y, alpha, *, BM=px.choose(16, 32, 64), BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]) * alpha)


def blocks(BM, BN):
    return 128 // BM, 128 // BN


X, Y = np.ones((128, 128), np.float32), np.zeros((128, 128), np.float32)


@pytest.fixture(autouse=True)
def searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The configurations of each search, with a cache of its own."""
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    disk_cache.cache_clear()
    scale.tuned.clear()
    found = []

    def tune(kernel: Any, configs: Any, args: Any, real: Any = decorator.tune, **options: Any) -> Any:
        found.append((configs, options.get("on")))
        return real(kernel, configs, args, **options)

    monkeypatch.setattr(decorator, "tune", tune)
    yield found
    disk_cache.cache_clear()


def test_the_first_call_searches_and_later_ones_take_the_best(searches: Any) -> None:
    y = Y.copy()
    scale[blocks](X, y, 2.0)
    assert (y == 2).all() and [config["BM"] for config in searches[0][0]] == [16, 32], "64 is pruned"
    scale[blocks](X, y, 3.0)
    assert (y == 3).all() and len(searches) == 1, "alpha is no part of the key"
    (tuned,) = scale.tuned.values()
    assert tuned.best == {"BM": 32}
    scale[blocks](X[:64], y[:64], 3.0)
    assert len(searches) == 2


@pytest.mark.long
def test_what_a_launch_gives_is_no_candidate(searches: Any) -> None:
    y = Y.copy()
    scale[blocks](X, y, 2.0, BM=64)
    assert (y == 2).all() and searches[0][0] == [{"BM": 64}]


def test_tools_take_the_kernel() -> None:
    assert px.check(scale[blocks], X, Y.copy(), 2.0).ok
    assert "const BM=16" in px.compile(scale[blocks], X, Y, 2.0).ir, "by the model"
    assert scale.name == "scale" and "2 configurations" in repr(scale)
    assert pickle.loads(pickle.dumps(scale[4, 2])).grid == (4, 2)


@px.autotune(configs=[dict(BM=64), dict(BM=16)])
@px.kernel(warps=4)
def copy(X, Y, *, BM, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]))


def test_host_arrays_are_tuned_on_the_model(searches: Any) -> None:
    y = Y.copy()
    copy[blocks](X, y)
    assert (y == 1).all() and searches == [([dict(BM=64), dict(BM=16)], "model")]
    (tuned,) = copy.tuned.values()
    assert tuned.best == {"BM": 16}


def test_without_arguments_of_its_own() -> None:
    @px.autotune
    @px.kernel(warps=4)
    def fill(X, *, BM=px.choose(64, 128)):
        px.store(X[px.block_id(0) * BM : px.block_id(0) * BM + BM], px.full((BM,), 1.0, px.f32))

    x = np.zeros(128, np.float32)
    fill[lambda BM: 128 // BM](x)
    assert (x == 1).all() and len(fill.tuned) == 1
