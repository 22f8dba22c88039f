"""Products whose last tiles are cut along K: results, order of additions, choreography, registers, choices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import bf16
from phalanx.kernels.products import matmul_config
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, choose, complete
from phalanx.kernels.products.matmul_cuts import with_parts
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.product_form import ProductForm
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.front import array, prepared

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


def in_parts(problem: Problem, bm: int, bn: int, cluster: tuple[int, int], split: int, *, swapped: bool) -> MatmulConfig:
    found = with_parts(complete(problem, bm, bn, 2, cluster, swapped), problem, split)
    assert found is not None
    return found


@pytest.mark.share(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("swapped", [False, True])
def test_results_of_all_layouts(form: str, swapped: bool) -> None:
    a, b = operands((72, 136, 320), form)
    by_k = not form.startswith("a.T"), form.endswith("b.T")
    config = in_parts(Problem(72, 136, 320, by_k=by_k), 128, 64, (1, 1), 2, swapped=swapped)
    got = px.kernels.matmul(a, b, out_dtype=px.f32, config=config)
    assert (got == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "batch, split, cluster, more",
    [
        ((), 3, (1, 1), {"activation": "relu"}), ((3,), 2, (1, 1), {}), ((), 2, (1, 2), {"scale_a": 0.5}),
        ((), 5, (2, 1), {}),
    ],
)  # fmt: skip
def test_results_with_all_that_follows(
    batch: tuple[int, ...], split: int, cluster: tuple[int, int], more: dict[str, Any]
) -> None:
    a, b = operands((*batch, 200, 104, 384), "a @ b.T")
    bias = None if batch else np.arange(104, dtype=np.float32)
    config = in_parts(Problem(200, 104, 384, *batch, fused=True), 128, 32, cluster, split, swapped=True)
    got = px.kernels.matmul(a, b, bias, out_dtype=px.f32, config=config, **more)
    want = more.get("scale_a", 1.0) * (a.astype(np.float32) @ b.astype(np.float32)) + (0.0 if bias is None else bias)
    assert (got == (np.maximum(want, 0) if "activation" in more else want)).all()


def launch_of(split: int, clusters: int, rng: Any = None) -> tuple[Any, list[Any], dict[str, Any]]:
    """Five tiles of two CTAs each, of which the last ones fill no wave."""
    rng = rng or np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in ((128, 320), (300, 320)))
    c = np.zeros((128, 300), np.float32)
    config = MatmulConfig(64, 32, stages=2, cluster=(1, 2), group=1, parts=2, groups=1, split=split)
    sums = np.full(5 % clusters * split * 2 * 64 * 32, np.nan, np.float32)
    constants = {**config.constants(), "form": ProductForm(tma_store=False)}
    return matmul_tiles[clusters, 2], [a, b, c, None, None, None, None, sums], constants


@pytest.mark.share(2)
@pytest.mark.parametrize("split, clusters", [(2, 4), (3, 3)])
def test_choreography(split: int, clusters: int) -> None:
    launch, args, constants = launch_of(split, clusters)
    report = px.check(launch, *args, schedules=3, **constants)
    assert report.ok, report


def test_additions_have_one_order_whoever_comes_last() -> None:
    seen = set()
    for number, kind in enumerate(("late", "early", "random", "random", "random")):
        launch, args, constants = launch_of(3, 4)
        values = [x for x in args if x is not None]
        types = (array(2, bf16), array(2, bf16), array(2), None, None, None, None, array(1))
        simulate(prepared(matmul_tiles, types, **constants), launch.grid, values, schedule=Schedule(kind, number))
        seen.add(args[2].tobytes())
    assert len(seen) == 1


def test_tiles_of_whole_waves_are_not_cut() -> None:
    a, b = operands((256, 64, 256), "a @ b.T")
    problem = Problem(256, 64, 256)
    config = in_parts(problem, 128, 32, (1, 1), 2, swapped=False)
    four = Device("four", "sm_90a", 4, H200.l2_bytes, H200.shared_bytes(), None)
    assert config.tiles(problem) == 4 and config.cut_tiles(problem, four) == config.left_sums(problem, four) == 0
    assert (px.kernels.matmul(a, b, config=config, out_dtype=px.f32) == a.astype(np.float32) @ b.astype(np.float32)).all()


def test_few_tiles_with_a_long_k_are_cut() -> None:
    problem = Problem(312, 8192, 28672, by_k=(False, False))
    config = choose(problem, CARD)
    assert config.split > 1
    assert config.launched(problem, CARD) * config.cluster[0] * config.cluster[1] > 0.9 * CARD.sms
    assert config.left_sums(problem, CARD) >= config.split * 312 * 8192
    assert choose(Problem(8192, 8192, 8192), CARD).split == 1 and choose(Problem(312, 8192, 512), CARD).split == 1


def test_parts_are_long_enough() -> None:
    for k in (64, 640, 1280, 20480):
        config, _ = matmul_config.best_tiles(Problem(256, 256, k), CARD)
        assert config.split == 1 or k // 64 // config.split >= H200.few_tiles.shortest_part


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"split": 0}, "split=0: K is cut into 1 to 8 parts"), ({"split": 9}, "split=9"),
        ({"split": 2, "bn": 72, "parts": 1}, "72"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    a, b = operands((128, 72, 512), "a @ b.T")
    with pytest.raises(px.Error, match=message):
        px.kernels.matmul(a, b, config=MatmulConfig(**{"bm": 128, "bn": 64, "stages": 3, "parts": 1, **changes}))


def test_the_largest_tiles_are_not_cut() -> None:
    """Their sums leave no registers for those of other parts."""
    problem = Problem(4096, 4096, 4096)
    whole = [complete(problem, 256, bn, 2, (1, 2), True) for bn in (176, 184)]
    assert [with_parts(config, problem, 4) is None for config in whole] == [False, True]


def test_three_warpgroups_cut_less() -> None:
    """Both spilled: 192 columns that are turned, and seven parts of an epilogue with a bias."""
    plain, fused = Problem(912, 6144, 4096), Problem(912, 6144, 4096, fused=True)
    turned = [complete(plain, 192, bn, 3, (2, 1), True) for bn in (184, 192)]
    assert [with_parts(config, plain, 4) is None for config in turned] == [False, True]
    straight = complete(fused, 192, 112, 3, (2, 1))
    assert with_parts(straight, fused, 4) is None and with_parts(straight, plain, 4) is not None


def test_a_bias_of_swapped_tiles_has_room() -> None:
    """Five stages of 256 x 80 left none for it: the kernel asked for more shared memory than there is."""
    problem = Problem(880, 1536, 7168, fused=True)
    config = complete(problem, 256, 80, 2, (2, 1), True)
    a, b, c = px.spec((1536, 7168), px.bf16), px.spec((880, 7168), px.bf16), px.spec((880, 1536), px.bf16)
    made = px.compile(
        matmul_tiles[2, 1], a, b, c, px.spec((1536,), px.bf16), None, None, None, None, arch="sm_90a", **config.constants(),
        form=ProductForm(bias_kind="row"),
    )
    assert made.spills == 0 and config.stages == 4


@pytest.mark.long
@pytest.mark.parametrize(
    "bm, bn, swapped, split, fused",
    [(256, 160, True, 2, False), (256, 160, True, 3, True), (256, 176, True, 4, False), (128, 256, False, 2, True),
     (192, 192, False, 2, False), (192, 136, True, 3, True), (256, 112, True, 2, False), (64, 256, False, 3, False)],
)  # fmt: skip
def test_nothing_spills(bm: int, bn: int, swapped: bool, split: int, fused: bool) -> None:
    problem = Problem(4096, 4096, 4096, fused=fused)
    groups = {256: 2, 128: 2, 192: 3, 64: 1}[bm]
    config = with_parts(complete(problem, bm, bn, groups, (1, 2), swapped), problem, split)
    assert config is not None
    matrix, vector = px.spec((4096, 4096), px.bf16), px.spec((4096,), px.bf16) if fused else None
    made = px.compile(
        matmul_tiles[66, 2], *[matrix] * 3, vector, None, None, None, px.spec((1 << 24,), px.f32), arch="sm_90a",
        **config.constants(), form=ProductForm(bias_kind="row" if fused else None),
    )
    assert made.spills == 0
