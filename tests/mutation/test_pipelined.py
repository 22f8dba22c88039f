"""Mutants of loops that pipeline themselves: what the compiler wrote is needed, as if somebody had written it by hand."""

from __future__ import annotations

import pytest

from mutation.pipelined import PIPELINED

EQUIVALENT = {"mbarrier.arrive_expect_tx: relaxed", "tma.wait: waits for the reads only"}
"""Who asks for copies has nothing to publish; and nobody reads what is stored before the kernel is over."""
PEELED = {"mbarrier.arrive: relaxed", "a ring of 2 wraps at 3"}
"""Of the steps that stand before and behind a loop whose products overlap: there a stage is the first or the last."""

ALONE = {"mbarrier.wait removed", "mbarrier.arrive: relaxed"}
"""Who fetches for itself has given the stage back itself: the barrier is for its other warpgroups, which one role hides."""
MET = {"cluster.wait removed", "cluster.sync removed", "cluster.sync: relaxed"}
"""CTAs that meet behind their loops have begun long before, and nobody ends while another still needs it."""
EXCHANGED = {"cluster.turn: a ring of 2 wraps at 1", "cluster.turn: a ring of 2 wraps at 3"}
"""Of two exchanges the one thanks before the other is sent: one inbox would do, and a third is not come to."""
ONE_RECEIVES = {"cluster.send: only the lowest CTA of the mask"}
NARROW = {"mbarrier.arrive: of CTA scope", "mbarrier.wait: of CTA scope"}
"""At the second barrier of a tile: it lets a CTA store anew, and brings nobody any stores."""
SECOND = {"mbarrier.wait removed", "mbarrier.arrive: relaxed"}
"""Of two rings that a step takes, the one whose stages come back first: the barriers of the other one speak for it."""
PAIR = {"tcgen05.fence.before removed", "mbarrier.arrive: only the lowest CTA of the mask"}
"""The last tile's fences order what nobody comes after; a sum's place is given back to one CTA, that of lowest rank."""
ALLOWED = {
    "pipelined attention": EQUIVALENT | PEELED, "pipelined matmul, without a producer": EQUIVALENT | ALONE,
    "pipelined parts, reduced": EQUIVALENT | MET | EXCHANGED | ONE_RECEIVES,
    "pipelined parts, at a barrier": EQUIVALENT | MET | NARROW,
    "pipelined operands": EQUIVALENT | PEELED, "pipelined promotion": EQUIVALENT | PEELED | SECOND,
    "pipelined recurrence": EQUIVALENT | SECOND, "pipelined pair": EQUIVALENT | PAIR,
}  # fmt: skip


@pytest.mark.share(7)
@pytest.mark.parametrize("name", PIPELINED)
def test_all(name: str) -> None:
    case = PIPELINED[name]()
    verdicts = [case.judge(mutant) for mutant in case.mutants]
    assert len(verdicts) > 20
    assert not [f"{v.mutant}: {v.detail}" for v in verdicts if not v.is_explained]
    assert {v.mutant.what for v in verdicts if v.how == "equivalent"} <= ALLOWED.get(name, EQUIVALENT)
