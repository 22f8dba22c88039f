"""Kernels of random control flow give what Python gives for the same text."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from language.random_programs import SLOTS, Places, PlainPx, Program

INPUTS = [(0, 0), (5, -3), (-7, 12), (23, 23), (100, 1)]


def expected(text: str) -> np.ndarray:
    """What plain Python writes, one block after the other."""
    out = np.full((len(INPUTS), SLOTS), -1, np.int32)
    code = compile(text.replace("import phalanx as px", ""), "<plain>", "exec")
    a, b = [x for x, _ in INPUTS], [y for _, y in INPUTS]
    for block in range(len(INPUTS)):
        names: dict[str, Any] = {"px": PlainPx(block)}
        exec(code, names)
        names["program"](a, b, Places(out), K=2)
    return out


def simulated(text: str, folder: Path) -> np.ndarray:
    """What the kernel of the same text writes, in the simulator."""
    name = f"random_program_{abs(hash(text))}"
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    out = np.full((len(INPUTS), SLOTS), -1, np.int32)
    a, b = (np.array(column, np.int32) for column in zip(*INPUTS))
    module.program[len(INPUTS)](a, b, out)
    del sys.modules[name]
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("programs")


def check(seed: int, folder: Path) -> None:
    text = Program(random.Random(seed)).text()
    want = expected(text)
    got = simulated(text, folder)
    np.testing.assert_array_equal(got, want, err_msg=text)


_QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
_SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=20, derandomize=True, **_QUIET)
@given(_SEEDS)
def test_random_programs(folder: Path, seed: int) -> None:
    check(seed, folder)


@pytest.mark.long
@settings(max_examples=300, **_QUIET)
@given(_SEEDS)
def test_many_random_programs(folder: Path, seed: int) -> None:
    check(seed, folder)
