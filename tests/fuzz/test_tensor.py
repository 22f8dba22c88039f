"""Random kernels for Blackwell's tensor cores: a share of what `make fuzz KIND=tensor` runs, and proof that it can fail."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phalanx as px
from fuzz.outcomes import Options
from fuzz.tensor import checked, judge, on_host, simulated
from fuzz.tensor_case import ARCH, Case
from fuzz.tensor_kernel import draw, sketch
from fuzz.tensor_mutants import missed, survived
from fuzz.tensor_values import PLAIN, SCALED, blocked
from mutation.mutation import mutants
from support.host_build import COMPILER, MISSING

EVERY = (
    *(types.text for types in (*PLAIN, SCALED[0], *SCALED[4:])), "64 rows", "128 rows", "256 rows", "out store", "out tma",
    *(f"epilogue {way}" for way in ("4", "8", "2+2", "1+1+1+1", "4/4")),
    *(f"loop {way}" for way in ("one", "persistent", "clc")),
    *(f"begin {way}" for way in ("condition", "peeled", "stored")), "pairs", "multicast", "multicast between pairs", "led",
    "A is M-major", "B is N-major", "A stored into tensor memory", "A copied into tensor memory", "a pipe",
    "barriers by hand", "a pipe of accumulators", "two accumulators", "negate", "twice", "early", "parts",
    "scales for each stage", "ragged", "padded", "padded with scales", "padded A copied", "padded across K",
    "tcgen05.store", "a in tensor memory", "changed in registers", "columns in pieces", "depths in pieces", "reuse=",
    "a second product", "px.dot", "px.dot, begun", "px.dot, sometimes", "px.dot, changed", "px.dot in a ring",
    *(f"{way} around products" for way in ("break", "continue", "while")), "break behind a part", "continue behind a part",
)  # fmt: skip


def digest(case: Case | None) -> str:
    if case is None:
        return "none"
    state = hashlib.sha256(case.text.encode())
    for value in case.arguments.values():
        state.update(np.ascontiguousarray(value).tobytes())
    return state.hexdigest()


def wrong_of(seeds: range) -> str:
    return "\n\n".join(outcome.problem for outcome in judge(seeds, Options()) if outcome.problem is not None)


@pytest.mark.share(7)
@pytest.mark.parametrize("seed", range(3000, 3003))
def test_some_are_right_and_clean(seed: int) -> None:
    """Both ways of a kernel, in the simulator, under the checks, with mistakes, and as text on the host."""
    assert not wrong_of(range(seed, seed + 1))


@pytest.mark.long
@pytest.mark.parametrize("first", range(4000, 4100, 10))
def test_more_are_right_and_clean(first: int) -> None:
    assert not wrong_of(range(first, first + 10))


@pytest.mark.long
def test_a_seed_is_the_same_case_in_every_process(tmp_path: Path) -> None:
    script = (
        "from fuzz.test_tensor import digest, sketch; from pathlib import Path; "
        "print(*(digest(sketch(seed, 0, Path('.'), [])) for seed in range(4)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.split() == [digest(sketch(seed, 0, tmp_path, [])) for seed in range(4)]


@pytest.mark.long
def test_every_way_is_drawn(tmp_path: Path) -> None:
    drawn: set[str] = set()
    for seed in range(450):
        case = sketch(seed, 0, tmp_path, [])
        drawn |= set(case.features) if case is not None else set()
    assert not set(EVERY) - drawn


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_a_wrong_result_is_told(tmp_path: Path) -> None:
    case = draw(3, tmp_path)
    case.expected["C"].reshape(-1)[1] += 1
    verdict, story = simulated(case) or ("", "")
    assert verdict == "simulator differs from NumPy" and "C: 1 of" in story
    [outcome, _] = on_host([case], sanitize=False)
    assert outcome.verdict == "host differs" and "C: 1 of" in (outcome.problem or "")


def test_an_input_that_changes_is_told(tmp_path: Path) -> None:
    case = draw(3, tmp_path)
    results = case.copies()
    results[0].reshape(-1)[0] += 1
    results[-1] = case.expected["C"]
    assert case.differences(results).startswith("A: 1 of")


def test_a_false_alarm_is_told(tmp_path: Path) -> None:
    """The commit that tells the epilogue goes, the wait stays."""
    case = draw(3, tmp_path)
    line = next(line for line in case.text.splitlines() if "px.tcgen05.commit(" in line)
    gone = line[: len(line) - len(line.lstrip())] + "pass"
    broken = dataclasses.replace(case, text=case.text.replace(line, gone), refused=["x"])
    verdict, story = checked(broken) or ("", "")
    assert verdict == "false alarm" and "deadlock" in story


def test_a_mistake_that_nothing_finds_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw(3, tmp_path)
    mutant = random.Random(0).choice(list(mutants(case.function)))
    monkeypatch.setattr("fuzz.tensor_mutants.run_checked", lambda *args, **options: [])
    assert (survived(case, mutant) or "").startswith("C: ")
    assert "C: " in (missed(case) or "")


def test_texts_compile(tmp_path: Path) -> None:
    case = draw(5, tmp_path)
    made = px.compile(case.kernel[case.grid], *case.given(), arch=ARCH)
    assert "tcgen05.mma" in made.ptx


def test_scales_go_to_blocks() -> None:
    """Row 33 of the second tile: lane 1, second group of four bytes; its fifth scale begins the second step."""
    plain = np.zeros((2 * 64, 2 * 4), np.uint8)
    plain[64 + 33, 4] = 7
    found = blocked(plain, 64, 4)
    assert found.shape == (2, 2, 32, 16) and found[1, 1, 1, 4] == 7 and found.sum() == 7
