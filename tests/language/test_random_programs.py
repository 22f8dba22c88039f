"""Kernels of random control flow give what Python gives for the same text."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import phalanx as px
from language.random_programs import INPUTS, Program, inputs, load_program, plain_result, unwritten


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


def check(seed: int, folder: Path) -> None:
    text = Program(random.Random(seed)).text()
    out = unwritten()
    load_program(text, folder)[len(INPUTS)](*inputs(), out)
    np.testing.assert_array_equal(out, plain_result(text), err_msg=text)


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


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.long] if n > 1 else []) for n in range(12)])
def test_random_programs_compile(folder: Path, seed: int) -> None:
    """Their CUDA text is accepted: every value is visible where it is used."""
    program = load_program(Program(random.Random(seed)).text(), folder)
    pair, out = px.spec(len(INPUTS), px.i32), px.spec((len(INPUTS), 6), px.i32)
    assert px.compile(program[len(INPUTS)], pair, pair, out).cubin
