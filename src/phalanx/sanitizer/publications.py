"""What was published to a barrier, phase by phase."""

from __future__ import annotations

import numpy as np

from phalanx.sanitizer.abroad import NOTHING, Abroad, joined

HISTORY = 32
"""Phases of a barrier whose publications are kept one by one, besides its first."""


class Publication:
    """What was published to a barrier, phase by phase, each with what came before it: phases complete in order."""

    __slots__ = ("far", "history", "near", "open", "phase")

    def __init__(self) -> None:
        self.open: np.ndarray | None = None
        self.phase = 0
        self.history: dict[int, np.ndarray] = {}
        self.near: dict[int, Abroad] = {}
        """By phase, what was published of other clusters up to it, by agents of the barrier's CTA or at cluster scope."""
        self.far: dict[int, Abroad] = {}
        """By agents of other CTAs, for those who acquire it at cluster scope."""

    def reset(self) -> None:
        """A barrier begins anew: nothing is published."""
        self.open = None
        self.phase = 0
        if self.history:
            self.history.clear()
        if self.near:
            self.near.clear()
        if self.far:
            self.far.clear()

    def add(self, phase: int, vector: np.ndarray) -> None:
        """`vector` is published to `phase`, the current one."""
        before = self.open
        if before is None:
            self.open = vector.copy()
            self.phase = phase
        elif phase == self.phase:
            np.maximum(before, vector, out=before)
        else:
            self.history[self.phase] = before
            if len(self.history) > HISTORY:
                del self.history[list(self.history)[1]]  # the first stays
            self.open = np.maximum(before, vector)
            self.phase = phase

    def upto(self, phase: int) -> np.ndarray | None:
        """What `phase` and those before it published, as far as it was kept."""
        if self.open is not None and phase >= self.phase:
            return self.open
        found = self.history.get(phase)
        if found is None:
            found = next((vector for kept, vector in reversed(self.history.items()) if kept <= phase), None)
        return found

    def add_abroad(self, phase: int, abroad: Abroad, *, remote: bool = False) -> None:
        """What is published to `phase` of other clusters, if anything is known of any."""
        if abroad is NOTHING:
            return
        kept = self.far if remote else self.near
        kept[phase] = joined(_upto(kept, phase), abroad)
        if len(kept) > HISTORY:
            del kept[next(iter(kept))]


def _upto(kept: dict[int, Abroad], phase: int) -> Abroad:
    """What was published up to a phase."""
    return next((abroad for at, abroad in reversed(kept.items()) if at <= phase), NOTHING)


def abroad_upto(publication: Publication, phase: int) -> tuple[Abroad, Abroad]:
    """What a phase and those before it published of other clusters, within its CTA and from others."""
    return _upto(publication.near, phase), _upto(publication.far, phase)
