"""Random choreographies: a small share of what `make fuzz KIND=choreography` runs, and proof that the net can fail."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phalanx as px
from fuzz.choreo_gpu import judged_on_gpu
from fuzz.choreo_kernel import Case, draw
from fuzz.choreo_mutants import changed, mutants
from fuzz.choreography import differences, judge, judged, noticed, outputs, simulated
from fuzz.outcomes import Options

EVERY = (
    "persistent", "flat", "flat, ahead", "two sections", "exit_sync=False", "init=False", "pipe", "test_wait",
    "two producers", "reuse=", "regs=", "unrolled", "relay", "agents in turns",
    "ragged rows", "ragged columns", "wgmma", "mma", "armed by the sender",
    *(f"feed {way}" for way in ("plain", "rows", "leader", "shares", "cluster.load", "cluster.copy", "gather", "gather4")),
    "feed generic", "feed bulk run", "feed bulk multicast run", "feed generic run",
    *(f"pass {way}" for way in ("local", "push", "push rows", "push stores", "cluster.store", "remote", "pull")),
    *(f"pass push {way}" for way in ("transposed", "converted", "reshaped", "halves")),
    *(f"meeting {way}" for way in ("push", "load", "store")),
    "several groups in flight", "promoted", "computed under a product", "operand affine", "operand masked",
    "operand round trip", "copies in a loop", "pipe with pushes", "times", "feed box",
    *(f"sink {way}" for way in ("store", "tma.store", "tma.reduce", "scatter", "atomic", "sum", "direct", "direct reduce")),
    "cluster.reduce", "cluster.reduce(cta=)", "cluster.reduce of a scalar", "cluster.gather",
)  # fmt: skip


def digest(case: Case) -> str:
    state = hashlib.sha256(case.text.encode())
    for value in case.arguments:
        state.update(np.ascontiguousarray(value).tobytes())
    return state.hexdigest()


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(1001, 1005))
def test_is_right_and_clean(seed: int, tmp_path: Path) -> None:
    outcome = judged(seed, tmp_path)
    assert outcome.problem is None, outcome.problem


def test_memory_that_a_peer_stored_into_is_fenced_for_its_copies(tmp_path: Path) -> None:
    """A section takes over memory that the other CTA stored into, and that CTA's engine writes there."""
    case = draw(920617)
    assert "px.store(meet1.at((1 - rank)), y)" in case.text and "reuse=meet1" in case.text
    outcome = judged(920617, tmp_path)
    assert outcome.problem is None, outcome.problem


@pytest.mark.long
@pytest.mark.parametrize("first", range(2000, 2200, 20))
def test_more_are_right_and_clean(first: int) -> None:
    wrong = [outcome for outcome in judge(range(first, first + 20), Options()) if outcome.problem is not None]
    assert not wrong, "\n\n".join(outcome.problem or "" for outcome in wrong)


@pytest.mark.long
def test_a_seed_is_the_same_case_in_every_process() -> None:
    script = "from fuzz.test_choreography import digest, draw; print(*(digest(draw(seed)) for seed in range(20)))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.split() == [digest(draw(seed)) for seed in range(20)]


@pytest.mark.long
def test_every_way_is_drawn() -> None:
    drawn: set[str] = set()
    for seed in range(300):
        drawn |= set(draw(seed).features)
    assert not set(EVERY) - drawn


def test_mistakes_are_made_as_marked() -> None:
    rng = random.Random(0)
    assert changed("    full0[s].wait(0)  # needed: the stage is full", rng) == "    pass"
    assert changed("full0 = px.barrier(2, count=1)  # counted", rng) == "full0 = px.barrier(2, count=2)  # counted"
    assert changed("full0[i].init(1)  # counted", rng) == "full0[i].init(2)  # counted"
    assert changed("full0[s].expect_tx(96)  # counted", rng) in [f"full0[s].expect_tx({n})  # counted" for n in (80, 112)]
    line = "px.tma.load(X[0:8], s, b, multicast=(3 << (r * 2)))  # masked"
    assert changed(line, rng).startswith("px.tma.load(X[0:8], s, b, multicast=((3 << (r * 2))) & ~")


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [4, 11])
def test_mutants_are_noticed(seed: int, tmp_path: Path) -> None:
    case = draw(seed)
    assert mutants(case)
    assert noticed(case, tmp_path) is None


def test_a_mutant_that_is_not_noticed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw(3)
    monkeypatch.setattr("fuzz.choreography.mutants", lambda case: [(7, case.text)])
    assert noticed(case, tmp_path) == ("missed", "nothing is found without line 7")


def test_a_wrong_result_is_told(tmp_path: Path) -> None:
    case = draw(3)
    name, want = next(iter(case.expected.items()))
    want.reshape(-1)[0] += 1
    verdict, story = simulated(case, tmp_path) or ("", "")
    assert verdict == "simulator differs from NumPy" and story.startswith(f"{name}: 1 of")


def test_zeros_of_either_sign_are_equal() -> None:
    case = draw(3)
    zeros = outputs(case, [np.zeros(2, np.float32)] * len(case.arguments))
    assert not differences(case, zeros, {name: -x for name, x in zeros.items()})


CHILD = """
import sys, time
sys.path[:0] = PATH
from fuzz.gpu_process import child
from fuzz.outcomes import Outcome

def answered(seed, compiled):
    if seed == 2:
        sys.exit("gone")
    if seed == 3:
        time.sleep(60)
    compiled()
    if seed == 4:
        time.sleep(60)
    return Outcome(seed, "right"), seed == 1

child(answered)
"""


@pytest.mark.long
def test_a_lost_process_loses_one_case() -> None:
    """A child that is told to end after seed 1, dies in seed 2, compiles seed 3 for too long and hangs in seed 4."""
    command = [sys.executable, "-c", CHILD.replace("PATH", repr(sys.path))]
    found = list(judged_on_gpu(range(1, 6), command, compiling=3.0, patience=1.0))
    verdicts = ["right", "lost", "slow to compile", "hung", "right"]
    assert [(outcome.seed, outcome.verdict) for outcome in found] == list(enumerate(verdicts, 1))
    assert [outcome.problem is None for outcome in found] == [True, False, True, False, True]
    assert found[1].problem == "lost: the process on the GPU ended with 1\ngone"


def test_texts_compile(tmp_path: Path) -> None:
    case = draw(9)
    made = px.compile(case.load(tmp_path)[case.grid], *case.copies(), arch="sm_90a")
    assert "mbarrier" in made.ptx
