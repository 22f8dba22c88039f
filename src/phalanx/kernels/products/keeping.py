"""How much L2 keeps, for a next launch, of an operand that is larger than L2 and is read once.

Launch after launch over the same weights finds none of them in L2 if they do not fit: each pushes out what the next one asks
for first. So L2 is told of most of the bytes that they may go first, and of the others nothing: these stay.
"""

from __future__ import annotations

from phalanx.ir.ops.tma import HINTED_PARTS
from phalanx.machines.h200 import H200

KEPT_PARTS = (8, 6, 4, 3, 2)
"""Sixteenths that may stay: few numbers, since each is a kernel to compile. One of 16 would save little."""


def kept_parts(nbytes: int, written: int) -> int:
    """Sixteenths of an operand of so many bytes that L2 keeps although it is told that the operand is read once.

    None of one that L2 may hold as a whole, and none beside so large a result that this pushes out what is kept.
    """
    if nbytes < 2 * H200.kept_of_stream or 4 * written > nbytes:
        return 0
    return next((parts for parts in KEPT_PARTS if parts * nbytes <= HINTED_PARTS * H200.kept_of_stream), 0)


def streaming_hint(kept: int) -> str:
    """What L2 is told of an operand of which it keeps so many sixteenths."""
    return f"evict_first {HINTED_PARTS - kept}/{HINTED_PARTS}" if kept else "evict_first"


__all__ = ["kept_parts", "streaming_hint"]
