"""The ladder for Blackwell: every rung right and clean in the simulator, compiled without spills to the instructions it
should have."""

from __future__ import annotations

import re
import runpy
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import phalanx as px
from examples.blackwell import FOLDER, RUNGS, case
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule

SHAPES = ((256, 512, 192), (200, 328, 104), (300, 264, 256), (128, 256, 64), (1, 8, 8))
SMALL = (300, 200, 136)
"""Nothing that a tile divides, along any axis."""
PERSISTENT = RUNGS[3:]


def also(first: list[Any], long: list[Any]) -> list[Any]:
    """Cases, the second ones only where long tests run."""
    return [*first, *(pytest.param(case, marks=pytest.mark.long) for case in long)]


@pytest.mark.share(14)
@pytest.mark.parametrize("shape", also([SHAPES[1], SHAPES[4]], [SHAPES[0], *SHAPES[2:4]]))
@pytest.mark.parametrize("rung", RUNGS[:7])
def test_is_right(rung: str, shape: tuple[int, ...]) -> None:
    case(rung, *shape).run()


@pytest.mark.share(2)
@pytest.mark.parametrize("shape", also([(200, 328, 160)], [(256, 512, 384), (300, 264, 512), (128, 256, 32)]))
@pytest.mark.parametrize("make", ["example", "nvfp4"])
def test_block_scales_are_right(make: str, shape: tuple[int, ...]) -> None:
    case("v7", *shape, make=make).run()


@pytest.mark.share(2)
@pytest.mark.parametrize("pairs", also([(2, 1)], [(1, 1), (1, 2), (2, 2)]), ids=str)
@pytest.mark.parametrize("rung", ["v6", "v7"])
def test_clusters_of_any_shape_are_right(rung: str, pairs: tuple[int, int]) -> None:
    case(rung, 600, 520, 288, CM=pairs[0], CN=pairs[1]).run()


def is_clean(made: Any) -> None:
    report = px.check(made.launch, *made.args, schedules=3, strict=True, **made.constants)
    assert report.ok, report


@pytest.mark.share(7)
@pytest.mark.parametrize("rung", RUNGS[:6])
def test_is_clean(rung: str) -> None:
    is_clean(case(rung, *SMALL, BN=64 if rung < "v2" else 128))


@pytest.mark.long
@pytest.mark.parametrize("pairs", also([(1, 1)], [(1, 2), (2, 1)]), ids=str)
def test_pairs_with_multicast_are_clean(pairs: tuple[int, int]) -> None:
    is_clean(case("v6", *SMALL, BN=128, CM=pairs[0], CN=pairs[1]))


@pytest.mark.long
@pytest.mark.parametrize("pairs", also([(1, 1)], [(1, 2), (2, 1)]), ids=str)
def test_mxfp8_is_clean(pairs: tuple[int, int]) -> None:
    is_clean(case("v7", 300, 200, 288, CM=pairs[0], CN=pairs[1]))


@pytest.mark.long
@pytest.mark.parametrize("pairs", [(1, 1), (1, 2), (2, 1)], ids=str)
def test_nvfp4_is_clean(pairs: tuple[int, int]) -> None:
    is_clean(case("v7", 300, 200, 544, make="nvfp4", CM=pairs[0], CN=pairs[1]))


@pytest.mark.long
@pytest.mark.parametrize("rung", ["v6", "v7"])
def test_four_pairs_are_clean(rung: str) -> None:
    is_clean(case(rung, 392, 392, 288, BN=128, CM=2, CN=2))


def simulated(made: Any, **options: Any) -> None:
    """Runs it as told, and compares."""
    from common import compare

    kernel = made.launch.kernel
    constants = kernel.bind_constants(made.constants)
    args = [np.copy(arg) for arg in made.args]
    function = specialise(kernel, read_arguments(kernel, args), constants).prepared
    simulate(function, normalise_grid(kernel, made.launch.grid, constants), args, **options)
    for position, want in made.expected.items():
        compare(args[position], want, made.tolerance)


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "schedule", also([Schedule("starve")], [Schedule("early"), Schedule("random", 1)]), ids=lambda s: s.kind
)
@pytest.mark.parametrize("rung", RUNGS)
def test_is_right_under_other_schedules(rung: str, schedule: Schedule) -> None:
    simulated(case(rung, 300, 392, 256), schedule=schedule)


@pytest.mark.share(7)
@pytest.mark.parametrize("clusters", also([1, 3], [2, 50]))
@pytest.mark.parametrize("rung", PERSISTENT)
def test_however_many_clusters_the_device_holds(rung: str, clusters: int) -> None:
    simulated(case(rung, 520, 520, 128, BN=128), clusters=clusters)


@pytest.mark.share(4)
@pytest.mark.parametrize("rung", ["v0", "v4", "v6"])
def test_f16_works_as_well(rung: str) -> None:
    from operands import gemm_case

    from examples.blackwell import rung as module

    gemm_case(module(rung).launch, np.random.default_rng(0), 256, 512, 192, {}, np.float16).run()


@pytest.mark.share(2)
@pytest.mark.parametrize("rung", ["v5", "v6"])
def test_all_orders_of_events_of_pairs_end_the_same(rung: str) -> None:
    """Multicasts of a pair land in each CTA by themselves, wherever their bytes are counted."""
    made = case(rung, 256, 64, 32, BN=32, BK=16, STAGES=1, PART=16)
    found = px.explore(made.launch, *made.args, **made.constants)
    assert found.complete and found.ok, found


# Per rung: the products in the text, and how many instructions a step takes.
PRODUCTS = {
    **dict.fromkeys(RUNGS[:5], ("cta_group::1.kind::f16", 4)),
    "v5": ("cta_group::2.kind::f16", 4), "v6": ("cta_group::2.kind::f16", 4),
    "v7": ("cta_group::2.kind::mxf8f6f4.block_scale.block32", 4),
    "v7, nvfp4": ("cta_group::2.kind::mxf4nvf4.block_scale.block16", 4),
}  # fmt: skip


@pytest.mark.share(14)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("rung", PRODUCTS)
def test_compiles_to_the_instructions_it_should(rung: str, arch: str) -> None:
    made = case("v7", make="nvfp4") if rung == "v7, nvfp4" else case(rung)
    compiled = px.compile(made.launch, *made.args, arch=arch, **made.constants)
    assert compiled.spills == 0
    kind, count = PRODUCTS[rung]
    assert re.findall(r"tcgen05\.mma\.(\S+)", compiled.ptx) == [kind] * count
    named = Counter(re.findall(r"(?:tcgen05|clusterlaunchcontrol|cp\.async\.bulk)[\w.:]*", compiled.ptx))
    of = lambda *parts: sum(n for name, n in named.items() if all(part in name for part in parts))  # noqa: E731
    pairs, scaled = rung not in RUNGS[:5], rung.startswith("v7")
    assert of("tcgen05.commit") == (1 if rung == "v0" else 2)
    assert of("tcgen05.commit", "multicast::cluster") == (2 if pairs else 0)
    assert of("try_cancel") == of("try_cancel", "multicast::cluster::all" * pairs) == (rung not in RUNGS[:3])
    loads = of("cp.async.bulk", "mbarrier::complete_tx")
    assert of("cp.async.bulk", "mbarrier::complete_tx", "cta_group::2") == (loads if pairs else 0)
    assert bool(of("cp.async.bulk", "multicast::cluster")) == (scaled or rung == "v6")
    assert bool(of("tcgen05.cp")) == scaled
    assert of("tcgen05.alloc") == of("tcgen05.dealloc") == of("tcgen05.relinquish") == 1
    assert table_row(rung, compiled) in (FOLDER / "README.md").read_text()


def table_row(rung: str, compiled: Any) -> str:
    """What the page says of a rung."""
    ((warps, cluster),) = re.findall(r"^  warps (\d+)(?:, cluster (\d+)x1x1)?$", compiled.ir, flags=re.M)
    (columns,) = re.findall(r"tmem\.alloc columns=(\d+)", compiled.ir)
    return f"| {rung} | {warps} | {cluster or 1} | {compiled.shared_bytes} | {columns} |"


@pytest.mark.share(2)
@pytest.mark.parametrize("rung", RUNGS)
def test_hopper_refuses_with_an_alternative(rung: str) -> None:
    made = case(rung)
    with pytest.raises(px.Error) as caught:
        px.compile(made.launch, *made.args, arch="sm_90a", **made.constants)
    assert caught.value.remedy


@pytest.mark.parametrize("rung", ["v0", pytest.param("v7", marks=pytest.mark.long)])
def test_main_runs(rung: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [f"{rung}.py"])
    runpy.run_path(str(FOLDER / f"{rung}.py"), run_name="__main__")
    assert capsys.readouterr().out.count("right") == (2 if rung == "v7" else 1)


def test_the_ladder_is_complete() -> None:
    assert {path.stem for path in FOLDER.glob("v*.py")} == set(RUNGS)
    readme = (FOLDER / "README.md").read_text()
    assert all(f"| {rung} |" in readme for rung in RUNGS)
    assert "none of them has run on a B200" in readme
