"""Seeds in batches, dealt to processes: a module of its own, which processes that are spawned can import."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from fuzz.outcomes import Options, Outcome


def judged(work: tuple[str, list[int], Options]) -> list[Outcome]:
    """All outcomes of a batch, in a process of its own where there are several."""
    kind, seeds, options = work
    return list(importlib.import_module(f"fuzz.{kind}").judge(seeds, options))


def batches(kind: str, first: int, count: int, options: Options) -> list[tuple[str, list[int], Options]]:
    """The seeds cut into what the kind likes to have at once."""
    size = importlib.import_module(f"fuzz.{kind}").BATCH
    seeds = range(first, first + count)
    return [(kind, list(seeds[n : n + size]), options) for n in range(0, count, size)]


def outcomes(work: list[tuple[str, list[int], Options]], jobs: int) -> Iterator[list[Outcome]]:
    """The outcomes of each batch, in the order of the seeds."""
    if jobs == 1:
        yield from map(judged, work)
        return
    # Not multiprocessing's pool: its processes may have no children, and kinds that may lose a process start one.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(judged, work)
