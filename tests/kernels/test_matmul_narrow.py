"""Products of batches with narrow results: tiles as wide as they, stored in even parts of any width."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products.epilogue import cuts, part_width, pieces
from phalanx.kernels.products.keeping import may_stream
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, candidates, choose, require_fits
from phalanx.kernels.products.matmul_cuts import FITTED_WIDTHS, fitted, fitted_width
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm
from phalanx.kernels.products.tile_model import moved_bytes
from phalanx.kernels.products.tuned import promising
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device

CARD = Device(H200.name, "sm_90a", H200.sms, H200.l2_bytes, H200.shared_bytes(), None)
FORMS = ("a @ b.T", "a @ b", "a.T @ b", "a.T @ b.T")


def operands(shape: tuple[int, ...], form: str) -> tuple[Any, Any]:
    """Small whole numbers: sums of them are exact in whatever order."""
    *batch, m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (*batch, *size)).astype(ml_dtypes.bfloat16) for size in ((m, k), (k, n)))
    a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2) if form.startswith("a.T") else a
    b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2) if form.endswith("b.T") else b
    return a, b


@pytest.mark.share(12)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bn, parts", [(144, 2), (144, 3), (216, 3), (168, 3), (176, 2), (200, 5)])
def test_parts_of_any_width(bn: int, parts: int, form: str) -> None:
    a, b = operands((2, 136, bn, 72), form)
    config = MatmulConfig(128, bn, stages=2, cluster=(1, 1), group=1, parts=parts)
    got = px.kernels.matmul(a, b, out_dtype=px.bf16, config=config)
    assert (got == (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16)).all()


def test_parts_of_any_width_with_all_that_follows() -> None:
    a, b = operands((200, 144, 72), "a @ b")
    bias = np.arange(144, dtype=np.float32)
    config = MatmulConfig(64, 144, stages=2, cluster=(1, 1), group=1, parts=2, groups=1)
    got = px.kernels.matmul(a, b, bias, "relu", out_dtype=px.f32, config=config)
    assert (got == np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias, 0)).all()


@pytest.mark.share(2)
@pytest.mark.parametrize("cluster", [(2, 1), (4, 1)])
def test_parts_of_any_width_are_clean(cluster: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in ((256, 72), (72, 40)))
    c = np.zeros((256, 40), ml_dtypes.bfloat16)
    config = MatmulConfig(64, 48, stages=2, cluster=cluster, group=1, parts=2, groups=1)
    constants = {**config.constants(), "form": ProductForm(b_by_k=False)}
    report = px.check(matmul_tiles[cluster], a, b, c, None, None, None, None, None, schedules=2, **constants)
    assert report.ok, report


def test_pieces_cover_a_part() -> None:
    for bn in range(16, 257, 8):
        for parts in range(1, 10):
            if bn % (8 * parts):
                continue
            width = part_width(bn, parts, False)
            assert cuts(bn, width) == tuple((width * part, width) for part in range(parts))
            for start, _ in cuts(bn, width):
                low = start
                for begin, size in pieces(start, width, bn):
                    assert begin == low and (size == bn or (size & (size - 1) == 0 and begin % size == 0))
                    low += size
                assert low == start + width


BY_K = {"a @ b.T": (True, True), "a @ b": (True, False), "a.T @ b": (False, False), "a.T @ b.T": (False, True)}


@pytest.mark.parametrize("form", FORMS)
def test_tiles_that_fit_can_be_used(form: str) -> None:
    for n in range(8, 520, 8):
        for fused in (False, True):
            problem = Problem(2000, n, 1000, 32, by_k=BY_K[form], fused=fused)
            found = fitted_width(problem)
            assert (found is not None) == (-(-n // (8 if n <= FITTED_WIDTHS[-1] else 16)) * 8 in FITTED_WIDTHS)
            for config in fitted(problem, *found) if found else ():
                require_fits(config, problem)
                assert n <= config.bn * config.cluster[1]


def test_a_narrow_result_is_stored_in_whole_rows() -> None:
    """Where HBM is the limit: 160 or 192 columns for 144 leave room for fewer stages, two of 72 leave rows in two pieces."""
    for n in (136, 144, 168, 176, 208, 216):
        config = choose(Problem(2800, n, 480, 64, by_k=(True, False)), CARD)
        assert n <= config.bn <= n + 8 and not config.swapped and config.cluster[1] == 1 and config.parts == 1
    config = choose(Problem(2000, 264, 8000, 64, by_k=(False, False)), CARD)
    assert (config.bn, config.cluster) == (144, (1, 2))
    assert choose(Problem(2800, 144, 480, 64, vectors=True), CARD).bn not in FITTED_WIDTHS
    assert any(config.bn == 144 for config in promising(Problem(2800, 144, 480, 64), CARD, False))
    assert any(config.bn == 144 for config in candidates(Problem(2800, 144, 480, 64)))


def test_nothing_of_a_large_batch_passes_l2_by() -> None:
    for problem, streams in (
        (Problem(2800, 144, 480, 64, by_k=(True, False)), False), (Problem(2800, 144, 2400, 64, by_k=(True, False)), False),
        (Problem(176, 12288, 4608, 2), True), (Problem(728, 192, 896, 32, by_k=(True, False)), True),
    ):
        assert (choose(problem, CARD).streamed is not None) == streams
        assert may_stream(*moved_bytes(problem), problem.batch) == streams
    assert may_stream(400, 100, 1) and may_stream(1, 10, 2) and not may_stream(400_000_000, 110_000_000, 1)


@pytest.mark.long
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("width", FITTED_WIDTHS)
def test_tiles_that_fit_do_not_spill(width: int, fused: bool) -> None:
    for across, by_k in ((1, (True, False)), (2, (False, False))):
        problem = Problem(2000, width * across, 1000, by_k=by_k, fused=fused)
        for config in fitted(problem, width, across):
            arrays = [
                px.spec((problem.m, problem.k) if by_k[0] else (problem.k, problem.m), px.bf16),
                px.spec((problem.k, problem.n), px.bf16), px.spec((problem.m, problem.n), px.bf16),
            ]
            bias = px.spec((problem.n,), px.bf16) if fused else None
            if config.cluster[0] == 1:
                made = px.compile(
                    matmul_tiles[config.cluster], *arrays, bias, None, None, None, None, arch="sm_90a",
                    form=ProductForm(*by_k, bias_kind="row" if fused else None, activation="gelu" if fused else None),
                    **config.constants(),
                )
                assert made.spills == 0, config
