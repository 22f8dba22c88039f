"""Mutants of every example: each is reported, refused by the compiler, or shown equivalent in all orders of events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from mutation.cases import CASES
from mutation.launches import Case
from mutation.mutation import Verdict

SAMPLE = 5
"""Mutants of each kernel, of its prepared form and of what was read, in `make test`."""
FEWER = 2
"""Of kernels whose checks take the longest: those with pairs of CTAs, and attention."""
LONG = ("attention low", "decode_ring, ", "decode_runs", "latent_ring, ", "norm_stream", "sparse_")
"""Kernels that are like others here, and of which only the long tests have mutants."""
WITHOUT_SYNCHRONISATION = {"vector_add", "softmax", "transpose"}


@cache
def case(name: str) -> Case:
    return CASES[name]()


@pytest.fixture
def settle(record_property: Callable[[str, object], None]) -> Callable[[str, list[Verdict]], None]:
    """Records the score, which is printed at the end; no survivor may be left unexplained."""
    return lambda name, verdicts: record_property("mutants", score(name, verdicts))


def score(name: str, verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.how for verdict in verdicts)
    equivalent, survived = counts.pop("equivalent", 0), counts.pop("survived", 0)
    caught = sum(counts.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    left = [f"{v.mutant}: {v.detail}" for v in verdicts if not v.is_explained]
    assert not left, f"{name}: {survived} unexplained\n" + "\n".join(left)
    if verdicts and name not in WITHOUT_SYNCHRONISATION:  # an exchange is whole until the passes have written it out
        assert caught
    return f"{name}: {caught} of {len(verdicts) - equivalent} mutants caught ({kinds}), {equivalent} equivalent"


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(LONG)][::11])
def test_sample(name: str, settle: Callable[[str, list[Verdict]], None]) -> None:
    """Some mutants of every eleventh kernel; the long tests have all of all kernels."""
    chosen = case(name)
    rng = random.Random(f"{name} 0")
    size = FEWER if name.startswith(("blackwell_v", "decode_ring", "latent_ring", "backward_")) else SAMPLE
    prepared = rng.sample(chosen.mutants, min(size, len(chosen.mutants)))
    read = rng.sample(chosen.source_mutants, min(size, len(chosen.source_mutants)))
    settle(name, [chosen.judge(m) for m in prepared] + [chosen.judge(m, prepared=False) for m in read])


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_all(name: str, settle: Callable[[str, list[Verdict]], None]) -> None:
    chosen = case(name)
    settle(name, [chosen.judge(m) for m in chosen.mutants])


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_all_before_the_passes(name: str, settle: Callable[[str, list[Verdict]], None]) -> None:
    chosen = case(name)
    settle(name, [chosen.judge(m, prepared=False) for m in chosen.source_mutants])


def test_every_synchronisation_of_a_ring_has_its_mutants() -> None:
    """Waits, arrivals, bytes, counts, parities, groups, the init fence, and where the rings wrap."""
    texts = {mutant.what for mutant in case("ring_copy").mutants}
    assert {
        "mbarrier.wait removed", "mbarrier.wait: parity flipped", "mbarrier.arrive removed",
        "mbarrier.arrive: one arrival more", "mbarrier.arrive_expect_tx removed",
        "mbarrier.arrive_expect_tx: bytes missing", "mbarrier.arrive_expect_tx: too many bytes",
        "mbarrier.init: count one higher", "fence.barrier_init removed", "tma.commit removed", "tma.wait removed",
        "tma.wait: one group more stays open", "a ring of 2 wraps at 1", "a ring of 2 wraps at 3",
    } <= texts
    assert {"mbarrier.arrive: only the lowest CTA of the mask", "tma.load: without the lowest CTA of the mask"} <= {
        mutant.what for mutant in case("multicast_copy").mutants
    }


def test_every_synchronisation_of_a_pair_has_its_mutants() -> None:
    """Commits and their masks, the barriers of accumulators, bytes on the even CTA, and what the compiler writes itself."""
    chosen = case("blackwell_v5")
    texts = {mutant.what for mutant in chosen.mutants}
    assert {
        "tcgen05.commit removed", "tcgen05.commit: only the lowest CTA of the mask",
        "tcgen05.commit: without the lowest CTA of the mask", "tma.load: bytes on the CTA's own barrier",
        "tcgen05.fence.before removed", "tcgen05.fence.after removed", "tcgen05.wait.load removed",
    } <= texts
    lines = {mutant.loc.text.strip() for mutant in chosen.source_mutants if "mbarrier" in mutant.what}
    assert {"t = accs.acquire()  # the epilogues of both CTAs have read it", "t = accs.wait()", "accs.release()"} <= lines
    removed = [mutant for mutant in chosen.mutants if mutant.what == "tcgen05.wait.load removed"]
    assert [chosen.judge(mutant).how for mutant in removed[-1:]] == ["uninitialised-read"]


def test_a_mutant_differs_from_the_original_in_one_place() -> None:
    chosen = case("tma_copy")
    removed = next(m for m in chosen.mutants if m.what == "tma.commit removed")
    before, after = list(chosen.function.walk()), list(removed.function.walk())
    assert len(after) == len(before) - 1
    assert next(op for op in before if op not in after).mnemonic == "tma.commit"
