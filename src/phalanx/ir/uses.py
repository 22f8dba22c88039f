"""What accesses of memory are for."""

from __future__ import annotations

from enum import Enum


class Use(Enum):
    """What an access is for: layouts of memory follow from that."""

    ORDINARY = "ordinary"
    """Elements to and from registers."""
    COPY = "copy"
    """A box that an engine moves."""
    ROWS = "rows"
    """Rows that an engine moves, each named by an index."""
    OPERAND = "operand"
    """A matrix that is multiplied."""
    ACCUMULATOR = "accumulator"
    """A matrix that products are added to."""
    SCALE = "scale"
    """Factors of blocks of an operand."""
    RELEASE = "release"
    """Memory is given back: nobody may use it any more."""
