"""How much L2 keeps, for a next launch, of an operand that is larger than L2 and is read once.

Launch after launch over the same weights finds none of them in L2 if they do not fit: each pushes out what the next one asks
for first. So L2 is told of most of the bytes that they may go first, and of the others nothing: these stay. Of weights that
do fit, under few rows, the larger part stays. The rest leaves room for what others have written: a launch that finds none of
its weights in L2 need not wait until that is in memory.
"""

from __future__ import annotations

from phalanx.ir.ops.tma import HINTED_PARTS
from phalanx.machines.h200 import H200

MANY_MATRICES = 8
"""With this many matrices or more in a batch L2 keeps every operand. Of 37 such products from 100 MB on the hint not to
keep one costs 34 up to 38%, 6% in the mean; the others gain up to 5%. Five of two or four matrices gain 3 to 15%, one
loses 1% (`sweep_narrow.json`)."""
LEAST_READ = 4
"""Else an operand may where so many times as much is read as written: what would be kept beside larger results is pushed
out."""
FITS_BESIDE = 90_000_000
"""Bytes of a product that L2 holds a good part of, whatever it writes: of six up to 82 MB four take 5 to 21% less with the
hint (`sweep_narrow.json`)."""
KEPT_PARTS = (8, 6, 4, 3, 2)
"""Sixteenths that may stay: few numbers, since each is a kernel to compile. One of 16 would save little."""


def reads_mostly(read: int, written: int) -> bool:
    """Whether so much more is read than written that a part of what is read stays in L2 beside the result."""
    return LEAST_READ * written <= read


def kept_parts(nbytes: int, written: int, passing: bool = False) -> int:
    """Sixteenths of an operand of so many bytes that L2 keeps although it is told that the operand is read once.

    None of one that L2 may hold as a whole, unless few rows pass by it (`passing`: the next launch shall find most of it);
    and none beside so large a result that this pushes out what is kept.
    """
    if nbytes < 2 * H200.kept_of_stream:
        return H200.passing_kept if passing else 0
    if not reads_mostly(nbytes, written):
        return 0
    return next((parts for parts in KEPT_PARTS if parts * nbytes <= HINTED_PARTS * H200.kept_of_stream), 0)


def may_stream(read: int, written: int, batch: int) -> bool:
    """Whether L2 is told of an operand that it may go first, in a product that reads and writes so many bytes.

    The model of tiles is fitted to times with that hint; without it large batches take no longer.
    """
    return read + written < FITS_BESIDE or (batch < MANY_MATRICES and reads_mostly(read, written))


def streaming_hint(kept: int) -> str:
    """What L2 is told of an operand of which it keeps so many sixteenths."""
    return f"evict_first {HINTED_PARTS - kept}/{HINTED_PARTS}" if kept else "evict_first"
