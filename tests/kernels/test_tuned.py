"""What `config="tune"` measures, and what it makes of the answer; the clock is a stand-in here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products import tuned
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, choose, require_fits, split_choice
from phalanx.kernels.products.split_k import SplitConfig
from phalanx.runtime.launch.launch_list import LISTS, recording

ON = px.device()


def test_the_choice_is_among_what_is_measured() -> None:
    for sizes in ((4096, 4096, 4096), (880, 5120, 13824), (300, 3000, 3000)):
        problem = Problem(*sizes)
        configs = tuned.promising(problem, ON, splittable=False)
        parted = sum(config.split > 1 for config in configs)  # type: ignore[union-attr]
        assert len(configs) - parted == tuned.TILES
        assert parted <= tuned.PARTED
        assert len(configs) == len(set(configs))
        chosen = choose(problem)
        assert any((c.bm, c.bn, c.swapped) == (chosen.bm, chosen.bn, chosen.swapped) for c in configs)  # type: ignore
        for config in configs:
            assert isinstance(config, MatmulConfig)
            require_fits(config, problem)


def test_along_a_long_k_the_choice_is_among_them() -> None:
    problem = Problem(280, 912, 8024)
    found = split_choice(problem, ON)
    assert found is not None and found[0] == "rows" and found[1] in tuned.promising(problem, ON, splittable=True)


def test_few_rows_are_split_too() -> None:
    problem = Problem(100, 4096, 4096)
    assert sum(isinstance(config, SplitConfig) for config in tuned.promising(problem, ON, splittable=True)) == tuned.SPLITS
    for other in (Problem(100, 4096, 4096, batch=2), Problem(100, 4096, 4096, itemsize=1), Problem(600, 4096, 4096)):
        assert not any(isinstance(config, SplitConfig) for config in tuned.promising(other, ON, splittable=True))


@pytest.mark.share(2)
@pytest.mark.parametrize("best", [0, 3, -1])
def test_the_quickest_is_taken_and_nothing_of_it_recorded(best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def tune(function: Any, settings: list[dict[str, Any]], arguments: Any, **options: Any) -> Any:
        seen.update(settings=settings, arguments=arguments, recordings=list(LISTS))
        return SimpleNamespace(best=settings[best])

    monkeypatch.setattr(tuned, "tune", tune)
    problem, arguments = Problem(100, 4096, 4096), ("a", "b", None, None, None, None)
    with recording() as record:
        found = tuned.measured(problem, ON, True, arguments, "relu", "bf16")
        assert record in LISTS
    assert seen["recordings"] == [] and seen["arguments"] == arguments
    assert found == tuned.promising(problem, ON, True)[best]
    a, b = np.ones((3, 64), ml_dtypes.bfloat16), np.ones((72, 64), ml_dtypes.bfloat16).T
    for each in (seen["settings"][0], {**seen["settings"][-1], "split": 1}):
        assert (tuned.product_with(a, b, None, None, None, None, **each) == 64).all()
    assert all(each["activation"] == "relu" and each["dtype"] == "bf16" for each in seen["settings"])
    tiles = tuned.TILES + tuned.PARTED
    assert [each["splits_k"] for each in seen["settings"]] == [False] * tiles + [True] * tuned.SPLITS
    assert [each["split"] > 1 for each in seen["settings"][:tiles]] == [False] * tuned.TILES + [True] * tuned.PARTED
