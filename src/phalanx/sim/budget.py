"""How long a run may go on in its loops, and what is shown while it does.

A step is one instruction on scalars in the body of a loop; one on tiles or memory counts sixteen, about as much time. The
budget holds for each cluster, so that a large grid is no reason to stop. `PHALANX_STEPS` is another number of steps;
`PHALANX_PROGRESS` 1 or 0 shows how far a long run is, or not, also where stderr is no terminal.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter
from typing import TextIO

from phalanx.errors import Error
from phalanx.ir.core import Function, Op

DEFAULT_STEPS = 50_000_000
CHUNK = 1 << 16
"""Steps that an agent makes before it asks for more."""
CALL = 16
"""Steps of an instruction that is not inline: on tiles, memory or barriers."""
PROBE = 8
"""Steps of a round of a loop that polls: such loops have a limit of their own, which comes first."""
WATCHED = 2_000_000
"""Steps at the end of a budget in which the rounds of each loop are counted, to name the one that does not end."""
QUIET = 3.0
"""Seconds until a run counts as long."""
PAUSE = 0.5
"""Seconds between two lines of progress."""


def steps_allowed() -> int:
    """The budget of a cluster."""
    text = os.environ.get("PHALANX_STEPS", "").replace("_", "").replace(",", "")
    if not text:
        return DEFAULT_STEPS
    if not text.isdecimal() or not int(text):
        raise Error(
            f"PHALANX_STEPS={os.environ['PHALANX_STEPS']!r} is no number of steps",
            remedy=f"give the most steps that a cluster may make in its loops, e.g. {10 * DEFAULT_STEPS}",
        )
    return int(text)


class Progress:
    """One line on stderr about a long run, for a person at a terminal."""

    def __init__(self, name: str, clusters: int, out: TextIO | None = None) -> None:
        wanted = os.environ.get("PHALANX_PROGRESS", "")
        self.out = out or sys.stderr
        self.shown = wanted not in ("", "0") or (not wanted and self.out is not None and self.out.isatty())
        self.name = name
        self.clusters = clusters
        self.done = 0
        self.began = self.last = perf_counter()
        self.width = 0

    def cluster_finished(self) -> None:
        """Counts a cluster that has run to its end."""
        self.done += 1
        if self.shown and not self.done & 15:
            self.tick(0)

    def tick(self, steps: int) -> None:
        """Called now and then; says something where the run has taken long, and not too often."""
        if not self.shown:
            return
        now = perf_counter()
        if now - self.began < QUIET or now - self.last < PAUSE:
            return
        self.last = now
        loops = f", {steps:,} steps in the loops of this one" if steps else ""
        text = f"{self.name}: {self.done:,} of {self.clusters:,} clusters{loops}, {now - self.began:.0f} s"
        self.write("\r" + text.ljust(self.width))
        self.width = len(text)

    def end(self) -> None:
        """Takes the line away."""
        if self.width:
            self.write("\r" + " " * self.width + "\r")
            self.width = 0

    def write(self, text: str) -> None:
        """Writes to the terminal, and falls silent where nobody reads any more."""
        try:
            self.out.write(text)
            self.out.flush()
        except (OSError, ValueError):  # nobody reads it any more
            self.shown = False


class Budget:
    """The steps of the cluster that runs. Agents take them in chunks; a chunk counts when it is used up."""

    def __init__(self, function: Function, clusters: int) -> None:
        self.limit = steps_allowed()
        self.chunk = max(1, min(CHUNK, self.limit // 64))
        self.watched = min(WATCHED, self.limit // 4)
        self.used = 0
        self.rounds: dict[Op, int] = {}
        self.watching = False
        self.progress = Progress(function.name, clusters)
        if clusters * CALL > self.limit:
            raise Error(
                f"a grid of {clusters:,} clusters is more than the simulator runs", location=function.loc,
                remedy=f"launch fewer, or allow more: PHALANX_STEPS={clusters * CALL} (it is {self.limit:,} steps now, "
                f"and a cluster takes at least {CALL})",
            )

    def renew(self) -> None:
        """Another cluster begins to run, or this one begins anew."""
        self.used = 0
        self.watching = False
        self.rounds.clear()

    def cluster_finished(self) -> None:
        """Begins the count of the next cluster."""
        self.renew()
        self.progress.cluster_finished()

    def take(self, nest: tuple[Op, ...], steps: int) -> int:
        """More steps for an agent that is in the last of these loops, each inside the one before; `steps` in a round."""
        if not self.watching:
            self.used += self.chunk
            self.progress.tick(self.used)
            self.watching = self.used + self.watched >= self.limit
            return 0 if self.watching else self.chunk
        self.used += steps
        self.rounds[nest[-1]] = self.rounds.get(nest[-1], 0) + 1
        if self.used < self.limit:
            return 0
        goes_round = next((loop for loop in nest if self.rounds.get(loop, 0) > 1), nest[-1])
        raise Error(
            f"this loop still goes round after {self.limit:,} steps of its cluster",
            location=goes_round.loc, kind="endless-loop",
            remedy="let what ends it come about; a run that needs more steps gets them by the environment variable "
            f"PHALANX_STEPS={10 * self.limit}",
        )

