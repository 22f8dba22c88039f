"""The threads that a stretch of CUDA text is written for: `WrittenAgent`."""

from __future__ import annotations

from phalanx.frozen import frozen


@frozen
class WrittenAgent:
    """The warps that run the code being written: all of the CTA, or one role's.

    Of a role with `copies`, `warps` is the number of one, every `pitch` warps another one begins, and their barriers have
    the numbers from `barrier_id` on.
    """

    name: str
    first: int
    warps: int
    barrier_id: int
    copies: int = 1
    pitch: int = 0

    @property
    def threads(self) -> int:
        """The agent's threads."""
        return 32 * self.warps
