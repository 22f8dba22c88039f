"""`outlines_only`: calls of kernels and of the library that make their results and launch nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.runtime.device.outlines import outlined
from phalanx.runtime.launch.launch_list import recording


@contextmanager
def outlines_only() -> Iterator[None]:
    """Within it, this thread's calls of kernels and of the library launch nothing and read no pointer.

    While it lasts somebody records, so that no call is repeated from memory, which would read pointers first. For whoever
    presents the library to a framework that traces; no hardware is involved. Example::

        with outlines_only():
            y = px.kernels.softmax(fake)  # a tensor of the right shape, type and strides
    """
    with recording(), outlined():
        yield
