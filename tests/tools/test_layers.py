"""The layers of models by which products are judged: nothing was fitted to them, and what is timed is what is chosen."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import ROOT, layers
from benchmarks.drawn import draws
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, choose
from phalanx.kernels.products.split_config import SplitConfig


def test_nothing_was_fitted_to_these_layers() -> None:
    weights = set(layers.LAYERS.values())
    assert len(weights) >= 20 and not weights & (set(draws.MODELS) | set(layers.FITTED.values()))
    assert not set(layers.BATCHED) & set(layers.FITTED_BATCHED)
    assert len(layers.HEIGHTS) == 16 and (min(layers.HEIGHTS), max(layers.HEIGHTS)) == (1, 8192)
    lines = [line for file in (ROOT / "benchmarks" / "shapes").glob("*.txt") for line in file.read_text().splitlines()]
    shapes = {tuple(map(int, line.split()[1:3])) for line in lines if line[:1].isdigit()}
    assert shapes and not weights & shapes


def test_a_file_of_configurations(tmp_path: Path) -> None:
    file = tmp_path / "also.jsonl"
    tiles, split = {"bm": 64, "bn": 40, "cluster": [1, 1], "groups": 1}, {"bm": 8, "bn": 64, "split": 4, "stages": 7}
    lines = [
        {"shape": [16, 5120, 640], "kind": "tiles", "config": tiles},
        {"shape": [64, 64, 128], "batch": 32, "kind": "tiles", "config": tiles},
        {"shape": [16, 5120, 640], "kind": "split", "config": split},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    first, second = layers.read_also(file)
    assert first.also == (MatmulConfig(64, 40, cluster=(1, 1), groups=1), SplitConfig(8, 64, 4, 7))
    assert (second.m, second.batch, second.problem) == (64, 32, Problem(64, 64, 128, 32))
    assert layers.short(layers.chosen(second)) == layers.short(choose(Problem(64, 64, 128, 32)))


def test_what_is_said_of_the_choices() -> None:
    rows = [
        {"layer": "a", "shape": [m, 8, 8], "ratios": {"chosen": ratio, "tiles": 2.0}, "wrong": {}}
        for m, ratio in ((1, 0.5), (2, 2.0), (4, 0.95))
    ]  # fmt: skip
    found = layers.summary(rows)
    assert found["cases"] == 3 and found["worst"] == (0.5, "a", [1, 8, 8])
    assert (found["below_0.93"], found["below_0.97"]) == (1, 2) and round(found["geometric_mean"] ** 3, 6) == 0.95
