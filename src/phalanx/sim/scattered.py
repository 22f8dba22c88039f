"""Buffers whose elements lie where a layout says: which of them share memory, and what is left of one where another is
written.

The simulator keeps each such buffer as an array of its own. Where two of them share cells (`reuse=`), a write through one
of them leaves nothing of the other there: what it had is poisoned, as memory is at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.ir.core import Function
from phalanx.ir.memory import may_share_bytes
from phalanx.ir.views import Buffer

if TYPE_CHECKING:
    from phalanx.sim.machine import Cta
    from phalanx.sim.places import BufferPlace


def cells_of(buffer: Buffer) -> np.ndarray:
    """The numbers of the bytes that each element occupies in its memory, along one more axis."""
    from phalanx.layouts.tensor_bytes import bytes_of  # loaded by the kernels alone that have such memory

    return bytes_of(buffer)  # type: ignore[arg-type]


def scattered_bytes(function: Function) -> int:
    """The size of that memory; 0 where a kernel has none of it."""
    if not any(buffer.space.scattered for buffer in function.buffers):
        return 0
    from phalanx.layouts.tensor_bytes import TENSOR_BYTES

    return TENSOR_BYTES


def region_key(place: BufferPlace) -> tuple[Any, ...]:
    """A region of a buffer as something to look up by."""
    return (place.buffer, *[(p.start, p.stop) if isinstance(p, slice) else p for p in place.key])


class Overlays:
    """The buffers of a kernel that take over cells of each other."""

    def __init__(self, function: Function) -> None:
        scattered = [buffer for buffer in function.buffers if buffer.space.scattered]
        self.others: dict[Buffer, list[Buffer]] = {}
        """What else lies in the memory of a buffer; nothing for those that are alone in theirs."""
        for buffer in scattered:
            others = [other for other in scattered if other is not buffer and may_share_bytes(other, buffer)]
            if others:
                self.others[buffer] = others
        self.lost: dict[tuple[Any, ...], list[tuple[Buffer, np.ndarray]]] = {}
        """For each region that was written: the elements of other buffers that are gone."""

    def written(self, place: BufferPlace, cta: Cta, poison: int) -> None:
        """A region was written in `cta`: what other buffers had in its cells is gone."""
        if place.buffer not in self.others:
            return
        key = region_key(place)
        lost = self.lost.get(key)
        if lost is None:
            hit = np.zeros(cta.cluster.machine.scattered_bytes, np.bool_)
            hit[cells_of(place.buffer)[place.key]] = True
            lost = [(other, hit[cells_of(other)].any(axis=-1)) for other in self.others[place.buffer]]
            lost = self.lost[key] = [(other, elements) for other, elements in lost if elements.any()]
        for other, elements in lost:
            array = cta.buffers[other]
            array[elements] = np.full(array.itemsize, poison, np.uint8).view(array.dtype)[0]
