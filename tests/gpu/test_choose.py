"""`px.choose`, `@px.autotune` and `px.tune(best=)` on a real GPU: right results, one choice a size, few measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from phalanx.runtime.compiled import disk_cache

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


@px.kernel(warps=8, cluster=px.choose(1, (2, 1)))
def product(A, B, C, *, BM=px.choose(64, 128), BN=px.choose(64, 128, 256), BK=64):
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    for t in px.persistent(rows * columns):
        m, n = t // columns * BM, t % columns * BN
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK)):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    disk_cache.cache_clear()
    yield
    disk_cache.cache_clear()


def operands(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    a, b = (torch.randn(size, k, device="cuda").to(torch.bfloat16) for size in (m, n))
    return a, b, torch.empty((m, n), dtype=torch.bfloat16, device="cuda")


def is_right(a: Any, b: Any, c: Any) -> bool:
    want = a.float() @ b.float().T
    return bool((c.float() - want).abs().max() <= 0.02 * want.abs().max())


def test_each_size_takes_what_suits_it() -> None:
    for sizes in ((4096, 4096, 1024), (200, 4096, 1024), (4096, 4096, 1024)):
        a, b, c = operands(*sizes)
        for _ in range(2):
            product[px.auto](a, b, c)
        assert is_right(a, b, c), sizes


def test_the_models_best_are_measured_and_the_rest_is_not() -> None:
    a, b, c = operands(2048, 2048, 1024)
    tuned = px.tune(product[px.auto], args=(a, b, c), best=3, rounds=3)
    assert sum(row.ok for row in tuned.table) <= 3 and any(row.status == "skipped" for row in tuned.table)
    tuned(a, b, c)
    assert is_right(a, b, c)


def test_an_autotuned_kernel_measures_at_its_first_call() -> None:
    autotuned = px.autotune(product, key=["A", "B"], best=2, prune=lambda BM, BN: BM * BN <= 128 * 128, rounds=3)
    a, b, c = operands(1024, 2048, 1024)
    for _ in range(3):
        autotuned[px.auto](a, b, c)
    (found,) = autotuned.tuned.values()
    assert found.table[0].ok and is_right(a, b, c)
