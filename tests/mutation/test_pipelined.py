"""Mutants of loops that pipeline themselves: all that the compiler wrote is needed, as if somebody had written it by hand."""

from __future__ import annotations

import pytest

from mutation.pipelined import PIPELINED


@pytest.mark.share(2)
@pytest.mark.parametrize("name", PIPELINED)
def test_all(name: str) -> None:
    """Only who asks for copies may do it relaxed: it has nothing to publish."""
    case = PIPELINED[name]()
    verdicts = [case.judge(mutant) for mutant in case.mutants]
    assert len(verdicts) > 20
    assert not [f"{v.mutant}: {v.detail}" for v in verdicts if not v.is_explained]
    assert {v.mutant.what for v in verdicts if v.how == "equivalent"} <= {"mbarrier.arrive_expect_tx: relaxed"}
