"""What a fuzzing kind says of one seed, and which options it is run with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Outcome:
    """The verdict on one seed: a word that is counted, and the story of what went wrong, if anything did."""

    seed: int
    verdict: str
    problem: str | None = None


@dataclass(frozen=True)
class Options:
    """Where cases run and where their files go. A kind ignores what it has no use for."""

    gpu: bool = False
    host: bool = True
    sanitize: bool = False
    folder: Path = Path(".")


class Kind(Protocol):
    """A module of this package that draws and judges cases."""

    BATCH: int
    """How many seeds `judge` likes to have at once: many kernels in one translation unit compile in one go."""

    def judge(self, seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
        """Draws the case of each seed and says how it went."""
