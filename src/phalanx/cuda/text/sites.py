"""Places of a kernel that can report from the GPU."""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.ops.control import span_text
from phalanx.location import Location


@frozen
class Site:
    """A place that can stop the kernel: what a record in the debug buffer refers to.

    `kind` is "wait" (`name` is the barrier array's) or "assert" (`name` is the message); `role` is empty outside roles.
    `copies`: of a role with copies, the first warp and the warps of one.
    """

    kind: str
    name: str
    role: str
    location: Location
    copies: tuple[int, int] | None = None

    def who(self, warp: int) -> str:
        """The agent that a warp of the CTA belongs to, as a report names it."""
        if self.copies is None:
            return self.role or "all warps"
        first, count = self.copies
        return span_text(first + (warp - first) // count * count, count)
