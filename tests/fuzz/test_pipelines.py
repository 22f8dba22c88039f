"""Random loops that pipeline themselves: what `make fuzz KIND=pipelines` runs, and proof that the net can fail."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from fuzz import pipeline_numpy, pipelines
from fuzz.outcomes import Options
from fuzz.pipeline_programs import LAUNCHES, Case, draw, program
from fuzz.pipelines import ON_HOST, WITH_NUMPY, differences, judge, judged, kernel_of
from phalanx.ir.archs import arch_of
from phalanx.runtime.launch.specialise import read_arguments, specialise
from support.host_build import COMPILER, MISSING

EVERY = (
    "product", "attention", "softmax", "mask", "reduction", "a loaded tile is carried", "carried scalar",
    "arithmetic before a product", "a right factor is computed", "product added later", "promotion",
    "a carried operand", "a product adds to what another one reads", "sum changed in the loop", "all loads first",
    *(f"left {way}" for way in ("straight", "transposed", "slab", "gathered", "paged", "carried")),
    *(f"right {way}" for way in ("straight", "transposed", "gathered", "paged")),
    *(f"in the body: {way}" for way in ("store", "over", "atomic")), "stores to what it loads",
    "odd rows", "every other", "begins anywhere", "fill",
    *(f"loop {way}" for way in ("array", "count", "argument", "begin", "triangle", "constant", "backwards", "loaded")),
    "loop rank",
    *(f"if {way}" for way in ("index", "cut", "flag", "loaded", "carried", "block", "rank", "of block")),
    "a conditional load", "a conditional use", "nested conditionals", "else", "continue", "break",
    "cluster operations", *(f"cluster {way}" for way in ("reduce", "one receives", "gather", "sync", "halves")),
    "they meet in a loop", "they meet behind a loop",
    "persistent", "groups", "two loops", "a loop under a condition", "cluster", "8 warps", "producer=False",
)  # fmt: skip


def digest(case: Case) -> str:
    state = hashlib.sha256(case.program.text.encode())
    for value in case.arguments():
        state.update(np.ascontiguousarray(value).tobytes())
    return state.hexdigest()[:16]


def stories(seeds: range, options: Options) -> str:
    return "\n\n".join(outcome.problem for outcome in judge(seeds, options) if outcome.problem is not None)


@pytest.mark.share(2)
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_pipelined_and_plain_agree(first: int) -> None:
    assert stories(range(first, first + 50), Options(host=False)) == ""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_text_and_plain_agree() -> None:
    assert stories(range(0, 6 * ON_HOST, ON_HOST), Options()) == ""


@pytest.mark.long
@pytest.mark.parametrize("first", range(500, 4_000, 100))
def test_many_agree(first: int) -> None:
    """`make fuzz KIND=pipelines` has as many more as one likes."""
    assert stories(range(first, first + 100), Options()) == ""


def test_a_seed_is_the_same_case_in_every_process() -> None:
    script = "from fuzz.test_pipelines import digest, draw; print(*(digest(draw(seed)) for seed in range(0, 80, 4)))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.split() == [digest(draw(seed)) for seed in range(0, 80, 4)]


def test_every_way_is_drawn() -> None:
    drawn: set[str] = set()
    for number in range(150):
        drawn |= set(program(number).features)
    assert not set(EVERY) - drawn
    sizes = [draw(seed) for seed in range(500)]
    assert {case.sizes["S1"] for case in sizes} >= {0, 1, 2, 3, 5, 7}
    assert {case.sizes["K1"] % case.program.blocks["K1"] == 0 for case in sizes} == {True, False}
    assert {shift for case in sizes for _, shift in case.over.values()} >= {0, 3, 8, 32}


SAID = (
    "staged by the copy engine", "staged by the producer's threads", "is not staged: ", "sent to all of them",
    "each CTA fetches its own: ", "products read it there", "registers load it from there", "one group stays in flight",
    "waited for at once", "begun before the last product", "b goes through", "a place for each of two steps",
    "the next step's operands are computed while it runs", "its sum is used while the next step's product runs", "leaves ",
    "read by the producer",
)  # fmt: skip
"""What the notes of some dozen kernels must have between them: else the generator no longer meets what the pass can do."""


def test_the_kernels_are_pipelined(tmp_path: Path) -> None:
    """Nearly all of them, and in every way: a pass that leaves loops as they are would agree with them, too."""
    staged, notes = 0, []
    cases = [case for case in (draw(LAUNCHES * n) for n in range(0, 90, 3)) if "break" not in case.program.features]
    for case in cases:
        kernel = kernel_of(case, tmp_path, {})
        specialisation = specialise(kernel, read_arguments(kernel, tuple(case.arguments())), {})
        said = [note.message for note in specialisation.prepared_for(arch_of("sm_90a")).notes]
        staged += any("staged by" in text for text in said)
        notes += said
    assert staged > 0.9 * len(cases)
    assert not [text for text in SAID if not any(text in note for note in notes)]


def test_a_loop_that_loses_a_step_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain text begins a step late, as NumPy runs it: the story has the kernel, the launch and the elements."""
    wanted = {"loop array", "product", "left straight", "right straight"}
    cases = map(draw, range(0, 29999, WITH_NUMPY))
    long = (c for c in cases if c.sizes["S1"] > 1 and c.program.blocks["K1"] == 32)
    alone = (c for c in long if " if " not in c.program.text and c.program.cluster == (1, 1))
    case = next(c for c in alone if wanted <= set(c.program.features))
    run = pipeline_numpy.run

    def late(text: str, grid: tuple[int, int], cluster: tuple[int, int], arguments: list[Any]) -> None:
        run(text.replace("range(0, ", "range(32, "), grid, cluster, arguments)

    monkeypatch.setattr(pipelines.pipeline_numpy, "run", late)
    outcome = judged(case, tmp_path, {})
    assert outcome.verdict == "plain differs from NumPy"
    assert case.program.text in str(outcome.problem) and case.describe() in str(outcome.problem)


def test_zeros_of_either_sign_are_equal_and_others_are_not() -> None:
    case = draw(0)
    arguments = case.arguments()
    first = next(n for n, x in enumerate(arguments) if isinstance(x, np.ndarray))
    changed = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    changed[first].reshape(-1)[0] += 1
    zeros = [x * 0 if isinstance(x, np.ndarray) else x for x in arguments]
    assert differences(case, zeros, [-x if isinstance(x, np.ndarray) else x for x in zeros]) == ""
    assert differences(case, changed, arguments).startswith(f"{case.program.names[first]}: 1 of")


def test_only_a_break_without_a_producer_may_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(case: Case, *_: object) -> None:
        raise px.Error(pipelines.BREAK)

    monkeypatch.setattr(pipelines, "compared", refuse)
    early = {"break", "producer=False"}
    with_break = next(case for case in map(draw, range(0, 9999, LAUNCHES)) if early <= set(case.program.features))
    assert judged(with_break, tmp_path, {}).verdict == "refused as it should be"
    assert judged(draw(0), tmp_path, {}).verdict == "refused"


@pytest.mark.parametrize("seed", [6544, 1144])
def test_rings_that_were_asked_for_may_be_too_large(seed: int, tmp_path: Path) -> None:
    """Of the first `stages=` alone ask for more than there is; of the other, on sm_120a, they do with all else."""
    case = draw(seed)
    error = px.Error("program needs 107,936 bytes of shared memory; a CTA on sm_120a has 101,376")
    if seed == 6544:
        with pytest.raises(px.Error, match=pipelines.TOO_LARGE) as caught:
            pipelines.compared(case, kernel_of(case, tmp_path, {}), case.arguments())
        error = caught.value
    assert pipelines.is_refused(case, error)
    small = px.Error(pipelines.TOO_LARGE, details="x.py:1: 2 stages of 1,000 bytes")
    assert not pipelines.is_refused(draw(0), small), "sm_90a has room for these"
    assert seed == 6544 or not pipelines.is_refused(draw(0), error), "which is for another target"
