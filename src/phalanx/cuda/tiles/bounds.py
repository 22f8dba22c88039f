"""Indices of global arrays as text: exact for every value of every integer type, without signed overflow.

An axis has fewer than 2^31 elements. So a sum of a 32-bit start and a place in a tile may wrap around: what is not an
index of the array is, as an unsigned number, no smaller than any extent.
"""

from __future__ import annotations

from phalanx.analysis.limits import find_limits, largest
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.index import atom
from phalanx.ir.types import DType
from phalanx.ir.values import Value, constant_of

SMALL = 1 << 30
"""The places of a tile can be added to a start below this."""


def is_plain(dtype: DType) -> bool:
    """Whether an `int` holds every number of an integer type."""
    return dtype.bits < 32 or (dtype.bits == 32 and dtype.kind == "int")


def is_small(w: Writer, value: Value) -> bool:
    """Whether a start is surely a number to which the places of a tile can be added as they are."""
    number = largest(find_limits(w.plan.function), value)
    return number is not None and number < SMALL and is_plain(scalar_dtype(value))


def index_text(w: Writer, text: str, dtype: DType) -> str:
    """An index as an `int`: -2^31 for one that needs more bits."""
    return text if is_plain(dtype) else f"{w.use('index')}({text})"


def start_text(w: Writer, offset: Value) -> str:
    """The start of a view along an axis, as an `int`."""
    return index_text(w, w.name(offset), scalar_dtype(offset))


def wrapping_start(w: Writer, offset: Value) -> str:
    """A start to which places are added: a small number, else unsigned."""
    return w.name(offset) if is_small(w, offset) else f"(unsigned){atom(start_text(w, offset))}"


def ends_inside(w: Writer, offset: Value, extent: int, size: str) -> str:
    """The condition that `extent` elements from a start on end before an axis of `size` elements does."""
    number = constant_of(offset)
    if number is not None and 0 <= number < SMALL:
        return f"{int(number) + extent} <= {size}"
    return f"{start_text(w, offset)} <= {size} - {extent}"
