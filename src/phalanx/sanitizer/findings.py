"""What the checks report: one finding per cause, deduplicated by kind and pair of places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from phalanx.location import NOWHERE, Location
from phalanx.sanitizer.finding_text import plain_text
from phalanx.sanitizer.records import Actor

KINDS = (
    "race", "proxy", "deadlock", "tx-mismatch", "over-arrival", "count-mismatch", "barrier-uninitialised",
    "barrier-reinitialised", "barrier-invalidated", "barrier-memory", "uninitialised-read", "out-of-bounds",
    "misaligned", "exit-hazard", "unfinished", "wgmma-hazard", "region-mismatch", "endless-loop", "division-by-zero",
    "tmem-lifetime", "pair", "clc",
)
"""Every kind of finding, as in the table of `docs/checks.md`."""

DERAILING = frozenset({
    "race", "tx-mismatch", "over-arrival", "barrier-uninitialised", "barrier-reinitialised", "barrier-invalidated",
    "barrier-memory", "out-of-bounds", "misaligned", "tmem-lifetime", "pair", "clc",
})
"""After one of these a later deadlock, or a read of what was never written, has a known cause."""


ENDING = frozenset({"deadlock", "uninitialised-read", "wgmma-hazard", "endless-loop", "division-by-zero"})
"""These may end a run."""


@dataclass
class Finding:
    """A mistake in the choreography.

    `location` is where it shows, `other` the place it conflicts with (None where there is none); both have `.file`,
    `.line` and `.column`. `agents` says who: cluster, CTA, warps or engine. `count` is how often it was seen.
    """

    kind: str
    message: str
    location: Location
    other: Location | None = None
    agents: tuple[Actor, ...] = ()
    notes: tuple[str, ...] = ()
    """Further lines: the state of barriers, tables."""
    label: str = ""
    """What happens at `location`, for its caret."""
    other_label: str = ""
    count: int = 1
    schedule: str = ""
    seed: int = 0

    def __str__(self) -> str:
        return plain_text(self)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": self.kind,
            "message": self.message,
            "location": place_dict(self.location),
            "other": None if self.other is None else place_dict(self.other),
            "agents": [
                {
                    "cluster": actor.cluster, "cta": actor.cta, "role": actor.role, "first_warp": actor.first_warp,
                    "warps": actor.warps, "engine": actor.engine,
                }
                for actor in self.agents
            ],
            "notes": list(self.notes),
            "count": self.count,
            "schedule": self.schedule,
            "seed": self.seed,
        }


def ends_search(findings: list[Finding]) -> bool:
    """Whether further schedules would only show the same causes in other clothes."""
    return any(finding.kind in DERAILING or finding.kind in ENDING for finding in findings)


def merged(known: list[Finding], found: list[Finding]) -> list[Finding]:
    """The findings of one more schedule, without those that are known."""
    seen = {key_of(finding.kind, finding.location, finding.other) for finding in known}
    return [*known, *(f for f in found if key_of(f.kind, f.location, f.other) not in seen)]


def place_dict(location: Location) -> dict[str, Any]:
    """A place as data, for reports that machines read."""
    return {
        "file": location.file, "line": location.line, "column": location.column, "function": location.function,
        "text": location.text.strip(),
    }


def site(location: Location | None) -> tuple[str, int, int] | None:
    """What makes two places the same: a line may have several calls."""
    return None if location is None or location is NOWHERE else (location.file, location.line, location.column)


Key = tuple[str, frozenset[tuple[str, int, int] | None]]


def key_of(kind: str, location: Location, other: Location | None) -> Key:
    return kind, frozenset((site(location), site(other)))


@dataclass
class Findings:
    """The findings of one run. Those that are certain only at the end (see `withdraw`) are kept apart until then."""

    schedule: str = ""
    seed: int = 0
    items: dict[Key, Finding] = field(default_factory=dict)
    tentative: list[tuple[Callable[[], bool], Finding]] = field(default_factory=list)
    derailed: set[int] = field(default_factory=set)
    """Clusters whose synchronisation is no longer what the kernel wrote."""

    def add(
        self, kind: str, location: Location, other: Location | None = None, *, cluster: int | None = None,
        describe: Callable[[], Finding],
    ) -> None:
        """Counts the finding; `describe` writes it down if it is new."""
        if cluster is not None and kind in DERAILING:
            self.derailed.add(cluster)
        if not self.again(kind, location, other):
            finding = describe()
            finding.schedule, finding.seed = self.schedule, self.seed
            self.items[key_of(kind, location, other)] = finding

    def again(self, kind: str, location: Location, other: Location | None) -> bool:
        """Counts a finding that is known already; False if it is not."""
        known = self.items.get(key_of(kind, location, other))
        if known is not None:
            known.count += 1
        return known is not None

    def suspect(self, finding: Finding, holds: Callable[[], bool]) -> None:
        """A finding that counts only if `holds()` is true when the run is over."""
        self.tentative.append((holds, finding))

    def settle(self) -> None:
        """The run is over: decides about the suspects."""
        for holds, finding in self.tentative:
            if holds():
                known = self.items.get(key_of(finding.kind, finding.location, finding.other))
                if known is not None:
                    known.count += finding.count
                else:
                    self.add(finding.kind, finding.location, finding.other, describe=partial(copy, finding))
        self.tentative.clear()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items.values())
