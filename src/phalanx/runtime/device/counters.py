"""Counters in device memory that kernels draw tiles from, or count with, owned by the runtime: no two launches in flight
share one.

A launch finds its counters at 0 and leaves them so; who draws the last tile, or comes last, sets them back. A stream has
a ring of them, and each launch takes the next: launches that overlap (`pdl=True`) have different ones, since the ring is
longer than the number of grids that a GPU runs at once (128), so that who takes a place again comes after its former
owner has ended. A launch that is captured into a CUDA graph gets counters that nobody else ever gets: the graph owns
them, and its launches come one after the other. A launch that the driver refuses, or that ends in an error, may leave
counters that are not 0, and a context that is gone: all rings are forgotten then, and the next launch begins with memory
of its own.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, proxy

from phalanx.ir.core import MOST_COUNTERS, MOST_DRAWN
from phalanx.runtime.device.driver import Driver, pointer_argument

SLOT_BYTES = 4 * (MOST_COUNTERS + MOST_DRAWN)
"""What a launch gets: as many words as a kernel may have counters, its own and the compiler's."""
RING = 256
"""Launches of a stream until a place comes again."""
PER_THREAD = 2
"""The handle that is another stream in each thread (`CU_STREAM_PER_THREAD`)."""
PAGE = 512
"""Places for captured launches that are allocated at a time."""


@dataclass(slots=True)
class _Ring:
    """Places from `start` on, 0 as long as there is no memory; `stream` as the driver takes it soonest."""

    start: int = 0
    next: int = 0
    stream: ctypes.c_void_p | None = None


class Counters:
    """The counters of one device. Any thread may take some."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver, self.device = proxy(driver), device  # which has them, and not the other way round
        self._lock = threading.Lock()
        self._rings: dict[Any, _Ring] = {}  # by stream
        self._page = _Ring(0, PAGE)
        self._is_capturing = driver.untyped("cuStreamIsCapturing")
        self._answer = ctypes.c_int()
        self._answer_argument = pointer_argument(ctypes.addressof(self._answer))

    def take(self, stream: int) -> int:
        """The address of counters for a launch that is enqueued on `stream` next."""
        with self._lock:
            whose = stream if stream != PER_THREAD else (stream, threading.get_ident())
            ring = self._rings.get(whose)
            if ring is None:
                ring = self._rings[whose] = _Ring(stream=ctypes.c_void_p(stream))
            # A status that is no success says that nothing can be launched there either: the launch will tell.
            if not self._is_capturing(ring.stream, self._answer_argument) and self._answer.value:
                return self._for_graph()
            if not ring.start:  # nothing can be allocated for a stream that is captured
                ring.start = self._allocate(RING)
            place = ring.next
            ring.next = (place + 1) % RING
            return ring.start + place * SLOT_BYTES

    def forget(self) -> None:
        """What was handed out may be in any state: launches from here on get other memory."""
        with self._lock:
            self._rings.clear()

    def _for_graph(self) -> int:
        page = self._page
        if page.next == PAGE:
            page.start, page.next = self._allocate(PAGE), 0
        page.next += 1
        return page.start + (page.next - 1) * SLOT_BYTES

    def _allocate(self, places: int) -> int:
        with self.driver.context(self.device):
            return self.driver.allocate_zeros(places * SLOT_BYTES)


_COUNTERS: WeakKeyDictionary[Driver, dict[int, Counters]] = WeakKeyDictionary()


def counters_of(driver: Driver, device: int) -> Counters:
    """The counters of a device, for whoever launches a kernel that draws from some."""
    devices = _COUNTERS.setdefault(driver, {})
    return devices.setdefault(device, Counters(driver, device))
