"""What a modelled run writes down: one event for each stretch of work and each wait, with what it came after."""

from __future__ import annotations

from dataclasses import dataclass, field

from phalanx.frozen import frozen
from phalanx.location import NOWHERE, Location

CLUSTER_BARRIER = "the cluster's barrier"
"""What events call it."""


@frozen
class Lane:
    """A row of a timeline: an agent, or an engine, in a CTA of a cluster that is resident in one place of an SM."""

    place: int
    """The number of the cluster among those that an SM holds at a time."""
    cta: int
    """The rank in its cluster."""
    first: int
    """The agent's first warp; -1 for the code around roles, and for engines that serve the whole CTA."""
    engine: str
    """"" for the agent itself."""
    title: str


@dataclass(eq=False, slots=True)
class Event:
    """Work of an agent or an engine, or a wait of an agent, from one time to another, in cycles.

    `kind`: "work", "signal", "wait", "copy", "store", "load", "product". `after` is the number of the event that it could
    not begin before: its agent's last one, who gave the engine this work, or what kept the engine busy. `released_by`, for
    waits: the number of the event that ended it.
    """

    number: int
    lane: Lane
    kind: str
    start: float
    end: float
    text: str
    """The instruction, as listings call it."""
    location: Location = NOWHERE
    nbytes: int = 0
    barrier: str = ""
    phase: int = -1
    after: int = -1
    released_by: int = -1
    cluster: int = 0
    """The number of the cluster in the grid."""

    @property
    def cycles(self) -> float:
        """How long it took."""
        return self.end - self.start

    @property
    def line(self) -> str:
        """`name.py:12`, for tables."""
        return self.location.short if self.location is not NOWHERE else ""


@dataclass(frozen=True)
class Use:
    """A buffer's stage is written or read, in a CTA."""

    cta: int
    buffer: str
    stage: int
    stages: int
    start: float
    end: float
    writes: bool


@dataclass
class Run:
    """All that a modelled run wrote down."""

    events: list[Event] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    busy: dict[str, float] = field(default_factory=dict)
    """Cycles that each shared unit was busy, of the SM where that is most."""
    end: float = 0.0
    finished: list[float] = field(default_factory=list)
    """When each cluster of the run ended."""
    requested: dict[int, int] = field(default_factory=dict)
    """Bytes that were read of each array, by its number among the arguments."""
