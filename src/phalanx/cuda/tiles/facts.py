"""What is known of a kernel's scalars, found once per plan."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from phalanx.cuda.plan import Plan
from phalanx.cuda.writer import Writer
from phalanx.passes.divisibility import Divisibility, find_divisibility

_KNOWN: WeakKeyDictionary[Plan, Divisibility] = WeakKeyDictionary()


def facts_of(w: Writer) -> Divisibility:
    """The divisibility of the kernel's integers: which offsets are multiples of a vector."""
    known = _KNOWN.get(w.plan)
    if known is None:
        known = _KNOWN[w.plan] = find_divisibility(w.plan.function)
    return known
