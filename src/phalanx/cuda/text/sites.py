"""Places of a kernel that can report from the GPU."""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.location import Location


@frozen
class Site:
    """A place that can stop the kernel: what a record in the debug buffer refers to.

    `kind` is "wait" (`name` is the barrier array's) or "assert" (`name` is the message); `role` is empty outside roles.
    """

    kind: str
    name: str
    role: str
    location: Location
