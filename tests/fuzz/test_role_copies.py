"""Random choreographies with copies of roles against the same ones with the roles written one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.choreo_kernel import Case, draw
from fuzz.outcomes import Options
from fuzz.role_copies import compared, judge, judged, mutated, twins

TEXT = """import phalanx as px


@px.kernel(warps=3)
def program(X, Y):
    s = px.shared((4, 8), px.f32)
    with px.warps(0, 1):
        px.store(s[2], px.load(X[8:16]))
        px.store(Y[8:16], px.load(s[2]))  # needed: all of it
    with px.warps(1, 1):
        px.store(s[3], px.load(X[16:24]))
    with px.warps(2, 1):
        px.store(s[0], px.load(X[0:8]))
        px.store(Y[0:8], px.load(s[0]))  # needed: all of it
"""


def case(text: str) -> Case:
    return Case(0, text, (1, 1), [], [], {}, [])


def test_roles_that_differ_evenly_are_copies_of_one() -> None:
    found = twins(case(TEXT))
    assert found is not None
    assert found.copied.lines[6:] == [
        "    with px.warps(0, 1, copies=2) as copy_:",
        "        px.store(s[(copy_ * 2)], px.load(X[(copy_ * 8):(copy_ * 8) + 8]))",
        "        px.store(Y[(copy_ * 8):(copy_ * 8) + 8], px.load(s[(copy_ * 2)]))  # needed: all of it",
        "    with px.warps(2, 1):",
        "        px.store(s[3], px.load(X[16:24]))",
    ]
    assert [line for line in found.unrolled.lines if "with" in line] == [
        "    with px.warps(0, 1):", "    with px.warps(1, 1):", "    with px.warps(2, 1):"
    ]
    assert found.copied.places[0, 1] == [8] and found.unrolled.places[0, 1] == [8, 11]


def test_roles_that_differ_otherwise_are_not() -> None:
    assert twins(case(TEXT.replace("Y[0:8]", "Y[0:4]"))) is None
    assert twins(case(TEXT.replace("px.load(s[0])", "px.load(s[1])"))) is not None
    assert twins(case(TEXT.replace("px.load(s[0])", "px.exp2(px.load(s[0]))"))) is None


def test_roles_whose_loops_are_unrolled_otherwise_are_not() -> None:
    lines = TEXT.splitlines()[:6]
    for role in range(2):
        lines += [f"    with px.warps({role}, 1):", f"        for t in px.unroll(range(4), UNROLLED{role}):"]
        lines += [f"            px.store(s[{role}], t)"]
    text = "\n".join([*lines, ""])
    assert twins(case(text.replace("UNROLLED0", "2").replace("UNROLLED1", "2"))) is not None
    assert twins(case(text.replace("UNROLLED0", "2").replace("UNROLLED1", "3"))) is None


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [63, 79])
def test_is_the_same_both_ways(seed: int, tmp_path: Path) -> None:
    outcome = judged(seed, tmp_path)
    assert (outcome.verdict, outcome.problem) == ("right", None)


def test_another_count_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = twins(draw(63))
    assert found is not None
    monkeypatch.setattr("fuzz.role_copies.counts", lambda function, seen=[]: seen.append(function) or len(seen))
    assert compared(found, tmp_path) == ("other counts", "3, not 4")


def test_a_mistake_of_one_copy_is_found_both_ways_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison notices where the two texts are not judged alike."""
    kinds = iter([{"race"}, {"deadlock"}])
    monkeypatch.setattr("fuzz.role_copies.found_in", lambda *_: next(kinds))
    found = twins(draw(79))
    assert found is not None
    verdict, story = mutated(found, tmp_path) or ("", "")
    assert verdict == "other findings" and story.startswith("{'race'}, not {'deadlock'}, without ")


@pytest.mark.long
@pytest.mark.parametrize("first", range(3000, 3120, 40))
def test_more_are_the_same_both_ways(first: int) -> None:
    wrong = [outcome for outcome in judge(range(first, first + 40), Options()) if outcome.problem is not None]
    assert not wrong, "\n\n".join(outcome.problem or "" for outcome in wrong)
