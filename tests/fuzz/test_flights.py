"""Random products in flight: what `make fuzz KIND=flights` runs, and proof that the net can fail."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phalanx as px
from fuzz import flight_numpy, flights
from fuzz.flight_forms import FORMS
from fuzz.flight_operands import ALWAYS, BEYOND_8_BITS, FLOATS
from fuzz.flight_programs import Case, draw
from fuzz.flights import judge, judged
from fuzz.outcomes import Options
from support.host_build import COMPILER, MISSING

EVERY = (
    *FORMS, "loaded", "cast", "arithmetic", "arithmetic in its type", "exponential", "nibbles", "bits", "interleaved",
    "masked", "scaled by rows in shared memory", "scaled by columns in global memory", "from shared memory", "assembly",
    "transposed", "permuted", "narrowed", "chosen by an if", "running sum", "carried", "loaded ahead", "made ahead",
    "of a product", "nibbles of a ring", "copies", "regs=", "px.unroll", "px.static_range", "promoted at once",
    "promoted a turn later", "promoted while the next runs", "made under the product",
    *(f"wait({groups}) {place}" for groups in (0, 1, 2) for place in ("between", "behind", "before")),
)  # fmt: skip


def digest(case: Case) -> str:
    state = hashlib.sha256(case.text.encode())
    for value in case.arguments:
        state.update(np.ascontiguousarray(value).tobytes())
    return state.hexdigest()[:16]


def stories(seeds: range, options: Options) -> str:
    return "\n\n".join(outcome.problem for outcome in judge(seeds, options) if outcome.problem is not None)


@pytest.mark.share(8)
@pytest.mark.parametrize("first", range(0, 192, 12))
def test_is_right_and_compiles(first: int) -> None:
    assert stories(range(first, first + 12), Options(host=False)) == ""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.share(8)
@pytest.mark.parametrize("first", range(1000, 1096, 12))
def test_text_is_right(first: int) -> None:
    assert stories(range(first, first + 12), Options()) == ""


@pytest.mark.long
@pytest.mark.parametrize("first", range(2_000, 3_200, 60))
def test_many_are_right(first: int) -> None:
    """`make fuzz KIND=flights` has as many more as one likes."""
    assert stories(range(first, first + 60), Options()) == ""


def test_a_seed_is_the_same_case_in_every_process() -> None:
    script = "from fuzz.test_flights import digest, draw; print(*(digest(draw(seed)) for seed in range(0, 80, 4)))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.split() == [digest(draw(seed)) for seed in range(0, 80, 4)]


def test_every_way_is_drawn() -> None:
    drawn = {feature for seed in range(600) for feature in draw(seed).features}
    assert not set(EVERY) - drawn
    assert len({*ALWAYS, *BEYOND_8_BITS, *FLOATS}) >= 14 and len(FORMS) >= 15


def plain(seed: int = 0) -> Case:
    """A small case."""
    return next(case for case in map(draw, range(seed, seed + 500)) if case.features[0] == "one" and case.exact)


def test_a_wrong_result_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = plain()
    wanted = flight_numpy.run(case)
    next(iter(wanted.values()))[3, 2] += 1
    outcome = judged(case, tmp_path, wanted)
    assert outcome.verdict == "simulator differs from NumPy"
    assert "C: 1 of" in (outcome.problem or "") and "at (3, 2)" in (outcome.problem or "")


def test_a_finding_and_a_refusal_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = plain()
    without = case.text.replace("    px.wgmma_wait(0)\n    px.store", "    px.store")
    assert without != case.text
    assert flights.checked(Case(**{**vars(case), "text": without}), tmp_path) is not None
    error = px.Error("internal: 2 instructions of kernel 'program' would touch registers in flight")
    assert (flights.refused(error) or ("",))[0] == "behind no fence"
    error.details = "mov.b32 %r1, 0: writes an operand register in flight of wgmma"
    assert (flights.refused(error) or ("",))[0] == "touches registers in flight"
    assert flights.refused(px.Error("something else")) is None


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_a_wrong_text_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a text that multiplies a step too few, the host says so."""
    from support import host_cuda

    real = host_cuda.module_for

    def broken(kernel, args, **options):
        module = real(kernel, args, **options)
        return type(module)(**{**vars(module), "source": module.source.replace("true);", "false);")})

    monkeypatch.setattr(host_cuda, "module_for", broken)
    cases = [case for case in map(draw, range(200)) if case.features[0] == "fused"][:2]
    wanted = {case.seed: flight_numpy.run(case) for case in cases}
    found = [flights.Outcome(case.seed, "right") for case in cases]
    told = flights.on_host(cases, found, wanted, tmp_path, sanitize=False)
    assert any(outcome.verdict == "host differs, right" for outcome in told)
