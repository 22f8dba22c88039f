"""`px.tune` on a real GPU: candidates that do not compile, deadlock, are wrong, or hang for good; then the best is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.cache import DiskCache
from phalanx.runtime.tuning import keys

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

ROWS = 1 << 20


@px.kernel(warps=4)
def double(X, Y, *, BM=1024, COUNT=1, FACTOR=2):
    s = px.shared((BM,), X.dtype)
    bar = px.barrier(count=COUNT, checked=False)
    i = px.block_id(0) * BM
    with bar.transaction():
        px.tma.load(X[i : i + BM], s, bar)
    bar.wait(0)
    px.store(Y[i : i + BM], px.load(s) * FACTOR)


@px.kernel(warps=1, watchdog=False)
def stuck(X):
    bar = px.barrier(count=1)
    bar.wait(0)
    px.store(X[0], 1.0)


def blocks(BM):
    return px.cdiv(ROWS, BM)


def doubled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * 2


def touch(x: Any, *, hangs: bool) -> Any:
    """A function whose kernel never ends, and no watchdog watches it."""
    if hangs:
        stuck[1](x)
    return x + 1


def softmax(x: Any, *, config: Any) -> Any:
    return px.kernels.softmax(x, config=config)


def softmax_on_the_host(x: np.ndarray) -> np.ndarray:
    wide = np.exp(x.astype(np.float64) - x.astype(np.float64).max(-1, keepdims=True))
    return (wide / wide.sum(-1, keepdims=True)).astype(np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    mine = DiskCache(tmp_path / "cache")
    monkeypatch.setattr(keys, "disk_cache", lambda: mine)
    return mine


def test_a_search_survives_its_candidates() -> None:
    x = torch.randn(ROWS, device="cuda")
    y = torch.zeros_like(x)
    good = [dict(BM=256), dict(BM=1024), dict(BM=4096)]
    bad = [dict(BM=1 << 17), dict(BM=1024, COUNT=2), dict(BM=1024, FACTOR=3)]
    tuned = px.tune(double, [bad[1], *good, bad[0], bad[2]], (x, y), grid=blocks, reference=doubled, rounds=3)
    print(tuned)
    assert {row.config["BM"] for row in tuned.table[:3]} == {256, 1024, 4096}
    assert all(row.ok and row.ms is not None and 0 < row.ms < 10 for row in tuned.table[:3])
    assert tuned.table[0].ratio == 1.0
    found = {tuple(row.config.items()): row for row in tuned.table[3:]}
    large, deadlock, wrong = (found[tuple(config.items())] for config in bad)
    assert large.status == "does not compile" and "more than the registers of a CTA hold" in large.note
    assert deadlock.status == "hangs" and "a wait did not end on the GPU: bar[0]" in deadlock.note
    assert wrong.status == "is wrong"
    tuned(x, y)  # this process's context is as it was
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)
    again = px.tune(double, [bad[1], *good, bad[0], bad[2]], (x, y), grid=blocks, reference=doubled, rounds=3)
    assert again.from_cache and again.best == tuned.best


def test_arrays_that_are_only_described_and_a_cold_cache() -> None:
    args = (px.spec((ROWS,), px.f32), px.spec((ROWS,), px.f32))
    warm = px.tune(double, [dict(BM=1024)], args, grid=blocks, rounds=3).table[0].ms
    cold = px.tune(double, [dict(BM=1024)], args, grid=blocks, rounds=3, mode="cold").table[0].ms
    assert warm and cold and warm > 0 and cold > 0


def test_a_kernel_that_never_ends_is_killed() -> None:
    x = torch.zeros(16, device="cuda")
    tuned = px.tune(touch, [dict(hangs=True), dict(hangs=False)], (x,), timeout=20, rounds=2)
    assert [row.status for row in tuned.table] == ["ok", "hangs"]
    assert "its process was killed" in tuned.table[1].note
    assert torch.equal(tuned(x), x + 1)


def test_a_function_of_the_library() -> None:
    from phalanx.kernels.rowwise.row_config import RowConfig, choose

    x = torch.randn(1024, 4096, device="cuda")
    chosen = choose(4096, 4)
    other = RowConfig(2, 4, 1, 4 * 32 * 4, 4096 // (2 * 4 * 32 * 4))
    tuned = px.tune(
        softmax, [dict(config=chosen), dict(config=other)], (x,), reference=softmax_on_the_host, tolerance=1e-4, rounds=2
    )
    print(tuned)
    assert all(row.ok for row in tuned.table), str(tuned)
    assert torch.allclose(tuned(x), torch.softmax(x, -1), atol=1e-6)


def test_a_reference_configuration() -> None:
    """The worker is lost on the way, so that what is expected is computed twice."""
    x = torch.randn(ROWS, device="cuda")
    configs = [dict(BM=1024, COUNT=2), dict(BM=256), dict(BM=1024, FACTOR=3), dict(BM=4096)]
    tuned = px.tune(double, configs, (x, torch.zeros_like(x)), grid=blocks, reference=dict(BM=512), rounds=2)
    print(tuned)
    found = {tuple(row.config.items()): row.status for row in tuned.table}
    assert [found[tuple(config.items())] for config in configs] == ["hangs", "ok", "is wrong", "ok"]
