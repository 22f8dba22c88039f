"""What benchmarks/products/energy.py counts and fits: bytes of a configuration, and picojoules that were planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.products import energy
from benchmarks.products.shapes import LARGE, Shape
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem
from phalanx.kernels.products.matmul_cuts import complete, with_parts


@pytest.mark.parametrize(
    ("cluster", "lines"), [((1, 1), 128 + 256), ((1, 2), 64 + 256), ((2, 1), 128 + 128), ((2, 2), 64 + 128)]
)
def test_what_a_multicast_saves(cluster: tuple[int, int], lines: int) -> None:
    """Each CTA asks for its share of what its row and its column share; tensor cores read as much in any cluster."""
    problem, config = Problem(4096, 4096, 1024), MatmulConfig(cluster=cluster)
    moved = energy.traffic(problem, config)
    assert moved["l2"] == pytest.approx(32 * 16 * lines * 1024 * 2 / 1e9)
    assert moved["arrived"] == pytest.approx(32 * 16 * (128 + 256) * 1024 * 2 / 1e9)
    assert moved["shared"] == pytest.approx(32 * 16 * 2 * (64 + 256) * 1024 * 2 / 1e9)


def test_what_l2_holds_is_read_from_hbm_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(8192, 4096, 1024)
    once = 1024 * (8192 + 4096) * 2
    config = MatmulConfig(cluster=(1, 1))
    assert energy.hbm_reads(problem, config, launches=1) == once
    assert energy.hbm_reads(problem, config) == 0, "the second launch finds all of it"
    monkeypatch.setattr(energy, "KEPT", 8e6)
    waves = list(energy.waves(problem, config))
    assert len(waves) == 8 and energy.hbm_reads(problem, config) > once
    assert set().union(*(rows for rows, _ in waves)) == set(range(8192 // 64))
    assert set().union(*(columns for _, columns in waves)) == set(range(4096 // 64))


def test_a_k_of_no_whole_pieces_is_read_from_hbm_once() -> None:
    assert energy.hbm_reads(Problem(8192, 4096, 1536), MatmulConfig(cluster=(1, 1)), launches=1) == 1536 * (8192 + 4096) * 2


@pytest.mark.long
def test_tiles_that_are_cut_along_k_compile() -> None:
    problem = Problem(128, 64, 1024)
    config = with_parts(complete(problem, 128, 64, 2, (1, 1)), problem, 2)
    assert config is not None and energy.compile_one((Shape(128, 64, 1024), config)) == ""


def test_variants_of_a_shape_are_different_and_fill_the_card() -> None:
    for shape in LARGE:
        found = energy.variants(shape)
        assert len(found) >= 8 and "chosen" in found
        others = [config for name, config in found.items() if name != "chosen"]
        assert len(set(others)) == len(others)


def rows(**picojoules: float) -> list[dict[str, Any]]:
    """What a card would show on which a multiplication and bytes cost so much."""
    found = []
    for shape in (LARGE[0], LARGE[3]):
        macs = float(np.prod(shape.sizes))
        for name, config in energy.variants(shape).items():
            moved = energy.traffic(Problem(*shape.sizes), config)
            joules = 1e-12 * macs * picojoules["mac"] + 1e-3 * sum(moved[kind] * picojoules[kind] for kind in energy.KINDS)
            found.append({
                "shape": list(shape.sizes), "variant": name, "config": vars(config), "joules": joules, "watts": 690.0,
                "megahertz": 1500.0, "flop_per_cycle_per_sm": 3500.0, "ms": [joules / 0.69], **moved,
            })
        found.append({"shape": list(shape.sizes), "variant": energy.BASELINE, "config": None, "ms": [1.0], "joules": 0.69,
                      "watts": 690.0, "megahertz": None, "flop_per_cycle_per_sm": None})
    return found


def test_the_fit_finds_what_was_planted() -> None:
    told = energy.fit(rows(mac=1.8, l2=7.0, arrived=3.0, hbm=33.0))
    assert "off by 0.00%" in told[0]
    assert [line.split(" pJ")[0].strip() for line in told[1:]] == ["1.80", "7.00", "3.00", "33.00"]


def test_the_table_has_the_fastest_first() -> None:
    found = rows(mac=1.8, l2=7.0, arrived=3.0, hbm=33.0)
    lines = energy.table(found, list(LARGE[0].sizes))[2:]
    assert len(lines) == len(energy.variants(LARGE[0])) + 1
    speeds = [float(line[44:51]) for line in lines]
    assert speeds == sorted(speeds, reverse=True)
    for line in lines:
        speed, joules = map(float, line[44:].split()[:2])
        assert joules == pytest.approx(1 / speed, rel=5e-3), "at one power, time is energy"
