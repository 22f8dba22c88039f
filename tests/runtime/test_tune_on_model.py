"""`px.tune` with the model of time: which candidates it takes from a kernel, ranks without a GPU, and leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.compiled import disk_cache


@px.kernel(warps=4)
def copy(X, Y, *, BM=px.choose(16, 32, 64), BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]))


def blocks(BM, BN):
    return 128 // BM, 128 // BN


X, Y = np.ones((128, 128), np.float32), np.zeros((128, 128), np.float32)


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    disk_cache.cache_clear()
    yield
    disk_cache.cache_clear()


def largest_first(run: Any, config: Any) -> float:
    run()
    return 1.0 / config["BM"]


def test_the_model_ranks_the_kernels_own_candidates() -> None:
    tuned = px.tune(copy, args=(X, Y), grid=blocks, on="model")
    assert [row.config for row in tuned.table] == [{"BM": 16}, {"BM": 32}, {"BM": 64}], "CTAs that load less are done sooner"
    assert all(row.ok and row.ms == row.modelled for row in tuned.table) and tuned.device == "the model of the H200"
    assert "copy on the model of the H200" in str(tuned) and "model" not in str(tuned).splitlines()[2]
    tuned(X, Y)
    assert (Y == X).all()
    again = px.tune(copy, args=(X, Y), grid=blocks, on="model")
    assert again.from_cache and again.table == tuned.table


def test_specs_and_candidates_in_configurations() -> None:
    array = px.spec((128, 128), px.f32)
    tuned = px.tune(copy[blocks], [dict(BM=px.choose(64, 32), BN=64), dict(BM=1 << 20)], (array, array), on="model")
    assert [row.config for row in tuned.table[:2]] == [{"BM": 32, "BN": 64}, {"BM": 64, "BN": 64}]
    assert tuned.table[2].status == "does not compile" and tuned.best == {"BM": 32, "BN": 64}


def test_only_the_models_best_are_measured() -> None:
    tuned = px.tune(copy, args=(X, Y), grid=blocks, measure=largest_first, isolate=False, best=2)
    assert [(row.config["BM"], row.status) for row in tuned.table] == [(32, "ok"), (16, "ok"), (64, "skipped")]
    assert tuned.table[2].note == "3 of 3 on the model of time" and tuned.table[2].ms is None
    assert all(row.modelled for row in tuned.table) and " model " in str(tuned)


@pytest.mark.long
def test_the_reference_is_measured_whatever_the_model_says() -> None:
    tuned = px.tune(
        copy, args=(X, Y), grid=blocks, measure=largest_first, isolate=False, best=1, reference=dict(BM=64, BN=64)
    )
    assert [(row.config["BM"], row.status) for row in tuned.table] == [(64, "ok"), (16, "ok"), (32, "skipped")]


@pytest.mark.long
def test_few_candidates_are_all_measured_and_the_model_not_asked() -> None:
    tuned = px.tune(copy, args=(X, Y), grid=blocks, measure=largest_first, isolate=False)
    assert [row.config["BM"] for row in tuned.table] == [64, 32, 16] and tuned.table[0].modelled is None


def test_tiles_that_spill_come_last() -> None:
    @px.kernel(warps=1)
    def sums(X, Y, *, BM=px.choose(256, 16)):
        total = px.zeros((BM, 64), px.f32)
        for m in range(0, X.shape[0], BM):
            total = total + px.load(X[m : m + BM, 0:64])
        px.store(Y[0:BM, 0:64], total)

    array = px.spec((512, 64), px.f32)
    tuned = px.tune(sums, args=(array, array), grid=1, on="model")
    assert [row.config["BM"] for row in tuned.table] == [16, 256]
    assert tuned.table[1].note == "its tiles take more registers than a thread has"
