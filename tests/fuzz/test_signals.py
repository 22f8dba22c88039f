"""Random programs of signals: a small share of what `make fuzz KIND=signals` runs, and proof that the net can fail."""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random

import pytest

from fuzz.outcomes import Options
from fuzz.signals import judge, judged
from phalanx.sanitizer.doubts import Doubts
from sanitizer.choreographies import program
from sanitizer.comparing import compare

EVERY = (
    ".arrive()", ".arrive(2)", ".arrive(ctas=", ".expect_tx(", ".arrive_and_expect_tx(16)",
    ".arrive_and_expect_tx(16, ctas=",
    "px.tma.load", "multicast=3", "px.cluster.copy", "px.cluster.store", "px.tma.store", "px.tma.wait(1, read=True)",
    "while not b", "if not b", "for _ in range(", "s.at(rank ^ 1)", "px.cluster.sync", "count=2",
)


def test_a_seed_is_the_same_program_everywhere() -> None:
    texts = "".join(program(Random(seed)) for seed in range(200))
    missing = [part for part in EVERY if part not in texts]
    assert not missing
    assert hashlib.sha256(texts.encode()).hexdigest()[:16] == "b4f8b9ca67700a50"


def test_a_few_programs() -> None:
    outcomes = list(judge(range(20_000, 20_030), Options()))
    assert not [outcome.problem for outcome in outcomes if outcome.problem is not None]
    assert len({outcome.verdict for outcome in outcomes}) > 2


LOOKS = {
    1028: ("b1.arrive_and_expect_tx(16)", "b1.wait(0)"),
    2284: ("b0.arrive_and_expect_tx(16)", "b0.wait(0)"),
    666: ("b0.arrive()", "b0.wait(1)"),
    3645: ("px.tma.load(X[10, 0:4], s[0], b2)", "b2.wait(0)"),
    2054: ("b2.wait(0)", "px.store(Y[31, 0:4], px.load(s[2]))"),
    2090: ("b1.wait(0)", "px.store(Y[31, 0:4], px.load(s[0]))"),
    4096: ("b0.wait(0)", "px.store(Y[rank * 16 + 15, 0:4], px.load(s[1]))"),
}
"""The seeds below 5,000 of a program with a phase whose bytes do not add up, which nobody waits for (the first four), or
after which nobody reads what its copies bring: a line of each, and what comes after it where somebody does."""


@pytest.mark.share(7)
@pytest.mark.parametrize("seed", LOOKS)
def test_bytes_that_nobody_looks_at_do_not_add_up_all_the_same(seed: int, tmp_path: Path) -> None:
    """Only with the look an order of events shows what is wrong; then the read may be told, too, as a race with the copy."""
    text, (line, look) = program(Random(seed)), LOOKS[seed]
    assert text.count(f"        {line}\n") == 1
    assert compare(text, tmp_path) == "tx-mismatch alone"
    looking = text.replace(f"        {line}\n", f"        {line}\n        {look}\n")
    assert compare(looking, tmp_path) in ("tx-mismatch", "race")


@pytest.mark.parametrize("seed", [13, 34])
def test_without_what_is_held_back_signals_are_missed(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(seed, tmp_path).problem is None
    monkeypatch.setattr(Doubts, "add", lambda self, doubt: None)
    problem = judged(seed, tmp_path).problem
    assert problem is not None and problem.startswith("missed")
